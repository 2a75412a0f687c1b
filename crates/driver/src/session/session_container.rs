//! The driver's sessions: the progress that was seen of each container, by partition range.
//!
//! No lock: the progress of a range is replaced whole, by compare-and-swap that retries, so that no
//! concurrent response's token is lost. A response changes the range that it is about and nothing else.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use arc_swap::ArcSwap;
use http::{HeaderMap, HeaderValue};
use sidereal_protocol::headers::ResponseHeaders;
use sidereal_protocol::{PartitionKeyRangeId, PartitionSessionToken, SessionToken};

use crate::system::{Epoch, LastUse, evict_least_recent};

/// The most containers whose sessions are kept. An application that uses more loses the session of the one that it
/// used least recently; what it reads there may then be older than what it wrote.
const MAX_CONTAINERS: usize = 10_000;

/// The most ranges whose progress is kept, those included that were split or merged away. The lowest ids go
/// first: the service counts up, so they are the oldest.
const MAX_RANGES: usize = 50_000;

/// The sessions of one account.
#[derive(Debug)]
pub(crate) struct SessionContainer {
    /// By the container's link. Changed only when a container is new or was recreated.
    containers: ArcSwap<BTreeMap<Arc<str>, Arc<ContainerSession>>>,
    epoch: Epoch,
    max_containers: usize,
    max_ranges: usize,
}

impl Default for SessionContainer {
    fn default() -> Self {
        Self {
            containers: ArcSwap::default(),
            epoch: Epoch::default(),
            max_containers: MAX_CONTAINERS,
            max_ranges: MAX_RANGES,
        }
    }
}

/// The session headers of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SessionHeaders {
    /// How far the session is.
    pub(crate) token: HeaderValue,
    /// The container that it has seen. A container that was recreated under the same name refuses the request,
    /// where it would else wait for a session that never arrives.
    pub(crate) rid: Option<HeaderValue>,
    /// When and where the token was seen, if it is sent as it is kept; `None` if it was put together for the
    /// request.
    pub(crate) kept: Option<SessionPoint>,
}

/// When and where a session made its last progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SessionPoint {
    pub(crate) at: Instant,
    /// The slot of the endpoint that showed it.
    pub(crate) slot: usize,
}

impl SessionHeaders {
    /// Whether a response only repeats what its request carried: the session knows it.
    pub(crate) fn are_repeated_by(&self, response: &HeaderMap) -> bool {
        let said = ResponseHeaders::new(response).session_progress();
        let is_same_container = said.owner_id.is_none() || said.owner_id == self.rid.as_ref();
        self.kept.is_some() && said.token == Some(&self.token) && is_same_container
    }
}

/// News of a container in a response, beside its progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SessionNews {
    /// Nothing: it is the container that the session has seen, or the first one that it sees.
    Same,
    /// It was recreated under the same name.
    Recreated,
}

/// The session of one container.
#[derive(Debug)]
struct ContainerSession {
    /// The container's RID, once a response has named it. A container that was recreated under the same name has
    /// another one, and its log starts over.
    rid: OnceLock<HeaderValue>,
    last_use: LastUse,
    max_ranges: usize,
    /// Changed only when a range is new.
    ranges: ArcSwap<BTreeMap<PartitionKeyRangeId, Arc<RangeSession>>>,
}

/// The progress of a session in one range.
#[derive(Debug)]
struct RangeSession {
    progress: ArcSwap<Progress>,
}

/// Progress in a range, with its encoded header.
#[derive(Debug)]
struct Progress {
    token: PartitionSessionToken,
    header: HeaderValue,
    seen: SessionPoint,
}

impl Progress {
    fn new(
        range: &PartitionKeyRangeId,
        token: PartitionSessionToken,
        seen: SessionPoint,
    ) -> Option<Self> {
        let header = header_of(range, &token)?;
        Some(Self { token, header, seen })
    }
}

