// node-postgres (with its pool, cursors and COPY streams) against a server. Usage: node node_postgres.js HOST PORT.
// A line for each step; 1 if any failed. Its modules are looked for where NODE_PATH says.
"use strict";
const assert = require("node:assert/strict");
const { execFileSync } = require("node:child_process");
const { pipeline } = require("node:stream/promises");
const { Readable, Writable } = require("node:stream");
const pg = require("pg");
const Cursor = require("pg-cursor");
const copy = require("pg-copy-streams");

const [host, port] = process.argv.slice(2);
const config = { host, port: Number(port), user: "postgres", database: "postgres", connectionTimeoutMillis: 10000 };
const steps = [];
const step = (name, run) => steps.push([name, run]);
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function connected(run, options = {}) {
  const client = new pg.Client({ ...config, ...options });
  client.on("error", () => {}); // a connection that is lost is seen by the query that meets it
  await client.connect();
  try {
    return await run(client);
  } finally {
    await client.end().catch(() => {});
  }
}

async function fails(promise, wanted) {
  const error = await promise.then(() => null, (error) => error);
  assert.ok(error, "it did not fail");
  for (const [field, value] of Object.entries(wanted)) assert.equal(error[field], value, `${field} of ${error.message}`);
  return error;
}

// A type, and texts of it that have to come back as they are.
const texts = [
  ["bool", ["true", "false"], (v) => String(v)],
  ["int2", ["-32768", "32767"]], ["int4", ["-2147483648", "2147483647"]],
  ["int8", ["-9223372036854775808", "9223372036854775807"]],
  ["float4", ["0.1", "-Infinity", "NaN"]], ["float8", ["0.1", "1.7976931348623157e+308", "5e-324", "Infinity", "NaN"]],
  ["numeric", ["0", "-0.001", "12345678901234567890.123456789", "0.00", "NaN", "Infinity"]],
  ["text", ["", "Grüße, 世界 😀", "x".repeat(100000), "quote ' \\ \" and\nline"]],
  ["varchar(10)", ["0123456789"]], ["char(5)", ["ab   "]],
  ["uuid", ["00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff"]],
  ["time", ["00:00:00", "23:59:59.999999", "24:00:00"]], ["timetz", ["12:30:15.5+05:30"]],
  ["inet", ["10.0.0.1", "10.0.0.1/8", "fe80::1"]], ["cidr", ["10.0.0.0/8"]], ["bit(4)", ["1010"]], ["varbit", ["10101"]],
  ["int4range", ["[1,10)", "empty", "(,)"]], ["daterange", ["[2024-01-01,2024-02-01)"]],
  ["tstzrange", ['["2024-01-01 00:00:00+00",)']], ["jsonpath", ['$."a"[*]']],
];

step("types", () => connected(async (client) => {
  for (const [type, values, shown = String] of texts) {
    for (const value of values) {
      for (const query of [{ text: `SELECT $1::${type} AS v`, values: [value] }, { text: `SELECT $1::${type} AS v`, values: [value], name: `t ${type}` }]) {
        assert.equal(shown((await client.query(query)).rows[0].v), value, type);
      }
    }
    assert.equal((await client.query(`SELECT $1::${type} AS v`, [null])).rows[0].v, null, type);
  }
}, { options: "-c timezone=UTC -c extra_float_digits=1" }));

