//! Single turns and activities, by hand.

use std::time::Duration;

use duroxide::providers::{
    ExecutionMetadata, OrchestrationItem, Provider, ProviderError, ScheduledActivityIdentifier,
    TagFilter, WorkItem,
};
use duroxide::{Event, EventKind};
use sidereal_duroxide::CosmosDBProvider;

pub(crate) const LOCK: Duration = Duration::from_secs(5);

/// The outcome of a turn; empty by default.
#[derive(Default)]
pub(crate) struct Done {
    pub(crate) events: Vec<Event>,
    pub(crate) activities: Vec<WorkItem>,
    pub(crate) messages: Vec<WorkItem>,
    pub(crate) metadata: ExecutionMetadata,
    pub(crate) cancelled: Vec<ScheduledActivityIdentifier>,
}

impl Done {
    /// The first turn of an orchestration.
    pub(crate) fn first(instance: &str) -> Self {
        let kind = EventKind::OrchestrationStarted {
            name: "Test".to_owned(),
            version: "1.0.0".to_owned(),
            input: String::new(),
            parent_instance: None,
            parent_id: None,
            parent_execution_id: None,
            carry_forward_events: None,
            initial_custom_status: None,
        };
        let metadata = ExecutionMetadata {
            orchestration_name: Some("Test".to_owned()),
            orchestration_version: Some("1.0.0".to_owned()),
            ..ExecutionMetadata::default()
        };
        let events = vec![Event::with_event_id(1, instance, 1, None, kind)];
        Self { events, metadata, ..Self::default() }
    }

    /// With an event of its own.
    pub(crate) fn with_event(mut self, instance: &str, id: u64) -> Self {
        let (name, data) = ("go".to_owned(), String::new());
        let kind = EventKind::ExternalEvent { name, data };
        self.events.push(Event::with_event_id(id, instance, 1, None, kind));
        self
    }

    pub(crate) fn with_activities(mut self, instance: &str, ids: std::ops::Range<u64>) -> Self {
        self.activities.extend(ids.map(|id| activity(instance, id, None)));
        self
    }
}

pub(crate) fn start(instance: &str) -> WorkItem {
    WorkItem::StartOrchestration {
        instance: instance.to_owned(),
        orchestration: "Test".to_owned(),
        input: String::new(),
        version: Some("1.0.0".to_owned()),
        parent_instance: None,
        parent_id: None,
        parent_execution_id: None,
        execution_id: 1,
    }
}

/// The message that the next execution begins with.
pub(crate) fn continue_as_new(instance: &str) -> WorkItem {
    WorkItem::ContinueAsNew {
        instance: instance.to_owned(),
        orchestration: "Test".to_owned(),
        input: String::new(),
        version: None,
        carry_forward_events: Vec::new(),
        initial_custom_status: None,
        parent_instance: None,
        parent_id: None,
        parent_execution_id: None,
    }
}

pub(crate) fn raised(instance: &str, data: &str) -> WorkItem {
    let (instance, name) = (instance.to_owned(), "go".to_owned());
    WorkItem::ExternalRaised { instance, name, data: data.to_owned() }
}

pub(crate) fn activity(instance: &str, id: u64, session: Option<&str>) -> WorkItem {
    WorkItem::ActivityExecute {
        instance: instance.to_owned(),
        execution_id: 1,
        id,
        name: "work".to_owned(),
        input: String::new(),
        session_id: session.map(str::to_owned),
        tag: None,
    }
}

pub(crate) fn completed(instance: &str, id: u64, result: String) -> WorkItem {
    WorkItem::ActivityCompleted { instance: instance.to_owned(), execution_id: 1, id, result }
}

pub(crate) async fn enqueue(provider: &CosmosDBProvider, item: WorkItem) {
    provider.enqueue_for_orchestrator(item, None).await.unwrap();
}

pub(crate) async fn fetch(provider: &CosmosDBProvider) -> Option<(OrchestrationItem, String, u32)> {
    provider.fetch_orchestration_item(LOCK, Duration::ZERO, None).await.unwrap()
}

pub(crate) async fn fetch_activity(provider: &CosmosDBProvider) -> Option<(WorkItem, String, u32)> {
    provider.fetch_work_item(LOCK, Duration::ZERO, None, &TagFilter::Any).await.unwrap()
}

pub(crate) async fn ack(
    provider: &CosmosDBProvider,
    token: &str,
    done: Done,
) -> Result<(), ProviderError> {
    let Done { events, activities, messages, metadata, cancelled } = done;
    provider
        .ack_orchestration_item(token, 1, events, activities, messages, metadata, cancelled)
        .await
}

/// Starts an instance, and commits its first turn.
pub(crate) async fn begin(provider: &CosmosDBProvider, instance: &str, done: Done) {
    enqueue(provider, start(instance)).await;
    let (_, token, _) = fetch(provider).await.unwrap();
    ack(provider, &token, done).await.unwrap();
}
