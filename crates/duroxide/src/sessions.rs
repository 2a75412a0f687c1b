//! Sessions: activities that go to the worker that had the last of them.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use duroxide::providers::{ProviderError, SessionFetchConfig};
use serde_json::json;

use crate::core::Core;
use crate::documents::SessionDocument;
use crate::failure::{Cause, Failure};
use crate::ids;
use crate::store::{Scope, millis};
use crate::write::Write;

const RENEW: &str = "renew_session_lock";
const CLEAN_UP: &str = "cleanup_orphaned_sessions";

/// Sessions of some workers that are held and were used lately.
const OWNED: &str = "SELECT * FROM c WHERE c.type = 'session' AND ARRAY_CONTAINS(@owners, c.ownerId) \
     AND c.lockedUntil > @now AND c.lastActivity > @since";

/// Sessions that nobody holds any more.
const EXPIRED: &str = "SELECT * FROM c WHERE c.type = 'session' AND c.lockedUntil < @now";

/// Activities of a session.
const WAITING: &str =
    "SELECT VALUE COUNT(1) FROM c WHERE c.type = 'worker_queue' AND c.sessionId = @session";

/// The sessions that workers of this process have claimed.
#[derive(Debug, Default)]
pub(crate) struct OwnSessions(Mutex<Owned>);

#[derive(Debug, Default)]
struct Owned {
    /// Workers whose sessions were asked for.
    owners: HashSet<String>,
    /// Sessions, and the workers that have them.
    sessions: HashMap<String, String>,
    /// There were more than are remembered.
    has_more: bool,
}

/// What came of claiming a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SessionClaim {
    /// The worker has it.
    Claimed,
    /// Another worker has it.
    Held,
    /// Another worker has just changed it.
    Changed,
}

/// The most sessions that are remembered; if there are more, the container is asked.
const MAX_REMEMBERED: usize = 10_000;

impl OwnSessions {
    fn owned(&self) -> MutexGuard<'_, Owned> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn claimed(&self, session: &str, owner: &str) {
        let mut owned = self.owned();
        if owned.sessions.len() < MAX_REMEMBERED || owned.sessions.contains_key(session) {
            owned.sessions.insert(session.to_owned(), owner.to_owned());
        } else {
            owned.has_more = true;
        }
    }

    /// The sessions of workers; none if the container has to be asked.
    fn of(&self, owners: &[&str]) -> Option<Vec<String>> {
        let owned = self.owned();
        let is_known = !owned.has_more && owners.iter().all(|it| owned.owners.contains(*it));
        let of_owners = |(_, owner): &(&String, &String)| owners.contains(&owner.as_str());
        is_known.then(|| owned.sessions.iter().filter(of_owners).map(|it| it.0.clone()).collect())
    }

    fn found(&self, owners: &[&str], sessions: &[SessionDocument]) {
        for session in sessions {
            self.claimed(&session.session_id, &session.owner_id);
        }
        let mut owned = self.owned();
        if owned.owners.len() < MAX_REMEMBERED {
            owned.owners.extend(owners.iter().map(|owner| (*owner).to_owned()));
        }
    }

    fn lost(&self, session: &str) {
        self.owned().sessions.remove(session);
    }
}

impl Core {
    /// Claims a session for a worker, or extends its claim.
    pub(crate) async fn claim_session(
        &self,
        session: &str,
        config: &SessionFetchConfig,
    ) -> Result<SessionClaim, Failure> {
        let there = self.read_session(session).await?;
        let now = self.store.now();
        let mut until = now.saturating_add(millis(config.lock_timeout));
        let write = match there {
            Some(there) if there.is_held_by_another(&config.owner_id, now) => {
                self.dispatch.session_held(session, &there.owner_id, there.locked_until);
                return Ok(SessionClaim::Held);
            }
            Some(mut there) => {
                there.owner_id.clone_from(&config.owner_id);
                (there.locked_until, there.last_activity) = (until, now);
                Write::replace(&there.id, &there, there.etag.clone())
            }
            None => {
                let new = SessionDocument::claimed(session, &config.owner_id, now, until);
                Write::create(&new.id, &new)
            }
        };
        self.sessions.claimed(session, &config.owner_id);
        match self.store.write_once(&ids::session_partition(session), &[write]).await {
            Ok(_) => {}
            Err(failure) => match failure.cause {
                Cause::Conflict | Cause::NotFound | Cause::PreconditionFailed => {
                    return Ok(SessionClaim::Changed);
                }
                Cause::Ambiguous => {
                    let there = self.read_session(session).await?;
                    let is_ours = |it: &SessionDocument| {
                        it.owner_id == config.owner_id && it.locked_until > now
                    };
                    match there.filter(is_ours) {
                        Some(there) => until = there.locked_until,
                        None => return Ok(SessionClaim::Changed),
                    }
                }
                Cause::Transient | Cause::Refused => return Err(failure),
            },
        }
        self.dispatch.session_held(session, &config.owner_id, until);
        Ok(SessionClaim::Claimed)
    }

