//! The orchestrations that the demo runs, as values: what each of them does, and what it must leave behind.
//!
//! An order follows from the seed and its number alone. So what has to be found in the account after a run is known
//! without asking anything that took part in it.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The most branches of an order that fans out, and the most children of one that has some.
const MOST_BRANCHES: u32 = 5;

/// How an orchestration proceeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Activities side by side.
    FanOut,
    /// Activities with a durable timer between them.
    Timer,
    /// Orchestrations of its own, side by side.
    SubOrchestrations,
    /// An activity after an event from outside.
    ExternalEvent,
}

impl Shape {
    const ALL: [Self; 4] =
        [Self::FanOut, Self::Timer, Self::SubOrchestrations, Self::ExternalEvent];

    /// The orchestration's name.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::FanOut => "FanOut",
            Self::Timer => "Timer",
            Self::SubOrchestrations => "SubOrchestrations",
            Self::ExternalEvent => "ExternalEvent",
        }
    }
}

/// One orchestration: all that follows from the seed and its number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Order {
    /// The instance's id.
    pub(crate) id: String,
    /// The values of its steps, in order.
    pub(crate) amounts: Vec<u64>,
    /// How long its timer takes, in milliseconds.
    pub(crate) wait_ms: u64,
    #[serde(skip, default = "fan_out")]
    pub(crate) shape: Shape,
}

const fn fan_out() -> Shape {
    Shape::FanOut
}

/// The effect of an activity: an item that it creates, with an id of its own.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Effect {
    /// The orchestration, which is the item's partition key.
    pub(crate) order: String,
    /// The step, which is the item's id.
    pub(crate) id: String,
    pub(crate) amount: u64,
}

impl Order {
    /// The order of a number.
    pub(crate) fn nth(seed: u64, number: u32) -> Self {
        // Numbers are spread before they are mixed in: neighbours must not look alike.
        let mixed = seed ^ u64::from(number).wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let mut random = fastrand::Rng::with_seed(mixed);
        let shape = Shape::ALL[number as usize % Shape::ALL.len()];
        let steps = match shape {
            Shape::FanOut => random.u32(3..=MOST_BRANCHES),
            Shape::SubOrchestrations => random.u32(2..=3),
            Shape::Timer => 2,
            Shape::ExternalEvent => 1,
        };
        let word = match shape {
            Shape::FanOut => "fan-out",
            Shape::Timer => "timer",
            Shape::SubOrchestrations => "parent",
            Shape::ExternalEvent => "approval",
        };
        Self {
            id: format!("{word}-{number:05}"),
            amounts: (0..steps).map(|_| random.u64(1..1_000)).collect(),
            wait_ms: random.u64(50..300),
            shape,
        }
    }

    /// The effect of a step.
    pub(crate) fn step(&self, number: usize) -> Effect {
        let amount = self.amounts[number];
        Effect { order: self.id.clone(), id: format!("step-{number}"), amount }
    }

    /// The effect of the last activity, once all others are done.
    pub(crate) fn receipt(&self) -> Effect {
        Effect { order: self.id.clone(), id: "receipt".to_owned(), amount: self.total() }
    }

    /// The id of the orchestration that does a step, where steps are orchestrations.
    pub(crate) fn child(&self, number: usize) -> String {
        format!("{}::{number}", self.id)
    }

    /// The event that it waits for.
    pub(crate) fn approval(&self) -> String {
        format!("approved:{}", self.amounts[0])
    }

    /// After how long the event is sent.
    pub(crate) fn wait(&self) -> Duration {
        Duration::from_millis(self.wait_ms)
    }

    /// The value of the order as a whole, which is its output.
    pub(crate) fn total(&self) -> u64 {
        self.amounts.iter().sum()
    }

    /// Every instance that it becomes, with its output: itself and its children.
    fn instances(&self) -> Vec<(String, String)> {
        let itself = (self.id.clone(), self.total().to_string());
        let child = |(number, amount): (usize, &u64)| (self.child(number), amount.to_string());
        let children = match self.shape {
            Shape::SubOrchestrations => self.amounts.iter().enumerate().map(child).collect(),
            Shape::FanOut | Shape::Timer | Shape::ExternalEvent => Vec::new(),
        };
        std::iter::once(itself).chain(children).collect()
    }
}

/// The documents that a number of orders must leave behind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Expected {
    /// Each instance with its output.
    pub(crate) instances: BTreeMap<String, String>,
    /// Each effect by order and id.
    pub(crate) effects: BTreeMap<(String, String), u64>,
    /// Each order's receipt.
    pub(crate) receipts: BTreeMap<(String, String), u64>,
}

impl Expected {
    /// How many instances the first orders of a seed become.
    pub(crate) fn instances_of(seed: u64, orders: u32) -> usize {
        (0..orders).map(|number| Order::nth(seed, number).instances().len()).sum()
    }

    /// The documents that the first orders of a seed leave behind.
    pub(crate) fn of(seed: u64, orders: u32) -> Self {
        let mut expected = Self::default();
        let keyed = |effect: Effect| ((effect.order, effect.id), effect.amount);
        for order in (0..orders).map(|number| Order::nth(seed, number)) {
            expected.instances.extend(order.instances());
            let steps = (0..order.amounts.len()).map(|number| keyed(order.step(number)));
            expected.effects.extend(steps);
            expected.receipts.extend([keyed(order.receipt())]);
        }
        expected
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_follows_from_the_seed_and_its_number() {
        for number in 0..100 {
            assert_eq!(Order::nth(7, number), Order::nth(7, number));
            assert_ne!(Order::nth(7, number), Order::nth(7, number + 1));
        }
        assert_ne!(Order::nth(7, 0), Order::nth(8, 0));
    }

    #[test]
    fn four_orders_in_a_row_have_the_four_shapes() {
        let shapes: Vec<&str> = (0..4).map(|number| Order::nth(1, number).shape.name()).collect();
        assert_eq!(shapes, ["FanOut", "Timer", "SubOrchestrations", "ExternalEvent"]);
    }

    #[test]
    fn every_step_of_every_order_is_expected_once() {
        let expected = Expected::of(3, 40);
        let orders: Vec<Order> = (0..40).map(|number| Order::nth(3, number)).collect();
        let steps: usize = orders.iter().map(|order| order.amounts.len()).sum();
        assert_eq!(expected.effects.len(), steps);
        assert_eq!(expected.receipts.len(), 40);
        let children = expected.instances.keys().filter(|id| id.contains("::")).count();
        assert_eq!(expected.instances.len(), 40 + children);
        assert!(children >= 20, "ten orders have two children at least");
    }

    #[test]
    fn an_order_survives_the_way_through_an_orchestration_s_input() {
        let order = Order::nth(5, 0);
        let text = serde_json::to_string(&order).unwrap();
        assert_eq!(serde_json::from_str::<Order>(&text).unwrap(), order);
    }
}
