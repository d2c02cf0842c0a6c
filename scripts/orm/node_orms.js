// The first day with four of Node's mappers: Sequelize, Knex, TypeORM, Kysely. Definitions, what they read of them, changes of them, rows of
// all types, queries, transactions, errors. What each step comes to is compared with node_orms.json, which PostgreSQL 15 wrote
// (BLESS=1 writes it). Not among the steps, since they need what is not there: Sequelize's findOrCreate within a transaction (a temporary
// function in PL/pgSQL), TypeORM's SERIALIZABLE.
// Usage: node node_orms.js HOST PORT
const [host, port] = [process.argv[2], +process.argv[3]];
const file = require('path').join(__dirname, 'node_orms.json');
const bless = process.env.BLESS === '1';
const expected = bless ? {} : JSON.parse(require('fs').readFileSync(file, 'utf8'));
const { Client } = require('pg');
let failed = 0, passed = 0;
async function step(name, f) {
  try {
    const text = JSON.stringify(await f()) ?? null;
    if (bless) expected[name] = text;
    else if (text !== expected[name]) {
      const [a, b] = [String(expected[name]), String(text)];
      let at = 0;
      while (at < a.length && a[at] === b[at]) at++;
      throw new Error(`expected …${a.slice(Math.max(0, at - 60), at + 300)}, got …${b.slice(Math.max(0, at - 60), at + 300)}`);
    }
    passed++;
    console.log('ok ' + name);
  } catch (e) {
    failed++;
    const sql = String(e.sql || e.query || e.parent?.sql || '').slice(0, 500);
    console.log(`FAILED ${name}: ${String(e.parent?.message || e.message).slice(0, 1500)} | ${sql}`.replaceAll('\n', ' '));
  }
}
const opts = db => ({ host, port, user: 'postgres', database: db, password: 'x' });
async function fresh(db) {
  const c = new Client(opts('postgres')); await c.connect();
  await c.query(`DROP DATABASE IF EXISTS ${db}`); await c.query(`CREATE DATABASE ${db}`); await c.end();
}
(async () => {
  // ---- Sequelize
  await fresh('seq');
  const { Sequelize, DataTypes, Op, Transaction } = require('sequelize');
  const s = new Sequelize('seq', 'postgres', 'x', { host, port, dialect: 'postgres', logging: false });
  const User = s.define('User', {
    name: { type: DataTypes.STRING(50), allowNull: false, unique: true }, mail: DataTypes.STRING,
    age: DataTypes.INTEGER, balance: DataTypes.DECIMAL(12, 2), active: { type: DataTypes.BOOLEAN, defaultValue: true },
    tags: DataTypes.ARRAY(DataTypes.STRING), meta: DataTypes.JSONB, uid: { type: DataTypes.UUID, defaultValue: DataTypes.UUIDV4 },
    role: { type: DataTypes.ENUM('admin', 'user'), defaultValue: 'user' }, born: DataTypes.DATEONLY, seen: DataTypes.DATE, span: DataTypes.RANGE(DataTypes.INTEGER), bin: DataTypes.BLOB, ip: DataTypes.INET,
  }, { indexes: [{ fields: ['age'] }, { fields: ['active', { name: 'age', order: 'DESC' }], where: { active: true } }] });
  const Post = s.define('Post', { title: DataTypes.TEXT, views: { type: DataTypes.BIGINT, defaultValue: 0 } }, { paranoid: true });
  const Tag = s.define('Tag', { label: { type: DataTypes.STRING, unique: true } });
  User.hasMany(Post, { onDelete: 'CASCADE' }); Post.belongsTo(User); Post.belongsToMany(Tag, { through: 'PostTags' }); Tag.belongsToMany(Post, { through: 'PostTags' });
  await step('sequelize sync force', async () => { await s.sync({ force: true }); });
  await step('sequelize sync again', async () => { await s.sync(); });
  await step('sequelize sync alter', async () => { await s.sync({ alter: true }); });
  await step('sequelize create', async () => { const u = await User.create({ name: 'Ann', age: 30, balance: '12.50', tags: ['a', 'b'], meta: { x: 1, y: [1, 2] }, born: '2000-01-02', span: [1, 5], bin: Buffer.from([1, 0, 255]), ip: '10.0.0.1' }); await u.reload(); const j = u.toJSON(); delete j.uid; delete j.createdAt; delete j.updatedAt; return j; });
  await step('sequelize bulkCreate upsert', async () => { await User.bulkCreate([{ name: 'Bob', age: 20 }, { name: 'Ann', age: 31 }], { updateOnDuplicate: ['age'] }); return (await User.findAll({ order: ['name'], attributes: ['name', 'age'] })).map(x => x.toJSON()); });
  await step('sequelize upsert', async () => { const [u, c] = await User.upsert({ name: 'Cid', age: 40 }); return [u.name, c]; });
  await step('sequelize findOrBuild', async () => { const [u, made] = await User.findOrBuild({ where: { name: 'Dan' }, defaults: { age: 50 } }); await u.save(); return [u.name, made]; });
  await step('sequelize assoc', async () => { const a = await User.findOne({ where: { name: 'Ann' } }); const p = await a.createPost({ title: 'Hello' }); await p.addTag(await Tag.create({ label: 't1' })); await p.addTag(await Tag.create({ label: 't2' })); return (await User.findAll({ include: [{ model: Post, include: [Tag] }], order: ['name', [Post, Tag, 'label', 'DESC']] })).map(u => [u.name, u.Posts.map(p => [p.title, p.Tags.map(t => t.label)])]); });
  await step('sequelize limit include', async () => (await User.findAll({ include: [{ model: Post, where: { title: { [Op.iLike]: '%hel%' } }, required: true }], limit: 2, order: [['age', 'DESC']] })).length);
  await step('sequelize json', async () => [(await User.count({ where: { 'meta.x': 1 } })), (await User.count({ where: { meta: { [Op.contains]: { x: 1 } } } })), (await User.count({ where: { tags: { [Op.overlap]: ['a'] } } })), (await User.count({ where: { tags: { [Op.contains]: ['a', 'b'] } } }))]);
  await step('sequelize aggregates', async () => (await User.findAll({ attributes: ['role', [s.fn('COUNT', s.col('id')), 'n'], [s.fn('AVG', s.col('age')), 'avg']], group: ['role'], having: s.where(s.fn('COUNT', s.col('id')), '>', 1), raw: true })));
  await step('sequelize findAndCountAll', async () => { const r = await User.findAndCountAll({ where: { age: { [Op.between]: [20, 50] }, name: { [Op.notIn]: ['x'] } }, offset: 1, limit: 2, order: ['age'], include: [Post], distinct: true }); return [r.count, r.rows.length]; });
  await step('sequelize increment/paranoid', async () => { await Post.increment('views', { by: 3, where: { title: 'Hello' } }); const p = await Post.findOne(); await p.destroy(); const a = await Post.count(); await p.restore(); return [a, await Post.count(), (await Post.findOne()).views]; });
  await step('sequelize transaction', async () => { await s.transaction({ isolationLevel: Transaction.ISOLATION_LEVELS.REPEATABLE_READ }, async t => { await User.update({ age: 1 }, { where: { name: 'Dan' }, transaction: t }); await User.findOne({ where: { name: 'Bob' }, lock: t.LOCK.UPDATE, skipLocked: true, transaction: t }); }); try { await s.transaction(async t => { await User.create({ name: 'Eve' }, { transaction: t }); throw new Error('back'); }); } catch (e) { if (e.message !== 'back') throw e; } return await User.count(); });
  await step('sequelize errors', async () => { const r = []; for (const f of [() => User.create({ name: 'Ann' }), () => User.create({ name: null }), () => Post.create({ title: 'x', UserId: 999 }), () => s.query('SELECT nope'), () => User.create({ name: 'z'.repeat(60) })]) { try { await f(); r.push('none'); } catch (e) { r.push([e.name, e.fields ?? null, e.index ?? null, e.parent?.code]); } } return r; });
  const qi = s.getQueryInterface();
  await step('sequelize describe', async () => [await qi.describeTable('Users'), (await qi.showAllTables()).sort(), (await qi.showIndex('Users')).map(i => [i.name, i.unique, i.primary, i.fields.map(f => f.attribute)]).sort(), await qi.getForeignKeyReferencesForTable('Posts'), (await qi.showConstraint('Posts')).map(c => [c.constraintName.replace(/^\d+_\d+_/, ''), c.constraintType, c.definition])]);
  await step('sequelize migrations', async () => { await qi.addColumn('Users', 'nick', { type: DataTypes.STRING, defaultValue: 'n' }); await qi.renameColumn('Users', 'nick', 'nick2'); await qi.changeColumn('Users', 'nick2', { type: DataTypes.TEXT, allowNull: false, defaultValue: 'm' }); await qi.addIndex('Users', ['nick2', 'age'], { unique: true, name: 'nick_age' }); await qi.removeIndex('Users', 'nick_age'); await qi.addConstraint('Users', { fields: ['age'], type: 'check', where: { age: { [Op.gte]: 0 } }, name: 'age_ok' }); await qi.removeConstraint('Users', 'age_ok'); await qi.changeColumn('Users', 'role', { type: DataTypes.ENUM('admin', 'user', 'guest') }); await qi.removeColumn('Users', 'nick2'); await qi.renameTable('Tags', 'Labels'); await qi.renameTable('Labels', 'Tags'); return Object.keys(await qi.describeTable('Users')); });
  await step('sequelize drop', () => s.drop({ cascade: true }));
  await s.close();
  // ---- Knex
  await fresh('knexdb');
  const knex = require('knex')({ client: 'pg', connection: opts('knexdb'), pool: { min: 0, max: 3 } });
  await step('knex create', async () => { await knex.schema.createTable('users', t => { t.increments('id'); t.string('name').notNullable().unique(); t.integer('age').index(); t.decimal('bal', 10, 2).defaultTo(0); t.enu('kind', ['a', 'b'], { useNative: true, enumName: 'kind_t' }); t.enu('kind2', ['a', 'b']); t.jsonb('meta'); t.uuid('uid').defaultTo(knex.raw('gen_random_uuid()')); t.specificType('tags', 'text[]'); t.timestamps(true, true); t.check('?? > 0', ['age'], 'age_pos'); t.comment('people'); t.bigInteger('big').unsigned(); t.binary('bin'); t.time('tm'); t.date('d'); t.float('f'); t.double('dd'); }); await knex.schema.createTable('posts', t => { t.bigIncrements('id'); t.integer('user_id').references('id').inTable('users').onDelete('CASCADE').onUpdate('CASCADE'); t.text('body'); t.unique(['user_id', 'body'], { nullsNotDistinct: true }); t.index(['body'], 'post_body', { indexType: 'btree', predicate: knex.whereNotNull('body') }); }); });
  await step('knex insert', async () => [await knex('users').insert([{ name: 'a', age: 1, kind: 'a', meta: { q: 1 }, tags: ['x'] }, { name: 'b', age: 2 }]).returning(['id', 'name']), await knex('users').insert({ name: 'a', age: 5 }).onConflict('name').merge({ age: 7 }).returning('age'), await knex('users').insert({ name: 'a', age: 5 }).onConflict('name').ignore()]);
  await step('knex query', async () => [await knex('users').where('age', '>', 1).whereRaw("meta->>'q' = ?", ['1']).orWhere(b => b.whereIn('name', ['b']).whereNotNull('age')).orderBy([{ column: 'age', order: 'desc', nulls: 'last' }]).select('name'), await knex('users').leftJoin('posts', 'users.id', 'posts.user_id').groupBy('users.id').count('posts.id as n').select('users.id').orderBy('users.id'), await knex.with('w', knex('users').where('age', 7)).select('name').from('w'), await knex('users').whereJsonPath('meta', '$.q', '=', 1).select('name'), await knex('users').whereJsonSupersetOf('meta', { q: 1 }).select('name'), await knex('users').distinctOn('age').select('age').orderBy('age'), await knex('users').select(knex.raw('row_number() over (order by age) as rn')).orderBy('rn'), await knex('users').select('name').union([knex('posts').select('body')]).orderBy('name'), await knex('users').jsonExtract('meta', '$.q', 'q').orderBy('id')]);
  await step('knex columnInfo', async () => [await knex('users').columnInfo(), await knex.schema.hasTable('users'), await knex.schema.hasColumn('users', 'age')]);
  await step('knex alter', async () => { await knex.schema.alterTable('users', t => { t.string('nick', 20).defaultTo('x'); t.dropColumn('kind2'); t.renameColumn('bal', 'balance'); t.text('name').alter(); t.setNullable('name'); t.dropNullable('name'); t.dropUnique(['name']); t.unique('name', { indexName: 'un', deferrable: 'deferred' }); t.dropChecks('age_pos'); }); await knex.schema.table('posts', t => { t.dropForeign('user_id'); t.foreign('user_id').references('users.id').deferrable('deferred'); }); await knex.schema.createView('v', v => { v.columns(['n']); v.as(knex('users').select('name')); }); await knex.schema.createSchema('sx'); await knex.schema.renameTable('posts', 'articles'); await knex.schema.dropView('v'); await knex.schema.dropSchema('sx'); return await knex('users').columnInfo(); });
  await step('knex migrate', async () => { const src = { getMigrations: async () => ['001', '002'], getMigrationName: m => m, getMigration: async m => ({ up: k => k.schema.createTable('m' + m, t => t.increments()), down: k => k.schema.dropTable('m' + m) }) }; const a = await knex.migrate.latest({ migrationSource: src }); const b = await knex.migrate.rollback({ migrationSource: src }); return [a, b, await knex.migrate.currentVersion({ migrationSource: src })]; });
  await step('knex transaction', async () => { await knex.transaction(async t => { await t('users').where({ name: 'b' }).forUpdate().noWait().select(); await t('users').where({ name: 'b' }).update({ age: 9 }); await t.transaction(async u => { await u('users').del(); throw new Error('x'); }).catch(() => {}); }); return (await knex('users').select('age').orderBy('age')); });
  await step('knex stream/batch', async () => { await knex.batchInsert('articles', Array.from({ length: 500 }, (_, i) => ({ user_id: 1, body: 'b' + i })), 100); return (await knex('articles').count())[0]; });
  await knex.destroy();
  // ---- TypeORM
  await fresh('typ');
  require('reflect-metadata');
  const { DataSource, EntitySchema, In, Like, Raw, MoreThan, Brackets, Table, TableColumn, TableIndex, TableForeignKey, TableUnique, TableCheck } = require('typeorm');
  const U = new EntitySchema({ name: 'user', columns: { id: { type: Number, primary: true, generated: 'increment' }, name: { type: 'varchar', length: 40, unique: true }, role: { type: 'enum', enum: ['admin', 'user'], default: 'user' }, tags: { type: 'text', array: true, nullable: true }, meta: { type: 'jsonb', nullable: true }, uid: { type: 'uuid', generated: 'uuid' }, bal: { type: 'numeric', precision: 10, scale: 2, default: 0 }, at: { type: 'timestamptz', createDate: true }, up: { type: 'timestamp', updateDate: true, precision: 3 }, del: { type: 'timestamptz', deleteDate: true }, v: { type: 'int', version: true }, twice: { type: 'int', generatedType: 'STORED', asExpression: 'n * 2', nullable: true }, n: { type: 'int', default: 3 }, iv: { type: 'interval', nullable: true }, r: { type: 'int4range', nullable: true } }, indices: [{ columns: ['role', 'n'] }, { columns: ['name'], where: 'n > 1', name: 'partial' }], checks: [{ expression: '"n" > 0' }], relations: { posts: { type: 'one-to-many', target: 'post', inverseSide: 'user' } } });
  const P = new EntitySchema({ name: 'post', columns: { id: { type: 'bigint', primary: true, generated: 'identity' }, title: { type: 'text' } }, relations: { user: { type: 'many-to-one', target: 'user', onDelete: 'CASCADE', inverseSide: 'posts', joinColumn: true }, cats: { type: 'many-to-many', target: 'cat', joinTable: true, cascade: true } } });
  const C = new EntitySchema({ name: 'cat', columns: { id: { type: 'uuid', primary: true, generated: 'uuid' }, name: { type: 'text' } } });
  const ds = new DataSource({ type: 'postgres', ...opts('typ'), username: 'postgres', synchronize: false, entities: [U, P, C], logging: false });
  await step('typeorm initialize', async () => { await ds.initialize(); });
  await step('typeorm synchronize', () => ds.synchronize());
  await step('typeorm synchronize again', async () => { const l = await ds.driver.createSchemaBuilder().log(); return l.upQueries.map(q => q.query); });
  const ur = ds.getRepository('user'), pr = ds.getRepository('post');
  await step('typeorm save', async () => { const u = await ur.save({ name: 'Ann', tags: ['a'], meta: { k: [1] }, iv: '1 day', r: '[1,4)' }); await pr.save({ title: 'T', user: u, cats: [{ name: 'c1' }, { name: 'c2' }] }); const x = await ur.findOne({ where: { name: 'Ann' }, relations: { posts: { cats: true } } }); return [x.twice, x.v, x.role, x.bal, x.iv, x.r, x.posts[0].title, x.posts[0].cats.map(c => c.name).sort()]; });
  await step('typeorm update', async () => { await ur.update({ name: 'Ann' }, { n: 5 }); await ur.increment({ name: 'Ann' }, 'n', 2); await ur.upsert([{ name: 'Ann', n: 9 }, { name: 'Bob' }], ['name']); await ur.softDelete({ name: 'Bob' }); const a = await ur.count(); await ur.restore({ name: 'Bob' }); return [a, await ur.count(), (await ur.findOneBy({ name: 'Ann' })).twice]; });
  await step('typeorm builder', async () => [await ur.createQueryBuilder('u').leftJoinAndSelect('u.posts', 'p').where('u.n > :n', { n: 1 }).andWhere(new Brackets(q => q.where('u.name LIKE :x', { x: 'A%' }).orWhere("u.meta ->> 'k' IS NOT NULL"))).orderBy('u.id').take(1).skip(0).getManyAndCount().then(([r, c]) => [r.length, c]), await ur.createQueryBuilder('u').select('u.role', 'role').addSelect('COUNT(*)', 'c').groupBy('u.role').getRawMany(), await ur.createQueryBuilder().insert().values({ name: 'Z' }).orIgnore().returning('id, name').execute().then(r => r.raw), await ur.find({ where: { name: In(['Ann', 'Z']), n: MoreThan(0) }, order: { name: 'DESC' }, select: { name: true } }), await ur.createQueryBuilder('u').setLock('pessimistic_write').getMany().then(r => r.length).catch(e => e.message), await ur.exists({ where: { name: 'Q' } })]);
  await step('typeorm transaction', async () => { await ds.transaction('REPEATABLE READ', async m => { await m.save('user', { name: 'S' }); }); return await ur.count(); });
  await step('typeorm runner', async () => { const q = ds.createQueryRunner(); await q.createTable(new Table({ name: 'extra', columns: [{ name: 'id', type: 'int', isPrimary: true, isGenerated: true }, { name: 'c', type: 'varchar', length: '10', isUnique: true, comment: 'hey' }, { name: 'u', type: 'int', isNullable: true }], indices: [{ columnNames: ['c'] }] }), true); await q.addColumn('extra', new TableColumn({ name: 'x', type: 'int', default: 4 })); await q.changeColumn('extra', 'x', new TableColumn({ name: 'x', type: 'bigint', default: 5 })); await q.renameColumn('extra', 'x', 'y'); await q.createForeignKey('extra', new TableForeignKey({ columnNames: ['u'], referencedTableName: 'user', referencedColumnNames: ['id'] })); await q.createCheckConstraint('extra', new TableCheck({ expression: 'y > 0', name: 'ych' })); const t = await q.getTable('extra'); const r = [t.columns.map(c => [c.name, c.type, c.default, c.isNullable, c.isUnique, c.comment]), t.indices.map(i => i.columnNames), t.foreignKeys.map(f => [f.columnNames, f.referencedTableName, f.onDelete]), t.checks.map(c => c.expression), t.uniques.map(u => u.columnNames)]; await q.dropColumn('extra', 'y'); await q.renameTable('extra', 'extra2'); await q.dropTable('extra2'); await q.clearDatabase(); await q.release(); return r; });
  await step('typeorm synchronize after clear', () => ds.synchronize(true));
  if (ds.isInitialized) await ds.destroy();
  // ---- Kysely introspection
  await fresh('kys');
  const { Kysely, PostgresDialect, sql } = require('kysely');
  const { Pool } = require('pg');
  const ky = new Kysely({ dialect: new PostgresDialect({ pool: new Pool(opts('kys')) }) });
  await step('kysely', async () => { await ky.schema.createType('mood').asEnum(['x', 'y']).execute(); await ky.schema.createTable('person').addColumn('id', 'integer', c => c.primaryKey().generatedByDefaultAsIdentity()).addColumn('m', sql`mood`).addColumn('name', 'varchar(20)', c => c.notNull().check(sql`name <> ''`)).addColumn('full', 'text', c => c.generatedAlwaysAs(sql`upper(name)`).stored()).addUniqueConstraint('un', ['name', 'm'], u => u.nullsNotDistinct()).execute(); await ky.schema.createIndex('pi').on('person').expression(sql`lower(name)`).where('m', '=', 'x').execute().catch(e => { throw e; }); const r = await ky.insertInto('person').values([{ name: 'a', m: 'x' }, { name: 'b' }]).returningAll().execute(); const u = await ky.mergeInto('person').using('person as q', 'q.id', 'person.id').whenMatchedAnd('q.name', '=', 'a').thenUpdateSet({ m: 'y' }).whenMatched().thenDelete().execute(); return [r, await ky.selectFrom('person').selectAll().execute(), (await ky.introspection.getTables()), (await ky.introspection.getSchemas()).map(s => s.name).sort()]; });
  await ky.destroy();
  if (bless) require('fs').writeFileSync(file, JSON.stringify(expected, null, 1) + '\n');
  process.exit(failed ? 1 : 0);
})();
