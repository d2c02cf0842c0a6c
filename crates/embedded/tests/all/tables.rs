//! What tables do: rows by key and by index, ranges, iterators over what changes.

use std::ops::Bound;

use resurgam_embedded::{Error, Table, Timestamp, Uuid, row};

use crate::open;

row! {
    #[derive(Debug, Clone, PartialEq)]
    pub struct User in "users" {
        pub id: i64,
        pub email: String,
        pub city: Option<String>,
        pub age: u8,
    }
    key(id: i64);
    unique email(email);
    index city(city, age);
}

fn user(id: i64, city: Option<&str>, age: u8) -> User {
    User { id, email: format!("u{id}@example.com"), city: city.map(str::to_owned), age }
}

row! {
    #[derive(Debug, Clone, PartialEq)]
    struct Everything in "everything" {
        r#type: String,
        uuid: Uuid,
        flag: bool,
        tiny: i8,
        small: i16,
        word: u16,
        int: i32,
        long: u32,
        huge: u64,
        real: f32,
        double: f64,
        bytes: Vec<u8>,
        four: [u8; 4],
        at: Timestamp,
        none: Option<i64>,
        some: Option<Vec<u8>>,
    }
    key(r#type: String, uuid: Uuid);
    index many(huge, real, at, flag);
}

const NAMES: Table<String, u64> = Table::new("names");
const PAIRS: Table<(String, i32), (String, Option<f64>)> = Table::new("pairs");
const SET: Table<i64, ()> = Table::new("set");
const BLOBS: Table<Vec<u8>, Vec<u8>> = Table::new("blobs");

#[test]
fn every_type_comes_back() {
    let (dir, db) = open();
    let one = Everything {
        r#type: "ż".into(),
        uuid: Uuid([9; 16]),
        flag: true,
        tiny: -128,
        small: i16::MIN,
        word: u16::MAX,
        int: i32::MIN,
        long: u32::MAX,
        huge: u64::MAX,
        real: f32::MIN_POSITIVE,
        double: -0.0,
        bytes: vec![0; 100_000],
        four: [0, 1, 2, 3],
        at: Timestamp::from_micros(-1),
        none: None,
        some: Some(Vec::new()),
    };
    db.write(|tx| tx.rows::<Everything>()?.insert(&one)).unwrap();
    db.close().unwrap();
    let db = crate::options().open(dir.path().join("db")).unwrap();
    db.read(|tx| {
        let rows = tx.rows::<Everything>()?;
        assert_eq!(rows.get(&("ż", Uuid([9; 16])))?.as_ref(), Some(&one));
        assert_eq!(rows.by("many")?.all(&(u64::MAX, f32::MIN_POSITIVE, one.at, true))?.count(), 1);
        assert_eq!(rows.prefix(&("ż",))?.count(), 1);
        Ok(())
    })
    .unwrap();
}

#[test]
fn rows_by_key() {
    let (_dir, db) = open();
    db.write(|tx| {
        let users = tx.rows::<User>()?;
        assert!(users.is_empty()?);
        assert!(!users.put(&user(2, Some("Lyon"), 20))?);
        users.insert(&user(1, None, 30))?;
        assert!(users.put(&user(2, Some("Oslo"), 21))?);
        users.update(&user(1, Some("Oslo"), 31))?;
        assert_eq!(users.count()?, 2);
        assert_eq!(users.first()?.unwrap().age, 31);
        assert_eq!(users.last()?.unwrap().age, 21);
        assert!(users.modify(&2, |user| user.age += 1)?);
        assert!(users.modify(&2, |user| user.id = 7)?);
        assert!(!users.modify(&2, |_| panic!("there is no such row"))?);
        assert_eq!(users.get(&7)?.unwrap().age, 22);
        assert!(users.contains(&1)? && !users.contains(&2)?);
        assert_eq!(users.take(&7)?.unwrap().email, "u2@example.com");
        assert_eq!(users.take(&7)?, None);
        assert!(!users.delete(&7)?);
        assert!(users.delete(&1)?);
        assert!(users.is_empty()? && users.first()?.is_none() && users.pop_first()?.is_none());
        Ok(())
    })
    .unwrap();
}

#[test]
fn what_is_refused_is_named() {
    let (_dir, db) = open();
    let text = |error: Error| error.to_string();
    db.write(|tx| {
        let users = tx.rows::<User>()?;
        users.insert(&user(1, None, 1))?;
        let twice = users.insert(&user(1, None, 1)).unwrap_err();
        assert!(matches!(&twice, Error::Duplicate { index, .. } if index == "users_pkey"));
        assert_eq!(text(twice), "table \"users\" has a row with (id)=(1) already, of which index \"users_pkey\" allows one");
        let email = User { id: 2, ..user(1, None, 1) };
        for error in [users.insert(&email).unwrap_err(), users.put(&email).unwrap_err()] {
            assert_eq!(
                text(error),
                "table \"users\" has a row with (email)=(\"u1@example.com\") already, of which index \"users_email_key\" allows one"
            );
        }
        users.insert(&user(3, None, 1))?;
        let taken = users.modify(&3, |user| user.email = "u1@example.com".into()).unwrap_err();
        assert!(matches!(taken, Error::Duplicate { .. }));
        assert_eq!(text(users.update(&user(9, None, 1)).unwrap_err()), "table \"users\" has no row with (id)=(9)");
        let zero = User { email: "a\0".into(), ..user(4, None, 1) };
        assert_eq!(
            text(users.insert(&zero).unwrap_err()),
            "column \"email\" of table \"users\": expected text without zero bytes, found a zero byte"
        );
        let long = User { email: "x".repeat(5000), ..user(4, None, 1) };
        let error = users.insert(&long).unwrap_err();
        assert!(matches!(error, Error::TooLong { .. }), "{error}");
        let names = tx.table(&NAMES)?;
        assert!(matches!(names.put(&"x".repeat(2000), &1), Err(Error::TooLong { .. })));
        assert!(matches!(names.get("a\0"), Err(Error::Value { column, .. }) if column == "key"));
        // None of it was done, and the transaction goes on.
        assert_eq!(users.count()?, 2);
        assert_eq!(users.get(&3)?.unwrap(), user(3, None, 1));
        Ok(())
    })
    .unwrap();
    assert_eq!(db.read(|tx| tx.rows::<User>()?.count()).unwrap(), 2);
}

#[test]
fn rows_by_index() {
    let (_dir, db) = open();
    db.write(|tx| {
        let users = tx.rows::<User>()?;
        for id in 0..100 {
            let city = match id % 4 {
                0 => None,
                1 => Some("Lyon"),
                2 => Some("Oslo"),
                _ => Some("Porto"),
            };
            users.insert(&user(id, city, (id % 10) as u8))?;
        }
        Ok(())
    })
    .unwrap();
    db.read(|tx| {
        let users = tx.rows::<User>()?;
        let email = users.by("email")?;
        assert_eq!(email.get("u42@example.com")?.unwrap().id, 42);
        assert_eq!(email.get("nobody")?, None);
        assert_eq!(users.by("users_email_key")?.get(&"u42@example.com".to_owned())?.unwrap().id, 42);
        let city = users.by("city")?;
        let ids = |rows: resurgam_embedded::Range<'_, User>| rows.map(|row| row.unwrap().id).collect::<Vec<_>>();
        let oslo = ids(city.all("Oslo")?);
        assert_eq!(oslo.len(), 25);
        assert!(oslo.iter().all(|id| id % 4 == 2));
        // Integers of any width.
        assert_eq!(ids(city.all(&("Oslo", 2u64))?), ids(city.all(&("Oslo", 2i32))?));
        assert_eq!(ids(city.all(&("Oslo", 2))?), [2, 22, 42, 62, 82]);
        assert_eq!(city.all(&None::<String>)?.count(), 25);
        // NULLs are not above a bound.
        assert_eq!(city.range("Oslo"..)?.count(), 50);
        assert_eq!(city.range(..="Lyon")?.count(), 25);
        assert_eq!(city.range(..)?.count(), 100);
        assert_eq!(city.range((Bound::Excluded("Lyon"), Bound::Excluded("Porto")))?.count(), 25);
        assert_eq!(city.range(("Oslo", 8u8)..("Porto", 1u8))?.count(), 5);
        assert_eq!(city.count_in("Lyon".."Oslo")?, 25);
        let forward = ids(city.range(..)?);
        let mut backward = ids2(city.range(..)?.rev());
        backward.reverse();
        assert_eq!(forward, backward);
        // From both ends at once: each row comes once.
        let mut rows = city.range(..)?;
        let (mut front, mut back) = (Vec::new(), Vec::new());
        loop {
            let Some(row) = rows.next() else { break };
            front.push(row?.id);
            let Some(row) = rows.next_back() else { break };
            back.push(row?.id);
        }
        assert!(rows.next().is_none() && rows.next_back().is_none());
        front.extend(back.into_iter().rev());
        assert_eq!(front, forward);

        let error = city.get("Oslo").unwrap_err();
        assert!(matches!(error, Error::WrongIndex { .. }), "{error}");
        assert!(matches!(email.get(&5).unwrap_err(), Error::Value { expected, .. } if expected == "text"));
        assert!(matches!(city.all(&("a", 1, 2)), Err(Error::WrongIndex { .. })));
        assert!(matches!(city.all(&("a", 1i64 << 40)), Err(Error::Value { .. })));
        assert_eq!(
            users.by("town").err().unwrap().to_string(),
            "table \"users\" has no index \"town\": there are \"email\", \"city\""
        );
        Ok(())
    })
    .unwrap();
}

fn ids2(rows: impl Iterator<Item = resurgam_embedded::Result<User>>) -> Vec<i64> {
    rows.map(|row| row.unwrap().id).collect()
}

#[test]
fn pairs_by_key() {
    let (_dir, db) = open();
    db.write(|tx| {
        let pairs = tx.table(&PAIRS)?;
        for (name, n) in [("a", 1), ("a", 2), ("ab", 1), ("b", -5), ("b", 0), ("b", 5)] {
            assert!(!pairs.put(&(name, n), &("x", Some(f64::from(n))))?);
        }
        let keys = |rows: resurgam_embedded::Range<'_, ((String, i32), _)>| {
            rows.map(|row: resurgam_embedded::Result<((String, i32), (String, Option<f64>))>| row.unwrap().0.1)
                .collect::<Vec<_>>()
        };
        assert_eq!(keys(pairs.prefix(&("a",))?), [1, 2]);
        assert_eq!(keys(pairs.range(("a", 2)..)?), [2, 1, -5, 0, 5]);
        assert_eq!(keys(pairs.range(("a",)..=("ab",))?), [1, 2, 1]);
        assert_eq!(keys(pairs.range((Bound::Excluded(("a",)), Bound::Excluded(("b",))))?), [1]);
        assert_eq!(keys(pairs.range(("b", 0)..("b", 0))?), [0; 0]);
        let empty = keys(pairs.range(("b", 1)..("b", 0))?);
        assert_eq!(empty, [0; 0]);
        assert_eq!(pairs.count_in(("b",)..)?, 3);
        assert_eq!(pairs.get(&("b", 5))?.unwrap(), ("x".to_owned(), Some(5.0)));
        pairs.update(&("b", 5), &("y", None::<f64>))?;
        assert!(pairs.modify(&("b", 5), |value| value.1 = Some(1.5))?);
        assert_eq!(pairs.get(&("b", 5))?.unwrap(), ("y".to_owned(), Some(1.5)));
        assert_eq!(pairs.pop_last()?.unwrap().0, ("b".to_owned(), 5));
        assert_eq!(pairs.pop_first()?.unwrap().0, ("a".to_owned(), 1));
        assert_eq!(pairs.delete_range(("a",)..("b",))?, 2);
        assert_eq!(pairs.count()?, 2);

        let names = tx.table(&NAMES)?;
        for name in ["", "a", "ab", "abc", "ac", "b"] {
            names.insert(name, &u64::MAX)?;
        }
        let found = |prefix: &str| names.prefix(prefix).unwrap().map(|row| row.unwrap().0).collect::<Vec<_>>();
        assert_eq!(found("ab"), ["ab", "abc"]);
        assert_eq!(found(""), ["", "a", "ab", "abc", "ac", "b"]);
        assert_eq!(found("abcd"), [""; 0]);
        let blobs = tx.table(&BLOBS)?;
        for key in [&b""[..], b"\0", b"\0\0", b"\0\xff", b"a\0b", b"a\0", b"\xff\xff"] {
            blobs.put(key, &b"v"[..])?;
        }
        let found = |prefix: &[u8]| blobs.prefix(prefix).unwrap().map(|row| row.unwrap().0).collect::<Vec<_>>();
        assert_eq!(found(b"\0"), [&b"\0"[..], b"\0\0", b"\0\xff"]);
        assert_eq!(found(b"a\0"), [&b"a\0"[..], b"a\0b"]);
        assert_eq!(found(b"\xff"), [&b"\xff\xff"[..]]);

        let set = tx.table(&SET)?;
        set.put(&3, &())?;
        assert!(set.put(&3, &())?);
        assert_eq!(set.get(&3)?, Some(()));
        assert_eq!(set.iter()?.map(|row| row.unwrap().0).collect::<Vec<_>>(), [3]);
        Ok(())
    })
    .unwrap();
}

