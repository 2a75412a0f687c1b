//! Every interleaving of reserving, releasing, draining and waiting, tried by loom.
//!
//! The two structures are compiled here a second time, over loom's atomics: they name their parts
//! through `super::sync`, which is loom's here and the standard library's in the driver. So the model
//! runs in every `cargo test`, without a cfg of its own and without tokio.

/// The atomics of the structures, under loom.
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
}

#[path = "../../src/transport/sharding/stream_slots.rs"]
mod stream_slots;
#[path = "../../src/transport/sharding/wait_queue.rs"]
mod wait_queue;

use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use loom::thread;

use stream_slots::{DrainStart, Refusal, StreamSlots};
use wait_queue::{Capacity, ExceededLimit, WaitQueue};

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

/// A draining shard is reported as drained exactly once, by the thread that releases the last stream, and never
/// while a stream is in use.
#[test]
fn a_draining_shard_is_drained_exactly_once() {
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
        match slots.start_draining() {
            DrainStart::Drained => drained.fetch_add(1, Ordering::SeqCst),
            DrainStart::InUse(_) => 0,
            DrainStart::AlreadyBegun => panic!("nobody else drains it"),
        };
        using.into_iter().for_each(|it| it.join().unwrap());
        assert!(slots.is_draining());
        assert_eq!(slots.try_reserve(2), Err(Refusal::Draining));
        assert_eq!((slots.in_use(), drained.load(Ordering::SeqCst)), (0, 1));
    });
}

#[test]
fn draining_is_begun_by_exactly_one_thread() {
    loom::model(|| {
        let slots = Arc::new(StreamSlots::new());
        let other = Arc::clone(&slots);
        let draining = thread::spawn(move || other.start_draining());
        let outcomes = [slots.start_draining(), draining.join().unwrap()];
        let already = outcomes.iter().filter(|it| **it == DrainStart::AlreadyBegun).count();
        assert_eq!(already, 1);
    });
}

/// A queue for so many waiters.
fn queue_of<W>(waiters: usize) -> WaitQueue<W> {
    WaitQueue::new(Capacity { waiters, bytes: 100 })
}

/// A shard with one stream and its wait queue; the protocol is that of `reservation.rs`.
struct SingleStream {
    slots: StreamSlots,
    queue: WaitQueue<Arc<AtomicBool>>,
}

impl SingleStream {
    fn new() -> Arc<Self> {
        Arc::new(Self { slots: StreamSlots::new(), queue: queue_of(4) })
    }

    /// Reserves the stream, or enqueues; says whether it has the stream already.
    fn reserve(&self, turn: &Arc<AtomicBool>) -> bool {
        if self.queue.is_empty() && self.slots.try_reserve(1).is_ok() {
            return true;
        }
        self.queue
            .enqueue(Arc::clone(turn), 1, |_| false)
            .unwrap_or_else(|_| panic!("there is room"));
        self.serve_queue();
        false
    }

    fn release(&self) {
        self.slots.release();
        self.serve_queue();
    }

    fn serve_queue(&self) {
        while self.queue.has_waiters() {
            if self.slots.try_reserve(1).is_err() {
                return;
            }
            match self.queue.dequeue() {
                Some(turn) => turn.store(true, Ordering::SeqCst),
                None => {
                    self.slots.release();
                    // Counted, not yet pushed or popped: another thread has to go on, and loom must know.
                    thread::yield_now();
                }
            }
        }
    }
}

/// No lost wakeup: a waiter gets a stream that is released, however the two steps of enqueuing and looking
/// fall between the two steps of releasing and looking.
#[test]
fn no_wakeup_is_lost_between_a_release_and_an_enqueue() {
    loom::model(|| {
        let single = SingleStream::new();
        assert_eq!(single.slots.try_reserve(1), Ok(1));
        let releasing = {
            let single = Arc::clone(&single);
            thread::spawn(move || single.release())
        };
        let turn = Arc::new(AtomicBool::new(false));
        let at_once = single.reserve(&turn);
        releasing.join().unwrap();
        assert!(at_once || turn.load(Ordering::SeqCst), "waits beside a free stream");
        assert_eq!(single.slots.in_use(), 1);
    });
}

