use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::HeaderValue;
use serde_json::{Value, json};
use sidereal_protocol::headers::{ResponseHeaders, names};
use sidereal_protocol::{CosmosStatus, RegionName};
use uuid::Uuid;

use super::context::ATTEMPTS_KEPT;
use super::*;
use crate::exchange::{Endpoint, HttpError, HttpErrorKind, HttpProtocol, RequestSentStatus};
use crate::system::{MachineHistory, MachineReading};

const ACTIVITY: Uuid = Uuid::from_u128(0x6f3c_8a1e_52b0_4d0f_9c55_0123_4567_89ab);

fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

fn in_region(name: &'static str, host: &str, started: Instant) -> RequestDiagnostics {
    let endpoint: Endpoint = format!("https://{host}.documents.azure.com/").parse().unwrap();
    let region = Some(RegionName::from_static(name));
    RequestDiagnostics::new(ExecutionContext::Initial, region, endpoint, started)
}

/// An attempt over HTTP/2 that was answered after nine milliseconds.
fn answered(status: CosmosStatus, charge: f64, started: Instant) -> RequestDiagnostics {
    let mut attempt = in_region("West US 3", "contoso-westus3", started);
    attempt.shard = Some(4);
    attempt.protocol = Some(HttpProtocol::Http2);
    attempt.request_sent = RequestSentStatus::MaybeSent;
    attempt.record_at(RequestEventKind::TransportStart, started);
    attempt.record_at(RequestEventKind::RequestSent, started + ms(1));
    attempt.record_at(RequestEventKind::ResponseHeadersReceived, started + ms(8));
    attempt.record_at(RequestEventKind::ResponseBodyReceived, started + ms(9));
    attempt.status = Some(status);
    attempt.charge = Some(charge);
    attempt
}

/// A read whose connection was refused in one region, was throttled in the next, and then answered.
fn refused_then_throttled_then_answered(start: Instant) -> DiagnosticsContext {
    let mut builder = DiagnosticsContextBuilder::new(ACTIVITY, start);

    let mut refused = in_region("East US", "contoso-eastus", start + ms(1));
    refused.record_at(RequestEventKind::TransportStart, start + ms(1));
    refused.record_at(RequestEventKind::Queued, start + ms(1));
    refused.record_at(RequestEventKind::Connecting, start + ms(3));
    refused.failure = Some("no connection could be made: connection refused".into());
    refused.record_at(RequestEventKind::TransportFailed, start + ms(6));
    refused.status = Some(CosmosStatus::with_sub_status(503, 20003));
    let why = "the region does not answer";
    let target = RetryTarget::NextPreferred;
    refused.decision = Some(Decision::RetryElsewhere { target, reason: why });
    builder.push(refused);

    let mut throttled = answered(CosmosStatus::with_sub_status(429, 3200), 0.5, start + ms(7));
    throttled.execution_context = ExecutionContext::RegionFailover;
    let (after, manner) = (ms(20), Manner::Unchanged);
    throttled.decision = Some(Decision::RetryHere { after, manner, reason: "throttled" });
    builder.push(throttled);

    let mut fine = answered(CosmosStatus::OK, 2.0, start + ms(36));
    fine.execution_context = ExecutionContext::Retry;
    fine.server_duration = Some(ms(2));
    fine.decision = Some(Decision::Finish { reason: "it succeeded" });
    builder.push(fine);

    builder.observe_machine(Arc::new(busy_machine(start)));
    builder.complete(CosmosStatus::OK, start + ms(46))
}

fn busy_machine(at: Instant) -> MachineHistory {
    let reading = |cpu_load| MachineReading {
        at,
        cpu_load: Some(cpu_load),
        memory_used: 1 << 30,
        memory_total: 4 << 30,
        process_memory: Some(1 << 29),
    };
    [reading(0.25), reading(0.5)].into_iter().collect()
}

