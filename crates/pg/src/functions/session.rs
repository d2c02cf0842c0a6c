//! Who, where, and with which settings.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use datafusion::arrow::array::*;
use datafusion::arrow::datatypes::Int32Type;
use datafusion::common::ScalarValue;

use super::define::{P, PgFunction, f, oid};
use super::network::inet_of;
use crate::catalog::{FIRST_NORMAL_XID, Model};
use crate::context::PgContext;
use crate::datetime::{SECOND_US, clock_us};
use crate::types::oid as t;
use crate::wire::SqlError;

/// Every function here.
pub(super) const NAMES: &[&str] = &[
    "version",
    "current_database",
    "current_schema",
    "current_schemas",
    "current_user",
    "session_user",
    "current_role",
    "pg_backend_pid",
    "current_setting",
    "set_config",
    "txid_current",
    "txid_current_if_assigned",
    "pg_export_snapshot",
    "xid_age",
    "mxid_age",
    "pg_is_in_recovery",
    "pg_postmaster_start_time",
    "inet_server_addr",
    "inet_server_port",
    "inet_client_addr",
    "inet_client_port",
    "current_query",
    "pg_blocking_pids",
    "pg_isolation_test_session_is_blocked",
    "pg_safe_snapshot_blocking_pids",
    "pg_trigger_depth",
    "pg_jit_available",
    "pg_cancel_backend",
    "pg_terminate_backend",
    "pg_reload_conf",
    "pg_stat_statements_reset_1_7",
    "pg_sleep",
    "pg_sleep_for",
    "pg_sleep_until",
    "resurgam_backup",
    "resurgam_fail_device",
    "pg_my_temp_schema",
    "pg_is_other_temp_schema",
    "pg_encoding_to_char",
    "pg_char_to_encoding",
    "pg_encoding_max_length",
    "pg_client_encoding",
];

/// Bytes that a character has at most, by the encodings' numbers.
const WIDTHS: [i32; 42] = [
    1, 3, 3, 3, 4, 3, 4, 4, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2,
    2, 4, 3, 2,
];

fn version(cx: &dyn PgContext) -> String {
    let server = cx.setting("server_version").unwrap_or_else(|| "15".to_owned());
    // The setting names the product as well.
    let server = server.split_whitespace().next().unwrap_or_default();
    format!("PostgreSQL {server} (Resurgam {}) on {}", env!("CARGO_PKG_VERSION"), std::env::consts::ARCH)
}

/// Sleeps in short steps, so that a cancel ends it.
fn sleep(cx: &dyn PgContext, seconds: f64) -> Result<(), SqlError> {
    if !seconds.is_finite() || seconds <= 0.0 {
        return Ok(());
    }
    wait(cx, Duration::from_secs_f64(seconds.min(1e9)), || false)
}

/// Makes a backup; returns its name when it is durable.
fn backup(cx: &dyn PgContext, from_archive: bool) -> Result<String, SqlError> {
    if !cx.is_superuser() {
        return Err(
            SqlError::new("42501", "permission denied for function resurgam_backup").with_hint("Must be superuser.")
        );
    }
    let Some(database) = cx.engine() else {
        return Err(SqlError::internal("resurgam_backup() without a database"));
    };
    let cancelled = Mutex::new(None);
    let asks = || {
        let outcome = match crate::running::is_known() {
            true => crate::running::check(),
            false => cx.check_cancelled(),
        };
        let is_cancelled = outcome.is_err();
        if let (Err(error), Ok(mut slot)) = (outcome, cancelled.lock()) {
            *slot = Some(error);
        }
        is_cancelled
    };
    let made = blocking(|| database.backup(from_archive, &asks));
    // Cancelled, out of time, or the session ends: it knows the words.
    match cancelled.into_inner() {
        Ok(Some(error)) if made.is_err() => Err(error),
        _ => made.map_err(SqlError::from),
    }
}

/// Declares a device dead: what it held is restored elsewhere.
fn fail_device(cx: &dyn PgContext, device: &str) -> Result<(), SqlError> {
    if !cx.is_superuser() {
        return Err(SqlError::new("42501", "permission denied for function resurgam_fail_device")
            .with_hint("Must be superuser."));
    }
    let Some(database) = cx.engine() else {
        return Err(SqlError::internal("resurgam_fail_device() without a database"));
    };
    blocking(|| database.fail_device(device)).map_err(SqlError::from)
}

