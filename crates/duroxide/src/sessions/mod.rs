//! Sessions: activities that go to the worker that had the last of them.

mod own;

use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::{ProviderError, SessionFetchConfig};
use futures_util::future::join_all;
use serde_json::json;

use own::OwnSessions;

use crate::clock::millis;
use crate::context::Context;
use crate::dispatch::Dispatch;
use crate::documents::SessionDocument;
use crate::failure::{Cause, Failure};
use crate::ids;
use crate::locks::Processes;
use crate::store::{Scope, Store};
use crate::telemetry::Occurrence;
use crate::write::Write;

const RENEW: &str = "renew_session_lock";
const CLEAN_UP: &str = "cleanup_orphaned_sessions";

/// Sessions of some workers that are held and were used lately.
const OWNED: &str = "SELECT * FROM c WHERE c.type = 'session' AND ARRAY_CONTAINS(@owners, c.ownerId) \
     AND c.lockedUntil > @now AND c.lastActivity > @since";

/// Sessions whose locks have ended.
const EXPIRED: &str = "SELECT * FROM c WHERE c.type = 'session' AND c.lockedUntil < @now";

/// Activities of a session.
const WAITING: &str =
    "SELECT VALUE COUNT(1) FROM c WHERE c.type = 'worker_queue' AND c.sessionId = @session";

/// How many sessions are seen to at once: one after the other, some hundred would take longer than their locks last.
const AT_ONCE: usize = 32;

/// The result of claiming a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SessionClaim {
    /// The worker has it.
    Claimed,
    /// Another worker has it.
    Held,
    /// Another worker has just changed it, or has it and there is no room to note that.
    Changed,
}

/// Claims and renews sessions.
#[derive(Debug)]
pub(crate) struct SessionTable {
    store: Store,
    dispatch: Arc<Dispatch>,
    processes: Arc<Processes>,
    /// The sessions that workers of this process have.
    own: OwnSessions,
}

impl SessionTable {
    pub(crate) fn new(context: &Context) -> Self {
        let Context { store, dispatch, processes, .. } = context.clone();
        Self { store, dispatch, processes, own: OwnSessions::default() }
    }

    /// Claims a session for a worker, or extends its claim.
    pub(crate) async fn claim_session(
        &self,
        session: &str,
        config: &SessionFetchConfig,
    ) -> Result<SessionClaim, Failure> {
        // As this process has seen it last. If it has changed since, nothing is written.
        if let Some(known) = self.own.get(session) {
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
            Some(there)
                if there.is_held_by_another(
                    &config.owner_id,
                    &self.processes.lock_view(self.store.lock_time()),
                ) =>
            {
                return Ok(self.session_is_held(there, config));
            }
            Some(mut there) => {
                if there.owner_id != config.owner_id && there.lock().is_live(now) {
                    self.store.telemetry.occurred(Occurrence::LockTakenOver);
                }
                there.owner_id.clone_from(&config.owner_id);
                there.last_activity = now;
                self.lock_session(&mut there, until);
                let write = Write::replace(&there.id, &there, there.etag.clone());
                (there, write)
            }
            None => {
                let mut new = SessionDocument::claimed(session, &config.owner_id, now);
                self.lock_session(&mut new, until);
                let write = Write::create(&new.id, &new);
                (new, write)
            }
        };
        // Before it is written, so that it is extended whatever becomes of the answer.
        self.own.note(SessionDocument { etag: None, ..document.clone() });
        match self.write_session(document, write).await {
            Ok(written) => Ok(self.session_is_held(written, config)),
            Err(failure) => match failure.cause {
                Cause::Transient | Cause::Refused => Err(failure),
                // Written all the same, or changed by another worker: perhaps one that has sessions by the same name.
                _ => {
                    let there = self.read_session(session).await?;
                    let locks = self.processes.lock_view(self.store.lock_time());
                    let held = there.filter(|there| there.lock().holds(&locks));
                    let claim = held.map(|held| self.session_is_held(held, config));
                    Ok(claim.unwrap_or(SessionClaim::Changed))
                }
            },
        }
    }

    /// Sets the lock of a session, in the name of this process.
    fn lock_session(&self, session: &mut SessionDocument, until: i64) {
        (session.locked_until, session.lock_owner) = (until, self.processes.name());
    }

