//! Statements that the other generators never make: grouping sets, frames of all kinds, recursion, rows in subqueries,
//! LATERAL with LIMIT, aggregates of an order, arrays, sets in select lists, USING, locks, FETCH; writes with WITH,
//! with several columns at once, ON CONFLICT of a query.
//!
//! Each is about whole tables with their keys, so that what is picked and ordered is determined.

use super::dml::Dml;
use super::generator::{Gen, Scope};
use super::query::Query;
use super::schema::Table;
use super::tree::{Style, Tree, seq};
use super::types::{Ty, Value};

impl Gen<'_> {
    /// A column of the table by which rows can be told apart and ordered.
    fn plain(&mut self, table: &Table, alias: &str, fits: impl Fn(Ty) -> bool) -> Option<(String, Ty)> {
        let all: Vec<(String, Ty)> = table
            .columns
            .iter()
            // Arrays of arrays are another matter.
            .filter(|c| c.canonical && c.ty.is_ordered() && !c.ty.is_array() && fits(c.ty))
            .map(|c| (format!("{alias}.{}", c.name), c.ty))
            .collect();
        (!all.is_empty()).then(|| all[self.below(all.len())].clone())
    }

    fn number_of(&mut self, least: i64, most: i64) -> Tree {
        let span = usize::try_from(most - least + 1).unwrap_or(1);
        let values = (0..self.runs).map(|_| Value::Int(least + self.below(span) as i64)).collect();
        self.hole_of(Ty::Int4, Style::Cast, values)
    }

    fn where_of(&mut self, scope: &Scope) -> Tree {
        if self.once_in(2) { Tree::maybe(seq![" WHERE ", self.condition(scope, 1).tree]) } else { Tree::nothing() }
    }

    /// One of the module's queries.
    pub fn rare_query(&mut self) -> Query {
        let table = self.any_table();
        let scope = Scope { rels: vec![self.base(&table, Some("a"))], outer: None };
        let from = || seq![" FROM ", table.name.clone(), " AS a"];
        let unordered = |tree: Tree| Query { tree, ordered: false };
        match self.below(13) {
            0 => {
                let types = [self.some_ordered_type(&scope), Ty::Int4];
                let count = 1 + self.below(4);
                let rows = (0..count)
                    .map(|_| seq!["(", self.constant(types[0]).tree, ", ", self.constant(types[1]).tree, ")"])
                    .collect();
                let order = self.pick(&["", " ORDER BY 2, 1", " ORDER BY column1 DESC, column2"]);
                let limit = self.pick(&["", "", " LIMIT NULL", " OFFSET 1", " FETCH FIRST 2 ROWS ONLY"]);
                let limit = if order.is_empty() { "" } else { limit };
                let ordered = !order.is_empty() && types[0] != Ty::Numeric && types[0] != Ty::Char;
                if !ordered && !limit.is_empty() {
                    return unordered(seq!["VALUES ", Tree::list(rows, ", ", 1)]);
                }
                Query { tree: seq!["VALUES ", Tree::list(rows, ", ", 1), order, limit], ordered }
            }
            1 => self.grouping_sets(&table, &scope).map_or_else(|| unordered(seq!["SELECT 1"]), unordered),
            2 | 3 => unordered(self.framed(&table, &scope)),
            4 => {
                let union = self.pick(&[" UNION ALL ", " UNION "]);
                let (start, step, end) = (self.number_of(1, 3), self.number_of(1, 2), self.number_of(2, 9));
                let tail = self.pick(&[
                    "SELECT n FROM r",
                    "SELECT count(*), sum(n), max(n) FROM r",
                    "SELECT x.n, y.n FROM r AS x JOIN r AS y ON x.n + 1 = y.n",
                    "SELECT n FROM r WHERE n NOT IN (SELECT n + 1 FROM r)",
                ]);
                let tree = seq![
                    "WITH RECURSIVE r(n) AS (SELECT ",
                    start,
                    union,
                    "SELECT n + ",
                    step,
                    " FROM r WHERE n < ",
                    end,
                    ") ",
                    tail
                ];
                unordered(tree)
            }
            5 => {
                let filter = self.where_of(&scope);
                let n = self.number_of(0, 9);
                let keys = table.key_list("a");
                let all = table.names(&table.key).join(", ");
                let tree = seq![
                    "WITH w AS (SELECT a.*",
                    from(),
                    filter,
                    "), v AS (SELECT count(*) AS n FROM w) SELECT v.n, ",
                    keys.replace("a.", "x."),
                    " FROM w AS x, v WHERE v.n > ",
                    n,
                    " OR (",
                    all.split(", ").map(|c| format!("x.{c}")).collect::<Vec<_>>().join(", "),
                    ") IN (SELECT ",
                    all,
                    " FROM w)"
                ];
                unordered(tree)
            }
            6 => {
                let Some((column, _)) = self.plain(&table, "a", |ty| ty != Ty::Char) else {
                    return unordered(seq!["SELECT 2"]);
                };
                let keys = table.key_list("a");
                let side = |g: &mut Self| {
                    let how = g.pick(&["", " DESC"]);
                    let by = keys.split(", ").map(|k| format!("{k}{how}")).collect::<Vec<_>>().join(", ");
                    seq!["(SELECT ", column.clone(), from(), " ORDER BY ", by, " LIMIT ", g.number_of(0, 6), ")"]
                };
                let ops = [" UNION ", " UNION ALL ", " INTERSECT ", " EXCEPT ", " INTERSECT ALL ", " EXCEPT ALL "];
                let (a, b, c) = (side(self), side(self), side(self));
                let (x, y) = (self.pick(&ops), self.pick(&ops));
                let tree = if self.once_in(2) { seq!["(", a, x, b, ")", y, c] } else { seq![a, x, "(", b, y, c, ")"] };
                unordered(seq![tree, Tree::maybe(" ORDER BY 1 NULLS FIRST")])
            }
            7 => {
                let other = self.any_table();
                let shared = table.columns[table.key[0]].ty;
                if other.columns[other.key[0]].ty != shared {
                    return unordered(seq!["SELECT 3"]);
                }
                let join = self.pick(&[" JOIN ", " LEFT JOIN ", " RIGHT JOIN ", " FULL JOIN "]);
                let what = self.pick(&["k0, count(*)", "k0, a.k0, b.k0", "a.*", "*"]);
                let group = if what == "k0, count(*)" { " GROUP BY k0" } else { "" };
                unordered(seq!["SELECT ", what, from(), join, other.name.clone(), " AS b USING (k0)", group])
            }
            8 => {
                let other = self.any_table();
                let inner = Scope { rels: vec![self.base(&other, Some("b"))], outer: Some(&scope) };
                let Some((x, ty)) = self.plain(&table, "a", |_| true) else { return unordered(seq!["SELECT 4"]) };
                let Some((y, _)) = self.plain(&other, "b", |t| t == ty) else { return unordered(seq!["SELECT 5"]) };
                let condition = self.condition(&inner, 1).tree;
                let by = other.key_list("b");
                match self.below(3) {
                    0 => {
                        let not = self.pick(&["", "NOT "]);
                        let first = table.columns[table.key[0]].name.clone();
                        let also = self.constant_beside(table.columns[table.key[0]].ty).tree;
                        unordered(seq![
                            "SELECT a.*",
                            from(),
                            " WHERE (",
                            x,
                            ", a.",
                            first,
                            ") ",
                            not,
                            "IN (SELECT ",
                            y,
                            ", ",
                            also,
                            " FROM ",
                            other.name.clone(),
                            " AS b WHERE ",
                            condition,
                            ")"
                        ])
                    }
                    1 => unordered(seq![
                        "SELECT a.*, l.*",
                        from(),
                        self.pick(&[" JOIN LATERAL ", " LEFT JOIN LATERAL "]),
                        "(SELECT ",
                        by.clone(),
                        " FROM ",
                        other.name.clone(),
                        " AS b WHERE ",
                        y,
                        " = ",
                        x,
                        " OR ",
                        condition,
                        " ORDER BY ",
                        by,
                        " LIMIT ",
                        self.number_of(0, 3),
                        ") AS l ON true"
                    ]),
                    _ => unordered(seq![
                        "SELECT ",
                        x.clone(),
                        ", ARRAY(SELECT ",
                        y,
                        " FROM ",
                        other.name.clone(),
                        " AS b WHERE ",
                        condition,
                        " ORDER BY ",
                        by,
                        ")::text",
                        from()
                    ]),
                }
            }
            9 => {
                let Some((x, _)) = self.plain(&table, "a", |_| true) else { return unordered(seq!["SELECT 6"]) };
                let number = self.plain(&table, "a", |ty| ty.is_integer()).map_or("1".to_owned(), |(n, _)| n);
                let by = table.key_list("a");
                let how = self.pick(&["", " DESC", " NULLS FIRST"]);
                let ends = self.pick(&["0", "0.25", "0.5", "1"]);
                let aggregate = match self.below(6) {
                    0 => format!("array_agg({x} ORDER BY {by})::text"),
                    1 => format!("array_to_string(array_agg({x} ORDER BY {x}{how}, {by}), ',', '*')"),
                    2 => format!("percentile_disc({ends}) WITHIN GROUP (ORDER BY {number}{how})"),
                    3 => format!("percentile_cont({ends}) WITHIN GROUP (ORDER BY {number}::double precision)"),
                    4 => format!("string_agg({x}::text, '|' ORDER BY {x}{how}, {by})"),
                    _ => format!("array_length(array_agg(DISTINCT {x}), 1)"),
                };
                let filter = self.where_of(&scope);
                unordered(seq!["SELECT count(*), ", aggregate, from(), filter])
            }
            10 => {
                let other = self.any_table();
                let lock = self.pick(&[
                    " FOR UPDATE",
                    " FOR UPDATE OF a",
                    " FOR NO KEY UPDATE OF b",
                    " FOR SHARE SKIP LOCKED",
                    " FOR KEY SHARE OF a NOWAIT",
                ]);
                let filter = self.where_of(&scope);
                let both = self.pick(&[" CROSS JOIN ", " JOIN "]);
                let on = if both == " JOIN " { " ON a.k0 IS NOT NULL" } else { "" };
                unordered(seq!["SELECT a.*", from(), both, other.name.clone(), " AS b", on, filter, lock])
            }
            11 => {
                let (a, b) = (self.number_of(0, 3), self.number_of(1, 4));
                let series = match self.below(4) {
                    0 => seq!["generate_series(", a, ", ", b, ")"],
                    1 => seq!["unnest(ARRAY[", a, ", ", b, ", NULL])"],
                    2 => seq![
                        "generate_series(",
                        self.constant(Ty::Timestamp).tree,
                        ", timestamp '2020-02-05', interval '100 days')"
                    ],
                    _ => seq!["regexp_split_to_table('a,b,,c', ',')"],
                };
                let keys = table.key_list("a");
                let filter = self.where_of(&scope);
                unordered(seq!["SELECT ", keys, ", ", series, from(), filter])
            }
            _ => {
                let Some((x, _)) = self.plain(&table, "a", |ty| ty.is_text() && ty != Ty::Char) else {
                    return unordered(seq!["SELECT 7"]);
                };
                let by = table.key_list("a");
                let how = self.pick(&["", " DESC", " NULLS FIRST", " DESC NULLS LAST"]);
                let order = match self.below(4) {
                    0 => format!("{x} COLLATE \"C\"{how}, {by}"),
                    1 => format!("lower({x}){how}, {by}"),
                    2 => format!("length({x}){how}, {x} IS NULL, {by} DESC"),
                    _ => format!("CASE WHEN {x} LIKE 'a!%%' ESCAPE '!' THEN 0 ELSE 1 END, {by}"),
                };
                let fetch = match self.below(3) {
                    0 => seq![" FETCH NEXT ", self.pick(&["1", "3"]), " ROWS ONLY"],
                    1 => seq![" LIMIT ", self.number_of(0, 5), "::bigint"],
                    _ => Tree::nothing(),
                };
                let filter = self.where_of(&scope);
                Query { tree: seq!["SELECT ", x, ", ", by, from(), filter, " ORDER BY ", order, fetch], ordered: true }
            }
        }
    }

    fn grouping_sets(&mut self, table: &Table, scope: &Scope) -> Option<Tree> {
        let (x, _) = self.plain(table, "a", |_| true)?;
        let (y, _) = self.plain(table, "a", |_| true)?;
        if x == y {
            return None;
        }
        let sets = match self.below(5) {
            0 => format!("ROLLUP ({x}, {y})"),
            1 => format!("CUBE ({x}, {y})"),
            2 => format!("GROUPING SETS (({x}), ({y}), ())"),
            3 => format!("{x}, ROLLUP ({y})"),
            _ => format!("GROUPING SETS (({x}, {y}), ({x}))"),
        };
        let a = self.aggregate(scope, None).tree;
        let having = if self.once_in(3) { seq![" HAVING count(*) > ", self.number_of(0, 3)] } else { Tree::nothing() };
        let filter = self.where_of(scope);
        Some(seq![
            "SELECT ",
            x.clone(),
            ", ",
            y.clone(),
            ", grouping(",
            x,
            ", ",
            y,
            "), ",
            a,
            " FROM ",
            table.name.clone(),
            " AS a",
            filter,
            " GROUP BY ",
            sets,
            having
        ])
    }

    /// Windows with frames of every kind.
    fn framed(&mut self, table: &Table, scope: &Scope) -> Tree {
        let keys = table.key_list("a");
        let first = &table.columns[table.key[0]];
        let by_one_number = table.key.len() == 1 && first.ty.is_integer();
        let ends = ["UNBOUNDED PRECEDING", "2 PRECEDING", "1 PRECEDING", "CURRENT ROW", "1 FOLLOWING", "2 FOLLOWING"];
        let from = self.below(5);
        let to = from.max(1) + self.below(5 - from.max(1)).max(usize::from(from == 0));
        let end = if self.once_in(4) { "UNBOUNDED FOLLOWING" } else { ends[to.min(5)] };
        let unit = if by_one_number { self.pick(&["ROWS", "RANGE", "GROUPS"]) } else { self.pick(&["ROWS", "GROUPS"]) };
        let frame = format!(" {unit} BETWEEN {} AND {end}", ends[from]);
        let partition = match self.plain(table, "a", |_| true) {
            Some((x, _)) if self.once_in(2) => format!("PARTITION BY {x} "),
            _ => String::new(),
        };
        let how = self.pick(&["", " DESC"]);
        let order =
            format!("ORDER BY {}", keys.split(", ").map(|k| format!("{k}{how}")).collect::<Vec<_>>().join(", "));
        let value = self.own_column(scope, |c| c.canonical && c.ty.is_ordered()).map_or(Tree::from("1"), |e| e.tree);
        let number = self.own_column(scope, |c| c.ty.is_integer() && !c.wild).map_or(Tree::from("1"), |e| e.tree);
        let call = match self.below(9) {
            0 => seq!["count(", value, ")"],
            1 => seq!["sum(", number, ")"],
            2 => seq!["min(", number, ")"],
            3 => seq!["max(", number, ")"],
            4 => seq!["avg(", number, ")"],
            5 => seq!["nth_value(", value, ", 2)"],
            6 => seq!["first_value(", value, ")"],
            7 => seq!["last_value(", value, ")"],
            _ => seq!["count(*) FILTER (WHERE ", number, " > 2)"],
        };
        let filter = self.where_of(scope);
        let from = seq![" FROM ", table.name.clone(), " AS a", filter];
        if self.once_in(3) {
            return seq![
                "SELECT ",
                keys,
                ", ",
                call,
                " OVER w, row_number() OVER (w) ",
                from,
                " WINDOW w AS (",
                partition,
                order,
                ")"
            ];
        }
        seq!["SELECT ", keys, ", ", call, " OVER (", partition, order, frame, ")", from]
    }

    /// One of the module's writes.
    pub fn rare_dml(&mut self) -> Dml {
        let table = self.any_table();
        let scope = Scope { rels: vec![self.base(&table, Some("a"))], outer: None };
        let own = Scope { rels: vec![self.base(&table, Some(&table.name))], outer: None };
        let keys = table.names(&table.key).join(", ");
        let free: Vec<usize> =
            (0..table.columns.len()).filter(|at| !table.is_unique(*at) && table.is_assignable(*at)).collect();
        let Some(free) = free.get(self.below(free.len())).copied() else {
            return Dml { tree: seq!["DELETE FROM ", table.name, " WHERE false"], several: true };
        };
        let column = table.columns[free].clone();
        let value = |g: &mut Self, scope: &Scope| {
            let left = std::mem::take(&mut g.subqueries);
            let tree = g.value_for(scope, &table, free, 1);
            g.subqueries = left;
            tree
        };
        let returning = self.pick(&["", " RETURNING *"]);
        if column.ty.is_array() && self.once_in(3) {
            // One element of an array, or several.
            let element = column.ty.element().unwrap_or(Ty::Text);
            let condition = self.condition(&own, 1).tree;
            let (place, set) = match self.below(3) {
                0 => (seq!["[", self.number_of(1, 2), ":", self.number_of(2, 3), "]"], self.constant(column.ty).tree),
                _ => (seq!["[", self.number_of(1, 4), "]"], self.leaf(&own, element).tree),
            };
            let tree =
                seq!["UPDATE ", table.name.clone(), " SET ", column.name, place, " = ", set, " WHERE ", condition];
            return Dml { tree: seq![tree, returning], several: true };
        }
        match self.below(7) {
            0 => {
                let condition = self.condition(&scope, 1).tree;
                let tree = seq![
                    "WITH w AS (SELECT ",
                    keys.clone(),
                    " FROM ",
                    table.name.clone(),
                    " AS a WHERE ",
                    condition,
                    ") DELETE FROM ",
                    table.name.clone(),
                    " WHERE (",
                    keys.clone(),
                    ") IN (SELECT ",
                    keys,
                    " FROM w)",
                    returning
                ];
                Dml { tree, several: true }
            }
            1 => {
                let set = value(self, &own);
                let n = self.number_of(0, 8);
                let tree = seq![
                    "WITH w AS (SELECT count(*) AS n FROM ",
                    table.name.clone(),
                    ") UPDATE ",
                    table.name.clone(),
                    " SET ",
                    column.name.clone(),
                    " = ",
                    set,
                    " FROM w WHERE w.n > ",
                    n
                ];
                Dml { tree, several: true }
            }
            2 => {
                // The row under a key once more.
                let names: Vec<String> = table.given().map(|at| table.columns[at].name.clone()).collect();
                let at = self.constant_beside(table.columns[table.key[0]].ty).tree;
                let set = value(self, &own);
                let tree = seq![
                    "INSERT INTO ",
                    table.name.clone(),
                    " SELECT ",
                    names.join(", "),
                    " FROM ",
                    table.name.clone(),
                    " WHERE ",
                    table.columns[table.key[0]].name.clone(),
                    " = ",
                    at,
                    " ON CONFLICT (",
                    keys,
                    ") DO UPDATE SET ",
                    column.name.clone(),
                    " = ",
                    set,
                    returning
                ];
                Dml { tree, several: true }
            }
            3 => {
                let other = table.columns[free].name.clone();
                let set = value(self, &own);
                let condition = self.condition(&own, 1).tree;
                let tree = match self.below(3) {
                    0 => seq!["(", other, ") = ROW(", set, ")"],
                    1 => seq![other, " = DEFAULT"],
                    _ => seq![other, " = (SELECT ", set, ")"],
                };
                Dml { tree: seq!["UPDATE ", table.name.clone(), " SET ", tree, " WHERE ", condition], several: true }
            }
            4 => {
                let names: Vec<String> = table.given().map(|at| table.columns[at].name.clone()).collect();
                let at = self.constant_beside(table.columns[table.key[0]].ty).tree;
                let tree = seq![
                    "INSERT INTO ",
                    table.name.clone(),
                    " (",
                    names.join(", "),
                    ") SELECT ",
                    names.join(", "),
                    " FROM ",
                    table.name.clone(),
                    " WHERE ",
                    table.columns[table.key[0]].name.clone(),
                    " >= ",
                    at,
                    " ON CONFLICT ON CONSTRAINT ",
                    table.name.clone(),
                    "_pkey DO NOTHING",
                    returning
                ];
                Dml { tree, several: true }
            }
            5 => {
                let other = self.any_table();
                let inner = Scope { rels: vec![self.base(&other, Some("b"))], outer: Some(&own) };
                let condition = self.condition(&inner, 1).tree;
                let set = value(self, &own);
                let tree = seq![
                    "UPDATE ",
                    table.name.clone(),
                    " SET ",
                    column.name.clone(),
                    " = ",
                    set,
                    " WHERE EXISTS (SELECT 1 FROM ",
                    other.name.clone(),
                    " AS b WHERE ",
                    condition,
                    ")",
                    returning
                ];
                Dml { tree, several: true }
            }
            _ => {
                let other = self.any_table();
                let by = table.columns[table.key[0]].clone();
                let Some((y, _)) = self.plain(&other, "b", |ty| ty == by.ty) else {
                    return Dml { tree: seq!["DELETE FROM ", table.name, " WHERE false"], several: true };
                };
                let inner = Scope { rels: vec![self.base(&other, Some("b"))], outer: Some(&own) };
                let condition = self.condition(&inner, 1).tree;
                let tree = seq![
                    "DELETE FROM ",
                    table.name.clone(),
                    " WHERE ",
                    by.name,
                    self.pick(&[" IN ", " = ANY ", " NOT IN "]),
                    "(SELECT ",
                    y,
                    " FROM ",
                    other.name.clone(),
                    " AS b WHERE ",
                    condition,
                    ")",
                    returning
                ];
                Dml { tree, several: true }
            }
        }
    }

    /// A text of what is rarer.
    pub fn rare_text(&mut self, scope: &Scope) -> Tree {
        let ty = Some(self.some_ordered_type(scope)).filter(|ty| !ty.is_array()).unwrap_or(Ty::Int4);
        let item = |g: &mut Self| g.leaf(scope, ty).tree;
        match self.below(9) {
            0 => seq!["(ARRAY[", item(self), ", ", item(self), "])::text"],
            1 => seq!["array_to_string(ARRAY[", item(self), ", NULL, ", item(self), "], ',', '*')"],
            2 => seq!["format('%s|%L|%I', ", item(self), ", ", self.leaf(scope, Ty::Text).tree, ", 'a b')"],
            3 => seq![
                "to_char(",
                self.tame_leaf(scope, Ty::Numeric).tree,
                ", '",
                self.pick(&["999.99", "FM0.0", "S9", "000"]),
                "')"
            ],
            4 => seq!["overlay(", self.leaf(scope, Ty::Text).tree, " PLACING 'xy' FROM ", self.number_of(1, 3), ")"],
            5 => seq!["to_char(", self.tame_leaf(scope, Ty::Timestamptz).tree, ", 'YYYY-MM-DD HH24:MI:SS.US')"],
            6 => seq!["array_position(ARRAY[", item(self), ", ", item(self), "], ", item(self), ")::text"],
            7 => seq!["quote_nullable(", self.leaf(scope, Ty::Text).tree, ")"],
            _ => seq!["(string_to_array(", self.leaf(scope, Ty::Text).tree, ", ','))[", self.number_of(0, 2), "]"],
        }
    }

    /// A condition of what is rarer.
    pub fn rare_condition(&mut self, scope: &Scope) -> Tree {
        let ty = self.some_ordered_type(scope);
        match self.below(7) {
            0 => {
                let (text, escape) = (self.leaf(scope, Ty::Text).tree, self.pick(&["!", "", "a", "\\"]));
                let pattern = self.pick(&["a!%", "%b!_%", "_", "x,%"]);
                let not = self.pick(&["", "NOT "]);
                seq![
                    text,
                    " ",
                    not,
                    "LIKE '",
                    pattern,
                    "' ESCAPE '",
                    if pattern.contains('!') { "!" } else { escape },
                    "'"
                ]
            }
            1 => seq![
                self.leaf(scope, Ty::Text).tree,
                " SIMILAR TO '",
                self.pick(&["a%", "(a|b)_?", "[0-9]+", "%b"]),
                "'"
            ],
            2 => seq!["(", self.leaf(scope, ty).tree, ", ", self.number_of(0, 3), ") IS NOT NULL"],
            3 => seq![
                "ARRAY[",
                self.leaf(scope, Ty::Int4).tree,
                ", ",
                self.number_of(0, 3),
                "]",
                self.pick(&[" && ", " @> ", " <@ ", " = ", " < "]),
                "ARRAY[",
                self.number_of(0, 3),
                ", NULL, ",
                self.number_of(0, 3),
                "]"
            ],
            4 => seq![
                self.tame_leaf(scope, Ty::Date).tree,
                self.pick(&[" + ", " - "]),
                self.constant(Ty::Interval).tree,
                self.pick(&[" > ", " <= "]),
                self.tame_leaf(scope, Ty::Timestamp).tree
            ],
            5 => seq![
                "(",
                self.leaf(scope, ty).tree,
                ", ",
                self.leaf(scope, Ty::Int4).tree,
                ") IS DISTINCT FROM (",
                self.constant_beside(ty).tree,
                ", ",
                self.number_of(0, 4),
                ")"
            ],
            _ => seq![
                self.leaf(scope, Ty::Text).tree,
                " COLLATE \"C\"",
                self.pick(&[" < ", " >= "]),
                self.constant_beside(Ty::Text).tree
            ],
        }
    }
}