#[test]
fn people_get_a_headline_and_a_line_for_each_attempt() {
    let context = refused_then_throttled_then_answered(Instant::now());
    let expected = [
        "200 Ok after 46.00 ms: 3 attempts, 2.50 RU, activity 6f3c8a1e-52b0-4d0f-9c55-0123456789ab",
        "  1. initial at 1.00 ms, East US (https://contoso-eastus.documents.azure.com:443): \
         503/20003 TransportGenerated503, no connection could be made: connection refused \
         (not sent); queued 2.00 ms, connecting 3.00 ms, total 5.00 ms; \
         retried elsewhere: the region does not answer",
        "  2. region_failover at 7.00 ms, West US 3 \
         (https://contoso-westus3.documents.azure.com:443), shard 4, HTTP/2: \
         429/3200 RUBudgetExceeded, 0.50 RU; headers 7.00 ms, total 9.00 ms; \
         retried here after 20.00 ms: throttled",
        "  3. retry at 36.00 ms, West US 3 \
         (https://contoso-westus3.documents.azure.com:443), shard 4, HTTP/2: 200 Ok, 2.00 RU; \
         headers 7.00 ms, service 2.00 ms, total 9.00 ms; final: it succeeded",
        "  machine: cpu 25 %, 50 %; memory 1.0 of 4.0 GiB, of which 0.5 GiB are ours",
    ];
    assert_eq!(context.to_string(), expected.join("\n"));
}

#[test]
fn people_are_told_where_an_attempt_was_left() {
    let start = Instant::now();
    let mut attempt = in_region("East US", "contoso-eastus", start);
    attempt.record_at(RequestEventKind::TransportStart, start);
    attempt.request_sent = RequestSentStatus::MaybeSent;
    attempt.record_at(RequestEventKind::RequestSent, start + ms(2));
    let mut builder = DiagnosticsContextBuilder::new(ACTIVITY, start);
    builder.push(attempt);
    let text = builder.complete(None, start + ms(5)).to_string();
    let expected = "no status after 5.00 ms: 1 attempt, 0.00 RU, \
                    activity 6f3c8a1e-52b0-4d0f-9c55-0123456789ab\n  \
                    1. initial at 0.00 ms, East US (https://contoso-eastus.documents.azure.com:443): \
                    no answer, left while the answer was awaited (maybe sent); not timed";
    assert_eq!(text, expected);
}

#[test]
fn long_waits_are_told_in_seconds() {
    assert_eq!(crate::brief_duration::Brief(Duration::from_millis(12_540)).to_string(), "12.5 s");
    assert_eq!(crate::brief_duration::Brief(Duration::from_micros(420)).to_string(), "0.42 ms");
}

#[test]
fn machines_get_every_fact_under_a_stable_name() {
    let context = refused_then_throttled_then_answered(Instant::now());
    let document: Value = serde_json::from_str(&context.to_json()).unwrap();
    assert_eq!(document["activity_id"], "6f3c8a1e-52b0-4d0f-9c55-0123456789ab");
    assert_eq!(document["status"], json!({ "code": 200, "sub_status": 0, "name": "Ok" }));
    assert_eq!(document["elapsed_ms"], 46.0);
    assert_eq!(document["charge"], 2.5);
    assert_eq!(document["attempts_left_out"], 0);
    assert_eq!(document["attempts"].as_array().unwrap().len(), 3);
    assert_eq!(
        document["attempts"][0],
        json!({
            "execution_context": "initial",
            "region": "East US",
            "endpoint": "https://contoso-eastus.documents.azure.com:443",
            "partition_range": null,
            "shard": null,
            "protocol": null,
            "request_sent": "not_sent",
            "status": { "code": 503, "sub_status": 20003, "name": "TransportGenerated503" },
            "charge": null,
            "lsn": null,
            "global_committed_lsn": null,
            "started_after_ms": 1.0,
            "queued_ms": 2.0,
            "connecting_ms": 3.0,
            "time_to_headers_ms": null,
            "server_duration_ms": null,
            "elapsed_ms": 5.0,
            "events": [
                { "kind": "transport_start", "at_ms": 0.0 },
                { "kind": "queued", "at_ms": 0.0 },
                { "kind": "connecting", "at_ms": 2.0 },
                { "kind": "transport_failed", "at_ms": 5.0 },
            ],
            "failure": "no connection could be made: connection refused",
            "decision": {
                "next": "retry_elsewhere",
                "after_ms": null,
                "target": "next_preferred",
                "why": "the region does not answer",
            },
        })
    );
    let throttled = &document["attempts"][1];
    assert_eq!((&throttled["shard"], &throttled["protocol"]), (&json!(4), &json!("HTTP/2")));
    assert_eq!(throttled["request_sent"], "maybe_sent");
    assert_eq!(throttled["decision"]["after_ms"], 20.0);
    assert_eq!(
        document["machine"][1],
        json!({
            "age_ms": 46.0,
            "cpu_load": 0.5,
            "memory_used_bytes": 1_u64 << 30,
            "memory_total_bytes": 4_u64 << 30,
            "process_memory_bytes": 1 << 29,
        })
    );
}

