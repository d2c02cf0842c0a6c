use std::ops::ControlFlow;

use sqlparser::ast::{
    Expr, ObjectName, Query, Select, Statement, TableFactor, Value, ValueWithSpan, Visit, VisitMut, Visitor, VisitorMut,
};
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::parser::Parser;

use crate::{AstWalk, AstWalkMut};

const TEXT: &str = "WITH a AS (SELECT x + 1 AS y FROM t WHERE z IN (SELECT 2)) \
    SELECT count(*), CASE WHEN y > $1 THEN 'q' END FROM a JOIN s.b USING (y) \
    WHERE EXISTS (SELECT 1 FROM c WHERE c.y = a.y) ORDER BY y LIMIT 3";

fn parsed() -> Statement {
    Parser::parse_sql(&PostgreSqlDialect {}, TEXT).unwrap().remove(0)
}

/// Writes down all that it is shown.
#[derive(Default)]
struct Record(Vec<String>);

macro_rules! record {
    ($trait:ident, $($pre:ident $post:ident $node:ty,)+) => {
        impl $trait for Record {
            type Break = ();
            $(fn $pre(&mut self, node: $node) -> ControlFlow<()> {
                self.0.push(format!("{} {node}", stringify!($pre)));
                ControlFlow::Continue(())
            }
            fn $post(&mut self, node: $node) -> ControlFlow<()> {
                self.0.push(format!("{} {node}", stringify!($post)));
                ControlFlow::Continue(())
            })+
        }
    };
}

record! { Visitor,
    pre_visit_query post_visit_query &Query,
    pre_visit_select post_visit_select &Select,
    pre_visit_relation post_visit_relation &ObjectName,
    pre_visit_table_factor post_visit_table_factor &TableFactor,
    pre_visit_expr post_visit_expr &Expr,
    pre_visit_statement post_visit_statement &Statement,
    pre_visit_value post_visit_value &ValueWithSpan,
}

record! { VisitorMut,
    pre_visit_query post_visit_query &mut Query,
    pre_visit_select post_visit_select &mut Select,
    pre_visit_relation post_visit_relation &mut ObjectName,
    pre_visit_table_factor post_visit_table_factor &mut TableFactor,
    pre_visit_expr post_visit_expr &mut Expr,
    pre_visit_statement post_visit_statement &mut Statement,
    pre_visit_value post_visit_value &mut ValueWithSpan,
}

#[test]
fn sees_what_the_derived_walk_sees() {
    let (mut derived, mut walked) = (Record::default(), Record::default());
    let _ = Visit::visit(&parsed(), &mut derived);
    let _ = parsed().walk(&mut walked);
    assert_eq!(derived.0, walked.0);
    for kind in ["query", "select", "relation", "table_factor", "expr", "statement", "value"] {
        for at in ["pre", "post"] {
            assert!(walked.0.iter().any(|line| line.starts_with(&format!("{at}_visit_{kind} "))), "{at} {kind}");
        }
    }
    let (mut derived, mut walked) = (Record::default(), Record::default());
    let _ = VisitMut::visit(&mut parsed(), &mut derived);
    let _ = parsed().walk_mut(&mut walked);
    assert_eq!(derived.0, walked.0);
}

#[test]
fn changes_stay() {
    struct Ten;
    impl VisitorMut for Ten {
        type Break = ();
        fn pre_visit_value(&mut self, value: &mut ValueWithSpan) -> ControlFlow<()> {
            if let Value::Number(number, _) = &mut value.value {
                *number = "10".parse().unwrap();
            }
            ControlFlow::Continue(())
        }
    }
    let mut statement = parsed();
    assert!(statement.walk_mut(&mut Ten).is_continue());
    assert!(statement.to_string().ends_with("LIMIT 10"), "{statement}");
}

#[test]
fn a_break_ends_the_walk_with_its_result() {
    struct Second(usize);
    impl Visitor for Second {
        type Break = String;
        fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<String> {
            self.0 += 1;
            if self.0 == 2 { ControlFlow::Break(query.to_string()) } else { ControlFlow::Continue(()) }
        }
        fn post_visit_expr(&mut self, _: &Expr) -> ControlFlow<String> {
            panic!("walked on");
        }
    }
    match parsed().walk(&mut Second(0)) {
        ControlFlow::Break(text) => assert!(text.starts_with("SELECT x + 1"), "{text}"),
        ControlFlow::Continue(()) => panic!("not broken off"),
    }
}
