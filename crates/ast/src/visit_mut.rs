//! Walks that may change what they see.

use std::ops::ControlFlow;

use sqlparser::ast::{
    Assignment, Delete, Expr, ObjectName, Query, Select, SelectItem, Statement, TableFactor, TableWithJoins, Update,
    UpdateTableFromKind, ValueWithSpan, VisitMut, VisitorMut,
};

/// The methods of a [`VisitorMut`] without its type of result, so that they can be called through a pointer.
trait EventsMut {
    fn pre_query(&mut self, node: &mut Query) -> ControlFlow<()>;
    fn post_query(&mut self, node: &mut Query) -> ControlFlow<()>;
    fn pre_select(&mut self, node: &mut Select) -> ControlFlow<()>;
    fn post_select(&mut self, node: &mut Select) -> ControlFlow<()>;
    fn pre_relation(&mut self, node: &mut ObjectName) -> ControlFlow<()>;
    fn post_relation(&mut self, node: &mut ObjectName) -> ControlFlow<()>;
    fn pre_table_factor(&mut self, node: &mut TableFactor) -> ControlFlow<()>;
    fn post_table_factor(&mut self, node: &mut TableFactor) -> ControlFlow<()>;
    fn pre_expr(&mut self, node: &mut Expr) -> ControlFlow<()>;
    fn post_expr(&mut self, node: &mut Expr) -> ControlFlow<()>;
    fn pre_statement(&mut self, node: &mut Statement) -> ControlFlow<()>;
    fn post_statement(&mut self, node: &mut Statement) -> ControlFlow<()>;
    fn pre_value(&mut self, node: &mut ValueWithSpan) -> ControlFlow<()>;
    fn post_value(&mut self, node: &mut ValueWithSpan) -> ControlFlow<()>;
}

/// A visitor and what it broke off with.
struct Kept<'a, V: VisitorMut> {
    visitor: &'a mut V,
    broken: Option<V::Break>,
}

impl<V: VisitorMut> Kept<'_, V> {
    fn keep(&mut self, flow: ControlFlow<V::Break>) -> ControlFlow<()> {
        match flow {
            ControlFlow::Continue(()) => ControlFlow::Continue(()),
            ControlFlow::Break(result) => {
                self.broken = Some(result);
                ControlFlow::Break(())
            }
        }
    }
}

impl<V: VisitorMut> EventsMut for Kept<'_, V> {
    fn pre_query(&mut self, node: &mut Query) -> ControlFlow<()> {
        let flow = self.visitor.pre_visit_query(node);
        self.keep(flow)
    }
    fn post_query(&mut self, node: &mut Query) -> ControlFlow<()> {
        let flow = self.visitor.post_visit_query(node);
        self.keep(flow)
    }
    fn pre_select(&mut self, node: &mut Select) -> ControlFlow<()> {
        let flow = self.visitor.pre_visit_select(node);
        self.keep(flow)
    }
    fn post_select(&mut self, node: &mut Select) -> ControlFlow<()> {
        let flow = self.visitor.post_visit_select(node);
        self.keep(flow)
    }
    fn pre_relation(&mut self, node: &mut ObjectName) -> ControlFlow<()> {
        let flow = self.visitor.pre_visit_relation(node);
        self.keep(flow)
    }
    fn post_relation(&mut self, node: &mut ObjectName) -> ControlFlow<()> {
        let flow = self.visitor.post_visit_relation(node);
        self.keep(flow)
    }
    fn pre_table_factor(&mut self, node: &mut TableFactor) -> ControlFlow<()> {
        let flow = self.visitor.pre_visit_table_factor(node);
        self.keep(flow)
    }
    fn post_table_factor(&mut self, node: &mut TableFactor) -> ControlFlow<()> {
        let flow = self.visitor.post_visit_table_factor(node);
        self.keep(flow)
    }
    fn pre_expr(&mut self, node: &mut Expr) -> ControlFlow<()> {
        let flow = self.visitor.pre_visit_expr(node);
        self.keep(flow)
    }
    fn post_expr(&mut self, node: &mut Expr) -> ControlFlow<()> {
        let flow = self.visitor.post_visit_expr(node);
        self.keep(flow)
    }
    fn pre_statement(&mut self, node: &mut Statement) -> ControlFlow<()> {
        let flow = self.visitor.pre_visit_statement(node);
        self.keep(flow)
    }
    fn post_statement(&mut self, node: &mut Statement) -> ControlFlow<()> {
        let flow = self.visitor.post_visit_statement(node);
        self.keep(flow)
    }
    fn pre_value(&mut self, node: &mut ValueWithSpan) -> ControlFlow<()> {
        let flow = self.visitor.pre_visit_value(node);
        self.keep(flow)
    }
    fn post_value(&mut self, node: &mut ValueWithSpan) -> ControlFlow<()> {
        let flow = self.visitor.post_visit_value(node);
        self.keep(flow)
    }
}

