//! Statements that are wrong, or that fail on their constants: what is compared is the
//! SQLSTATE. Each fails in one way only, whatever is evaluated first.

use super::generator::Gen;
use super::tree::{Style, Tree, seq};
use super::types::{Ty, Value};
use super::values;

/// Queries without a table that fail while they are analysed or run. `$` is a small integer.
const ALONE: [&str; 74] = [
    "SELECT 1 / ($ - $)",
    "SELECT $ % 0",
    "SELECT 1.5 / 0",
    "SELECT mod($, 0)",
    "SELECT 2147483647 + $ + 1",
    "SELECT 9223372036854775807 * ($ + 2)",
    "SELECT 32767::smallint + 32767::smallint",
    "SELECT (-32768)::smallint::int2 * (-1)::int2",
    "SELECT ($ + 40000)::smallint",
    "SELECT ($ + 3000000000)::integer",
    "SELECT 1e10::integer + $",
    "SELECT 'NaN'::float8::integer",
    "SELECT 'NaN'::numeric::integer",
    "SELECT abs((-2147483648)::integer)",
    "SELECT sqrt(-1 - $)",
    "SELECT ln(0 * $)",
    "SELECT ln(-1.5)",
    "SELECT log(0)",
    "SELECT power(0, -1)",
    "SELECT power(-8::float8, 0.5)",
    "SELECT exp(100000 + $)",
    "SELECT exp(100000::float8)",
    "SELECT 1e200::float8 * 1e200::float8",
    "SELECT substring('abc' FROM 1 FOR -1)",
    "SELECT substr('abc', $, -1)",
    "SELECT split_part('a,b', ',', 0)",
    "SELECT repeat('x', -$)",
    "SELECT chr(-1)",
    "SELECT chr(0)",
    "SELECT 'a' ~ '('",
    "SELECT regexp_replace('a', '[', 'b')",
    "SELECT 'a' LIKE 'a\\'",
    "SELECT date_trunc('fortnight', timestamp '2020-01-01')",
    "SELECT extract(fortnight FROM timestamp '2020-01-01')",
    "SELECT extract(hour FROM date '2020-01-01')",
    "SELECT timestamp '2020-01-01' AT TIME ZONE 'Mars/Olympus'",
    "SELECT date '2020-01-01' + 100000000",
    "SELECT timestamp '2020-01-01' + interval '300000 years'",
    "SELECT make_date(2023, 2, 30 + $)",
    "SELECT interval '178956971 years'",
    "SELECT decode('xyz', 'hex')",
    "SELECT decode('ab', 'base65')",
    "SELECT encode('ab', 'base65')",
    "SELECT convert_to('a', 'nope')",
    "SELECT width_bucket(1, 0, 10, 0)",
    "SELECT to_date('2020-13-01', 'YYYY-MM-DD')",
    "SELECT array[1, 2] || 'x'",
    "SELECT 1 + true",
    "SELECT 1 + 'a'",
    "SELECT 'a' + 'b'",
    "SELECT true > 1",
    "SELECT 'a'::text = 1",
    "SELECT date '2020-01-01' = 1",
    "SELECT -'a'::text",
    "SELECT NOT 1",
    "SELECT 1 AND true",
    "SELECT nosuch($)",
    "SELECT length(1)",
    "SELECT upper(1, 2)",
    "SELECT count(*, 1)",
    "SELECT sum('a'::text)",
    "SELECT max(true)",
    "SELECT min(sum(1))",
    "SELECT CASE WHEN true THEN 1 ELSE 'a'::text END",
    "SELECT CASE WHEN 1 THEN 2 END",
    "SELECT coalesce(1, 'a'::text)",
    "SELECT greatest(1, date '2020-01-01')",
    "SELECT nullif(1, 'a'::text)",
    "SELECT 1 IN (1, 'a'::text)",
    "SELECT (1, 2) = (1, 2, 3)",
    "SELECT 1::nosuchtype",
    "SELECT 1::uuid",
    "SELECT true::date",
    "SELECT '2020-01-01'::date::integer",
];

