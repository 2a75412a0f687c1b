//! Every interleaving of reserving, releasing, retiring and waiting, tried by loom.
//!
//! The two structures are compiled here a second time, over loom's atomics: they name their parts
//! through `super::sync`, which is loom's here and the standard library's in the driver. So the model
//! runs in every `cargo test`, without a cfg of its own and without tokio.

/// What the structures are made of, under loom.
mod sync {
    pub(super) use loom::sync::atomic::{AtomicIsize, AtomicU64, AtomicUsize, Ordering, fence};

    use std::collections::VecDeque;

    /// A queue whose every step loom can put another thread before.
    pub(super) struct Queue<T>(loom::sync::Mutex<VecDeque<T>>);

    impl<T> Queue<T> {
        pub(super) fn new() -> Self {
            Self(loom::sync::Mutex::new(VecDeque::new()))
        }

        pub(super) fn push(&self, value: T) {
            self.0.lock().unwrap().push_back(value);
        }

        pub(super) fn pop(&self) -> Option<T> {
            self.0.lock().unwrap().pop_front()
        }
    }

    /// A cell that is swapped whole.
    pub(super) struct AtomicCell<T>(loom::sync::Mutex<T>);

    impl<T: Default> AtomicCell<T> {
        pub(super) fn new(value: T) -> Self {
            Self(loom::sync::Mutex::new(value))
        }

        pub(super) fn take(&self) -> T {
            std::mem::take(&mut *self.0.lock().unwrap())
        }

        pub(super) fn swap(&self, value: T) -> T {
            std::mem::replace(&mut *self.0.lock().unwrap(), value)
        }
    }
}

#[path = "../../src/transport/sharding/stream_slots.rs"]
mod stream_slots;
#[path = "../../src/transport/sharding/waiting_line.rs"]
mod waiting_line;

use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use loom::thread;

use stream_slots::{Refusal, Retirement, StreamSlots};
use waiting_line::WaitingLine;

#[test]
fn reservations_never_exceed_the_limit() {
    loom::model(|| {
        let slots = Arc::new(StreamSlots::new());
        assert_eq!(slots.try_reserve(2), Ok(1));
        let reserving: Vec<_> = (0..2)
            .map(|_| {
                let slots = Arc::clone(&slots);
                thread::spawn(move || slots.try_reserve(2))
            })
            .collect();
        let own = slots.try_reserve(2);
        let others = reserving.into_iter().map(|it| it.join().unwrap());
        let refused = others.chain([own]).filter(|got| *got == Err(Refusal::Full)).count();
        assert_eq!((refused, slots.in_use()), (2, 2));
    });
}

/// A retired shard is reported as drained exactly once, by whoever sees the last stream go, and never
/// while a stream is in use.
#[test]
fn a_retired_shard_drains_exactly_once() {
    loom::model(|| {
        let slots = Arc::new(StreamSlots::new());
        let drained = Arc::new(AtomicUsize::new(0));
        let using: Vec<_> = (0..2)
            .map(|_| {
                let (slots, drained) = (Arc::clone(&slots), Arc::clone(&drained));
                thread::spawn(move || {
                    if slots.try_reserve(2).is_ok() && slots.release() {
                        drained.fetch_add(1, Ordering::SeqCst);
                    }
                })
            })
            .collect();
        match slots.retire() {
            Retirement::Drained => drained.fetch_add(1, Ordering::SeqCst),
            Retirement::Draining(_) => 0,
            Retirement::Already => panic!("nobody else retires it"),
        };
        using.into_iter().for_each(|it| it.join().unwrap());
        assert!(slots.is_retired());
        assert_eq!(slots.try_reserve(2), Err(Refusal::Retired));
        assert_eq!((slots.in_use(), drained.load(Ordering::SeqCst)), (0, 1));
    });
}

#[test]
fn a_shard_is_retired_by_one_alone() {
    loom::model(|| {
        let slots = Arc::new(StreamSlots::new());
        let other = Arc::clone(&slots);
        let retiring = thread::spawn(move || other.retire());
        let outcomes = [slots.retire(), retiring.join().unwrap()];
        let already = outcomes.iter().filter(|it| **it == Retirement::Already).count();
        assert_eq!(already, 1);
    });
}

/// A shard with one stream and the line before it; the protocol is that of `shard_pool.rs`.
struct Counter {
    slots: StreamSlots,
    line: WaitingLine<Arc<AtomicBool>>,
}

impl Counter {
    fn new() -> Arc<Self> {
        Arc::new(Self { slots: StreamSlots::new(), line: WaitingLine::new(4) })
    }

    /// Takes the stream, or joins the line; says whether it has the stream already.
    fn reserve(&self, turn: &Arc<AtomicBool>) -> bool {
        if self.line.is_empty() && self.slots.try_reserve(1).is_ok() {
            return true;
        }
        self.line.join(Arc::clone(turn), |_| false).unwrap_or_else(|_| panic!("there is room"));
        self.serve_line();
        false
    }

    fn release(&self) {
        self.slots.release();
        self.serve_line();
    }

    fn serve_line(&self) {
        while self.line.is_anyone_waiting() {
            if self.slots.try_reserve(1).is_err() {
                return;
            }
            match self.line.next() {
                Some(turn) => turn.store(true, Ordering::SeqCst),
                None => {
                    self.slots.release();
                }
            }
        }
    }
}

/// Whoever waits gets a stream that is released, however the two steps of joining and looking fall
/// between the two steps of releasing and looking.
#[test]
fn nobody_waits_for_a_stream_that_is_free() {
    loom::model(|| {
        let counter = Counter::new();
        assert_eq!(counter.slots.try_reserve(1), Ok(1));
        let releasing = {
            let counter = Arc::clone(&counter);
            thread::spawn(move || counter.release())
        };
        let turn = Arc::new(AtomicBool::new(false));
        let at_once = counter.reserve(&turn);
        releasing.join().unwrap();
        assert!(at_once || turn.load(Ordering::SeqCst), "waits beside a free stream");
        assert_eq!(counter.slots.in_use(), 1);
    });
}

#[test]
fn two_who_wait_are_served_one_after_the_other() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let counter = Counter::new();
        assert_eq!(counter.slots.try_reserve(1), Ok(1));
        let turns = [Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false))];
        let waiting: Vec<_> = turns
            .iter()
            .map(|turn| {
                let (counter, turn) = (Arc::clone(&counter), Arc::clone(turn));
                thread::spawn(move || {
                    if counter.reserve(&turn) {
                        turn.store(true, Ordering::SeqCst);
                    }
                })
            })
            .collect();
        counter.release();
        waiting.into_iter().for_each(|it| it.join().unwrap());
        let served = || turns.iter().filter(|turn| turn.load(Ordering::SeqCst)).count();
        assert_eq!((served(), counter.slots.in_use()), (1, 1));
        counter.release();
        assert_eq!((served(), counter.slots.in_use()), (2, 1));
    });
}

#[test]
fn a_full_line_lets_those_go_who_gave_up_and_keeps_the_order() {
    loom::model(|| {
        let line = WaitingLine::new(3);
        for waiter in ["gone", "first", "second"] {
            line.join(waiter, |_| false).unwrap();
        }
        let is_gone = |waiter: &&str| *waiter == "gone";
        assert_eq!(line.join("third", is_gone), Ok(()));
        assert_eq!(line.join("fourth", is_gone), Err("fourth"));
        let order: Vec<_> = std::iter::from_fn(|| line.next()).collect();
        assert_eq!(order, ["first", "second", "third"]);
        assert!(line.is_empty());
    });
}