/// Ends (`timeout_ms` not zero: and waits until it has ended) or cancels the session with that pid.
fn signal(cx: &dyn PgContext, pid: i64, terminate: bool, timeout_ms: i64) -> Result<bool, SqlError> {
    if timeout_ms < 0 {
        return Err(SqlError::new("22003", "\"timeout\" must not be negative"));
    }
    let found = match i32::try_from(pid) {
        Ok(known) => cx.signal_backend(known, terminate)?.then_some(known),
        Err(_) => None,
    };
    let Some(pid) = found else {
        let what = format!("PID {pid} is not a PostgreSQL backend process");
        cx.notice(SqlError::notice("WARNING", "01000", what));
        return Ok(false);
    };
    if timeout_ms == 0 {
        return Ok(true);
    }
    wait(cx, Duration::from_millis(timeout_ms.unsigned_abs()), || !cx.is_backend(pid))?;
    if cx.is_backend(pid) {
        let what = format!("backend with PID {pid} did not terminate within {timeout_ms} milliseconds");
        cx.notice(SqlError::notice("WARNING", "01000", what));
        return Ok(false);
    }
    Ok(true)
}

/// Waits for `time` or until `done`.
fn wait(cx: &dyn PgContext, time: Duration, done: impl Fn() -> bool) -> Result<(), SqlError> {
    let end = std::time::Instant::now() + time;
    let pause = || -> Result<(), SqlError> {
        loop {
            crate::running::check()?;
            if !crate::running::is_known() {
                cx.check_cancelled()?;
            }
            let left = end.saturating_duration_since(std::time::Instant::now());
            if left.is_zero() || done() {
                return Ok(());
            }
            std::thread::sleep(left.min(Duration::from_millis(10)));
        }
    };
    blocking(pause)
}

/// Does what waits, so that the thread's other work goes on beside it.
pub(super) fn blocking<T>(work: impl FnOnce() -> T) -> T {
    match tokio::runtime::Handle::try_current() {
        Ok(handle) if handle.runtime_flavor() == tokio::runtime::RuntimeFlavor::MultiThread => {
            tokio::task::block_in_place(work)
        }
        _ => work(),
    }
}

