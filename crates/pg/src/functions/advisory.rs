//! `pg_advisory_lock` and kin.
//!
//! They are for one row: a plan evaluates a function for many rows at a time, where PostgreSQL would stop after the first that
//! `LIMIT 1` wants, and so lock others than it (`0A000`).

use std::sync::Arc;

use super::define::{Call, P, PgFunction, f, oid};
use crate::advisory::{Advisory, Key, Mode, Until, Waiting};
use crate::context::PgContext;
use crate::types::oid as t;
use crate::wire::SqlError;

/// Every function here.
pub(super) const NAMES: &[&str] = &[
    "pg_advisory_lock",
    "pg_advisory_lock_shared",
    "pg_advisory_xact_lock",
    "pg_advisory_xact_lock_shared",
    "pg_try_advisory_lock",
    "pg_try_advisory_lock_shared",
    "pg_try_advisory_xact_lock",
    "pg_try_advisory_xact_lock_shared",
    "pg_advisory_unlock",
    "pg_advisory_unlock_shared",
    "pg_advisory_unlock_all",
];

/// The key of a row's arguments; `None` if one is NULL.
fn key(cx: &dyn PgContext, call: &Call<'_>, row: usize) -> Option<Key> {
    let database = cx.database_oid();
    let first = call.int(0, row)?;
    if call.given(1) {
        let second = call.int(1, row)?;
        // Both are `integer`.
        return Some(Key { database, class: first as u32, object: second as u32, two: true });
    }
    Some(Key { database, class: (first >> 32) as u32, object: first as u32, two: false })
}

fn locks(cx: &dyn PgContext, call: &Call<'_>) -> Result<Arc<Advisory>, SqlError> {
    if call.rows > 1 {
        return Err(SqlError::unsupported("an advisory lock for each of several rows is not supported"));
    }
    cx.advisory().ok_or_else(|| SqlError::unsupported("an advisory lock is not supported here"))
}

/// What a statement asks that waits.
struct Asking<'a>(&'a dyn PgContext);

impl Waiting for Asking<'_> {
    fn ask(&self) -> Result<(), SqlError> {
        crate::running::check()?;
        if crate::running::is_known() { Ok(()) } else { self.0.check_cancelled() }
    }
    fn others(&self) -> Vec<(i32, i32)> {
        let waits = self.0.engine().map(|engine| engine.lock_waits()).unwrap_or_default();
        if waits.is_empty() {
            return Vec::new();
        }
        let sessions = self.0.activity();
        let pid_of =
            |id: u64| sessions.iter().find(|session| session.backend_xid == Some(id)).map(|session| session.pid);
        waits.iter().filter_map(|(waiter, holder)| Some((pid_of(waiter.0)?, pid_of(holder.0)?))).collect()
    }
}

/// The sessions that have what a session waits for.
pub(super) fn blockers(cx: &dyn PgContext, pid: i32) -> Vec<i32> {
    let waits = Asking(cx).others();
    let mut out: Vec<i32> = waits.into_iter().filter(|(waiter, _)| *waiter == pid).map(|(_, holder)| holder).collect();
    let rows = cx.advisory().map(|locks| locks.rows()).unwrap_or_default();
    for wanted in rows.iter().filter(|row| row.pid == pid && !row.granted) {
        let excludes = |row: &&crate::advisory::Row| {
            let is_exclusive = row.mode == Mode::Exclusive || wanted.mode == Mode::Exclusive;
            row.granted && row.key == wanted.key && row.pid != pid && is_exclusive
        };
        out.extend(rows.iter().filter(excludes).map(|row| row.pid));
    }
    out.sort_unstable();
    out.dedup();
    out
}

/// Takes the lock of a row, and waits for it.
fn take(cx: &dyn PgContext, call: &Call<'_>, mode: Mode, until: Until) -> Result<Option<String>, SqlError> {
    let locks = locks(cx, call)?;
    let Some(key) = key(cx, call, 0) else { return Ok(None) };
    let pid = cx.backend_pid();
    if !locks.try_take(key, mode, until, pid)? {
        super::session::blocking(|| locks.take(key, mode, until, pid, cx.lock_timeout(), &Asking(cx)))?;
    }
    Ok(Some(String::new()))
}

fn release(cx: &dyn PgContext, call: &Call<'_>, mode: Mode) -> Result<Option<bool>, SqlError> {
    let locks = locks(cx, call)?;
    let Some(key) = key(cx, call, 0) else { return Ok(None) };
    let was_held = locks.release(key, mode, cx.backend_pid());
    if !was_held {
        let name = if mode == Mode::Exclusive { "ExclusiveLock" } else { "ShareLock" };
        cx.notice(SqlError::notice("WARNING", "01000", format!("you don't own a lock of type {name}")));
    }
    Ok(Some(was_held))
}

pub(super) fn all(cx: &Arc<dyn PgContext>) -> Vec<PgFunction> {
    const TWO: &[P] = &[P::Int, P::Int];
    let mut out = Vec::with_capacity(NAMES.len());
    for (name, mode, until) in [
        ("pg_advisory_lock", Mode::Exclusive, Until::Released),
        ("pg_advisory_lock_shared", Mode::Shared, Until::Released),
        ("pg_advisory_xact_lock", Mode::Exclusive, Until::TransactionEnds),
        ("pg_advisory_xact_lock_shared", Mode::Shared, Until::TransactionEnds),
    ] {
        let cx = Arc::clone(cx);
        let body = move |call: &Call<'_>| call.texts(|_| take(cx.as_ref(), call, mode, until));
        out.push(f(name, TWO, oid(t::TEXT), body).required(1).each_row());
    }
    for (name, mode, until) in [
        ("pg_try_advisory_lock", Mode::Exclusive, Until::Released),
        ("pg_try_advisory_lock_shared", Mode::Shared, Until::Released),
        ("pg_try_advisory_xact_lock", Mode::Exclusive, Until::TransactionEnds),
        ("pg_try_advisory_xact_lock_shared", Mode::Shared, Until::TransactionEnds),
    ] {
        let cx = Arc::clone(cx);
        let body = move |call: &Call<'_>| {
            call.bools(|row| {
                let locks = locks(cx.as_ref(), call)?;
                key(&*cx, call, row).map(|key| locks.try_take(key, mode, until, cx.backend_pid())).transpose()
            })
        };
        out.push(f(name, TWO, oid(t::BOOL), body).required(1).each_row());
    }
    for (name, mode) in [("pg_advisory_unlock", Mode::Exclusive), ("pg_advisory_unlock_shared", Mode::Shared)] {
        let cx = Arc::clone(cx);
        let body = move |call: &Call<'_>| call.bools(|_| release(cx.as_ref(), call, mode));
        out.push(f(name, TWO, oid(t::BOOL), body).required(1).each_row());
    }
    let cx = Arc::clone(cx);
    let body = move |call: &Call<'_>| {
        if let Some(locks) = cx.advisory() {
            locks.release_session(cx.backend_pid());
        }
        call.same_text("")
    };
    out.push(f("pg_advisory_unlock_all", &[], oid(t::TEXT), body).volatile());
    out
}
