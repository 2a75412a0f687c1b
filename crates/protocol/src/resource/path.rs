//! Request paths: a resource, or the feed of one kind of resource inside another.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use super::id;
use super::kinds::{OperationType, ResourceType};
use super::link::{Addressing, ResourceLink, kind_of};
use crate::error::{Error, ErrorKind, Result, excerpt};

/// The resource or feed that a URL addresses.
///
/// `Display` is the encoded path with its leading slash; `FromStr` reads it, with or without the
/// trailing slash some SDKs write.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RequestPath {
    link: ResourceLink,
    feed: Option<ResourceType>,
}

impl RequestPath {
    /// The path of a resource.
    pub fn of(link: ResourceLink) -> Self {
        Self { link, feed: None }
    }

    /// The path of all resources of a kind inside `parent`; refuses a kind that is not found there.
    pub fn feed(parent: ResourceLink, kind: ResourceType) -> Result<Self> {
        let expected = kind.parent().unwrap_or(ResourceType::DatabaseAccount);
        if expected != parent.kind() || kind == ResourceType::DatabaseAccount {
            let message = format!("there is no feed of {kind} inside {}", parent.kind());
            return Err(Error::new(ErrorKind::Link, message));
        }
        Ok(Self { link: parent, feed: Some(kind) })
    }

    /// The path an operation takes: its own for a single resource, the feed it belongs to for a
    /// creation, a query or a listing inside `link`.
    pub fn for_operation(
        link: ResourceLink,
        kind: ResourceType,
        operation: OperationType,
    ) -> Result<Self> {
        if kind == link.kind() && !operation.is_feed() {
            Ok(Self::of(link))
        } else {
            Self::feed(link, kind)
        }
    }

    /// The resource addressed, or the one whose feed is.
    pub fn link(&self) -> &ResourceLink {
        &self.link
    }

    /// The kind of resource the request is about.
    pub fn kind(&self) -> ResourceType {
        self.feed.unwrap_or_else(|| self.link.kind())
    }

    /// Whether a feed is addressed rather than one resource.
    pub fn is_feed(&self) -> bool {
        self.feed.is_some()
    }

    /// The encoded path in one allocation; the same text as `Display`.
    pub fn encode(&self) -> String {
        // Names that need no encoding are by far the most.
        let mut path = String::with_capacity(self.link.as_str().len() + 16);
        self.write_to(&mut path).unwrap_or_default(); // A string takes all.
        path
    }

    /// Writes the encoded path; the same text as `Display`, without a formatter.
    ///
    /// # Errors
    ///
    /// Those of the writer.
    pub fn write_to(&self, f: &mut impl fmt::Write) -> fmt::Result {
        if !self.link.as_str().is_empty() {
            f.write_str("/")?;
            id::encode(self.link.as_str()).try_for_each(|piece| f.write_str(piece))?;
        }
        match self.feed {
            Some(kind) => {
                f.write_str("/")?;
                f.write_str(kind.path_segment())
            }
            None if self.link.as_str().is_empty() => f.write_str("/"),
            None => Ok(()),
        }
    }

    /// The link that enters the signature: as it stands for names, the lower-case RID of the
    /// resource (or of the parent of a feed) for RIDs.
    pub fn signed_link(&self) -> Cow<'_, str> {
        match self.link.addressing() {
            Addressing::Names => Cow::Borrowed(self.link.as_str()),
            Addressing::Rids => Cow::Owned(self.link.id().to_ascii_lowercase()),
        }
    }

    /// [`signed_link`](Self::signed_link), shared: with the path itself, if it is of names and long.
    pub fn to_shared_signed_link(&self) -> Arc<str> {
        match self.link.addressing() {
            Addressing::Names => self.link.to_shared(),
            Addressing::Rids => self.signed_link().into(),
        }
    }
}

impl From<ResourceLink> for RequestPath {
    fn from(link: ResourceLink) -> Self {
        Self::of(link)
    }
}

impl fmt::Display for RequestPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_to(f)
    }
}

impl FromStr for RequestPath {
    type Err = Error;