#[test]
fn two_waiters_are_served_one_after_the_other() {
    let mut model = loom::model::Builder::new();
    // Unbounded, three threads take minutes; bugs of this kind show with two preemptions (CHESS).
    model.preemption_bound = Some(3);
    model.check(|| {
        let single = SingleStream::new();
        assert_eq!(single.slots.try_reserve(1), Ok(1));
        let turns = [Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false))];
        let waiting: Vec<_> = turns
            .iter()
            .map(|turn| {
                let (single, turn) = (Arc::clone(&single), Arc::clone(turn));
                thread::spawn(move || {
                    if single.reserve(&turn) {
                        turn.store(true, Ordering::SeqCst);
                    }
                })
            })
            .collect();
        single.release();
        waiting.into_iter().for_each(|it| it.join().unwrap());
        let served = || turns.iter().filter(|turn| turn.load(Ordering::SeqCst)).count();
        assert_eq!((served(), single.slots.in_use()), (1, 1));
        single.release();
        assert_eq!((served(), single.slots.in_use()), (2, 1));
    });
}

#[test]
fn a_full_queue_drops_cancelled_waiters_and_keeps_the_order() {
    loom::model(|| {
        let queue = queue_of(3);
        for waiter in ["cancelled", "first", "second"] {
            queue.enqueue(waiter, 1, |_| false).unwrap();
        }
        let is_cancelled = |waiter: &&str| *waiter == "cancelled";
        queue.mark_cancelled();
        assert_eq!(queue.enqueue("third", 1, is_cancelled), Ok(()));
        assert_eq!(queue.enqueue("fourth", 1, is_cancelled), Err(ExceededLimit::Waiters));
        let order: Vec<_> = std::iter::from_fn(|| queue.dequeue()).collect();
        assert_eq!(order, ["first", "second", "third"]);
        assert!(queue.is_empty());
    });
}

#[test]
fn a_queue_is_full_by_the_bytes_of_its_waiters_too() {
    loom::model(|| {
        let queue = queue_of(3);
        assert_eq!(queue.enqueue("large", 90, |_| false), Ok(()));
        assert_eq!(queue.enqueue("too large", 11, |_| false), Err(ExceededLimit::Bytes));
        assert_eq!(queue.enqueue("small", 10, |_| false), Ok(()));
        assert_eq!(queue.dequeue(), Some("large"));
        assert_eq!(queue.enqueue("fits now", 90, |_| false), Ok(()));
    });
}

/// With one living waiter at the head and nine cancelled ones behind it, a newcomer was refused.
#[test]
fn cancelled_waiters_behind_a_living_one_are_dropped_too() {
    loom::model(|| {
        let queue = queue_of(4);
        for waiter in ["first", "cancelled", "second", "cancelled"] {
            queue.enqueue(waiter, 1, |_| false).unwrap();
        }
        queue.mark_cancelled();
        queue.mark_cancelled();
        let is_cancelled = |waiter: &&str| *waiter == "cancelled";
        assert_eq!(queue.enqueue("third", 1, is_cancelled), Ok(()));
        assert_eq!(queue.enqueue("fourth", 1, is_cancelled), Ok(()));
        assert_eq!(queue.enqueue("fifth", 1, is_cancelled), Err(ExceededLimit::Waiters));
        let order: Vec<_> = std::iter::from_fn(|| queue.dequeue()).collect();
        assert_eq!(order, ["first", "second", "third", "fourth"]);
    });
}

/// While a newcomer turns a full queue, a releaser may look and see nobody in it.
#[test]
fn no_wakeup_is_lost_between_a_release_and_a_cleanup() {
    loom::model(|| {
        let single = Arc::new(SingleStream { slots: StreamSlots::new(), queue: queue_of(1) });
        assert_eq!(single.slots.try_reserve(1), Ok(1));
        let turn = Arc::new(AtomicBool::new(false));
        assert!(!single.reserve(&turn));
        single.queue.mark_cancelled();
        let releasing = {
            let single = Arc::clone(&single);
            thread::spawn(move || single.release())
        };
        let newcomer = Arc::new(AtomicBool::new(false));
        let enqueued = single.queue.enqueue(Arc::clone(&newcomer), 1, |_| false).is_ok();
        single.serve_queue();
        releasing.join().unwrap();
        assert!(turn.load(Ordering::SeqCst), "waits beside a free stream");
        assert!(!newcomer.load(Ordering::SeqCst) || enqueued);
        assert_eq!(single.slots.in_use(), 1);
    });
}
