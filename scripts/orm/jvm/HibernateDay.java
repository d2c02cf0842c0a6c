import jakarta.persistence.*;
import jakarta.persistence.CascadeType;
import jakarta.persistence.Index;
import jakarta.persistence.Table;
import jakarta.persistence.Version;
import jakarta.persistence.criteria.*;
import java.io.Serializable;
import java.io.StringWriter;
import java.math.BigDecimal;
import java.net.InetAddress;
import java.time.*;
import java.util.*;
import java.util.function.Function;
import java.util.stream.Stream;
import org.hibernate.*;
import org.hibernate.annotations.*;
import org.hibernate.cfg.Configuration;
import org.hibernate.dialect.PostgreSQLDialect;
import org.hibernate.query.Query;
import org.hibernate.type.SqlTypes;

/** An application's first day with Hibernate. Usage: HibernateDay HOST PORT FOLDER-OF-hibernate_day.txt */
public class HibernateDay {
    enum Role { ADMIN, USER, GUEST }
    enum Mood { SAD, OK, HAPPY }

    @Embeddable
    static class Address { String street; @Column(length = 10) String zip; Address() {} Address(String street, String zip) { this.street = street; this.zip = zip; } }

    @Entity(name = "Person") @Table(name = "person", indexes = {@Index(name = "person_role", columnList = "role, name DESC"), @Index(name = "person_balance", columnList = "balance")})
    @jakarta.persistence.NamedQuery(name = "byRole", query = "select p from Person p where p.role = :role order by p.name")
    static class Person {
        @Id @GeneratedValue(strategy = GenerationType.IDENTITY) Long id;
        @Column(nullable = false, length = 50, unique = true) String name;
        @Enumerated(EnumType.STRING) Role role = Role.USER;
        @Enumerated(EnumType.ORDINAL) Role rank = Role.GUEST;
        @JdbcTypeCode(SqlTypes.NAMED_ENUM) Mood mood;
        @JdbcTypeCode(SqlTypes.JSON) Map<String, Object> meta;
        UUID uid;
        Instant seen; LocalDate born; LocalDateTime at; LocalTime wakes; OffsetDateTime there;
        @JdbcTypeCode(SqlTypes.INTERVAL_SECOND) Duration span;
        Duration lasts;
        @Column(precision = 12, scale = 2) BigDecimal balance = BigDecimal.ZERO;
        @ColumnDefault("7") Integer small;
        byte[] bin;
        String[] tags;
        List<Integer> numbers;
        InetAddress ip;
        boolean active = true;
        char letter = 'x';
        Double ratio; Float part; Short tiny;
        Locale language; Currency money; java.net.URL home; ZoneOffset zone; Year year;
        @Column(length = 100_000) String story;
        @Version int version;
        @Embedded Address address;
        @GeneratedColumn("balance * 2") BigDecimal twice;
        @Formula("upper(name)") String shout;
        @Check(constraints = "age >= 0") Integer age;
        @ElementCollection(fetch = FetchType.LAZY) @CollectionTable(name = "person_nick") @OrderColumn List<String> nicks = new ArrayList<>();
        @ElementCollection @MapKeyColumn(name = "k") @Column(name = "v") Map<String, Integer> scores = new TreeMap<>();
        @OneToMany(mappedBy = "author", cascade = CascadeType.ALL, orphanRemoval = true) @OrderBy("title") List<Post> posts = new ArrayList<>();
        Person() {}
        Person(String name) { this.name = name; }
        void add(Post post) { posts.add(post); post.author = this; }
    }

    @Entity(name = "Post") @Table(name = "post", uniqueConstraints = @UniqueConstraint(name = "one_title", columnNames = {"author_id", "title"}))
    static class Post {
        @Id @GeneratedValue(strategy = GenerationType.SEQUENCE, generator = "post_ids") @SequenceGenerator(name = "post_ids", sequenceName = "post_ids", allocationSize = 20, initialValue = 100) Long id;
        @Column(nullable = false) String title;
        @Column(columnDefinition = "text") String body;
        int views;
        @ManyToOne(fetch = FetchType.LAZY, optional = false) @OnDelete(action = OnDeleteAction.CASCADE) Person author;
        @ManyToMany @JoinTable(name = "post_tag") Set<Tag> tags = new HashSet<>();
        Post() {}
        Post(String title, int views) { this.title = title; this.views = views; }
    }

    @Embeddable
    static class TagKey implements Serializable {
        String area; int number;
        TagKey() {}
        TagKey(String area, int number) { this.area = area; this.number = number; }
        @Override public boolean equals(Object other) { return other instanceof TagKey key && key.area.equals(area) && key.number == number; }
        @Override public int hashCode() { return Objects.hash(area, number); }
    }

    @Entity(name = "Tag") @Table(name = "tag")
    static class Tag { @EmbeddedId TagKey key; String label; Tag() {} Tag(TagKey key, String label) { this.key = key; this.label = label; } }

    @Entity(name = "Ticket")
    static class Ticket { @Id @GeneratedValue(strategy = GenerationType.TABLE, generator = "tickets") @TableGenerator(name = "tickets", allocationSize = 5) Long id; String what; Ticket() {} Ticket(String what) { this.what = what; } }

