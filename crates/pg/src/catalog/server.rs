//! The server, its users, sessions and settings.

use resurgam_engine::{BuildPhase, BuildStatus, Database, TxId, public_of};

use super::model::relation_oid;
use super::namespaces::CLASS_SCHEMA;
use super::roles::shown_schema;
use super::rows::{Rows, V};
use super::{DATABASE_OID, PUBLIC_OID};
use crate::advisory::Mode;
use crate::context::PgContext;
use crate::roles::{Rights, ServerDatabase};
use crate::types::EPOCH_US;
use crate::wire::SqlError;

fn time(us: Option<i64>) -> V {
    us.map_or(V::Null, V::Time)
}

/// What PostgreSQL calls what a build is doing.
fn phase_of(build: &BuildStatus) -> &'static str {
    match build.phase {
        BuildPhase::Reading => "building index: scanning table",
        BuildPhase::Sorting => "building index: sorting live tuples",
        BuildPhase::Writing => "building index: loading tuples in tree",
    }
}

/// As [`fill`], where the rows may not be had.
pub(super) fn host_rules(name: &str, cx: &dyn PgContext, rows: &mut Rows<'_>) -> Result<bool, SqlError> {
    if name != "pg_hba_file_rules" {
        return Ok(false);
    }
    for rule in cx.host_rules()? {
        rows.add([
            ("line_number", rule.line_number.into()),
            ("type", rule.kind.into()),
            ("database", rule.database.into()),
            ("user_name", rule.user_name.into()),
            ("address", rule.address.into()),
            ("netmask", rule.netmask.into()),
            ("auth_method", rule.auth_method.into()),
            ("options", rule.options.into()),
            ("error", rule.error.into()),
        ]);
    }
    Ok(true)
}

/// What the session has prepared under a name.
fn prepared_statements(cx: &dyn PgContext, rows: &mut Rows<'_>) {
    for statement in cx.prepared_statements() {
        let types = statement.parameter_types.iter().map(|ty| V::from(*ty)).collect();
        rows.add([
            ("name", statement.name.into()),
            ("statement", statement.statement.as_ref().into()),
            ("prepare_time", V::Time(statement.prepare_time)),
            ("parameter_types", V::List(types)),
            ("from_sql", statement.from_sql.into()),
            // A plan is made once, for values of all kinds.
            ("generic_plans", 0.into()),
            ("custom_plans", 0.into()),
        ]);
    }
}

fn cursors(cx: &dyn PgContext, rows: &mut Rows<'_>) {
    for cursor in cx.cursors() {
        rows.add([
            ("name", cursor.name.into()),
            ("statement", cursor.statement.as_ref().into()),
            ("is_holdable", cursor.is_holdable.into()),
            ("is_binary", cursor.is_binary.into()),
            ("is_scrollable", cursor.is_scrollable.into()),
            ("creation_time", V::Time(cursor.creation_time)),
        ]);
    }
}

/// The rows of `pg_locks` about tables and transactions: what is locked and asked for, and who waits for whom. One that is
/// prepared has no session.
fn locks_of_transactions(cx: &dyn PgContext, rows: &mut Rows<'_>) {
    let Some(engine) = cx.engine() else { return };
    let sessions = cx.activity();
    let of = |tx: u64| {
        let pid = sessions.iter().find(|session| session.backend_xid == Some(tx)).map(|session| session.pid);
        [("virtualtransaction", format!("{}/{tx}", pid.unwrap_or(-1)).into()), ("pid", pid.into())]
    };
    // Of the objects that are no relations, schemas are those that are locked for long.
    let schemas: Vec<u32> = cx.schemas().into_iter().flatten().map(|schema| schema.id).collect();
    for lock in engine.locks() {
        let id = lock.object.0;
        let public = public_of(lock.object);
        let object: [(&str, V); 4] = match public.map(|_| PUBLIC_OID).or(schemas.contains(&id).then_some(id)) {
            None => [
                ("locktype", "relation".into()),
                ("relation", relation_oid(id).into()),
                ("classid", V::Null),
                ("objid", V::Null),
            ],
            Some(schema) => [
                ("locktype", "object".into()),
                ("relation", V::Null),
                ("classid", CLASS_SCHEMA.into()),
                ("objid", schema.into()),
            ],
        };
        // What is not committed yet is of whoever has made it; what is of all databases has 0, as in PostgreSQL.
        let of_maker = || sessions.iter().find(|session| session.backend_xid == Some(lock.tx.0));
        let database = public.or_else(|| engine.database_of(id).ok().flatten());
        let database =
            database.or_else(|| of_maker().filter(|_| !engine.is_shared(id)).map(|maker| maker.database_oid));
        let how = [
            ("database", database.unwrap_or(0).into()),
            ("mode", lock.mode.name().into()),
            ("granted", lock.granted.into()),
            ("fastpath", false.into()),
        ];
        rows.add(object.into_iter().chain(of(lock.tx.0)).chain(how));
    }
    let waits = engine.waits().into_iter().map(|(waiter, holder)| (waiter, holder, "ShareLock", false));
    let own = sessions.iter().filter_map(|session| session.backend_xid).map(TxId);
    for (tx, of_tx, mode, granted) in own.map(|tx| (tx, tx, "ExclusiveLock", true)).chain(waits) {
        let row: [(&str, V); 5] = [
            ("locktype", "transactionid".into()),
            ("transactionid", (of_tx.0 as u32).into()),
            ("mode", mode.into()),
            ("granted", granted.into()),
            ("fastpath", false.into()),
        ];
        rows.add(row.into_iter().chain(of(tx.0)));
    }
}