pub(super) fn all(cx: &Arc<dyn PgContext>) -> Vec<PgFunction> {
    let mut out = Vec::new();
    macro_rules! add {
        ($name:literal, $parameters:expr, $returns:expr, |$cx:ident, $call:ident| $body:expr) => {{
            let captured = cx.clone();
            f($name, $parameters, oid($returns), move |$call| {
                let $cx = captured.as_ref();
                $body
            })
            .volatile()
        }};
    }
    out.push(add!("version", &[], t::TEXT, |cx, call| call.same_text(version(cx))));
    out.push(add!("current_database", &[], t::NAME, |cx, call| call.same_text(cx.database())).alias("current_catalog"));
    // The first schema of the search path that there is.
    out.push(add!("current_schema", &[], t::NAME, |cx, call| {
        let schema = Model::load(cx)?.current_schemas(false).into_iter().next();
        call.texts(|_| Ok(schema.clone()))
    }));
    out.push(add!("current_schemas", &[P::Bool], t::NAME_ARRAY, |cx, call| {
        let mut builder = ListBuilder::new(StringViewBuilder::new());
        if let datafusion::arrow::datatypes::DataType::List(field) = call.returns.data_type() {
            builder = builder.with_field(field.clone());
        }
        let model = Model::load(cx)?;
        for row in 0..call.rows {
            let Some(implied) = call.bool(0, row) else {
                builder.append(false);
                continue;
            };
            model.current_schemas(implied).iter().for_each(|schema| builder.values().append_value(schema));
            builder.append(true);
        }
        Ok(Arc::new(builder.finish()))
    }));
    out.push(
        add!("current_user", &[], t::NAME, |cx, call| call.same_text(cx.role_name(cx.role())))
            .alias("user")
            .alias("getpgusername"),
    );
    out.push(add!("session_user", &[], t::NAME, |cx, call| call.same_text(cx.role_name(cx.session_role()))));
    out.push(add!("current_role", &[], t::NAME, |cx, call| call.same_text(cx.role_name(cx.role()))));
    out.push(add!("pg_backend_pid", &[], t::INT4, |cx, call| {
        call.same(ScalarValue::Int32(Some(cx.backend_pid())))
    }));
    out.push(
        add!("current_setting", &[P::Text, P::Bool], t::TEXT, |cx, call| call.texts(|row| {
            let Some(name) = call.text(0, row) else { return Ok(None) };
            cx.may_read_setting(name)?;
            match cx.setting(&name.to_ascii_lowercase()) {
                Some(value) => Ok(Some(value)),
                None if call.bool(1, row).unwrap_or(false) => Ok(None),
                None => Err(SqlError::new("42704", format!("unrecognized configuration parameter \"{name}\""))),
            }
        }))
        .required(1),
    );
    out.push(add!("set_config", &[P::Text, P::Text, P::Bool], t::TEXT, |cx, call| call.texts(|row| {
        let Some(name) = call.text(0, row) else {
            return Err(SqlError::new("22004", "SET requires parameter name"));
        };
        let value = call.text(1, row).unwrap_or("");
        cx.set_setting(&name.to_ascii_lowercase(), value, call.bool(2, row).unwrap_or(false)).map(Some)
    })));
    out.push(
        add!("txid_current", &[], t::INT8, |cx, call| {
            call.same(ScalarValue::Int64(cx.transaction_id(true)?.map(|id| id as i64)))
        })
        .alias("pg_current_xact_id"),
    );
    out.push(
        add!("txid_current_if_assigned", &[], t::INT8, |cx, call| {
            call.same(ScalarValue::Int64(cx.transaction_id(false)?.map(|id| id as i64)))
        })
        .alias("pg_current_xact_id_if_assigned"),
    );
    out.push(add!("pg_export_snapshot", &[], t::TEXT, |cx, call| {
        let name = cx.export_snapshot()?;
        call.same_text(name)
    }));
    // How many ids have been given out since. Ids do not come round here, and what is not one is as old as can be.
    out.push(add!("xid_age", &[P::Oid], t::INT4, |cx, call| {
        let next = cx.engine().map_or(0, |engine| engine.next_transaction().0 as u32);
        call.int4s(|row| {
            let age = |xid: u32| if xid < FIRST_NORMAL_XID { i32::MAX } else { next.wrapping_sub(xid) as i32 };
            Ok(call.oid(0, row).map(age))
        })
    }));
    // There are none of these: the next one would be the first.
    out.push(add!("mxid_age", &[P::Oid], t::INT4, |_cx, call| call.int4s(|row| {
        Ok(call.oid(0, row).map(|id| if id == 0 { i32::MAX } else { 1u32.wrapping_sub(id) as i32 }))
    })));
    out.push(add!("pg_is_in_recovery", &[], t::BOOL, |_cx, call| call.same(ScalarValue::Boolean(Some(false)))));
    out.push(
        add!("pg_postmaster_start_time", &[], t::TIMESTAMPTZ, |cx, call| {
            call.same(super::time::timestamptz_scalar(cx.server_start()))
        })
        .alias("pg_conf_load_time"),
    );
    out.push(add!("inet_server_addr", &[], t::INET, |cx, call| match cx.server_addr() {
        Some((address, _)) => call.same(inet_of(&address)?),
        None => call.null(),
    }));
    out.push(add!("inet_server_port", &[], t::INT4, |cx, call| match cx.server_addr() {
        Some((_, port)) => call.same(ScalarValue::Int32(Some(port.into()))),
        None => call.null(),
    }));
    out.push(add!("inet_client_addr", &[], t::INET, |cx, call| {
        let pid = cx.backend_pid();
        match cx.activity().into_iter().find(|session| session.pid == pid).and_then(|s| s.client_addr) {
            Some(address) => call.same(inet_of(&address)?),
            None => call.null(),
        }
    }));
    out.push(add!("inet_client_port", &[], t::INT4, |cx, call| {
        let pid = cx.backend_pid();
        let own = cx.activity().into_iter().find(|session| session.pid == pid);
        call.same(ScalarValue::Int32(own.and_then(|session| session.client_port).filter(|port| *port >= 0)))
    }));
    out.push(add!("current_query", &[], t::TEXT, |cx, call| {
        let pid = cx.backend_pid();
        let own = cx.activity().into_iter().find(|session| session.pid == pid).map(|session| session.query);
        call.same(ScalarValue::Utf8View(own.filter(|query| !query.is_empty())))
    }));
    // No transaction here waits for a snapshot.
    for name in ["pg_blocking_pids", "pg_safe_snapshot_blocking_pids"] {
        let captured = cx.clone();
        let function = f(name, &[P::Int], oid(t::INT4_ARRAY), move |call| {
            let mut builder = ListBuilder::new(Int32Builder::new());
            if let datafusion::arrow::datatypes::DataType::List(field) = call.returns.data_type() {
                builder = builder.with_field(field.clone());
            }
            for row in 0..call.rows {
                let Some(pid) = call.int(0, row) else {
                    builder.append(false);
                    continue;
                };
                if let ("pg_blocking_pids", Ok(pid)) = (name, i32::try_from(pid)) {
                    super::advisory::blockers(captured.as_ref(), pid)
                        .into_iter()
                        .for_each(|pid| builder.values().append_value(pid));
                }
                builder.append(true);
            }
            Ok(Arc::new(builder.finish()))
        });
        out.push(function.volatile());
    }
    // What PostgreSQL's `isolationtester` asks before it goes on beside a statement that waits.
    let blocked = add!("pg_isolation_test_session_is_blocked", &[P::Int, P::Any], t::BOOL, |cx, call| {
        let Some(list) = call.arrays[1].as_list_opt::<i32>() else { return call.null() };
        call.bools(|row| {
            let Some(pid) = call.int(0, row).filter(|_| !list.is_null(row)) else { return Ok(None) };
            let among = list.value(row);
            let Some(among) = among.as_primitive_opt::<Int32Type>() else { return Ok(None) };
            let blockers = i32::try_from(pid).map(|pid| super::advisory::blockers(cx, pid)).unwrap_or_default();
            Ok(Some(among.iter().flatten().any(|pid| blockers.contains(&pid))))
        })
    });
    out.push(blocked);
    out.push(add!("pg_trigger_depth", &[], t::INT4, |_cx, call| call.same(ScalarValue::Int32(Some(0)))));
    out.push(add!("pg_jit_available", &[], t::BOOL, |_cx, call| call.same(ScalarValue::Boolean(Some(false)))));
    out.push(add!("pg_cancel_backend", &[P::Int], t::BOOL, |cx, call| call
        .bools(|row| { call.int(0, row).map(|pid| signal(cx, pid, false, 0)).transpose() })));
    out.push(
        add!("pg_terminate_backend", &[P::Int, P::Int], t::BOOL, |cx, call| call.bools(|row| {
            let timeout = if call.arrays.len() > 1 { call.int(1, row) } else { Some(0) };
            match (call.int(0, row), timeout) {
                (Some(pid), Some(timeout)) => signal(cx, pid, true, timeout).map(Some),
                _ => Ok(None),
            }
        }))
        .required(1),
    );
    out.push(add!("pg_reload_conf", &[], t::BOOL, |cx, call| {
        if !cx.is_superuser() {
            return Err(SqlError::new("42501", "permission denied for function pg_reload_conf"));
        }
        call.same(ScalarValue::Boolean(Some(cx.reload_conf())))
    }));
    let reset = add!("pg_stat_statements_reset_1_7", &[P::Oid, P::Oid, P::Int], t::TEXT, |cx, call| {
        if !cx.is_superuser() {
            return Err(SqlError::new("42501", "permission denied for function pg_stat_statements_reset"));
        }
        call.texts(|row| {
            let role = if call.given(0) { call.oid(0, row) } else { Some(0) };
            let database = if call.given(1) { call.oid(1, row) } else { Some(0) };
            let id = if call.given(2) { call.int(2, row) } else { Some(0) };
            let (Some(role), Some(database), Some(id)) = (role, database, id) else { return Ok(None) };
            cx.reset_statements(role, database, id);
            Ok(Some(String::new()))
        })
    });
    out.push(reset.required(0).each_row());
    out.push(
        add!("pg_sleep", &[P::Float], t::TEXT, |cx, call| {
            let seconds = call.arrays[0].as_primitive::<datafusion::arrow::datatypes::Float64Type>();
            call.texts(|row| {
                if seconds.is_null(row) {
                    return Ok(None);
                }
                sleep(cx, seconds.value(row)).map(|()| Some(String::new()))
            })
        })
        .each_row(),
    );
    // As pg_sleep until then: months are as long as the ones to come.
    out.push(
        add!("pg_sleep_for", &[P::Interval], t::TEXT, |cx, call| {
            call.texts(|row| {
                let Some(span) = call.span(0, row) else { return Ok(None) };
                let now = clock_us();
                let until = super::moments::plus_interval(now, span, Some(&cx.zone()))?;
                sleep(cx, until.saturating_sub(now) as f64 / SECOND_US as f64).map(|()| Some(String::new()))
            })
        })
        .each_row(),
    );
    out.push(
        add!("pg_sleep_until", &[P::Timestamptz], t::TEXT, |cx, call| {
            call.texts(|row| {
                let Some(until) = call.moment(0, row) else { return Ok(None) };
                let left = until.saturating_sub(clock_us()) as f64 / SECOND_US as f64;
                sleep(cx, left).map(|()| Some(String::new()))
            })
        })
        .each_row(),
    );
    out.push(
        add!("resurgam_backup", &[P::Bool], t::TEXT, |cx, call| call.texts(|row| {
            let from_archive = match call.arrays.first() {
                None => false,
                Some(_) => match call.bool(0, row) {
                    Some(given) => given,
                    None => return Ok(None),
                },
            };
            backup(cx, from_archive).map(Some)
        }))
        .required(0),
    );
    out.push(add!("resurgam_fail_device", &[P::Text], t::BOOL, |cx, call| call.bools(|row| {
        let Some(device) = call.text(0, row) else { return Ok(None) };
        fail_device(cx, device).map(|()| Some(true))
    })));
    out.push(add!("pg_my_temp_schema", &[], t::OID, |cx, call| {
        let own = cx.search_path().temporary().map(str::to_owned);
        let oid = match own {
            Some(own) => Model::load(cx)?.schema_oid(&own),
            None => 0,
        };
        call.same(ScalarValue::UInt32(Some(oid)))
    }));
    out.push(add!("pg_is_other_temp_schema", &[P::Oid], t::BOOL, |cx, call| {
        let (model, path) = (Model::load(cx)?, cx.search_path());
        call.bools(|row| {
            let Some(oid) = call.oid(0, row) else { return Ok(None) };
            let schema = model.namespaces.iter().find(|schema| schema.oid == oid);
            Ok(Some(schema.is_some_and(|schema| {
                crate::search_path::is_temporary(&schema.name) && path.temporary() != Some(schema.name.as_str())
            })))
        })
    }));
    out.push(add!("pg_encoding_to_char", &[P::Int], t::NAME, |_cx, call| call.texts(|row| {
        Ok(call.int(0, row).map(|code| match code {
            0 => "SQL_ASCII".to_owned(),
            6 => "UTF8".to_owned(),
            _ => String::new(),
        }))
    })));
    out.push(add!("pg_char_to_encoding", &[P::Text], t::INT4, |_cx, call| call.int4s(|row| {
        Ok(call.text(0, row).map(|name| match name.to_ascii_uppercase().as_str() {
            "UTF8" | "UTF-8" | "UNICODE" => 6,
            "SQL_ASCII" => 0,
            _ => -1,
        }))
    })));
    out.push(add!("pg_encoding_max_length", &[P::Int], t::INT4, |_cx, call| call.int4s(|row| {
        let code = call.int(0, row).and_then(|code| usize::try_from(code).ok());
        Ok(code.and_then(|code| WIDTHS.get(code).copied()))
    })));
    out.push(add!("pg_client_encoding", &[], t::NAME, |_cx, call| call.same_text("UTF8")).alias("getdatabaseencoding"));
    out
}