fn header_of(range: &PartitionKeyRangeId, token: &PartitionSessionToken) -> Option<HeaderValue> {
    HeaderValue::try_from(format!("{range}:{token}")).ok()
}

impl SessionContainer {
    /// The session headers of a request to a container: the token of its range, where that is known, with what
    /// was seen of the ranges that it was split or merged from; else of all ranges, from which the service
    /// takes the part it needs.
    pub(crate) fn token_for(
        &self,
        container: &str,
        range: Option<(&PartitionKeyRangeId, &[PartitionKeyRangeId])>,
    ) -> Option<SessionHeaders> {
        let containers = self.containers.load();
        let session = containers.get(container)?;
        session.last_use.note(&self.epoch);
        let ranges = session.ranges.load();
        let (token, kept) = match range {
            Some((range, parents)) => inherited(&ranges, range, parents)?,
            None => all_of(&ranges)?,
        };
        Some(SessionHeaders { token, rid: session.rid.get().cloned(), kept })
    }

    /// The session headers of a request to several ranges: the token of each, with what was seen of the ranges that it
    /// was split or merged from. Others are left out where the container's list of ranges `knows` them, as gone or as
    /// elsewhere, so that the header does not grow with each split; the list may be behind a split that the session has seen.
    pub(crate) fn token_for_ranges<'a>(
        &self,
        container: &str,
        ranges: impl Iterator<Item = (&'a PartitionKeyRangeId, &'a [PartitionKeyRangeId])>,
        knows: impl Fn(&PartitionKeyRangeId) -> bool,
    ) -> Option<SessionHeaders> {
        let containers = self.containers.load();
        let session = containers.get(container)?;
        session.last_use.note(&self.epoch);
        let seen = session.ranges.load();
        let listed =
            ranges.filter_map(|(range, parents)| Some(inherited(&seen, range, parents)?.0));
        let unlisted = seen.iter().filter(|(range, _)| !knows(range));
        let unlisted = unlisted.map(|(_, it)| it.progress.load().header.clone());
        let tokens = listed.chain(unlisted);
        let mut text = String::new();
        for token in tokens {
            if !text.is_empty() {
                text.push(',');
            }
            text.push_str(token.to_str().ok()?);
        }
        let token = HeaderValue::try_from(text).ok().filter(|token| !token.is_empty())?;
        Some(SessionHeaders { token, rid: session.rid.get().cloned(), kept: None })
    }

    /// Merges the progress that a response names. Says whether the container is not the one
    /// that the session has seen.
    pub(crate) fn observe(
        &self,
        container: &Arc<str>,
        response: &HeaderMap,
        seen: SessionPoint,
    ) -> SessionNews {
        let said = ResponseHeaders::new(response).session_progress();
        let Some(text) = said.token else { return SessionNews::Same };
        // Optional in responses, and missing from some errors: absent means unknown, not another container.
        let rid = said.owner_id.filter(|rid| !rid.is_empty());
        let containers = self.containers.load();
        let before = containers.get(container);
        if let Some(session) = before {
            session.last_use.note(&self.epoch);
        }
        let known = before.filter(|session| session.is_of(rid));
        // The usual case: nothing was written since, and nothing is parsed.
        if known.is_some_and(|session| session.has_seen(text)) {
            return SessionNews::Same;
        }
        let Some(token) = ResponseHeaders::new(response).session_token() else {
            return SessionNews::Same;
        };
        let session = match known {
            Some(session) => Arc::clone(session),
            None => self.begin(container, rid),
        };
        token.segments().for_each(|(range, progress)| session.advance(range, progress, seen));
        match (before, known) {
            (Some(_), None) => SessionNews::Recreated,
            (Some(_) | None, _) => SessionNews::Same,
        }
    }

    /// Forgets a container: it was recreated, and what was seen of the old one is not in the new one.
    pub(crate) fn forget(&self, container: &str) {
        self.containers.rcu(|containers| {
            let mut containers = BTreeMap::clone(containers);
            containers.remove(container);
            containers
        });
    }

    /// A session that has seen nothing.
    fn session_of(&self, rid: Option<&HeaderValue>) -> ContainerSession {
        let session = ContainerSession {
            rid: OnceLock::new(),
            last_use: LastUse::now(&self.epoch),
            max_ranges: self.max_ranges,
            ranges: ArcSwap::default(),
        };
        session.is_of(rid);
        session
    }

    /// The session of a container that is new, or was recreated.
    fn begin(&self, container: &Arc<str>, rid: Option<&HeaderValue>) -> Arc<ContainerSession> {
        self.epoch.advance();
        let session = Arc::new(self.session_of(rid));
        self.containers.rcu(|containers| {
            let mut containers = BTreeMap::clone(containers);
            // Another response may have begun it meanwhile.
            if containers.get(container).is_none_or(|it| !it.is_of(rid)) {
                let is_new = !containers.contains_key(container);
                if is_new && containers.len() >= self.max_containers {
                    evict_least_recent(&mut containers, |session| &session.last_use);
                }
                containers.insert(Arc::clone(container), Arc::clone(&session));
            }
            containers
        });
        self.containers.load().get(container).map_or(session, Arc::clone)
    }
}

