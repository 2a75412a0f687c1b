//! Feeds: a page of resources of one kind.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Error as _, IgnoredAny, MapAccess, Visitor};
use serde::ser::SerializeStruct;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::resource::ResourceType;

/// A page of resources: `{"_rid": …, "Documents": […], "_count": n}`.
///
/// The kind decides under which name the resources stand. Use a raw or borrowed type for `T` to
/// leave the resources unparsed.
#[derive(Clone, Debug, PartialEq)]
pub struct Feed<T> {
    /// The type of the resources on the page.
    pub kind: ResourceType,
    /// The RID of what the feed belongs to.
    pub rid: String,
    /// The resources.
    pub items: Vec<T>,
}

impl<T> Feed<T> {
    /// A page.
    pub fn new(kind: ResourceType, rid: impl Into<String>, items: Vec<T>) -> Self {
        Self { kind, rid: rid.into(), items }
    }
}

impl<T: Serialize> Serialize for Feed<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut feed = serializer.serialize_struct("Feed", 3)?;
        feed.serialize_field("_rid", &self.rid)?;
        feed.serialize_field(self.kind.feed_name(), &self.items)?;
        feed.serialize_field("_count", &self.items.len())?;
        feed.end()
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Feed<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(FeedVisitor(PhantomData))
    }
}

struct FeedVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for FeedVisitor<T> {
    type Value = Feed<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a feed such as {\"Documents\": [], \"_count\": 0}")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let (mut rid, mut page) = (String::new(), None);
        while let Some(name) = map.next_key::<std::borrow::Cow<'de, str>>()? {
            let kind = ResourceType::ALL.iter().find(|kind| kind.feed_name() == name);
            match kind {
                Some(kind) => page = Some((*kind, map.next_value()?)),
                None if name == "_rid" => {
                    rid = map.next_value::<Option<String>>()?.unwrap_or_default();
                }
                // The count says nothing the array does not.
                None => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        let (kind, items) =
            page.ok_or_else(|| A::Error::custom("the feed holds no array of resources"))?;
        Ok(Feed { kind, rid, items })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_feed_is_written_under_the_name_of_its_kind() {
        let feed = Feed::new(ResourceType::Document, "qYcAAPEvJBQ=", vec![json!({"id": "1"})]);
        let json = r#"{"_rid":"qYcAAPEvJBQ=","Documents":[{"id":"1"}],"_count":1}"#;
        assert_eq!(serde_json::to_string(&feed).unwrap(), json);
        assert_eq!(serde_json::from_str::<Feed<Value>>(json).unwrap(), feed);
    }

    #[test]
    fn resources_can_stay_unparsed() {
        let json = r#"{"PartitionKeyRanges":[{"id" : "0"}],"_count":1,"newer":{}}"#;
        let feed: Feed<&RawValue> = serde_json::from_str(json).unwrap();
        assert_eq!(feed.kind, ResourceType::PartitionKeyRange);
        assert_eq!(feed.items[0].get(), r#"{"id" : "0"}"#);
    }

    #[test]
    fn a_body_without_resources_is_no_feed() {
        assert!(serde_json::from_str::<Feed<Value>>(r#"{"_count":0}"#).is_err());
    }
}
