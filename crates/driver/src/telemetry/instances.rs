//! How many drivers there are.

use opentelemetry::KeyValue;
use opentelemetry::metrics::UpDownCounter;

use crate::exchange::Endpoint;

/// A driver that is counted for as long as it lives.
#[derive(Debug)]
pub(crate) struct ActiveInstance {
    counter: UpDownCounter<i64>,
    attributes: [KeyValue; 2],
}

impl ActiveInstance {
    pub(super) fn new(counter: &UpDownCounter<i64>, account: &Endpoint) -> Self {
        let attributes = [
            KeyValue::new("server.address", account.host().to_owned()),
            KeyValue::new("server.port", i64::from(account.port())),
        ];
        counter.add(1, &attributes);
        Self { counter: counter.clone(), attributes }
    }
}

impl Drop for ActiveInstance {
    fn drop(&mut self) {
        self.counter.add(-1, &self.attributes);
    }
}