/// An iterator sees the table as it was when it was made, whatever is done to it meanwhile.
#[test]
fn an_iterator_does_not_see_what_is_written_behind_it() {
    let (_dir, db) = open();
    db.write(|tx| {
        let set = tx.table(&SET)?;
        for id in 0..1000 {
            set.put(&id, &())?;
        }
        // Each row is replaced by one that comes later, and a row is deleted that has not been read.
        let mut seen = Vec::new();
        for row in set.iter()? {
            let (id, ()) = row?;
            seen.push(id);
            assert!(seen.len() <= 1000, "it follows what is put behind it");
            set.delete(&id)?;
            set.put(&(id + 10_000), &())?;
            set.delete(&(id + 1))?;
        }
        assert_eq!(seen, (0..1000).collect::<Vec<_>>());
        assert_eq!(set.count()?, 1000);
        assert_eq!(set.first()?.unwrap().0, 10_000);
        // Backwards, and over a savepoint that is gone back to.
        let mut rows = set.iter()?.rev();
        assert_eq!(rows.next().unwrap()?.0, 10_999);
        let _ = tx.savepoint(|tx| {
            let set = tx.table(&SET)?;
            set.delete_range(..)?;
            assert!(set.is_empty()?);
            Err::<(), _>(Error::custom("back"))
        });
        assert_eq!(rows.map(|row| row.unwrap().0).collect::<Vec<_>>(), (10_000..10_999).rev().collect::<Vec<_>>());
        assert_eq!(set.count()?, 1000);
        // One that is made later sees it.
        set.put(&5, &())?;
        assert_eq!(set.iter()?.next().unwrap()?.0, 5);
        Ok(())
    })
    .unwrap();
}

