//! Types with operators of their own: documents, arrays, ranges, bits, addresses, times with a zone, an enumerated
//! type, `citext`; and statements about them and about a sequence.
//!
//! What fails for some values stands behind a CASE, or is a risk (`generator.rs`).

use super::generator::{Col, E, Gen, Scope};
use super::query::Query;
use super::tree::{Style, Tree, seq};
use super::types::{Ty, Value};

impl Gen<'_> {
    fn count(&mut self, least: i64, most: i64) -> Tree {
        let span = usize::try_from(most - least + 1).unwrap_or(1);
        let values = (0..self.runs).map(|_| Value::Int(least + self.below(span) as i64)).collect();
        self.hole_of(Ty::Int4, Style::Cast, values)
    }

    fn leaf_of(&mut self, scope: &Scope, ty: Ty) -> Tree {
        self.leaf(scope, ty).tree
    }

    /// An expression of one of [`Ty::MORE`].
    pub fn typed(&mut self, scope: &Scope, ty: Ty) -> E {
        let tree = match ty {
            Ty::Jsonb => self.document(scope),
            Ty::Int4Array | Ty::TextArray | Ty::DateArray => self.array(scope, ty),
            Ty::Int4Range | Ty::DateRange | Ty::TsRange => self.range(scope, ty),
            Ty::Bit | Ty::Varbit => self.bits(scope, ty),
            Ty::Inet | Ty::Cidr => self.address(scope, ty),
            Ty::Timetz => match self.below(5) {
                0 | 1 => {
                    let op = self.pick(&[" + ", " - "]);
                    seq!["(", self.leaf_of(scope, ty), op, self.constant(Ty::Interval).tree, ")"]
                }
                2 => seq!["(", self.leaf_of(scope, Ty::Time), ")::timetz"],
                3 => seq!["(", self.tame_leaf(scope, Ty::Timestamptz).tree, ")::timetz"],
                _ => seq!["(", self.leaf_of(scope, ty), " AT TIME ZONE '", self.pick(&["UTC", "+03"]), "')"],
            },
            Ty::Mood => match self.below(3) {
                0 => seq![self.pick(&["enum_first(", "enum_last("]), self.leaf_of(scope, ty), ")"],
                1 => seq!["(", self.leaf_of(scope, ty), "::text)::mood"],
                _ => self.leaf_of(scope, ty),
            },
            Ty::Citext => match self.below(3) {
                0 => seq!["(", self.leaf_of(scope, Ty::Text), ")::citext"],
                _ => self.leaf_of(scope, ty),
            },
            ty => self.leaf_of(scope, ty),
        };
        E::new(ty, tree, 1.0)
    }

    fn document(&mut self, scope: &Scope) -> Tree {
        let a = self.leaf_of(scope, Ty::Jsonb);
        let of_object = |then: Tree| {
            seq!["CASE WHEN jsonb_typeof(", a.clone(), ") = 'object' THEN ", then, " ELSE ", a.clone(), " END"]
        };
        match self.below(15) {
            0 => seq![
                "jsonb_build_object('a', ",
                self.tame_leaf(scope, Ty::Int4).tree,
                ", 'b', ",
                self.leaf_of(scope, Ty::Text),
                ")"
            ],
            1 => seq![
                "jsonb_build_array(",
                self.leaf_of(scope, Ty::Bool),
                ", ",
                self.leaf_of(scope, Ty::Int8),
                ", ",
                a,
                ")"
            ],
            2 => {
                let ty = self.pick_ty(&[Ty::Int4, Ty::Text, Ty::Bool, Ty::Date, Ty::Int4Array, Ty::TextArray]);
                seq!["to_jsonb(", self.leaf_of(scope, ty), ")"]
            }
            3 | 4 => seq!["(", a, " -> '", self.pick(&["a", "b", "c", "0", ""]), "')"],
            5 => seq!["(", a, " -> ", self.count(-2, 2), ")"],
            6 => seq!["(", a, " #> '", self.pick(&["{a,b}", "{a}", "{0,a}", "{}", "{a,b,-1}"]), "')"],
            7 => of_object(seq![a.clone(), " - '", self.pick(&["a", "b", "nope"]), "'"]),
            8 => seq!["(jsonb_build_array(", self.leaf_of(scope, Ty::Text), ") || ", a, ")"],
            9 => seq!["jsonb_strip_nulls(", a, ")"],
            10 => {
                let set = self.constant(Ty::Jsonb).tree;
                let path = self.pick(&["{a}", "{b}", "{new}"]);
                let make = self.pick(&["", ", false", ", true"]);
                of_object(seq!["jsonb_set(", a.clone(), ", '", path, "', ", set, make, ")"])
            }
            11 => {
                let path = self.pick(&["$.a", "$[0]", "$.a.b[*]", "$.* ? (@ > 1)", "$.size()", "$.type()"]);
                seq!["jsonb_path_query_first(", a, ", '", path, "')"]
            }
            12 => seq!["jsonb_path_query_array(", a, ", '", self.pick(&["$[*]", "$.*", "$.a", "$[last]"]), "')"],
            // Of a number and the like it fails, of a constant also where no row is.
            13 => of_object(seq!["(", a.clone(), " #- '", self.pick(&["{a}", "{a,b}", "{}"]), "')"]),
            _ => seq!["(", a, "::text)::jsonb"],
        }
    }

    fn array(&mut self, scope: &Scope, ty: Ty) -> Tree {
        let of = ty.element().unwrap_or(Ty::Text);
        let a = self.leaf_of(scope, ty);
        match self.below(14) {
            0 => seq!["ARRAY[", self.leaf_of(scope, of), ", NULL, ", self.leaf_of(scope, of), "]"],
            1 | 2 => seq!["(", a, " || ", self.leaf_of(scope, ty), ")"],
            3 => seq!["(", a, " || ", self.leaf_of(scope, of), ")"],
            4 => seq!["array_append(", a, ", ", self.leaf_of(scope, of), ")"],
            5 => seq!["array_prepend(", self.leaf_of(scope, of), ", ", a, ")"],
            6 => seq!["array_remove(", a, ", ", self.leaf_of(scope, of), ")"],
            7 => seq!["array_replace(", a, ", ", self.leaf_of(scope, of), ", ", self.leaf_of(scope, of), ")"],
            8 => seq!["(", a, ")[", self.count(-1, 3), ":", self.count(1, 4), "]"],
            9 => seq!["(", a, ")[", self.count(1, 3), ":]"],
            10 => seq!["(", a, ")[:", self.count(0, 2), "]"],
            11 => seq!["array_cat(", a, ", ", self.leaf_of(scope, ty), ")"],
            12 => match ty {
                Ty::TextArray => seq![
                    self.pick(&["string_to_array(", "regexp_split_to_array("]),
                    self.leaf_of(scope, Ty::Text),
                    ", ",
                    self.pick(&["','", "'a'", "' '"]),
                    ")"
                ],
                Ty::Int4Array => seq!["array_positions(", a, ", ", self.leaf_of(scope, of), ")"],
                _ => seq!["array_fill(", self.leaf_of(scope, of), ", ARRAY[", self.count(0, 3), "])"],
            },
            _ => seq!["CASE WHEN cardinality(", a.clone(), ") > 1 THEN ", a, " END"],
        }
    }

    fn range(&mut self, scope: &Scope, ty: Ty) -> Tree {
        let of = ty.element().unwrap_or(Ty::Int4);
        let a = self.leaf_of(scope, ty);
        match self.below(6) {
            0 | 1 => {
                let (x, y) = (self.tame_leaf(scope, of).tree, self.tame_leaf(scope, of).tree);
                let bounds = self.pick(&["", ", '[]'", ", '()'", ", '(]'", ", '[)'"]);
                let both = |name: &str| seq![name, "(", x.clone(), ", ", y.clone(), ")"];
                seq![ty.name(), "(", both("least"), ", ", both("greatest"), bounds, ")"]
            }
            2 | 3 => seq!["(", a, " * ", self.leaf_of(scope, ty), ")"],
            4 if self.risk() => seq!["(", a, self.pick(&[" + ", " - "]), self.leaf_of(scope, ty), ")"],
            4 | 5 => seq!["range_merge(", a, ", ", self.leaf_of(scope, ty), ")"],
            _ => a,
        }
    }

    fn bits(&mut self, scope: &Scope, ty: Ty) -> Tree {
        let a = self.leaf_of(scope, ty);
        match (ty, self.below(8)) {
            (Ty::Bit, 0..=2) => seq!["(", a, self.pick(&[" & ", " | ", " # "]), self.leaf_of(scope, ty), ")"],
            (Ty::Bit, 3) => seq!["(", self.leaf_of(scope, Ty::Int4), ")::bit(4)"],
            (Ty::Bit, 4) => seq!["set_bit(", a, ", ", self.count(0, 3), ", ", self.count(0, 1), ")"],
            (Ty::Varbit, 0..=2) => {
                let other = self.pick_ty(&[Ty::Bit, Ty::Varbit]);
                seq!["(", a, " || ", self.leaf_of(scope, other), ")"]
            }
            (Ty::Varbit, 3) => seq!["(", a, ")::varbit(3)"],
            (Ty::Varbit, 4) => {
                seq!["substring(", a, " FROM ", self.count(-1, 4), " FOR ", self.count(0, 4), ")::varbit"]
            }
            (_, 5) => {
                let cast = if ty == Ty::Varbit { ")::varbit" } else { ")" };
                seq!["(", a, self.pick(&[" << ", " >> "]), self.count(0, 5), cast]
            }
            (Ty::Bit, 6) => seq!["(~ ", a, ")"],
            _ => a,
        }
    }

    fn address(&mut self, scope: &Scope, ty: Ty) -> Tree {
        let a = self.leaf_of(scope, Ty::Inet);
        match (ty, self.below(8)) {
            (Ty::Inet, 0..=2) => seq![self.pick(&["broadcast(", "netmask(", "hostmask("]), a, ")"],
            (Ty::Inet, 3) => seq!["set_masklen(", a, ", ", self.count(0, 32), ")"],
            (Ty::Inet, 4) => seq!["(~ ", a, ")"],
            (Ty::Inet, 5) if self.risk() => seq!["(", a, self.pick(&[" + ", " - "]), self.count(0, 300), ")"],
            (Ty::Inet, 5) => seq!["(", self.leaf_of(scope, Ty::Cidr), ")::inet"],
            (Ty::Inet, 6) if self.risk() => seq!["(", a, self.pick(&[" & ", " | "]), self.leaf_of(scope, ty), ")"],
            (Ty::Cidr, 0..=2) => seq!["network(", a, ")"],
            (Ty::Cidr, 3) => seq!["(", a, ")::cidr"],
            (Ty::Cidr, 4) => seq!["set_masklen(", self.leaf_of(scope, ty), ", ", self.count(0, 32), ")"],
            (Ty::Cidr, 5) if self.risk() => seq!["inet_merge(", a, ", ", self.leaf_of(scope, Ty::Inet), ")"],
            _ => self.leaf_of(scope, ty),
        }
    }

    /// A type of [`Ty::MORE`] that the scope has, or any.
    fn some_more(&mut self, scope: &Scope) -> Ty {
        let here: Vec<Ty> = scope.columns().map(|c| c.ty).filter(|ty| Ty::MORE.contains(ty)).collect();
        if here.is_empty() || self.once_in(6) { self.pick_ty(&Ty::MORE) } else { self.pick_ty(&here) }
    }

    /// A condition about one of these types.
    pub fn typed_condition(&mut self, scope: &Scope) -> Tree {
        let ty = self.some_more(scope);
        let a = self.leaf_of(scope, ty);
        match ty {
            Ty::Jsonb => match self.below(8) {
                0 | 1 => seq![a, self.pick(&[" @> ", " <@ "]), self.constant_beside(ty).tree],
                2 => seq![a, " ? '", self.pick(&["a", "b", "x"]), "'"],
                3 => seq![a, self.pick(&[" ?| ", " ?& "]), "ARRAY['a', '", self.pick(&["b", "c", "x"]), "']"],
                4 => seq![a, " @? '", self.pick(&["$.a", "$[*] ? (@ == 1)", "$.a.b[1]", "strict $.a"]), "'"],
                5 => seq![a, " @@ '", self.pick(&["$.a > 0", "$[*] == \"a\"", "exists($.c)", "$.a"]), "'"],
                6 => seq![a, " ->> 'a'", self.pick(&[" = ", " > "]), self.constant_beside(Ty::Text).tree],
                _ => seq![
                    "jsonb_path_exists(",
                    a,
                    ", '$.* ? (@ > $n)', jsonb_build_object('n', ",
                    self.count(0, 3),
                    "))"
                ],
            },
            _ if ty.is_array() => {
                let of = ty.element().unwrap_or(Ty::Text);
                match self.below(5) {
                    0 | 1 => seq![a, self.pick(&[" @> ", " <@ ", " && "]), self.leaf_of(scope, ty)],
                    2 => {
                        let op = self.pick(&[" = ANY (", " <> ALL (", " < ANY (", " >= ALL ("]);
                        seq![self.leaf_of(scope, of), op, a, ")"]
                    }
                    3 => seq!["(", a, ")[", self.count(0, 3), "] = ", self.constant_beside(of).tree],
                    _ => seq!["cardinality(", a, ") > ", self.count(0, 3)],
                }
            }
            _ if ty.is_range() => {
                let of = ty.element().unwrap_or(Ty::Int4);
                match self.below(5) {
                    0 => seq![a, " @> ", self.leaf_of(scope, of)],
                    1 => seq![self.leaf_of(scope, of), " <@ ", a],
                    2 | 3 => {
                        let op = self.pick(&[" @> ", " <@ ", " && ", " << ", " >> ", " &< ", " &> ", " -|- "]);
                        seq![a, op, self.leaf_of(scope, ty)]
                    }
                    _ => seq![self.pick(&["isempty(", "lower_inc(", "upper_inc(", "lower_inf(", "upper_inf("]), a, ")"],
                }
            }
            Ty::Bit => match self.below(3) {
                0 => seq!["get_bit(", a, ", ", self.count(0, 3), ") = 1"],
                1 => seq!["(", a, " & B'1010') = ", self.constant_beside(ty).tree],
                _ => seq!["position(B'1' IN ", a, ") > ", self.count(0, 3)],
            },
            Ty::Varbit => seq![self.pick(&["length(", "bit_count("]), a, ") > ", self.count(0, 5)],
            Ty::Inet | Ty::Cidr => match self.below(3) {
                0 | 1 => {
                    let other = self.pick_ty(&[Ty::Inet, Ty::Cidr]);
                    let op = self.pick(&[" << ", " <<= ", " >> ", " >>= ", " && ", " = ", " > "]);
                    seq![a, op, self.leaf_of(scope, other)]
                }
                _ => seq!["inet_same_family(", a, ", ", self.leaf_of(scope, Ty::Inet), ")"],
            },
            Ty::Timetz => seq!["extract(hour FROM ", a, ") > ", self.count(0, 12)],
            Ty::Mood => match self.below(3) {
                0 => seq![a, " = ANY (enum_range(NULL, ", self.leaf_of(scope, ty), "))"],
                1 => seq![a, "::text LIKE '%", self.pick(&["a", "o", "ü"]), "%'"],
                _ => seq![a, self.pick(&[" > ", " <= ", " <> "]), self.constant_beside(ty).tree],
            },
            Ty::Citext => match self.below(3) {
                0 => seq![a, self.pick(&[" LIKE 'a%'", " LIKE '_B%'", " ~ '^A'", " NOT LIKE '%B'"])],
                1 => seq![a, " IN ('AB', 'a ', ", self.constant_beside(ty).tree, ")"],
                _ => seq![a, self.pick(&[" = ", " < ", " >= "]), self.constant_beside(ty).tree],
            },
            _ => seq!["(", a, " + ", self.constant(Ty::Interval).tree, ") > ", self.constant_beside(Ty::Interval).tree],
        }
    }

    /// An `integer` that comes of one of these types.
    pub fn typed_integer(&mut self, scope: &Scope) -> Tree {
        let ty = self.some_more(scope);
        let a = self.leaf_of(scope, ty);
        match ty {
            Ty::Jsonb => {
                let n = seq!["jsonb_array_length(", a.clone(), ")"];
                seq!["CASE WHEN jsonb_typeof(", a, ") = 'array' THEN ", n, " END"]
            }
            Ty::Int4Array if self.once_in(2) => seq!["(", a, ")[", self.count(0, 4), "]"],
            _ if ty.is_array() => {
                let of = ty.element().unwrap_or(Ty::Text);
                match self.below(4) {
                    0 => seq!["array_length(", a, ", 1)"],
                    1 => seq!["array_position(", a, ", ", self.leaf_of(scope, of), ")"],
                    2 => seq![self.pick(&["array_lower(", "array_upper("]), a, ", 1)"],
                    _ => seq!["cardinality(", a, ")"],
                }
            }
            Ty::Int4Range => seq![self.pick(&["lower(", "upper("]), a, ")"],
            Ty::Bit if self.once_in(2) => seq!["(", a, ")::integer"],
            Ty::Bit | Ty::Varbit => seq![self.pick(&["length(", "octet_length("]), a, ")"],
            Ty::Inet | Ty::Cidr => seq![self.pick(&["family(", "masklen("]), a, ")"],
            Ty::Citext => seq!["length(", a, ")"],
            _ => seq!["length(", a, "::text)"],
        }
    }

    /// A text that comes of one of these types.
    pub fn typed_text(&mut self, scope: &Scope) -> Tree {
        let ty = self.some_more(scope);
        let a = self.leaf_of(scope, ty);
        match ty {
            Ty::Jsonb => match self.below(6) {
                0 | 1 => seq!["(", a, " ->> '", self.pick(&["a", "b", "c"]), "')"],
                2 => seq!["(", a, " ->> ", self.count(-1, 2), ")"],
                3 => seq!["(", a, " #>> '", self.pick(&["{a,b}", "{a}", "{0}"]), "')"],
                4 => seq![self.pick(&["jsonb_typeof(", "jsonb_pretty("]), a, ")"],
                _ => seq!["(", a, ")::text"],
            },
            Ty::TextArray if self.once_in(2) => seq!["(", a, ")[", self.count(0, 3), "]"],
            _ if ty.is_array() => seq!["array_to_string(", a, ", ','", self.pick(&["", ", '*'"]), ")"],
            Ty::Inet | Ty::Cidr => seq![self.pick(&["host(", "abbrev(", "text("]), a, ")"],
            _ => seq!["(", a, ")::text"],
        }
    }

    /// A query that is about such values as a whole.
    pub fn typed_query(&mut self) -> Query {
        let table = self.any_table();
        let scope = Scope { rels: vec![self.base(&table, Some("a"))], outer: None };
        let keys = table.key_list("a");
        let from = |more: Tree| seq![" FROM ", table.name.clone(), " AS a", more];
        let filter = if self.once_in(2) { seq![" WHERE ", self.condition(&scope, 1).tree] } else { Tree::nothing() };
        let document = self.leaf_of(&scope, Ty::Jsonb);
        let only = |kind: &str, other: &str| {
            let test = seq!["CASE WHEN jsonb_typeof(", document.clone(), ") = '", kind, "' THEN ", document.clone()];
            seq![test, " ELSE '", other, "' END"]
        };
        let ty = self.pick_ty(&[Ty::Int4Array, Ty::TextArray, Ty::DateArray]);
        let array = match self.own_column(&scope, |c| c.ty.is_array()) {
            Some(column) => column.tree,
            None => self.leaf_of(&scope, ty),
        };
        let plain = |c: &Col| c.canonical && c.ty.is_ordered() && !c.ty.is_array() && c.ty != Ty::Char;
        let value = self.own_column(&scope, plain).map_or_else(|| Tree::from("1"), |e| e.tree);
        let tree = match self.below(15) {
            0 => seq!["SELECT ", keys, ", u", from(seq![", unnest(", array, ") AS u"]), filter],
            1 => {
                let unnested = seq![", unnest(", array, ") WITH ORDINALITY AS u(x, n)"];
                seq!["SELECT ", keys, ", x, n", from(unnested), filter]
            }
            2 => seq!["SELECT ", keys, ", jsonb_array_elements(", only("array", "[]"), ")", from(filter)],
            3 => {
                let name = self.pick(&["jsonb_each", "jsonb_each_text"]);
                let each = seq![", ", name, "(", only("object", "{}"), ") AS e(k, v)"];
                seq!["SELECT ", keys, ", k, v", from(each), filter]
            }
            4 => seq!["SELECT ", keys, ", jsonb_object_keys(", only("object", "{}"), ")", from(filter)],
            5 => seq!["SELECT jsonb_agg(", value, " ORDER BY ", keys, "), count(*)", from(filter)],
            6 => {
                let first = keys.split(", ").next().unwrap_or("1").to_owned();
                let pairs = seq![first, "::text, ", value, " ORDER BY ", keys];
                seq!["SELECT jsonb_object_agg(", pairs, ")", from(filter)]
            }
            7 => {
                let distinct = seq!["array_agg(DISTINCT ", value.clone(), ")"];
                seq!["SELECT array_agg(", value, " ORDER BY ", keys, "), ", distinct, from(filter)]
            }
            8 => {
                let path = self.pick(&["$.*", "$[*]", "$.a", "$.**", "$.a.b[*]"]);
                let found = seq![", jsonb_path_query(", document, ", '", path, "') AS q"];
                seq!["SELECT ", keys, ", q", from(found), filter]
            }
            9 => {
                let n = self.count(1, 90);
                return Query {
                    tree: seq!["SELECT setval('fs', ", n, "), nextval('fs'), nextval('fs'), currval('fs'), lastval()"],
                    ordered: true,
                };
            }
            10 => seq!["SELECT ", keys, ", generate_subscripts(", array, ", 1)", from(filter)],
            11 => {
                let Some(by) = self.own_column(&scope, |c| Ty::MORE.contains(&c.ty) && c.canonical) else {
                    return Query { tree: seq!["SELECT ", self.constant(ty).tree], ordered: true };
                };
                let order = self.pick(&[" ORDER BY 1", " ORDER BY 1 DESC", " ORDER BY 1 NULLS FIRST"]);
                let by = by.tree;
                let tree = seq!["SELECT ", by.clone(), ", count(*)", from(filter), " GROUP BY ", by, order];
                return Query { tree, ordered: true };
            }
            12 => match self.own_column(&scope, |c| c.ty == Ty::Bit) {
                Some(bits) => {
                    let bits = bits.tree;
                    seq!["SELECT bit_and(", bits.clone(), "), bit_or(", bits, ")", from(filter)]
                }
                None => seq!["SELECT ", keys, ", ARRAY(SELECT unnest(", array, ") ORDER BY 1)", from(filter)],
            },
            13 => {
                let record = seq![
                    ", jsonb_to_record(",
                    only("object", "{}"),
                    ") AS r(a ",
                    self.pick(&["jsonb", "text"]),
                    ", c boolean)"
                ];
                seq!["SELECT ", keys, ", r.a, r.c", from(record), filter]
            }
            _ => {
                let all = self.pick(&["row_to_json(a)", "to_jsonb(a)", "a"]);
                seq!["SELECT ", all, from(filter)]
            }
        };
        Query { tree, ordered: false }
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand::rngs::StdRng;

    use super::super::schema::Schema;
    use super::super::tree::{Writing, write};
    use super::*;

    /// Each of the types comes up in what is generated, and each text is balanced.
    #[test]
    fn all_types_come_up() {
        let mut rng = StdRng::seed_from_u64(3);
        let mut seen = String::new();
        for _ in 0..60 {
            let schema = Schema::random(&mut rng);
            seen.push_str(&schema.create(true).join("\n"));
            for _ in 0..20 {
                let mut g = Gen::new(&mut rng, &schema, 7);
                let tree = g.typed_query().tree;
                let (text, _) = write(&tree, &g.holes, Writing { run: Some(0), drop_null_in_not_in: false });
                seen.push_str(&text);
            }
        }
        for ty in Ty::MORE {
            assert!(seen.contains(ty.name()), "{ty:?} never comes up");
        }
        for word in ["GENERATED ALWAYS", "AS IDENTITY", "TEMPORARY", "CREATE VIEW", "d_int", "d_text", "nextval"] {
            assert!(seen.contains(word), "{word} never comes up");
        }
    }
}