step("values of JavaScript", () => connected(async (client) => {
  const one = async (type, value) => (await client.query(`SELECT $1::${type} AS v`, [value])).rows[0].v;
  const bytes = Buffer.from([...Array(256).keys()]);
  assert.deepEqual(await one("bytea", bytes), bytes);
  const at = new Date("2024-02-29T12:00:00.123Z");
  assert.deepEqual(await one("timestamptz", at), at);
  assert.deepEqual(await one("jsonb", { a: [1, null, { b: "ü" }] }), { a: [1, null, { b: "ü" }] });
  assert.deepEqual(await one("json", JSON.stringify([1, "x"])), [1, "x"]);
  assert.deepEqual(await one("int4[]", [1, null, -3]), [1, null, -3]);
  assert.deepEqual(await one("text[]", ["", "NULL", null, "a,b", '"', "\\", "{}"]), ["", "NULL", null, "a,b", '"', "\\", "{}"]);
  assert.deepEqual(await one("bool[]", [true, false]), [true, false]);
  assert.equal((await one("interval", "1 year 2 mons 3 days 04:05:06.7")).toPostgres(), "6.7 seconds 5 minutes 4 hours 3 days 2 months 1 years");
  assert.equal(await one("date", "infinity"), Infinity);
  assert.deepEqual((await client.query("SELECT * FROM unnest($1::int[], $2::text[]) AS t (a, b)", [[1, 2], ["x", "y"]])).rows, [{ a: 1, b: "x" }, { a: 2, b: "y" }]);
  assert.equal((await client.query("SELECT count(*) AS n FROM generate_series(1, 50) g WHERE g = ANY($1)", [[1, 2, 99]])).rows[0].n, "2");
}));

step("results in binary", () => connected(async (client) => {
  const { rows } = await client.query({ text: "SELECT 5::int4 AS a, -7::int2 AS b, 9007199254740993::int8 AS c, 1.5::float8 AS d, true AS e, 'x'::text AS f, 12.50::numeric AS g", binary: true, values: [] });
  assert.deepEqual(rows, [{ a: 5, b: -7, c: "9007199254740993", d: 1.5, e: true, f: "x", g: "12.50" }]);
}));

step("fields of results", () => connected(async (client) => {
  await client.query("DROP TABLE IF EXISTS js_fields; CREATE TABLE js_fields (id serial PRIMARY KEY, v varchar(9))");
  const oid = (await client.query("SELECT 'js_fields'::regclass::oid AS o")).rows[0].o;
  const { fields } = await client.query("SELECT id, v, v || 'x' AS w FROM js_fields");
  assert.deepEqual(fields.map((f) => [f.name, f.tableID, f.columnID, f.dataTypeID, f.dataTypeModifier]), [["id", oid, 1, 23, -1], ["v", oid, 2, 1043, 13], ["w", 0, 0, 25, -1]]);
  const inserted = await client.query("INSERT INTO js_fields (v) VALUES ('a'), ('b') RETURNING id");
  assert.deepEqual([inserted.command, inserted.rowCount, inserted.rows], ["INSERT", 2, [{ id: 1 }, { id: 2 }]]);
  const results = await client.query("SELECT 1 AS a; SELECT 2 AS b, 3 AS c; DELETE FROM js_fields");
  assert.deepEqual(results.map((r) => [r.command, r.rowCount]), [["SELECT", 1], ["SELECT", 1], ["DELETE", 2]]);
  assert.deepEqual((await client.query({ text: "SELECT 1 AS a, 2 AS a", rowMode: "array" })).rows, [[1, 2]]);
}));

step("prepared statements", () => connected(async (client) => {
  await client.query("DROP TABLE IF EXISTS js_prepared; CREATE TABLE js_prepared (id int PRIMARY KEY, v text)");
  for (let n = 0; n < 500; n++) await client.query({ name: "insert", text: "INSERT INTO js_prepared VALUES ($1, $2)", values: [n, `v${n}`] });
  for (let n = 0; n < 500; n++) {
    const { rows } = await client.query({ name: "select", text: "SELECT v FROM js_prepared WHERE id = $1", values: [n] });
    assert.equal(rows[0].v, `v${n}`);
  }
  assert.equal((await client.query("SELECT count(*)::int AS n FROM pg_prepared_statements")).rows[0].n, 2);
  // Queries that are queued up are sent one after the other, errors among them.
  const all = await Promise.allSettled([...Array(100).keys()].map((n) => client.query("SELECT 10 / $1::int AS q", [n])));
  assert.deepEqual(all.map((one) => one.status === "fulfilled" ? one.value.rows[0].q : one.reason.code).slice(0, 4), ["22012", 10, 5, 3]);
}));

