//! Aggregates WITHIN GROUP that are said by others: arrays of percentiles, and the ranks of a row that is not there.
//!
//! | call | stands for |
//! |---|---|
//! | `percentile_cont(ARRAY[a, b]) WITHIN GROUP (ORDER BY x)` | `CASE WHEN count(x) > 0 THEN ARRAY[percentile_cont(a) …, percentile_cont(b) …] END` |
//! | `rank(v) WITHIN GROUP (ORDER BY x)` | rows before `v`, and one |
//! | `dense_rank(v) …` | kinds of rows before `v`, and one |
//! | `percent_rank(v) …` | rows before `v`, by all rows; 0 of none |
//! | `cume_dist(v) …` | rows before `v` or its peers, and one, by all rows and one |
//!
//! A FILTER is one of each of them. The values that are ranked are constants, so they may be written several times.

use datafusion::sql::sqlparser::ast;

use super::bound::Bound;
use super::expr::Clause;
use super::scope::Scope;
use super::sort::direction;
use super::{Analyzer, Result, unknown};

/// Conditions on a row and the ranked one: it comes before it, it is a peer of it.
struct Order {
    before: String,
    peer: String,
}

impl Order {
    /// Of several columns, each with the value that is ranked.
    fn of(columns: &[(&ast::OrderByExpr, &ast::Expr)]) -> Self {
        let (mut before, mut peers): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
        for (by, value) in columns {
            let (x, v) = (&by.expr, value);
            let (ascending, nulls_first) = direction(&by.options);
            let less = if ascending { "<" } else { ">" };
            let nulls = match nulls_first {
                true => format!("({x}) IS NULL AND ({v}) IS NOT NULL"),
                false => format!("({x}) IS NOT NULL AND ({v}) IS NULL"),
            };
            let own = format!("(coalesce(({x}) {less} ({v}), false) OR {nulls})");
            before.push(peers.iter().cloned().chain([own]).collect::<Vec<_>>().join(" AND "));
            peers.push(format!("(({x}) IS NOT DISTINCT FROM ({v}))"));
        }
        Self { before: format!("({})", before.join(" OR ")), peer: peers.join(" AND ") }
    }
}

impl Analyzer<'_> {
    /// The ranks of a row that is not there, `rank(1) WITHIN GROUP (ORDER BY x)`; nothing, if the call is another.
    ///
    /// # Errors
    /// `0A000` for values that are no constants, among others.
    pub(super) fn hypothetical(
        &mut self,
        function: &ast::Function,
        name: &str,
        list: &ast::FunctionArgumentList,
        scope: &Scope<'_>,
        clause: Clause,
    ) -> Result<Option<Bound>> {
        if !matches!(name, "rank" | "dense_rank" | "percent_rank" | "cume_dist") || function.within_group.is_empty() {
            return Ok(None);
        }
        let plain = function.over.is_none()
            && function.null_treatment.is_none()
            && list.duplicate_treatment.is_none()
            && list.clauses.is_empty();
        // Of what is not said so here, the call itself is refused.
        let Some(values) = super::expr::plain_args(list).filter(|_| plain) else { return Ok(None) };
        if values.len() != function.within_group.len() {
            return Ok(None);
        }
        if name == "dense_rank" && values.len() > 1 {
            return unknown("dense_rank of several values WITHIN GROUP");
        }
        for (value, by) in values.iter().zip(&function.within_group) {
            let bound = self.expr(value, scope, clause)?;
            if !crate::exec::access_path::is_constant(&bound.expr) {
                return Ok(None);
            }
            let column = self.expr(&by.expr, scope, Clause::Aggregate)?;
            self.common_type(&[&column, &bound], "WITHIN GROUP")?;
        }
        let columns: Vec<(&ast::OrderByExpr, &ast::Expr)> = function.within_group.iter().zip(values).collect();
        let order = Order::of(&columns);
        let filter = function.filter.as_ref().map_or_else(|| "true".to_owned(), |filter| format!("({filter})"));
        let rows = |what: &str, which: &str| format!("count({what}) FILTER (WHERE {filter} AND {which})");
        let (before, peer) = (&order.before, &order.peer);
        let text = match name {
            "rank" => format!("{} + 1", rows("*", before)),
            "dense_rank" => {
                let x = &columns[0].0.expr;
                let nulls = rows("*", &format!("{before} AND ({x}) IS NULL"));
                format!("{} + CASE WHEN {nulls} > 0 THEN 2 ELSE 1 END", rows(&format!("DISTINCT {x}"), before))
            }
            "percent_rank" => {
                let all = rows("*", "true");
                format!("CASE WHEN {all} = 0 THEN 0.0::float8 ELSE ({})::float8 / {all} END", rows("*", before))
            }
            _ => {
                let until = rows("*", &format!("({before} OR {peer})"));
                format!("({until} + 1)::float8 / ({} + 1)", rows("*", "true"))
            }
        };
        self.written_as(&text, scope, clause).map(Some)
    }

    /// What a text says that stands for something else.
    fn written_as(&mut self, text: &str, scope: &Scope<'_>, clause: Clause) -> Result<Bound> {
        let written = crate::pg::definition::parse_expression(text)?;
        // Its places are in another text.
        let around = std::mem::take(&mut self.text);
        let bound = self.expr(&written, scope, clause);
        self.text = around;
        bound
    }

    /// `percentile_cont(ARRAY[a, b]) WITHIN GROUP (ORDER BY x)`: an array of the percentiles, if there is a value; nothing,
    /// if the call is another.
    pub(super) fn percentiles(
        &mut self,
        function: &ast::Function,
        name: &str,
        list: &ast::FunctionArgumentList,
        scope: &Scope<'_>,
        clause: Clause,
    ) -> Result<Option<Bound>> {
        let [ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(fractions))] = list.args.as_slice() else {
            return Ok(None);
        };
        let (ast::Expr::Array(fractions), [order]) =
            (super::condition::bare(fractions), function.within_group.as_slice())
        else {
            return Ok(None);
        };
        let is_list = |e: &ast::Expr| matches!(super::condition::bare(e), ast::Expr::Array(_));
        let fits = matches!(name, "percentile_cont" | "percentile_disc") && function.over.is_none();
        if !fits || fractions.elem.is_empty() || fractions.elem.iter().any(is_list) {
            return Ok(None);
        }
        let call = |called: &ast::Function, arg: &ast::Expr| {
            let mut list = list.clone();
            list.args = vec![ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(arg.clone()))];
            ast::Function { args: ast::FunctionArguments::List(list), ..called.clone() }.to_string()
        };
        let mut count = function.clone();
        count.name = ast::ObjectName::from(vec![ast::Ident::new("count")]);
        count.within_group.clear();
        let each: Vec<String> = fractions.elem.iter().map(|fraction| call(function, fraction)).collect();
        let text = format!("CASE WHEN {} > 0 THEN ARRAY[{}] END", call(&count, &order.expr), each.join(", "));
        self.written_as(&text, scope, clause).map(Some)
    }
}
