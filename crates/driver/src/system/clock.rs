//! The driver's one clock: time, randomness and ids, and how busy the processors are.
//!
//! Everything that differs between two runs of the same program enters here, so a test can hold all of it:
//! monotonic time is tokio's, which a test can pause, and [`Clock::simulated`] derives wall time from it and
//! everything random from a seed. A lint refuses these sources everywhere else in the driver.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Instant, SystemTime};

use uuid::Uuid;

/// Time, randomness and ids: the system's, or a simulation of them.
///
/// The system's clock holds nothing and costs what its sources cost. Cloning shares a simulation.
#[derive(Clone, Default)]
pub struct Clock(Option<Arc<Simulation>>);

/// The seed and start of a simulation.
struct Simulation {
    /// The moment of tokio's clock that stands for `wall_origin`.
    origin: Instant,
    wall_origin: SystemTime,
    random: AtomicU64,
    cpu_load: Option<f64>,
}

impl Clock {
    /// The clock of the system.
    #[must_use]
    pub const fn system() -> Self {
        Self(None)
    }

    /// A deterministic clock: wall time starts at `wall` and moves with tokio's clock from now on, and
    /// randomness and ids follow from the seed.
    ///
    /// With tokio's clock paused, two runs of one program with the same seed do the same. The processors
    /// count as idle.
    #[must_use]
    pub fn simulated(seed: u64, wall: SystemTime) -> Self {
        Self(Some(Arc::new(Simulation {
            origin: Self::now(),
            wall_origin: wall,
            random: AtomicU64::new(seed),
            cpu_load: Some(0.0),
        })))
    }

    /// Restarts the simulation with processors that are this busy; `None` is not known. The
    /// system's clock stays the system's.
    #[must_use]
    pub fn with_cpu_load(self, load: Option<f64>) -> Self {
        Self(self.0.map(|simulation| {
            Arc::new(Simulation {
                origin: simulation.origin,
                wall_origin: simulation.wall_origin,
                // Relaxed: a number that stands alone.
                random: AtomicU64::new(simulation.random.load(Ordering::Relaxed)),
                cpu_load: load,
            })
        }))
    }

    /// Monotonic time: tokio's, for every clock, so that timers and timestamps agree also while it is paused.
    #[must_use]
    #[allow(clippy::disallowed_methods, reason = "the one place that reads it")]
    pub fn now() -> Instant {
        tokio::time::Instant::now().into_std()
    }

    /// Wall time, for dates and the expiry of tokens.
    #[must_use]
    #[allow(clippy::disallowed_methods, reason = "the one place that reads it")]
    pub fn wall(&self) -> SystemTime {
        match &self.0 {
            // Read each time, not derived: the system's time is corrected while a process runs.
            None => SystemTime::now(),
            Some(it) => it.wall_origin + Self::now().saturating_duration_since(it.origin),
        }
    }

    /// A random number from 0 to 1, 1 excluded.
    #[must_use]
    #[allow(clippy::disallowed_methods, reason = "the one place that draws")]
    pub fn random(&self) -> f64 {
        match &self.0 {
            None => fastrand::f64(),
            // The 53 bits that a double holds.
            Some(it) => (it.draw() >> 11) as f64 / (1_u64 << 53) as f64,
        }
    }

    /// A random number for a seed.
    #[must_use]
    #[allow(clippy::disallowed_methods, reason = "the one place that draws")]
    pub fn random_seed(&self) -> u64 {
        match &self.0 {
            None => fastrand::u64(..),
            Some(it) => it.draw(),
        }
    }

    /// A new id.
    #[must_use]
    #[allow(clippy::disallowed_methods, reason = "the one place that makes ids")]
    pub fn new_id(&self) -> Uuid {
        match &self.0 {
            None => Uuid::new_v4(),
            Some(it) => {
                let bits = u128::from(it.draw()) << 64 | u128::from(it.draw());
                uuid::Builder::from_random_bytes(bits.to_be_bytes()).into_uuid()
            }
        }
    }

    /// The load of the processors in a simulation; the system's clock has it measured.
    pub(super) fn simulated_cpu_load(&self) -> Option<Option<f64>> {
        self.0.as_ref().map(|simulation| simulation.cpu_load)
    }
}

impl Simulation {
    /// SplitMix64 (Steele, Lea, Flood, 2014): a Weyl sequence, mixed. One atomic step, so that clones draw
    /// without a lock and no two draw the same.
    fn draw(&self) -> u64 {
        const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
        // Relaxed: every draw needs a number of its own and publishes nothing.
        let mut bits = self.random.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match &self.0 {
            None => "Clock::system",
            Some(_) => "Clock::simulated",
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    fn draws(clock: &Clock) -> (Uuid, u64, f64, Uuid) {
        (clock.new_id(), clock.random_seed(), clock.random(), clock.new_id())
    }

    #[test]
    fn the_same_seed_draws_the_same_and_another_does_not() {
        let with_seed = |seed| draws(&Clock::simulated(seed, UNIX_EPOCH));
        assert_eq!(with_seed(7), with_seed(7));
        assert_ne!(with_seed(7), with_seed(8));
    }

    #[test]
    fn clones_share_their_draws() {
        let clock = Clock::simulated(7, UNIX_EPOCH);
        assert_ne!(clock.new_id(), clock.clone().new_id());
    }

    #[test]
    fn random_numbers_are_spread_from_zero_to_one() {
        for clock in [Clock::system(), Clock::simulated(7, UNIX_EPOCH)] {
            let drawn: Vec<f64> = (0..1_000).map(|_| clock.random()).collect();
            assert!(drawn.iter().all(|number| (0.0..1.0).contains(number)));
            let mean = drawn.iter().sum::<f64>() / 1_000.0;
            assert!((0.4..0.6).contains(&mean), "{mean}");
        }
    }

    #[test]
    fn ids_are_random_ids_of_version_four() {
        for clock in [Clock::system(), Clock::simulated(7, UNIX_EPOCH)] {
            assert_eq!(clock.new_id().get_version_num(), 4);
            assert_ne!(clock.new_id(), clock.new_id());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_paused_clock_moves_monotonic_and_wall_time_alike() {
        let clock = Clock::simulated(7, UNIX_EPOCH);
        let (now, wall) = (Clock::now(), clock.wall());
        assert_eq!(wall, UNIX_EPOCH);
        tokio::time::sleep(Duration::from_secs(3_600)).await;
        assert_eq!(Clock::now() - now, Duration::from_secs(3_600));
        assert_eq!(clock.wall(), UNIX_EPOCH + Duration::from_secs(3_600));
    }
}
