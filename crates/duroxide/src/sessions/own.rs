//! The sessions that workers of this process have claimed.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::documents::SessionDocument;

/// The most sessions that are remembered; if there are more, the container is asked.
const MAX_REMEMBERED: usize = 10_000;

#[derive(Debug, Default)]
pub(super) struct OwnSessions(Mutex<Owned>);

#[derive(Debug, Default)]
struct Owned {
    /// Workers whose sessions were asked for.
    owners: HashSet<String>,
    /// Sessions as they were seen last. Without a version they have to be read before they are changed.
    sessions: HashMap<String, SessionDocument>,
    /// There were more than are remembered.
    has_more: bool,
}

impl OwnSessions {
    fn owned(&self) -> MutexGuard<'_, Owned> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a session that a worker of this process has, or is about to.
    pub(super) fn note(&self, session: SessionDocument) {
        let mut owned = self.owned();
        let name = session.session_id.clone();
        if owned.sessions.len() < MAX_REMEMBERED || owned.sessions.contains_key(&name) {
            owned.sessions.insert(name, session);
        } else {
            owned.has_more = true;
        }
    }

    /// A session as it was last seen, if it can be changed without reading it.
    pub(super) fn get(&self, session: &str) -> Option<SessionDocument> {
        self.owned().sessions.get(session).filter(|it| it.etag.is_some()).cloned()
    }

    /// Notes a change of a session, if it is one of this process.
    pub(super) fn update(&self, session: &SessionDocument) {
        if let Some(known) = self.owned().sessions.get_mut(&session.session_id) {
            *known = session.clone();
        }
    }

    /// Has a session read before it is changed.
    pub(super) fn forget_version(&self, session: &str) {
        if let Some(known) = self.owned().sessions.get_mut(session) {
            known.etag = None;
        }
    }

    /// The sessions of workers; none if the container has to be asked.
    pub(super) fn of(&self, owners: &[&str]) -> Option<Vec<SessionDocument>> {
        let owned = self.owned();
        let is_known = !owned.has_more && owners.iter().all(|it| owned.owners.contains(*it));
        let of_owners = owned.sessions.values().filter(|it| owners.contains(&it.owner_id.as_str()));
        is_known.then(|| of_owners.cloned().collect())
    }

    /// Notes the sessions that workers have, of which the container was asked.
    pub(super) fn found(&self, owners: &[&str], sessions: &[SessionDocument]) {
        for session in sessions {
            self.note(session.clone());
        }
        let mut owned = self.owned();
        if owned.owners.len() < MAX_REMEMBERED {
            owned.owners.extend(owners.iter().map(|owner| (*owner).to_owned()));
        }
    }

    /// Forgets a session that this process has lost.
    pub(super) fn lost(&self, session: &str) {
        self.owned().sessions.remove(session);
    }
}
