//! The orchestrations in duroxide's terms. They know nothing of Cosmos DB: what they do is the activity's.

use duroxide::{OrchestrationContext, OrchestrationRegistry};

use super::orders::{Effect, Order, Shape};

/// The activity that creates the item of a step.
pub(super) const STEP: &str = "Step";
/// The activity that creates the item that says that all steps are done.
pub(super) const RECEIPT: &str = "Receipt";
/// The queue of events that an order waits on.
pub(super) const APPROVALS: &str = "approvals";
const CHILD: &str = "Child";

/// Every orchestration of the demo.
pub(super) fn registry() -> OrchestrationRegistry {
    OrchestrationRegistry::builder()
        .register(Shape::FanOut.name(), async |context: OrchestrationContext, input: String| {
            let order = order(&input)?;
            let steps = (0..order.amounts.len())
                .map(|number| context.schedule_activity(STEP, text(&order.step(number))));
            let worth = sum(context.join(steps.collect()).await)?;
            finish(&context, &order, worth).await
        })
        .register(Shape::Timer.name(), async |context: OrchestrationContext, input: String| {
            let order = order(&input)?;
            let before = context.schedule_activity(STEP, text(&order.step(0))).await;
            context.schedule_timer(order.wait()).await;
            let after = context.schedule_activity(STEP, text(&order.step(1))).await;
            finish(&context, &order, sum(vec![before, after])?).await
        })
        .register(
            Shape::SubOrchestrations.name(),
            async |context: OrchestrationContext, input: String| {
                let order = order(&input)?;
                let children = (0..order.amounts.len()).map(|number| {
                    let (id, step) = (order.child(number), text(&order.step(number)));
                    context.schedule_sub_orchestration_with_id(CHILD, id, step)
                });
                let worth = sum(context.join(children.collect()).await)?;
                finish(&context, &order, worth).await
            },
        )
        .register(CHILD, async |context: OrchestrationContext, step: String| {
            context.schedule_activity(STEP, step).await
        })
        .register(
            Shape::ExternalEvent.name(),
            async |context: OrchestrationContext, input: String| {
                let order = order(&input)?;
                let approval = context.dequeue_event(APPROVALS).await;
                if approval != order.approval() {
                    return Err(format!("{} was sent {approval}", order.id));
                }
                let worth = context.schedule_activity(STEP, text(&order.step(0))).await;
                finish(&context, &order, sum(vec![worth])?).await
            },
        )
        .build()
}

/// Creates the receipt; what the steps were worth is the output.
async fn finish(
    context: &OrchestrationContext,
    order: &Order,
    worth: u64,
) -> Result<String, String> {
    context.schedule_activity(RECEIPT, text(&order.receipt())).await?;
    Ok(worth.to_string())
}

fn order(input: &str) -> Result<Order, String> {
    serde_json::from_str(input).map_err(|error| format!("the input is no order: {error}"))
}

fn text(effect: &Effect) -> String {
    serde_json::to_string(effect).expect("texts and numbers are JSON")
}

/// The sum of the steps' values.
fn sum(steps: Vec<Result<String, String>>) -> Result<u64, String> {
    let worth = |step: Result<String, String>| {
        step?.parse::<u64>().map_err(|error| format!("a step's output is no number: {error}"))
    };
    steps.into_iter().map(worth).sum()
}