/// Statements about a table `T` with columns `C` (any), `I` (an integer) and `X` (a text) that
/// are wrong whatever its rows are.
const ABOUT: [&str; 64] = [
    "SELECT nope FROM T",
    "SELECT x.C FROM T",
    "SELECT T.nope FROM T",
    "SELECT C FROM nope",
    "SELECT nosuch(C) FROM T",
    "SELECT C FROM T, T AS b",
    "SELECT 1 FROM T, T",
    "SELECT 1 FROM T AS a JOIN T AS a ON true",
    "SELECT C, count(*) FROM T",
    "SELECT * FROM T GROUP BY I",
    "SELECT I FROM T GROUP BY X",
    "SELECT I + $ FROM T GROUP BY I + 1000",
    "SELECT I FROM T HAVING count(*) > $",
    "SELECT count(*) FROM T WHERE count(*) > $",
    "SELECT sum(count(*)) FROM T",
    "SELECT I FROM T WHERE row_number() OVER () = $",
    "SELECT row_number() FROM T",
    "SELECT count(*) FROM T GROUP BY count(*)",
    "SELECT sum(I) OVER (ORDER BY nope) FROM T",
    "SELECT sum(I) OVER w FROM T",
    "SELECT I FROM T ORDER BY 2",
    "SELECT I FROM T ORDER BY 0",
    "SELECT I FROM T GROUP BY 3",
    "SELECT I FROM T ORDER BY 'a'",
    "SELECT DISTINCT I FROM T ORDER BY X",
    "SELECT DISTINCT ON (I) X FROM T ORDER BY X",
    "SELECT I FROM T UNION SELECT I, X FROM T",
    "SELECT I FROM T UNION SELECT X FROM T",
    "SELECT I FROM T UNION SELECT I FROM T ORDER BY X",
    "SELECT I FROM T WHERE I",
    "SELECT I FROM T WHERE X",
    "SELECT I FROM T WHERE X > $::integer",
    "SELECT I FROM T WHERE I = X",
    "SELECT I + X FROM T",
    "SELECT I || I FROM T",
    "SELECT I LIKE 'a%' FROM T",
    "SELECT lower(I) FROM T",
    "SELECT sum(X) FROM T",
    "SELECT avg(X) FROM T",
    "SELECT (SELECT I, X FROM T)",
    "SELECT I FROM T WHERE I IN (SELECT I, I FROM T)",
    "SELECT I FROM T WHERE (I, X) IN (SELECT I FROM T)",
    "SELECT I FROM T LIMIT -1 - $",
    "SELECT I FROM T LIMIT I",
    "SELECT I FROM T OFFSET -1",
    "SELECT I FROM T LIMIT 'a'",
    "SELECT I FROM T JOIN nope USING (I)",
    "SELECT I FROM T AS a JOIN T AS b USING (nope)",
    "SELECT I FROM T AS a JOIN T AS b ON a.I",
    "INSERT INTO T (nope) VALUES ($)",
    "INSERT INTO T (I, I) VALUES ($, $)",
    "INSERT INTO T (I) VALUES ($, $)",
    "INSERT INTO T (I, X) VALUES ($)",
    "INSERT INTO T (I) VALUES (true)",
    "INSERT INTO nope VALUES ($)",
    "INSERT INTO T (I) VALUES ($) ON CONFLICT (nope) DO NOTHING",
    "INSERT INTO T (I) VALUES ($) ON CONFLICT DO UPDATE SET I = 1",
    "UPDATE T SET nope = $",
    "UPDATE T SET I = $, I = $",
    "UPDATE T SET I = true",
    "UPDATE T SET I = count(*)",
    "DELETE FROM T WHERE nope = $",
    "DELETE FROM T RETURNING nope",
    "SELECT I FROM T FOR UPDATE OF nope",
];