    @Entity(name = "Doc") @SoftDelete
    static class Doc { @Id @GeneratedValue UUID id; @NaturalId String code; @CreationTimestamp Instant made; @UpdateTimestamp Instant changed; Doc() {} Doc(String code) { this.code = code; } }

    @Entity(name = "Animal") @Inheritance(strategy = InheritanceType.JOINED)
    static class Animal { @Id Long id; String name; Animal() {} Animal(long id, String name) { this.id = id; this.name = name; } }
    @Entity(name = "Dog")
    static class Dog extends Animal { int bones; Dog() {} Dog(long id, String name, int bones) { super(id, name); this.bones = bones; } }
    @Entity(name = "Cat")
    static class Cat extends Animal { int lives; Cat() {} Cat(long id, String name, int lives) { super(id, name); this.lives = lives; } }

    @Entity(name = "Payment") @Inheritance(strategy = InheritanceType.SINGLE_TABLE) @DiscriminatorColumn(name = "kind")
    static class Payment { @Id Long id; BigDecimal amount; Payment() {} Payment(long id, String amount) { this.id = id; this.amount = new BigDecimal(amount); } }
    @Entity(name = "Card") @DiscriminatorValue("card")
    static class Card extends Payment { String number; Card() {} Card(long id, String amount, String number) { super(id, amount); this.number = number; } }

    @Entity(name = "Shape") @Inheritance(strategy = InheritanceType.TABLE_PER_CLASS)
    static abstract class Shape { @Id Long id; double area; }
    @Entity(name = "Circle")
    static class Circle extends Shape { double radius; Circle() {} Circle(long id, double radius) { this.id = id; this.radius = radius; area = radius * 3; } }
    @Entity(name = "Square")
    static class Square extends Shape { double side; Square() {} Square(long id, double side) { this.id = id; this.side = side; area = side * side; } }

    /** The same table on another day: with a column, an index and a table more. */
    @Entity(name = "Later") @Table(name = "person", indexes = @Index(name = "person_later", columnList = "later"))
    static class Later { @Id Long id; @Column(length = 20) String later; @ManyToOne Ticket ticket; }

    /** Another type than the table's. */
    @Entity(name = "Wrong") @Table(name = "person")
    static class Wrong { @Id Long id; @Column(name = "name") Integer name; }

    record Line(String name, Long count) {}

    static Steps steps;
    static SessionFactory factory;

    static Configuration configuration(String database, Class<?>... classes) {
        Configuration made = new Configuration();
        Properties settings = made.getProperties();
        settings.put("hibernate.connection.url", steps.url(database));
        settings.put("hibernate.connection.username", "postgres");
        settings.put("hibernate.connection.password", "x");
        settings.put("hibernate.jdbc.batch_size", "20");
        settings.put("hibernate.order_inserts", "true");
        settings.put("hibernate.order_updates", "true");
        settings.put("hibernate.jdbc.time_zone", "UTC");
        for (Class<?> one : classes) made.addAnnotatedClass(one);
        return made;
    }
    static Configuration day(String database) { return configuration(database, Person.class, Post.class, Tag.class, Ticket.class, Doc.class, Animal.class, Dog.class, Cat.class, Payment.class, Card.class, Shape.class, Circle.class, Square.class); }
    static <T> T in(Function<Session, T> work) { return factory.fromTransaction(work::apply); }
    static Query<Object[]> ask(Session s, String hql) { return s.createQuery(hql, Object[].class); }
    static List<?> list(Session s, String hql) { return s.createQuery(hql, Object.class).getResultList(); }
    static Object sorted(String hql) { return in(s -> list(s, hql).stream().map(String::valueOf).sorted().toList()); }
    static Object all(String hql) { return in(s -> list(s, hql)); }

    static final String COLUMNS = "SELECT table_name, column_name, data_type, udt_name, is_nullable, column_default, character_maximum_length, numeric_precision, numeric_scale, datetime_precision, is_identity, identity_generation FROM information_schema.columns WHERE table_schema = 'public' ORDER BY 1, ordinal_position";
    static final String CONSTRAINTS = "SELECT conrelid::regclass::text, contype::text, pg_get_constraintdef(oid) FROM pg_constraint WHERE connamespace = 'public'::regnamespace AND contype <> 'c' ORDER BY 1, 2, 3";

    public static void main(String[] arguments) throws Exception {
        TimeZone.setDefault(TimeZone.getTimeZone("UTC"));
        Locale.setDefault(Locale.ENGLISH);
        java.util.logging.LogManager.getLogManager().reset();
        steps = new Steps(arguments, "hibernate_day.txt");
        steps.fresh("hib");
        definitions();
        factory = day("hib").buildSessionFactory();
        rows();
        queries();
        functions();
        changes();
        locks();
        errors();
        factory.close();
        steps.end();
    }