#[test]
fn what_is_unknown_is_null() {
    let start = Instant::now();
    let empty = DiagnosticsContextBuilder::new(ACTIVITY, start).complete(None, start);
    let document: Value = serde_json::from_str(&empty.to_json()).unwrap();
    assert_eq!((&document["status"], &document["machine"]), (&Value::Null, &Value::Null));
    assert_eq!(document["attempts"], json!([]));
}

#[test]
fn a_hedge_that_loses_keeps_its_attempts_and_its_charge() {
    let start = Instant::now();
    let mut winner = DiagnosticsContextBuilder::new(ACTIVITY, start);
    let mut hedge = answered(CosmosStatus::OK, 1.0, start + ms(50));
    hedge.execution_context = ExecutionContext::Hedging;
    winner.push(hedge);
    let mut loser = DiagnosticsContextBuilder::new(ACTIVITY, start);
    loser.push(answered(CosmosStatus::OK, 2.25, start));
    loser.observe_machine(Arc::new(busy_machine(start)));

    winner.absorb(loser);
    let context = winner.complete(CosmosStatus::OK, start + ms(60));
    assert_eq!(context.charge().to_bits(), 3.25_f64.to_bits());
    let reasons: Vec<_> = context.attempts().iter().map(|one| one.execution_context).collect();
    assert_eq!(reasons, [ExecutionContext::Initial, ExecutionContext::Hedging]);
    assert!(context.machine().is_some());
}

#[test]
fn one_attempt_is_kept_without_an_allocation() {
    let start = Instant::now();
    let mut builder = DiagnosticsContextBuilder::new(ACTIVITY, start);
    let attempt = answered(CosmosStatus::OK, 1.0, start);
    assert!(!attempt.events.spilled());
    builder.push(attempt);
    assert!(builder.attempts_are_inline());
}

#[test]
fn of_many_attempts_the_first_and_last_are_kept_and_all_are_charged() {
    let start = Instant::now();
    let mut builder = DiagnosticsContextBuilder::new(ACTIVITY, start);
    let made = ATTEMPTS_KEPT + 8;
    for number in 0..made {
        let mut attempt = answered(CosmosStatus::OK, 1.0, start);
        attempt.shard = Some(number as u64);
        builder.push(attempt);
    }
    let context = builder.complete(CosmosStatus::OK, start);
    assert_eq!(context.attempts().len(), ATTEMPTS_KEPT);
    assert_eq!(context.attempts_left_out(), 8);
    assert_eq!(context.charge().to_bits(), (made as f64).to_bits());
    assert_eq!(context.attempts()[0].shard, Some(0));
    assert_eq!(context.attempts().last().unwrap().shard, Some(made as u64 - 1));
    let text = context.to_string();
    assert!(text.contains("40 attempts"), "{text}");
    assert!(text.contains("8 attempts before the last are left out"), "{text}");
}

#[test]
fn a_response_tells_its_range_and_how_far_its_replica_is() {
    let start = Instant::now();
    let mut attempt = answered(CosmosStatus::OK, 1.0, start);
    attempt.partition_range = Some(0.into());
    let headers = http::HeaderMap::from_iter([
        (names::LSN, HeaderValue::from_static("12")),
        (names::GLOBAL_COMMITTED_LSN, HeaderValue::from_static("9")),
        (names::PARTITION_KEY_RANGE_ID, HeaderValue::from_static("3")),
    ]);
    attempt.answered(&ResponseHeaders::new(&headers).accounting(), CosmosStatus::OK);
    let mut builder = DiagnosticsContextBuilder::new(ACTIVITY, start);
    builder.push(attempt);
    builder.warn(["mind the gap".to_owned()].into());
    let context = builder.complete(CosmosStatus::OK, start);
    let document: Value = serde_json::from_str(&context.to_json()).unwrap();
    let told = &document["attempts"][0];
    assert_eq!((&told["lsn"], &told["global_committed_lsn"]), (&json!(12), &json!(9)));
    assert_eq!(told["partition_range"], "3", "the service's word counts");
    assert_eq!(document["warnings"], json!(["mind the gap"]));
    let text = context.to_string();
    assert!(text.contains(", range 3") && text.contains("LSN 12"), "{text}");
    assert!(text.ends_with("\n  warning: mind the gap"), "{text}");
}

