//! Which members of a document a compiled query reads.

use super::code::{Block, Code, CollectionCode, DOCUMENT, Matcher, ProjectionCode, StepCode};
use crate::members::DocumentMembers;

/// The members that a whole query reads. Where its rows are documents that go out as they are, `whole_rows` is set, and
/// a caller that has their text uses that: the row itself then reads nothing.
pub(super) fn of_query(block: &Block, whole_rows: bool) -> DocumentMembers {
    let mut reads = Reads::default();
    let is_document = matches!(&block.projection, ProjectionCode::Value(code) if is_whole(code));
    add_block(block, !(whole_rows && is_document), &mut reads);
    reads.members
}

/// The members that a filter reads; `None` if it must not be evaluated twice, because it draws random numbers.
pub(super) fn of_filter(filter: &Code) -> Option<DocumentMembers> {
    let mut reads = Reads::default();
    add(filter, &mut reads);
    (!reads.randomness).then_some(reads.members)
}

struct Reads {
    members: DocumentMembers,
    randomness: bool,
}

impl Default for Reads {
    fn default() -> Self {
        Self { members: DocumentMembers::Named(Vec::new()), randomness: false }
    }
}

fn is_whole(code: &Code) -> bool {
    matches!(code, Code::Path(DOCUMENT, steps) if steps.is_empty())
}

fn add_block(block: &Block, with_projection: bool, reads: &mut Reads) {
    for source in &block.sources {
        match &source.collection {
            // To bind an alias to the document reads nothing of it.
            CollectionCode::Value(code) if is_whole(code) && !source.elements => {}
            CollectionCode::Value(code) => add(code, reads),
            CollectionCode::Block(inner) => add_block(inner, true, reads),
        }
    }
    block.filter.iter().for_each(|filter| add(filter, reads));
    block.order.iter().for_each(|(code, _)| add(code, reads));
    if let Some(grouping) = &block.grouping {
        grouping.keys.iter().for_each(|key| add(key, reads));
        grouping.aggregates.iter().for_each(|aggregate| add(&aggregate.argument, reads));
    }
    match &block.projection {
        _ if !with_projection => {}
        ProjectionCode::Value(code) => add(code, reads),
        ProjectionCode::Object(members) => members.iter().for_each(|(_, code)| add(code, reads)),
    }
}

fn add(code: &Code, reads: &mut Reads) {
    let mut each = |codes: &[Code]| codes.iter().for_each(|code| add(code, reads));
    match code {
        Code::Path(DOCUMENT, steps) => match steps.first() {
            None => reads.members = DocumentMembers::All,
            Some(StepCode::Name(name)) => reads.members.insert(name),
            // A document is an object and has no elements.
            Some(StepCode::Index(_)) => {}
        },
        Code::Undefined
        | Code::Constant(_)
        | Code::Path(..)
        | Code::GroupKey(_)
        | Code::Aggregate(_) => {}
        Code::Property(inner, _) | Code::Unary(_, inner) | Code::InSet(_, inner, _) => {
            add(inner, reads);
        }
        Code::Index(left, right) | Code::Binary(_, left, right) => {
            add(left, reads);
            add(right, reads);
        }
        Code::And(codes) | Code::Or(codes) | Code::Array(codes) => each(codes),
        Code::Call(function, codes) => {
            each(codes);
            reads.randomness |= function.is_random();
        }
        Code::Conditional(codes) | Code::Between(_, codes) => each(&**codes),
        Code::In(_, value, list) => {
            each(list);
            add(value, reads);
        }
        Code::Like(_, text, matcher) | Code::RegexMatch(text, matcher) => {
            add(text, reads);
            add_matcher(matcher, reads);
        }
        Code::Object(members) => members.iter().for_each(|(_, code)| add(code, reads)),
        Code::Exists(block) | Code::ArrayOf(block) | Code::Subquery(block) => {
            add_block(block, true, reads);
        }
    }
}