/// Texts that are no statements.
const SYNTAX: [&str; 14] = [
    "SELEC $",
    "SELECT FROM WHERE",
    "SELECT 1 FROM",
    "SELECT (1",
    "SELECT 1)",
    "SELECT 1 +",
    "SELECT 'a",
    "SELECT 1 WHERE",
    "INSERT INTO",
    "UPDATE SET a = 1",
    "SELECT * FROM (SELECT 1",
    "SELECT 1 GROUP",
    "SELECT 1 ORDER BY",
    "SELECT CASE END",
];

impl Gen<'_> {
    pub fn invalid(&mut self) -> Tree {
        let table = self.any_table();
        match self.below(10) {
            0..=2 => {
                let text = self.pick(&ALONE);
                self.with_constants(text)
            }
            3..=5 => {
                let integer = self.any_column(&table, Ty::is_integer);
                let text = self.any_column(&table, |ty| matches!(ty, Ty::Text | Ty::Varchar));
                let any = self.any_column(&table, |_| true);
                let (Some(integer), Some(text), Some(any)) = (integer, text, any) else {
                    let text = self.pick(&ALONE);
                    return self.with_constants(text);
                };
                self.about(&table.name, integer, text, any)
            }
            6 => {
                let text = self.pick(&SYNTAX);
                self.with_constants(text)
            }
            7 => {
                // A constant that its type does not read.
                let ty = self.pick_ty(&Ty::COLUMNS);
                let values = (0..self.runs).map(|_| values::invalid(self.rng, ty)).collect();
                seq!["SELECT ", self.hole_of(ty, Style::Cast, values)]
            }
            8 => {
                let at = self.below(table.columns.len());
                let column = &table.columns[at];
                let values = (0..self.runs).map(|_| values::invalid(self.rng, column.ty)).collect();
                let hole = self.hole_of(column.ty, Style::Bare, values);
                seq!["SELECT count(*) FROM ", table.name.clone(), " WHERE ", column.name.clone(), " IN (", hole, ")"]
            }
            _ => {
                // A value that does not fit its column, which may be written.
                let given: Vec<usize> = table.given().collect();
                let at = given[self.below(given.len())];
                let column = &table.columns[at];
                let long = match column.ty {
                    Ty::Varchar => Value::Text("much too long for that column".into()),
                    Ty::Char => Value::Text("too long".into()),
                    Ty::Numeric => Value::Numeric("123456789012.345".into()),
                    ty => values::invalid(self.rng, ty),
                };
                if column.declared == "numeric" || column.declared == "text" {
                    return self.with_constants("SELECT $ + nope");
                }
                let values = vec![long; self.runs];
                let hole = self.hole_of(column.ty, Style::Bare, values);
                seq!["UPDATE ", table.name.clone(), " SET ", column.name.clone(), " = ", hole, " WHERE false"]
            }
        }
    }

    /// A text with small constants for `$`.
    fn with_constants(&mut self, text: &str) -> Tree {
        let mut pieces = Vec::new();
        for (at, piece) in text.split('$').enumerate() {
            if at > 0 {
                let values = (0..self.runs).map(|_| Value::Int(1 + self.below(9) as i64)).collect();
                pieces.push(self.hole_of(Ty::Int4, Style::Cast, values));
            }
            pieces.push(Tree::from(piece));
        }
        Tree::Seq(pieces)
    }

    fn about(&mut self, table: &str, integer: Tree, text: Tree, any: Tree) -> Tree {
        let template = self.pick(&ABOUT);
        let mut pieces = Vec::new();
        let mut word = String::new();
        for c in template.chars().chain([' ']) {
            if c.is_alphanumeric() || c == '_' {
                word.push(c);
                continue;
            }
            pieces.push(match word.as_str() {
                "T" => Tree::from(table),
                "I" => integer.clone(),
                "X" => text.clone(),
                "C" => any.clone(),
                other => Tree::from(other),
            });
            word.clear();
            if c == '$' {
                let values = (0..self.runs).map(|_| Value::Int(1 + self.below(9) as i64)).collect();
                pieces.push(self.hole_of(Ty::Int4, Style::Cast, values));
            } else {
                pieces.push(Tree::from(c.to_string()));
            }
        }
        Tree::Seq(pieces)
    }
}
