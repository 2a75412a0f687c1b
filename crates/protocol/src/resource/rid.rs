//! RIDs: the identifiers the service gives resources, each containing its parent's.
//!
//! Four bytes of database, four of container, eight of what is inside; base64 with `-` for `/`.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::alphabet::Alphabet;
use base64::engine::general_purpose::{GeneralPurpose, PAD};

use super::kinds::ResourceType;
use crate::error::{Error, ErrorKind, Result, excerpt};
use crate::wire::serde_as_text;

// A RID is part of a path, so `/` of base64 is written `-`; the padding stays.
const ENGINE: GeneralPurpose = GeneralPurpose::new(&alphabet(), PAD);

const fn alphabet() -> Alphabet {
    match Alphabet::new("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+-") {
        Ok(alphabet) => alphabet,
        Err(_) => panic!("64 distinct ASCII characters"),
    }
}

/// The longest RID, that of something inside a container.
// Database (4), container (4), child (8).
const LONGEST: usize = 16;

/// The bits of a child's number that are left once its kind is written in.
const CHILD_NUMBER_BITS: u32 = 60;

/// A resource identifier. Small and copied freely.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Rid {
    bytes: [u8; LONGEST],
    len: u8,
}

impl Rid {
    /// The RID of the offer with this number, of which the lower 24 bits count.
    pub fn offer(number: u32) -> Self {
        let [_, bytes @ ..] = number.to_be_bytes();
        Self::EMPTY.extended(&bytes)
    }

    /// The RID of the database with this number.
    pub fn database(number: u32) -> Self {
        Self::EMPTY.extended(&number.to_be_bytes())
    }

    /// The RID of a container in this database. Its highest bit marks it as one, so the lower 31
    /// bits of the number count.
    ///
    /// `None` unless this is the RID of a database.
    pub fn container(self, number: u32) -> Option<Self> {
        (self.len == 4).then(|| self.extended(&(number | 1 << 31).to_be_bytes()))
    }

    /// The RID of something inside this container; of the number, the lower 60 bits count.
    ///
    /// `None` unless this is the RID of a container and `kind` lives in one.
    pub fn child(self, kind: ResourceType, number: u64) -> Option<Self> {
        if !self.is_container() {
            return None;
        }
        let kind = CHILD_KINDS.iter().find(|(known, _)| *known == kind)?.1;
        let number = number & ((1 << CHILD_NUMBER_BITS) - 1) | u64::from(kind) << CHILD_NUMBER_BITS;
        Some(self.extended(&number.to_le_bytes()))
    }

    /// The RID of a document in this container.
    pub fn document(self, number: u64) -> Option<Self> {
        self.child(ResourceType::Document, number)
    }

    /// The type of resource that the RID identifies, as far as its bytes tell.
    pub fn kind(&self) -> Option<ResourceType> {
        match self.len {
            3 => Some(ResourceType::Offer),
            4 => Some(ResourceType::Database),
            8 if self.is_container() => Some(ResourceType::DocumentCollection),
            8 => Some(ResourceType::User),
            _ => {
                let nibble = self.bytes[15] >> 4;
                CHILD_KINDS.iter().find(|(_, code)| *code == nibble).map(|(kind, _)| *kind)
            }
        }
    }

    /// Whether this is the RID of a container.
    pub fn is_container(&self) -> bool {
        self.len == 8 && self.bytes[4] & 0x80 != 0
    }

    /// The database this is, or is in.
    pub fn database_rid(&self) -> Option<Self> {
        (self.len >= 4).then(|| self.shortened(4))
    }

    /// The container this is, or is in.
    pub fn container_rid(&self) -> Option<Self> {
        (self.len >= 8).then(|| self.shortened(8)).filter(Self::is_container)
    }

    /// Whether this RID lies inside `ancestor`.
    pub fn is_inside(&self, ancestor: &Self) -> bool {
        self.len > ancestor.len && self.as_bytes().starts_with(ancestor.as_bytes())
    }

