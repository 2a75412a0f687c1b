//! Which members of a document a compiled query reads.

use super::code::{Block, Code, CollectionCode, DOCUMENT, Matcher, ProjectionCode, StepCode};
use crate::members::DocumentMembers;

/// What a whole query reads. Where its rows are documents that go out as they are, `whole_rows` is set, and
/// whoever has their text uses that: the row itself then reads nothing.
pub(super) fn of_query(block: &Block, whole_rows: bool) -> DocumentMembers {
    let mut reads = Reads::default();
    let is_document = matches!(&block.projection, ProjectionCode::Value(code) if is_whole(code));
    add_block(block, !(whole_rows && is_document), &mut reads);
    reads.members
}

/// What a filter reads; none if it must not be evaluated twice, because it draws random numbers.
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
