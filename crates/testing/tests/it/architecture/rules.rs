//! Who may know whom: the invariants of ARCHITECTURE.md that speak of imports, as data.

/// One invariant about imports.
pub(crate) struct Rule {
    /// The files it binds: paths below the repository's root, folders included.
    pub(crate) files: &'static [&'static str],
    /// Files below those that it does not bind.
    pub(crate) except: &'static [&'static str],
    /// Paths that must not be named, with all that is below them.
    pub(crate) forbidden: &'static [&'static str],
    /// If not empty, the only modules of their own crate that the files may name.
    pub(crate) only_own: &'static [&'static str],
    /// Words of the invariant in ARCHITECTURE.md, so that the two change together.
    pub(crate) invariant: &'static str,
}

const BASE: Rule = Rule { files: &[], except: &[], forbidden: &[], only_own: &[], invariant: "" };

pub(crate) const RULES: &[Rule] = &[
    Rule {
        files: &["crates/emulator/src"],
        forbidden: &["sidereal_driver", "sidereal_macros", "sidereal_testing"],
        invariant: "the emulator never depends on the driver",
        ..BASE
    },
    Rule {
        files: &["crates/driver/src"],
        forbidden: &["sidereal_emulator", "sidereal_query", "sidereal_testing"],
        invariant: "nor the driver on the emulator except in tests",
        ..BASE
    },
    Rule {
        files: &["crates/protocol/src", "crates/query/src"],
        forbidden: &[
            "Instant::now",
            "SystemTime::now",
            "std::time::Instant",
            "std::env",
            "std::fs",
            // Writing into a buffer is no I/O; these are.
            "std::io::stderr",
            "std::io::stdin",
            "std::io::stdout",
            "std::net",
            "std::thread",
            "fastrand",
            "tokio",
            "uuid",
        ],
        invariant: "`protocol` and `query` perform no I/O, read no clock and wait for nothing",
        ..BASE
    },
    Rule {
        files: &["crates/emulator/src/store"],
        forbidden: &["http", "hyper", "sidereal_protocol::headers", "std::net", "tokio"],
        invariant: "`store/` does not know what HTTP is",
        ..BASE
    },
    Rule {
        files: &["crates/emulator/src/store"],
        only_own: &["charge", "clock", "store", "throttle", "topology"],
        invariant: "in the emulator data lives in `store/` alone",
        ..BASE
    },
    Rule {
        files: &["crates/emulator/src/faults"],
        forbidden: &["hyper", "tokio"],
        only_own: &["clock", "faults", "millis", "operation"],
        invariant: "`faults/` decides with values: it knows no store, no account and no",
        ..BASE
    },
    Rule {
        files: &["crates/emulator/src/topology.rs"],
        only_own: &["clock", "topology"],
        invariant: "imports go one way",
        ..BASE
    },
    Rule {
        files: &["crates/emulator/src/request.rs", "crates/emulator/src/state.rs"],
        forbidden: &[
            "crate::account",
            "crate::admin",
            "crate::counters",
            "crate::endpoint",
            "crate::faults",
            "crate::handlers",
            "crate::server",
            "crate::service",
        ],
        invariant: "imports go one way",
        ..BASE
    },
    Rule {
        files: &["crates/emulator/src/handlers", "crates/emulator/src/service.rs"],
        forbidden: &[
            "crate::account",
            "crate::admin",
            "crate::counters",
            "crate::endpoint",
            "crate::faults",
            "crate::server",
            "hyper",
            "tokio",
        ],
        invariant: "knows neither fault rules nor counters",
        ..BASE
    },
    Rule {
        files: &["crates/emulator/src/handlers"],
        forbidden: &["crate::service"],
        invariant: "imports go one way",
        ..BASE
    },
    Rule {
        files: &["crates/emulator/src/server"],
        only_own: &["outcome", "server"],
        invariant: "`server/` does not know what a database is",
        ..BASE
    },
    Rule {
        files: &["crates/emulator/src"],
        except: &["crates/emulator/src/server"],
        forbidden: &[
            "hyper",
            "hyper_util",
            "std::net::TcpListener",
            "std::net::TcpStream",
            "std::net::UdpSocket",
            "tokio::net",
        ],
        invariant: "sockets are in `server/` alone",
        ..BASE
    },
    Rule {
        files: &["crates/driver/src/transport"],
        forbidden: &[
            "crate::cosmos_driver",
            "crate::operation",
            "crate::pipeline",
            "sidereal_protocol::PartitionKey",
            "sidereal_protocol::RoutingMap",
            "sidereal_protocol::SessionToken",
        ],
        invariant: "imports nothing of `pipeline/`",
        ..BASE
    },
    Rule {
        files: &["crates/driver/src/transport"],
        // The names of a region and of a partition range pass through to the diagnostics.
        except: &["crates/driver/src/transport/transport_request.rs"],
        forbidden: &[
            "crate::routing",
            "crate::session",
            "sidereal_protocol::PartitionKeyRangeId",
            "sidereal_protocol::RegionName",
            "sidereal_protocol::regions",
        ],
        invariant: "`transport` does not know regions, sessions or partitions",
        ..BASE
    },
    Rule {
        files: &["crates/driver/src/routing"],
        forbidden: &["crate::pipeline", "sidereal_protocol::CosmosStatus"],
        invariant: "`routing` hears of outcomes as effects and knows no status",
        ..BASE
    },
    Rule {
        files: &["crates/driver/src/transport/sharding"],
        forbidden: &[
            "http::HeaderMap",
            "http::HeaderName",
            "http::HeaderValue",
            "http::header",
            "sidereal_protocol::headers",
        ],
        invariant: "`sharding/` does not know what a header is",
        ..BASE
    },
    Rule {
        files: &["crates/driver/src/transport/net"],
        forbidden: &[
            "crate::transport::adaptive_transport",
            "crate::transport::authorization_policy",
            "crate::transport::sharding",
            "crate::transport::transport_pipeline",
            "sidereal_protocol::AccountKey",
        ],
        invariant: "`net/` does not know shards or credentials",
        ..BASE
    },
    Rule {
        files: &[
            "crates/driver/src/pipeline/request.rs",
            "crates/driver/src/pipeline/retry_evaluation.rs",
            "crates/driver/src/retry",
            "crates/driver/src/routing/account_endpoint_state.rs",
            "crates/driver/src/routing/endpoint_resolution.rs",
            "crates/driver/src/session/consistency.rs",
            "crates/driver/src/transport/sharding/load_spread.rs",
            "crates/driver/src/transport/sharding/selection.rs",
            "crates/driver/src/transport/sharding/shard_health.rs",
        ],
        forbidden: &[
            "Instant::now",
            "SystemTime::now",
            "Uuid::new_v4",
            "fastrand",
            "std::thread",
            "tokio",
        ],
        invariant: "read no clock, wait for nothing and know no runtime",
        ..BASE
    },
    Rule {
        files: &["crates/cli/src", "crates/demo/src"],
        forbidden: &["sidereal_driver", "sidereal_query", "sidereal_testing"],
        invariant: "arguments and printing only",
        ..BASE
    },
    Rule {
        files: &[
            "crates/demo/src/report",
            "crates/demo/src/schedule.rs",
            "crates/demo/src/verdict.rs",
            "crates/demo/src/view/frame.rs",
            "crates/demo/src/view/phase_rows.rs",
            "crates/demo/src/view/summary.rs",
            "crates/demo/src/workload/orders.rs",
        ],
        forbidden: &["Instant::now", "SystemTime::now", "duroxide", "sidereal", "std::fs", "tokio"],
        invariant: "of the demo are functions of values",
        ..BASE
    },
    Rule {
        files: &["crates/demo/src/ledger.rs"],
        forbidden: &["duroxide", "sidereal", "sidereal_duroxide"],
        invariant: "it reads without driver and client, whose work is being checked",
        ..BASE
    },
];
