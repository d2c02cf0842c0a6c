// What tools of Node ask a database about itself: Prisma's schema engine (the one in its package, as WebAssembly, over its adapter for
// node-postgres) and drizzle-kit, on a schema with all that a schema can have; and what they do next: pull, push, diff, migrations, reset.
// Each statement that they send is recorded with its rows, and these, and what each step comes to, are compared with
// answers.json, which PostgreSQL 15 wrote (BLESS=1 writes it). A statement is named there by a digest of its text.
// Usage: node introspection.js HOST PORT; SHOW=1 prints the statements that differ, RECORD=FILE writes all with their answers
const [host, port] = [process.argv[2], +process.argv[3]];
const fs = require('fs'), path = require('path'), crypto = require('crypto'), { pathToFileURL } = require('url');
const file = path.join(__dirname, 'answers.json');
const bless = process.env.BLESS === '1';
const expected = bless || process.env.RESURGAM_STATEMENTS ? {} : JSON.parse(fs.readFileSync(file, 'utf8'));
const pg = require('pg');
const opts = database => ({ host, port, user: 'postgres', password: 'x', database });

// ---- Statements and their rows. Oids of what users make are no answer, nor is the order of rows that no ORDER BY gives.
let recorded = [];
const OID = new Set([26, 24, 2202, 2205, 2206]), OIDS = new Set([1028, 30]);
const oid = n => (+n >= 16384 ? 'oid' : n);
// What docs/sql.md says is otherwise, on purpose: literals and columns without casts that were not written, documents as they were written, the
// texts of views; the version; and which of several rows a DISTINCT ON takes that does not say.
const bare = text => text.replace(/\((-?[\d.]+)\)::numeric/g, '$1').replace(/'(-?\d+)'::(integer|bigint)/g, '$1').replace(/('[^']*')::text(?!\[)/g, '$1').replace(/\((\w+)\)::text\b/g, '$1').replace(/\(ARRAY\[([^\]]*)\]\)::text\[\]/g, 'ARRAY[$1]');
function value(v, field) {
  const type = field?.dataTypeID;
  if (v === null || v === undefined) return null;
  if (OID.has(type)) return oid(v);
  if (OIDS.has(type)) return Array.isArray(v) ? v.map(oid) : String(v).replace(/\d{5,}/g, 'oid');
  if (typeof v === 'bigint') return String(v);
  if (['version', 'numeric_version', 'definition', 'view_sql'].includes(field?.name)) return field.name;
  return typeof v === 'string' ? bare(v).replace(/":(?=\S)/g, '": ') : v;
}
function answer(sql, fields, rows) {
  const list = rows.map(r => JSON.stringify((Array.isArray(r) ? r : fields.map(f => r[f.name])).map((v, n) => (fields[n]?.name === 'opcname' && /DISTINCT ON/.test(sql) ? '*' : value(v, fields[n]))))).filter(row => !row.startsWith('["plpgsql"'));
  if (!/order\s+by/i.test(sql)) list.sort();
  return [fields.map(f => `${f.name}:${oid(f.dataTypeID)}`).join(','), ...list];
}
const letters = {}; // statements' columns of "char": Prisma's adapter does not know that type, which its engine asks for
const query = pg.Client.prototype.query;
pg.Client.prototype.query = function (config, ...rest) {
  const sql = typeof config === 'string' ? config : config?.text;
  if (!sql) return query.call(this, config, ...rest);
  const callback = typeof rest.at(-1) === 'function' ? rest.pop() : null; // a pool's
  const entry = { sql, values: rest[0] ?? config.values };
  recorded.push(entry);
  const done = query.call(this, config, ...rest).then(result => {
    const all = [].concat(result);
    entry.answer = all.flatMap(one => answer(sql, one.fields ?? [], one.rows ?? []));
    for (const one of all) for (const [n, f] of (one.fields ?? []).entries()) if (f.dataTypeID === 18) { f.dataTypeID = 25; (letters[sql] ??= new Set()).add(n); }
    return result;
  }, e => { entry.answer = [`${e.code}: ${e.message}`]; throw e; });
  if (!callback) return done;
  done.then(result => callback(null, result), callback);
};
// What a run makes up: names of databases for comparing, ids, times, digests of migrations' texts are not among it.
const plain = text => bare(text).replace(/\.op\(\\"\w+\\"\)/g, '').replace(/sql`'(-?\d+)'`/g, '$1').replace(/DEFAULT '(-?\d+)'/g, 'DEFAULT $1').replace(/ \w+_ops\b/g, '').replace(/"definition":".*?(?<!\\)"/g, '"definition":"VIEW"').replace(/\.as\(sql`.*?`\)/g, '.as(VIEW)').replace(/(CREATE VIEW [^;]*? AS )\(.*?;/g, '$1(VIEW);').replace(/[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g, 'UUID').replace(/\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|\+00(:00)?)?/g, 'TIME').replace(/\b20\d{12}_/g, 'STAMP_');
const digest = text => crypto.createHash('sha256').update(plain(text)).digest('hex').slice(0, 12);
function conclude() { // what was sent since the last time, the same statement with the same values once
  const all = {};
  for (const { sql, values, answer } of recorded) {
    const key = digest(sql + '\0' + JSON.stringify(values ?? []));
    if (!/^\s*(select|with|show)\b/i.test(sql)) continue;
    (all[key] ??= { sql, values, answers: [] }).answers.push(plain(JSON.stringify(answer ?? null)));
  }
  recorded = [];
  for (const one of Object.values(all)) one.answers = [...new Set(one.answers)].sort();
  return all;
}

let failed = 0;
const record = [];
function difference(wanted, got) {
  const [a, b] = [String(wanted), String(got)];
  let at = 0;
  while (at < a.length && a[at] === b[at]) at++;
  return `expected …${a.slice(Math.max(0, at - 80), at + 300)}, got …${b.slice(Math.max(0, at - 80), at + 300)}`;
}
async function step(name, f) {
  recorded = [];
  const faults = [];
  let text = null;
  try { text = plain(JSON.stringify((await f()) ?? null)); } catch (e) { text = null; faults.push(`it failed: ${String(e.stack || e.message || e).slice(0, 1500)}`); }
  const sent = conclude();
  const answers = Object.fromEntries(Object.entries(sent).map(([key, one]) => [key, digest(one.answers.join())]));
  record.push({ name, text, sent });
  if (bless) expected[name] = { text, answers };
  else if (!expected[name]) faults.push('PostgreSQL was not asked');
  else {
    if (text !== expected[name].text) faults.push(difference(expected[name].text, text));
    for (const [key, one] of Object.entries(sent)) {
      const wanted = expected[name].answers[key];
      if (wanted === answers[key]) continue;
      faults.push(`${wanted ? 'another answer' : 'PostgreSQL was not asked this'}: ${one.sql.replace(/\s+/g, ' ').slice(0, process.env.SHOW ? 100000 : 300)} ${JSON.stringify(one.values ?? [])}: ${one.answers.join(' | ').slice(0, process.env.SHOW ? 100000 : 300)}`);
    }
    for (const key of Object.keys(expected[name].answers)) if (!(key in sent)) faults.push(`a statement was not sent: ${key}`);
  }
  if (faults.length === 0) console.log(`ok ${name} (${Object.keys(sent).length} statements)`);
  else { failed++; console.log(`FAILED ${name}: ${faults.join(' || ')}`.replaceAll('\n', ' ')); }
}
async function fresh(db, sql) {
  const c = new pg.Client(opts('postgres')); await c.connect();
  await c.query(`DROP DATABASE IF EXISTS ${db}`); await c.query(`CREATE DATABASE ${db}`); await c.end();
  if (sql) await run(db, sql);
}
async function run(db, sql) {
  const c = new pg.Client(opts(db)); await c.connect();
  try { return await c.query(sql); } finally { await c.end(); }
}

const SCHEMA = `
CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
CREATE DOMAIN positive AS int CHECK (VALUE > 0);
CREATE SEQUENCE numbers AS bigint START 10 INCREMENT 5 MINVALUE 5 MAXVALUE 1000 CACHE 3 CYCLE;
CREATE TABLE owner (
  id int GENERATED ALWAYS AS IDENTITY (START 7 INCREMENT 3) PRIMARY KEY,
  mail varchar(80) NOT NULL UNIQUE, name text NOT NULL DEFAULT 'nobody', feeling mood NOT NULL DEFAULT 'ok', feelings mood[] DEFAULT '{sad,ok}',
  born date, seen timestamptz(3) DEFAULT now(), at timestamp DEFAULT '2020-01-02 03:04:05', t time(0), tz timetz, span interval,
  balance numeric(12, 2) DEFAULT 0.00, ratio double precision DEFAULT 1.5, small smallint DEFAULT -1, big bigint DEFAULT 9000000000, r real,
  tags text[] NOT NULL DEFAULT '{}', grid int[], meta jsonb DEFAULT '{"a": [1]}', raw json, uid uuid DEFAULT gen_random_uuid(),
  code char(3), bits bit(4), vb varbit(8), ip inet, net cidr, bin bytea, active boolean DEFAULT true, p positive, years int4range,
  twice numeric GENERATED ALWAYS AS (balance * 2) STORED, upper_name text GENERATED ALWAYS AS (upper(name)) STORED,
  CONSTRAINT balance_ok CHECK (balance >= 0), CHECK (small < 100 AND name <> '')
);
CREATE TABLE thing (
  a int, b int, serial_no serial, big_no bigserial, small_no smallserial, n bigint DEFAULT nextval('numbers'),
  owner_id int NOT NULL REFERENCES owner (id) ON UPDATE CASCADE ON DELETE CASCADE, other_id int REFERENCES owner ON DELETE SET NULL,
  mail varchar(80) REFERENCES owner (mail) ON UPDATE SET DEFAULT ON DELETE RESTRICT DEFERRABLE INITIALLY DEFERRED,
  title text, PRIMARY KEY (a, b), UNIQUE (b, title), CONSTRAINT one UNIQUE NULLS NOT DISTINCT (title, owner_id)
);
CREATE TABLE part (id bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY, ta int, tb int, parent bigint REFERENCES part, FOREIGN KEY (ta, tb) REFERENCES thing (a, b) ON DELETE CASCADE);
CREATE INDEX thing_title ON thing (title);
CREATE INDEX thing_desc ON thing (a DESC NULLS LAST, b);
CREATE INDEX thing_lower ON thing (lower(title), a);
CREATE INDEX thing_part ON thing (owner_id) WHERE title IS NOT NULL AND n > 5;
CREATE UNIQUE INDEX thing_cover ON thing (serial_no) INCLUDE (title);
CREATE INDEX thing_pattern ON thing (title text_pattern_ops);
CREATE INDEX owner_feeling ON owner (feeling);
CREATE VIEW active_owner AS SELECT id, mail, upper(name) AS shout FROM owner WHERE active;
CREATE VIEW counts (owner, things) AS SELECT o.mail, count(*) FROM owner o JOIN thing t ON t.owner_id = o.id GROUP BY o.mail HAVING count(*) > 0;
CREATE SCHEMA other;
CREATE TYPE other.mood AS ENUM ('x', 'y z');
CREATE TABLE other.thing (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), m other.mood DEFAULT 'y z', owner int REFERENCES public.owner (id), "select" text, "Mixed Case" int);
CREATE INDEX "Odd ""name""" ON other.thing ("Mixed Case");
COMMENT ON TABLE owner IS 'who owns things';
COMMENT ON COLUMN owner.mail IS 'it''s the address';
COMMENT ON VIEW counts IS 'how many';
ALTER TABLE part ENABLE ROW LEVEL SECURITY;
CREATE POLICY mine ON part FOR SELECT USING (id > 0);
ALTER TABLE other.thing ENABLE ROW LEVEL SECURITY;
CREATE POLICY writes ON other.thing AS RESTRICTIVE FOR INSERT TO PUBLIC WITH CHECK (owner > 0);
`;

const PRISMA_HEAD = 'generator client {\n  provider = "prisma-client"\n  previewFeatures = ["views", "partialIndexes"]\n}\ndatasource db {\n  provider = "postgresql"\n}\n';
const PRISMA = PRISMA_HEAD + `
enum Role {
  ADMIN
  USER
}
model User {
  id        Int      @id @default(autoincrement())
  email     String   @unique
  name      String?  @db.VarChar(40)
  role      Role     @default(USER)
  roles     Role[]
  tags      String[] @default(["a", "b"])
  meta      Json?    @db.JsonB
  uid       String   @default(dbgenerated("gen_random_uuid()")) @db.Uuid
  balance   Decimal  @default(0) @db.Decimal(12, 2)
  bytes     Bytes?
  createdAt DateTime @default(now()) @db.Timestamptz(3)
  updatedAt DateTime @updatedAt
  big       BigInt   @default(5)
  ratio     Float?
  posts     Post[]
  friends   User[]   @relation("friends")
  friendOf  User[]   @relation("friends")
  @@index([role, name(sort: Desc)])
}
model Post {
  id       String @id @default(uuid())
  title    String @default("it's")
  author   User   @relation(fields: [authorId], references: [id], onDelete: Cascade, onUpdate: NoAction)
  authorId Int    @map("author_id")
  tags     Tag[]
  @@unique([authorId, title], map: "one_title")
  @@map("posts")
}
model Tag {
  id    Int    @id
  a     Int
  b     Int
  label String @db.Char(8)
  only  Int    @unique @default(autoincrement())
  posts Post[]
  @@unique([a, b])
  @@index([label(ops: raw("bpchar_pattern_ops"))])
}
`;
const PRISMA_LATER = PRISMA.replace('  USER\n}', '  USER\n  GUEST\n}').replace('name      String?  @db.VarChar(40)', 'name      String?  @db.Text\n  nick      String   @default("n")').replace('big       BigInt   @default(5)\n', '').replace('@@index([role, name(sort: Desc)])', '@@index([name])').replace('onDelete: Cascade', 'onDelete: Restrict');

async function prismaEngine(db, datamodel, used) {
  const at = path.dirname(require.resolve('@prisma/schema-engine-wasm/schema_engine_bg'));
  const glue = await import(pathToFileURL(path.join(at, 'schema_engine_bg.js')).href);
  if (!prismaEngine.ready) {
    const { instance } = await WebAssembly.instantiate(fs.readFileSync(path.join(at, 'schema_engine_bg.wasm')), { './schema_engine_bg.js': glue });
    glue.__wbg_set_wasm(instance.exports);
    instance.exports.__wbindgen_start();
    prismaEngine.ready = true;
  }
  const { PrismaPg } = require('@prisma/adapter-pg');
  const { bindMigrationAwareSqlAdapterFactory, ColumnTypeEnum } = require('@prisma/driver-adapter-utils');
  const inner = new PrismaPg(opts(db));
  const connect = async (factory, after) => {
    const adapter = await factory.connect(), queryRaw = adapter.queryRaw.bind(adapter), dispose = adapter.dispose.bind(adapter);
    adapter.queryRaw = async q => { const r = await queryRaw(q); for (const n of letters[q.sql] ?? []) r.columnTypes[n] = ColumnTypeEnum.Character; return r; };
    let gone;
    adapter.dispose = () => (gone ??= dispose().then(after).then(() => {}));
    used.push(adapter);
    return adapter;
  };
  const outside = { provider: inner.provider, adapterName: inner.adapterName, connect: () => connect(inner) };
  // The adapter's own drops the database while it is still connected to it.
  outside.connectToShadowDb = async () => { const shadow = `prisma_shadow_${crypto.randomUUID()}`; await run('postgres', `CREATE DATABASE "${shadow}"`); return connect(new PrismaPg(opts(shadow)), () => run('postgres', `DROP DATABASE "${shadow}"`)); };
  const factory = bindMigrationAwareSqlAdapterFactory(outside);
  return await glue.SchemaEngine.new({ datamodels: [['schema.prisma', datamodel]] }, () => {}, factory);
}
async function prisma(f, db, datamodel = PRISMA_HEAD) {
  const used = [];
  const engine = await prismaEngine(db, datamodel, used);
  try { return await f(engine); } finally { engine.free(); for (const adapter of used) await adapter.dispose(); }
}
const filters = { externalTables: [], externalEnums: [] };
const files = content => ({ files: [{ path: 'schema.prisma', content }] });
const introspect = (namespaces, schema = PRISMA_HEAD) => e => e.introspect({ schema: files(schema), baseDirectoryPath: '/', force: true, compositeTypeDepth: -1, namespaces });
const migrations = list => ({ baseDir: '/m', lockfile: { path: 'migration_lock.toml', content: 'provider = "postgresql"\n' }, shadowDbInitScript: '', migrationDirectories: list.map(([name, content]) => ({ path: name, migrationFile: { path: 'migration.sql', content: { tag: 'ok', value: content } } })) });

global.PRISMA_WASM_PANIC_REGISTRY = { set_message: text => { throw new Error(text); } };

async function main() {
  await fresh('prisma_pull', SCHEMA);
  const both = PRISMA_HEAD.replace('"postgresql"\n', '"postgresql"\n  schemas = ["public", "other"]\n');
  let pulled = '';
  const part = () => pulled.replace(/.*thing_part.*\n/, ''); // a partial index that it made again on PostgreSQL as well
  await step('prisma version', () => prisma(async e => (await e.version()).slice(0, 13), 'prisma_pull'));
  await step('prisma pull', () => prisma(async e => { const r = await introspect(null)(e); pulled = r.schema.files[0].content; return r; }, 'prisma_pull'));
  await step('prisma pull of two schemas', () => prisma(introspect(['public', 'other'], both), 'prisma_pull', both));
  await step('prisma push of what was pulled', () => prisma(e => e.schemaPush({ force: false, schema: files(part()), filters }), 'prisma_pull', part()));
  await step('prisma pull again', () => prisma(introspect(null, pulled), 'prisma_pull', pulled));
  await fresh('prisma_push');
  await step('prisma push', () => prisma(e => e.schemaPush({ force: false, schema: files(PRISMA), filters }), 'prisma_push', PRISMA));
  await step('prisma push again', () => prisma(e => e.schemaPush({ force: false, schema: files(PRISMA), filters }), 'prisma_push', PRISMA));
  await step('prisma push of changes', async () => {
    await run('prisma_push', `INSERT INTO "User" (email, "updatedAt") VALUES ('a', now())`);
    const wary = await prisma(e => e.schemaPush({ force: false, schema: files(PRISMA_LATER), filters }), 'prisma_push', PRISMA_LATER);
    return [wary, await prisma(e => e.schemaPush({ force: true, schema: files(PRISMA_LATER), filters }), 'prisma_push', PRISMA_LATER), (await run('prisma_push', 'SELECT email, nick, role, tags, balance FROM "User"')).rows];
  });
  await step('prisma pull of what was pushed', () => prisma(introspect(null), 'prisma_push'));
  await fresh('prisma_migrate');
  const made = [];
  await step('prisma migrate dev', async () => {
    const seen = [];
    for (const [name, model] of [['init', PRISMA], ['later', PRISMA_LATER]]) {
      const list = migrations(made);
      seen.push(await prisma(e => e.devDiagnostic({ migrationsList: list, filters }), 'prisma_migrate', model));
      const { stdout } = await prisma(e => e.diff({ from: made.length ? { tag: 'schemaDatamodel', ...files(PRISMA) } : { tag: 'empty' }, to: { tag: 'schemaDatamodel', ...files(model) }, script: true, exitCode: null, filters }), 'prisma_migrate', model);
      made.push([`2025010100000${made.length}_${name}`, stdout]);
      seen.push(stdout, await prisma(e => e.applyMigrations({ migrationsList: migrations(made), filters }), 'prisma_migrate', model));
    }
    return seen;
  });
  await step('prisma migrate status', () => prisma(e => e.diagnoseMigrationHistory({ migrationsList: migrations(made), optInToShadowDatabase: false, filters }), 'prisma_migrate', PRISMA_LATER));
  await step('prisma migrate deploy of a failing one', async () => {
    const broken = [...made, ['20250102000000_broken', 'CREATE TABLE "half" (id int);\nSELECT nothing_there FROM "half";\n']];
    const seen = [];
    const tell = async f => { try { seen.push(await f()); } catch (e) { seen.push(String(e.message).split('\n')[0]); } };
    await tell(() => prisma(e => e.applyMigrations({ migrationsList: migrations(broken), filters }), 'prisma_migrate', PRISMA_LATER));
    await tell(() => prisma(e => e.diagnoseMigrationHistory({ migrationsList: migrations(broken), optInToShadowDatabase: false, filters }), 'prisma_migrate', PRISMA_LATER));
    await tell(() => prisma(e => e.markMigrationRolledBack({ migrationName: '20250102000000_broken' }), 'prisma_migrate', PRISMA_LATER));
    await tell(() => prisma(e => e.markMigrationApplied({ migrationName: '20250102000000_broken', migrationsList: migrations(broken) }), 'prisma_migrate', PRISMA_LATER));
    await tell(() => prisma(e => e.diagnoseMigrationHistory({ migrationsList: migrations(broken), optInToShadowDatabase: false, filters }), 'prisma_migrate', PRISMA_LATER));
    return seen;
  });
  await step('prisma reset', async () => { await prisma(e => e.reset({ filter: filters }), 'prisma_migrate', PRISMA_LATER); return (await run('prisma_migrate', `SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace`)).rows; });

  // ---- drizzle-kit: `pull`, as the program, its statements recorded there and brought here; then push and migrate.
  await fresh('drizzle_pull', SCHEMA);
  const work = fs.mkdtempSync(path.join(require('os').tmpdir(), 'drizzle-'));
  const bin = path.join(path.dirname(require.resolve('drizzle-kit')), 'bin.cjs');
  await step('drizzle-kit pull', async () => {
    const dump = path.join(work, 'statements.json');
    const child = require('child_process').spawnSync(process.execPath, ['-r', __filename, bin, 'pull', '--dialect=postgresql', `--url=postgres://postgres:x@${host}:${port}/drizzle_pull`, `--out=${work}/out`, '--schemaFilters=public', '--schemaFilters=other'], { env: { ...process.env, RESURGAM_STATEMENTS: dump }, encoding: 'utf8', timeout: 60_000, cwd: work });
    if (child.status !== 0) throw new Error((child.stdout + child.stderr).slice(-1500));
    recorded = JSON.parse(fs.readFileSync(dump, 'utf8'));
    const out = f => fs.readFileSync(path.join(work, 'out', f), 'utf8');
    return [out('schema.ts'), out('relations.ts'), fs.readdirSync(path.join(work, 'out')).filter(f => f.endsWith('.sql')).map(out)];
  });
  const { drizzle } = require('drizzle-orm/node-postgres');
  const { sql, eq } = require('drizzle-orm');
  const { pushSchema, generateDrizzleJson, generateMigration } = require('drizzle-kit/api');
  const core = require('drizzle-orm/pg-core');
  // Without an own key of several columns: pushSchema forgets the parameters of the query for these.
  const tables = (later, composite) => {
    const role = core.pgEnum('role', later ? ['admin', 'user', 'guest'] : ['admin', 'user']);
    const people = core.pgTable('people', { id: core.integer().primaryKey().generatedAlwaysAsIdentity({ startWith: 5, increment: 2 }), mail: core.varchar({ length: 60 }).notNull().unique(), role: role().default('user').notNull(), tags: core.text().array().default(sql`'{}'::text[]`), meta: core.jsonb().default({ a: 1 }), uid: core.uuid().defaultRandom(), balance: core.numeric({ precision: 12, scale: 2 }).default('0'), at: core.timestamp({ withTimezone: true, precision: 3 }).defaultNow(), day: core.date(), span: core.interval(), shout: core.text().generatedAlwaysAs(sql`upper(mail)`), ...(later ? { old: core.integer().default(3), nick: core.text().default("it's") } : { old: core.smallint() }) }, t => [core.index('people_role').on(t.role.asc(), t.at.desc()), core.uniqueIndex('people_lower').on(sql`lower(mail)`), core.index('people_some').on(t.day).where(sql`day IS NOT NULL`), core.check('balance_ok', sql`balance >= 0`)]);
    const posts = core.pgTable('posts', { a: core.integer().notNull(), b: core.serial().notNull(), author: core.integer().references(() => people.id, { onDelete: later ? 'set null' : 'cascade', onUpdate: 'restrict' }), body: core.text() }, t => [composite ? core.primaryKey({ columns: [t.a, t.b] }) : core.unique('ab').on(t.a, t.b), core.unique('one').on(t.a, t.body).nullsNotDistinct()]);
    const counts = core.pgView('counts').as(qb => qb.select({ author: posts.author, n: sql`count(*)`.as('n') }).from(posts).groupBy(posts.author));
    return { role, people, posts, counts, seq: core.pgSequence('numbers', { startWith: 10, increment: 5, maxValue: 1000, minValue: 1, cache: 2, cycle: true }) };
  };
  await fresh('drizzle_push');
  const pool = new pg.Pool(opts('drizzle_push'));
  const db = drizzle(pool);
  const log = console.log, write = process.stdout.write;
  const quiet = async f => { process.stdout.write = () => true; try { return await f(); } finally { process.stdout.write = write; console.log = log; } };
  const push = async t => { const r = await quiet(() => pushSchema(t, db)); await r.apply(); return [r.statementsToExecute, r.warnings, r.hasDataLoss]; };
  await step('drizzle push', () => push(tables(false)));
  await step('drizzle push again', () => push(tables(false)));
  await step('drizzle push of changes', () => push(tables(true)));
  await step('drizzle queries', async () => {
    const { people, posts } = tables(true);
    await db.insert(people).values([{ mail: 'a@b', tags: ['x', 'y'], balance: '2.50' }, { mail: 'c@d', meta: null, span: '1 day', day: '2020-01-02' }]);
    const up = await db.insert(people).values({ mail: 'a@b' }).onConflictDoUpdate({ target: people.mail, set: { balance: sql`${people.balance} + 1` } }).returning({ id: people.id, balance: people.balance, shout: people.shout });
    await db.transaction(async tx => { await tx.insert(posts).values({ a: 1, author: up[0].id, body: 'one' }); await tx.transaction(async inner => { await inner.delete(posts); inner.rollback(); }).catch(() => {}); });
    const joined = await db.select({ mail: people.mail, body: posts.body, meta: people.meta, tags: people.tags, span: people.span, day: people.day }).from(people).leftJoin(posts, eq(posts.author, people.id)).orderBy(people.id);
    return [up, joined, await db.$count(people), await db.selectDistinctOn([people.role], { role: people.role, mail: people.mail }).from(people).orderBy(people.role, people.mail)];
  });
  await pool.end();
  await fresh('drizzle_migrate');
  await step('drizzle migrate', async () => {
    const before = generateDrizzleJson({}), first = generateDrizzleJson(tables(false, true), before.id), second = generateDrizzleJson(tables(true, true), first.id);
    const folder = path.join(work, 'migrations');
    fs.mkdirSync(path.join(folder, 'meta'), { recursive: true });
    const entries = [];
    for (const [n, [from, to]] of [[before, first], [first, second]].entries()) {
      const statements = await quiet(() => generateMigration(from, to));
      fs.writeFileSync(path.join(folder, `000${n}.sql`), statements.join('\n--> statement-breakpoint\n'));
      entries.push({ idx: n, version: '7', when: 1700000000000 + n, tag: `000${n}`, breakpoints: true });
    }
    fs.writeFileSync(path.join(folder, 'meta', '_journal.json'), JSON.stringify({ version: '7', dialect: 'postgresql', entries }));
    const p = new pg.Pool(opts('drizzle_migrate'));
    const { migrate } = require('drizzle-orm/node-postgres/migrator');
    try { await migrate(drizzle(p), { migrationsFolder: folder }); await migrate(drizzle(p), { migrationsFolder: folder }); } finally { await p.end(); }
    return [(await run('drizzle_migrate', 'SELECT id, created_at FROM drizzle.__drizzle_migrations ORDER BY id')).rows, (await run('drizzle_migrate', `SELECT attname, atttypid::regtype::text FROM pg_attribute WHERE attrelid = 'people'::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum`)).rows];
  });
  fs.rmSync(work, { recursive: true, force: true });
  if (bless) fs.writeFileSync(file, JSON.stringify(expected, null, 1) + '\n');
  if (process.env.RECORD) fs.writeFileSync(process.env.RECORD, JSON.stringify(record, null, 1));
  process.exit(failed ? 1 : 0);
}
// Within drizzle-kit's own process only the statements are of interest.
if (process.env.RESURGAM_STATEMENTS) process.on('exit', () => fs.writeFileSync(process.env.RESURGAM_STATEMENTS, JSON.stringify(recorded)));
else main();