    static void definitions() throws Exception {
        steps.step("hibernate create", () -> {
            Configuration made = day("hib");
            made.setProperty("hibernate.hbm2ddl.auto", "create");
            made.buildSessionFactory().close();
            return Arrays.asList(steps.rows("hib", COLUMNS), steps.rows("hib", CONSTRAINTS), steps.rows("hib", "SELECT indexdef FROM pg_indexes WHERE schemaname = 'public' ORDER BY indexname"), steps.rows("hib", "SELECT sequencename, start_value, increment_by FROM pg_sequences ORDER BY 1"), steps.rows("hib", "SELECT typname, enumlabel FROM pg_enum JOIN pg_type t ON t.oid = enumtypid ORDER BY 1, enumsortorder"));
        });
        steps.step("hibernate validate", () -> {
            Configuration made = day("hib");
            made.setProperty("hibernate.hbm2ddl.auto", "validate");
            made.buildSessionFactory().close();
            return "valid";
        });
        steps.step("hibernate validate finds another type", () -> {
            Configuration made = configuration("hib", Wrong.class);
            made.setProperty("hibernate.hbm2ddl.auto", "validate");
            try { made.buildSessionFactory().close(); return "valid"; } catch (Exception error) { return String.valueOf(error.getMessage()).lines().findFirst(); }
        });
        steps.step("hibernate update", () -> {
            for (int round = 0; round < 2; round++) {
                Configuration made = configuration("hib", Later.class, Ticket.class);
                made.setProperty("hibernate.hbm2ddl.auto", "update");
                made.setProperty("hibernate.hbm2ddl.halt_on_error", "true");
                made.buildSessionFactory().close();
            }
            return steps.rows("hib", "SELECT column_name, data_type, character_maximum_length FROM information_schema.columns WHERE table_name = 'person' AND column_name LIKE '%t%er%' ORDER BY 1").toString() + steps.rows("hib", "SELECT indexname FROM pg_indexes WHERE indexname LIKE '%later%'") + steps.rows("hib", "SELECT count(*) FROM pg_constraint WHERE conrelid = 'person'::regclass AND contype = 'f'");
        });
        steps.step("hibernate update of all", () -> {
            Configuration made = day("hib");
            made.setProperty("hibernate.hbm2ddl.auto", "update");
            made.buildSessionFactory().close();
            return steps.rows("hib", "SELECT conrelid::regclass::text, contype::text, count(*) FROM pg_constraint WHERE connamespace = 'public'::regnamespace GROUP BY 1, 2 ORDER BY 1, 2");
        });
        steps.step("hibernate create-drop in a schema", () -> {
            steps.fresh("hib2");
            Configuration made = day("hib2");
            made.setProperty("hibernate.hbm2ddl.auto", "create-drop");
            made.setProperty("hibernate.default_schema", "shop");
            made.setProperty("hibernate.hbm2ddl.create_namespaces", "true");
            String there;
            try (SessionFactory one = made.buildSessionFactory()) {
                one.inTransaction(s -> { s.persist(new Ticket("t")); s.persist(new Animal(1, "a")); s.persist(new Person("p")); });
                there = steps.rows("hib2", "SELECT relname, relkind FROM pg_class WHERE relnamespace = 'shop'::regnamespace AND relkind IN ('r', 'S') ORDER BY 1").toString();
            }
            return there + steps.rows("hib2", "SELECT count(*) FROM pg_class WHERE relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = 'shop')");
        });
        steps.step("hibernate schema manager", () -> {
            try (SessionFactory one = day("hib2").buildSessionFactory()) {
                one.getSchemaManager().exportMappedObjects(false);
                one.inTransaction(s -> { for (int n = 0; n < 3; n++) s.persist(new Ticket("t" + n)); s.persist(new Person("p")); });
                one.getSchemaManager().validateMappedObjects();
                one.getSchemaManager().truncateMappedObjects();
                long left = one.fromTransaction(s -> s.createQuery("select count(*) from Ticket", Long.class).getSingleResult() + s.createQuery("select count(*) from Person", Long.class).getSingleResult());
                one.getSchemaManager().dropMappedObjects(false);
                return left + steps.rows("hib2", "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace").toString();
            }
        });
    }

    static Person full(String name) {
        Person p = new Person(name);
        p.role = Role.ADMIN; p.rank = Role.USER; p.mood = Mood.HAPPY;
        p.meta = new TreeMap<>(Map.of("a", 1, "b", List.of(1, "x"), "c", Map.of("d", true)));
        p.uid = UUID.fromString("00000000-0000-4000-8000-000000000001");
        p.seen = Instant.parse("2024-02-29T12:34:56.123456Z"); p.born = LocalDate.of(2000, 2, 29); p.at = LocalDateTime.of(1999, 12, 31, 23, 59, 59, 999_999_000); p.wakes = LocalTime.of(6, 30); p.there = OffsetDateTime.of(2024, 7, 1, 10, 0, 0, 0, ZoneOffset.ofHours(2));
        p.span = Duration.ofSeconds(90_061, 500_000_000); p.lasts = Duration.ofMinutes(3);
        p.balance = new BigDecimal("12.50"); p.small = 3; p.bin = new byte[] {0, 1, (byte) 255};
        p.tags = new String[] {"a", "b,c", "\"q\"", "", null}; p.numbers = new ArrayList<>(Arrays.asList(1, null, 3));
        try { p.ip = InetAddress.getByName("10.0.0.7"); p.home = new java.net.URL("http://example.org/x"); } catch (Exception error) { throw new RuntimeException(error); }
        p.ratio = 0.1; p.part = 1.5f; p.tiny = 5; p.language = Locale.GERMANY; p.money = Currency.getInstance("EUR"); p.zone = ZoneOffset.ofHours(-3); p.year = Year.of(2024);
        p.story = "Grüße, 世界 😀 ".repeat(2000); p.address = new Address("Main 1", "12345"); p.age = 30;
        p.nicks.addAll(List.of("one", "two")); p.scores.putAll(Map.of("chess", 5, "go", 7));
        return p;
    }
    static List<Object> shown(Person p) {
        return Arrays.asList(p.name, p.role, p.rank, p.mood, p.meta == null ? null : new TreeMap<>(p.meta), p.uid, p.seen, p.born, p.at, p.wakes, p.there == null ? null : p.there.toInstant(), p.span, p.lasts, p.balance, p.small, p.bin, p.tags, p.numbers, p.ip, p.active, p.letter, p.ratio, p.part, p.tiny, p.language, p.money, p.home, p.zone, p.year, p.story == null ? null : p.story.length() + p.story.substring(0, 12), p.version, p.address == null ? null : p.address.street + p.address.zip, p.twice, p.shout, p.age, new ArrayList<>(p.nicks), new TreeMap<>(p.scores));
    }

