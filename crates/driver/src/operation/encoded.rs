//! The parts of an operation as they are sent.
//!
//! They are slices of one allocation with a shared count, so that neither an attempt nor a clone of the
//! operation allocates for them.

use std::sync::Arc;

use http::uri::PathAndQuery;
use sidereal_protocol::{PartitionKey, RequestPath, ResourceLink, ResourceType};

use super::EncodedTarget;
use super::text_buffer::encode;
use crate::{Error, ErrorKind};

/// The parts of an operation as they are sent: encoded once, however often it is attempted or executed. A
/// clone copies no text.
#[derive(Clone, Debug)]
pub(crate) struct Encoded {
    /// None if it cannot be sent.
    path: Option<PathAndQuery>,
    /// The link that a signature covers.
    pub(crate) signed_link: Arc<str>,
    /// The container that it is about, or in which its resource lives.
    pub(crate) container: Option<Arc<str>>,
    /// None if the operation is about no part of a container.
    pub(crate) target: Option<EncodedTarget>,
}

impl Encoded {
    pub(super) fn of(path: &RequestPath) -> Self {
        let text = encode(|text| path.write_to(text));
        Self {
            path: PathAndQuery::from_maybe_shared(text).ok(),
            signed_link: path.to_shared_signed_link(),
            container: container_of(path.link()),
            target: None,
        }
    }

    /// The parts of an operation on the items of one partition key: path and key in one allocation.
    pub(super) fn on_key(path: &RequestPath, container: &ResourceLink, key: &PartitionKey) -> Self {
        let mut length = 0;
        let mut text = encode(|text| {
            path.write_to(text)?;
            length = text.as_ref().len();
            key.write_to(text)
        });
        let path_text = text.split_to(length);
        Self {
            path: PathAndQuery::from_maybe_shared(path_text).ok(),
            signed_link: path.to_shared_signed_link(),
            container: Some(container.to_shared()),
            target: Some(EncodedTarget::of_key(text)),
        }
    }

    /// The path of the request.
    pub(crate) fn path(&self) -> Result<PathAndQuery, Error> {
        let refused =
            || Error::new(ErrorKind::InvalidRequest, "the operation's path cannot be sent");
        self.path.clone().ok_or_else(refused)
    }
}

/// The link of the container that a link is about.
fn container_of(link: &ResourceLink) -> Option<Arc<str>> {
    let mut link = link.clone();
    while link.kind() != ResourceType::DocumentCollection {
        link = link.parent()?;
    }
    Some(link.to_shared())
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use sidereal_protocol::headers::names;

    use super::*;

    fn sent(encoded: &Encoded) -> (String, HeaderValue) {
        let Some(EncodedTarget::One(name, value)) = &encoded.target else { panic!("no key") };
        assert_eq!(*name, names::PARTITION_KEY);
        (encoded.path().unwrap().to_string(), value.clone())
    }

    /// Also longer than the buffer, from the key on or from the path on, and with characters that are encoded.
    #[test]
    fn path_and_key_are_apart_however_long_they_are() {
        let container = ResourceLink::container("store", "orders").unwrap();
        let (short, long) = ("x".repeat(100), "y".repeat(1023));
        for (id, key) in [("1", "a"), ("a b%", "é\"\n"), (&short, &short), (&long, &long)] {
            let path = RequestPath::of(container.item(id).unwrap());
            let key = PartitionKey::from(key);
            let encoded = Encoded::on_key(&path, &container, &key);
            assert_eq!(sent(&encoded), (path.to_string(), key.to_header().parse().unwrap()));
            assert_eq!(&*encoded.signed_link, path.link().as_str());
            assert_eq!(encoded.container.as_deref(), Some(container.as_str()));
        }
    }

    #[test]
    fn a_link_and_its_signature_share_their_text() {
        let container = ResourceLink::container("store", "orders").unwrap().into_shared();
        let feed = RequestPath::feed(container.clone(), ResourceType::Document).unwrap();
        let encoded = Encoded::on_key(&feed, &container, &PartitionKey::from(1));
        assert!(Arc::ptr_eq(&encoded.signed_link, &container.to_shared()));
        assert!(encoded.container.is_some_and(|it| Arc::ptr_eq(&it, &encoded.signed_link)));
    }
}