    async fn read_session(&self, session: &str) -> Result<Option<SessionDocument>, Failure> {
        self.store.read(&ids::session_partition(session), &ids::session(session)).await
    }

    /// Notes that a session is used. Best effort: a session that idles out is claimed again.
    pub(crate) async fn touch_session(&self, session: Option<&str>) {
        let Some(session) = session else { return };
        if let Err(failure) = self.touch(session).await {
            tracing::debug!(session, error = %failure.error(), "the use of a session is not noted");
        }
    }

    async fn touch(&self, session: &str) -> Result<(), Failure> {
        let now = self.store.now();
        let there = self.read_session(session).await?.filter(|there| there.locked_until > now);
        let Some(mut there) = there else { return Ok(()) };
        there.last_activity = now;
        let write = Write::replace(&there.id, &there, there.etag.clone());
        self.store.write_once(&there.instance_id, &[write]).await.map(drop)
    }

    /// Extends the claims of workers on sessions that they use.
    pub(crate) async fn renew_sessions(
        &self,
        owners: &[&str],
        extend_for: Duration,
        idle_timeout: Duration,
    ) -> Result<usize, ProviderError> {
        if owners.is_empty() {
            return Ok(0);
        }
        let tell = |failure: Failure| failure.tell(RENEW, "sessions");
        let now = self.store.now();
        let since = now.saturating_sub(millis(idle_timeout));
        let owned = self.owned_sessions(owners, now, since).await.map_err(tell)?;
        let mut renewed = 0;
        for mut session in owned {
            session.locked_until = now.saturating_add(millis(extend_for));
            let write = Write::replace(&session.id, &session, session.etag.clone());
            match self.store.write_once(&session.instance_id, &[write]).await {
                Ok(_) => {
                    renewed += 1;
                    let SessionDocument { session_id, owner_id, locked_until, .. } = &session;
                    self.dispatch.session_held(session_id, owner_id, *locked_until);
                }
                Err(failure) => match failure.cause {
                    Cause::Transient | Cause::Refused => return Err(tell(failure)),
                    // Used, claimed or ended meanwhile.
                    _ => tracing::debug!(session = session.session_id, "a session has changed"),
                },
            }
        }
        Ok(renewed)
    }

    /// The sessions of workers that are held and were used lately. The container is asked once for those of an
    /// earlier process of the same workers; from then on this process knows which it has claimed.
    async fn owned_sessions(
        &self,
        owners: &[&str],
        now: i64,
        since: i64,
    ) -> Result<Vec<SessionDocument>, Failure> {
        let Some(known) = self.sessions.of(owners) else {
            let parameters =
                [("@owners", json!(owners)), ("@now", json!(now)), ("@since", json!(since))];
            let owned: Vec<SessionDocument> =
                self.store.documents(Scope::Everything, OWNED, &parameters).await?;
            self.sessions.found(owners, &owned);
            return Ok(owned);
        };
        let mut owned = Vec::new();
        for session in known {
            let there = self.read_session(&session).await?;
            let ours = |it: &SessionDocument| {
                owners.contains(&it.owner_id.as_str()) && it.locked_until > now
            };
            match there.filter(ours) {
                Some(there) if there.last_activity > since => owned.push(there),
                // It idles out, unless it is used before.
                Some(_) => {}
                None => self.sessions.lost(&session),
            }
        }
        Ok(owned)
    }

    /// Removes sessions that nobody holds and nothing waits for.
    pub(crate) async fn clean_up_sessions(&self) -> Result<usize, ProviderError> {
        let tell = |failure: Failure| failure.tell(CLEAN_UP, "sessions");
        let parameters = [("@now", json!(self.store.now()))];
        let expired: Vec<SessionDocument> =
            self.store.documents(Scope::Everything, EXPIRED, &parameters).await.map_err(tell)?;
        let mut removed = 0;
        for session in expired {
            let parameters = [("@session", json!(session.session_id))];
            let waiting: Vec<u64> =
                self.store.values(Scope::Everything, WAITING, &parameters).await.map_err(tell)?;
            if waiting.first().is_some_and(|count| *count > 0) {
                continue;
            }
            let write = Write::delete(&session.id, session.etag.clone());
            match self.store.write_once(&session.instance_id, &[write]).await {
                Ok(_) => removed += 1,
                Err(failure) => match failure.cause {
                    Cause::Transient | Cause::Refused => return Err(tell(failure)),
                    _ => tracing::debug!(session = session.session_id, "a session has changed"),
                },
            }
        }
        Ok(removed)
    }
}
