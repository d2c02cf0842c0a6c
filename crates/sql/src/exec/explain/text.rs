//! A tree of nodes as TEXT: PostgreSQL's lines, with `->` before each input.

use super::node::{Actual, Estimate, Node, On, Property, Shown, Value};
use crate::pg::functions::quote_ident;

/// The lines of a tree.
pub(crate) fn lines(node: &Node, shown: Shown) -> Vec<String> {
    let mut out = Vec::new();
    write(node, shown, 0, &mut out);
    out
}

/// `indent`: how far in it stands, in steps of two.
fn write(node: &Node, shown: Shown, mut indent: usize, out: &mut Vec<String>) {
    if let Some(subplan) = &node.subplan {
        out.push(format!("{}{subplan}", spaces(indent)));
        indent += 1;
    }
    let mut line = spaces(indent);
    if indent > 0 {
        line.push_str("->  ");
        indent += 2;
    }
    line.push_str(&head(node, shown));
    if let (Some(Estimate { startup, total, rows, width }), true) = (node.estimate, shown.costs) {
        line.push_str(&format!("  (cost={startup:.2}..{total:.2} rows={rows:.0} width={width})"));
    }
    match node.actual {
        Some(Actual { loops: 0, .. }) => line.push_str(" (never executed)"),
        Some(Actual { time: Some((first, all)), rows, loops }) => {
            line.push_str(&format!(" (actual time={first:.3}..{all:.3} rows={rows:.0} loops={loops})"));
        }
        Some(Actual { time: None, rows, loops }) => line.push_str(&format!(" (actual rows={rows:.0} loops={loops})")),
        None => {}
    }
    out.push(line);
    indent += 1;
    for property in &node.properties {
        let line = match property {
            Property::Pair(key, value) => Some(pair(key, value)),
            Property::Line(line, _) => line.clone(),
        };
        out.extend(line.map(|line| format!("{}{line}", spaces(indent))));
    }
    for input in &node.inputs {
        write(input, shown, indent, out);
    }
}

fn spaces(indent: usize) -> String {
    "  ".repeat(indent)
}

fn pair(key: &str, value: &Value) -> String {
    match value {
        Value::Text(text) => format!("{key}: {text}"),
        Value::List(list) => format!("{key}: {}", list.join(", ")),
        Value::Count(count) => format!("{key}: {count}"),
    }
}

/// What it does, and with what.
fn head(node: &Node, shown: Shown) -> String {
    let mut out = String::new();
    match node.partial {
        Some("Partial") => out.push_str("Partial "),
        Some("Finalize") => out.push_str("Finalize "),
        _ => {}
    }
    out.push_str(if node.name.is_empty() { &node.kind } else { &node.name });
    match node.join {
        Some("Inner") if out == "Nested Loop" => {}
        Some("Inner") => out.push_str(" Join"),
        Some(join) => out.push_str(&format!(" {join} Join")),
        None => {}
    }
    if let Some(index) = &node.index {
        if node.backward {
            out.push_str(" Backward");
        }
        out.push_str(&format!(" using {}", quote_ident(index)));
    }
    if let Some(on) = &node.on {
        out.push_str(" on ");
        out.push_str(&relation(on, shown));
    }
    out
}

fn relation(on: &On, shown: Shown) -> String {
    let mut out = String::new();
    if on.key.is_empty() {
        return quote_ident(&on.alias);
    }
    if let Some(schema) = on.schema.as_ref().filter(|_| shown.verbose) {
        out.push_str(&format!("{}.", quote_ident(schema)));
    }
    out.push_str(&quote_ident(&on.name));
    if on.alias != on.name {
        out.push_str(&format!(" {}", quote_ident(&on.alias)));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scan(name: &str, alias: &str) -> Node {
        let on = On { key: "Relation Name", name: name.into(), schema: Some("public".into()), alias: alias.into() };
        let estimate = Estimate { startup: 0.0, total: 359.0, rows: 20_000.0, width: 12 };
        Node { on: Some(on), estimate: Some(estimate), ..Node::new("Seq Scan") }
    }

    /// The shape of PostgreSQL's own answer to such a statement.
    #[test]
    fn inputs_stand_below_as_in_postgresql() {
        let mut big = scan("big", "b");
        big.condition("Filter", Some("(t <> 'q'::text)".into()));
        big.removed("Rows Removed by Filter", 0.0);
        big.removed("Rows Removed by Filter", 2.4);
        let hash = Node::over("Hash", [scan("small", "small")]);
        let mut join = Node::over("Hash Join", [big, hash]).named("Hash");
        join.join = Some("Left");
        join.condition("Hash Cond", Some("(b.x = small.id)".into()));
        let cte = Node { subplan: Some("CTE c".into()), ..Node::new("Result") };
        join.inputs.insert(0, cte);
        join.actual = Some(Actual { time: Some((0.5, 1.25)), rows: 10.0, loops: 2 });
        let costs = Shown { verbose: false, costs: false };
        let wanted = [
            "Hash Left Join (actual time=0.500..1.250 rows=10 loops=2)",
            "  Hash Cond: (b.x = small.id)",
            "  CTE c",
            "    ->  Result",
            "  ->  Seq Scan on big b",
            "        Filter: (t <> 'q'::text)",
            "        Rows Removed by Filter: 2",
            "  ->  Hash",
            "        ->  Seq Scan on small",
        ];
        assert_eq!(lines(&join, costs), wanted);
        let all = lines(&join, Shown { verbose: true, costs: true });
        assert_eq!(all[4], "  ->  Seq Scan on public.big b  (cost=0.00..359.00 rows=20000 width=12)");
    }

    #[test]
    fn indexes_joins_and_runs_are_named_as_in_postgresql() {
        let shown = Shown { verbose: false, costs: false };
        let mut node = scan("t", "t");
        node = Node { index: Some("T_pkey".into()), backward: true, ..node }.named("Index Scan");
        node.actual = Some(Actual::default());
        assert_eq!(lines(&node, shown), ["Index Scan Backward using \"T_pkey\" on t (never executed)"]);
        let mut join = Node::over("Nested Loop", [scan("t", "t"), scan("t", "t_1")]);
        join.join = Some("Inner");
        assert_eq!(lines(&join, shown)[0], "Nested Loop");
        join.join = Some("Semi");
        join.actual = Some(Actual { time: None, rows: 1.0, loops: 1 });
        assert_eq!(lines(&join, shown)[0], "Nested Loop Semi Join (actual rows=1 loops=1)");
        let mut hash = Node::over("Hash Join", []).named("Hash");
        hash.join = Some("Inner");
        assert_eq!(lines(&hash, shown), ["Hash Join"]);
    }
}
