//! Links: which resource a request is about, by names or by RIDs, never by both.
//!
//! A [`ResourceLink`] names one resource. The link is kept as the service signs it: unencoded,
//! without slashes at its ends. A [`RequestPath`](super::RequestPath) is what stands in a URL.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use super::id::check_id;
use super::kinds::ResourceType;
use super::rid::Rid;
use crate::error::{Error, ErrorKind, Result, excerpt};
use crate::text::Text;

/// How the resources of a link are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Addressing {
    /// By the ids people gave them.
    Names,
    /// By the identifiers the service gave them.
    Rids,
}

/// The link of one resource, such as `dbs/shop/colls/orders`; the account's is empty.
///
/// Every id in it is valid, every resource is inside the one before, and all are addressed in the
/// same way. Cloning does not allocate.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ResourceLink {
    text: Text,
    kind: ResourceType,
    addressing: Addressing,
}

impl ResourceLink {
    /// The account itself.
    pub const ACCOUNT: Self = Self {
        text: Text::Static(""),
        kind: ResourceType::DatabaseAccount,
        addressing: Addressing::Names,
    };

    /// A database, by its name.
    pub fn database(name: &str) -> Result<Self> {
        Self::ACCOUNT.child(ResourceType::Database, name)
    }

    /// A container, by the names of its database and its own.
    pub fn container(database: &str, container: &str) -> Result<Self> {
        Self::database(database)?.child(ResourceType::DocumentCollection, container)
    }

    /// An offer, by its RID: offers have no names.
    pub fn offer(rid: Rid) -> Result<Self> {
        Self::ACCOUNT.child(ResourceType::Offer, &rid.to_string())
    }

    /// An item of this container.
    pub fn item(&self, id: &str) -> Result<Self> {
        self.child(ResourceType::Document, id)
    }

    /// A resource of the given kind inside this one, by name or RID as this link is addressed.
    ///
    /// A database's id decides for the whole link: the service takes an id that reads as the RID of
    /// a database for one.
    pub fn child(&self, kind: ResourceType, id: &str) -> Result<Self> {
        let parent = kind.parent().unwrap_or(ResourceType::DatabaseAccount);
        let segment = kind.path_segment();
        if parent != self.kind
            || kind == ResourceType::DatabaseAccount
            || kind == ResourceType::PartitionKey
        {
            let message = format!("{kind} \"{}\" cannot be inside {}", excerpt(id), self.kind);
            return Err(Error::new(ErrorKind::Link, message));
        }
        let addressing = match kind {
            ResourceType::Database => addressing_of(id),
            ResourceType::Offer => Addressing::Rids,
            _ => self.addressing,
        };
        match addressing {
            Addressing::Names => check_id(kind, id)?,
            Addressing::Rids => self.check_rid(kind, id)?,
        }
        let slash = if self.text.is_empty() { "" } else { "/" };
        let text = Text::concat(&[&self.text, slash, segment, "/", id]);
        Ok(Self { text, kind, addressing })
    }

    fn check_rid(&self, kind: ResourceType, id: &str) -> Result<()> {
        let refuse = |why: &str| {
            let message = format!(
                "\"{}/{}/{}\" mixes names and RIDs: {why}",
                excerpt(&self.text),
                kind.path_segment(),
                excerpt(id)
            );
            Err(Error::new(ErrorKind::Link, message))
        };
        let Ok(rid) = id.parse::<Rid>() else {
            return refuse("the database is addressed by RID, and this is not a RID");
        };
        match self.rid() {
            Some(parent) if !rid.is_inside(&parent) => {
                refuse("this RID is not inside its parent's")
            }
            _ if kind != ResourceType::Permission && rid.kind() != Some(kind) => {
                refuse("this RID is of another kind of resource")
            }
            _ => Ok(()),
        }
    }

    /// The link without encoding; empty for the account.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Shares the link between many operations: [`to_shared`](Self::to_shared) does not allocate, however short it is.
    #[must_use]
    pub fn into_shared(self) -> Self {
        Self { text: self.text.into_shared(), ..self }
    }

    /// The link without encoding, shared: without an allocation if it is long, or of
    /// [`into_shared`](Self::into_shared).
    pub fn to_shared(&self) -> Arc<str> {
        self.text.to_shared()
    }

    /// The kind of the resource itself.
    pub fn kind(&self) -> ResourceType {
        self.kind
    }

    /// Whether the link is made of names or of RIDs.
    pub fn addressing(&self) -> Addressing {
        self.addressing
    }

    /// The id of the resource itself; empty for the account.
    pub fn id(&self) -> &str {
        self.text.rsplit('/').next().unwrap_or_default()
    }

    /// The RID of the resource itself, if it is addressed by one.
    pub fn rid(&self) -> Option<Rid> {
        match self.addressing {
            Addressing::Names => None,
            Addressing::Rids => self.id().parse().ok(),
        }
    }

