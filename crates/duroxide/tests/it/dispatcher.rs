//! A small runtime: it replays nothing and decides from the history alone, so that a turn which runs again decides
//! the same. Its time is tokio's, which duroxide's own runtime's is not.

use std::time::Duration;

use duroxide::providers::{
    ExecutionMetadata, OrchestrationItem, Provider, ProviderError, TagFilter, WorkItem,
};
use duroxide::{Event, EventKind};
use sidereal_duroxide::CosmosDBProvider;

pub(crate) const PARENT: &str = "parent";
pub(crate) const CHILD: &str = "parent::sub::1";
const LOCK: Duration = Duration::from_secs(5);

/// How many looks in a row find nothing before everything counts as done.
const IDLE_LOOKS: usize = 3;

/// How long it waits after a look that found nothing: longer than a lock is held without being renewed.
const IDLE_PAUSE: Duration = Duration::from_secs(6);

/// Enqueues the start of a parent with activities, a child and an event to wait for.
pub(crate) async fn start(provider: &CosmosDBProvider) -> Result<(), ProviderError> {
    let start = WorkItem::StartOrchestration {
        instance: PARENT.to_owned(),
        orchestration: "Parent".to_owned(),
        input: String::new(),
        version: Some("1.0.0".to_owned()),
        parent_instance: None,
        parent_id: None,
        parent_execution_id: None,
        execution_id: 1,
    };
    provider.enqueue_for_orchestrator(start, None).await
}

/// Raises the event that the parent waits for.
pub(crate) async fn raise(provider: &CosmosDBProvider) -> Result<(), ProviderError> {
    let raised = WorkItem::ExternalRaised {
        instance: PARENT.to_owned(),
        name: "go".to_owned(),
        data: String::new(),
    };
    provider.enqueue_for_orchestrator(raised, None).await
}

/// Works until nothing is left. What fails is left to its lock, as duroxide's runtime does.
pub(crate) async fn work(provider: &CosmosDBProvider, activities: u64) {
    let mut idle = 0;
    while idle < IDLE_LOOKS {
        let turn = provider.fetch_orchestration_item(LOCK, Duration::ZERO, None).await;
        if let Ok(Some((item, token, _))) = turn {
            idle = 0;
            take_turn(provider, item, &token, activities).await;
            continue;
        }
        let activity =
            provider.fetch_work_item(LOCK, Duration::ZERO, None, &TagFilter::DefaultOnly).await;
        if let Ok(Some((item, token, _))) = activity {
            idle = 0;
            // An error means that the result is not wanted, or comes again.
            let _ = provider.ack_work_item(&token, Some(completed(item))).await;
            continue;
        }
        idle += 1;
        tokio::time::sleep(IDLE_PAUSE).await;
    }
}

fn completed(item: WorkItem) -> WorkItem {
    let WorkItem::ActivityExecute { instance, execution_id, id, .. } = item else {
        panic!("only activities are fetched by workers");
    };
    WorkItem::ActivityCompleted { instance, execution_id, id, result: "done".to_owned() }
}

async fn take_turn(
    provider: &CosmosDBProvider,
    item: OrchestrationItem,
    token: &str,
    activities: u64,
) {
    assert_eq!(item.history_error, None);
    let mut turn = Turn::new(&item);
    if item.history.is_empty() {
        turn.begin(&item, activities);
    }
    for message in &item.messages {
        turn.take(message);
    }
    turn.end(&item, activities);
    let Turn { events, worker_items, orchestrator_items, metadata, .. } = turn;
    // An error means that the lock is gone, or that the turn runs again.
    let _ = provider
        .ack_orchestration_item(
            token,
            1,
            events,
            worker_items,
            orchestrator_items,
            metadata,
            vec![],
        )
        .await;
}

/// The decisions of a turn.
struct Turn {
    instance: String,
    known: Vec<Event>,
    events: Vec<Event>,
    worker_items: Vec<WorkItem>,
    orchestrator_items: Vec<WorkItem>,
    metadata: ExecutionMetadata,
}

impl Turn {
    fn new(item: &OrchestrationItem) -> Self {
        Self {
            instance: item.instance.clone(),
            known: item.history.clone(),
            events: Vec::new(),
            worker_items: Vec::new(),
            orchestrator_items: Vec::new(),
            metadata: ExecutionMetadata::default(),
        }
    }

