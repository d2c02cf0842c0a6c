//! Conditions (`executeBoolItem`): true, false, or unknown (`None`) where an operand ends in an error or is not of the kind.
//!
//! Operands are sequences; a condition holds if it does for any pair of their items. In strict mode all pairs are looked at,
//! since one that ends in an error makes it unknown.

use std::cmp::Ordering;

use resurgam_engine::document::Node;

use super::exec::{Cx, Stop, Value, compare_numbers};
use super::{Binary, Item, Unary};
use crate::functions::are as regex;
use crate::wire::SqlError;

/// A condition's value.
type Holds = Option<bool>;

impl<'a> Cx<'a, '_> {
    /// A condition that is a chain of its own.
    pub(super) fn chain_condition(&mut self, chain: &[Item], value: Value<'a>) -> Result<Holds, Stop> {
        match chain {
            [item] => self.condition(item, value),
            _ => Err(Stop::Error(SqlError::internal("boolean jsonpath item cannot have next item"))),
        }
    }

    pub(super) fn condition(&mut self, item: &Item, value: Value<'a>) -> Result<Holds, Stop> {
        match item {
            Item::Binary(Binary::And, left, right) => match self.chain_condition(left, value)? {
                Some(false) => Ok(Some(false)),
                first => Ok(match self.chain_condition(right, value)? {
                    Some(true) => first,
                    second => second,
                }),
            },
            Item::Binary(Binary::Or, left, right) => match self.chain_condition(left, value)? {
                Some(true) => Ok(Some(true)),
                first => Ok(match self.chain_condition(right, value)? {
                    Some(false) => first,
                    second => second,
                }),
            },
            Item::Unary(Unary::Not, of) => Ok(self.chain_condition(of, value)?.map(|holds| !holds)),
            Item::Unary(Unary::IsUnknown, of) => Ok(Some(self.chain_condition(of, value)?.is_none())),
            Item::Unary(Unary::Exists, of) => self.exists(of, value),
            Item::Binary(Binary::StartsWith, whole, initial) => {
                self.any_pair(whole, Some((initial, false)), value, |_, whole, initial| {
                    Ok(match (whole, initial) {
                        (Value::Node(Node::Text(whole)), Some(Value::Node(Node::Text(initial)))) => {
                            Some(whole.starts_with(initial))
                        }
                        _ => None,
                    })
                })
            }
            Item::Binary(op, left, right) => {
                let op = *op;
                self.any_pair(left, Some((right, true)), value, move |cx, left, right| match right {
                    Some(right) => cx.compared(op, left, right),
                    None => Ok(None),
                })
            }
            Item::LikeRegex { of, pattern, flags } => {
                let options = flags.options();
                self.any_pair(of, None, value, |_, text, _| match text {
                    Value::Node(Node::Text(text)) => Ok(Some(regex::is_match(pattern, text, options)?)),
                    _ => Ok(None),
                })
            }
            _ => Err(Stop::Error(SqlError::internal("invalid boolean jsonpath item"))),
        }
    }

    fn exists(&mut self, of: &[Item], value: Value<'a>) -> Result<Holds, Stop> {
        if self.lax {
            return self.silently(|cx| cx.item(of, value, None));
        }
        let mut all = Vec::new();
        let done = self.silently(|cx| cx.item(of, value, Some(&mut all)))?;
        Ok(done.map(|_| !all.is_empty()))
    }

    /// `right`: the operand, and whether what it finds is unwrapped in lax mode, as the left one's always is.
    fn any_pair(
        &mut self,
        left: &[Item],
        right: Option<(&[Item], bool)>,
        value: Value<'a>,
        holds: impl Fn(&mut Self, Value<'a>, Option<Value<'a>>) -> Result<Holds, Stop>,
    ) -> Result<Holds, Stop> {
        let (mut lefts, mut rights) = (Vec::new(), Vec::new());
        if self.silently(|cx| cx.unwrapped(left, value, &mut lefts))?.is_none() {
            return Ok(None);
        }
        match right {
            Some((right, unwrap)) => {
                let done = self.silently(|cx| match unwrap {
                    true => cx.unwrapped(right, value, &mut rights),
                    false => cx.item(right, value, Some(&mut rights)),
                })?;
                if done.is_none() {
                    return Ok(None);
                }
            }
            None => rights.push(Value::Node(Node::Null)),
        }
        let (mut unknown, mut found) = (false, false);
        for left in lefts {
            for at in &rights {
                crate::running::check()?;
                match holds(self, left, right.map(|_| *at))? {
                    None if !self.lax => return Ok(None),
                    None => unknown = true,
                    Some(true) if self.lax => return Ok(Some(true)),
                    Some(true) => found = true,
                    Some(false) => {}
                }
            }
        }
        Ok(match (found, unknown) {
            (true, _) => Some(true),
            (_, true) => None,
            _ => Some(false),
        })
    }

    /// A comparison of two items (`compareItems`).
    fn compared(&mut self, op: Binary, left: Value<'a>, right: Value<'a>) -> Result<Holds, Stop> {
        let order = match (left, right) {
            (Value::Node(left), Value::Node(right)) => match (left, right) {
                (Node::Null, Node::Null) => Ordering::Equal,
                // A null is unequal to everything else, and not before or behind it.
                (Node::Null, _) | (_, Node::Null) => return Ok(Some(op == Binary::NotEqual)),
                (Node::Bool(a), Node::Bool(b)) => a.cmp(&b),
                (Node::Number(a), Node::Number(b)) => compare_numbers(a, b),
                (Node::Text(a), Node::Text(b)) => a.as_bytes().cmp(b.as_bytes()),
                _ => return Ok(None),
            },
            (Value::Moment(a), Value::Moment(b)) => match a.compared(&b, self.zone)? {
                Some(order) => order,
                None => return Ok(None),
            },
            (Value::Node(Node::Null), _) | (_, Value::Node(Node::Null)) => return Ok(Some(op == Binary::NotEqual)),
            _ => return Ok(None),
        };
        Ok(Some(match op {
            Binary::Equal => order.is_eq(),
            Binary::NotEqual => order.is_ne(),
            Binary::Less => order.is_lt(),
            Binary::Greater => order.is_gt(),
            Binary::LessOrEqual => order.is_le(),
            _ => order.is_ge(),
        }))
    }
}
