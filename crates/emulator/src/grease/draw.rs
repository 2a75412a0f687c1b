//! The latitudes that one request meets.

use std::sync::Arc;

use super::{Grease, Latitude};

/// The decisions for one request: a function of the seed and of the request's number.
#[derive(Clone, Debug)]
pub(crate) struct Draw {
    grease: Arc<Grease>,
    number: u64,
}

impl Draw {
    pub(crate) fn new(grease: &Arc<Grease>, number: u64) -> Self {
        Self { grease: Arc::clone(grease), number }
    }

    /// Whether the answer uses a latitude.
    pub(crate) fn takes(&self, latitude: Latitude) -> bool {
        self.knows(latitude) && self.value(latitude, 0).is_multiple_of(latitude.one_in())
    }

    /// Whether the account uses a latitude, for this request or another one.
    pub(crate) fn knows(&self, latitude: Latitude) -> bool {
        self.grease.latitudes().contains(&latitude)
    }

    /// A number below `bound`, for how far a latitude is used. `choice` tells several numbers of a latitude apart.
    pub(crate) fn below(&self, latitude: Latitude, choice: u64, bound: u64) -> u64 {
        // Not the number that `takes` looks at: it would be a multiple of something.
        self.value(latitude, choice.wrapping_add(1)) % bound.max(1)
    }

    fn value(&self, latitude: Latitude, choice: u64) -> u64 {
        let inputs = [self.grease.seed, self.number, latitude as u64, choice];
        inputs.into_iter().fold(0, |state, input| mixed(state ^ mixed(input)))
    }
}

/// One step of splitmix64 (Steele, Lea and Flood, 2014): every bit of the result depends on every bit of the input.
fn mixed(input: u64) -> u64 {
    let mut state = input.wrapping_add(0x9E37_79B9_7F4A_7C15);
    state = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    state = (state ^ (state >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    state ^ (state >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draws(seed: u64) -> Vec<bool> {
        let grease = Arc::new(Grease::new(seed));
        (0..1_000).map(|number| Draw::new(&grease, number).takes(Latitude::EmptyPages)).collect()
    }

    #[test]
    fn a_seed_repeats_its_decisions_and_another_seed_makes_others() {
        assert_eq!(draws(1), draws(1));
        assert_ne!(draws(1), draws(2));
    }

    #[test]
    fn a_latitude_is_used_as_often_as_the_table_says() {
        let taken = draws(1).into_iter().filter(|taken| *taken).count();
        assert!((200..300).contains(&taken), "one in four of a thousand, and {taken} were drawn");
    }

    #[test]
    fn a_latitude_that_is_left_out_is_never_used() {
        let grease = Arc::new(Grease::new(1).without(Latitude::PartialResults));
        assert!(!(0..1_000).any(|n| Draw::new(&grease, n).takes(Latitude::PartialResults)));
    }
}