    fn push(&mut self, source: Option<u64>, kind: EventKind) -> u64 {
        let last = self.known.last().map_or(0, Event::event_id);
        let event = Event::with_event_id(last + 1, &self.instance, 1, source, kind);
        self.known.push(event.clone());
        self.events.push(event);
        last + 1
    }

    fn begin(&mut self, item: &OrchestrationItem, activities: u64) {
        let is_parent = item.instance == PARENT;
        self.push(
            None,
            EventKind::OrchestrationStarted {
                name: item.orchestration_name.clone(),
                version: item.version.clone(),
                input: String::new(),
                parent_instance: (!is_parent).then(|| PARENT.to_owned()),
                parent_id: None,
                parent_execution_id: None,
                carry_forward_events: None,
                initial_custom_status: None,
            },
        );
        self.metadata.orchestration_name = Some(item.orchestration_name.clone());
        self.metadata.orchestration_version = Some(item.version.clone());
        self.metadata.parent_instance_id = (!is_parent).then(|| PARENT.to_owned());
        if !is_parent {
            return;
        }
        for _ in 0..activities {
            let (name, input) = ("work".to_owned(), String::new());
            let kind = EventKind::ActivityScheduled {
                name: name.clone(),
                input: input.clone(),
                session_id: None,
                tag: None,
            };
            let id = self.push(None, kind);
            let (instance, execution_id) = (self.instance.clone(), 1);
            let item = WorkItem::ActivityExecute {
                instance,
                execution_id,
                id,
                name,
                input,
                session_id: None,
                tag: None,
            };
            self.worker_items.push(item);
        }
        let (name, input) = ("Child".to_owned(), String::new());
        let id = self.push(
            None,
            EventKind::SubOrchestrationScheduled {
                name: name.clone(),
                instance: CHILD.to_owned(),
                input: input.clone(),
            },
        );
        self.orchestrator_items.push(WorkItem::StartOrchestration {
            instance: CHILD.to_owned(),
            orchestration: name,
            input,
            version: Some("1.0.0".to_owned()),
            parent_instance: Some(PARENT.to_owned()),
            parent_id: Some(id),
            parent_execution_id: Some(1),
            execution_id: 1,
        });
    }

    fn take(&mut self, message: &WorkItem) {
        match message {
            WorkItem::ActivityCompleted { id, result, .. } => {
                self.push(Some(*id), EventKind::ActivityCompleted { result: result.clone() });
            }
            WorkItem::SubOrchCompleted { parent_id, result, .. } => {
                let result = result.clone();
                self.push(Some(*parent_id), EventKind::SubOrchestrationCompleted { result });
            }
            WorkItem::ExternalRaised { name, data, .. } => {
                let (name, data) = (name.clone(), data.clone());
                self.push(None, EventKind::ExternalEvent { name, data });
            }
            _ => {}
        }
    }

    fn end(&mut self, item: &OrchestrationItem, activities: u64) {
        let count = |is: fn(&EventKind) -> bool| {
            self.known.iter().filter(|event| is(&event.kind)).count() as u64
        };
        let is_over = count(|kind| matches!(kind, EventKind::OrchestrationCompleted { .. })) > 0;
        let is_done = match item.instance.as_str() {
            PARENT => {
                count(|kind| matches!(kind, EventKind::ActivityCompleted { .. })) >= activities
                    && count(|kind| matches!(kind, EventKind::SubOrchestrationCompleted { .. }))
                        >= 1
                    && count(|kind| matches!(kind, EventKind::ExternalEvent { .. })) >= 1
            }
            _ => true,
        };
        if is_over || !is_done {
            return;
        }
        let output = "done".to_owned();
        self.push(None, EventKind::OrchestrationCompleted { output: output.clone() });
        self.metadata.status = Some("Completed".to_owned());
        self.metadata.output = Some(output.clone());
        let start = item.messages.iter().find_map(|message| match message {
            WorkItem::StartOrchestration { parent_id, .. } => *parent_id,
            _ => None,
        });
        if let Some(parent_id) = start {
            self.orchestrator_items.push(WorkItem::SubOrchCompleted {
                parent_instance: PARENT.to_owned(),
                parent_execution_id: 1,
                parent_id,
                result: output,
            });
        }
    }
}
