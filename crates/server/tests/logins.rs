//! Logins by role, with a real client: passwords of the catalog, what keeps a role out, and what its session begins with.

mod common;

use std::process::{Command, Output};

use common::TestServer;

/// What psql says; `None` where there is none.
fn psql(server: &TestServer, user: &str, password: &str, sql: &str) -> Option<(bool, String)> {
    let target = format!("host=127.0.0.1 port={} user={user} dbname=postgres", server.address.port());
    let mut command = Command::new("psql");
    command.args(["-X", "-A", "-t", "-w", "-v", "ON_ERROR_STOP=1", "-d", &target, "-c", sql]);
    command.env("PGPASSWORD", password).env("PGCONNECT_TIMEOUT", "10").env_remove("PGOPTIONS");
    match command.output() {
        Ok(Output { status, stdout, stderr }) => {
            let text = String::from_utf8_lossy(&stdout).into_owned() + &String::from_utf8_lossy(&stderr);
            Some((status.success(), text.trim().to_owned()))
        }
        Err(error) => {
            println!("skipped: psql could not be started ({error})");
            None
        }
    }
}

/// Tries each of: user, password, statement, whether it succeeds, a part of what is said.
fn check(server: &TestServer, tries: &[(&str, &str, &str, bool, &str)]) {
    for (user, password, sql, fine, part) in tries {
        let Some((done, text)) = psql(server, user, password, sql) else { return };
        assert!(done == *fine && text.contains(part), "{user}, {sql}: {text}");
    }
}

const SCRAM: fn(&mut resurgam_server::settings::Settings) = |settings| {
    settings.authentication = resurgam_server::settings::Authentication::ScramSha256;
    settings.password = "secret".into();
};

#[test]
fn each_role_has_its_own_password() {
    let server = TestServer::with(SCRAM);
    // Made by PostgreSQL 15 for the password "pencil".
    let verifier = "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=";
    let with_verifier = format!("CREATE ROLE v LOGIN PASSWORD '{verifier}'");
    let failed = "password authentication failed for user";
    check(
        &server,
        &[
            ("postgres", "secret", "CREATE USER a PASSWORD 'one'", true, ""),
            ("postgres", "secret", &with_verifier, true, ""),
            ("postgres", "secret", "CREATE USER nopass", true, ""),
            (
                "postgres",
                "secret",
                "SELECT rolpassword LIKE 'SCRAM-SHA-256$4096:%' FROM pg_authid WHERE rolname = 'a'",
                true,
                "t",
            ),
            ("a", "one", "SELECT current_user, session_user", true, "a|a"),
            ("a", "secret", "SELECT 1", false, failed),
            ("a", "two", "SELECT 1", false, failed),
            ("v", "pencil", "SELECT current_user", true, "v"),
            ("nopass", "", "SELECT 1", false, ""),
            ("nopass", "secret", "SELECT 1", false, failed),
            ("nobody", "secret", "SELECT 1", false, failed),
            ("postgres", "one", "SELECT 1", false, failed),
            // Over the wire, by the user himself.
            ("a", "one", "ALTER ROLE a PASSWORD 'two'", true, ""),
            ("a", "one", "SELECT 1", false, failed),
            ("a", "two", "SELECT 1", true, "1"),
            ("a", "two", "ALTER USER a PASSWORD NULL", true, ""),
            ("a", "two", "SELECT 1", false, failed),
            // That of the first user goes before the one in the file, as long as there is one.
            ("postgres", "secret", "ALTER ROLE postgres PASSWORD 'new'", true, ""),
            ("postgres", "secret", "SELECT 1", false, failed),
            ("postgres", "new", "ALTER ROLE postgres PASSWORD NULL", true, ""),
            ("postgres", "secret", "SELECT 1", true, "1"),
            // Those whose time is over.
            ("postgres", "secret", "ALTER ROLE a PASSWORD 'x' VALID UNTIL '2001-01-01'", true, ""),
            ("a", "x", "SELECT 1", false, failed),
            ("postgres", "secret", "ALTER ROLE a VALID UNTIL 'infinity'", true, ""),
            ("a", "x", "SELECT 1", true, "1"),
            ("postgres", "secret", "ALTER ROLE a RENAME TO b", true, ""),
            ("a", "x", "SELECT 1", false, failed),
            ("b", "x", "SELECT current_user", true, "b"),
        ],
    );
}

#[test]
fn what_keeps_a_role_out() {
    let server = TestServer::start();
    check(
        &server,
        &[
            ("postgres", "", "CREATE ROLE a", true, ""),
            ("a", "", "SELECT 1", false, "role \"a\" is not permitted to log in"),
            ("nobody", "", "SELECT 1", false, "role \"nobody\" does not exist"),
            ("postgres", "", "ALTER ROLE a LOGIN CONNECTION LIMIT 0", true, ""),
            ("a", "", "SELECT 1", false, "too many connections for role \"a\""),
            ("postgres", "", "ALTER ROLE a CONNECTION LIMIT 1", true, ""),
            ("a", "", "SELECT 1", true, "1"),
            ("postgres", "", "REVOKE CONNECT ON DATABASE postgres FROM PUBLIC", true, ""),
            ("a", "", "SELECT 1", false, "permission denied for database \"postgres\""),
            ("postgres", "", "GRANT CONNECT ON DATABASE postgres TO a", true, ""),
            ("a", "", "SELECT 1", true, "1"),
            ("postgres", "", "ALTER ROLE a NOLOGIN", true, ""),
            ("a", "", "SELECT 1", false, "role \"a\" is not permitted to log in"),
        ],
    );
}

