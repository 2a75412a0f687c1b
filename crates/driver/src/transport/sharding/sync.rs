//! Atomics and queues of the lock-free structures, in one file so that loom can replace them.

pub(super) use std::sync::atomic::{AtomicIsize, AtomicU64, AtomicUsize, Ordering, fence};

pub(super) use crossbeam_queue::SegQueue as Queue;