    static void rows() {
        steps.step("hibernate persist of all types", () -> { Long id = in(s -> { Person p = full("Ann"); s.persist(p); s.flush(); return p.id; }); return List.of(id, in(s -> shown(s.find(Person.class, id)))); });
        steps.step("hibernate persist of nulls", () -> { Long id = in(s -> { Person p = new Person("Bob"); s.persist(p); return p.id; }); return in(s -> shown(s.find(Person.class, id))); });
        steps.step("hibernate update of all types", () -> { in(s -> { Person p = s.createQuery("from Person where name = 'Ann'", Person.class).getSingleResult(); p.mood = Mood.SAD; p.meta.put("e", null); p.tags = new String[] {"z"}; p.numbers.add(4); p.balance = new BigDecimal("99.99"); p.span = Duration.ofMillis(1); p.nicks.remove(0); p.nicks.add("three"); p.scores.put("go", 8); p.address = null; p.bin = new byte[0]; return null; }); return in(s -> shown(s.createQuery("from Person where name = 'Ann'", Person.class).getSingleResult())); });
        steps.step("hibernate relations", () -> in(s -> {
            Tag news = new Tag(new TagKey("news", 1), "News"), sport = new Tag(new TagKey("sport", 2), "Sport");
            s.persist(news); s.persist(sport);
            Person ann = s.createQuery("from Person where name = 'Ann'", Person.class).getSingleResult();
            Person bob = s.createQuery("from Person where name = 'Bob'", Person.class).getSingleResult();
            for (int n = 0; n < 5; n++) { Post post = new Post("title " + n, n * 10); post.body = n % 2 == 0 ? "body " + n : null; post.tags.add(n < 3 ? news : sport); (n < 4 ? ann : bob).add(post); }
            s.flush();
            s.clear();
            return s.createQuery("select distinct p from Person p left join fetch p.posts order by p.name", Person.class).getResultList().stream().map(p -> p.name + p.posts.stream().map(x -> x.title + x.tags.stream().map(t -> t.label).toList()).toList()).toList();
        }));
        steps.step("hibernate orphans", () -> { in(s -> { Person ann = s.createQuery("from Person where name = 'Ann'", Person.class).getSingleResult(); ann.posts.remove(3); return null; }); return all("select title from Post order by title"); });
        steps.step("hibernate batch inserts", () -> { in(s -> { Person many = new Person("Many"); many.balance = new BigDecimal("1.00"); s.persist(many); for (int n = 0; n < 250; n++) many.add(new Post("many " + n, n % 7)); return null; }); return all("select count(*), min(id), max(id), sum(views) from Post"); });
        steps.step("hibernate table generator", () -> { in(s -> { for (int n = 0; n < 12; n++) s.persist(new Ticket("t" + n)); return null; }); return all("select count(*), min(id), max(id) from Ticket"); });
        steps.step("hibernate natural id and soft delete", () -> { in(s -> { s.persist(new Doc("d1")); s.persist(new Doc("d2")); return null; }); in(s -> { s.remove(s.bySimpleNaturalId(Doc.class).load("d1")); return null; }); return List.of(all("select code from Doc"), in(s -> s.createNativeQuery("select code, deleted from Doc order by code", Object[].class).getResultList()), in(s -> s.byNaturalId(Doc.class).using("code", "d1").loadOptional().isPresent())); });
        steps.step("hibernate inheritance", () -> { in(s -> { s.persist(new Dog(1, "rex", 3)); s.persist(new Cat(2, "tom", 9)); s.persist(new Animal(3, "it")); s.persist(new Payment(1, "5.00")); s.persist(new Card(2, "6.00", "4111")); s.persist(new Circle(1, 2)); s.persist(new Square(2, 3)); return null; }); return List.of(all("select a.name, type(a) from Animal a order by a.id"), all("select treat(a as Dog).bones from Animal a where type(a) = Dog"), all("select p.amount, p.class from Payment p order by p.id"), all("select s.id, s.area from Shape s order by s.area"), in(s -> s.find(Animal.class, 2L).getClass().getSimpleName()), in(s -> s.createMutationQuery("update Animal set name = upper(name) where id < 3").executeUpdate()), in(s -> s.createMutationQuery("update Dog set bones = bones + 1").executeUpdate()), in(s -> s.createMutationQuery("delete Cat where lives > 5").executeUpdate()), all("select a.name from Animal a order by a.id")); });
        steps.step("hibernate merge, refresh, detach", () -> { Ticket ticket = in(s -> s.createQuery("from Ticket order by id", Ticket.class).setMaxResults(1).getSingleResult()); ticket.what = "merged"; return in(s -> { Ticket merged = s.merge(ticket); s.flush(); s.createNativeMutationQuery("update Ticket set what = what || '!' where id = :id").setParameter("id", merged.id).executeUpdate(); s.refresh(merged); s.detach(merged); return merged.what + s.contains(merged); }); });
        steps.step("hibernate multi load", () -> in(s -> { Object[] ids = list(s, "select id from Ticket order by id").stream().limit(3).toArray(); return s.byMultipleIds(Ticket.class).multiLoad(ids).stream().map(t -> t.what).toList(); }));
        steps.step("hibernate scroll and stream", () -> in(s -> { long sum = 0; try (ScrollableResults<Post> scroll = s.createQuery("from Post order by id", Post.class).setFetchSize(30).scroll(ScrollMode.FORWARD_ONLY)) { while (scroll.next()) sum += scroll.get().views; } try (Stream<Post> stream = s.createQuery("from Post order by id", Post.class).setFetchSize(50).getResultStream()) { return sum + " " + stream.mapToInt(p -> p.views).sum(); } }));
        steps.step("hibernate stateless", () -> { try (StatelessSession s = factory.openStatelessSession()) { s.setJdbcBatchSize(10); s.beginTransaction(); Tag a = new Tag(new TagKey("x", 1), "one"), b = new Tag(new TagKey("x", 2), "two"); s.insertMultiple(List.of(a, b)); a.label = "one more"; s.upsert(a); s.upsert(new Tag(new TagKey("x", 3), "three")); b.label = "deux"; s.update(b); s.delete(new Tag(new TagKey("x", 3), null)); s.getTransaction().commit(); } return all("select key.number, label from Tag where key.area = 'x' order by key.number"); });
    }