#[test]
fn a_session_begins_with_the_settings_of_its_role_and_database() {
    let server = TestServer::start();
    check(
        &server,
        &[
            ("postgres", "", "CREATE ROLE a LOGIN", true, ""),
            ("postgres", "", "ALTER DATABASE postgres SET statement_timeout = '7s'", true, ""),
            ("postgres", "", "ALTER ROLE a SET lock_timeout = '5s'", true, ""),
            ("a", "", "SHOW statement_timeout", true, "7s"),
            ("a", "", "SHOW lock_timeout", true, "5s"),
            ("postgres", "", "SHOW lock_timeout", true, "0"),
            ("postgres", "", "ALTER ROLE a SET statement_timeout = '8s'", true, ""),
            ("a", "", "SHOW statement_timeout", true, "8s"),
            ("postgres", "", "ALTER ROLE a IN DATABASE postgres SET statement_timeout = '9s'", true, ""),
            ("a", "", "SHOW statement_timeout", true, "9s"),
            ("a", "", "SET statement_timeout = 1; RESET statement_timeout; SHOW statement_timeout", true, "9s"),
            ("postgres", "", "ALTER ROLE a IN DATABASE postgres RESET ALL", true, ""),
            ("postgres", "", "ALTER ROLE a RESET statement_timeout", true, ""),
            ("a", "", "SHOW statement_timeout", true, "7s"),
            ("postgres", "", "SELECT count(*) FROM pg_db_role_setting", true, "2"),
        ],
    );
}

#[test]
fn host_rules_know_members() {
    let dir = tempfile::tempdir().expect("folder");
    let file = dir.path().join("hba");
    std::fs::write(&file, "host all postgres all trust\nhost all +staff all trust\nhost all all all reject\n").unwrap();
    let server = TestServer::with(|settings| settings.hba_file = file);
    check(
        &server,
        &[
            ("postgres", "", "CREATE ROLE staff; CREATE ROLE a LOGIN IN ROLE staff; CREATE ROLE b LOGIN", true, ""),
            ("a", "", "SELECT 1", true, "1"),
            ("b", "", "SELECT 1", false, "pg_hba.conf rejects connection"),
            ("postgres", "", "GRANT staff TO b", true, ""),
            ("b", "", "SELECT 1", true, "1"),
            ("postgres", "", "REVOKE staff FROM a", true, ""),
            ("a", "", "SELECT 1", false, "pg_hba.conf rejects connection"),
        ],
    );
}

/// What only a superuser may do, or a member of a role for it, is refused to others.
#[test]
fn what_is_not_for_everybody() {
    let server = TestServer::start();
    check(
        &server,
        &[
            (
                "postgres",
                "",
                "CREATE ROLE a LOGIN; CREATE ROLE m LOGIN IN ROLE pg_monitor, pg_signal_backend, pg_checkpoint",
                true,
                "",
            ),
            ("a", "", "CHECKPOINT", false, "must be superuser or have privileges of pg_checkpoint to do CHECKPOINT"),
            ("m", "", "CHECKPOINT", true, "CHECKPOINT"),
            ("a", "", "VACUUM", false, "permission denied"),
            ("a", "", "EXEC sys.sp_persistent_version_cleanup", false, "permission denied"),
            ("a", "", "SELECT * FROM resurgam_clean()", false, "permission denied"),
            ("a", "", "SELECT resurgam_backup()", false, "permission denied"),
            ("a", "", "SELECT resurgam_fail_device('data')", false, "permission denied"),
            ("a", "", "SELECT pg_reload_conf()", false, "permission denied"),
            (
                "a",
                "",
                "ALTER DATABASE postgres SET accelerated_database_recovery = on",
                false,
                "must be owner of database postgres",
            ),
            ("a", "", "ALTER DATABASE postgres SET work_mem = '1MB'", false, "must be owner of database postgres"),
            ("a", "", "SELECT * FROM pg_authid", false, "permission denied for table pg_authid"),
            ("a", "", "SELECT * FROM pg_hba_file_rules", false, "permission denied for view pg_hba_file_rules"),
            ("a", "", "SET temp_file_limit = 1", false, "permission denied to set parameter"),
            ("a", "", "SET SESSION AUTHORIZATION postgres", false, "permission denied to set session authorization"),
            ("a", "", "SELECT DISTINCT query FROM resurgam_plans", true, "<insufficient privilege>"),
        ],
    );
    let mut other = server.client();
    other.query("SELECT 'seen'");
    let pid = other.process_id.to_string();
    let cancel = format!("SELECT pg_cancel_backend({pid})");
    let terminate = format!("SELECT pg_terminate_backend({pid})");
    let shown = format!("SELECT query, state IS NULL FROM pg_stat_activity WHERE pid = {pid}");
    check(
        &server,
        &[
            ("a", "", &cancel, false, "must be a superuser to cancel superuser query"),
            ("m", "", &terminate, false, "must be a superuser to terminate superuser process"),
            ("a", "", &shown, true, "<insufficient privilege>|t"),
            ("m", "", &shown, true, "SELECT $1|f"),
            ("postgres", "", &shown, true, "SELECT $1|f"),
        ],
    );
    let mut of_role = server.raw();
    of_role.startup(&[("user", "a"), ("database", "postgres")]);
    of_role.until_ready();
    let pid = of_role.process_id;
    let terminate = format!("SELECT pg_terminate_backend({pid})");
    check(
        &server,
        &[
            ("postgres", "", "CREATE ROLE c LOGIN", true, ""),
            (
                "c",
                "",
                &terminate,
                false,
                "must be a member of the role whose process is being terminated or member of pg_signal_backend",
            ),
            ("m", "", &terminate, true, "t"),
        ],
    );
}
