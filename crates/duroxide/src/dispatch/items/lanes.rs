//! Activities that wait, in a lane for each tag: a worker looks at the lanes of the tags that it takes, however many
//! wait in others.

use std::collections::{BTreeMap, HashMap};

use duroxide::providers::TagFilter;

use super::hint::{ItemHint, Order};

type Lane = BTreeMap<Order, ItemHint>;

#[derive(Debug, Default)]
pub(super) struct Lanes {
    untagged: Lane,
    tagged: HashMap<String, Lane>,
}

impl Lanes {
    pub(super) fn insert(&mut self, hint: ItemHint) {
        let lane = match &hint.tag {
            None => &mut self.untagged,
            Some(tag) => self.tagged.entry(tag.clone()).or_default(),
        };
        lane.insert(hint.order(), hint);
    }

    pub(super) fn remove(&mut self, tag: Option<&str>, order: &Order) -> Option<ItemHint> {
        let Some(tag) = tag else { return self.untagged.remove(order) };
        let lane = self.tagged.get_mut(tag)?;
        let hint = lane.remove(order);
        if lane.is_empty() {
            self.tagged.remove(tag);
        }
        hint
    }

    pub(super) fn get(&self, tag: Option<&str>, order: &Order) -> Option<&ItemHint> {
        self.lane(tag)?.get(order)
    }

    /// The activity that waits longest, of those that a worker takes.
    pub(super) fn first(&self, tags: &TagFilter) -> Option<&ItemHint> {
        let untagged = match tags {
            TagFilter::DefaultOnly | TagFilter::DefaultAnd(_) | TagFilter::Any => {
                self.untagged.values().next()
            }
            TagFilter::Tags(_) | TagFilter::None => None,
        };
        let tagged = match tags {
            TagFilter::Tags(names) | TagFilter::DefaultAnd(names) => {
                oldest(names.iter().filter_map(|name| self.tagged.get(name)?.values().next()))
            }
            TagFilter::Any => oldest(self.tagged.values().filter_map(|lane| lane.values().next())),
            TagFilter::DefaultOnly | TagFilter::None => None,
        };
        oldest(untagged.into_iter().chain(tagged))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.untagged.is_empty() && self.tagged.is_empty()
    }

    /// How many wait with a tag.
    pub(super) fn len_of(&self, tag: Option<&str>) -> usize {
        self.lane(tag).map_or(0, Lane::len)
    }

    /// How many wait in all.
    pub(super) fn len(&self) -> usize {
        self.untagged.len() + self.tagged.values().map(Lane::len).sum::<usize>()
    }

    /// The youngest activity of the longest lane, and how many wait there.
    pub(super) fn youngest_of_longest(&self) -> Option<(usize, &ItemHint)> {
        let lanes = std::iter::once(&self.untagged).chain(self.tagged.values());
        let longest = lanes.max_by_key(|lane| lane.len())?;
        Some((longest.len(), longest.values().next_back()?))
    }

    pub(super) fn into_hints(self) -> impl Iterator<Item = ItemHint> {
        let lanes = std::iter::once(self.untagged).chain(self.tagged.into_values());
        lanes.flat_map(BTreeMap::into_values)
    }

    fn lane(&self, tag: Option<&str>) -> Option<&Lane> {
        match tag {
            None => Some(&self.untagged),
            Some(tag) => self.tagged.get(tag),
        }
    }
}

/// That which waits longest.
pub(super) fn oldest<'a>(hints: impl Iterator<Item = &'a ItemHint>) -> Option<&'a ItemHint> {
    hints.min_by(|one, other| one.age().cmp(&other.age()))
}
