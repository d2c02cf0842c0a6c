// PostgreSQL's JDBC driver against a server. Usage: java -cp postgresql.jar Jdbc.java HOST PORT
// A line for each step; 1 if any failed.

import java.io.*;
import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.sql.*;
import java.time.*;
import java.util.*;
import java.util.concurrent.TimeUnit;
import org.postgresql.*;
import org.postgresql.copy.CopyManager;
import org.postgresql.util.*;

public class Jdbc {
    static String url;
    static boolean failed;

    interface Step { void run() throws Exception; }
    interface Sql { void run() throws SQLException; }

    static Connection connect(String... options) throws SQLException {
        Properties properties = new Properties();
        properties.setProperty("user", "postgres");
        properties.setProperty("connectTimeout", "10");
        for (int n = 0; n < options.length; n += 2) properties.setProperty(options[n], options[n + 1]);
        return DriverManager.getConnection(url, properties);
    }

    static void step(String name, Step step) {
        Throwable[] thrown = new Throwable[1];
        Thread thread = new Thread(() -> { try { step.run(); } catch (Throwable error) { thrown[0] = error; } });
        thread.setDaemon(true);
        thread.start();
        try { thread.join(40_000); } catch (InterruptedException error) { thrown[0] = error; }
        if (thread.isAlive()) thrown[0] = new Exception("it took more than 40 s");
        if (thrown[0] == null) { System.out.println("ok jdbc: " + name); return; }
        failed = true;
        int line = Arrays.stream(thrown[0].getStackTrace()).filter(at -> at.getClassName().startsWith("Jdbc") && !at.getMethodName().equals("equal")).mapToInt(StackTraceElement::getLineNumber).findFirst().orElse(0);
        String text = String.valueOf(thrown[0]).replaceAll("\\s+", " ");
        System.out.println("FAILED jdbc: " + name + ": line " + line + ": " + text.substring(0, Math.min(400, text.length())));
    }

    static void equal(Object got, Object wanted, String what) {
        if (!Objects.deepEquals(got, wanted)) throw new AssertionError(what + ": got " + shown(got) + ", wanted " + shown(wanted));
    }
    static String shown(Object value) { return value instanceof Object[] list ? Arrays.deepToString(list) : value instanceof byte[] bytes ? Arrays.toString(bytes) : String.valueOf(value); }

    static PSQLException fails(String state, Sql run) throws SQLException {
        try { run.run(); } catch (PSQLException error) { equal(error.getSQLState(), state, error.getMessage()); return error; }
        throw new AssertionError("no " + state);
    }

    static void run(Connection c, String... statements) throws SQLException {
        try (Statement s = c.createStatement()) { for (String sql : statements) s.execute(sql); }
    }
    static List<List<Object>> rows(ResultSet r, String... columns) throws SQLException {
        List<List<Object>> rows = new ArrayList<>();
        while (r.next()) {
            List<Object> row = new ArrayList<>();
            for (String column : columns) row.add(r.getObject(column));
            rows.add(row);
        }
        r.close();
        return rows;
    }
    static List<Object> list(Object... values) { return new ArrayList<>(Arrays.asList(values)); }
    static long one(Connection c, String sql) throws SQLException {
        try (Statement s = c.createStatement(); ResultSet r = s.executeQuery(sql)) { r.next(); return r.getLong(1); }
    }