    fn from_str(path: &str) -> Result<Self> {
        let refuse = |why: &str| {
            let message = format!(
                "\"{}\" is not the path of a resource: {why}",
                excerpt(path).escape_debug()
            );
            Error::new(ErrorKind::Link, message)
        };
        let rest = path.strip_prefix('/').ok_or_else(|| refuse("it must begin with a slash"))?;
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let mut link = ResourceLink::ACCOUNT;
        if rest.is_empty() {
            return Ok(Self::of(link));
        }
        let deletion = format!("/{}", ResourceType::PartitionKey.path_segment());
        let (rest, mut feed) = match rest.strip_suffix(&deletion) {
            Some(container) => (container, Some(ResourceType::PartitionKey)),
            None => (rest, None),
        };
        let mut segments = rest.split('/');
        while let Some(segment) = segments.next() {
            let kind = kind_of(segment)?;
            match segments.next() {
                Some(encoded) => {
                    let id =
                        id::decode(encoded).ok_or_else(|| refuse("an id in it is not UTF-8"))?;
                    link = link.child(kind, &id)?;
                }
                None if feed.is_none() => feed = Some(kind),
                None => return Err(refuse("it ends in two feeds")),
            }
        }
        match feed {
            Some(kind) => Self::feed(link, kind),
            None => Ok(Self::of(link)),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn path(text: &str) -> RequestPath {
        text.parse().unwrap()
    }

    #[test]
    fn a_path_is_printed_as_it_is_read() {
        for text in [
            "/",
            "/dbs",
            "/dbs/d",
            "/dbs/d/colls/c/docs",
            "/dbs/d/colls/c/docs/a%20b%25@+=",
            "/offers",
            "/dbs/d/colls/c/operations/partitionkeydelete",
        ] {
            assert_eq!(path(text).to_string(), text);
        }
    }

    #[test]
    fn the_trailing_slash_of_the_python_sdk_is_accepted() {
        assert_eq!(path("/dbs/d/colls/c/docs/"), path("/dbs/d/colls/c/docs"));
        assert_eq!(path("/dbs/d/"), path("/dbs/d"));
    }

    #[test]
    fn a_feed_signs_its_parent_and_a_resource_itself() {
        assert_eq!(path("/dbs").signed_link(), "");
        assert_eq!(path("/dbs/My%20Db/colls").signed_link(), "dbs/My Db");
        assert_eq!(path("/dbs/d/colls/C/docs/I").signed_link(), "dbs/d/colls/C/docs/I");
        assert_eq!(path("/dbs/d/colls/c/docs").kind(), ResourceType::Document);
    }

    #[test]
    fn rids_are_signed_alone_and_in_lower_case() {
        assert_eq!(path("/dbs/qYcAAA==/colls/qYcAAPEvJBQ=").signed_link(), "qycaapevjbq=");
        assert_eq!(path("/dbs/qYcAAA==/colls/qYcAAPEvJBQ=/pkranges").signed_link(), "qycaapevjbq=");
        assert_eq!(path("/offers/NwJh").signed_link(), "nwjh");
        assert_eq!(path("/offers").signed_link(), "");
    }

    #[test]
    fn an_operation_finds_its_path() {
        let container = ResourceLink::container("d", "c").unwrap();
        let to = |link: &ResourceLink, operation| {
            RequestPath::for_operation(link.clone(), ResourceType::Document, operation)
                .unwrap()
                .to_string()
        };
        assert_eq!(to(&container, OperationType::Create), "/dbs/d/colls/c/docs");
        assert_eq!(to(&container, OperationType::Query), "/dbs/d/colls/c/docs");
        assert_eq!(to(&container.item("1").unwrap(), OperationType::Read), "/dbs/d/colls/c/docs/1");
    }

    #[test]
    fn what_is_not_a_path_is_refused() {
        for bad in [
            "",
            "dbs",
            "/x",
            "/dbs/d/docs",
            "/docs",
            "/dbs/%FF",
            "/dbs/a%2Fb",
            "/dbs/d//colls",
            "/colls/operations/partitionkeydelete",
        ] {
            assert!(bad.parse::<RequestPath>().is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn any_unicode_name_survives_the_path(
            database in "[^/\\\\?#]{1,60}",
            container in "[^/\\\\?#]{1,60}",
            item in "[^/\\\\?#]{1,200}",
        ) {
            let link = ResourceLink::container(&database, &container).and_then(|link| link.item(&item));
            prop_assume!(link.is_ok());
            let path = RequestPath::of(link.unwrap());
            prop_assert!(path.to_string().is_ascii());
            prop_assert_eq!(path.to_string().parse::<RequestPath>(), Ok(path.clone()));
            prop_assert_eq!(path.link().to_string().parse::<ResourceLink>(), Ok(path.link().clone()));
        }
    }
}