    /// Records a session that a worker has.
    fn session_is_held(&self, there: SessionDocument, config: &SessionFetchConfig) -> SessionClaim {
        // During an outage a lock holds past its time. Its activities are tried again after a while: recorded as held, they would
        // be ready again immediately.
        let is_noted = there.lock().is_live(self.store.now()) && self.dispatch.session_held(&there);
        if there.owner_id == config.owner_id {
            self.own.note(there);
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
        if let Some(known) = self.own.get(session) {
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
            Ok(written) => self.own.update(written),
            Err(_) => self.own.forget_version(&session),
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
        let since = self.store.now().saturating_sub(millis(idle_timeout));
        let terms = Renewal { owners, extend_for, since };
        let owned = self.owned_sessions(terms).await.map_err(tell)?;
        let (mut renewed, mut failed) = (0, None);
        for some in owned.chunks(AT_ONCE) {
            let some = some.iter().map(|session| self.renew_session(session, terms));
            for result in join_all(some).await {
                match result {
                    Ok(is_renewed) => renewed += usize::from(is_renewed),
                    // The others are not to end with it.
                    Err(failure) => failed = Some(failure),
                }
            }
        }
        failed.map_or(Ok(renewed), |failure| Err(tell(failure)))
    }

    /// Extends the claim on a session, as it was seen last or as it is, if it is still the worker's and in use. Says
    /// whether it was extended.
    async fn renew_session(
        &self,
        seen: &SessionDocument,
        terms: Renewal<'_>,
    ) -> Result<bool, Failure> {
        let is_known = seen.etag.is_some() && terms.is_in_use(seen, self.store.now());
        if is_known && self.extend_session(seen.clone(), terms).await? {
            return Ok(true);
        }
        let there = self.read_session(&seen.session_id).await?;
        let now = self.store.now();
        match there.filter(|there| terms.is_owned(there, now)) {
            Some(there) if terms.is_in_use(&there, now) => self.extend_session(there, terms).await,
            // It idles out, unless it is used before.
            Some(_) => Ok(false),
            None => {
                self.own.lost(&seen.session_id);
                Ok(false)
            }
        }
    }

    /// Extends the claim on a session; false if it was used, claimed or ended meanwhile.
    async fn extend_session(
        &self,
        mut session: SessionDocument,
        terms: Renewal<'_>,
    ) -> Result<bool, Failure> {
        let until = self.store.now().saturating_add(millis(terms.extend_for));
        self.lock_session(&mut session, until);
        let write = Write::replace(&session.id, &session, session.etag.clone());
        match self.write_session(session, write).await {
            Ok(written) => {
                self.own.update(&written);
                self.dispatch.session_held(&written);
                Ok(true)
            }
            Err(failure) => match failure.cause {
                Cause::Transient | Cause::Refused => Err(failure),
                _ => Ok(false),
            },
        }
    }

    /// The sessions of workers that are held and were used lately. The container is asked once for those of an
    /// earlier process of the same workers; from then on this process knows which it has claimed.
    async fn owned_sessions(&self, terms: Renewal<'_>) -> Result<Vec<SessionDocument>, Failure> {
        if let Some(known) = self.own.of(terms.owners) {
            return Ok(known);
        }
        let (owners, now, since) = (terms.owners, self.store.now(), terms.since);
        let parameters =
            [("@owners", json!(owners)), ("@now", json!(now)), ("@since", json!(since))];
        let owned: Vec<SessionDocument> =
            self.store.documents(Scope::Everything, OWNED, &parameters).await?;
        self.own.found(owners, &owned);
        Ok(owned)
    }

    /// Removes free sessions that no activity waits for.
    pub(crate) async fn clean_up_sessions(&self) -> Result<usize, ProviderError> {
        let tell = |failure: Failure| failure.tell(CLEAN_UP, "sessions");
        let parameters = [("@now", json!(self.store.now()))];
        let expired: Vec<SessionDocument> =
            self.store.documents(Scope::Everything, EXPIRED, &parameters).await.map_err(tell)?;
        let mut removed = 0;
        for some in expired.chunks(AT_ONCE) {
            let some = some.iter().map(|session| self.remove_session(session));
            for result in join_all(some).await {
                removed += usize::from(result.map_err(tell)?);
            }
        }
        Ok(removed)
    }

    /// Removes a free session, if no activity waits for it. Returns whether it was removed.
    async fn remove_session(&self, session: &SessionDocument) -> Result<bool, Failure> {
        let parameters = [("@session", json!(session.session_id))];
        let waiting: Vec<u64> = self.store.values(Scope::Everything, WAITING, &parameters).await?;
        if waiting.first().is_some_and(|count| *count > 0) {
            return Ok(false);
        }
        let write = Write::delete(&session.id, session.etag.clone());
        match self.store.write_once(&session.instance_id, &[write]).await {
            Ok(_) => Ok(true),
            Err(failure) => match failure.cause {
                Cause::Transient | Cause::Refused => Err(failure),
                _ => {
                    tracing::debug!(session = session.session_id, "a session has changed");
                    Ok(false)
                }
            },
        }
    }
}

/// The terms of a renewal.
#[derive(Clone, Copy, Debug)]
struct Renewal<'a> {
    owners: &'a [&'a str],
    extend_for: Duration,
    /// Sessions that were not used since then are not extended.
    since: i64,
}

impl Renewal<'_> {
    fn is_owned(self, session: &SessionDocument, now: i64) -> bool {
        self.owners.contains(&session.owner_id.as_str()) && session.lock().is_live(now)
    }

    fn is_in_use(self, session: &SessionDocument, now: i64) -> bool {
        self.is_owned(session, now) && session.last_activity > self.since
    }
}