    static void queries() {
        steps.step("hibernate joins", () -> List.of(all("select p.name, t.label from Post x join x.author p left join x.tags t where x.views < 40 and p.name <> 'Many' order by p.name, x.title, t.label"), all("select p.name from Person p where p.posts is empty"), all("select p.name, size(p.posts) from Person p order by p.name"), all("select a.name, b.name from Person a join Person b on a.id < b.id order by 1, 2"), all("select p.name from Person p where 'two' member of p.nicks"), all("select p.name, index(n), n from Person p join p.nicks n order by 1, 2"), all("select key(c), value(c) from Person p join p.scores c order by 1"), all("select p.name, x.title from Person p join lateral (select q.title as title from Post q where q.author = p order by q.views desc, q.id limit 1) x order by p.name")));
        steps.step("hibernate aggregates", () -> List.of(all("select p.role, count(*), sum(p.balance), avg(p.balance), min(p.born), max(p.name) from Person p group by p.role order by p.role"), all("select x.author.name, count(distinct x.views) from Post x group by x.author.name having count(*) > 1 order by 2 desc"), all("select count(*) filter (where x.views > 3), stddev_samp(x.views), every(x.views >= 0), any(x.views > 900) from Post x"), all("select listagg(p.name, ', ') within group (order by p.name desc) from Person p"), all("select array_agg(p.name) within group (order by p.name) from Person p"), all("select percentile_cont(0.5) within group (order by x.views), mode() within group (order by x.views) from Post x"), all("select p.role, p.name, count(*) from Person p group by rollup(p.role, p.name) order by 1 nulls last, 2 nulls last")));
        steps.step("hibernate windows", () -> List.of(all("select x.title, row_number() over (partition by x.author order by x.views desc, x.id), sum(x.views) over (order by x.id rows between 1 preceding and current row), lag(x.title, 1, 'none') over (order by x.id), ntile(2) over (order by x.id), first_value(x.title) over (order by x.id), rank() over (order by x.views) from Post x where x.author.name <> 'Many' order by x.id")));
        steps.step("hibernate subqueries", () -> List.of(all("select p.name from Person p where exists (select 1 from Post x where x.author = p and x.views >= 20) order by p.name"), all("select p.name from Person p where p.balance >= all (select q.balance from Person q)"), all("select p.name, (select max(x.views) from Post x where x.author = p) from Person p order by p.name"), all("select p.name from Person p where p.id in (select x.author.id from Post x where x.title like 'title%') order by 1"), all("select s.n, s.c from (select x.author.name as n, count(*) as c from Post x group by x.author.name) s order by s.c, s.n")));
        steps.step("hibernate common table expressions", () -> List.of(all("with busy as (select x.author.id as id, count(*) as n from Post x group by x.author.id) select p.name, b.n from Person p join busy b on b.id = p.id order by b.n desc, p.name"), all("with t as (select 1 as n from Person p where p.name = 'Ann' union all select t.n + 1 as n from t t where t.n < 5) select sum(t.n), count(*) from t t")));
        steps.step("hibernate set operations", () -> List.of(sorted("select p.name from Person p union select x.title from Post x where x.views = 20"), all("select p.role from Person p intersect select p.role from Person p where p.name = 'Ann'"), sorted("select p.name from Person p except select p.name from Person p where p.name = 'Bob'")));
        steps.step("hibernate pages", () -> in(s -> { List<Object> pages = new ArrayList<>(); for (int page = 0; page < 3; page++) pages.add(s.createQuery("select x.title from Post x order by x.views desc, x.id", String.class).setFirstResult(page * 4).setMaxResults(4).getResultList()); pages.add(s.createSelectionQuery("from Post order by views desc, id", Post.class).setPage(org.hibernate.query.Page.page(3, 1)).getResultList().stream().map(x -> x.title).toList()); pages.add(list(s, "select x.title from Post x order by x.views desc, x.title fetch first 2 rows with ties")); pages.add(list(s, "select x.title from Post x order by x.id limit 2 offset 1")); pages.add(s.createSelectionQuery("from Post", Post.class).getResultCount()); return pages; }));
        steps.step("hibernate criteria", () -> in(s -> {
            CriteriaBuilder b = s.getCriteriaBuilder();
            CriteriaQuery<Object[]> q = b.createQuery(Object[].class);
            Root<Person> p = q.from(Person.class);
            Join<Person, Post> x = p.join("posts", JoinType.LEFT);
            q.multiselect(p.get("name"), b.count(x), b.coalesce(b.max(x.<Integer>get("views")), -1), b.selectCase().when(b.equal(p.get("role"), Role.ADMIN), "boss").otherwise("other"));
            q.where(b.or(b.like(b.lower(p.get("name")), "%a%"), b.isNull(p.get("age"))), b.between(p.<BigDecimal>get("balance"), new BigDecimal("0"), new BigDecimal("1000")), p.get("role").in(Role.ADMIN, Role.USER));
            q.groupBy(p.get("name"), p.get("role")).having(b.ge(b.count(x), 0L)).orderBy(b.desc(b.count(x)), b.asc(p.get("name")));
            CriteriaUpdate<Post> u = b.createCriteriaUpdate(Post.class);
            Root<Post> r = u.from(Post.class);
            u.set(r.<Integer>get("views"), b.sum(r.<Integer>get("views"), 1)).where(b.equal(r.get("title"), "title 0"));
            CriteriaDelete<Ticket> d = b.createCriteriaDelete(Ticket.class);
            d.where(b.like(d.from(Ticket.class).get("what"), "t1_"));
            return Arrays.asList(s.createQuery(q).getResultList(), s.createMutationQuery(u).executeUpdate(), s.createMutationQuery(d).executeUpdate());
        }));
        steps.step("hibernate named, tuples, records, parameters", () -> in(s -> List.of(s.createNamedQuery("byRole", Person.class).setParameter("role", Role.USER).getResultList().stream().map(p -> p.name).toList(), s.createQuery("select p.name as n, p.balance as b from Person p order by p.name", Tuple.class).getResultList().stream().map(t -> t.get("n") + "=" + t.get("b")).toList(), s.createQuery("select p.name, count(x) from Person p left join p.posts x group by p.name order by p.name", Line.class).getResultList(), s.createQuery("select p.name from Person p where p.name in :names and p.mood = :mood and p.uid = :uid and p.seen < :at and p.born = :born", String.class).setParameterList("names", List.of("Ann", "Bob", "Zed")).setParameter("mood", Mood.SAD).setParameter("uid", new UUID(0x4000L, 0x8000000000000001L)).setParameter("at", Instant.parse("2030-01-01T00:00:00Z")).setParameter("born", LocalDate.of(2000, 2, 29)).getResultList(), s.createQuery("select p.name from Person p where (:name is null or p.name = :name) order by 1", String.class).setParameter("name", (String) null).getResultList(), s.createQuery("select p.name from Person p where p.bin = :bin", String.class).setParameter("bin", new byte[0]).getResultList())));
        steps.step("hibernate native queries", () -> in(s -> List.of(s.createNativeQuery("select * from tag where area = ?1 order by number", Tag.class).setParameter(1, "x").getResultList().stream().map(t -> t.label).toList(), s.createNativeQuery("select p.name, p.meta ->> 'a', p.tags[1], p.span::text, p.mood::text from person p where p.id = any(:ids) order by 1", Object[].class).setParameter("ids", new Long[] {1L, 2L}).getResultList(), s.createNativeQuery("insert into tag (area, number, label) values ('n', 1, 'native') on conflict (area, number) do update set label = excluded.label returning label", String.class).getResultList(), s.createNativeQuery("select cast(:v as jsonb) @> cast('{\"a\": 1}' as jsonb)", Boolean.class).setParameter("v", "{\"a\":1,\"b\":2}").getSingleResult(), s.createNativeQuery("select {p.*} from person p where p.name = 'Ann'", Person.class).addEntity("p", Person.class).getResultList().size())));
        steps.step("hibernate entity graph and lazy loading", () -> in(s -> { EntityGraph<Person> graph = s.createEntityGraph(Person.class); graph.addAttributeNodes("posts", "address"); Person ann = s.createQuery("from Person where name = 'Ann'", Person.class).setHint("jakarta.persistence.fetchgraph", graph).getSingleResult(); Post post = s.createQuery("from Post where title = 'title 4'", Post.class).getSingleResult(); return Hibernate.isInitialized(ann.posts) + " " + Hibernate.isInitialized(post.author) + " " + post.author.name; }));
    }

