//! Dispatchers and workers as duroxide's runtime has them, on tokio's time: they wait for work, and a turn decides from
//! the history alone.

use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::{
    ExecutionMetadata, OrchestrationItem, Provider, SessionFetchConfig, TagFilter, WorkItem,
};
use duroxide::{Event, EventKind};
use sidereal_duroxide::CosmosDBProvider;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;

const TURN_LOCK: Duration = Duration::from_secs(5);
const ACTIVITY_LOCK: Duration = Duration::from_secs(30);
const LONG_POLL: Duration = Duration::from_secs(30);

/// How often a runtime extends its sessions, whether it has any or not.
const SESSION_RENEWAL: Duration = Duration::from_secs(25);

/// Dispatchers and workers of one process, until they are dropped.
pub(crate) struct Loops {
    tasks: JoinSet<()>,
    completed: UnboundedReceiver<String>,
}

impl Loops {
    /// As many dispatchers as workers.
    pub(crate) fn start(provider: &Arc<CosmosDBProvider>, each: usize) -> Self {
        let (told, completed) = unbounded_channel();
        let mut tasks = JoinSet::new();
        for number in 0..each {
            tasks.spawn(dispatch(Arc::clone(provider), told.clone()));
            tasks.spawn(work(Arc::clone(provider), format!("worker-{number}")));
        }
        let owner = Arc::clone(provider);
        tasks.spawn(async move {
            loop {
                tokio::time::sleep(SESSION_RENEWAL).await;
                let owners: Vec<String> =
                    (0..each).map(|number| format!("worker-{number}")).collect();
                let owners: Vec<&str> = owners.iter().map(String::as_str).collect();
                let renewed = owner.renew_session_lock(&owners, ACTIVITY_LOCK, LONG_POLL).await;
                assert_eq!(renewed.unwrap(), 0);
            }
        });
        Self { tasks, completed }
    }

    /// Waits until an orchestration's last turn was committed.
    pub(crate) async fn completed(&mut self, instance: &str) {
        while let Some(completed) = self.completed.recv().await {
            if completed == instance {
                return;
            }
        }
        panic!("the dispatchers have ended");
    }

    /// Ends them in the middle of whatever they do, as a process that is gone.
    pub(crate) async fn kill(mut self) {
        self.tasks.shutdown().await;
    }
}

/// An orchestration that runs activities, a child, or both, and is done with them.
pub(crate) fn start(instance: &str, activities: u64, child: Option<&str>) -> WorkItem {
    WorkItem::StartOrchestration {
        instance: instance.to_owned(),
        orchestration: "Test".to_owned(),
        input: format!("{activities},{}", child.unwrap_or_default()),
        version: Some("1.0.0".to_owned()),
        parent_instance: None,
        parent_id: None,
        parent_execution_id: None,
        execution_id: 1,
    }
}

async fn dispatch(provider: Arc<CosmosDBProvider>, completed: UnboundedSender<String>) {
    loop {
        let fetched = provider.fetch_orchestration_item(TURN_LOCK, LONG_POLL, None).await;
        let Ok(Some((item, token, _))) = fetched else { continue };
        let instance = item.instance.clone();
        let turn = Turn::of(item);
        let is_last = turn.metadata.status.is_some();
        let Turn { events, worker_items, orchestrator_items, metadata, .. } = turn;
        let committed = provider
            .ack_orchestration_item(
                &token,
                1,
                events,
                worker_items,
                orchestrator_items,
                metadata,
                vec![],
            )
            .await;
        // An error means that the lock is gone: the turn runs again.
        if is_last && committed.is_ok() {
            // The caller has ended.
            let _ = completed.send(instance);
        }
    }
}

async fn work(provider: Arc<CosmosDBProvider>, owner: String) {
    let session = SessionFetchConfig { owner_id: owner, lock_timeout: ACTIVITY_LOCK };
    loop {
        let fetched = provider
            .fetch_work_item(ACTIVITY_LOCK, LONG_POLL, Some(&session), &TagFilter::DefaultOnly)
            .await;
        let Ok(Some((item, token, _))) = fetched else { continue };
        let WorkItem::ActivityExecute { instance, execution_id, id, .. } = item else {
            panic!("only activities are fetched by workers");
        };
        // The runtime looks for the name of the orchestration.
        let history = provider.read(&instance).await;
        assert!(history.is_err() || !history.unwrap().is_empty());
        let result = String::new();
        let done = WorkItem::ActivityCompleted { instance, execution_id, id, result };
        // An error means that the result is not wanted.
        let _ = provider.ack_work_item(&token, Some(done)).await;
    }
}

/// The decisions of a turn.
struct Turn {
    item: OrchestrationItem,
    known: Vec<Event>,
    events: Vec<Event>,
    worker_items: Vec<WorkItem>,
    orchestrator_items: Vec<WorkItem>,
    metadata: ExecutionMetadata,
}

