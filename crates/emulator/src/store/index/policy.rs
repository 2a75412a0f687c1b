//! Indexing policies: which paths are indexed, and which orders an index can serve.
//!
//! Parsed once when a container is created or replaced. The most precise path that matches decides:
//! more segments beat fewer, and an exact path (`/?`) beats a subtree (`/*`).

use serde_json::Value;
use sidereal_query::{IndexCondition, IndexPath};

/// The parts of an indexing policy that decide something.
#[derive(Clone, Debug)]
pub(crate) struct IndexPolicy {
    rules: Vec<Rule>,
    /// Nothing is indexed at all: indexing mode `none`.
    off: bool,
    composites: Vec<Vec<OrderByPath>>,
}

/// A path and a direction: of a composite index, or of an ORDER BY.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OrderByPath {
    pub(crate) segments: Vec<String>,
    pub(crate) descending: bool,
}

#[derive(Clone, Debug)]
struct Rule {
    segments: Vec<String>,
    subtree: bool,
    included: bool,
}

/// Why an ORDER BY cannot be served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OrderByRefusal {
    ExcludedPath,
    NoCompositeIndex,
}

/// The longest composite index: a limit of the service.
const COMPOSITE_LIMIT: usize = 8;

impl IndexPolicy {
    /// Reads a policy; the error is a sentence about what to change.
    pub(crate) fn parse(policy: &Value) -> Result<Self, String> {
        let Some(fields) = policy.as_object() else {
            return Err("The indexing policy must be an object.".to_owned());
        };
        let off = parse_mode(fields.get("indexingMode"))?;
        let mut rules = Vec::new();
        for (name, included) in [("includedPaths", true), ("excludedPaths", false)] {
            for path in paths_of(fields.get(name), name)? {
                let rule = parse_rule(path, included)?;
                if rules.iter().any(|other: &Rule| other.same_path(&rule)) {
                    return Err(format!(
                        "The indexing path '{path}' could not be accepted, it is given twice."
                    ));
                }
                rules.push(rule);
            }
        }
        if !off && !rules.iter().any(|rule| rule.subtree && rule.segments.is_empty()) {
            let message = "The special mandatory indexing path \"/*\" is not provided in any of the path type sets. \
                           Please provide this path in one of the sets.";
            return Err(message.to_owned());
        }
        let composites = parse_composites(fields.get("compositeIndexes"))?;
        Ok(Self { rules, off, composites })
    }

    /// How many indexed terms a property of a document has: its indexed leaves. System properties have
    /// none.
    pub(crate) fn terms_below(&self, name: &str, value: &Value) -> u32 {
        // System properties add nothing to the charge.
        if self.off || name.starts_with('_') {
            return 0;
        }
        self.count(value, &mut vec![name])
    }

    /// Whether a path is indexed, or the elements of the array there.
    pub(crate) fn indexes(&self, path: &IndexPath) -> bool {
        let elements = path.elements.then_some("[]");
        let segments: Vec<&str> =
            path.segments.iter().map(String::as_str).chain(elements).collect();
        !self.off && self.includes(&segments)
    }

    /// The part of a condition that the indexed paths can tell; `None` if they can tell nothing.
    pub(crate) fn narrow(&self, condition: IndexCondition) -> Option<IndexCondition> {
        match condition {
            IndexCondition::Path { ref path, .. } => self.indexes(path).then_some(condition),
            IndexCondition::All(conditions) => {
                let mut told: Vec<_> =
                    conditions.into_iter().filter_map(|one| self.narrow(one)).collect();
                if told.len() < 2 { told.pop() } else { Some(IndexCondition::All(told)) }
            }
            IndexCondition::Any(conditions) => {
                let told = conditions.into_iter().map(|one| self.narrow(one));
                told.collect::<Option<_>>().map(IndexCondition::Any)
            }
        }
    }

    /// Whether an index can serve an ORDER BY on these paths.
    pub(crate) fn serves(&self, order: &[OrderByPath]) -> Result<(), OrderByRefusal> {
        if order.iter().any(|key| self.off || !self.includes(&key.segments)) {
            return Err(OrderByRefusal::ExcludedPath);
        }
        // One key is served by the index of its path; several need a composite index.
        if order.len() < 2
            || self.composites.iter().any(|composite| composite_serves(composite, order))
        {
            return Ok(());
        }
        Err(OrderByRefusal::NoCompositeIndex)
    }

