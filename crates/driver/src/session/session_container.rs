//! What the sessions of a driver have seen, container by container.
//!
//! No lock: a container's progress is replaced whole, by compare-and-swap that retries, so that no
//! concurrent response's token is lost.

use std::collections::BTreeMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use http::{HeaderMap, HeaderValue};
use sidereal_protocol::SessionToken;
use sidereal_protocol::headers::{ResponseHeaders, names};

use crate::OperationTarget;

/// The most containers whose sessions are kept. An application that uses more begins the session of one anew
/// for each; what it reads there may then be older than what it wrote.
const MAX_CONTAINERS: usize = 10_000;

/// The sessions of one account.
#[derive(Debug, Default)]
pub(crate) struct SessionContainer {
    /// By the container's link. Changed only when a container is new or was recreated.
    containers: ArcSwap<BTreeMap<Arc<str>, Arc<ContainerSession>>>,
}

/// The session of one container.
#[derive(Debug)]
struct ContainerSession {
    /// A container that was recreated under the same name has another, and its log begins anew.
    rid: Box<str>,
    progress: ArcSwap<Progress>,
}

/// How far a session is, range by range, and the header that says so.
#[derive(Debug)]
struct Progress {
    token: SessionToken,
    header: HeaderValue,
}

impl Progress {
    fn new(token: SessionToken) -> Option<Self> {
        let header = HeaderValue::try_from(token.to_string()).ok()?;
        Some(Self { token, header })
    }

    /// Whether a token of one range is part of this, as it stands.
    fn holds(&self, token: &str) -> bool {
        self.header.to_str().is_ok_and(|all| all.split(',').any(|segment| segment == token))
    }
}

impl SessionContainer {
    /// The token for a request to a container: of the range that it is about, where it names one, and else
    /// of all ranges. The service takes the part it needs, parents of a split range included.
    pub(crate) fn token_for(
        &self,
        container: &str,
        target: Option<&OperationTarget>,
    ) -> Option<HeaderValue> {
        let containers = self.containers.load();
        let progress = containers.get(container)?.progress.load();
        if let Some(OperationTarget::PartitionRange(range)) = target
            && let Some(own) = progress.token.range(range.as_str())
        {
            let token = SessionToken::of_range(range.clone(), own.clone());
            return HeaderValue::try_from(token.to_string()).ok();
        }
        Some(progress.header.clone())
    }

