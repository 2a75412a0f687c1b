//! Longer stories, with duroxide's runtime on real time: sessions of one process and of several, executions that begin
//! again, messages whose delivery fails at first.

mod continue_as_new;
mod outbox;
mod session_owners;
mod sessions;
mod work;