    fn count<'a>(&self, value: &'a Value, path: &mut Vec<&'a str>) -> u32 {
        match value {
            Value::Object(fields) => fields
                .iter()
                .map(|(name, field)| {
                    path.push(name);
                    let terms = self.count(field, path);
                    path.pop();
                    terms
                })
                .sum(),
            Value::Array(entries) => {
                // Indexing policies write every element of an array as `[]`.
                path.push("[]");
                let terms = entries.iter().map(|entry| self.count(entry, path)).sum();
                path.pop();
                terms
            }
            _ => u32::from(self.includes(path)),
        }
    }

    fn includes<S: AsRef<str>>(&self, path: &[S]) -> bool {
        let matching = self.rules.iter().filter(|rule| rule.matches(path));
        matching.max_by_key(|rule| rule.precision()).is_some_and(|rule| rule.included)
    }
}

impl Rule {
    fn matches<S: AsRef<str>>(&self, path: &[S]) -> bool {
        let long_enough = if self.subtree {
            path.len() >= self.segments.len()
        } else {
            path.len() == self.segments.len()
        };
        long_enough
            && self.segments.iter().zip(path).all(|(segment, name)| segment == name.as_ref())
    }

    fn precision(&self) -> (usize, bool) {
        (self.segments.len(), !self.subtree)
    }

    fn same_path(&self, other: &Self) -> bool {
        self.segments == other.segments && self.subtree == other.subtree
    }
}

/// A composite index serves an order and its exact reverse.
fn composite_serves(composite: &[OrderByPath], order: &[OrderByPath]) -> bool {
    let pairs = || composite.iter().zip(order);
    composite.len() == order.len()
        && pairs().all(|(index, key)| index.segments == key.segments)
        && (pairs().all(|(index, key)| index.descending == key.descending)
            || pairs().all(|(index, key)| index.descending != key.descending))
}

fn parse_mode(mode: Option<&Value>) -> Result<bool, String> {
    match mode.map(|mode| mode.as_str().unwrap_or_default().to_ascii_lowercase()).as_deref() {
        // Lazy indexing is deprecated on the service; here it is the same as consistent.
        None | Some("consistent" | "lazy") => Ok(false),
        Some("none") => Ok(true),
        Some(_) => Err("The indexing mode must be consistent, lazy or none.".to_owned()),
    }
}

fn paths_of<'a>(list: Option<&'a Value>, name: &str) -> Result<Vec<&'a str>, String> {
    let Some(list) = list.filter(|list| !list.is_null()) else { return Ok(Vec::new()) };
    let malformed = || format!("{name} must be a list of objects with a path.");
    let entries = list.as_array().ok_or_else(malformed)?;
    entries
        .iter()
        .map(|entry| entry.get("path").and_then(Value::as_str).ok_or_else(malformed))
        .collect()
}

fn parse_rule(path: &str, included: bool) -> Result<Rule, String> {
    let refused = || {
        format!(
            "The indexing path '{path}' could not be accepted, failed near position '0'. \
             Please ensure that the path is a valid path. Common errors include invalid characters \
             or absence of quotes around labels; it must end with '/?' or '/*'."
        )
    };
    let (stem, subtree) = match (path.strip_suffix("/*"), path.strip_suffix("/?")) {
        _ if path == "/" => ("", true),
        (Some(stem), _) => (stem, true),
        (None, Some(stem)) => (stem, false),
        (None, None) => return Err(refused()),
    };
    let segments = parse_segments(stem).ok_or_else(refused)?;
    if segments.is_empty() && !subtree {
        return Err(refused());
    }
    Ok(Rule { segments, subtree, included })
}

/// `/a/"b c"/[]` to its names.
fn parse_segments(stem: &str) -> Option<Vec<String>> {
    let mut segments = Vec::new();
    let mut rest = stem;
    while !rest.is_empty() {
        rest = rest.strip_prefix('/')?;
        if let Some(quoted) = rest.strip_prefix('"') {
            let end = quoted.find('"')?;
            segments.push(quoted[..end].to_owned());
            rest = &quoted[end + 1..];
        } else {
            let end = rest.find('/').unwrap_or(rest.len());
            let name = &rest[..end];
            if name.is_empty() || name == "*" || name == "?" {
                return None;
            }
            segments.push(name.to_owned());
            rest = &rest[end..];
        }
    }
    Some(segments)
}

fn parse_composites(list: Option<&Value>) -> Result<Vec<Vec<OrderByPath>>, String> {
    let Some(list) = list.filter(|list| !list.is_null()) else { return Ok(Vec::new()) };
    let malformed = || {
        "compositeIndexes must be a list of lists of objects with a path and an order.".to_owned()
    };
    let composites = list.as_array().ok_or_else(malformed)?;
    composites
        .iter()
        .map(|composite| parse_composite(composite.as_array().ok_or_else(malformed)?))
        .collect()
}

