//! Any bytes as a parameter of each type, as text and in binary. What is taken is given back in both formats, and what is
//! given back is taken as the same value.
#![no_main]

use std::cell::RefCell;

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use resurgam_fuzz_sql::World;
use resurgam_sql::Session;
use resurgam_sql::wire::{Execution, Format, SqlError};

thread_local! {
    static WORLD: RefCell<World> = RefCell::default();
}

/// Object ids of PostgreSQL's types: those that can be stored, arrays of some, and some that are only named.
const TYPES: [u32; 42] = [
    16, 17, 18, 19, 20, 21, 23, 25, 26, 114, 700, 701, 1042, 1043, 1082, 1083, 1114, 1184, 1186, 1700, 2950, 3802, 1000, 1001,
    1005, 1007, 1009, 1014, 1015, 1016, 1021, 1022, 1115, 1182, 1183, 1185, 1187, 1231, 2951, 3807, 2205, 0,
];

async fn answer(session: &mut Session, ty: u32, format: Format, value: &[u8], wanted: Format) -> Result<Option<Vec<u8>>, SqlError> {
    let params = vec![Some(Bytes::copy_from_slice(value))];
    session.bind("", "", params, &[format], &[wanted]).await?;
    let mut first_field = None;
    if let Execution::Rows { first, rows, .. } = session.execute("", 0).await? {
        let chunk = match (first, rows) {
            (Some(chunk), _) => Some(chunk),
            (None, Some(mut rows)) => rows.next(session).await?,
            (None, None) => None,
        };
        let chunk = chunk.expect("a row");
        let row = chunk.rows().next().expect("a row");
        let (length, rest) = row.split_first_chunk::<4>().expect("a length");
        let length = i32::from_be_bytes(*length);
        first_field = usize::try_from(length).ok().map(|length| rest[..length].to_vec());
        assert!(first_field.is_some(), "type {ty}: a value came back as NULL");
    }
    Ok(first_field)
}

fuzz_target!(|data: &[u8]| {
    let [which, format, value @ ..] = data else { return };
    let ty = TYPES[usize::from(*which) % TYPES.len()];
    let format = if format % 2 == 0 { Format::Binary } else { Format::Text };
    WORLD.with_borrow_mut(|world| {
        world.run(async |session| {
            session.parse("", "SELECT $1", &[ty]).await?;
            let (_, fields) = session.describe_statement("")?;
            let ty = fields.and_then(|fields| fields.first().map(|field| field.type_oid)).unwrap_or(ty);
            let text = answer(session, ty, format, value, Format::Text).await?.expect("text");
            let binary = answer(session, ty, format, value, Format::Binary).await?.expect("binary");
            let again = |error: SqlError| panic!("type {ty}: its own value is refused: {error}; {text:?} {binary:?}");
            let from_text = answer(session, ty, Format::Text, &text, Format::Binary).await.unwrap_or_else(again);
            let again = |error: SqlError| panic!("type {ty}: its own value is refused: {error}; {text:?} {binary:?}");
            let from_binary = answer(session, ty, Format::Binary, &binary, Format::Text).await.unwrap_or_else(again);
                    // A NaN has many forms in binary, and one in letters.
            if !text.windows(3).any(|part| part == b"NaN") {
                assert_eq!(from_text.expect("binary"), binary, "type {ty}, text {}", String::from_utf8_lossy(&text));
            }
            assert_eq!(from_binary.expect("text"), text, "type {ty}");
            session.sync().await
        });
    });
});
