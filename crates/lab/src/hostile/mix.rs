//! Mixtures: a random expression, as deep and as long as is wanted, in a random clause.

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::texts::list;

/// What goes around an integer and gives one again.
const AROUND: &[(&str, &str)] = &[
    ("(", ")"),
    ("abs(", ")"),
    ("- (", ")"),
    ("1 + (", ")"),
    ("(", ") + 1"),
    ("(", ")::int"),
    ("coalesce(", ", 1)"),
    ("nullif(", ", 1)"),
    ("greatest(1, ", ")"),
    ("case when true then ", " end"),
    ("case ", " when 1 then 1 else 2 end"),
    ("(select ", ")"),
    ("(array[", "])[1]"),
    ("length(repeat('x', least(10, ", ")))"),
    ("(case when (", ") is null then 1 else 2 end)"),
    ("length((", ")::text || 'x')"),
    ("(select max(x) from (values (", ")) as v(x))"),
    ("(select count(*)::int from o where i = ", ")"),
    ("mod(", ", 7)"),
    ("extract(epoch from to_timestamp(", "))::int"),
];

/// What follows an integer and gives one again.
const AFTER: &[&str] = &[
    " + 1",
    " - 1",
    " * 1",
    " / 1",
    " % 9",
    " & 7",
    " | 1",
    "::int",
    "::bigint::int",
    " + length('x' || 'y')",
    " # 1",
];

/// Where an integer may stand.
const PLACES: &[(&str, &str)] = &[
    ("select ", ""),
    ("select ", " from h"),
    ("select count(*) from h where a > ", ""),
    ("select count(*) from h group by a, ", ""),
    ("select a from h order by a, ", ""),
    ("select sum(a) from h having sum(a) > ", ""),
    ("select count(*) from o join h on a = ", ""),
    ("select a from h limit ", ""),
    ("values (", ")"),
    ("select sum(a) over (order by ", ") from h"),
    ("select sum(", ") from h"),
    ("update h set b = ", " where a = 1"),
    ("insert into h (a) values (", ") on conflict do nothing"),
    ("delete from h where a < 0 returning ", ""),
    ("explain select ", ""),
    ("prepare p as select ", ""),
];

/// The text of a seed with about `n` steps.
pub fn text(seed: u64, n: usize) -> String {
    let mut rng = SmallRng::seed_from_u64(seed);
    let (mut before, mut after) = (Vec::new(), vec!["1"]);
    // Runs of one step, so that each kind gets deep in company.
    let mut left = n;
    while left > 0 {
        let run = rng.random_range(1..=left.min(1 + n / 3));
        left -= run;
        if rng.random_bool(0.4) {
            let step = AFTER[rng.random_range(0..AFTER.len())];
            after.extend(std::iter::repeat_n(step, run));
        } else {
            let (open, close) = AROUND[rng.random_range(0..AROUND.len())];
            before.extend(std::iter::repeat_n(open, run));
            after.extend(std::iter::repeat_n(close, run));
        }
    }
    before.reverse();
    let expression = format!("{}{}", before.concat(), after.concat());
    let (first, last) = PLACES[rng.random_range(0..PLACES.len())];
    let copies = if rng.random_bool(0.2) { rng.random_range(2..5) } else { 1 };
    let sum = list(copies, " + ", |_| expression.clone());
    format!("{first}{sum}{last}")
}

#[cfg(test)]
mod tests {
    use super::text;

    #[test]
    fn a_seed_is_a_text() {
        assert_eq!(text(7, 100), text(7, 100));
        assert_ne!(text(7, 100), text(8, 100));
        assert!((1..200).all(|seed| text(seed, 50).matches('(').count() == text(seed, 50).matches(')').count()));
    }
}