step("cursors", () => connected(async (client) => {
  const cursor = client.query(new Cursor("SELECT g FROM generate_series(1, $1::int) g", [1000]));
  let sum = 0;
  for (let rows = await cursor.read(7); rows.length > 0; rows = await cursor.read(7)) sum += rows.reduce((a, row) => a + row.g, 0);
  assert.equal(sum, 500500);
  await cursor.close();
  const early = client.query(new Cursor("SELECT generate_series(1, 1000000)"));
  assert.equal((await early.read(3)).length, 3);
  await early.close();
  const broken = client.query(new Cursor("SELECT 10 / (3 - g) FROM generate_series(1, 5) g"));
  await fails(broken.read(10), { code: "22012" });
  assert.equal((await client.query("SELECT 1 AS a")).rows[0].a, 1);
}));

step("copy", () => connected(async (client) => {
  await client.query("DROP TABLE IF EXISTS js_copy; CREATE TABLE js_copy (a int, b text)");
  const lines = [...Array(20000).keys()].map((n) => `${n}\tline ${n}\\tü\n`);
  await pipeline(Readable.from(lines), client.query(copy.from("COPY js_copy FROM STDIN")));
  assert.deepEqual((await client.query("SELECT count(*)::int AS n, min(b) AS b FROM js_copy")).rows, [{ n: 20000, b: "line 0\tü" }]);
  const read = async (sql) => {
    const parts = [];
    await pipeline(client.query(copy.to(sql)), new Writable({ write(part, _, done) { parts.push(part); done(); } }));
    return Buffer.concat(parts);
  };
  assert.equal((await read("COPY (SELECT * FROM js_copy ORDER BY a) TO STDOUT")).toString(), lines.join(""));
  const binary = await read("COPY js_copy TO STDOUT (FORMAT binary)");
  await client.query("TRUNCATE js_copy");
  await pipeline(Readable.from([binary]), client.query(copy.from("COPY js_copy FROM STDIN (FORMAT binary)")));
  assert.equal((await client.query("SELECT sum(a)::int AS s FROM js_copy")).rows[0].s, 199990000);
  await fails(pipeline(Readable.from(["x\ty\n"]), client.query(copy.from("COPY js_copy FROM STDIN"))), { code: "22P02" });
  assert.equal((await client.query("SELECT count(*)::int AS n FROM js_copy")).rows[0].n, 20000);
}));

step("errors", () => connected(async (client) => {
  await client.query("DROP TABLE IF EXISTS js_child, js_parent");
  await client.query("CREATE TABLE js_parent (id int PRIMARY KEY, n int NOT NULL CONSTRAINT js_positive CHECK (n > 0)); INSERT INTO js_parent VALUES (1, 1)");
  await client.query("CREATE TABLE js_child (p int CONSTRAINT js_ref REFERENCES js_parent)");
  const at = { schema: "public", table: "js_parent", severity: "ERROR" };
  await fails(client.query("INSERT INTO js_parent VALUES ($1, 1)", [1]), { ...at, code: "23505", constraint: "js_parent_pkey", detail: "Key (id)=(1) already exists." });
  await fails(client.query("INSERT INTO js_parent VALUES (2, $1)", [-1]), { ...at, code: "23514", constraint: "js_positive" });
  await fails(client.query("INSERT INTO js_parent VALUES (2, $1)", [null]), { ...at, code: "23502", column: "n" });
  await fails(client.query("INSERT INTO js_child VALUES ($1)", [7]), { code: "23503", table: "js_child", constraint: "js_ref", detail: 'Key (p)=(7) is not present in table "js_parent".' });
  await fails(client.query("SELECT 1 FRM x"), { code: "42601", position: "14" });
  await fails(client.query("SELECT absent FROM js_parent"), { code: "42703", position: "8" });
  await fails(client.query("SELECT $1::int", ["x"]), { code: "22P02", message: 'invalid input syntax for type integer: "x"' });
  await fails(connected(() => {}, { database: "js_absent" }), { code: "3D000", severity: "FATAL" });
}));