    /// The link of what this resource is in; `None` for the account.
    pub fn parent(&self) -> Option<Self> {
        if self.kind == ResourceType::DatabaseAccount {
            return None;
        }
        match self.kind.parent() {
            None => Some(Self::ACCOUNT),
            Some(kind) => {
                let (rest, _id) = self.text.rsplit_once('/')?;
                let (parent, _segment) = rest.rsplit_once('/')?;
                Some(Self { text: Text::from(parent), kind, addressing: self.addressing })
            }
        }
    }

    /// The id of the ancestor of a kind, or of the resource itself if it is of that kind.
    pub fn ancestor_id(&self, kind: ResourceType) -> Option<&str> {
        let mut segments = self.text.split('/');
        while let (Some(segment), Some(id)) = (segments.next(), segments.next()) {
            if segment == kind.path_segment() {
                return Some(id);
            }
        }
        None
    }
}

/// The service looks at the database's id alone.
fn addressing_of(database: &str) -> Addressing {
    match database.parse::<Rid>().ok().and_then(|rid| rid.kind()) {
        Some(ResourceType::Database) => Addressing::Rids,
        _ => Addressing::Names,
    }
}

impl FromStr for ResourceLink {
    type Err = Error;

    /// Reads an unencoded link, with or without slashes at its ends.
    fn from_str(text: &str) -> Result<Self> {
        let text = text.strip_prefix('/').unwrap_or(text);
        let text = text.strip_suffix('/').unwrap_or(text);
        let mut link = Self::ACCOUNT;
        if text.is_empty() {
            return Ok(link);
        }
        let mut segments = text.split('/');
        while let Some(segment) = segments.next() {
            let kind = kind_of(segment)?;
            let id = segments.next().ok_or_else(|| {
                let message = format!("\"{}\" ends where an id is expected", excerpt(text));
                Error::new(ErrorKind::Link, message)
            })?;
            link = link.child(kind, id)?;
        }
        Ok(link)
    }
}

/// The kind of resource a path segment announces.
pub(super) fn kind_of(segment: &str) -> Result<ResourceType> {
    let known =
        |kind: &&ResourceType| !kind.path_segment().is_empty() && kind.path_segment() == segment;
    ResourceType::ALL.iter().find(known).copied().ok_or_else(|| {
        let message = format!(
            "\"{}\" is not a kind of resource: expected dbs, colls, docs, …",
            excerpt(segment)
        );
        Error::new(ErrorKind::Link, message)
    })
}

impl fmt::Display for ResourceLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

crate::wire::serde_as_text!(ResourceLink);

#[cfg(test)]
mod tests {
    use super::*;

    fn link(text: &str) -> ResourceLink {
        text.parse().unwrap()
    }

    #[test]
    fn a_link_is_built_as_it_is_read() {
        let item = ResourceLink::container("shop", "orders").unwrap().item("7 up").unwrap();
        assert_eq!(item.to_string(), "dbs/shop/colls/orders/docs/7 up");
        assert_eq!(item, link("/dbs/shop/colls/orders/docs/7 up/"));
        assert_eq!(item.kind(), ResourceType::Document);
        assert_eq!(item.id(), "7 up");
        assert_eq!(item.parent(), Some(link("dbs/shop/colls/orders")));
        assert_eq!(item.ancestor_id(ResourceType::Database), Some("shop"));
        assert_eq!(link("dbs/shop").parent(), Some(ResourceLink::ACCOUNT));
        assert_eq!(ResourceLink::ACCOUNT.parent(), None);
    }

    #[test]
    fn rids_are_recognised_by_the_database() {
        let container = link("dbs/qYcAAA==/colls/qYcAAPEvJBQ=");
        assert_eq!(container.addressing(), Addressing::Rids);
        assert_eq!(container.rid().unwrap().to_string(), "qYcAAPEvJBQ=");
        assert_eq!(link("dbs/shop/colls/qYcAAPEvJBQ=").addressing(), Addressing::Names);
    }

    #[test]
    fn mixed_addressing_is_refused() {
        for bad in [
            "dbs/qYcAAA==/colls/orders",
            "dbs/qYcAAA==/colls/qYcAAPEvJBQ=/docs/7",
            "dbs/qYcAAA==/colls/AAAAAPEvJBQ=",
            "offers/throughput",
        ] {
            let error = bad.parse::<ResourceLink>().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Link, "{bad}: {error}");
        }
    }

    #[test]
    fn a_resource_in_the_wrong_place_is_refused() {
        for bad in [
            "colls/c",
            "dbs/d/docs/i",
            "dbs/d/colls",
            "dbs//colls/c",
            "x/y",
            "dbs/d/colls/a?b",
            "dbs/d/colls/c/docs/a\\b",
        ] {
            assert!(bad.parse::<ResourceLink>().is_err(), "{bad}");
        }
    }
}
