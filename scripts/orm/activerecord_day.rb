# What a Rails application does on its first day, by ActiveRecord: migrations, models, queries, transactions, errors, the schema's dump.
# Usage: activerecord_day.rb HOST PORT. A line for each step: "ok   NAME" or "FAIL NAME: why"; 1 if any failed.
require "active_record"
require "logger"
require "stringio"
require "timeout"

host, port = ARGV
CONFIG = { adapter: "postgresql", host: host, port: port.to_i, username: "postgres", database: "postgres", pool: 8 }
$failed = false

def step(name)
  got = Timeout.timeout(30) { yield }
  raise "it says #{got.inspect}" if got == false || got.nil?
  puts "ok   #{name}"
rescue Exception => error # rubocop:disable Lint/RescueException
  $failed = true
  puts "FAIL #{name}: #{error.class}: #{error.message.lines.map(&:strip).reject(&:empty?).first(3).join(' ')}"
  # Nothing of the rest is worth a try without these.
  exit 2 if %w[connect migrate].include?(name)
end

# Whether a block ends with that error.
def raises(kind)
  yield
  false
rescue kind
  true
end

ActiveRecord::Migration.verbose = false
ActiveRecord::Base.logger = Logger.new($stderr) if ENV["LOG"]

class CreateApplication < ActiveRecord::Migration[6.1]
  def change
    create_table :authors do |t|
      t.string :name, null: false, limit: 80
      t.integer :lock_version, null: false, default: 0
      t.date :born_on
      t.timestamps
    end
    create_table :books do |t|
      t.references :author, null: false, foreign_key: { on_delete: :cascade }
      t.string :title, null: false, comment: "as it is printed"
      t.text :body
      t.decimal :price, precision: 8, scale: 2, default: "9.99"
      t.float :weight
      t.bigint :copies, default: 0
      t.boolean :in_print, null: false, default: true
      t.datetime :sold_at, precision: 6
      t.time :opens_at
      t.interval :lent_for
      t.binary :cover
      t.json :raw
      t.jsonb :details, null: false, default: {}
      t.uuid :token, default: -> { "gen_random_uuid()" }
      t.string :tags, array: true, default: []
      t.integer :ratings, array: true
      t.int4range :pages
      t.daterange :season
      t.tsrange :shown
      t.inet :address
      t.bit :flags, limit: 4
      t.column :kind, :smallint
      t.timestamps null: true
    end
    add_index :books, :title
    add_index :books, [:author_id, :title], unique: true, name: "books_of_author"
    add_index :books, "lower(title)", name: "books_lower"
    add_index :books, :sold_at, where: "in_print", order: { sold_at: :desc }
    add_check_constraint :books, "price >= 0", name: "price_positive"
  end
end

class ChangeApplication < ActiveRecord::Migration[6.1]
  def up
    add_column :books, :language, :string, default: "en", null: false
    rename_column :books, :body, :content
    change_column :books, :copies, :integer, default: 1
    change_column_default :books, :weight, from: nil, to: 0.5
    change_column_null :books, :kind, false, 0
    change_column_comment :books, :title, "printed"
    rename_index :books, "books_lower", "books_lower_title"
    create_join_table :books, :readers
    rename_table :books_readers, :loans
    add_column :loans, :at, :datetime
    change_table(:loans, bulk: true) { |t| t.string :place; t.remove :at }
    drop_table :loans
  end
  def down
    remove_column :books, :language
  end
end

class IndexConcurrently < ActiveRecord::Migration[6.1]
  disable_ddl_transaction!
  def change
    add_index :books, :language, algorithm: :concurrently
  end
end

class Author < ActiveRecord::Base
  has_many :books, dependent: :destroy
end
class Book < ActiveRecord::Base
  belongs_to :author
  enum kind: { novel: 0, essay: 1 }
  attribute :lent_for, :interval
end

step("connect") do
  ActiveRecord::Base.establish_connection(CONFIG)
  ActiveRecord::Base.connection.select_value("SHOW intervalstyle") == "iso_8601"
end
base = ActiveRecord::Base
migrations = { 1 => CreateApplication, 2 => ChangeApplication, 3 => IndexConcurrently }
step("migrate") do
  all = migrations.map { |version, type| type.new(type.name, version) }
  table = base.connection.schema_migration
  table.create_table
  ActiveRecord::Migrator.new(:up, all, table).migrate
  table.all_versions == %w[1 2 3]
