//! Which part of a container an operation is about.

use bytes::Bytes;
use http::{HeaderName, HeaderValue};
use sidereal_protocol::headers::names;
use sidereal_protocol::{
    EffectivePartitionKeyRange, OperationType, PartitionKey, PartitionKeyRangeId,
};

use super::text_buffer::encode;
use crate::{Error, ErrorKind};

const TRUE: HeaderValue = HeaderValue::from_static("True");
const BY_RANGE: HeaderValue = HeaderValue::from_static(names::EFFECTIVE_PARTITION_KEY_RANGE);

/// The part of a container that an operation is about.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OperationTarget {
    /// The items of one partition key.
    PartitionKey(PartitionKey),
    /// The items of one partition range.
    PartitionRange(PartitionKeyRangeId),
    /// The items whose effective partition keys are in a range.
    EffectiveRange(EffectivePartitionKeyRange),
    /// The whole feed, over all partitions.
    Feed,
}

/// A target as it is sent, encoded once.
#[derive(Clone, Debug)]
pub(crate) enum EncodedTarget {
    /// By one header.
    One(HeaderName, HeaderValue),
    /// By its first and last effective partition key.
    Range(HeaderValue, HeaderValue),
    /// By nothing, or a query by its word that it wants them all.
    Feed,
    /// It cannot be sent.
    Unsendable,
}

impl EncodedTarget {
    pub(super) fn of(target: &OperationTarget) -> Self {
        let one = |name, value: Result<HeaderValue, _>| match value {
            Ok(value) => Self::One(name, value),
            Err(http::header::InvalidHeaderValue { .. }) => Self::Unsendable,
        };
        match target {
            OperationTarget::PartitionKey(key) => Self::of_key(encode(|text| key.write_to(text))),
            OperationTarget::PartitionRange(id) => {
                one(names::PARTITION_KEY_RANGE_ID, HeaderValue::from_str(id.as_str()))
            }
            OperationTarget::EffectiveRange(range) => {
                let bounds = [range.min(), range.max()].map(ToString::to_string);
                match bounds.map(HeaderValue::try_from) {
                    [Ok(start), Ok(end)] => Self::Range(start, end),
                    _ => Self::Unsendable,
                }
            }
            OperationTarget::Feed => Self::Feed,
        }
    }

    /// A partition key, from its header form.
    pub(super) fn of_key(text: Bytes) -> Self {
        HeaderValue::from_maybe_shared(text)
            .map_or(Self::Unsendable, |value| Self::One(names::PARTITION_KEY, value))
    }

    /// Adds the headers that name it.
    pub(crate) fn add_to(
        &self,
        operation: OperationType,
        mut insert: impl FnMut(HeaderName, HeaderValue),
    ) -> Result<(), Error> {
        match self {
            Self::One(name, value) => insert(name.clone(), value.clone()),
            Self::Range(start, end) => {
                insert(names::START_EPK, start.clone());
                insert(names::END_EPK, end.clone());
                insert(names::READ_KEY_TYPE, BY_RANGE);
            }
            Self::Feed if operation == OperationType::Query => {
                insert(names::ENABLE_CROSS_PARTITION_QUERY, TRUE);
            }
            Self::Feed => {}
            Self::Unsendable => {
                let sentence = "the operation's target cannot be sent as a header";
                return Err(Error::new(ErrorKind::InvalidRequest, sentence));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(target: &OperationTarget, operation: OperationType) -> Vec<(HeaderName, String)> {
        let mut sent = Vec::new();
        let insert =
            |name, value: HeaderValue| sent.push((name, value.to_str().unwrap().to_owned()));
        EncodedTarget::of(target).add_to(operation, insert).unwrap();
        sent
    }

    #[test]
    fn each_target_is_named_by_its_own_headers() {
        let read = |target| sent(&target, OperationType::ReadFeed);
        assert_eq!(
            read(OperationTarget::PartitionKey(PartitionKey::from("contoso"))),
            [(names::PARTITION_KEY, "[\"contoso\"]".to_owned())]
        );
        assert_eq!(
            read(OperationTarget::PartitionRange(PartitionKeyRangeId::from(12))),
            [(names::PARTITION_KEY_RANGE_ID, "12".to_owned())]
        );
        assert_eq!(
            read(OperationTarget::EffectiveRange(EffectivePartitionKeyRange::FULL)),
            [
                (names::START_EPK, String::new()),
                (names::END_EPK, "FF".to_owned()),
                (names::READ_KEY_TYPE, "EffectivePartitionKeyRange".to_owned()),
            ]
        );
    }

    #[test]
    fn only_a_query_says_that_it_wants_all_partitions() {
        assert_eq!(sent(&OperationTarget::Feed, OperationType::ReadFeed), []);
        let query = sent(&OperationTarget::Feed, OperationType::Query);
        assert_eq!(query, [(names::ENABLE_CROSS_PARTITION_QUERY, "True".to_owned())]);
    }
}
