//! The activities: each creates one item under an id that follows from its step.
//!
//! duroxide runs an activity at least once. The create makes the effect happen once: an activity that is repeated meets
//! the item of the first time (409) and is done.

use std::sync::Arc;
use std::time::{Duration, Instant};

use duroxide::ActivityContext;
use duroxide::runtime::registry::ActivityRegistry;
use sidereal::{ContainerClient, ErrorKind};

use super::orchestrations::{RECEIPT, STEP};
use super::orders::Effect;
use crate::observe::{Kind, Observer};

/// How long an activity tries on. Far longer than any outage of the demo: an effect is not given up.
const PATIENCE: Duration = Duration::from_secs(30);

/// The wait of an activity between two tries.
const PAUSE: Duration = Duration::from_millis(50);

/// The activities, and the containers that their items are created in.
pub(super) fn registry(
    steps: ContainerClient,
    receipts: ContainerClient,
    observer: &Arc<Observer>,
) -> ActivityRegistry {
    let activity = |container: ContainerClient| {
        let observer = Arc::clone(observer);
        move |_: ActivityContext, input: String| {
            let (container, observer) = (container.clone(), Arc::clone(&observer));
            async move {
                let effect: Effect = serde_json::from_str(&input)
                    .map_err(|error| format!("the input is no effect: {error}"))?;
                create(&container, &effect, &observer).await?;
                Ok(effect.amount.to_string())
            }
        }
    };
    ActivityRegistry::builder()
        .register(STEP, activity(steps))
        .register(RECEIPT, activity(receipts))
        .build()
}

/// Creates an item, unless an earlier execution of the activity has.
async fn create(
    container: &ContainerClient,
    effect: &Effect,
    observer: &Observer,
) -> Result<(), String> {
    let began = Instant::now();
    loop {
        let tried = Instant::now();
        let created = container.create_item(effect.order.as_str(), effect, None).await;
        let failure = match created {
            Ok(response) => {
                observer.succeeded(Kind::Write, tried.elapsed(), response.diagnostics());
                return Ok(());
            }
            Err(error) if error.kind() == ErrorKind::Conflict => {
                observer.done(Kind::Write, tried.elapsed());
                return Ok(());
            }
            Err(error) => error,
        };
        observer.failed(Kind::Write, tried.elapsed(), &failure);
        if began.elapsed() > PATIENCE {
            return Err(format!("{}/{} was not created: {failure}", effect.order, effect.id));
        }
        tokio::time::sleep(PAUSE).await;
    }
}