    /// Takes in what a response says of its container's progress.
    pub(crate) fn observe(&self, container: &Arc<str>, response: &HeaderMap) {
        let Some(text) = response.get(names::SESSION_TOKEN) else { return };
        let rid = ResponseHeaders::new(response).owner_id().unwrap_or_default();
        let known = self.containers.load().get(container).cloned();
        let known = known.filter(|session| *session.rid == *rid);
        // The usual case: nothing was written since, and nothing is parsed.
        let is_known = |session: &Arc<ContainerSession>| {
            text.to_str().is_ok_and(|text| session.progress.load().holds(text))
        };
        if known.as_ref().is_some_and(is_known) {
            return;
        }
        let Some(token) = ResponseHeaders::new(response).session_token() else { return };
        match known {
            Some(session) => session.advance(&token),
            None => self.begin(container, rid, token),
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

    fn begin(&self, container: &Arc<str>, rid: &str, token: SessionToken) {
        let Some(progress) = Progress::new(token.clone()) else { return };
        let progress = ArcSwap::from_pointee(progress);
        let session = Arc::new(ContainerSession { rid: rid.into(), progress });
        let before = self.containers.rcu(|containers| {
            let mut containers = BTreeMap::clone(containers);
            // Another response may have begun it meanwhile: then its progress is merged below.
            if containers.get(container).is_some_and(|it| it.rid == session.rid) {
                return containers;
            }
            if containers.len() >= MAX_CONTAINERS {
                containers.pop_first();
            }
            containers.insert(Arc::clone(container), Arc::clone(&session));
            containers
        });
        if let Some(other) = before.get(container).filter(|it| it.rid == session.rid) {
            other.advance(&token);
        }
    }
}

impl ContainerSession {
    fn advance(&self, seen: &SessionToken) {
        self.progress.rcu(|current| {
            let mut token = current.token.clone();
            token.merge(seen);
            match Progress::new(token) {
                Some(progress) => Arc::new(progress),
                None => Arc::clone(current),
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use sidereal_protocol::PartitionKeyRangeId;

    use super::*;

    fn response(token: &str, rid: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(names::SESSION_TOKEN, token.parse().unwrap());
        headers.insert(names::OWNER_ID, rid.parse().unwrap());
        headers
    }

    fn orders() -> Arc<str> {
        "dbs/store/colls/orders".into()
    }

    fn token(sessions: &SessionContainer) -> Option<HeaderValue> {
        sessions.token_for(&orders(), None)
    }

    #[test]
    fn progress_of_every_range_is_kept_and_never_goes_back() {
        let sessions = SessionContainer::default();
        assert_eq!(token(&sessions), None);
        for seen in ["0:-1#5", "1:-1#7", "0:-1#4", "1:-1#9"] {
            sessions.observe(&orders(), &response(seen, "rid"));
        }
        assert_eq!(token(&sessions).unwrap(), "0:-1#5,1:-1#9");
        let range = OperationTarget::PartitionRange(PartitionKeyRangeId::from(1));
        assert_eq!(sessions.token_for(&orders(), Some(&range)).unwrap(), "1:-1#9");
        let unseen = OperationTarget::PartitionRange(PartitionKeyRangeId::from(2));
        let all = sessions.token_for(&orders(), Some(&unseen)).unwrap();
        assert_eq!(all, "0:-1#5,1:-1#9", "a child's parent may be among them");
    }

    #[test]
    fn each_container_has_a_session_of_its_own() {
        let sessions = SessionContainer::default();
        sessions.observe(&orders(), &response("0:-1#5", "rid"));
        assert_eq!(sessions.token_for("dbs/store/colls/carts", None), None);
    }

    #[test]
    fn a_container_that_was_recreated_begins_anew() {
        let sessions = SessionContainer::default();
        sessions.observe(&orders(), &response("0:-1#500", "old"));
        sessions.observe(&orders(), &response("0:-1#1", "new"));
        assert_eq!(token(&sessions).unwrap(), "0:-1#1");
        sessions.forget(&orders());
        assert_eq!(token(&sessions), None);
    }

    #[test]
    fn what_is_no_token_changes_nothing() {
        let sessions = SessionContainer::default();
        sessions.observe(&orders(), &response("0:-1#5", "rid"));
        sessions.observe(&orders(), &response("nonsense", "rid"));
        sessions.observe(&orders(), &HeaderMap::new());
        assert_eq!(token(&sessions).unwrap(), "0:-1#5");
    }

    #[test]
    fn the_containers_are_bounded() {
        let sessions = SessionContainer::default();
        for number in 0..MAX_CONTAINERS + 5 {
            // Filled at once, not by `observe`, which copies the map for each new container.
            let link: Arc<str> = format!("dbs/store/colls/{number:06}").into();
            if number < MAX_CONTAINERS {
                let progress = Progress::new("0:-1#1".parse().unwrap()).unwrap();
                let progress = ArcSwap::from_pointee(progress);
                let session = Arc::new(ContainerSession { rid: "rid".into(), progress });
                let mut containers = Arc::unwrap_or_clone(sessions.containers.swap(Arc::default()));
                containers.insert(link, session);
                sessions.containers.store(Arc::new(containers));
            } else {
                sessions.observe(&link, &response("0:-1#1", "rid"));
            }
        }
        assert_eq!(sessions.containers.load().len(), MAX_CONTAINERS);
        assert!(sessions.token_for("dbs/store/colls/010004", None).is_some());
    }
}