fn parse_composite(entries: &[Value]) -> Result<Vec<OrderByPath>, String> {
    if entries.len() < 2 || entries.len() > COMPOSITE_LIMIT {
        return Err(format!("A composite index has from 2 to {COMPOSITE_LIMIT} paths."));
    }
    entries
        .iter()
        .map(|entry| {
            let path = entry.get("path").and_then(Value::as_str).unwrap_or_default();
            let segments = parse_segments(path).filter(|segments| !segments.is_empty());
            let segments = segments.ok_or_else(|| {
                format!("The composite path '{path}' could not be accepted: name a property, without '/?' or '/*'.")
            })?;
            let descending = match entry.get("order").and_then(Value::as_str) {
                None | Some("ascending") => false,
                Some("descending") => true,
                Some(other) => return Err(format!("The order '{other}' must be ascending or descending.")),
            };
            Ok(OrderByPath { segments, descending })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn policy(included: &[&str], excluded: &[&str]) -> IndexPolicy {
        let list =
            |paths: &[&str]| paths.iter().map(|path| json!({ "path": path })).collect::<Vec<_>>();
        IndexPolicy::parse(
            &json!({ "includedPaths": list(included), "excludedPaths": list(excluded) }),
        )
        .unwrap()
    }

    fn key(path: &[&str], descending: bool) -> OrderByPath {
        OrderByPath { segments: path.iter().map(|&name| name.to_owned()).collect(), descending }
    }

    #[test]
    fn the_most_precise_path_decides() {
        let policy = policy(&["/*", "/a/b/?"], &["/a/*", "/tags/[]/?"]);
        assert!(policy.includes(&["x"]));
        assert!(!policy.includes(&["a", "c"]));
        assert!(policy.includes(&["a", "b"]));
        assert!(!policy.includes(&["tags", "[]"]));
    }

    #[test]
    fn terms_are_the_indexed_leaves_of_the_users_own_properties() {
        let policy = policy(&["/*"], &["/skip/*"]);
        let terms = |name, value| policy.terms_below(name, &value);
        assert_eq!(terms("id", json!("1")), 1);
        assert_eq!(terms("n", json!({ "a": 1, "b": [1, 2] })), 3);
        assert_eq!(terms("skip", json!({ "x": 1 })), 0);
        assert_eq!(terms("_ts", json!(5)), 0);
    }

    #[test]
    fn an_order_by_on_several_keys_needs_a_composite_index() {
        let policy = IndexPolicy::parse(&json!({
            "includedPaths": [{ "path": "/*" }],
            "compositeIndexes": [[{ "path": "/a" }, { "path": "/b", "order": "descending" }]],
        }))
        .unwrap();
        assert_eq!(policy.serves(&[key(&["z"], true)]), Ok(()));
        assert_eq!(policy.serves(&[key(&["a"], false), key(&["b"], true)]), Ok(()));
        assert_eq!(policy.serves(&[key(&["a"], true), key(&["b"], false)]), Ok(()));
        let refused = Err(OrderByRefusal::NoCompositeIndex);
        assert_eq!(policy.serves(&[key(&["a"], false), key(&["b"], false)]), refused);
        assert_eq!(policy.serves(&[key(&["b"], true), key(&["a"], false)]), refused);
    }

    #[test]
    fn an_order_by_on_an_excluded_path_is_refused() {
        let policy = policy(&["/*"], &["/hidden/?"]);
        assert_eq!(policy.serves(&[key(&["hidden"], false)]), Err(OrderByRefusal::ExcludedPath));
    }

    #[test]
    fn malformed_policies_are_refused_with_the_reason() {
        for malformed in [
            json!([]),
            json!({ "includedPaths": [{ "path": "/a/?" }] }),
            json!({ "includedPaths": [{ "path": "/*" }, { "path": "/a" }] }),
            json!({ "includedPaths": [{ "path": "/*" }], "excludedPaths": [{ "path": "/*" }] }),
            json!({ "includedPaths": [{ "path": "/*" }], "compositeIndexes": [[{ "path": "/a" }]] }),
            json!({ "indexingMode": "eager", "includedPaths": [{ "path": "/*" }] }),
        ] {
            assert!(IndexPolicy::parse(&malformed).is_err(), "{malformed}");
        }
    }
}