end
step("columns") do
  columns = Book.columns_hash
  columns["price"].sql_type == "numeric(8,2)" && columns["tags"].array? && columns["title"].limit.nil? &&
    columns["title"].comment == "printed" && columns["sold_at"].precision == 6 && columns["copies"].sql_type == "integer" &&
    Book.column_defaults["details"] == {} && Book.column_defaults["language"] == "en" && !columns["author_id"].null
end
step("indexes") do
  found = base.connection.indexes(:books).to_h { |index| [index.name, index] }
  found["books_of_author"].unique && found["books_lower_title"].columns.include?("lower(") &&
    found["index_books_on_sold_at"].where == "in_print" && found["index_books_on_sold_at"].orders == :desc &&
    found.key?("index_books_on_language")
end
step("constraints") do
  keys = base.connection.foreign_keys(:books)
  checks = base.connection.check_constraints(:books)
  keys.map { |key| [key.to_table, key.column, key.on_delete] } == [["authors", "author_id", :cascade]] &&
    checks.map(&:name) == ["price_positive"] && base.connection.primary_key("books") == "id"
end
step("insert") do
  author = Author.create!(name: "Ann", born_on: Date.new(1970, 1, 2))
  book = author.books.create!(
    title: "First", content: "…", price: "12.50", sold_at: Time.utc(2024, 2, 29, 12, 30, 15, 123456), lent_for: 3.days + 2.hours,
    cover: "\x00\x01\xffbinary".b, raw: { "a" => [1, nil] }, details: { "b" => { "c" => true } }, tags: ["x", "y,z", "\"q\""],
    ratings: [1, nil, 3], pages: 10...20, season: Date.new(2024, 1, 1)..Date.new(2024, 3, 31), address: "10.0.0.1/8", flags: "1010",
    opens_at: "08:30", kind: :essay
  )
  book.reload
  book.price == BigDecimal("12.5") && book.sold_at.usec == 123456 && book.lent_for == 3.days + 2.hours && book.cover == "\x00\x01\xffbinary".b &&
    book.raw == { "a" => [1, nil] } && book.details == { "b" => { "c" => true } } && book.tags == ["x", "y,z", "\"q\""] &&
    book.ratings == [1, nil, 3] && book.pages == (10...20) && book.season == (Date.new(2024, 1, 1)...Date.new(2024, 4, 1)) &&
    book.address.to_s == "10.0.0.0" && book.flags == "1010" && book.essay? && book.token.length == 36 && book.in_print && book.weight == 0.5
end
step("bulk") do
  ann = Author.first
  Book.insert_all((1..50).map { |n| { author_id: ann.id, title: "Bulk #{n}", price: n, kind: 0, created_at: Time.now, updated_at: Time.now } })
  Book.upsert_all([{ author_id: ann.id, title: "Bulk 1", price: 100, kind: 1, created_at: Time.now, updated_at: Time.now }], unique_by: :books_of_author)
  Book.insert_all([{ author_id: ann.id, title: "Bulk 1", price: 7, kind: 0, created_at: Time.now, updated_at: Time.now }])
  Book.count == 51 && Book.find_by(title: "Bulk 1").price == 100
end
step("queries") do
  Book.where(title: %w[First Bulk\ 3]).order(:title).pluck(:title) == ["Bulk 3", "First"] &&
    Book.where("details -> 'b' ->> 'c' = ?", "true").count == 1 && Book.where("details @> ?", { b: { c: true } }.to_json).exists? &&
    Book.where("? = ANY (tags)", "x").count == 1 && Book.where.not(price: nil).where(price: 10..20).count == 12 &&
    Book.joins(:author).where(authors: { name: "Ann" }).group("authors.name").count == { "Ann" => 51 } &&
    Author.includes(:books).references(:books).where("books.price > 45").first.books.size == 6 &&
    Book.average(:price).round(2) == BigDecimal("27.15").round(2) || Book.average(:price)
end
step("aggregates") do
  Book.maximum(:price) == 100 && Book.sum(:price).is_a?(BigDecimal) && Book.group(:kind).count == { "novel" => 49, "essay" => 2 } &&
    Book.distinct.pluck(:language) == ["en"] && Book.order(price: :desc).limit(2).offset(1).pluck(:price).size == 2
end
step("batches") do
  seen = 0
  Book.find_each(batch_size: 7) { seen += 1 }
  Book.in_batches(of: 20) { |batch| seen += batch.size }
  seen == 102