    static void functions() {
        steps.step("hibernate functions of text", () -> all("select upper(p.name), lower(p.name), length(p.name), substring(p.name, 2, 2), trim(both 'A' from p.name), concat(p.name, '-', p.role), locate('n', p.name), replace(p.name, 'n', 'm'), lpad(p.name, 6, '*'), rpad(p.name, 6, '*'), left(p.name, 1), right(p.name, 1), p.name || '!', position('n' in p.name), overlay(p.name placing 'xx' from 2 for 1), repeat(p.name, 2), ascii(p.name), chr(65), collate(p.name as `C`), p.name ilike 'AN%', p.name like 'A\\%' escape '\\', cast(p.id as String), str(p.balance), initcap(lower(p.name)), md5(p.name), translate(p.name, 'n', 'N'), reverse(p.name) from Person p where p.name = 'Ann'"));
        steps.step("hibernate functions of numbers", () -> all("select abs(-p.balance), mod(p.age, 7), round(p.balance, 1), floor(p.balance), ceiling(p.balance), sign(p.balance), sqrt(16.0), power(2, 10), exp(0), ln(1), round(pi, 4), truncate(p.balance, 1), p.age / 7, p.age * 1.5, greatest(1, 2, 3), least(4, 2), bitand(6, 3), bitor(6, 3), bitxor(6, 3), log10(100), cast(p.balance as Integer), cast('12' as Integer), cast(p.age as Double), degrees(pi), round(sin(1), 5), round(atan2(1, 2), 5) from Person p where p.name = 'Ann'"));
        steps.step("hibernate functions of time", () -> all("select year(p.born), month(p.born), day(p.born), hour(p.at), minute(p.at), second(p.at), extract(day of week from p.born), extract(week from p.born), extract(epoch from p.seen), p.born + 3 day, p.at - 2 hour, (p.at - p.seen) by hour, (p.born - local date) by day > 0, trunc(p.at, month), format(p.at as 'yyyy-MM-dd HH:mm'), timestampdiff(day, p.born, cast('2001-03-01' as LocalDate)), timestampadd(month, 1, p.born), cast(p.at as LocalDate), extract(quarter from p.born), extract(day of year from p.born), datetime 2020-01-02 03:04:05, (local datetime - p.at) by day > 0, cast(p.seen as LocalDateTime) from Person p where p.name = 'Ann'"));
        steps.step("hibernate functions of cases and nulls", () -> all("select coalesce(p.age, -1), nullif(p.age, 30), ifnull(p.story, 'none') is not null, case p.role when ADMIN then 1 else 2 end, case when p.age is null then 'no' when p.age > 20 then 'old' else 'young' end, p.age is distinct from null, p.active is true, p.name is not null and not p.active from Person p where p.name in ('Ann', 'Bob') order by p.name"));
        steps.step("hibernate functions of arrays", () -> all("select array_length(p.numbers), array_contains(p.numbers, 3), array_append(p.numbers, 9), array_concat(p.numbers, p.numbers), array_get(p.numbers, 1), array_position(p.numbers, 3), array_remove(p.numbers, 1), array_slice(p.numbers, 1, 2), array_to_string(p.numbers, ','), array_prepend(0, p.numbers), array_includes(p.numbers, array_list(1)), array_intersects(p.numbers, array_list(3, 5)), array_replace(p.numbers, 1, 7), array_set(p.numbers, 2, 8), array_trim(p.numbers, 1), array_fill(5, 2) from Person p where p.name = 'Ann'"));
        steps.step("hibernate functions of sets", () -> List.of(all("select g from generate_series(1, 5, 2) g order by g"), all("select p.name, u from Person p join lateral unnest(p.numbers) u where p.name = 'Ann' and u is not null order by u")));
    }

