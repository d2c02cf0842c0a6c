//! The Arrow type of an enumerated type's labels: a timestamp in seconds whose "zone" says the type.
//!
//! DataFusion shows constants of arrays with what shows times, which wants a zone that it can read. So a type is given an
//! offset from UTC the first time that it is met, as `+hh:mm`, `-hh:mm`, `+hhmm` or `-hhmm`, for as long as the process
//! lives: nothing keeps an Arrow type longer. When all of these are given, the zone is the oid; constants of arrays of such
//! types cannot be shown, all else works.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use datafusion::arrow::datatypes::{DataType, TimeUnit};

/// What the "zone" of a type that was given no offset begins with; the type's oid follows.
const ENUM: &str = "enum ";

/// Minutes of a day.
const MINUTES: usize = 24 * 60;

/// How many offsets there are.
const OFFSETS: usize = 4 * MINUTES;

#[derive(Default)]
struct Given {
    zones: HashMap<u32, Arc<str>>,
    oids: HashMap<Arc<str>, u32>,
}

fn given() -> &'static RwLock<Given> {
    static GIVEN: OnceLock<RwLock<Given>> = OnceLock::new();
    GIVEN.get_or_init(RwLock::default)
}

/// The offset with that number.
fn offset(number: usize) -> String {
    let (form, minutes) = (number / MINUTES, number % MINUTES);
    let (hour, minute) = (minutes / 60, minutes % 60);
    let sign = if form.is_multiple_of(2) { '+' } else { '-' };
    let colon = if form < 2 { ":" } else { "" };
    format!("{sign}{hour:02}{colon}{minute:02}")
}

impl Given {
    fn zone(&mut self, oid: u32) -> Arc<str> {
        if let Some(zone) = self.zones.get(&oid) {
            return Arc::clone(zone);
        }
        let number = self.zones.len();
        if number >= OFFSETS {
            return Arc::from(format!("{ENUM}{oid}"));
        }
        let zone: Arc<str> = Arc::from(offset(number));
        self.zones.insert(oid, Arc::clone(&zone));
        self.oids.insert(Arc::clone(&zone), oid);
        zone
    }
}

/// The Arrow type of labels of the enumerated type with that oid.
pub fn enum_data(oid: u32) -> DataType {
    let known = given().read().unwrap_or_else(PoisonError::into_inner).zones.get(&oid).cloned();
    let zone = known.unwrap_or_else(|| given().write().unwrap_or_else(PoisonError::into_inner).zone(oid));
    DataType::Timestamp(TimeUnit::Second, Some(zone))
}

/// The oid of the enumerated type whose labels are of that Arrow type.
pub fn enum_of_data(data: &DataType) -> Option<u32> {
    let DataType::Timestamp(TimeUnit::Second, Some(zone)) = data else { return None };
    match zone.strip_prefix(ENUM) {
        Some(oid) => oid.parse().ok(),
        None => given().read().unwrap_or_else(PoisonError::into_inner).oids.get(zone).copied(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn the_arrow_type_says_the_oid() {
        let (one, other) = (enum_data(16_400), enum_data(16_401));
        assert_eq!(enum_of_data(&one), Some(16_400));
        assert_eq!(enum_of_data(&other), Some(16_401));
        assert_eq!(enum_data(16_400), one);
        assert_eq!(enum_of_data(&crate::types::timestamptz()), None);
        assert_eq!(enum_of_data(&DataType::Timestamp(TimeUnit::Second, Some(Arc::from("UTC")))), None);
    }

    #[test]
    fn a_type_without_an_offset_of_its_own_says_its_oid() {
        let mut given = Given::default();
        let zones: HashSet<Arc<str>> = (0..OFFSETS as u32).map(|oid| given.zone(oid)).collect();
        assert_eq!(zones.len(), OFFSETS);
        assert_eq!(&*given.zone(0), "+00:00");
        assert_eq!(&*given.zone(OFFSETS as u32 - 1), "-2359");
        assert_eq!(&*given.zone(70_000), "enum 70000");
        assert_eq!(enum_of_data(&DataType::Timestamp(TimeUnit::Second, Some(Arc::from("enum 70000")))), Some(70_000));
    }
}
