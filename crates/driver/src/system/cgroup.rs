//! The processor quota of a container, and what it has used of it (Linux control groups).
//!
//! A container may be allowed two of sixty-four processors. Then the machine's load says nothing: the process
//! is throttled by the kernel while the machine is idle, so the load is measured against the quota.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Where control groups are mounted.
const MOUNT: &str = "/sys/fs/cgroup";

/// A quota, and the processor time used so far.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct QuotaUsage {
    /// How many processors' time may be used.
    processors: f64,
    used: Duration,
}

impl QuotaUsage {
    /// The quota of this process; `None` without one, or without control groups.
    pub(super) fn read() -> Option<Self> {
        let memberships = fs::read_to_string("/proc/self/cgroup").ok()?;
        Self::read_below(Path::new(MOUNT), &memberships)
    }

    fn read_below(mount: &Path, memberships: &str) -> Option<Self> {
        // With a namespace of its own, as containers have, a process sees its group at the mount itself.
        let groups = [own_group(mount, memberships), Some(mount.to_owned())];
        groups
            .into_iter()
            .flatten()
            .find_map(|group| Self::version_2(&group))
            .or_else(|| Self::version_1(mount))
    }

    /// `cpu.max` holds quota and period, `cpu.stat` what was used.
    fn version_2(group: &Path) -> Option<Self> {
        let max = fs::read_to_string(group.join("cpu.max")).ok()?;
        let (quota, period) = max.trim().split_once(' ')?;
        // "max" is no quota, and no number either.
        let processors = ratio(quota, period)?;
        let stat = fs::read_to_string(group.join("cpu.stat")).ok()?;
        let used = stat.lines().find_map(|line| line.strip_prefix("usage_usec "))?;
        Some(Self { processors, used: Duration::from_micros(used.trim().parse().ok()?) })
    }

    /// Quota and period have a file each; a quota of -1 means unlimited.
    fn version_1(mount: &Path) -> Option<Self> {
        let text = |path: &str| fs::read_to_string(mount.join(path)).ok();
        let processors = ratio(&text("cpu/cpu.cfs_quota_us")?, &text("cpu/cpu.cfs_period_us")?)?;
        let used = text("cpuacct/cpuacct.usage")?;
        Some(Self { processors, used: Duration::from_nanos(used.trim().parse().ok()?) })
    }

    /// The share of the quota that was used since an earlier reading, from 0 to 1.
    pub(super) fn load_since(&self, earlier: &Self, elapsed: Duration) -> Option<f64> {
        let allowed = elapsed.as_secs_f64() * self.processors;
        let used = self.used.saturating_sub(earlier.used).as_secs_f64();
        (allowed > 0.0).then(|| (used / allowed).clamp(0.0, 1.0))
    }
}

/// The group of version 2 that the process is in: the line `0::/path`.
fn own_group(mount: &Path, memberships: &str) -> Option<PathBuf> {
    let path = memberships.lines().find_map(|line| line.strip_prefix("0::/"))?;
    Some(mount.join(path.trim()))
}

fn ratio(quota: &str, period: &str) -> Option<f64> {
    let (quota, period): (i64, i64) = (quota.trim().parse().ok()?, period.trim().parse().ok()?);
    (quota > 0 && period > 0).then(|| quota as f64 / period as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A mount with files, which goes when it is dropped.
    struct Mount(PathBuf);

    impl Mount {
        fn with(name: &str, files: &[(&str, &str)]) -> Self {
            let root = std::env::temp_dir().join(format!("cgroup-{}-{name}", std::process::id()));
            for (path, text) in files {
                let path = root.join(path);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, text).unwrap();
            }
            Self(root)
        }
    }

    impl Drop for Mount {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0); // Best effort: the system empties its temporary files.
        }
    }

    fn usage(processors: f64, used: u64) -> Option<QuotaUsage> {
        Some(QuotaUsage { processors, used: Duration::from_secs(used) })
    }

    #[test]
    fn a_quota_of_version_2_is_read_from_the_own_group_first() {
        let mount = Mount::with(
            "own",
            &[
                ("shop/cpu.max", "50000 100000\n"),
                ("shop/cpu.stat", "nr_periods 1\nusage_usec 7000000\nuser_usec 1\n"),
                ("cpu.max", "200000 100000\n"),
                ("cpu.stat", "usage_usec 9000000\n"),
            ],
        );
        assert_eq!(QuotaUsage::read_below(&mount.0, "0::/shop\n"), usage(0.5, 7));
        assert_eq!(QuotaUsage::read_below(&mount.0, "0::/elsewhere\n"), usage(2.0, 9));
    }

    #[test]
    fn a_quota_of_version_1_has_a_file_for_each_number() {
        let mount = Mount::with(
            "version-1",
            &[
                ("cpu/cpu.cfs_quota_us", "150000\n"),
                ("cpu/cpu.cfs_period_us", "100000\n"),
                ("cpuacct/cpuacct.usage", "3000000000\n"),
            ],
        );
        assert_eq!(QuotaUsage::read_below(&mount.0, "1:cpu:/\n"), usage(1.5, 3));
    }

    #[test]
    fn without_a_quota_there_is_nothing_to_measure_against() {
        let unlimited = Mount::with(
            "unlimited",
            &[("cpu.max", "max 100000\n"), ("cpu.stat", "usage_usec 1\n")],
        );
        assert_eq!(QuotaUsage::read_below(&unlimited.0, "0::/\n"), None);
        let disabled = Mount::with(
            "disabled",
            &[("cpu/cpu.cfs_quota_us", "-1\n"), ("cpu/cpu.cfs_period_us", "100000\n")],
        );
        assert_eq!(QuotaUsage::read_below(&disabled.0, ""), None);
        assert_eq!(QuotaUsage::read_below(Path::new("/no/such/mount"), "0::/\n"), None);
    }

    /// A container with half a processor counted as idle on a machine with sixty-four.
    #[test]
    fn the_load_is_the_share_of_the_quota_that_was_used() {
        let (before, after) = (usage(0.5, 10).unwrap(), usage(0.5, 12).unwrap());
        let load = |seconds| after.load_since(&before, Duration::from_secs(seconds));
        assert_eq!((load(5), load(4), load(2)), (Some(0.8), Some(1.0), Some(1.0)));
        assert_eq!(load(0), None);
    }
}
