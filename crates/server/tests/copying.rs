//! COPY over the protocol: its messages, and the binary format in both directions. What answers to a pipeline that fails.

mod common;

use common::*;

fn ok(client: &mut Client, text: &str) {
    let (_, messages) = client.query(text);
    assert!(!messages.iter().any(|message| message.tag == b'E'), "{text}: {messages:?}");
}

/// The CopyData messages of a COPY TO, and the codes of the formats that its first message says.
fn copied(client: &mut Client, text: &str) -> (Vec<Vec<u8>>, Vec<u8>) {
    let (_, messages) = client.query(text);
    assert_eq!(messages[0].tag, b'H', "{text}: {messages:?}");
    assert_eq!(messages[messages.len() - 2].tag, b'c', "{text}");
    let data = messages.iter().filter(|message| message.tag == b'd').map(|message| message.body.to_vec()).collect();
    (data, messages[0].body.to_vec())
}

/// Sends data in pieces; the answer's messages.
fn loaded(client: &mut Client, text: &str, data: &[u8], piece: usize) -> Vec<Message> {
    client.send(&query(text));
    for piece in data.chunks(piece) {
        client.send(&message(b'd', piece));
    }
    client.send(&message(b'c', &[]));
    client.until_ready().1
}

/// There are clients that take a message for a row.
#[test]
fn each_row_is_a_message() {
    let server = TestServer::start();
    let mut client = server.client();
    ok(&mut client, "create table t (id int primary key, v text)");
    ok(
        &mut client,
        "insert into t select g, case when g % 3 = 0 then null else 'row ' || g end from generate_series(1, 20000) g",
    );
    let (rows, _) = copied(&mut client, "copy t to stdout");
    assert_eq!(rows.len(), 20_000);
    assert_eq!((rows[0].as_slice(), rows[2].as_slice()), (&b"1\trow 1\n"[..], &b"3\t\\N\n"[..]));
    assert!(rows.iter().all(|row| row.ends_with(b"\n") && row.iter().filter(|byte| **byte == b'\n').count() == 1));
    let (rows, _) = copied(&mut client, "copy t to stdout (format csv, header)");
    assert_eq!((rows.len(), rows[0].as_slice(), rows[3].as_slice()), (20_001, &b"id,v\n"[..], &b"3,\n"[..]));
    let (rows, formats) = copied(&mut client, "copy t to stdout (format binary)");
    assert_eq!(formats, [1, 0, 2, 0, 1, 0, 1]);
    // The header is in the first row's message, the trailer in one of its own, as in PostgreSQL.
    assert_eq!(rows.len(), 20_001);
    assert!(rows[0].starts_with(b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0"));
    assert_eq!(rows[0][19..], *b"\0\x02\0\0\0\x04\0\0\0\x01\0\0\0\x05row 1");
    assert_eq!(rows[2], *b"\0\x02\0\0\0\x04\0\0\0\x03\xff\xff\xff\xff");
    assert_eq!(rows[20_000], *b"\xff\xff");
    let (rows, _) = copied(&mut client, "copy (select 1 where false) to stdout with binary");
    assert_eq!(rows, [b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0\xff\xff".to_vec()]);
}

/// What goes out in the binary format comes in again, of every type that columns can have.
#[test]
fn binary_there_and_back() {
    let server = TestServer::start();
    let mut client = server.client();
    ok(&mut client, "create type mood as enum ('sad', 'happy')");
    ok(&mut client, "create domain small as int check (value < 1000)");
    let columns = "id int primary key, a smallint, b bigint, c real, d double precision, e numeric, f numeric(10,2), g text, \
                   h varchar(5), i char(4), j bytea, k date, l time, m timestamp, n timestamptz, o interval, p uuid, q json, \
                   r jsonb, s boolean, t mood, u small, v int[], w text[], x inet, y macaddr, z timestamp(1), \
                   aa timetz, ab timetz(2), ac bit(5), ad varbit(40), ae bit(3)[], af timetz[], ag varbit";
    ok(&mut client, &format!("create table t ({columns})"));
    ok(&mut client, &format!("create table u ({columns})"));
    ok(
        &mut client,
        "insert into t values (1, -3, 1099511627776, 1.5, 'NaN', 123456789012345678901234567890.12345, 12.30, E'tab\\t\"\\\\', 'abcde', 'ab', \
         '\\x00ff', '2024-02-29', '23:59:59.999999', 'infinity', '2001-01-01 12:00+02', '1 mon -2 days 03:04:05.6', \
         'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '{\"a\" : 1}', '{\"b\": [1.50, null]}', true, 'happy', 7, '{1,NULL,3}', '{\"x y\",NULL}', \
         '10.0.0.1/8', '08:00:2b:01:02:03', '2020-01-01 00:00:00.17', '12:00:00.123456+05:30', '24:00-15:59:59', B'10110', B'101100111000111100001', \
         '{101,NULL,010}', '{12:00+02,NULL}', B''), \
         (3, 32767, 0, '-Infinity', 1e300, 0.000, -0.01, '', '', '', '', '4713-01-01 BC', '24:00', '0001-01-01 BC', '-infinity', '0', null, 'null', \
         '\"\"', false, 'sad', null, '{}', '{}', '::1', null, 'infinity', '00:00+15', null, B'00000', B'1', '{}', '{}', X'00FF')",
    );
    ok(&mut client, "insert into t (id) values (2)");
    let (rows, _) = copied(&mut client, "copy t to stdout (format binary)");
    let data: Vec<u8> = rows.concat();
    for piece in [1, 7, 100, 1 << 20] {
        ok(&mut client, "truncate u");
        assert_eq!(loaded(&mut client, "copy u from stdin with (format binary)", &data, piece)[1].text(), "COPY 3");
        let lines = |client: &mut Client, table: &str| copied(client, &format!("copy {table} to stdout")).0;
        assert_eq!(lines(&mut client, "u"), lines(&mut client, "t"));
    }
    // A part of the columns, in another order.
    ok(&mut client, "truncate u");
    let (rows, _) = copied(&mut client, "copy t (g, id) to stdout binary");
    assert_eq!(loaded(&mut client, "copy u (g, id) from stdin binary", &rows.concat(), 64)[1].text(), "COPY 3");
    assert_eq!(client.rows("select count(*) from t join u using (id) where t.g is not distinct from u.g"), ["3"]);
}

/// The bytes are PostgreSQL's: a time and its zone to the west; how many bits there are, and the bits.
#[test]
fn times_with_zones_and_bits_in_binary() {
    let server = TestServer::start();
    let mut client = server.client();
    let (rows, _) =
        copied(&mut client, "copy (select timetz '12:00+02', B'101', varbit 'xFF0', array[B'1']) to stdout binary");
    let row =
        b"\0\x04\0\0\0\x0c\0\0\0\x0a\x0e\xeb\xb0\0\xff\xff\xe3\xe0\0\0\0\x05\0\0\0\x03\xa0\0\0\0\x06\0\0\0\x0c\xff\0\
                \0\0\0\x1d\0\0\0\x01\0\0\0\0\0\0\x06\x18\0\0\0\x01\0\0\0\x01\0\0\0\x05\0\0\0\x01\x80";
    assert_eq!(rows[0][19..], *row);
    ok(&mut client, "create table t (b bit(5), v varbit(5), z timetz)");
    for (column, value, state) in [
        ("b", &[0, 0, 0, 3, 0xa0][..], "22026"),
        ("b", &[0, 0, 0, 5][..], "08P01"),
        ("v", &[0, 0, 0, 6, 0xff][..], "22001"),
        ("v", &[0xff; 5][..], "22P03"),
        ("z", &[0x7f; 12][..], "22008"),
        ("z", &[0, 0, 0, 0, 0, 0, 0, 0, 0x7f, 0, 0, 0][..], "22009"),
    ] {
        let mut data = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0\0\x01\0\0\0".to_vec();
        data.push(value.len() as u8);
        data.extend(value);
        data.extend([0xff, 0xff]);
        let messages = loaded(&mut client, &format!("copy t ({column}) from stdin binary"), &data, 64);
        assert_eq!(error(&messages).sqlstate(), state, "{column} {value:?}");
    }
    assert_eq!(client.rows("select count(*) from t"), ["0"]);
}

#[test]
fn binary_data_that_is_wrong() {
    let server = TestServer::start();
    let mut client = server.client();
    ok(&mut client, "create table t (a int, b varchar(3), c numeric(4,1) check (c > 0))");
    let header = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";
    let row = |a: &[u8], b: &[u8], c: &[u8]| {
        let mut out = header.to_vec();
        out.extend([0, 3]);
        for field in [a, b, c] {
            out.extend((field.len() as i32).to_be_bytes());
            out.extend(field);
        }
        out.extend([0xff, 0xff]);
        out
    };
    // 12.34 as numeric: two digits of four, weight 0, positive, two digits shown.
    let number = [0, 2, 0, 0, 0, 0, 0, 2, 0, 12, 0x0d, 0x48];
    let negative = [0, 1, 0, 0, 0x40, 0, 0, 0, 0, 12];
    let one = [0, 0, 0, 1];
    for (data, state, message, context) in [
        (b"a\tb\n".to_vec(), "22P04", "COPY file signature not recognized", None),
        (row(&[1], b"x", &number), "22P03", "incorrect binary data format", Some("COPY t, line 1, column a")),
        (
            row(&one, b"long", &number),
            "22001",
            "value too long for type character varying(3)",
            Some("COPY t, line 1, column b"),
        ),
        (row(&one, &[0xff], &number), "22021", "invalid byte sequence", Some("COPY t, line 1, column b")),
        (row(&one, b"x", &negative), "23514", "violates check constraint", Some("COPY t, line 1")),
        (
            header.iter().copied().chain([0, 1]).collect(),
            "22P04",
            "row field count is 1, expected 3",
            Some("COPY t, line 1"),
        ),
        (row(&one, b"x", &number)[..30].to_vec(), "22P04", "unexpected EOF in COPY data", Some("COPY t, line 1")),
    ] {
        let messages = loaded(&mut client, "copy t from stdin binary", &data, 9);
        let error = error(&messages);
        assert_eq!(error.sqlstate(), state, "{messages:?}");
        assert!(error.field(b'M').is_some_and(|text| text.contains(message)), "{messages:?}");
        if let Some(context) = context {
            assert_eq!(error.field(b'W').as_deref(), Some(context));
        }
        assert_eq!(client.rows("select count(*) from t"), ["0"]);
    }
    assert_eq!(loaded(&mut client, "copy t from stdin binary", &row(&one, b"abc", &number), 5)[1].text(), "COPY 1");
    assert_eq!(client.rows("select b || c from t"), ["abc12.3"]);
}

/// Rows are inserted several at a time. Which of two errors is told, and of which line, is what PostgreSQL 15 says: what is wrong with a
/// row by itself comes before a key that is there, unless so many rows are between them; of keys that are there the first.
#[test]
fn which_of_two_errors_is_told() {
    let server = TestServer::start();
    let mut client = server.client();
    for text in [
        "create table t (a int primary key, b int not null, c int check (c < 100), u int unique)",
        "create table v (a int primary key, b float default random())",
        "create table s (a int primary key, b serial)",
        "create table g (a int primary key, b int generated always as (10 / a) stored check (b > -5))",
        "create table p (a int primary key, b int, unique (a, b))",
        "create table c (a int primary key, p int references p)",
        "create table d (a int, p int references p, unique (a) deferrable)",
        "create table f (a int, b int, foreign key (a, b) references p (a, b) match full)",
        "create table l (a int primary key, b text)",
        "insert into t values (5, 1, 1, 1)",
        "insert into v values (5)",
        "insert into s values (5)",
        "insert into g values (5)",
        "insert into p values (1, 1)",
        "insert into l values (5)",
    ] {
        ok(&mut client, text);
    }
    let many = |rows: i32| -> String {
        (0..rows).map(|row| format!("{}\t1\t1\t\\N\n", if row == 0 { 5 } else { 10 + row })).collect()
    };
    let fine = |rows: i32| -> String { (0..rows).map(|row| format!("{}\t1\t1\t\\N\n", 10 + row)).collect() };
    let long = |rows: i32| -> String {
        // As many bytes as are one number too many, or one too few.
        (0..rows)
            .map(|row| format!("{}\t{}1\t1\t\\N\n", if row == 0 { 5 } else { 10 + row }, "0".repeat(3990)))
            .collect()
    };
    let large = format!("7\t{}\n5\tx\n", "y".repeat(9000));
    let given = |text: &str| text.to_owned();
    for (table, data, state, context) in [
        ("t", given("1\t1\t1\t11\n5\t1\t1\t12\nx\t1\t1\t13\n"), "22P02", Some("COPY t, line 3, column a: \"x\"")),
        ("t", given("1\t1\t1\t11\n5\t1\t1\t12\n7\t\\N\t1\t13\n"), "23502", Some("COPY t, line 3: \"7\t\\N\t1\t13\"")),
        ("t", given("5\t1\t1\t12\n7\t1\t100\t13\n"), "23514", Some("COPY t, line 2: \"7\t1\t100\t13\"")),
        ("t", given("1\t1\t1\t11\n2\t1\t1\t1\n5\t1\t1\t13\n"), "23505", Some("COPY t, line 2")),
        ("t", given("9\t1\t1\t11\n5\t1\t1\t12\n1\t1\t1\t1\n"), "23505", Some("COPY t, line 2")),
        ("t", given("8\t1\t1\t11\n9\t1\t1\t12\n8\t1\t1\t13\n"), "23505", Some("COPY t, line 3")),
        ("t", many(999) + "x\t1\t1\t1\n", "22P02", Some("COPY t, line 1000, column a: \"x\"")),
        ("t", many(1000) + "x\t1\t1\t1\n", "23505", Some("COPY t, line 1")),
        ("t", long(16) + "x\t1\t1\t1\n", "22P02", Some("COPY t, line 17, column a: \"x\"")),
        ("t", long(17) + "x\t1\t1\t1\n", "23505", Some("COPY t, line 1")),
        ("t", fine(1000) + "5\t1\t1\t1\nx\t1\t1\t1\n", "22P02", Some("COPY t, line 1002, column a: \"x\"")),
        ("t", fine(1000) + "5\t1\t1\t1\n2000\t1\t200\t1\n", "23514", Some("COPY t, line 1002: \"2000\t1\t200\t1\"")),
        ("t", fine(1000) + "5\t1\t1\t1\n", "23505", Some("COPY t, line 1001")),
        ("v (a)", given("1\n5\nx\n"), "23505", Some("COPY v, line 2: \"5\"")),
        ("s (a)", given("1\n5\nx\n"), "22P02", Some("COPY s, line 3, column a: \"x\"")),
        ("s (a)", given("1\n5\n"), "23505", Some("COPY s, line 2")),
        ("g", given("1\n5\nx\n"), "22P02", Some("COPY g, line 3, column a: \"x\"")),
        ("g", given("1\n5\n-1\n0\n"), "23514", Some("COPY g, line 3: \"-1\"")),
        ("c", given("1\t1\n2\t9\n1\t1\n"), "23505", Some("COPY c, line 3")),
        ("c", given("1\t1\n2\t9\n3\t1\n"), "23503", None),
        ("c", given("1\t1\n2\t9\nx\t1\n"), "22P02", Some("COPY c, line 3, column a: \"x\"")),
        ("d", given("1\t1\n2\t1\n1\t1\n2\t2\n"), "23505", None),
        ("d", given("1\t1\n2\t9\n1\t1\n"), "23503", None),
        ("f", given("1\t1\n1\t\\N\n3\t3\n"), "23503", None),
        ("f", given("1\t1\n1\t\\N\nx\t3\n"), "22P02", Some("COPY f, line 3, column a: \"x\"")),
        ("l", large, "23505", Some("COPY l, line 2")),
    ] {
        let start = format!("{table}: {}", &data[..data.len().min(60)]);
        for piece in [1000, 1 << 20] {
            let messages = loaded(&mut client, &format!("copy {table} from stdin"), data.as_bytes(), piece);
            let error = error(&messages);
            assert_eq!((error.sqlstate().as_str(), error.field(b'W').as_deref()), (state, context), "{start}");
            assert_eq!(client.rows("select count(*) from t"), ["1"]);
        }
    }
    // As in PostgreSQL each row is in before the next where a function may look.
    let data = b"1\t1\t1\t11\n5\t1\t1\t12\nx\t1\t1\t13\n";
    let messages = loaded(&mut client, "copy t from stdin where random() < 2", data, 1000);
    assert_eq!(error(&messages).field(b'W').as_deref(), Some("COPY t, line 2: \"5\t1\t1\t12\""));
    assert_eq!(loaded(&mut client, "copy t from stdin", fine(5000).as_bytes(), 777)[1].text(), "COPY 5000");
    assert_eq!(client.rows("select count(*) from t"), ["5001"]);
    // Of an INSERT of several rows the first that cannot be inserted is told, whatever is wrong with those behind it.
    for (text, state, detail) in [
        ("values (2, 1, 1, 2), (5, 1, 1, 3), (7, null, 1, 4)", "23505", Some("Key (a)=(5) already exists.")),
        ("values (2, 1, 1, 2), (3, null, 1, 3), (5, 1, 1, 4)", "23502", Some("Failing row contains (3, null, 1, 3).")),
        ("values (9, 1, 1, 2), (3, 1, 1, 1), (5, 1, 1, 4)", "23505", Some("Key (u)=(1) already exists.")),
        ("select 8 - g, 1, 1, 10 + g from generate_series(1, 5) g", "23505", Some("Key (a)=(5) already exists.")),
        (
            "select g, 1, 1 + 99 * (g / 9), 10 + g from generate_series(1, 9) g",
            "23505",
            Some("Key (a)=(5) already exists."),
        ),
        ("values (2, 1, 1, 2), (5, 1, 1, 3), (7, 1, 1, 4) returning 1 / (a - 2)", "22012", None),
        (
            "values (2, 1, 1, 2), (5, 1, 1, 3), (7, 1, 1, 4) returning 1 / (a - 7)",
            "23505",
            Some("Key (a)=(5) already exists."),
        ),
    ] {
        let messages = client.query(&format!("insert into t {text}")).1;
        let error = error(&messages);
        assert_eq!((error.sqlstate().as_str(), error.field(b'D').as_deref()), (state, detail), "{text}");
    }
    assert_eq!(client.rows("select count(*) from t"), ["5001"]);
}

/// A text that COPY reads is the value, or the error, that it is in an INSERT: of plain ones, which are read at once, and of those that are
/// nearly plain.
#[test]
fn values_are_those_of_an_insert() {
    let server = TestServer::start();
    let mut client = server.client();
    ok(&mut client, "set timezone = 'Europe/Berlin'");
    let mut seed = 9u64;
    let mut below = |n: usize| {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (seed >> 33) as usize % n
    };
    let (dates, times) = (["2024-02-29", "1999-12-31", "0001-01-01"], ["2024-02-29 23:59:59.5", "2024-03-31 02:30:00"]);
    let types: [(&str, &[&str]); 13] = [
        ("smallint", &["32767", "-32768", "7"]),
        ("integer", &["2147483647", "-2147483648", "0"]),
        ("bigint", &["9223372036854775807", "-9223372036854775808", "123456789012345678"]),
        ("numeric(15,2)", &["9999999999999.99", "-0.005", "1.5", "100"]),
        ("numeric(4,4)", &["0.9999", "-.1"]),
        ("numeric(18)", &["999999999999999999", "-1"]),
        ("date", &dates),
        ("time", &["23:59:59.999999", "00:00:00"]),
        ("timestamp", &times),
        ("timestamptz", &["2024-02-29 23:59:59.5+02", "2024-03-31 02:30:00", "2024-10-27 02:30:00-05:30"]),
        ("boolean", &["t", "f", "true", "no"]),
        ("varchar(5)", &["abcde", "äöüßé", ""]),
        ("char(5)", &["abcde", "ab  "]),
    ];
    let (mut values, mut errors) = (0, 0);
    for (ty, seeds) in types {
        for name in ["c", "i"] {
            ok(&mut client, &format!("drop table if exists {name}"));
            ok(&mut client, &format!("create table {name} (n int, v {ty})"));
        }
        for number in 0..200 {
            let mut text = seeds[below(seeds.len())].to_owned();
            for _ in 0..below(4) {
                let at = below(text.chars().count() + 1);
                let at = text.char_indices().nth(at).map_or(text.len(), |(at, _)| at);
                let other = ["0", "9", "5", "-", "+", ".", ":", " ", "e", "x", "ä", "00"][below(12)];
                match below(3) {
                    0 => text.insert_str(at, other),
                    1 => {
                        text = text[..at].to_owned()
                            + other
                            + text[at..].chars().next().map_or("", |c| &text[at + c.len_utf8()..])
                    }
                    _ => text.truncate(at),
                }
            }
            if ty.starts_with("numeric") && text.contains('e') {
                continue; // of a constant PostgreSQL itself says something else
            }
            let line = format!("{number}\t{text}\n");
            let copied = loaded(&mut client, "copy c from stdin", line.as_bytes(), 1000);
            let inserted = client.query(&format!("insert into i values ({number}, '{text}')")).1;
            let told = |messages: &[Message]| {
                let error = messages.iter().find(|message| message.tag == b'E')?;
                Some((error.sqlstate(), error.field(b'M'), error.field(b'D'), error.field(b'H')))
            };
            assert_eq!(told(&copied), told(&inserted), "{ty} {text:?}");
            if told(&copied).is_none() {
                values += 1;
                continue;
            }
            errors += 1;
            let context = error(&copied).field(b'W');
            assert_eq!(context, Some(format!("COPY c, line 1, column v: \"{text}\"")), "{ty}");
        }
        let differ = "select count(*) from c full join i on c.n = i.n where c.v is distinct from i.v or c.v::text is distinct from i.v::text";
        assert_eq!(client.rows(differ), ["0"], "{ty}");
    }
    assert!(values > 500 && errors > 500, "{values} values, {errors} errors");
}

/// Messages that have come together are taken together: nothing shows it.
#[test]
fn short_messages() {
    let server = TestServer::start();
    let mut client = server.client();
    ok(&mut client, "create table t (a int primary key, b text)");
    let rows: Vec<u8> = (0..5000).flat_map(|n| format!("{n}\trow {n}\n").into_bytes()).collect();
    for piece in [1, 3, 11, 100_000] {
        let data = if piece == 1 { &rows[..5000] } else { &rows[..] };
        let data = &data[..=data.iter().rposition(|byte| *byte == b'\n').expect("a line")];
        let lines = data.iter().filter(|byte| **byte == b'\n').count();
        let messages = loaded(&mut client, "copy t from stdin", data, piece);
        assert_eq!(messages[1].text(), format!("COPY {lines}"), "by {piece}");
        let wanted = format!("{lines}|{}", lines * (lines - 1) / 2);
        assert_eq!(client.rows("select count(*) || '|' || sum(a) from t where b = 'row ' || a"), [wanted]);
        ok(&mut client, "truncate t");
    }
    // What ends it comes right behind, and what is wrong with a row before it is told first.
    for (ending, state) in [(message(b'f', b"enough\0"), "57014"), (message(b'c', &[]), "22P02")] {
        let mut all = query("copy t from stdin");
        let data: &[&[u8]] =
            if state == "22P02" { &[b"1\ta\n", b"2\tb\nx", b"\tc\n"] } else { &[b"1\ta\n", b"2\tb\n"] };
        data.iter().for_each(|piece| all.extend(message(b'd', piece)));
        all.extend(ending);
        client.send(&all);
        let (_, messages) = client.until_ready();
        assert_eq!(error(&messages).sqlstate(), state);
        if state == "22P02" {
            assert_eq!(error(&messages).field(b'W').as_deref(), Some("COPY t, line 3, column a: \"x\""));
        }
        assert_eq!(client.rows("select count(*) from t"), ["0"]);
    }
}

/// Whoever inserts many rows has those of one leaf inserted by one record of the log.
#[test]
fn many_rows_are_inserted_in_runs() {
    if std::env::var("RESURGAM_MODE").as_deref() == Ok("traditional") {
        return; // undo through the log has each row by itself
    }
    let server = TestServer::start();
    let mut client = server.client();
    for text in [
        "create table p (id int primary key)",
        "create table t (id int primary key, n int references p, k int unique deferrable, s serial, w text default 'w')",
        "create view big as select * from t where id > 0 with check option",
        "create temporary table r (id int primary key, v text)",
    ] {
        ok(&mut client, text);
    }
    let runs = |client: &mut Client| -> i64 {
        client.rows("select rows_inserted_in_runs from resurgam_log")[0].parse().expect("a number")
    };
    let lines =
        |first: i32, rows: i32| -> String { (first..first + rows).map(|id| format!("{id}\t1\t{id}\n")).collect() };
    let mut before = runs(&mut client);
    let mut grown = |client: &mut Client, least: i64, what: &str| {
        let now = runs(client);
        assert!(now - before >= least, "{what}: {} of {least}", now - before);
        before = now;
    };
    ok(&mut client, "insert into p select g from generate_series(1, 1000) g");
    grown(&mut client, 990, "INSERT of a query");
    let data = lines(1, 3000);
    assert_eq!(loaded(&mut client, "copy t (id, n, k) from stdin", data.as_bytes(), 5000)[1].text(), "COPY 3000");
    grown(&mut client, 5900, "COPY");
    let rows: Vec<String> = (5001..5051).map(|id| format!("({id}, 2, {id})")).collect();
    let insert = format!("insert into big (id, n, k) values {} returning id", rows.join(", "));
    let returned: Vec<String> = (5001..5051).map(|id| id.to_string()).collect();
    assert_eq!(client.rows(&insert), returned);
    grown(&mut client, 95, "INSERT of VALUES");
    ok(
        &mut client,
        "with w as (insert into r select g, 'x' from generate_series(1, 500) g returning id) select count(*) from w",
    );
    grown(&mut client, 490, "INSERT in WITH");
    ok(&mut client, "create table made as select id, w from t");
    grown(&mut client, 3000, "CREATE TABLE AS");
    ok(&mut client, "select id, w into taken from t");
    grown(&mut client, 3000, "SELECT INTO");
    assert_eq!(client.rows("select count(*), min(s), max(s), count(distinct s) from t"), ["3050"]);
    assert_eq!(client.rows("select (select count(*) from made) + (select count(*) from taken)"), ["6100"]);
}

/// Rows that are inserted together wait for whoever has one of their keys, and go on or fail by what becomes of him.
#[test]
fn many_rows_wait_for_others() {
    let server = TestServer::start();
    let (mut client, mut other) = (server.client(), server.client());
    ok(&mut client, "create table t (id int primary key, u int unique)");
    let data: String = (1..=3000).map(|id| format!("{id}\t{id}\n")).collect();
    for (copied, held, kept) in [
        (true, "(1500, null)", true),
        (true, "(0, 1500)", true),
        (true, "(0, 1500)", false),
        (false, "(1500, null)", true),
        (false, "(0, 1500)", false),
    ] {
        ok(&mut client, "truncate t");
        ok(&mut other, "begin");
        ok(&mut other, &format!("insert into t values {held}"));
        let answer = std::thread::scope(|scope| {
            let writing = scope.spawn(|| match copied {
                true => loaded(&mut client, "copy t from stdin", data.as_bytes(), 10_000),
                false => client.query("insert into t select g, g from generate_series(1, 3000) g").1,
            });
            std::thread::sleep(std::time::Duration::from_millis(400));
            assert!(!writing.is_finished(), "it did not wait");
            ok(&mut other, if kept { "commit" } else { "rollback" });
            writing.join().expect("a thread")
        });
        let shown = format!("copied {copied}, held {held}, kept {kept}");
        if kept {
            let error = error(&answer);
            assert_eq!(error.sqlstate(), "23505", "{shown}");
            assert_eq!(error.field(b'W').as_deref(), copied.then_some("COPY t, line 1500"), "{shown}");
            assert_eq!(client.rows("select count(*) from t"), ["1"], "{shown}");
        } else {
            assert!(!answer.iter().any(|message| message.tag == b'E'), "{shown}: {answer:?}");
            assert_eq!(client.rows("select count(*) from t where id = u"), ["3000"], "{shown}");
        }
    }
}

/// Rows that are on their way in can be stopped, and then none of them is in.
#[test]
fn many_rows_can_be_stopped() {
    let server = TestServer::start();
    let mut client = server.client();
    ok(&mut client, "create table t (id int primary key, u int)");
    ok(&mut client, "create index on t (u)");
    ok(&mut client, "set statement_timeout = '150ms'");
    let insert = "insert into t select g, (g::bigint * 7919 % 1000003)::int from generate_series(100, 5000000) g";
    assert_eq!(error(&client.query(insert).1).sqlstate(), "57014");
    ok(&mut client, "begin");
    ok(&mut client, "insert into t values (1, 1), (2, 2)");
    ok(&mut client, "savepoint s");
    assert_eq!(error(&client.query(insert).1).sqlstate(), "57014");
    ok(&mut client, "rollback to s");
    ok(&mut client, "insert into t values (3, 3), (4, 4)");
    ok(&mut client, "commit");
    ok(&mut client, "reset statement_timeout");
    assert_eq!(client.rows("select id from t order by id"), ["1", "2", "3", "4"]);
    assert_eq!(client.rows("select count(*) from t where u > 0"), ["4"]);
    // A client that gives up.
    client.send(&query("copy t from stdin"));
    let data: String = (10..4000).map(|id| format!("{id}\t{id}\n")).collect();
    client.send(&message(b'd', data.as_bytes()));
    client.send(&message(b'f', b"enough\0"));
    assert_eq!(error(&client.until_ready().1).sqlstate(), "57014");
    assert_eq!(client.rows("select count(*) from t"), ["4"]);
}

/// Of a COPY that a crash cuts off no row is there, of one that was committed all are.
#[test]
fn a_crash_cuts_a_copy_off() {
    let dir = tempfile::tempdir().expect("folder");
    let data = dir.path().join("data");
    let traditional = std::env::var("RESURGAM_MODE").as_deref() == Ok("traditional");
    let flags: &[&str] = if traditional { &["--accelerated-database-recovery=off"] } else { &[] };
    let lines = |first: i32, rows: i32| -> String {
        (first..first + rows)
            .map(|id| format!("{id}\t{}\tsome text of {id}\n", id.wrapping_mul(7919) % 100_003))
            .collect()
    };
    let process = process::Process::start(&data, flags);
    let mut client = process.client();
    ok(&mut client, "create table t (id int primary key, k int, v text)");
    ok(&mut client, "create index by_k on t (k)");
    let first = lines(1, 20_000);
    assert_eq!(loaded(&mut client, "copy t from stdin", first.as_bytes(), 1 << 16)[1].text(), "COPY 20000");
    let mut other = process.client();
    ok(&mut other, "create table u (id int primary key)");
    let end = other.rows("select end_lsn from resurgam_log").concat();
    client.send(&query("copy t from stdin"));
    let second = lines(20_001, 60_000);
    for piece in second.as_bytes().chunks(1 << 16) {
        client.send(&message(b'd', piece));
    }
    // What is in of it is in the log when another's commit is durable.
    let written = format!("select end_lsn > {end} + 1000000 from resurgam_log");
    while other.rows(&written) != ["t"] {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    ok(&mut other, "insert into u values (1), (2), (3)");
    process.kill();
    let process = process::Process::start(&data, flags);
    let mut client = process.client();
    assert_eq!(client.rows("select count(*) || ' ' || max(id) || ' ' || sum(k) from t"), {
        let sum: i64 = (1..=20_000i64).map(|id| id * 7919 % 100_003).sum();
        [format!("20000 20000 {sum}")]
    });
    assert_eq!(client.rows("select count(*) from t where k >= 0"), ["20000"]);
    assert_eq!(client.rows("select count(*) from u"), ["3"]);
    assert_eq!(loaded(&mut client, "copy t from stdin", second.as_bytes(), 1 << 16)[1].text(), "COPY 60000");
    assert_eq!(client.rows("select count(*) from t"), ["80000"]);
    process.stop();
}

/// A client that asks for what there is, by Flush, gets the error, too; what it sent after that statement is skipped.
#[test]
fn an_error_in_a_pipeline_goes_out_at_once() {
    let server = TestServer::start();
    let mut client = server.client();
    let mut bytes = Vec::new();
    for text in ["select 1", "select 1 / 0", "select 2"] {
        bytes.extend(parse("", text));
        bytes.extend(bind("", "", &[]));
        bytes.extend(execute("", 0));
    }
    bytes.extend(message(b'H', &[]));
    client.send(&bytes);
    // Without a Sync: this would wait for ever.
    let mut tags = String::new();
    while !tags.ends_with('E') {
        tags.push(char::from(client.next().expect("an answer").tag));
    }
    assert_eq!(tags, "12DC12E");
    client.send(&sync());
    assert_eq!(client.until_ready().1.iter().filter(|message| message.tag != b'Z').count(), 0);
}

/// Columns of FETCH and EXECUTE are those of the cursor and the statement that are there at Bind.
#[test]
fn fetch_and_execute_are_described_when_they_are_bound() {
    let server = TestServer::start();
    let mut client = server.client();
    let mut bytes = parse("f", "fetch all in c");
    bytes.extend(parse("e", "execute p"));
    bytes.extend(sync());
    client.send(&bytes);
    client.until_ready();
    ok(&mut client, "begin");
    ok(&mut client, "declare c cursor for select n, n::text as str from generate_series(1, 3) n");
    ok(&mut client, "prepare p as select 7 as seven");
    for (name, columns, rows) in [("f", 2, 3), ("e", 1, 1)] {
        let mut bytes = bind("", name, &[]);
        bytes.extend(describe(b'P', ""));
        bytes.extend(execute("", 0));
        bytes.extend(sync());
        client.send(&bytes);
        let messages = client.until_ready().1;
        let described = messages.iter().find(|message| message.tag == b'T').unwrap_or_else(|| panic!("{messages:?}"));
        assert_eq!(described.body[..2], [0, columns], "{name}");
        assert_eq!(messages.iter().filter(|message| message.tag == b'D').count(), rows, "{name}");
    }
}

/// Rows that WHERE leaves out, headers that are looked at, options in their old form: as PostgreSQL 15 has them.
#[test]
fn conditions_headers_and_old_options() {
    let server = TestServer::start();
    let mut client = server.client();
    ok(&mut client, "create domain pos as int check (value > 0)");
    ok(&mut client, "create table t (a int, b text, c int default 7)");
    ok(&mut client, "create table g (a int, b int generated always as (a * 2) stored)");
    ok(&mut client, "create table d (a pos, b int)");
    for (text, data, answer) in [
        ("COPY t FROM STDIN WHERE a > 1", "1\tx\t1\n2\ty\t2\n3\tz\t3\n", "COPY 2"),
        (
            "copy t (a, b) from stdin with (format csv, header match) where b <> 'x' and c = 7",
            "a,b\n1,x\n4,w\n",
            "COPY 1",
        ),
        ("COPY t (a, b) FROM STDIN (HEADER MATCH)", "a\tb\n5\tv\n", "COPY 1"),
        ("COPY t (a, b) FROM STDIN (HEADER MATCH)", "a\tc\n5\tv\n", "22P04"),
        ("COPY t (a, b) FROM STDIN (HEADER MATCH)", "", "22P04"),
        ("COPY t (a, b) FROM STDIN (HEADER MATCH, FORMAT csv)", "\"a\",\"b\"\n6,u\n", "COPY 1"),
        ("COPY t FROM STDIN WHERE a IS NULL", "8\tx\t1\n", "COPY 0"),
        ("COPY t FROM STDIN WHERE NULL", "8\tx\t1\n", "COPY 0"),
        ("COPY t FROM STDIN WHERE 1 / (a - 9) > 0", "8\tx\t1\n9\tx\t1\n", "22012"),
        ("COPY d FROM STDIN WHERE b > 1", "1\t2\n2\t1\n", "COPY 1"),
        // A value becomes one of a domain before anything is asked.
        ("COPY d FROM STDIN WHERE b > 1", "1\t2\n-1\t1\n", "23514"),
        ("COPY g FROM STDIN WHERE a > 1", "1\n2\n", "COPY 1"),
        ("COPY t FROM STDIN USING DELIMITERS ';' WITH NULL AS 'nil'", "10;nil;3\n", "COPY 1"),
        ("COPY t FROM STDIN DELIMITERS ',' CSV QUOTE '''' FORCE NOT NULL b", "11,,3\n12,'a,b',4\n", "COPY 2"),
    ] {
        let messages = loaded(&mut client, text, data.as_bytes(), 3);
        let last = messages.iter().find(|message| matches!(message.tag, b'C' | b'E')).expect(text);
        let found = if last.tag == b'E' { last.sqlstate() } else { last.text() };
        assert_eq!(found, answer, "{text}");
    }
    for (text, expected) in [
        (
            "COPY (SELECT * FROM t ORDER BY a, b) TO STDOUT",
            "2\ty\t2\n3\tz\t3\n4\tw\t7\n5\tv\t7\n6\tu\t7\n10\t\\N\t3\n11\t\t3\n12\ta,b\t4\n",
        ),
        (
            "COPY (SELECT a, b FROM t WHERE a < 4 ORDER BY a) TO STDOUT WITH (FORMAT csv, FORCE_QUOTE *, HEADER)",
            "a,b\n\"2\",\"y\"\n\"3\",\"z\"\n",
        ),
        ("COPY (SELECT a, b FROM t WHERE a < 3) TO STDOUT CSV FORCE QUOTE *", "\"2\",\"y\"\n"),
        ("COPY (SELECT a, b FROM t WHERE a < 3) TO STDOUT CSV FORCE QUOTE a", "\"2\",y\n"),
        ("COPY (TABLE d) TO STDIN WITH DELIMITER AS '|' HEADER", "a|b\n1|2\n"),
        ("COPY (SELECT b FROM g) TO STDOUT", "4\n"),
    ] {
        assert_eq!(String::from_utf8_lossy(&copied(&mut client, text).0.concat()), expected, "{text}");
    }
}