    static void changes() {
        steps.step("hibernate bulk changes", () -> in(s -> Arrays.asList(s.createMutationQuery("update Post set views = views * 2, body = coalesce(body, 'none') where author in (select p from Person p where p.name = 'Ann')").executeUpdate(), s.createMutationQuery("update versioned Person set age = 40 where name = 'Bob'").executeUpdate(), s.createMutationQuery("delete from Post x where x.author in (select p from Person p where p.name = 'Many') and x.views > 4").executeUpdate(), s.createMutationQuery("insert into Ticket (id, what) select p.id + 1000, p.name from Person p").executeUpdate(), s.createMutationQuery("insert into Tag (key.area, key.number, label) values ('v', 1, 'a'), ('v', 2, 'b')").executeUpdate(), list(s, "select what from Ticket where id > 1000 order by id"), list(s, "select version, age from Person where name = 'Bob'"))));
        steps.step("hibernate insert on conflict", () -> in(s -> Arrays.asList(s.createMutationQuery("insert into Ticket (id, what) values (1001, 'new'), (5000, 'other') on conflict (id) do update set what = concat(what, '+', excluded.what)").executeUpdate(), s.createMutationQuery("insert into Ticket (id, what) values (5000, 'again') on conflict do nothing").executeUpdate(), list(s, "select what from Ticket where id in (1001, 5000) order by id"))));
        steps.step("hibernate remove with cascade", () -> { in(s -> { Person many = s.createQuery("from Person where name = 'Many'", Person.class).getSingleResult(); s.remove(many); return null; }); return all("select count(*) from Post"); });
        steps.step("hibernate savepoint", () -> in(s -> { s.doWork(c -> { java.sql.Savepoint point = c.setSavepoint("a"); try (java.sql.Statement st = c.createStatement()) { st.executeUpdate("delete from post_tag"); st.executeUpdate("insert into ticket values (1001, 'x')"); } catch (java.sql.SQLException expected) { c.rollback(point); } c.releaseSavepoint(c.setSavepoint()); }); return list(s, "select count(*) from Post x join x.tags t"); }));
        steps.step("hibernate rollback", () -> { try { factory.inTransaction(s -> { s.persist(new Ticket("gone")); s.flush(); throw new IllegalStateException(); }); } catch (IllegalStateException expected) { } return all("select count(*) from Ticket where what = 'gone'"); });
        steps.step("hibernate isolation and read only", () -> { List<Object> seen = new ArrayList<>(); try (Session s = factory.openSession()) { s.beginTransaction(); s.createNativeMutationQuery("set transaction isolation level repeatable read, read only").executeUpdate(); seen.add(list(s, "select count(*) from Ticket")); in(o -> { o.persist(new Ticket("beside")); return null; }); seen.add(list(s, "select count(*) from Ticket where what = 'beside'")); seen.add(Steps.fails(() -> s.createMutationQuery("delete Ticket").executeUpdate())); s.getTransaction().rollback(); } seen.add(all("select count(*) from Ticket where what = 'beside'")); return seen; });
    }

