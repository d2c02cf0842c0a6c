//! Columns of outer queries that look like parts of a column of an inner one.
//!
//! In `(SELECT … FROM book WHERE book.author = author.id)` DataFusion takes `author.id` for a part of
//! the column `author` of `book`, where PostgreSQL takes it for a column of the outer query's table: no
//! column of ours has parts that are written like that. So whatever is qualified by a table of an
//! outer query, and not by one of its own, gets a schema in front, which only a table can have. The
//! schema is the one under which FROM names the table; for a table without one, any will do.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{Expr, Ident, ObjectName, Query, Select, TableFactor, VisitorMut};
use resurgam_ast::AstWalkMut;

/// Schema of what FROM names without one.
const ANY_SCHEMA: &str = "resurgam$outer";

/// A FROM item: the name that it is known by, and what stands before that name.
struct Item {
    name: String,
    before: Vec<Ident>,
}

/// Puts schemas before such columns in `query`.
pub(crate) fn qualify_outer(query: &mut Query) {
    struct Walk(Vec<Vec<Item>>);
    impl VisitorMut for Walk {
        type Break = ();
        fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
            self.0.push(items(select));
            ControlFlow::Continue(())
        }
        fn post_visit_select(&mut self, _: &mut Select) -> ControlFlow<()> {
            self.0.pop();
            ControlFlow::Continue(())
        }
        fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            if let Expr::CompoundIdentifier(parts) = expr
                && let [table, _] = parts.as_slice()
                && let Some((own, outer)) = self.0.split_last()
            {
                let name = folded(table);
                let find = |scope: &[Item]| scope.iter().position(|item| item.name == name);
                if find(own).is_none()
                    && let Some(item) = outer.iter().rev().find_map(|scope| scope.get(find(scope)?))
                {
                    parts.splice(0..0, item.before.iter().cloned());
                }
            }
            ControlFlow::Continue(())
        }
    }
    let _ = query.walk_mut(&mut Walk(Vec::new()));
}

fn folded(ident: &Ident) -> String {
    if ident.quote_style.is_some() { ident.value.clone() } else { ident.value.to_ascii_lowercase() }
}

fn items(select: &Select) -> Vec<Item> {
    let mut out = Vec::new();
    for table in &select.from {
        item(&table.relation, &mut out);
        for join in &table.joins {
            item(&join.relation, &mut out);
        }
    }
    out
}

fn item(factor: &TableFactor, out: &mut Vec<Item>) {
    let any = || vec![Ident::with_quote('"', ANY_SCHEMA)];
    match factor {
        TableFactor::Table { alias: Some(alias), .. }
        | TableFactor::Derived { alias: Some(alias), .. }
        | TableFactor::UNNEST { alias: Some(alias), .. }
        | TableFactor::Function { alias: Some(alias), .. } => {
            out.push(Item { name: folded(&alias.name), before: any() });
        }
        TableFactor::Table { name: ObjectName(parts), args: None, .. } => {
            let parts: Option<Vec<Ident>> = parts.iter().map(|part| part.as_ident().cloned()).collect();
            if let Some(mut before) = parts
                && let Some(name) = before.pop()
            {
                let before = if before.is_empty() { any() } else { before };
                out.push(Item { name: folded(&name), before });
            }
        }
        TableFactor::NestedJoin { table_with_joins, alias: None } => {
            item(&table_with_joins.relation, out);
            for join in &table_with_joins.joins {
                item(&join.relation, out);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::statement::template;

    #[test]
    fn schemas_before_outer_tables() {
        for (sql, wanted) in [
            (
                "SELECT * FROM author WHERE EXISTS (SELECT 1 FROM book WHERE book.author = author.id)",
                "SELECT * FROM author WHERE EXISTS (SELECT 1 FROM book WHERE book.author = \"resurgam$outer\".author.id)",
            ),
            (
                "SELECT * FROM public.author WHERE id IN (SELECT Author.id FROM book)",
                "SELECT * FROM public.author WHERE id IN (SELECT public.Author.id FROM book)",
            ),
            // its own tables, and what is no outer one
            (
                "SELECT a.id FROM author a WHERE EXISTS (SELECT 1 FROM book a WHERE a.id = b.id)",
                "SELECT a.id FROM author a WHERE EXISTS (SELECT 1 FROM book a WHERE a.id = b.id)",
            ),
            // two levels
            (
                "SELECT 1 FROM x WHERE (SELECT 1 FROM y WHERE (SELECT 1 FROM z WHERE x.a = y.a) = 1) = 1",
                "SELECT 1 FROM x WHERE (SELECT 1 FROM y WHERE \
                 (SELECT 1 FROM z WHERE \"resurgam$outer\".x.a = \"resurgam$outer\".y.a) = 1) = 1",
            ),
        ] {
            let mut query = template(sql).expect(sql);
            qualify_outer(&mut query);
            assert_eq!(query.to_string(), wanted);
        }
    }
}