step("notices and notifications", () => connected((client) => connected(async (other) => {
  const notices = [], heard = [];
  client.on("notice", (notice) => notices.push([notice.severity, notice.code, notice.message]));
  client.on("notification", (message) => heard.push([message.channel, message.payload, message.processId]));
  await client.query("DROP TABLE IF EXISTS js_absent");
  assert.deepEqual(notices, [["NOTICE", "00000", 'table "js_absent" does not exist, skipping']]);
  await client.query("LISTEN js_channel");
  await other.query("SELECT pg_notify('js_channel', $1)", ["ü".repeat(500)]);
  await other.query("NOTIFY js_channel");
  for (let n = 0; n < 100 && heard.length < 2; n++) await sleep(50);
  assert.deepEqual(heard, [["js_channel", "ü".repeat(500), other.processID], ["js_channel", "", other.processID]]);
})));

step("transactions", () => connected(async (client) => {
  await client.query("DROP TABLE IF EXISTS js_tx; CREATE TABLE js_tx (id int PRIMARY KEY)");
  await client.query("BEGIN ISOLATION LEVEL REPEATABLE READ");
  await client.query("INSERT INTO js_tx VALUES ($1)", [1]);
  await client.query("SAVEPOINT s");
  await fails(client.query("INSERT INTO js_tx VALUES ($1)", [1]), { code: "23505" });
  await fails(client.query("SELECT 1"), { code: "25P02" });
  await client.query("ROLLBACK TO SAVEPOINT s");
  await client.query("INSERT INTO js_tx VALUES ($1)", [2]);
  await client.query("COMMIT");
  await client.query("BEGIN; INSERT INTO js_tx VALUES (3); ROLLBACK");
  // Statements of one text are one transaction.
  await fails(client.query("INSERT INTO js_tx VALUES (4); INSERT INTO js_tx VALUES (1)"), { code: "23505" });
  assert.deepEqual((await client.query({ text: "SELECT id FROM js_tx ORDER BY id", rowMode: "array" })).rows, [[1], [2]]);
}));

step("cancel", () => connected(async (client) => {
  const query = new pg.Query("SELECT pg_sleep(20)");
  const ended = new Promise((resolve) => { query.on("error", resolve); query.on("end", () => resolve(null)); });
  client.query(query);
  await sleep(300);
  new pg.Client(config).cancel(client, query);
  assert.equal((await ended).code, "57014");
  await client.query("SET statement_timeout = 100");
  await fails(client.query("SELECT pg_sleep(20)"), { code: "57014", message: "canceling statement due to statement timeout" });
  await client.query("RESET statement_timeout");
  const sleeping = fails(client.query("SELECT pg_sleep(20)"), { code: "57P01" });
  await connected((other) => other.query("SELECT pg_terminate_backend($1)", [client.processID]));
  await sleeping;
}));

step("pool", async () => {
  const pool = new pg.Pool({ ...config, max: 4 });
  const pids = await Promise.all([...Array(200).keys()].map(async () => (await pool.query("SELECT pg_backend_pid() AS p, pg_sleep(0.002)")).rows[0].p));
  assert.ok(new Set(pids).size <= 4);
  await pool.end();
});

if (process.env.RESTART) {
  step("restart", async () => {
    const pool = new pg.Pool({ ...config, max: 2 });
    pool.on("error", () => {}); // idle connections that are lost
    await pool.query("CREATE TABLE IF NOT EXISTS js_kept (id int); INSERT INTO js_kept VALUES (1)");
    execFileSync(process.env.RESTART, { stdio: "ignore", timeout: 60000 });
    await sleep(200);
    let lost = 0;
    for (let n = 0; n < 6; n++) await pool.query("SELECT 1 / count(*) AS n FROM js_kept").catch(() => lost++);
    assert.ok(lost <= 2, `${lost} queries were lost`);
    await pool.end();
  });
}

(async () => {
  let failed = false;
  for (const [name, run] of steps) {
    let timer;
    const late = new Promise((_, reject) => { timer = setTimeout(() => reject(new Error("it took more than 40 s")), 40000); });
    try {
      await Promise.race([run(), late]);
      console.log(`ok node-postgres: ${name}`);
    } catch (error) {
      failed = true;
      const line = /node_postgres\.js:(\d+)/.exec(error.stack)?.[1] ?? "?";
      console.log(`FAILED node-postgres: ${name}: line ${line}: ${String(error.message).replace(/\s+/g, " ").slice(0, 400)}`);
    }
    clearTimeout(timer);
  }
  process.exit(failed ? 1 : 0);
})();
