//! A seeded pseudo-random number generator, so that a rule with a probability hits the same requests in
//! every run.

/// SplitMix64 (Steele, Lea and Flood, 2014): one word of state, and any seed is a good one.
#[derive(Clone, Debug)]
pub(super) struct Generator(u64);

impl Generator {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number from 0 (inclusive) to 1 (exclusive).
    pub(super) fn fraction(&mut self) -> f64 {
        // The 53 bits that a double holds exactly.
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first outputs that the algorithm's author published for the seed 1234567.
    #[test]
    fn it_is_the_published_algorithm() {
        let mut generator = Generator::new(1_234_567);
        let drawn = [generator.next(), generator.next(), generator.next()];
        assert_eq!(
            drawn,
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]
        );
    }

    #[test]
    fn fractions_lie_between_zero_and_one_and_spread_evenly() {
        let mut generator = Generator::new(7);
        let drawn: Vec<f64> = (0..10_000).map(|_| generator.fraction()).collect();
        assert!(drawn.iter().all(|fraction| (0.0..1.0).contains(fraction)));
        let mean = drawn.iter().sum::<f64>() / 10_000.0;
        assert!((mean - 0.5).abs() < 0.02, "{mean}");
    }
}
