//! A path as PostgreSQL shows it.

use std::fmt;

use super::{Binary, Item, LEAVES, Path, Unary};
use crate::jsonb::put_string;

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = String::new();
        if !self.lax {
            out.push_str("strict ");
        }
        put_chain(&self.chain, true, &mut out);
        f.write_str(&out)
    }
}

/// How strongly an item binds what is in it.
fn rank(item: Option<&Item>) -> u8 {
    match item {
        Some(Item::Binary(op, ..)) => match op {
            Binary::Or => 0,
            Binary::And => 1,
            Binary::Add | Binary::Sub => 3,
            Binary::Mul | Binary::Div | Binary::Mod => 4,
            _ => 2,
        },
        Some(Item::Unary(Unary::Plus | Unary::Minus, _)) => 5,
        _ => 6,
    }
}

fn put_chain(chain: &[Item], brackets: bool, out: &mut String) {
    for (at, item) in chain.iter().enumerate() {
        put_item(item, at > 0, brackets || at > 0, at + 1 < chain.len(), out);
    }
}

/// An operand of an item, in brackets if it binds less.
fn put_operand(chain: &[Item], of: &Item, out: &mut String) {
    put_chain(chain, rank(chain.first()) <= rank(Some(of)), out);
}

fn put_item(item: &Item, is_accessor: bool, brackets: bool, has_next: bool, out: &mut String) {
    let bracket = |c: char, out: &mut String| {
        if brackets {
            out.push(c);
        }
    };
    match item {
        Item::Root => out.push('$'),
        Item::Current => out.push('@'),
        Item::Last => out.push_str("last"),
        Item::Null => out.push_str("null"),
        Item::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
        Item::Number(number) if has_next => {
            out.push('(');
            number.write_text(out);
            out.push(')');
        }
        Item::Number(number) => number.write_text(out),
        Item::Text(text) => put_string(text, out),
        Item::Variable(name) => {
            out.push('$');
            put_string(name, out);
        }
        Item::Key(key) => {
            if is_accessor {
                out.push('.');
            }
            put_string(key, out);
        }
        Item::AnyKey => out.push_str(".*"),
        Item::AnyArray => out.push_str("[*]"),
        Item::Index(all) => {
            out.push('[');
            for (at, (from, to)) in all.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                put_chain(from, false, out);
                if let Some(to) = to {
                    out.push_str(" to ");
                    put_chain(to, false, out);
                }
            }
            out.push(']');
        }
        Item::Any { first, last } => {
            let level = |level: u32| if level == LEAVES { "last".to_owned() } else { level.to_string() };
            out.push_str(".**");
            match (*first, *last) {
                (0, LEAVES) => {}
                (first, last) if first == last => out.push_str(&format!("{{{}}}", level(first))),
                (first, last) => out.push_str(&format!("{{{} to {}}}", level(first), level(last))),
            }
        }
        Item::Method(method) => {
            out.push('.');
            out.push_str(method.name());
            out.push_str("()");
        }
        Item::Datetime(template) => {
            out.push_str(".datetime(");
            if let Some(template) = template {
                put_string(template, out);
            }
            out.push(')');
        }
        Item::Filter(condition) => {
            out.push_str("?(");
            put_chain(condition, false, out);
            out.push(')');
        }
        Item::Binary(op, left, right) => {
            bracket('(', out);
            put_operand(left, item, out);
            out.push(' ');
            out.push_str(op.name());
            out.push(' ');
            put_operand(right, item, out);
            bracket(')', out);
        }
        Item::Unary(op @ (Unary::Plus | Unary::Minus), of) => {
            bracket('(', out);
            out.push(if *op == Unary::Plus { '+' } else { '-' });
            put_operand(of, item, out);
            bracket(')', out);
        }
        Item::Unary(op, of) => {
            let (before, behind) = match op {
                Unary::Not => ("!(", ")"),
                Unary::IsUnknown => ("(", ") is unknown"),
                _ => ("exists (", ")"),
            };
            out.push_str(before);
            put_chain(of, false, out);
            out.push_str(behind);
        }
        Item::LikeRegex { of, pattern, flags } => {
            bracket('(', out);
            put_operand(of, item, out);
            out.push_str(" like_regex ");
            put_string(pattern, out);
            let letters: String = [
                (flags.ignore_case, 'i'),
                (flags.dot_all, 's'),
                (flags.multi_line, 'm'),
                (flags.blanks, 'x'),
                (flags.quote, 'q'),
            ]
            .into_iter()
            .filter_map(|(is, letter)| is.then_some(letter))
            .collect();
            if !letters.is_empty() {
                out.push_str(&format!(" flag \"{letters}\""));
            }
            bracket(')', out);
        }
    }
}