type Ranges = BTreeMap<PartitionKeyRangeId, Arc<RangeSession>>;

/// Drops the range with the lowest number: ids are texts, of which "10" comes before "9". One that is no number
/// counts as young.
fn evict_oldest(ranges: &mut Ranges) {
    let number = |id: &&PartitionKeyRangeId| id.as_str().parse::<u64>().unwrap_or(u64::MAX);
    if let Some(oldest) = ranges.keys().min_by_key(number).cloned() {
        ranges.remove(&oldest);
    }
}

/// The token of a range: its own, unless more was seen of its parents. And since when the session keeps it so.
fn inherited(
    ranges: &Ranges,
    range: &PartitionKeyRangeId,
    parents: &[PartitionKeyRangeId],
) -> Option<(HeaderValue, Option<SessionPoint>)> {
    let own = ranges.get(range).map(|it| it.progress.load());
    let parents = parents.iter().filter_map(|parent| ranges.get(parent));
    let seen = parents.fold(None, |seen: Option<PartitionSessionToken>, parent| {
        let parent = &parent.progress.load().token;
        Some(seen.map_or_else(|| parent.clone(), |seen| seen.merge(parent)))
    });
    let put_together = |token: &PartitionSessionToken| Some((header_of(range, token)?, None));
    match (own, seen) {
        (None, None) => None,
        (None, Some(seen)) => put_together(&seen),
        (Some(own), Some(seen)) if !own.token.covers(&seen) => {
            put_together(&own.token.merge(&seen))
        }
        (Some(own), _) => Some((own.header.clone(), Some(own.seen))),
    }
}

/// The token of all ranges, and since when the session keeps it so.
fn all_of(ranges: &Ranges) -> Option<(HeaderValue, Option<SessionPoint>)> {
    if let (1, Some(only)) = (ranges.len(), ranges.values().next()) {
        let progress = only.progress.load();
        return Some((progress.header.clone(), Some(progress.seen)));
    }
    let segments = ranges.iter().map(|(id, it)| (id.clone(), it.progress.load().token.clone()));
    let token = SessionToken::from_segments(segments)?;
    Some((HeaderValue::try_from(token.to_string()).ok()?, None))
}

impl ContainerSession {
    /// Whether the session is about the container with this RID: only two different RIDs mean two containers. The
    /// first RID that a response names becomes the session's.
    fn is_of(&self, rid: Option<&HeaderValue>) -> bool {
        rid.is_none_or(|rid| self.rid.get_or_init(|| rid.clone()) == rid)
    }

