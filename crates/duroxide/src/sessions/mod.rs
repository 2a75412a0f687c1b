//! Sessions: activities that go to the worker that had the last of them.

mod own;

use std::time::Duration;

use duroxide::providers::{ProviderError, SessionFetchConfig};
use serde_json::json;

pub(crate) use own::OwnSessions;

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

/// What came of claiming a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SessionClaim {
    /// The worker has it.
    Claimed,
    /// Another worker has it.
    Held,
    /// Another worker has just changed it, or has it and there is no room to note that.
    Changed,
}

impl Core {
    /// Claims a session for a worker, or extends its claim.
    pub(crate) async fn claim_session(
        &self,
        session: &str,
        config: &SessionFetchConfig,
    ) -> Result<SessionClaim, Failure> {
        // As this process has seen it last. If it has changed since, nothing is written.
        if let Some(known) = self.sessions.get(session) {
            match self.claim_as(session, Some(known), config).await? {
                SessionClaim::Changed => {}
                claim => return Ok(claim),
            }
        }
        let there = self.read_session(session).await?;
        self.claim_as(session, there, config).await
    }

    async fn claim_as(
        &self,
        session: &str,
        there: Option<SessionDocument>,
        config: &SessionFetchConfig,
    ) -> Result<SessionClaim, Failure> {
        let now = self.store.now();
        let until = now.saturating_add(millis(config.lock_timeout));
        let (document, write) = match there {
            Some(there) if there.is_held_by_another(&config.owner_id, now) => {
                return Ok(self.session_is_held(there, config));
            }
            Some(mut there) => {
                there.owner_id.clone_from(&config.owner_id);
                (there.locked_until, there.last_activity) = (until, now);
                let write = Write::replace(&there.id, &there, there.etag.clone());
                (there, write)
            }
            None => {
                let new = SessionDocument::claimed(session, &config.owner_id, now, until);
                let write = Write::create(&new.id, &new);
                (new, write)
            }
        };
        // Before it is written, so that it is extended whatever becomes of the answer.
        self.sessions.note(SessionDocument { etag: None, ..document.clone() });
        match self.write_session(document, write).await {
            Ok(written) => Ok(self.session_is_held(written, config)),
            Err(failure) => match failure.cause {
                Cause::Transient | Cause::Refused => Err(failure),
                // Written all the same, or changed by another worker: perhaps one that has sessions by the same name.
                _ => {
                    let there = self.read_session(session).await?;
                    let held = there.filter(|there| there.locked_until > now);
                    let claim = held.map(|held| self.session_is_held(held, config));
                    Ok(claim.unwrap_or(SessionClaim::Changed))
                }
            },
        }
    }

    /// Takes note of a session that somebody has.
    fn session_is_held(&self, there: SessionDocument, config: &SessionFetchConfig) -> SessionClaim {
        let is_noted =
            self.dispatch.session_held(&there.session_id, &there.owner_id, there.locked_until);
        if there.owner_id == config.owner_id {
            self.sessions.note(there);
            return SessionClaim::Claimed;
        }
        match is_noted {
            true => SessionClaim::Held,
            // Its activities would be taken up again at once: they are tried again after a while.
            false => SessionClaim::Changed,
        }
    }

    /// Writes a session. It is returned as it is then.
    async fn write_session(
        &self,
        mut document: SessionDocument,
        write: Write,
    ) -> Result<SessionDocument, Failure> {
        let results = self.store.write_once(&document.instance_id, &[write]).await?;
        document.etag = results.first().and_then(|it| it.etag().cloned());
        Ok(document)
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
        if let Some(known) = self.sessions.get(session) {
            match self.touch_as(known).await {
                Err(failure) if failure.cause == Cause::PreconditionFailed => {}
                touched => return touched,
            }
        }
        match self.read_session(session).await? {
            Some(there) => self.touch_as(there).await,
            None => Ok(()),
        }
    }

    async fn touch_as(&self, mut there: SessionDocument) -> Result<(), Failure> {
        let now = self.store.now();
        if there.locked_until <= now {
            return Ok(());
        }
        there.last_activity = now;
        let write = Write::replace(&there.id, &there, there.etag.clone());
        let session = there.session_id.clone();
        let written = self.write_session(there, write).await;
        match &written {
            Ok(written) => self.sessions.update(written),
            Err(_) => self.sessions.forget_version(&session),
        }
        written.map(drop)
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
            let name = session.session_id.clone();
            match self.write_session(session, write).await {
                Ok(written) => {
                    renewed += 1;
                    self.sessions.update(&written);
                    let SessionDocument { owner_id, locked_until, .. } = &written;
                    self.dispatch.session_held(&name, owner_id, *locked_until);
                }
                Err(failure) => match failure.cause {
                    Cause::Transient | Cause::Refused => return Err(tell(failure)),
                    // Used, claimed or ended meanwhile.
                    _ => tracing::debug!(session = name, "a session has changed"),
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