    // Each value once as a text (a statement's first runs) and, of most types, in binary (later ones).
    static void types(String... options) throws Exception {
        Object[][] values = {
            {"bool", true, false}, {"int4", Integer.MIN_VALUE, Integer.MAX_VALUE}, {"int8", Long.MIN_VALUE, Long.MAX_VALUE},
            {"float4", 0.1f, Float.NEGATIVE_INFINITY, Float.NaN}, {"float8", 0.1, Double.MIN_VALUE, Double.MAX_VALUE, Double.NaN},
            {"numeric", new BigDecimal("0"), new BigDecimal("-0.001"), new BigDecimal("12345678901234567890.123456789"), new BigDecimal("0.00")},
            {"text", "", "Grüße, 世界 😀", "x".repeat(100_000)}, {"varchar", "abc"},
            {"uuid", new UUID(0, 0), new UUID(-1, -1)},
            {"date", LocalDate.of(1, 1, 1), LocalDate.of(2024, 2, 29), LocalDate.of(9999, 12, 31)},
            {"time", LocalTime.MIN, LocalTime.of(23, 59, 59, 999_999_000)},
            {"timetz", OffsetTime.of(12, 30, 15, 5000, ZoneOffset.ofHoursMinutes(5, 30))},
            {"timestamp", LocalDateTime.of(1, 1, 1, 0, 0), LocalDateTime.of(2024, 2, 29, 12, 0, 0, 1000)},
            {"timestamptz", OffsetDateTime.of(2024, 3, 31, 1, 59, 59, 999_999_000, ZoneOffset.UTC)},
        };
        try (Connection c = connect(options)) {
            for (Object[] kind : values) {
                try (PreparedStatement s = c.prepareStatement("SELECT ?::" + kind[0] + " AS v")) {
                    for (int round = 0; round < 7; round++) {
                        for (int at = 1; at < kind.length; at++) {
                            s.setObject(1, kind[at]);
                            try (ResultSet r = s.executeQuery()) {
                                r.next();
                                equal(r.getObject(1, kind[at].getClass()), kind[at], kind[0] + ", round " + round);
                            }
                        }
                    }
                    s.setObject(1, null);
                    try (ResultSet r = s.executeQuery()) { r.next(); equal(r.getObject(1), null, "NULL"); equal(r.wasNull(), true, "wasNull"); }
                }
            }
            byte[] bytes = new byte[256];
            for (int n = 0; n < 256; n++) bytes[n] = (byte) n;
            try (PreparedStatement s = c.prepareStatement("SELECT ?::bytea, ?::int2, ?::int4[], ?::text[], ?::json, ?::jsonb, ?::interval, ?::int4range, ?::inet, ?::numeric[]")) {
                for (int round = 0; round < 7; round++) {
                    s.setBytes(1, bytes);
                    s.setShort(2, Short.MIN_VALUE);
                    s.setArray(3, c.createArrayOf("int4", new Integer[] {1, null, -3}));
                    s.setArray(4, c.createArrayOf("text", new String[] {"", "NULL", null, "a,b", "\"", "\\"}));
                    s.setString(5, "{\"a\": [1]}");
                    s.setString(6, "{\"a\":[1]}");
                    s.setObject(7, new PGInterval(1, 2, 3, 4, 5, 6.5));
                    s.setObject(8, "[1,10)", Types.OTHER);
                    s.setObject(9, "10.0.0.1/8", Types.OTHER);
                    s.setArray(10, c.createArrayOf("numeric", new BigDecimal[] {new BigDecimal("1.50"), null}));
                    try (ResultSet r = s.executeQuery()) {
                        r.next();
                        equal(r.getBytes(1), bytes, "bytea");
                        equal(r.getShort(2), Short.MIN_VALUE, "int2");
                        equal(r.getArray(3).getArray(), new Integer[] {1, null, -3}, "int4[]");
                        equal(r.getArray(4).getArray(), new String[] {"", "NULL", null, "a,b", "\"", "\\"}, "text[]");
                        equal(r.getString(5), "{\"a\": [1]}", "json");
                        equal(((PGobject) r.getObject(6)).getValue(), "{\"a\": [1]}", "jsonb");
                        equal(r.getObject(7), new PGInterval(1, 2, 3, 4, 5, 6.5), "interval");
                        equal(((PGobject) r.getObject(8)).getValue(), "[1,10)", "int4range");
                        equal(r.getString(9), "10.0.0.1/8", "inet");
                        equal(r.getArray(10).getArray(), new BigDecimal[] {new BigDecimal("1.50"), null}, "numeric[]");
                    }
                }
            }
        }
    }