    /// Whether a token of one range says what is known of it, to the byte.
    fn has_seen(&self, text: &HeaderValue) -> bool {
        let range = text.to_str().ok().and_then(|text| Some(text.split_once(':')?.0));
        range.is_some_and(|range| {
            self.ranges.load().get(range).is_some_and(|it| it.progress.load().header == *text)
        })
    }

    fn advance(
        &self,
        range: &PartitionKeyRangeId,
        token: &PartitionSessionToken,
        seen: SessionPoint,
    ) {
        // The usual case copies no map: the range is known.
        if let Some(known) = self.ranges.load().get(range) {
            return known.advance(range, token, seen);
        }
        let Some(progress) = Progress::new(range, token.clone(), seen) else { return };
        let made = Arc::new(RangeSession { progress: ArcSwap::from_pointee(progress) });
        self.ranges.rcu(|ranges| {
            let mut ranges = BTreeMap::clone(ranges);
            if !ranges.contains_key(range) {
                if ranges.len() >= self.max_ranges {
                    evict_oldest(&mut ranges);
                }
                ranges.insert(range.clone(), Arc::clone(&made));
            }
            ranges
        });
        // Another response may have inserted the range first, with less progress.
        if let Some(known) = self.ranges.load().get(range) {
            known.advance(range, token, seen);
        }
    }
}

impl RangeSession {
    fn advance(
        &self,
        range: &PartitionKeyRangeId,
        token: &PartitionSessionToken,
        seen: SessionPoint,
    ) {
        if self.progress.load().token.covers(token) {
            return;
        }
        // `rcu` merges again after a lost race: progress of another thread is never overwritten by less.
        self.progress.rcu(|current| match Progress::new(range, current.token.merge(token), seen) {
            Some(progress) => Arc::new(progress),
            None => Arc::clone(current),
        });
    }
}

#[cfg(test)]
mod tests {
    use sidereal_protocol::headers::names;

    use super::*;

    fn response(token: &str, rid: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(names::SESSION_TOKEN, token.parse().unwrap());
        headers.insert(names::OWNER_ID, rid.parse().unwrap());
        headers
    }

    impl SessionContainer {
        fn take(&self, container: &Arc<str>, response: &HeaderMap) -> SessionNews {
            self.observe(container, response, SessionPoint { at: Instant::now(), slot: 1 })
        }
    }

    fn orders() -> Arc<str> {
        "dbs/store/colls/orders".into()
    }

    fn token(sessions: &SessionContainer) -> Option<HeaderValue> {
        sessions.token_for(&orders(), None).map(|it| it.token)
    }

    fn of_range(sessions: &SessionContainer, range: u32, parents: &[u32]) -> Option<HeaderValue> {
        let parents: Vec<PartitionKeyRangeId> = parents.iter().map(|it| (*it).into()).collect();
        sessions.token_for(&orders(), Some((&range.into(), &parents))).map(|it| it.token)
    }

    #[test]
    fn a_response_that_repeats_what_was_sent_is_no_news() {
        let sessions = SessionContainer::default();
        sessions.take(&orders(), &response("0:-1#5", "rid"));
        let sent = |range: u32, parents: &[PartitionKeyRangeId]| {
            sessions.token_for(&orders(), Some((&range.into(), parents))).unwrap()
        };
        let own = sent(0, &[]);
        assert!(own.are_repeated_by(&response("0:-1#5", "rid")));
        assert!(!own.are_repeated_by(&response("0:-1#6", "rid")));
        assert!(!own.are_repeated_by(&response("0:-1#5", "new")));
        assert!(!own.are_repeated_by(&HeaderMap::new()));
        let inherited = sent(1, &[0.into()]);
        assert_eq!(inherited.token, "1:-1#5");
        assert!(!inherited.are_repeated_by(&response("1:-1#5", "rid")), "not kept of this range");
    }