    static void locks() {
        steps.step("hibernate optimistic locks", () -> { Person[] stale = new Person[1]; in(s -> stale[0] = s.createQuery("from Person where name = 'Bob'", Person.class).getSingleResult()); in(s -> { s.find(Person.class, stale[0].id).age = 1; return null; }); stale[0].age = 2; List<Object> seen = new ArrayList<>(List.of(Steps.fails(() -> in(s -> s.merge(stale[0])))).subList(0, 1)); in(s -> s.find(Person.class, stale[0].id, LockModeType.OPTIMISTIC_FORCE_INCREMENT).version); seen.set(0, String.valueOf(seen.get(0)).split(":")[0]); seen.add(all("select version, age from Person where name = 'Bob'")); return seen; });
        steps.step("hibernate pessimistic locks", () -> {
            List<Object> seen = new ArrayList<>();
            try (Session holder = factory.openSession()) {
                holder.beginTransaction();
                Person held = holder.createQuery("from Person where name = 'Ann'", Person.class).setLockMode(LockModeType.PESSIMISTIC_WRITE).getSingleResult();
                seen.add(Steps.fails(() -> in(s -> s.find(Person.class, held.id, LockModeType.PESSIMISTIC_WRITE, Map.of("jakarta.persistence.lock.timeout", 0)).name)));
                seen.add(in(s -> s.createQuery("from Person order by name", Person.class).setHibernateLockMode(LockMode.UPGRADE_SKIPLOCKED).getResultList().stream().map(p -> p.name).toList()));
                seen.add(Steps.fails(() -> in(s -> { s.createNativeMutationQuery("set local lock_timeout = '100ms'").executeUpdate(); return s.find(Person.class, held.id, LockModeType.PESSIMISTIC_READ).name; })));
                holder.getTransaction().commit();
            }
            seen.add(in(s -> s.createQuery("select x from Post x join fetch x.author where x.title = 'title 4'", Post.class).setLockMode(LockModeType.PESSIMISTIC_READ).getSingleResult().author.name));
            return seen;
        });
    }

    static void errors() {
        steps.step("hibernate errors", () -> {
            List<Object> seen = new ArrayList<>();
            List<Function<Session, Object>> all = List.of(s -> { s.persist(new Person("Ann")); s.flush(); return null; }, s -> { s.persist(new Person(null)); s.flush(); return null; }, s -> { Person p = new Person("x".repeat(60)); s.persist(p); s.flush(); return null; }, s -> { Person p = new Person("neg"); p.age = -1; s.persist(p); s.flush(); return null; }, s -> s.createNativeMutationQuery("insert into post (id, title, views, author_id) values (1, 'x', 1, 12345)").executeUpdate(), s -> s.createNativeQuery("select nothing from person", Object.class).getResultList(), s -> s.createNativeQuery("selec 1", Object.class).getResultList(), s -> s.createNativeMutationQuery("delete from tag").executeUpdate(), s -> s.createQuery("select 1 / (p.age - p.age) from Person p where p.age is not null", Object.class).getResultList(), s -> s.createNativeMutationQuery("update person set balance = 1e20").executeUpdate());
            for (Function<Session, Object> one : all) {
                try { in(one); seen.add("no error"); } catch (Exception error) { String name = ""; for (Throwable at = error; at != null; at = at.getCause()) if (at instanceof org.hibernate.exception.ConstraintViolationException violation) name = " " + violation.getKind() + " " + violation.getConstraintName(); seen.add(Steps.fault(error).replaceAll("\\s*Detail:.*|\\s*Position:.*|\\s*Call getNextException.*|Batch entry \\d+ ", "").replaceAll("(?s)insert into person.*?was aborted: ", "") + name); }
            }
            return seen;
        });
    }
}