#[test]
fn a_decision_can_follow_its_attempt() {
    let start = Instant::now();
    let mut builder = DiagnosticsContextBuilder::new(ACTIVITY, start);
    builder.push(answered(CosmosStatus::OK, 1.0, start));
    let decision = Decision::Finish { reason: "it succeeded" };
    let endpoint = builder.attempts()[0].endpoint.clone();
    builder.decided(&endpoint, decision);
    assert_eq!(builder.attempts()[0].decision, Some(decision));
}

/// A library's error that repeats the request it was given, as some do.
#[derive(Debug)]
struct Indiscreet(HeaderValue);

impl fmt::Display for Indiscreet {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "could not send authorization: {}", self.0.to_str().unwrap())
    }
}

impl Error for Indiscreet {}

#[test]
fn a_secret_quoted_by_a_cause_is_shown_nowhere() {
    let mut signature = HeaderValue::from_static("type=master&ver=1.0&sig=hunter2");
    signature.set_sensitive(true);
    let (kind, sent) = (HttpErrorKind::ConnectionLost, RequestSentStatus::MaybeSent);
    let error = HttpError::new(kind, sent, "the connection ended before the answer did")
        .caused_by(Indiscreet(signature));
    assert!(error.chain().contains("hunter2"), "the cause does quote it");

    let start = Instant::now();
    let mut attempt = in_region("East US", "contoso-eastus", start);
    attempt.failed(&error);
    assert_eq!(attempt.request_sent, RequestSentStatus::MaybeSent);
    assert_eq!(attempt.phase(), Phase::Ended);
    let mut builder = DiagnosticsContextBuilder::new(ACTIVITY, start);
    builder.push(attempt);
    let context = builder.complete(CosmosStatus::SERVICE_UNAVAILABLE, start);
    for shown in [context.to_string(), context.to_json(), format!("{context:?}")] {
        assert!(shown.contains("the connection ended before the answer did"), "{shown}");
        assert!(!shown.contains("hunter2"), "{shown}");
    }
}

#[test]
fn an_attempt_is_ambiguous_if_it_may_have_been_carried_out() {
    let start = Instant::now();
    let ended = |attempt: RequestDiagnostics| {
        let mut builder = DiagnosticsContextBuilder::new(ACTIVITY, start);
        builder.push(attempt);
        builder.push(answered(CosmosStatus::new(409), 1.0, start + ms(20)));
        builder.complete(CosmosStatus::new(409), start + ms(30)).has_ambiguous_attempt()
    };
    let lost = |sent| {
        let mut attempt = in_region("East US", "contoso-eastus", start);
        attempt.request_sent = sent;
        attempt.failure = Some("the connection was lost".into());
        attempt.status = Some(CosmosStatus::with_sub_status(503, 20003));
        attempt
    };
    let mut abandoned = lost(RequestSentStatus::MaybeSent);
    (abandoned.failure, abandoned.status) = (None, None);
    assert!(ended(lost(RequestSentStatus::MaybeSent)));
    assert!(ended(abandoned));
    assert!(ended(answered(CosmosStatus::new(408), 1.0, start)));
    assert!(!ended(lost(RequestSentStatus::NotSent)));
    assert!(!ended(answered(CosmosStatus::new(429), 1.0, start)));
    assert!(!ended(answered(CosmosStatus::new(503), 1.0, start)));
}

/// A write that was throttled very often and lost once was reported as never lost: the attempt was left out.
#[test]
fn an_ambiguous_attempt_that_is_left_out_still_counts() {
    let start = Instant::now();
    let throttled = || answered(CosmosStatus::new(429), 1.0, start);
    let ended = |attempt: RequestDiagnostics| {
        let mut builder = DiagnosticsContextBuilder::new(ACTIVITY, start);
        (0..ATTEMPTS_KEPT).for_each(|_| builder.push(throttled()));
        builder.push(attempt);
        builder.push(answered(CosmosStatus::new(409), 1.0, start + ms(20)));
        // As the other leg of a race.
        let mut race = DiagnosticsContextBuilder::new(ACTIVITY, start);
        race.absorb(builder);
        race.complete(CosmosStatus::new(409), start + ms(30))
    };
    let lost = ended(answered(CosmosStatus::new(408), 1.0, start + ms(10)));
    assert!(lost.attempts().iter().all(|attempt| attempt.status != Some(CosmosStatus::new(408))));
    assert!(lost.has_ambiguous_attempt());
    assert!(!ended(throttled()).has_ambiguous_attempt());
}