/// `pg_authid`, as the class of an object.
pub(super) const CLASS_ROLE: u32 = 1260;

/// `pg_database`, as the class of an object.
pub const CLASS_DATABASE: u32 = 1262;

/// The transaction before which none is looked after: the oldest that is active, or aborted and not cleaned up; else the next
/// one. What is before it is frozen in PostgreSQL's sense: nobody asks for its state again. (Ids do not come round here.)
pub(super) fn frozen_before(cx: &dyn PgContext) -> u32 {
    let Some(engine) = cx.engine() else { return FIRST_NORMAL_XID };
    let holders = engine.version_store_holders();
    let active = holders.transaction.map(|transaction| transaction.id);
    let aborted = holders.aborted.map(|aborted| aborted.oldest);
    let oldest = [active, aborted].into_iter().flatten().fold(engine.next_transaction(), Ord::min);
    (oldest.0 as u32).max(FIRST_NORMAL_XID)
}

/// The first id of a transaction; PostgreSQL has others below.
pub(crate) const FIRST_NORMAL_XID: u32 = 3;

/// What is known of checkpoints and of pages that are written; NULL where nobody counts.
fn background_writer(cx: &dyn PgContext, rows: &mut Rows<'_>) {
    let stats = cx.engine().map(|engine| engine.stats());
    rows.add([
        ("checkpoints_timed", stats.as_ref().map(|stats| stats.checkpoints.taken).into()),
        ("checkpoints_req", V::Null),
        (
            "checkpoint_write_time",
            stats.as_ref().map(|stats| stats.checkpoints.time_total.as_secs_f64() * 1000.0).into(),
        ),
        ("stats_reset", V::Time(cx.server_start())),
    ]);
}

/// What is known of the log.
fn log_writer(cx: &dyn PgContext, rows: &mut Rows<'_>) {
    let log = cx.engine().map(|engine| engine.stats().log);
    rows.add([
        ("wal_records", log.as_ref().map(|log| log.records).into()),
        ("wal_bytes", log.as_ref().map(|log| log.written_bytes).into()),
        ("wal_buffers_full", log.as_ref().map(|log| log.buffer_full_waits).into()),
        ("wal_write", log.as_ref().map(|log| log.flushes).into()),
        ("wal_sync", log.as_ref().map(|log| log.syncs).into()),
        ("wal_sync_time", log.as_ref().map(|log| log.sync_time_total.as_secs_f64() * 1000.0).into()),
        ("stats_reset", V::Time(cx.server_start())),
    ]);
}

/// Of each session whether it is encrypted, and how.
fn encrypted_sessions(cx: &dyn PgContext, rows: &mut Rows<'_>) {
    for session in cx.activity() {
        rows.add([("pid", session.pid.into())]);
        if !cx.sees_sessions_of(session.role) {
            continue;
        }
        rows.put("ssl", session.encryption.is_some().into());
        if let Some(encryption) = session.encryption {
            rows.put("version", encryption.version.into());
            rows.put("cipher", encryption.cipher.into());
            rows.put("bits", encryption.bits.into());
        }
    }
}