    #[test]
    fn progress_of_every_range_is_kept_and_never_goes_back() {
        let sessions = SessionContainer::default();
        assert_eq!(token(&sessions), None);
        for seen in ["0:-1#5", "1:-1#7", "0:-1#4", "1:-1#9"] {
            sessions.take(&orders(), &response(seen, "rid"));
        }
        assert_eq!(token(&sessions).unwrap(), "0:-1#5,1:-1#9");
        assert_eq!(of_range(&sessions, 1, &[]).unwrap(), "1:-1#9");
        assert_eq!(of_range(&sessions, 2, &[]), None);
    }

    /// Regression: a read of a child range could miss what was written to the range before its split.
    #[test]
    fn a_range_has_seen_what_its_parents_have() {
        let sessions = SessionContainer::default();
        sessions.take(&orders(), &response("0:-1#5", "rid"));
        assert_eq!(of_range(&sessions, 1, &[0]).unwrap(), "1:-1#5");
        sessions.take(&orders(), &response("1:-1#4", "rid"));
        assert_eq!(of_range(&sessions, 1, &[0]).unwrap(), "1:-1#5", "an eventual read was behind");
        sessions.take(&orders(), &response("1:-1#7", "rid"));
        assert_eq!(of_range(&sessions, 1, &[0]).unwrap(), "1:-1#7");
        sessions.take(&orders(), &response("2:-1#8", "rid"));
        assert_eq!(of_range(&sessions, 3, &[0, 1, 2]).unwrap(), "3:-1#8", "a merge of two");
    }

    /// Regression: the token of a query grew with each split, until no server took the header.
    #[test]
    fn a_token_of_several_ranges_names_only_those_that_are_there() {
        let sessions = SessionContainer::default();
        for seen in ["0:-1#5", "1:-1#7", "2:-1#9"] {
            sessions.take(&orders(), &response(seen, "rid"));
        }
        let [zero, one, two, three] = [0, 1, 2, 3].map(PartitionKeyRangeId::from);
        let (none, split): (Vec<PartitionKeyRangeId>, Vec<_>) = (Vec::new(), vec![0.into()]);
        let ranges = [(&one, &*none), (&two, &*split), (&three, &*split)];
        let carried = |ranges: &[(&PartitionKeyRangeId, &[PartitionKeyRangeId])], known: u32| {
            let knows = |id: &PartitionKeyRangeId| id.as_str().parse::<u32>().unwrap() < known;
            sessions.token_for_ranges(&orders(), ranges.iter().copied(), knows)
        };
        assert_eq!(carried(&ranges, 4).unwrap().token, "1:-1#7,2:-1#9,3:-1#5");
        assert_eq!(carried(&ranges, 4).unwrap().rid.unwrap(), "rid");
        assert_eq!(carried(&ranges[..1], 4).unwrap().token, "1:-1#7");
        assert_eq!(carried(&[], 4), None);
        // A list from before the split of range 0.
        let before = [(&zero, &*none), (&one, &*none)];
        assert_eq!(carried(&before, 2).unwrap().token, "0:-1#5,1:-1#7,2:-1#9");
    }

    #[test]
    fn each_container_has_a_session_of_its_own() {
        let sessions = SessionContainer::default();
        sessions.take(&orders(), &response("0:-1#5", "rid"));
        assert_eq!(sessions.token_for("dbs/store/colls/carts", None), None);
    }

    #[test]
    fn a_container_that_was_recreated_begins_anew() {
        let sessions = SessionContainer::default();
        let old = sessions.take(&orders(), &response("0:-1#500", "old"));
        let new = sessions.take(&orders(), &response("0:-1#1", "new"));
        assert_eq!((old, new), (SessionNews::Same, SessionNews::Recreated));
        assert_eq!(token(&sessions).unwrap(), "0:-1#1");
        let carried = sessions.token_for(&orders(), None).unwrap();
        assert_eq!(carried.rid.unwrap(), "new");
        sessions.forget(&orders());
        assert_eq!(token(&sessions), None);
    }

