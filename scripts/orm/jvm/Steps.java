import java.io.IOException;
import java.nio.file.*;
import java.sql.*;
import java.util.*;

/**
 * Steps of a program, and what each comes to beside PostgreSQL 15: a file has a line of the name and the text for each (BLESS=1 writes it).
 * A line of standard output for each step, as scripts/drivers.sh reads them.
 */
class Steps {
    interface Step { Object run() throws Exception; }

    final String host;
    final int port;
    private final Path file;
    private final boolean bless = "1".equals(System.getenv("BLESS"));
    private final Map<String, String> expected = new LinkedHashMap<>();
    private final Map<String, String> seen = new LinkedHashMap<>();
    private final String only = System.getenv("ONLY");
    private final java.io.PrintStream out = System.out;
    private boolean failed;

    Steps(String[] arguments, String name) throws IOException {
        System.setOut(System.err); // some tools talk
        host = arguments[0];
        port = Integer.parseInt(arguments[1]);
        file = Path.of(arguments[2], name);
        if (!bless) for (String line : Files.readAllLines(file)) expected.put(line.substring(0, line.indexOf('\t')), line.substring(line.indexOf('\t') + 1));
    }

    String url(String database) { return "jdbc:postgresql://" + host + ":" + port + "/" + database; }

    Connection connect(String database) throws SQLException { return DriverManager.getConnection(url(database), "postgres", "x"); }

    void fresh(String database, String... statements) throws SQLException {
        try (Connection c = connect("postgres"); Statement s = c.createStatement()) {
            s.execute("DROP DATABASE IF EXISTS " + database + " WITH (FORCE)");
            s.execute("CREATE DATABASE " + database);
        }
        if (statements.length > 0) run(database, statements);
    }

    void run(String database, String... statements) throws SQLException {
        try (Connection c = connect(database); Statement s = c.createStatement()) { for (String sql : statements) s.execute(sql); }
    }

    List<List<Object>> rows(String database, String sql) throws SQLException {
        try (Connection c = connect(database); Statement s = c.createStatement(); ResultSet r = s.executeQuery(sql)) { return rows(r); }
    }

    static List<List<Object>> rows(ResultSet r) throws SQLException {
        List<List<Object>> rows = new ArrayList<>();
        int width = r.getMetaData().getColumnCount();
        while (r.next()) {
            List<Object> row = new ArrayList<>();
            for (int n = 1; n <= width; n++) row.add(r.getObject(n));
            rows.add(row);
        }
        return rows;
    }

    static String text(Object value) throws SQLException {
        if (value instanceof Object[] array) return text(Arrays.asList(array));
        if (value instanceof byte[] bytes) return HexFormat.of().formatHex(bytes);
        if (value instanceof java.sql.Array array) return text(array.getArray());
        if (value instanceof Map<?, ?> map) {
            StringJoiner out = new StringJoiner(", ", "{", "}");
            for (Map.Entry<?, ?> entry : map.entrySet()) out.add(text(entry.getKey()) + "=" + text(entry.getValue()));
            return out.toString();
        }
        if (value instanceof Collection<?> list) {
            StringJoiner out = new StringJoiner(", ", "[", "]");
            for (Object one : list) out.add(text(one));
            return out.toString();
        }
        return String.valueOf(value);
    }

    /** What went wrong, by PostgreSQL's code where it has one. */
    static String fault(Throwable error) {
        StringBuilder out = new StringBuilder();
        for (Throwable at = error; at != null; at = at.getCause()) {
            if (out.length() > 0) out.append(" <- ");
            out.append(at.getClass().getSimpleName());
            if (at instanceof SQLException sql) return out.append(' ').append(sql.getSQLState()).append(' ').append(sql.getMessage().replaceAll("\\s+Where: while locking tuple.*", "")).toString();
        }
        return out.append(": ").append(error.getMessage()).toString();
    }

    /** The error that a step is about: its class, and PostgreSQL's code. */
    static String fails(Step step) throws Exception {
        try { return "no error: " + text(step.run()); } catch (Exception error) { return fault(error); }
    }

    void step(String name, Step step) {
        if (only != null && !name.contains(only)) return;
        String text, fault = null;
        long begun = System.nanoTime();
        try {
            text = text(step.run()).replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t");
            if (!bless && !text.equals(expected.get(name))) fault = difference(String.valueOf(expected.get(name)), text);
            seen.put(name, text);
        } catch (Throwable error) {
            fault = fault(error);
            if (System.getenv("TRACE") != null) error.printStackTrace();
        }
        if (System.getenv("TIMES") != null) out.println((System.nanoTime() - begun) / 1_000_000 + " ms");
        if (fault == null) { out.println("ok " + name); return; }
        failed = true;
        out.println("FAILED " + name + ": " + fault.replaceAll("\\s+", " ").substring(0, Math.min(1500, fault.replaceAll("\\s+", " ").length())));
    }

    private static String difference(String wanted, String got) {
        int at = 0;
        while (at < wanted.length() && at < got.length() && wanted.charAt(at) == got.charAt(at)) at++;
        int from = Math.max(0, at - 80);
        return "expected …" + wanted.substring(from, Math.min(wanted.length(), at + 300)) + ", got …" + got.substring(from, Math.min(got.length(), at + 300));
    }

    void end() throws IOException {
        if (bless) {
            List<String> lines = new ArrayList<>();
            seen.forEach((name, text) -> lines.add(name + "\t" + text));
            Files.write(file, lines);
        }
        out.flush();
        System.exit(failed ? 1 : 0);
    }
}