fn time_zones(cx: &dyn PgContext, rows: &mut Rows<'_>) {
    let now = cx.transaction_start();
    for zone in crate::zone::known_at(now) {
        rows.add([
            ("name", zone.name.into()),
            ("abbrev", zone.abbreviation.into()),
            ("utc_offset", V::Seconds(zone.offset.into())),
            ("is_dst", zone.is_summer.into()),
        ]);
    }
}

fn time_zone_abbreviations(cx: &dyn PgContext, rows: &mut Rows<'_>) {
    for (name, offset, is_summer) in crate::zone::abbreviations_at(cx.transaction_start()) {
        rows.add([("abbrev", name.into()), ("utc_offset", V::Seconds(offset.into())), ("is_dst", is_summer.into())]);
    }
}

fn database_row(rows: &mut Rows<'_>, database: &ServerDatabase, rights: &Rights, frozen: u32) {
    rows.add([
        ("oid", database.oid.into()),
        ("datname", database.name.as_str().into()),
        ("datdba", database.access.owner.into()),
        ("datacl", shown_schema(&database.access, rights)),
        ("encoding", 6.into()),
        ("datlocprovider", 'c'.into()),
        ("datistemplate", database.is_template.into()),
        ("datallowconn", database.allows_connections.into()),
        ("datconnlimit", database.connection_limit.into()),
        ("dattablespace", 1663u32.into()),
        ("datcollate", "C".into()),
        // Order is that of bytes; letters are Unicode's.
        ("datctype", "C.UTF-8".into()),
        ("datfrozenxid", frozen.into()),
        ("datminmxid", 1.into()),
    ]);
}