    /// The ordinal of a document within its container: the tie-breaker of a sort.
    pub fn document_order(&self) -> Option<u64> {
        match self.as_bytes().as_chunks::<8>() {
            // Little-endian, unlike the database's and the container's part.
            ([_, number], []) => Some(u64::from_le_bytes(*number)),
            _ => None,
        }
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    const EMPTY: Self = Self { bytes: [0; LONGEST], len: 0 };

    fn extended(mut self, tail: &[u8]) -> Self {
        let (start, end) = (usize::from(self.len), usize::from(self.len) + tail.len());
        self.bytes[start..end].copy_from_slice(tail);
        self.len = end as u8; // At most 16.
        self
    }

    fn shortened(&self, len: usize) -> Self {
        Self::EMPTY.extended(&self.bytes[..len])
    }
}

/// The code of each kind of child, in the highest four bits of its RID.
const CHILD_KINDS: &[(ResourceType, u8)] = &[
    (ResourceType::Document, 0x0),
    (ResourceType::Conflict, 0x4),
    (ResourceType::PartitionKeyRange, 0x5),
    (ResourceType::UserDefinedFunction, 0x6),
    (ResourceType::Trigger, 0x7),
    (ResourceType::StoredProcedure, 0x8),
];

impl FromStr for Rid {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let refuse = || {
            let message = format!(
                "\"{}\" is not a RID: expected the base64 text of 3, 4, 8 or 16 bytes, such as qYcAAA==",
                excerpt(text).escape_debug()
            );
            Error::new(ErrorKind::Rid, message)
        };
        let mut buffer = [0; 24];
        if text.len() > 24 {
            return Err(refuse());
        }
        let len = ENGINE.decode_slice(text, &mut buffer).map_err(|_| refuse())?;
        match len {
            3 | 4 | 8 | 16 => Ok(Self::EMPTY.extended(&buffer[..len])),
            _ => Err(refuse()),
        }
    }
}

impl fmt::Display for Rid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        base64::display::Base64Display::new(self.as_bytes(), &ENGINE).fmt(f)
    }
}

impl fmt::Debug for Rid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Rid({self})")
    }
}

serde_as_text!(Rid);

#[cfg(test)]
mod tests {
    use super::*;

    fn rid(text: &str) -> Rid {
        text.parse().unwrap()
    }

    #[test]
    fn the_rids_of_the_services_documentation_contain_each_other() {
        let (database, container) = (rid("qYcAAA=="), rid("qYcAAPEvJBQ="));
        let range = rid("qYcAAPEvJBQCAAAAAAAAUA==");
        assert_eq!(database.kind(), Some(ResourceType::Database));
        assert_eq!(container.kind(), Some(ResourceType::DocumentCollection));
        assert_eq!(range.kind(), Some(ResourceType::PartitionKeyRange));
        assert_eq!(range.database_rid(), Some(database));
        assert_eq!(range.container_rid(), Some(container));
        assert!(range.is_inside(&container) && container.is_inside(&database));
        assert_eq!(container.child(ResourceType::PartitionKeyRange, 2), Some(range));
    }

    #[test]
    fn a_made_rid_reads_back() {
        let database = Rid::database(0xA1B2_C3D4);
        let container = database.container(7).unwrap();
        let document = container.document(0x0123_4567_89AB_CDEF).unwrap();
        for made in [Rid::offer(0xFF_FFFF), database, container, document] {
            assert_eq!(made.to_string().parse(), Ok(made));
            assert!(!made.to_string().contains('/'));
        }
        assert_eq!(document.kind(), Some(ResourceType::Document));
    }

    #[test]
    fn documents_are_ordered_by_their_number() {
        let container = Rid::database(1).container(1).unwrap();
        let order = |number| container.document(number).unwrap().document_order().unwrap();
        assert!(order(255) < order(256));
        assert_eq!(container.document_order(), None);
    }

    #[test]
    fn only_a_container_has_documents() {
        assert_eq!(Rid::database(1).document(1), None);
        assert_eq!(Rid::database(1).container(1).unwrap().container(1), None);
    }

    #[test]
    fn what_is_not_a_rid_is_refused() {
        for bad in [
            "",
            "qYcAAA",
            "qYc/AA==",
            "AAAAAAA=",
            "db1",
            "qYcAAPEvJBQCAAAAAAAAUA==AAAA",
            "qYcAAB==",
        ] {
            assert!(bad.parse::<Rid>().is_err(), "{bad}");
        }
    }
}