/// The only visitor that the derived walks are compiled for.
struct Erased<'a>(&'a mut dyn EventsMut);

impl VisitorMut for Erased<'_> {
    type Break = ();
    fn pre_visit_query(&mut self, node: &mut Query) -> ControlFlow<()> {
        self.0.pre_query(node)
    }
    fn post_visit_query(&mut self, node: &mut Query) -> ControlFlow<()> {
        self.0.post_query(node)
    }
    fn pre_visit_select(&mut self, node: &mut Select) -> ControlFlow<()> {
        self.0.pre_select(node)
    }
    fn post_visit_select(&mut self, node: &mut Select) -> ControlFlow<()> {
        self.0.post_select(node)
    }
    fn pre_visit_relation(&mut self, node: &mut ObjectName) -> ControlFlow<()> {
        self.0.pre_relation(node)
    }
    fn post_visit_relation(&mut self, node: &mut ObjectName) -> ControlFlow<()> {
        self.0.post_relation(node)
    }
    fn pre_visit_table_factor(&mut self, node: &mut TableFactor) -> ControlFlow<()> {
        self.0.pre_table_factor(node)
    }
    fn post_visit_table_factor(&mut self, node: &mut TableFactor) -> ControlFlow<()> {
        self.0.post_table_factor(node)
    }
    fn pre_visit_expr(&mut self, node: &mut Expr) -> ControlFlow<()> {
        self.0.pre_expr(node)
    }
    fn post_visit_expr(&mut self, node: &mut Expr) -> ControlFlow<()> {
        self.0.post_expr(node)
    }
    fn pre_visit_statement(&mut self, node: &mut Statement) -> ControlFlow<()> {
        self.0.pre_statement(node)
    }
    fn post_visit_statement(&mut self, node: &mut Statement) -> ControlFlow<()> {
        self.0.post_statement(node)
    }
    fn pre_visit_value(&mut self, node: &mut ValueWithSpan) -> ControlFlow<()> {
        self.0.pre_value(node)
    }
    fn post_visit_value(&mut self, node: &mut ValueWithSpan) -> ControlFlow<()> {
        self.0.post_value(node)
    }
}

/// A node, or several, below which a visitor can be led.
pub trait AstWalkMut: Node {
    /// Leads `visitor` through this node and all below it, in the order of the parser's own walk.
    fn walk_mut<V: VisitorMut>(&mut self, visitor: &mut V) -> ControlFlow<V::Break> {
        let mut kept = Kept { visitor, broken: None };
        let _ = self.accept(&mut Led(Erased(&mut kept)));
        match kept.broken {
            Some(result) => ControlFlow::Break(result),
            None => ControlFlow::Continue(()),
        }
    }
}

impl<T: Node + ?Sized> AstWalkMut for T {}

/// A visitor that is led; only this file makes one.
pub struct Led<'a>(Erased<'a>);

/// Where the derived walks are compiled. Not for use elsewhere: see [`AstWalkMut`].
pub trait Node {
    fn accept(&mut self, led: &mut Led<'_>) -> ControlFlow<()>;
}

impl<T: Node + ?Sized> Node for Box<T> {
    fn accept(&mut self, led: &mut Led<'_>) -> ControlFlow<()> {
        (**self).accept(led)
    }
}

impl<T: Node> Node for Option<T> {
    fn accept(&mut self, led: &mut Led<'_>) -> ControlFlow<()> {
        self.iter_mut().try_for_each(|node| node.accept(led))
    }
}

impl<T: Node> Node for Vec<T> {
    fn accept(&mut self, led: &mut Led<'_>) -> ControlFlow<()> {
        self.iter_mut().try_for_each(|node| node.accept(led))
    }
}

macro_rules! nodes {
    ($($node:ty),+) => {
        $(impl Node for $node {
            fn accept(&mut self, led: &mut Led<'_>) -> ControlFlow<()> {
                VisitMut::visit(self, &mut led.0)
            }
        })+
    };
}

nodes!(Statement, Query, Select, Expr, SelectItem, TableWithJoins, Update, UpdateTableFromKind, Assignment, Delete);