end
step("update") do
  Book.where("price < 5").update_all("price = price + 1000")
  Book.increment_counter(:copies, Book.first.id)
  Book.where("price > 1000").count == 3
end
step("optimistic") do
  one, other = Author.first, Author.first
  one.update!(name: "Anna")
  raises(ActiveRecord::StaleObjectError) { other.update!(name: "Anne") }
end
step("locks") do
  Author.first.with_lock { Author.lock("FOR UPDATE NOWAIT").first } && Author.lock("FOR UPDATE SKIP LOCKED").first
end
step("savepoints") do
  Author.transaction do
    Author.create!(name: "kept")
    Author.transaction(requires_new: true) do
      Author.create!(name: "gone")
      raise ActiveRecord::Rollback
    end
  end
  Author.where(name: %w[kept gone]).pluck(:name) == ["kept"]
end
step("isolation") do
  Author.transaction(isolation: :repeatable_read) { Author.count } == 2
end
step("errors") do
  ann = Author.first
  raises(ActiveRecord::RecordNotUnique) { ann.books.create!(title: "First", kind: 0) } &&
    raises(ActiveRecord::InvalidForeignKey) { Book.insert_all!([{ author_id: 999, title: "x", kind: 0, created_at: Time.now, updated_at: Time.now }]) } &&
    raises(ActiveRecord::NotNullViolation) { Author.create!(name: nil) } &&
    raises(ActiveRecord::ValueTooLong) { Author.create!(name: "n" * 81) } &&
    raises(ActiveRecord::RangeError) { Book.connection.execute("SELECT 99999999999::int") } &&
    raises(ActiveRecord::StatementInvalid) { Book.connection.execute("SELECT nothing FROM nowhere") } &&
    raises(ActiveRecord::StatementInvalid) { ann.books.create!(title: "negative", price: -1, kind: 0) }
end
step("timeout") do
  base.connection.execute("SET statement_timeout = 100")
  raises(ActiveRecord::QueryCanceled) { base.connection.execute("SELECT pg_sleep(5)") }
ensure
  base.connection.execute("RESET statement_timeout")
end
step("lock timeout") do
  ready, done = Queue.new, Queue.new
  holder = Thread.new { base.connection_pool.with_connection { Author.transaction { Author.lock.first; ready << 1; done.pop } } }
  ready.pop
  found = raises(ActiveRecord::LockWaitTimeout) { Author.transaction { Author.lock("FOR UPDATE NOWAIT").first } }
  done << 1
  holder.join
  found
end
step("deadlock") do
  ids = Author.order(:id).pluck(:id)
  results = Queue.new
  threads = [ids, ids.reverse].map do |order|
    Thread.new do
      base.connection_pool.with_connection do
        Author.transaction { order.each { |id| Author.lock.find(id); sleep 0.3 } }
        results << :done
      rescue ActiveRecord::Deadlocked
        results << :deadlock
      end
    end
  end
  threads.each(&:join)
  [results.pop, results.pop].sort == %i[deadlock done]
end
step("explain") { Book.where(title: "First").explain.include?("EXPLAIN") }
step("dump") do
  out = StringIO.new
  ActiveRecord::SchemaDumper.dump(base.connection, out)
  text = out.string
  ['create_table "books"', 't.jsonb "details"', 't.string "tags", default: [], array: true', "where: \"in_print\"", 'add_foreign_key "books", "authors"',
   't.check_constraint "price', 'name: "price_positive"', "t.int4range", 'default: -> { "gen_random_uuid()" }', "t.interval"].all? do |part|
    text.include?(part) || raise("#{part} is missing in #{text}")
  end
end
step("load") do
  out = StringIO.new
  ActiveRecord::SchemaDumper.dump(base.connection, out)
  base.connection.tables.each { |table| base.connection.drop_table(table, force: :cascade) }
  eval(out.string) # rubocop:disable Security/Eval
  again = StringIO.new
  ActiveRecord::SchemaDumper.dump(base.connection, again)
  again.string == out.string
end
step("views") do
  base.connection.execute("CREATE VIEW named AS SELECT id, name FROM authors")
  base.connection.views == ["named"] && base.connection.execute("DROP VIEW named")
end
step("databases") do
  base.connection.create_database("rails_other", encoding: "unicode")
  base.connection.drop_database("rails_other")
  true
end
step("truncate") { base.connection.truncate_tables("books", "authors") || true }
step("drop") { base.connection.drop_table(:books, force: :cascade) || true }
exit($failed ? 1 : 0)