fn add_matcher(matcher: &Matcher, reads: &mut Reads) {
    match matcher {
        Matcher::Constant(_) | Matcher::Never => {}
        Matcher::Like { pattern, .. } => add(pattern, reads),
        Matcher::Regex { pattern, flags } => {
            add(pattern, reads);
            flags.iter().for_each(|flags| add(flags, reads));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::members::DocumentMembers;
    use crate::{Context, Parameters, Program, Taken, parse};

    fn program(text: &str) -> Program {
        Program::new(&parse(text).expect(text), &Parameters::new()).expect(text)
    }

    /// The rows over documents of which only `members` were parsed; a whole document is taken from its text.
    fn rows(program: &Program, documents: &[Value], members: &DocumentMembers) -> Vec<Value> {
        let context = Context::new(0, 0);
        let mut run = program.start(&context);
        let mut rows = Vec::new();
        for document in documents {
            let parsed = members.parse(document.to_string().as_bytes()).unwrap();
            let flow = run.read(&parsed, &[], &mut |row| {
                rows.push(if row.is_document() { document.clone() } else { row.into_value() });
                Taken::More
            });
            flow.unwrap();
        }
        run.finish(&mut rows).unwrap();
        rows
    }

    #[test]
    fn the_members_that_a_query_reads_are_enough_for_it() {
        let documents: Vec<Value> = (0..6)
            .map(|n| {
                json!({
                    "id": n.to_string(), "n": n, "a": {"b": [n, {"c": "x%"}]}, "tags": ["x", n], "s": "xy",
                    "_rid": "3hYnAKJZzN4BAAAAAAAAAA==", "unread": "u",
                })
            })
            .collect();
        for text in [
            "SELECT * FROM c",
            "SELECT * FROM c WHERE c.n > 2",
            "SELECT VALUE c FROM c WHERE c.n > 2",
            "SELECT DISTINCT * FROM c",
            "SELECT c FROM c",
            "SELECT c.id, c.a.b[1].c FROM c WHERE c.n IN (0,1,2,3,4,5,6,7,8,9)",
            "SELECT VALUE t FROM t IN c.tags",
            "SELECT VALUE [c.id, t] FROM c JOIN t IN c.tags WHERE t != 'x'",
            "SELECT c.n, COUNT(1) AS k, MAX(c.s) AS m FROM c GROUP BY c.n",
            "SELECT VALUE SUM(c.n) FROM c",
            "SELECT VALUE c.id FROM c ORDER BY c.n DESC",
            "SELECT VALUE EXISTS(SELECT 1 FROM t IN c.tags WHERE t = c.n) FROM c",
            "SELECT VALUE ARRAY(SELECT VALUE t FROM t IN c.tags) FROM c",
            "SELECT VALUE (SELECT VALUE c.n) FROM c",
            "SELECT VALUE c.s LIKE c.a.b[1].c FROM c",
            "SELECT VALUE RegexMatch(c.s, c.s) ? c.id : c.n FROM c",
            "SELECT VALUE {a: c.id, b: -c.n, d: [c.s]} FROM c WHERE NOT (c.n = 3)",
            "SELECT VALUE c['n'] + 1 FROM c WHERE c.n BETWEEN 1 AND 4",
            "SELECT VALUE s.id FROM (SELECT c.id, c.n FROM c) s WHERE s.n > 1",
            "SELECT VALUE t.x FROM (SELECT s.id AS x FROM (SELECT c.id, c.s FROM c) s) t",
            "SELECT VALUE COUNT(1) FROM (SELECT VALUE c FROM c) s WHERE s.n > 1",
            "SELECT VALUE x.n FROM c JOIN (SELECT VALUE c) x",
        ] {
            let program = program(text);
            let whole = rows(&program, &documents, &DocumentMembers::All);
            assert_eq!(rows(&program, &documents, &program.members()), whole, "{text}");
            assert!(!whole.is_empty(), "{text}");
        }
    }

    #[test]
    fn members_that_a_query_does_not_read_are_not_among_them() {
        let named = |names: &[&str]| {
            DocumentMembers::Named(names.iter().map(|&name| name.into()).collect())
        };
        let cases = [
            ("SELECT * FROM c WHERE c.n > 2", named(&["n"]), Some(named(&["n"]))),
            ("SELECT c.id FROM c WHERE c.a.b = 1", named(&["a", "id"]), Some(named(&["a"]))),
            ("SELECT c.id, c FROM c WHERE c.n = 1", DocumentMembers::All, Some(named(&["n"]))),
            ("SELECT VALUE t FROM c JOIN t IN c.tags WHERE c.n = 1", named(&["tags", "n"]), None),
            ("SELECT * FROM c WHERE RAND() < c.n", named(&["n"]), None),
            ("SELECT VALUE COUNT(1) FROM c", named(&[]), None),
        ];
        for (text, members, of_filter) in cases {
            let program = program(text);
            assert_eq!(program.members(), members, "{text}");
            assert_eq!(program.filter_members(), of_filter, "{text}");
        }
    }
}
