//! The result of a run, as a row of the table.

use duroxide::provider_stress_test::core::StressTestResult;
use serde_json::{Value, json};

/// A run that has ended.
#[derive(Debug)]
pub(super) struct Measured {
    pub(super) name: String,
    pub(super) result: StressTestResult,
    /// Requests and request units, as the account counted them.
    pub(super) cost: Option<(u64, f64)>,
}

impl Measured {
    pub(super) const HEADS: [&'static str; 9] = [
        "RUN",
        "LAUNCHED",
        "COMPLETED",
        "SUCCESS %",
        "ORCH/S",
        "ACTIVITIES/S",
        "LATENCY MS",
        "REQUESTS/ORCH",
        "RU/ORCH",
    ];

    /// Orchestrations that were started and have not completed.
    pub(super) fn unfinished(&self) -> usize {
        self.result.launched.saturating_sub(self.result.completed)
    }

    pub(super) fn row(&self) -> (Value, [String; 9]) {
        let result = &self.result;
        let per_orchestration = |count: f64| count / result.completed.max(1) as f64;
        let requests = self.cost.map(|(requests, _)| per_orchestration(requests as f64));
        let charge = self.cost.map(|(_, charge)| per_orchestration(charge));
        let value = json!({
            "run": self.name,
            "launched": result.launched,
            "completed": result.completed,
            "failed": result.failed,
            "failedByInfrastructure": result.failed_infrastructure,
            "failedByConfiguration": result.failed_configuration,
            "failedByApplication": result.failed_application,
            "successRate": result.success_rate(),
            "seconds": result.total_time.as_secs_f64(),
            "orchestrationsPerSecond": result.orch_throughput,
            "activitiesPerSecond": result.activity_throughput,
            "averageLatencyMs": result.avg_latency_ms,
            "requestsPerOrchestration": requests,
            "requestUnitsPerOrchestration": charge,
        });
        let number = |number: Option<f64>| {
            number.map_or_else(|| "-".to_owned(), |number| format!("{number:.1}"))
        };
        let cells = [
            self.name.clone(),
            result.launched.to_string(),
            result.completed.to_string(),
            number(Some(result.success_rate())),
            number(Some(result.orch_throughput)),
            number(Some(result.activity_throughput)),
            number(Some(result.avg_latency_ms)),
            number(requests),
            number(charge),
        ];
        (value, cells)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_run_is_told_with_its_cost_per_orchestration_if_the_account_counts() {
        let result = StressTestResult {
            launched: 10,
            completed: 8,
            failed: 2,
            failed_infrastructure: 2,
            failed_configuration: 0,
            failed_application: 0,
            total_time: Duration::from_secs(2),
            orch_throughput: 4.0,
            activity_throughput: 20.0,
            avg_latency_ms: 250.0,
        };
        let mut measured = Measured { name: "1/1".to_owned(), result, cost: Some((160, 800.0)) };
        assert_eq!(measured.unfinished(), 2);
        let (value, cells) = measured.row();
        assert_eq!(value["successRate"], 80.0);
        assert_eq!(cells[7..], ["20.0".to_owned(), "100.0".to_owned()]);
        measured.cost = None;
        assert_eq!(measured.row().1[7..], ["-".to_owned(), "-".to_owned()]);
    }
}