    public static void main(String[] arguments) throws Exception {
        url = "jdbc:postgresql://" + arguments[0] + ":" + arguments[1] + "/postgres";
        TimeZone.setDefault(TimeZone.getTimeZone("UTC"));
        step("types", Jdbc::types);
        step("types, binary at once", () -> types("prepareThreshold", "-1"));
        step("types, simple protocol", () -> {
            try (Connection c = connect("preferQueryMode", "simple"); PreparedStatement s = c.prepareStatement("SELECT ? + 1, ?, ?::date")) {
                s.setInt(1, 41);
                s.setString(2, "it's");
                s.setObject(3, LocalDate.of(2024, 2, 29));
                try (ResultSet r = s.executeQuery()) { r.next(); equal(r.getInt(1), 42, "int"); equal(r.getString(2), "it's", "text"); equal(r.getObject(3, LocalDate.class), LocalDate.of(2024, 2, 29), "date"); }
            }
        });
        step("prepared statements", () -> {
            try (Connection c = connect()) {
                run(c, "DROP TABLE IF EXISTS jdbc_prepared", "CREATE TABLE jdbc_prepared (id int PRIMARY KEY, v text)");
                try (PreparedStatement s = c.prepareStatement("INSERT INTO jdbc_prepared VALUES (?, ?)")) {
                    for (int n = 0; n < 300; n++) { s.setInt(1, n); s.setString(2, "v" + n); equal(s.executeUpdate(), 1, "rows"); }
                    equal(s.unwrap(PGStatement.class).isUseServerPrepare(), true, "prepared by the server");
                }
                try (PreparedStatement s = c.prepareStatement("SELECT * FROM jdbc_prepared WHERE id = ?")) {
                    for (int n = 0; n < 300; n++) { s.setInt(1, n); try (ResultSet r = s.executeQuery()) { r.next(); equal(r.getString(2), "v" + n, "row"); } }
                    // The driver prepares anew when it is told that the result's type has changed.
                    try (Connection other = connect()) { run(other, "ALTER TABLE jdbc_prepared ADD COLUMN w int DEFAULT 7"); }
                    try (ResultSet r = s.executeQuery()) { r.next(); equal(r.getInt(3), 7, "new column"); }
                    ParameterMetaData about = s.getParameterMetaData();
                    equal(about.getParameterTypeName(1), "int4", "parameter");
                    ResultSetMetaData columns = s.getMetaData();
                    equal(list(columns.getColumnCount(), columns.getColumnName(2), columns.getColumnTypeName(2), columns.getTableName(2), columns.isNullable(1), columns.isAutoIncrement(1)),
                        list(3, "v", "text", "jdbc_prepared", ResultSetMetaData.columnNoNulls, false), "columns");
                }
            }
        });
        step("batches and generated keys", () -> {
            for (String rewrite : new String[] {"false", "true"}) {
                try (Connection c = connect("reWriteBatchedInserts", rewrite)) {
                    run(c, "DROP TABLE IF EXISTS jdbc_batch", "CREATE TABLE jdbc_batch (id bigserial PRIMARY KEY, v text UNIQUE, w int DEFAULT 5)");
                    c.setAutoCommit(false);
                    try (PreparedStatement s = c.prepareStatement("INSERT INTO jdbc_batch (v) VALUES (?)")) {
                        for (int n = 0; n < 1000; n++) { s.setString(1, "v" + n); s.addBatch(); }
                        equal(s.executeBatch().length, 1000, "batch");
                    }
                    c.commit();
                    equal(one(c, "SELECT count(*) FROM jdbc_batch"), 1000L, "rows");
                    try (PreparedStatement s = c.prepareStatement("INSERT INTO jdbc_batch (v) VALUES (?)")) {
                        for (String v : new String[] {"new", "v1", "newer"}) { s.setString(1, v); s.addBatch(); }
                        try { s.executeBatch(); throw new AssertionError("no error"); } catch (BatchUpdateException error) { equal(error.getSQLState(), "23505", "state"); }
                    }
                    c.rollback();
                    c.setAutoCommit(true);
                    try (PreparedStatement s = c.prepareStatement("INSERT INTO jdbc_batch (v) VALUES (?), (?)", Statement.RETURN_GENERATED_KEYS)) {
                        s.setString(1, "a"); s.setString(2, "b"); s.executeUpdate();
                        List<List<Object>> keys = rows(s.getGeneratedKeys(), "id", "w");
                        equal(keys.size(), 2, "keys");
                        equal(keys.get(0).get(1), 5, "a default");
                    }
                    try (PreparedStatement s = c.prepareStatement("INSERT INTO jdbc_batch (v) VALUES (?)", new String[] {"id"})) {
                        for (int n = 0; n < 5; n++) { s.setString(1, "g" + n); s.addBatch(); }
                        s.executeBatch();
                        equal(rows(s.getGeneratedKeys(), "id").size(), 5, "keys of a batch");
                    }
                    try (Statement s = c.createStatement()) {
                        s.addBatch("UPDATE jdbc_batch SET w = 1 WHERE id < 10");
                        s.addBatch("DELETE FROM jdbc_batch WHERE id < 5");
                        equal(s.executeBatch(), new int[] {9, 4}, "mixed batch");
                        equal(s.execute("SELECT 1; UPDATE jdbc_batch SET w = 2 WHERE id = 9; SELECT 2"), true, "several");
                        s.getMoreResults();
                        equal(s.getUpdateCount(), 1, "count");
                        equal(s.getMoreResults(), true, "the last one");
                    }
                }
            }
        });
        step("metadata", () -> {
            try (Connection c = connect()) {
                run(c, "DROP TABLE IF EXISTS jdbc_child, jdbc_parent CASCADE",
                    "CREATE TABLE jdbc_parent (a int, b varchar(20), c numeric(8,3) DEFAULT 1.5 NOT NULL, d int GENERATED ALWAYS AS (a * 2) STORED, e int GENERATED BY DEFAULT AS IDENTITY, f int[], CONSTRAINT jdbc_key PRIMARY KEY (b, a))",
                    "COMMENT ON TABLE jdbc_parent IS 'the parent'", "COMMENT ON COLUMN jdbc_parent.c IS 'a price'",
                    "CREATE TABLE jdbc_child (id serial PRIMARY KEY, pb varchar(20), pa int, t timestamptz(3), CONSTRAINT jdbc_ref FOREIGN KEY (pb, pa) REFERENCES jdbc_parent ON DELETE CASCADE ON UPDATE SET NULL)",
                    "CREATE UNIQUE INDEX jdbc_index ON jdbc_child (t DESC, pa)", "CREATE INDEX jdbc_expression ON jdbc_child (abs(pa)) WHERE pa > 5",
                    "CREATE VIEW jdbc_view AS SELECT * FROM jdbc_parent");
                DatabaseMetaData m = c.getMetaData();
                equal(m.getDatabaseMajorVersion(), 15, "version");
                equal(rows(m.getTables(null, "public", "jdbc\\_%", new String[] {"TABLE", "VIEW"}), "TABLE_NAME", "TABLE_TYPE", "REMARKS").stream().filter(r -> List.of("jdbc_child", "jdbc_parent", "jdbc_view").contains(r.get(0))).toList(),
                    List.of(list("jdbc_child", "TABLE", null), list("jdbc_parent", "TABLE", "the parent"), list("jdbc_view", "VIEW", null)), "tables");
                equal(rows(m.getColumns(null, "public", "jdbc_parent", "%"), "COLUMN_NAME", "TYPE_NAME", "DATA_TYPE", "COLUMN_SIZE", "DECIMAL_DIGITS", "NULLABLE", "COLUMN_DEF", "ORDINAL_POSITION", "IS_AUTOINCREMENT", "IS_GENERATEDCOLUMN", "REMARKS"), List.of(
                    list("a", "int4", Types.INTEGER, 10, 0, 0, null, 1, "NO", "NO", null),
                    list("b", "varchar", Types.VARCHAR, 20, 0, 0, null, 2, "NO", "NO", null),
                    list("c", "numeric", Types.NUMERIC, 8, 3, 0, "1.5", 3, "NO", "NO", "a price"),
                    list("d", "int4", Types.INTEGER, 10, 0, 1, "(a * 2)", 4, "NO", "YES", null),
                    list("e", "int4", Types.INTEGER, 10, 0, 0, null, 5, "YES", "NO", null),
                    list("f", "_int4", Types.ARRAY, 10, 0, 1, null, 6, "NO", "NO", null)), "columns");
                equal(rows(m.getColumns(null, "public", "jdbc_child", "id"), "TYPE_NAME", "IS_AUTOINCREMENT", "COLUMN_DEF"), List.of(list("serial", "YES", "nextval('jdbc_child_id_seq'::regclass)")), "serial");
                equal(rows(m.getPrimaryKeys(null, "public", "jdbc_parent"), "COLUMN_NAME", "KEY_SEQ", "PK_NAME"), List.of(list("b", (short) 1, "jdbc_key"), list("a", (short) 2, "jdbc_key")).stream().map(r -> list(r.get(0), ((Number) r.get(1)).intValue(), r.get(2))).toList(), "primary key");
                equal(rows(m.getIndexInfo(null, "public", "jdbc_child", false, false), "INDEX_NAME", "NON_UNIQUE", "COLUMN_NAME", "ASC_OR_DESC", "FILTER_CONDITION"), List.of(
                    list("jdbc_child_pkey", false, "id", "A", null), list("jdbc_index", false, "t", "D", null), list("jdbc_index", false, "pa", "A", null), list("jdbc_expression", true, "abs(pa)", "A", "(pa > 5)")), "indexes");
                for (ResultSet r : new ResultSet[] {m.getImportedKeys(null, "public", "jdbc_child"), m.getExportedKeys(null, "public", "jdbc_parent"), m.getCrossReference(null, "public", "jdbc_parent", null, "public", "jdbc_child")}) {
                    List<List<Object>> keys = rows(r, "PKTABLE_NAME", "PKCOLUMN_NAME", "FKTABLE_NAME", "FKCOLUMN_NAME", "FK_NAME", "PK_NAME");
                    equal(keys, List.of(list("jdbc_parent", "b", "jdbc_child", "pb", "jdbc_ref", "jdbc_key"), list("jdbc_parent", "a", "jdbc_child", "pa", "jdbc_ref", "jdbc_key")), "keys");
                }
                List<List<Object>> rules = rows(m.getImportedKeys(null, "public", "jdbc_child"), "UPDATE_RULE", "DELETE_RULE", "DEFERRABILITY");
                equal(rules.get(0).toString(), list(DatabaseMetaData.importedKeySetNull, DatabaseMetaData.importedKeyCascade, DatabaseMetaData.importedKeyNotDeferrable).toString(), "rules");
                equal(rows(m.getSchemas(), "TABLE_SCHEM").containsAll(List.of(list("public"), list("pg_catalog"), list("information_schema"))), true, "schemas");
                equal(rows(m.getBestRowIdentifier(null, "public", "jdbc_parent", DatabaseMetaData.bestRowSession, true), "COLUMN_NAME").size(), 2, "row identifier");
                equal(rows(m.getTypeInfo(), "TYPE_NAME").contains(list("jsonb")), true, "types");
                equal(rows(m.getTablePrivileges(null, "public", "jdbc_parent"), "GRANTEE", "PRIVILEGE").contains(list("postgres", "SELECT")), true, "privileges");
                equal(rows(m.getColumnPrivileges(null, "public", "jdbc_parent", "a"), "PRIVILEGE").contains(list("UPDATE")), true, "column privileges");
                equal(rows(m.getFunctions(null, "pg_catalog", "upper"), "FUNCTION_NAME").contains(list("upper")), true, "functions");
                rows(m.getProcedures(null, null, "jdbc%"), "PROCEDURE_NAME");
                rows(m.getCatalogs(), "TABLE_CAT");
                rows(m.getClientInfoProperties(), "NAME");
                equal(m.getSQLKeywords().contains("ilike") || m.getSQLKeywords().contains("ILIKE"), true, "keywords");
                equal(m.getUserName() + " " + m.getMaxColumnNameLength(), "postgres 63", "user");
            }
        });
        step("rows that are fetched in parts, scrolled, updated", () -> {
            try (Connection c = connect()) {
                c.setAutoCommit(false);
                try (Statement s = c.createStatement()) {
                    s.setFetchSize(7);
                    long sum = 0;
                    try (ResultSet r = s.executeQuery("SELECT generate_series(1, 1000)")) { while (r.next()) sum += r.getInt(1); }
                    equal(sum, 500500L, "sum");
                    s.setMaxRows(3);
                    try (ResultSet r = s.executeQuery("SELECT generate_series(1, 1000)")) { int n = 0; while (r.next()) n++; equal(n, 3, "most rows"); }
                }
                run(c, "DROP TABLE IF EXISTS jdbc_updated", "CREATE TABLE jdbc_updated (id int PRIMARY KEY, v text)", "INSERT INTO jdbc_updated SELECT g, 'v' || g FROM generate_series(1, 10) g");
                try (Statement s = c.createStatement(ResultSet.TYPE_SCROLL_INSENSITIVE, ResultSet.CONCUR_UPDATABLE); ResultSet r = s.executeQuery("SELECT id, v FROM jdbc_updated ORDER BY id")) {
                    equal(r.absolute(5), true, "absolute");
                    r.updateString("v", "changed");
                    r.updateRow();
                    r.last();
                    equal(r.getInt(1), 10, "last");
                    r.deleteRow();
                    r.moveToInsertRow();
                    r.updateInt(1, 11);
                    r.updateString(2, "new");
                    r.insertRow();
                }
                equal(one(c, "SELECT sum(id) FROM jdbc_updated WHERE v IN ('changed', 'new') OR id = 10"), 16L, "updates");
                c.commit();
            }
        });
        step("transactions and savepoints", () -> {
            try (Connection c = connect(); Connection other = connect()) {
                run(c, "DROP TABLE IF EXISTS jdbc_tx", "CREATE TABLE jdbc_tx (id int PRIMARY KEY)");
                c.setAutoCommit(false);
                c.setTransactionIsolation(Connection.TRANSACTION_REPEATABLE_READ);
                run(c, "INSERT INTO jdbc_tx VALUES (1)");
                Savepoint named = c.setSavepoint("a name"), nameless = c.setSavepoint();
                run(c, "INSERT INTO jdbc_tx VALUES (2)");
                fails("23505", () -> run(c, "INSERT INTO jdbc_tx VALUES (1)"));
                fails("25P02", () -> run(c, "SELECT 1"));
                c.rollback(nameless);
                c.releaseSavepoint(named);
                run(c, "INSERT INTO jdbc_tx VALUES (3)");
                equal(one(other, "SELECT count(*) FROM jdbc_tx"), 0L, "not there yet");
                c.commit();
                equal(one(other, "SELECT sum(id) FROM jdbc_tx"), 4L, "there");
                c.setReadOnly(true);
                fails("25006", () -> run(c, "DELETE FROM jdbc_tx"));
                c.rollback();
            }
            // The driver's own savepoint before each statement.
            try (Connection c = connect("autosave", "always")) {
                c.setAutoCommit(false);
                run(c, "INSERT INTO jdbc_tx VALUES (7)");
                fails("23505", () -> run(c, "INSERT INTO jdbc_tx VALUES (1)"));
                c.commit();
                equal(one(c, "SELECT count(*) FROM jdbc_tx"), 3L, "kept");
            }
        });
        step("errors", () -> {
            try (Connection c = connect()) {
                run(c, "DROP TABLE IF EXISTS jdbc_e2, jdbc_e1", "CREATE TABLE jdbc_e1 (id int PRIMARY KEY, n int NOT NULL CONSTRAINT jdbc_positive CHECK (n > 0))", "CREATE TABLE jdbc_e2 (p int CONSTRAINT jdbc_ref2 REFERENCES jdbc_e1)", "INSERT INTO jdbc_e1 VALUES (1, 1)");
                ServerErrorMessage e = fails("23505", () -> run(c, "INSERT INTO jdbc_e1 VALUES (1, 1)")).getServerErrorMessage();
                equal(list(e.getSchema(), e.getTable(), e.getConstraint(), e.getDetail(), e.getSeverity()), list("public", "jdbc_e1", "jdbc_e1_pkey", "Key (id)=(1) already exists.", "ERROR"), "unique");
                equal(fails("23514", () -> run(c, "INSERT INTO jdbc_e1 VALUES (2, -1)")).getServerErrorMessage().getConstraint(), "jdbc_positive", "check");
                equal(fails("23502", () -> run(c, "INSERT INTO jdbc_e1 VALUES (2, NULL)")).getServerErrorMessage().getColumn(), "n", "not null");
                equal(fails("23503", () -> run(c, "INSERT INTO jdbc_e2 VALUES (9)")).getServerErrorMessage().getConstraint(), "jdbc_ref2", "foreign key");
                equal(fails("42601", () -> run(c, "SELECT 1 FRM x")).getServerErrorMessage().getPosition(), 14, "position");
                fails("42P01", () -> run(c, "SELECT * FROM jdbc_absent"));
                fails("22012", () -> run(c, "SELECT 1/0"));
                fails("3D000", () -> DriverManager.getConnection(url.replace("/postgres", "/jdbc_absent"), "postgres", "").close());
            }
        });
        step("warnings", () -> {
            try (Connection c = connect(); Statement s = c.createStatement()) {
                s.execute("DROP TABLE IF EXISTS jdbc_absent");
                SQLWarning warning = s.getWarnings();
                equal(list(warning.getMessage(), warning.getSQLState()), list("table \"jdbc_absent\" does not exist, skipping", "00000"), "notice");
            }
        });
        step("notifications", () -> {
            try (Connection c = connect(); Connection other = connect()) {
                run(c, "LISTEN jdbc_channel");
                run(other, "NOTIFY jdbc_channel, 'hello'");
                PGNotification[] got = c.unwrap(PGConnection.class).getNotifications(10_000);
                equal(list(got.length, got[0].getName(), got[0].getParameter(), got[0].getPID()), list(1, "jdbc_channel", "hello", other.unwrap(PGConnection.class).getBackendPID()), "notification");
            }
        });
        step("copy", () -> {
            try (Connection c = connect()) {
                run(c, "DROP TABLE IF EXISTS jdbc_copy", "CREATE TABLE jdbc_copy (a int, b text)");
                CopyManager copy = c.unwrap(PGConnection.class).getCopyAPI();
                StringBuilder lines = new StringBuilder();
                for (int n = 0; n < 20_000; n++) lines.append(n).append("\tline ").append(n).append("\\tü\n");
                equal(copy.copyIn("COPY jdbc_copy FROM STDIN", new StringReader(lines.toString())), 20_000L, "in");
                ByteArrayOutputStream out = new ByteArrayOutputStream();
                equal(copy.copyOut("COPY (SELECT * FROM jdbc_copy ORDER BY a) TO STDOUT", out), 20_000L, "out");
                equal(out.toString(StandardCharsets.UTF_8), lines.toString(), "text");
                out.reset();
                copy.copyOut("COPY jdbc_copy TO STDOUT (FORMAT binary)", out);
                run(c, "TRUNCATE jdbc_copy");
                equal(copy.copyIn("COPY jdbc_copy FROM STDIN (FORMAT binary)", new ByteArrayInputStream(out.toByteArray())), 20_000L, "binary");
                fails("22P02", () -> { try { copy.copyIn("COPY jdbc_copy FROM STDIN", new StringReader("x\ty\n")); } catch (IOException error) { throw new AssertionError(error); } });
                equal(one(c, "SELECT count(*) FROM jdbc_copy"), 20_000L, "rows");
            }
        });
        step("cancel and timeouts", () -> {
            try (Connection c = connect(); Statement s = c.createStatement()) {
                Thread canceller = new Thread(() -> { try { Thread.sleep(300); s.cancel(); } catch (Exception error) { error.printStackTrace(); } });
                canceller.start();
                fails("57014", () -> s.execute("SELECT pg_sleep(20)"));
                canceller.join();
                s.setQueryTimeout(1);
                fails("57014", () -> s.execute("SELECT pg_sleep(20)"));
                s.setQueryTimeout(0);
                equal(one(c, "SELECT 5"), 5L, "afterwards");
                equal(c.isValid(5), true, "valid");
                c.setNetworkTimeout(Runnable::run, 500);
                try { s.execute("SELECT pg_sleep(2)"); throw new AssertionError("no timeout"); } catch (PSQLException error) { equal(error.getSQLState(), "08006", "state"); }
            }
        });
        step("session", () -> {
            try (Connection c = connect("ApplicationName", "drivers", "currentSchema", "pg_catalog,public", "options", "-c statement_timeout=12345")) {
                equal(c.getSchema(), "pg_catalog", "schema");
                try (Statement s = c.createStatement(); ResultSet r = s.executeQuery("SELECT current_setting('application_name'), current_setting('statement_timeout'), current_setting('TimeZone')")) {
                    r.next();
                    equal(list(r.getString(1), r.getString(2), r.getString(3)), list("drivers", "12345ms", "UTC"), "settings");
                }
                c.setSchema("public");
                equal(c.getSchema(), "public", "schema");
                equal(c.getCatalog(), "postgres", "database");
                try (CallableStatement s = c.prepareCall("{ ? = call upper(?) }")) {
                    s.registerOutParameter(1, Types.VARCHAR);
                    s.setString(2, "abc");
                    s.execute();
                    equal(s.getString(1), "ABC", "a function's call");
                }
                try (PreparedStatement s = c.prepareStatement("SELECT {fn concat('a', {fn ucase('b')})}, {d '2024-02-29'}, {ts '2024-02-29 12:00:00'}"); ResultSet r = s.executeQuery()) { r.next(); equal(r.getString(1) + r.getDate(2), "aB2024-02-29", "escapes"); }
            }
        });
        step("types by name", () -> {
            try (Connection c = connect()) {
                run(c, "DROP TABLE IF EXISTS jdbc_moods", "DROP TYPE IF EXISTS jdbc_mood", "CREATE TYPE jdbc_mood AS ENUM ('sad', 'glad')", "CREATE TABLE jdbc_moods (m jdbc_mood, ms jdbc_mood[])");
                try (PreparedStatement s = c.prepareStatement("INSERT INTO jdbc_moods VALUES (?, ?)")) {
                    s.setObject(1, "glad", Types.OTHER);
                    s.setArray(2, c.createArrayOf("jdbc_mood", new String[] {"sad", null}));
                    s.executeUpdate();
                }
                try (Statement s = c.createStatement(); ResultSet r = s.executeQuery("SELECT * FROM jdbc_moods")) {
                    r.next();
                    equal(list(r.getString(1), r.getMetaData().getColumnTypeName(1)), list("glad", "jdbc_mood"), "enum");
                    equal(r.getArray(2).getArray(), new String[] {"sad", null}, "enum[]");
                }
            }
        });
        if (System.getenv("RESTART") != null) step("restart", () -> {
            try (Connection c = connect()) { run(c, "CREATE TABLE IF NOT EXISTS jdbc_kept (id int)", "INSERT INTO jdbc_kept VALUES (1)"); }
            Connection broken = connect();
            Process restart = new ProcessBuilder(System.getenv("RESTART")).redirectErrorStream(true).redirectOutput(ProcessBuilder.Redirect.DISCARD).start();
            equal(restart.waitFor(60, TimeUnit.SECONDS) && restart.exitValue() == 0, true, "restarted");
            equal(broken.isValid(5), false, "the connection from before");
            try (Connection c = connect()) { equal(one(c, "SELECT count(*) FROM jdbc_kept") >= 1, true, "rows"); }
        });
        System.exit(failed ? 1 : 0);
    }
}