    fn without_rid(token: &str) -> HeaderMap {
        let mut headers = response(token, "rid");
        headers.remove(names::OWNER_ID);
        headers
    }

    /// A response without `x-ms-content-path` was taken for another container, and the whole session was dropped.
    #[test]
    fn a_response_that_names_no_container_advances_the_session() {
        let sessions = SessionContainer::default();
        let empty = response("0:-1#6", "");
        let news = [
            sessions.take(&orders(), &without_rid("0:-1#4")),
            sessions.take(&orders(), &response("0:-1#5", "rid")),
            sessions.take(&orders(), &empty),
            sessions.take(&orders(), &without_rid("1:-1#7")),
        ];
        assert_eq!(news, [SessionNews::Same; 4]);
        let carried = sessions.token_for(&orders(), None).unwrap();
        assert_eq!(
            (carried.token, carried.rid),
            ("0:-1#6,1:-1#7".parse().unwrap(), "rid".parse().ok())
        );
        let own = sessions.token_for(&orders(), Some((&0.into(), &[]))).unwrap();
        assert!(own.are_repeated_by(&without_rid("0:-1#6")));
        assert_eq!(sessions.take(&orders(), &response("0:-1#1", "new")), SessionNews::Recreated);
    }

    #[test]
    fn what_is_no_token_changes_nothing() {
        let sessions = SessionContainer::default();
        sessions.take(&orders(), &response("0:-1#5", "rid"));
        sessions.take(&orders(), &response("nonsense", "rid"));
        sessions.take(&orders(), &HeaderMap::new());
        assert_eq!(token(&sessions).unwrap(), "0:-1#5");
    }

    #[test]
    fn the_containers_are_bounded() {
        let sessions = SessionContainer::default();
        for number in 0..MAX_CONTAINERS + 5 {
            // Filled at once, not by `observe`, which copies the map for each new container.
            let link: Arc<str> = format!("dbs/store/colls/{number:06}").into();
            if number < MAX_CONTAINERS {
                let session = Arc::new(sessions.session_of(None));
                let mut containers = Arc::unwrap_or_clone(sessions.containers.swap(Arc::default()));
                containers.insert(link, session);
                sessions.containers.store(Arc::new(containers));
            } else {
                sessions.take(&link, &response("0:-1#1", "rid"));
            }
        }
        assert_eq!(sessions.containers.load().len(), MAX_CONTAINERS);
        assert!(sessions.token_for("dbs/store/colls/010004", None).is_some());
    }

    /// The first container by name lost its session again and again, however often it was used.
    #[test]
    fn the_session_that_was_used_least_recently_makes_room() {
        let sessions = SessionContainer { max_containers: 3, ..SessionContainer::default() };
        let seen = |name: &str| sessions.take(&name.into(), &response("0:1#1", "rid"));
        let is_kept = |name: &str| sessions.containers.load().contains_key(name);
        for name in ["a", "b", "c"] {
            seen(name);
        }
        for newcomer in ["d", "e", "f"] {
            assert!(sessions.token_for("a", None).is_some());
            seen(newcomer);
            assert!(is_kept("a") && is_kept(newcomer));
        }
        assert!(!is_kept("b") && !is_kept("c") && !is_kept("d"));
    }

    /// "10" is before "9" as a text, and was dropped in its place.
    #[test]
    fn the_oldest_range_is_the_one_with_the_lowest_number() {
        let sessions = SessionContainer { max_ranges: 3, ..SessionContainer::default() };
        for range in [9, 10, 11, 100] {
            let token = format!("{range}:1#1");
            sessions.take(&orders(), &response(&token, "rid"));
        }
        let is_kept = |range: u32| of_range(&sessions, range, &[]).is_some();
        assert!(!is_kept(9) && is_kept(10) && is_kept(11) && is_kept(100));
    }
}