/// What SQL may have written and the program's type cannot be is an error that names it.
#[test]
fn values_that_do_not_fit_are_errors() {
    let (_dir, db) = open();
    const WIDE: Table<i64, i16> = Table::new("narrow");
    const NARROW: Table<i64, u8> = Table::new("narrow");
    db.write(|tx| tx.table(&WIDE)?.put(&1, &-1)).unwrap();
    let error = db.read(|tx| tx.table(&NARROW)?.get(&1)).unwrap_err();
    assert_eq!(error.to_string(), "column \"value\" of table \"narrow\": expected u8, found -1");
    let mut rows = 0;
    db.read(|tx| {
        for row in tx.table(&NARROW)?.iter()? {
            assert!(row.is_err());
            rows += 1;
        }
        Ok(())
    })
    .unwrap();
    assert_eq!(rows, 1);
}

/// What docs/embedding.md shows.
#[test]
fn the_guides_scores_and_transfers() {
    const SCORES: Table<(String, u32), i64> = Table::new("scores");
    const ACCOUNTS: Table<i64, i64> = Table::new("accounts");
    let (_dir, db) = open();
    db.write(|tx| {
        let scores = tx.table(&SCORES)?;
        scores.put(&("chess", 1), &1500)?;
        scores.put(&("chess", 2), &1600)?;
        scores.put(&("go", 1), &9)?;
        assert_eq!(scores.prefix(&("chess",))?.count(), 2);
        assert_eq!(scores.range(("chess", 2)..)?.count(), 2);
        assert_eq!(scores.pop_first()?, Some((("chess".to_owned(), 1), 1500)));
        tx.table(&ACCOUNTS)?.put(&1, &100)
    })
    .unwrap();
    let transfer = |from: i64, to: i64, amount: i64| {
        db.write(|tx| {
            let accounts = tx.table(&ACCOUNTS)?;
            let balance = accounts.get(&from)?.unwrap_or(0);
            if balance < amount {
                return Err(Error::custom("not enough money"));
            }
            accounts.put(&from, &(balance - amount))?;
            accounts.put(&to, &(accounts.get(&to)?.unwrap_or(0) + amount))?;
            Ok(())
        })
    };
    transfer(1, 2, 70).unwrap();
    assert!(transfer(1, 2, 70).is_err());
    assert_eq!(db.read(|tx| tx.table(&ACCOUNTS)?.get(&2)).unwrap(), Some(70));
}

