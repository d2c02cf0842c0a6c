//! The stored form of statistics.
//!
//! ```text
//! format u8 = 1
//! rows u64, records u64, pages u64, analysed at i64, analysed itself at i64, how often u64, by itself u64
//! columns u16, each:
//!   name counted, type, nulls f32, width u32, distinct f32, has correlation u8, correlation f32
//!   common values u16, each: f32, value; bounds u16, each: value
//! value: counted, a row of that one column
//! ```

use resurgam_base::Result;
use resurgam_page::codec::{Reader, put_counted};
use resurgam_page::row::RowLayout;
use resurgam_page::types::{ColumnType, Datum, DatumRef};

use super::{ColumnStatistics, TableStatistics};

const FORMAT: u8 = 1;

impl TableStatistics {
    pub(crate) fn encode(&self) -> Result<Vec<u8>> {
        let mut out = vec![FORMAT];
        for value in [self.rows, self.records, self.pages] {
            out.extend_from_slice(&value.to_le_bytes());
        }
        for value in [self.analyzed_at, self.analyzed_itself_at] {
            out.extend_from_slice(&value.to_le_bytes());
        }
        for value in [self.analyzed, self.analyzed_itself] {
            out.extend_from_slice(&value.to_le_bytes());
        }
        out.extend_from_slice(&(self.columns.len() as u16).to_le_bytes());
        for column in &self.columns {
            column.encode(&mut out)?;
        }
        Ok(out)
    }

    /// # Errors
    /// `Corrupt` for what it did not write, or another version did.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self> {
        let mut r = Reader::new(bytes, "statistics");
        if r.u8()? != FORMAT {
            return Err(r.bad("of another version"));
        }
        let (rows, records, pages) = (r.u64()?, r.u64()?, r.u64()?);
        let (analyzed_at, analyzed_itself_at) = (r.i64()?, r.i64()?);
        let (analyzed, analyzed_itself) = (r.u64()?, r.u64()?);
        let count = r.u16()?;
        let columns = (0..count).map(|_| ColumnStatistics::decode(&mut r)).collect::<Result<_>>()?;
        if !r.is_empty() {
            return Err(r.bad("bytes behind the end"));
        }
        Ok(Self { rows, records, pages, analyzed_at, analyzed_itself_at, analyzed, analyzed_itself, columns })
    }
}

impl ColumnStatistics {
    fn encode(&self, out: &mut Vec<u8>) -> Result<()> {
        put_counted(out, self.name.as_bytes());
        self.ty.encode_into(out);
        out.extend_from_slice(&self.nulls.to_le_bytes());
        out.extend_from_slice(&self.width.to_le_bytes());
        out.extend_from_slice(&self.distinct.to_le_bytes());
        out.push(u8::from(self.correlation.is_some()));
        out.extend_from_slice(&self.correlation.unwrap_or(0.0).to_le_bytes());
        let layout = RowLayout::new(&[self.ty]);
        let put = |out: &mut Vec<u8>, value: &Datum| {
            let mut bytes = Vec::new();
            layout.encode(&[value.as_ref()], &mut bytes).map(|()| put_counted(out, &bytes))
        };
        out.extend_from_slice(&(self.common.len() as u16).to_le_bytes());
        for (value, part) in &self.common {
            out.extend_from_slice(&part.to_le_bytes());
            put(out, value)?;
        }
        out.extend_from_slice(&(self.histogram.len() as u16).to_le_bytes());
        for value in &self.histogram {
            put(out, value)?;
        }
        Ok(())
    }

    fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let name = String::from_utf8(r.counted()?.to_vec()).map_err(|_| r.bad("a name that is no text"))?;
        let ty = ColumnType::decode(r)?;
        let (nulls, width, distinct) = (float(r)?, r.u32()?, float(r)?);
        let (has_correlation, correlation) = (r.u8()? != 0, float(r)?);
        let layout = RowLayout::new(&[ty]);
        let common = (0..r.u16()?)
            .map(|_| {
                let part = float(r)?;
                Ok((value(r, &layout)?, part))
            })
            .collect::<Result<Vec<_>>>()?;
        let histogram = (0..r.u16()?).map(|_| value(r, &layout)).collect::<Result<Vec<_>>>()?;
        let parts = common.iter().map(|(_, part)| part).chain([&nulls]);
        if !parts.copied().all(|part| (0.0..=1.0).contains(&part)) || distinct < -1.0 || correlation.abs() > 1.0 {
            return Err(r.bad("a part that is none"));
        }
        let correlation = has_correlation.then_some(correlation);
        Ok(Self { name, ty, nulls, width, distinct, common, histogram, correlation })
    }
}

fn float(r: &mut Reader<'_>) -> Result<f32> {
    let value = f32::from_le_bytes(r.array()?);
    if value.is_finite() { Ok(value) } else { Err(r.bad("no number")) }
}

fn value(r: &mut Reader<'_>, layout: &RowLayout) -> Result<Datum> {
    match layout.column(r.counted()?, 0)? {
        DatumRef::Null | DatumRef::External(_) => Err(r.bad("no value")),
        value => Ok(value.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn statistics() -> TableStatistics {
        let text = ColumnStatistics {
            name: "b".into(),
            ty: ColumnType::Text,
            nulls: 0.25,
            width: 9,
            distinct: -0.5,
            common: vec![(Datum::Text("x".into()), 0.5), (Datum::Text("ü".into()), 0.125)],
            histogram: vec![Datum::Text("a".into()), Datum::Text("z".repeat(900))],
            correlation: Some(-1.0),
        };
        let number = ColumnStatistics {
            name: "n".into(),
            ty: ColumnType::Int4,
            common: vec![(Datum::Int4(7), 1.0)],
            histogram: vec![],
            correlation: None,
            distinct: 1.0,
            ..text.clone()
        };
        TableStatistics {
            rows: 10,
            records: 12,
            pages: 3,
            analyzed_at: 5,
            analyzed_itself_at: -6,
            analyzed: 1,
            analyzed_itself: 2,
            columns: vec![text, number],
        }
    }

    #[test]
    fn they_come_back() {
        let bytes = statistics().encode().expect("encoded");
        assert_eq!(TableStatistics::decode(&bytes).expect("decoded"), statistics());
        for end in 0..bytes.len() {
            assert!(TableStatistics::decode(&bytes[..end]).is_err(), "{end}");
        }
        let mut longer = bytes.clone();
        longer.push(0);
        assert!(TableStatistics::decode(&longer).is_err());
        let mut other = bytes;
        other[0] = FORMAT + 1;
        assert!(TableStatistics::decode(&other).is_err());
    }

    proptest! {
        #[test]
        fn damaged_bytes_never_panic(at in 0usize..400, bit in 0u8..8) {
            let mut bytes = statistics().encode().expect("encoded");
            let at = at % bytes.len();
            bytes[at] ^= 1 << bit;
            let _ = TableStatistics::decode(&bytes);
        }
    }
}
