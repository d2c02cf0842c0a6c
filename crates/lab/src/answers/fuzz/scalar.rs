//! Operators and functions by the type of their result.

use super::generator::{E, Gen, Scope};
use super::tree::{Style, Tree, seq};
use super::types::{Ty, Value};

/// `name(argument, …)`
fn call(name: &str, arguments: Vec<Tree>) -> Tree {
    let count = arguments.len();
    seq![name, "(", Tree::list(arguments, ", ", count), ")"]
}

impl Gen<'_> {
    /// A small integer constant that is not negative.
    fn small(&mut self, most: i64) -> Tree {
        let values = (0..self.runs).map(|_| Value::Int(self.below(most as usize + 1) as i64)).collect();
        self.hole_of(Ty::Int4, Style::Bare, values)
    }

    /// Whether one more operator of this statement may fail.
    pub fn risk(&mut self) -> bool {
        let taken = self.risks > 0 && self.once_in(2);
        self.risks -= usize::from(taken);
        taken
    }

    pub fn number(&mut self, scope: &Scope, ty: Ty, depth: u32) -> E {
        match self.below(10) {
            0..=4 => self.arithmetic(scope, ty, depth),
            5 => self.division(scope, ty, depth),
            6 => {
                let a = self.expr(scope, ty, depth - 1);
                if a.most.is_finite() || !ty.is_integer() || self.risk() {
                    let most = a.most;
                    let exact = a.exact;
                    let tree = if self.once_in(2) { seq!["- ", a.tree] } else { call("abs", vec![a.tree]) };
                    return E { exact, ..E::new(ty, seq!["(", tree, ")"], most) };
                }
                a
            }
            7 => self.number_cast(scope, ty, depth),
            _ if ty.is_integer() => self.integer_function(scope, ty, depth),
            _ if ty == Ty::Numeric => self.numeric_function(scope, depth),
            _ => self.float_function(scope, ty, depth),
        }
    }

    fn arithmetic(&mut self, scope: &Scope, ty: Ty, depth: u32) -> E {
        let a = self.expr(scope, ty, depth - 1);
        let other = match ty {
            Ty::Int8 => self.pick_ty(&[Ty::Int8, Ty::Int4, Ty::Int2]),
            Ty::Int4 => self.pick_ty(&[Ty::Int4, Ty::Int4, Ty::Int2]),
            Ty::Numeric => self.pick_ty(&[Ty::Numeric, Ty::Int4, Ty::Int8]),
            Ty::Float8 => self.pick_ty(&[Ty::Float8, Ty::Int4, Ty::Float4, Ty::Numeric]),
            ty => ty,
        };
        let b = if self.once_in(2) && !a.untyped {
            self.constant_beside(other)
        } else {
            self.expr(scope, other, depth - 1)
        };
        let op = self.pick(&[" + ", " - ", " * "]);
        let most = if op == " * " { a.most * b.most } else { a.most + b.most };
        // NaN of infinity times zero counts as too large.
        if most < ty.bound() || self.risk() {
            let exact = a.exact && b.exact;
            return E { exact, ..E::new(ty, seq!["(", a.tree, op, b.tree, ")"], most) };
        }
        a
    }

    /// Division and remainder by something that is not zero, unless there is a risk to take.
    fn division(&mut self, scope: &Scope, ty: Ty, depth: u32) -> E {
        let a = self.expr(scope, ty, depth - 1);
        if !a.most.is_finite() {
            return a;
        }
        let op = if matches!(ty, Ty::Float4 | Ty::Float8) { " / " } else { self.pick(&[" / ", " / ", " % "]) };
        let b = self.expr(scope, ty, depth - 1);
        if !b.most.is_finite() {
            return a;
        }
        let b = if self.risk() {
            b.tree
        } else {
            match self.below(3) {
                0 => seq!["nullif(", b.tree, ", 0)"],
                1 => {
                    let values = (0..self.runs).map(|_| Value::Int(1 + self.below(9) as i64)).collect();
                    self.hole_of(Ty::Int4, if ty == Ty::Int2 { Style::Cast } else { Style::Bare }, values)
                }
                _ => {
                    let tree = seq!["CASE WHEN ", b.tree.clone(), " <> 0 THEN ", a.tree, op, b.tree, " END"];
                    return E::new(ty, tree, a.most * 100.0).inexact();
                }
            }
        };
        if ty == Ty::Int2 {
            return E::new(ty, seq!["(", a.tree, op, "(", b, ")::smallint)"], a.most);
        }
        // Of quarters and hundredths: the quotient is at most a hundred times as large.
        E::new(ty, seq!["(", a.tree, op, b, ")"], a.most * 100.0).inexact()
    }

    fn number_cast(&mut self, scope: &Scope, ty: Ty, depth: u32) -> E {
        let from = self.pick_ty(&[Ty::Int2, Ty::Int4, Ty::Int8, Ty::Numeric, Ty::Float8, Ty::Float4]);
        let a = self.expr(scope, from, depth - 1);
        if a.most < ty.bound().min(30_000.0) || self.risk() {
            let most = a.most;
            let tree = match ty {
                Ty::Numeric if self.once_in(2) && most < 1e5 => seq![a.tree, "::numeric(10,2)"],
                ty => seq!["CAST(", a.tree, " AS ", ty.name(), ")"],
            };
            return E { exact: a.exact, ..E::new(ty, tree, most + 1.0) };
        }
        self.leaf(scope, ty)
    }

    fn integer_function(&mut self, scope: &Scope, ty: Ty, depth: u32) -> E {
        let text = self.expr(scope, Ty::Text, depth - 1).tree;
        let tree = match self.below(10) {
            9 => self.typed_integer(scope),
            0 => call("length", vec![text]),
            1 => call("octet_length", vec![text]),
            2 => call("strpos", vec![text, self.constant_beside(Ty::Text).tree]),
            3 => seq!["position(", self.constant_beside(Ty::Text).tree, " IN ", text, ")"],
            4 => call("ascii", vec![text]),
            5 => seq!["(", self.condition(scope, depth - 1).tree, ")::integer"],
            6 => {
                let (a, b) = (self.tame_leaf(scope, Ty::Date).tree, self.constant_beside(Ty::Date).tree);
                seq!["(", a, " - ", b, ")"]
            }
            7 => {
                let (a, b) = (self.leaf(scope, Ty::Int4).tree, self.small(15));
                seq!["(", a, self.pick(&[" & ", " | ", " # "]), b, ")"]
            }
            _ => {
                // A text that is a number.
                let a = self.tame_leaf(scope, Ty::Int4).tree;
                seq!["(", a, "::text)::integer"]
            }
        };
        // All of them are integers of four bytes, possibly large ones.
        let tree = Tree::expr(Ty::Int4, tree);
        if ty == Ty::Int4 { E::new(ty, tree, 1e6_f64.max(f64::INFINITY)) } else { self.narrowed(ty, tree) }
    }

    fn narrowed(&mut self, ty: Ty, tree: Tree) -> E {
        match ty {
            Ty::Int2 => E::new(ty, seq!["(", tree, " % 100)::smallint"], 100.0),
            ty => E::new(ty, seq![tree, "::bigint"], f64::INFINITY),
        }
    }

    fn numeric_function(&mut self, scope: &Scope, depth: u32) -> E {
        let a = self.expr(scope, Ty::Numeric, depth - 1);
        let most = a.most;
        let tree = match self.below(12) {
            0 | 1 => call("round", vec![a.tree, self.small(4)]),
            2 => call("trunc", vec![a.tree, self.small(3)]),
            3 => call(self.pick(&["ceil", "floor", "round", "trunc", "sign"]), vec![a.tree]),
            4 if most < 1e6 => call("sqrt", vec![call("abs", vec![a.tree])]),
            5 => call("mod", vec![a.tree, seq!["nullif(", self.leaf(scope, Ty::Numeric).tree, ", 0)"]]),
            6 => {
                let unit = self.pick(&["year", "month", "day", "dow", "doy", "quarter", "week", "isoyear", "century"]);
                seq!["extract(", unit, " FROM ", self.tame_leaf(scope, Ty::Date).tree, ")"]
            }
            7 => {
                let units =
                    ["hour", "minute", "second", "epoch", "microseconds", "milliseconds", "decade", "isodow", "julian"];
                let unit = self.pick(&units);
                seq!["extract(", unit, " FROM ", self.tame_leaf(scope, Ty::Timestamp).tree, ")"]
            }
            8 => {
                let unit = self.pick(&["hour", "second", "day", "month", "epoch"]);
                seq!["extract(", unit, " FROM ", self.expr(scope, Ty::Interval, depth - 1).tree, ")"]
            }
            9 if most < 20.0 => call("power", vec![a.tree, self.small(3)]),
            10 if most < 1e6 => call(self.pick(&["ln", "log"]), vec![seq!["abs(", a.tree, ") + 1"]]),
            _ => return a,
        };
        E::new(Ty::Numeric, tree, f64::INFINITY).inexact()
    }

    fn float_function(&mut self, scope: &Scope, ty: Ty, depth: u32) -> E {
        let a = self.expr(scope, Ty::Float8, depth - 1);
        let most = a.most;
        let tree = match self.below(8) {
            0..=2 => call(self.pick(&["round", "ceil", "floor", "trunc", "sign"]), vec![a.tree]),
            3 => call("sqrt", vec![call("abs", vec![a.tree])]),
            4 if most < 1e5 => call("power", vec![a.tree, self.small(3)]),
            5 => {
                let unit = self.pick(&["year", "epoch", "second", "dow"]);
                call("date_part", vec![seq!["'", unit, "'"], self.tame_leaf(scope, Ty::Timestamp).tree])
            }
            6 if most < 100.0 => call("exp", vec![seq!["-", call("abs", vec![a.tree])]]),
            7 if most < 1e9 => call("ln", vec![seq!["abs(", a.tree, ") + 1"]]),
            _ => return if ty == Ty::Float8 { a } else { self.leaf(scope, ty) },
        };
        let e = E::new(Ty::Float8, tree, f64::INFINITY).inexact();
        // A narrower float of what may be too large for it would fail.
        if ty == Ty::Float8 { e } else { self.leaf(scope, ty) }
    }

    /// `text` and its kin, and `bytea`.
    pub fn string(&mut self, scope: &Scope, ty: Ty, depth: u32) -> E {
        if ty == Ty::Bytea {
            return self.bytes(scope, depth);
        }
        let tree = self.text(scope, depth);
        match ty {
            Ty::Text => E::new(ty, tree, 1.0),
            Ty::Varchar => E::new(ty, seq!["(", tree, ")::varchar", self.pick(&["", "(3)", "(20)"])], 1.0),
            _ => E::new(ty, seq!["(", tree, ")::char(", self.pick(&["1", "3", "8"]), ")"], 1.0),
        }
    }

    fn text(&mut self, scope: &Scope, depth: u32) -> Tree {
        if self.once_in(10) {
            return self.rare_text(scope);
        }
        if self.once_in(10) {
            return self.typed_text(scope);
        }
        let from = self.pick_ty(&[Ty::Text, Ty::Text, Ty::Varchar, Ty::Char]);
        let a = self.expr(scope, from, depth - 1).tree;
        match self.below(22) {
            0..=2 => {
                let b =
                    if self.once_in(2) { self.constant_beside(Ty::Text).tree } else { self.leaf(scope, Ty::Text).tree };
                seq!["(", a, " || ", b, ")"]
            }
            3 => {
                let ty =
                    self.pick_ty(&[Ty::Int4, Ty::Int8, Ty::Numeric, Ty::Bool, Ty::Date, Ty::Timestamp, Ty::Float8]);
                seq!["(", self.expr(scope, Ty::Text, 0).tree, " || ", self.leaf(scope, ty).tree, ")"]
            }
            4 => call(self.pick(&["upper", "lower", "initcap", "reverse", "md5"]), vec![a]),
            5 => call(self.pick(&["trim", "ltrim", "rtrim", "btrim"]), vec![a]),
            6 => call(self.pick(&["ltrim", "rtrim", "btrim"]), vec![a, self.constant_beside(Ty::Text).tree]),
            7 => call("substr", vec![a, self.small(3), self.small(4)]),
            8 => seq!["substring(", a, " FROM ", self.small(3), Tree::maybe(seq![" FOR ", self.small(3)]), ")"],
            9 => {
                let n = self.hole(Ty::Int4, Style::Bare);
                call(self.pick(&["left", "right"]), vec![a, n])
            }
            10 => call("replace", vec![a, self.constant_beside(Ty::Text).tree, self.constant_beside(Ty::Text).tree]),
            11 => call("repeat", vec![a, self.small(3)]),
            12 => call(self.pick(&["lpad", "rpad"]), vec![a, self.small(6), self.constant_beside(Ty::Text).tree]),
            13 => {
                let values = (0..self.runs).map(|_| Value::Int(1 + self.below(3) as i64)).collect();
                let n = self.hole_of(Ty::Int4, Style::Bare, values);
                call("split_part", vec![a, seq!["'", self.pick(&[",", " ", "a"]), "'"], n])
            }
            14 => {
                let (x, y) = (self.some_type(scope), self.some_type(scope));
                let items = vec![a, self.leaf(scope, x).tree, self.leaf(scope, y).tree];
                call("concat", items)
            }
            15 => call("concat_ws", vec![self.hole(Ty::Text, Style::Bare), a, self.leaf(scope, Ty::Text).tree]),
            16 => call("translate", vec![a, self.constant_beside(Ty::Text).tree, self.constant_beside(Ty::Text).tree]),
            17 => {
                let flags = self.pick(&["", "g", "i", "gi"]);
                let pattern = self.pick(&["a", "[a-b]", "b+", "(.)a", "^.", "\\s+", "x|,"]);
                let with = self.pick(&["", "-", "<\\1>", "&"]);
                seq!["regexp_replace(", a, ", '", pattern, "', '", with, "', '", flags, "')"]
            }
            18 => {
                let format = self.pick(&[
                    "YYYY-MM-DD",
                    "HH24:MI:SS",
                    "DD Mon YYYY",
                    "Day",
                    "IYYY-IW",
                    "YY MM",
                    "HH12 AM",
                    "DDD Q",
                ]);
                seq!["to_char(", self.tame_leaf(scope, Ty::Timestamp).tree, ", '", format, "')"]
            }
            19 => {
                let b = self.leaf(scope, Ty::Bytea).tree;
                seq!["encode(", b, ", '", self.pick(&["hex", "base64", "escape"]), "')"]
            }
            _ => {
                let ty = self.some_type(scope);
                seq!["CAST(", self.expr(scope, ty, depth - 1).tree, " AS text)"]
            }
        }
    }

    fn bytes(&mut self, scope: &Scope, depth: u32) -> E {
        let tree = match self.below(5) {
            0 => {
                let a = self.expr(scope, Ty::Bytea, depth - 1).tree;
                seq!["(", a, " || ", self.constant_beside(Ty::Bytea).tree, ")"]
            }
            1 => call("convert_to", vec![self.leaf(scope, Ty::Text).tree, Tree::from("'UTF8'")]),
            2 => call("sha256", vec![self.leaf(scope, Ty::Bytea).tree]),
            3 => call("substr", vec![self.leaf(scope, Ty::Bytea).tree, Tree::from("1"), self.small(3)]),
            _ => return self.leaf(scope, Ty::Bytea),
        };
        E::new(Ty::Bytea, tree, 1.0)
    }

    /// Dates, times, intervals, and what has no functions of its own.
    pub fn time(&mut self, scope: &Scope, ty: Ty, depth: u32) -> E {
        let which = self.below(4);
        let small = |g: &mut Self| g.hole(Ty::Int4, Style::Bare);
        let tree = match (ty, which) {
            (Ty::Date, 0 | 1) => {
                let a = self.tame_leaf(scope, ty).tree;
                let n = if self.once_in(2) { self.tame_leaf(scope, Ty::Int4).tree } else { small(self) };
                // Plain `date - $1` could be a date too.
                seq!["(", a, " + (", n, ")::integer)"]
            }
            (Ty::Date, 2) => seq![self.tame_leaf(scope, Ty::Timestamp).tree, "::date"],
            (Ty::Time, 0 | 1) => {
                let op = self.pick(&[" + ", " - "]);
                seq!["(", self.leaf(scope, ty).tree, op, self.constant(Ty::Interval).tree, ")"]
            }
            (Ty::Time, 2) => seq![self.tame_leaf(scope, Ty::Timestamp).tree, "::time"],
            (Ty::Timestamp, 0) => {
                let op = self.pick(&[" + ", " - "]);
                seq!["(", self.tame_leaf(scope, ty).tree, op, self.expr(scope, Ty::Interval, 0).tree, ")"]
            }
            (Ty::Timestamp, 1) => {
                seq!["(", self.tame_leaf(scope, Ty::Date).tree, " + ", self.leaf(scope, Ty::Time).tree, ")"]
            }
            (Ty::Timestamp, 2) => {
                let unit =
                    self.pick(&["hour", "day", "week", "month", "quarter", "year", "minute", "second", "decade"]);
                seq!["date_trunc('", unit, "', ", self.tame_leaf(scope, ty).tree, ")"]
            }
            (Ty::Timestamptz, 0) => {
                let op = self.pick(&[" + ", " - "]);
                seq!["(", self.tame_leaf(scope, ty).tree, op, self.expr(scope, Ty::Interval, 0).tree, ")"]
            }
            (Ty::Timestamptz, 1) => seq!["(", self.tame_leaf(scope, Ty::Timestamp).tree, ")::timestamptz"],
            (Ty::Timestamptz, 2) => {
                let zone = self.pick(&["UTC", "America/New_York", "Asia/Kolkata", "+03"]);
                seq!["(", self.tame_leaf(scope, Ty::Timestamp).tree, " AT TIME ZONE '", zone, "')"]
            }
            (Ty::Interval, 0) => {
                seq!["(", self.tame_leaf(scope, Ty::Timestamp).tree, " - ", self.constant(Ty::Timestamp).tree, ")"]
            }
            (Ty::Interval, 1) => {
                seq!["(", self.constant(ty).tree, self.pick(&[" + ", " - "]), self.constant(ty).tree, ")"]
            }
            (Ty::Interval, 2) => match self.below(3) {
                0 => seq!["(", self.constant(ty).tree, " * ", self.tame_leaf(scope, Ty::Int4).tree, ")"],
                1 => seq![
                    "age(",
                    self.tame_leaf(scope, Ty::Timestamp).tree,
                    ", ",
                    self.tame_leaf(scope, Ty::Timestamp).tree,
                    ")"
                ],
                _ => seq![
                    self.pick(&["justify_hours", "justify_days", "justify_interval"]),
                    "(",
                    self.constant(ty).tree,
                    ")"
                ],
            },
            (Ty::Uuid, 0) => seq!["(", self.leaf(scope, ty).tree, "::text)::uuid"],
            _ => {
                let _ = depth;
                return self.leaf(scope, ty);
            }
        };
        E::new(ty, tree, 1.0)
    }
}
