//! What the lock-free structures are made of, in one file so that loom can replace it.

pub(super) use std::sync::atomic::{AtomicIsize, AtomicU64, AtomicUsize, Ordering, fence};

pub(super) use crossbeam_queue::SegQueue as Queue;