impl Turn {
    fn of(item: OrchestrationItem) -> Self {
        let mut turn = Self {
            known: item.history.clone(),
            events: Vec::new(),
            worker_items: Vec::new(),
            orchestrator_items: Vec::new(),
            metadata: ExecutionMetadata::default(),
            item,
        };
        for message in turn.item.messages.clone() {
            turn.take(message);
        }
        turn.end();
        turn
    }

    fn push(&mut self, source: Option<u64>, kind: EventKind) -> u64 {
        let last = self.known.last().map_or(0, Event::event_id);
        let event = Event::with_event_id(last + 1, &self.item.instance, 1, source, kind);
        self.known.push(event.clone());
        self.events.push(event);
        last + 1
    }

    fn take(&mut self, message: WorkItem) {
        match message {
            WorkItem::StartOrchestration { input, parent_instance, parent_id, .. }
                if self.known.is_empty() =>
            {
                self.begin(input, parent_instance, parent_id);
            }
            WorkItem::ActivityCompleted { id, result, .. } => {
                self.push(Some(id), EventKind::ActivityCompleted { result });
            }
            WorkItem::SubOrchCompleted { parent_id, result, .. } => {
                self.push(Some(parent_id), EventKind::SubOrchestrationCompleted { result });
            }
            WorkItem::ExternalRaised { name, data, .. } => {
                self.push(None, EventKind::ExternalEvent { name, data });
            }
            _ => {}
        }
    }

    fn begin(&mut self, input: String, parent: Option<String>, parent_id: Option<u64>) {
        self.metadata.orchestration_name = Some(self.item.orchestration_name.clone());
        self.metadata.orchestration_version = Some(self.item.version.clone());
        self.metadata.parent_instance_id.clone_from(&parent);
        let kind = EventKind::OrchestrationStarted {
            name: self.item.orchestration_name.clone(),
            version: self.item.version.clone(),
            input: input.clone(),
            parent_instance: parent,
            parent_id,
            parent_execution_id: None,
            carry_forward_events: None,
            initial_custom_status: None,
        };
        self.push(None, kind);
        let (activities, child) = input.split_once(',').unwrap();
        for _ in 0..activities.parse::<u64>().unwrap() {
            self.schedule();
        }
        if !child.is_empty() {
            self.start_child(child);
        }
    }

    fn schedule(&mut self) {
        let (name, input) = ("work".to_owned(), String::new());
        let id = self.push(
            None,
            EventKind::ActivityScheduled {
                name: name.clone(),
                input: input.clone(),
                session_id: None,
                tag: None,
            },
        );
        let instance = self.item.instance.clone();
        self.worker_items.push(WorkItem::ActivityExecute {
            instance,
            execution_id: 1,
            id,
            name,
            input,
            session_id: None,
            tag: None,
        });
    }

    fn start_child(&mut self, child: &str) {
        let (name, instance, input) = ("Child".to_owned(), child.to_owned(), "0,".to_owned());
        let kind = EventKind::SubOrchestrationScheduled {
            name: name.clone(),
            instance,
            input: input.clone(),
        };
        let id = self.push(None, kind);
        self.orchestrator_items.push(WorkItem::StartOrchestration {
            instance: child.to_owned(),
            orchestration: name,
            input,
            version: Some("1.0.0".to_owned()),
            parent_instance: Some(self.item.instance.clone()),
            parent_id: Some(id),
            parent_execution_id: Some(1),
            execution_id: 1,
        });
    }

    /// Ends the orchestration if all that it has begun is done.
    fn end(&mut self) {
        let count =
            |is: fn(&EventKind) -> bool| self.known.iter().filter(|event| is(&event.kind)).count();
        let begun = count(|kind| {
            matches!(
                kind,
                EventKind::ActivityScheduled { .. } | EventKind::SubOrchestrationScheduled { .. }
            )
        });
        let done = count(|kind| {
            matches!(
                kind,
                EventKind::ActivityCompleted { .. } | EventKind::SubOrchestrationCompleted { .. }
            )
        });
        let is_over = count(|kind| matches!(kind, EventKind::OrchestrationCompleted { .. })) > 0;
        if is_over || done < begun {
            return;
        }
        let output = String::new();
        self.push(None, EventKind::OrchestrationCompleted { output: output.clone() });
        self.metadata.status = Some("Completed".to_owned());
        self.metadata.output = Some(output.clone());
        let parent = self.known.iter().find_map(|event| match &event.kind {
            EventKind::OrchestrationStarted { parent_instance, parent_id, .. } => {
                Some((parent_instance.clone()?, (*parent_id)?))
            }
            _ => None,
        });
        if let Some((parent_instance, parent_id)) = parent {
            self.orchestrator_items.push(WorkItem::SubOrchCompleted {
                parent_instance,
                parent_execution_id: 1,
                parent_id,
                result: output,
            });
        }
    }
}
