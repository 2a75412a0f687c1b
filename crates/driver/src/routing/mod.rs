//! Where operations go: what is known of the account's regions, and how it changes.

mod effects;

pub(crate) use effects::{LocationEffect, LocationEffects};