row! {
    struct Guest in "guests" {
        id: i64,
        badge: Option<i64>,
    }
    key(id: i64);
    unique badge(badge);
}

/// A unique index allows many rows without a value: none of them is the one.
#[test]
fn no_value_is_no_unique_one() {
    let (_dir, db) = open();
    db.write(|tx| {
        let guests = tx.rows::<Guest>()?;
        for (id, badge) in [(1, None), (2, None), (3, Some(7))] {
            guests.insert(&Guest { id, badge })?;
        }
        assert_eq!(guests.by("badge")?.get(&Some(7_i64))?.map(|guest| guest.id), Some(3));
        assert_eq!(guests.by("badge")?.all(&None::<i64>)?.count(), 2);
        let error = guests.by("badge")?.get(&None::<i64>).map(drop).unwrap_err();
        assert!(matches!(&error, Error::WrongIndex { what, .. } if what.contains("`all`")), "{error}");
        Ok(())
    })
    .unwrap();
}

/// An error of a bound names the column that it is of.
#[test]
fn bounds_that_cannot_be() {
    const PLACES: Table<(i64, String), ()> = Table::new("places");
    let (_dir, db) = open();
    db.write(|tx| {
        let column = |error: Error| match error {
            Error::Value { column, .. } => column,
            other => panic!("{other}"),
        };
        let places = tx.table(&PLACES)?;
        assert_eq!(column(places.range((1, "\0")..).map(drop).unwrap_err()), "key2");
        assert_eq!(column(places.range(..(1, "\0")).map(drop).unwrap_err()), "key2");
        let users = tx.rows::<User>()?;
        assert_eq!(column(users.by("city")?.range("\0"..).map(drop).unwrap_err()), "city");
        assert_eq!(column(users.by("email")?.get("\0").map(drop).unwrap_err()), "email");
        Ok(())
    })
    .unwrap();
}