/// Fills a relation; false if it is not one of these.
pub(super) fn fill(name: &str, cx: &dyn PgContext, rows: &mut Rows<'_>) -> bool {
    match name {
        "pg_database" => {
            let Ok(rights) = cx.rights() else { return true };
            let frozen = frozen_before(cx);
            for database in &rights.databases {
                database_row(rows, database, &rights, frozen);
            }
        }
        "pg_shdescription" => {
            let Ok(rights) = cx.rights() else { return true };
            for role in rights.roles() {
                let Some(comment) = &role.comment else { continue };
                rows.add([
                    ("objoid", role.oid.into()),
                    ("classoid", CLASS_ROLE.into()),
                    ("description", comment.as_str().into()),
                ]);
            }
            for database in &rights.databases {
                let Some(comment) = &database.comment else { continue };
                rows.add([
                    ("objoid", database.oid.into()),
                    ("classoid", CLASS_DATABASE.into()),
                    ("description", comment.as_str().into()),
                ]);
            }
        }
        "pg_prepared_xacts" => {
            for prepared in cx.engine().iter().flat_map(Database::prepared) {
                rows.add([
                    ("transaction", (prepared.id.0 as u32).into()),
                    ("gid", prepared.gid.into()),
                    ("prepared", V::Time(prepared.prepared_us + EPOCH_US)),
                    ("owner", prepared.owner.into()),
                    ("database", prepared.database.into()),
                ]);
            }
        }
        "pg_stat_bgwriter" => background_writer(cx, rows),
        "pg_stat_wal" => log_writer(cx, rows),
        // What the log is archived by is in resurgam_archive.
        "pg_stat_archiver" => rows.add([("stats_reset", V::Time(cx.server_start()))]),
        "pg_stat_ssl" => encrypted_sessions(cx, rows),
        "pg_stat_gssapi" => {
            for session in cx.activity() {
                rows.add([("pid", session.pid.into())]);
                if cx.sees_sessions_of(session.role) {
                    rows.put("gss_authenticated", false.into());
                    rows.put("encrypted", false.into());
                }
            }
        }
        "pg_timezone_names" => time_zones(cx, rows),
        "pg_timezone_abbrevs" => time_zone_abbreviations(cx, rows),
        "pg_prepared_statements" => prepared_statements(cx, rows),
        "pg_cursors" => cursors(cx, rows),
        "pg_settings" => {
            for setting in cx.settings() {
                let source = if setting.value == setting.default { "default" } else { "session" };
                rows.add([
                    ("name", setting.name.into()),
                    ("setting", setting.value.clone().into()),
                    ("unit", setting.unit.into()),
                    ("category", setting.category.into()),
                    ("short_desc", setting.description.into()),
                    ("context", setting.context.into()),
                    ("vartype", setting.kind.into()),
                    ("source", source.into()),
                    ("boot_val", setting.default.clone().into()),
                    ("reset_val", setting.default.into()),
                    ("pending_restart", false.into()),
                ]);
            }
        }
        "pg_locks" => {
            locks_of_transactions(cx, rows);
            for lock in cx.advisory().iter().flat_map(|locks| locks.rows()) {
                let mode = if lock.mode == Mode::Exclusive { "ExclusiveLock" } else { "ShareLock" };
                rows.add([
                    ("locktype", "advisory".into()),
                    ("database", lock.key.database.into()),
                    ("classid", lock.key.class.into()),
                    ("objid", lock.key.object.into()),
                    ("objsubid", (if lock.key.two { 2i16 } else { 1 }).into()),
                    ("pid", lock.pid.into()),
                    ("mode", mode.into()),
                    ("granted", lock.granted.into()),
                    ("fastpath", false.into()),
                ]);
            }
        }
        "pg_stat_activity" => {
            for session in cx.activity() {
                rows.add([
                    ("datid", session.database_oid.into()),
                    ("datname", session.database.into()),
                    ("pid", session.pid.into()),
                    ("usesysid", session.role.into()),
                    ("usename", session.user.into()),
                ]);
                // What others do is not for everybody.
                if !cx.sees_sessions_of(session.role) {
                    rows.put("query", "<insufficient privilege>".into());
                    continue;
                }
                let of_client = [
                    ("application_name", session.application_name.into()),
                    ("client_addr", session.client_addr.into()),
                    ("client_port", session.client_port.into()),
                    ("backend_start", time(session.backend_start)),
                    ("xact_start", time(session.xact_start)),
                    ("query_start", time(session.query_start)),
                    ("state_change", time(session.state_change)),
                    ("state", session.state.into()),
                    ("backend_xid", session.backend_xid.map(|xid| xid as u32).into()),
                    ("query", session.query.into()),
                    ("backend_type", "client backend".into()),
                ];
                of_client.into_iter().for_each(|(name, value)| rows.put(name, value));
                if session.waits_for_page {
                    rows.put("wait_event_type", "IO".into());
                    rows.put("wait_event", "DataFileRead".into());
                }
            }
        }
        "pg_stat_progress_create_index" => {
            let sessions = cx.activity();
            for build in cx.engine().map(|engine| engine.builds()).unwrap_or_default() {
                let Some(index) = build.index else { continue };
                let session = sessions.iter().find(|session| session.backend_xid == Some(build.transaction.0));
                let database = session.map_or(cx.database_oid(), |session| session.database_oid);
                let name = session.map_or_else(|| cx.database(), |session| session.database.clone());
                let command = if build.concurrent { "CREATE INDEX CONCURRENTLY" } else { "CREATE INDEX" };
                rows.add([
                    ("pid", session.map(|session| session.pid).into()),
                    ("datid", database.into()),
                    ("datname", name.into()),
                    ("relid", relation_oid(build.table).into()),
                    ("index_relid", relation_oid(index).into()),
                    ("command", command.into()),
                    ("phase", phase_of(&build).into()),
                    ("lockers_total", 0.into()),
                    ("lockers_done", 0.into()),
                    ("current_locker_pid", 0.into()),
                    ("blocks_total", 0.into()),
                    ("blocks_done", 0.into()),
                    // An estimate, until there are more.
                    ("tuples_total", build.rows_total.max(build.rows_done).into()),
                    ("tuples_done", build.rows_done.into()),
                    ("partitions_total", 0.into()),
                    ("partitions_done", 0.into()),
                ]);
            }
        }
        "pg_stat_database" => {
            let (sessions, Ok(rights)) = (cx.activity(), cx.rights()) else { return true };
            for database in &rights.databases {
                let here = sessions.iter().filter(|session| session.database_oid == database.oid).count();
                rows.add([
                    ("datid", database.oid.into()),
                    ("datname", database.name.as_str().into()),
                    ("numbackends", here.into()),
                ]);
                // Counted for the whole server.
                if database.oid == DATABASE_OID {
                    rows.put("temp_files", V::Int(cx.temp_files().0 as i64));
                    rows.put("temp_bytes", V::Int(cx.temp_files().1 as i64));
                }
            }
        }
        _ => return false,
    }
    true
}
