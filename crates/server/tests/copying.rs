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
