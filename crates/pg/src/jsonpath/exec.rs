//! What a path finds in a document (`executeItem` and its kin in PostgreSQL's `jsonpath_exec.c`).
//!
//! Where an answer is all that is asked for (`found` is `None`), evaluation ends at the first item. Errors of which a path may
//! be silent end a condition as unknown, or the whole as [`Stop::Silent`]; others end the statement.

use std::cmp::Ordering;

use bumpalo::Bump;
use resurgam_engine::document::{Map, Node, put_map, put_number, put_text};
use resurgam_numeric::Numeric;

use super::ids::offset_within;
use super::moment::Moment;
use super::{Binary, Item, LEAVES, Method, Path, Unary, too_deep};
use crate::datetime::Zone;
use crate::functions::numeric::column::numeric_error;
use crate::wire::SqlError;

/// Steps of evaluation within each other, at most.
const STEPS_MAX: usize = 4000;
/// Items that are found between two looks at what they take.
const ASK_EVERY: usize = 1024;
/// What ids of objects of different origins are apart by.
const ID_STEP: i64 = 10_000_000_000;

/// How a path is evaluated.
#[derive(Clone, Copy, Debug)]
pub struct Mode<'z> {
    /// Errors that can be suppressed are.
    pub silent: bool,
    /// The session's zone, for functions that may go by it.
    pub zone: Option<&'z Zone>,
}

/// An item of what was found.
#[derive(Clone, Copy, Debug)]
pub(super) enum Value<'a> {
    Node(Node<'a>),
    Moment(Moment),
}

/// Why evaluation ended.
pub(super) enum Stop {
    /// An error that is suppressed.
    Silent,
    Error(SqlError),
}

impl From<SqlError> for Stop {
    fn from(error: SqlError) -> Self {
        Self::Error(error)
    }
}

impl From<resurgam_engine::Error> for Stop {
    fn from(error: resurgam_engine::Error) -> Self {
        Self::Error(error.into())
    }
}

/// Whether something was found.
pub(super) type Outcome = Result<bool, Stop>;

/// Where items are put, if anybody wants them.
pub(super) type Into<'f, 'a> = Option<&'f mut Vec<Value<'a>>>;

/// What a path found.
pub struct Found<'a>(Vec<Value<'a>>);

impl<'a> Found<'a> {
    pub fn len(&self) -> usize {
        self.0.len()
    }
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
    /// An item as a part of a document.
    pub fn node(&self, at: usize, arena: &'a Bump) -> Option<Node<'a>> {
        Some(match *self.0.get(at)? {
            Value::Node(node) => node,
            Value::Moment(moment) => Node::Text(arena.alloc_str(&moment.to_string())),
        })
    }
}

/// Evaluates a path over a document; `vars` are the values of its variables, null without them. What is made on the way lives in `arena`.
///
/// Without `all`, whether there is anything is all that is asked for: then nothing is in what was found. The outer `None`: an
/// error was suppressed; what was found before it stays.
///
/// # Errors
/// PostgreSQL's.
pub fn execute<'a>(
    path: &Path,
    root: Node<'a>,
    vars: Option<Map<'a>>,
    mode: Mode<'_>,
    all: bool,
    arena: &'a Bump,
) -> Result<(Option<bool>, Found<'a>), SqlError> {
    let root = Value::Node(root);
    let mut cx = Cx {
        vars,
        lax: path.lax,
        ignores_structure: path.lax,
        root,
        current: root,
        base: (None, 0),
        next_id: if vars.is_some() { 2 } else { 1 },
        array_len: None,
        throws: !mode.silent,
        zone: mode.zone,
        steps: 0,
        arena,
    };
    let mut found = Vec::new();
    // In strict mode all has to be looked at before there is known to be no error.
    let collects = all || !path.lax;
    let outcome = cx.item(&path.chain, root, collects.then_some(&mut found));
    let outcome = match outcome {
        Ok(any) => Some(if collects && !all { !found.is_empty() } else { any }),
        Err(Stop::Silent) => None,
        Err(Stop::Error(error)) => return Err(error),
    };
    Ok((outcome, Found(found)))
}

/// An evaluation.
pub(super) struct Cx<'a, 'z> {
    vars: Option<Map<'a>>,
    pub(super) lax: bool,
    ignores_structure: bool,
    root: Value<'a>,
    current: Value<'a>,
    /// What ids of `.keyvalue()` count from, and the number of that.
    base: (Option<Node<'a>>, i64),
    next_id: i64,
    /// Elements of the innermost array that is subscripted.
    array_len: Option<usize>,
    throws: bool,
    pub(super) zone: Option<&'z Zone>,
    steps: usize,
    arena: &'a Bump,
}

fn error(code: &'static str, message: impl std::convert::Into<String>) -> SqlError {
    SqlError::new(code, message)
}

impl<'a> Cx<'a, '_> {
    /// An error that may be suppressed.
    fn fail<T>(&self, make: impl FnOnce() -> SqlError) -> Result<T, Stop> {
        Err(if self.throws { Stop::Error(make()) } else { Stop::Silent })
    }

    /// The same where the structure is not as it should be: in lax mode nothing is found then.
    fn misfit(&self, code: &'static str, message: impl FnOnce() -> String) -> Outcome {
        match self.ignores_structure {
            true => Ok(false),
            false => self.fail(|| error(code, message())),
        }
    }

    pub(super) fn number(&self, value: &Numeric) -> Value<'a> {
        let mut bytes = Vec::new();
        value.write_encoded(&mut bytes);
        Value::Node(Node::Number(self.arena.alloc_slice_copy(&bytes)))
    }

    fn count(&self, value: usize) -> Value<'a> {
        self.number(&Numeric::from(value as i64))
    }

    fn text(&self, text: &str) -> Value<'a> {
        Value::Node(Node::Text(self.arena.alloc_str(text)))
    }

    fn put(&self, found: Into<'_, 'a>, value: Value<'a>) -> Result<(), Stop> {
        if let Some(found) = found {
            found.push(value);
            if found.len().is_multiple_of(ASK_EVERY) {
                let bytes = found.len() * size_of::<Value<'_>>() + self.arena.allocated_bytes();
                crate::memory::column(1, bytes)?;
            }
        }
        Ok(())
    }

    /// Items of a chain, the first of which is applied to a value. In lax mode arrays are unwrapped for those that want no array.
    pub(super) fn item(&mut self, chain: &[Item], value: Value<'a>, found: Into<'_, 'a>) -> Outcome {
        self.item_of(chain, value, found, self.lax)
    }

    fn item_of(&mut self, chain: &[Item], value: Value<'a>, found: Into<'_, 'a>, unwrap: bool) -> Outcome {
        crate::running::check()?;
        self.steps += 1;
        if self.steps > STEPS_MAX {
            return Err(Stop::Error(too_deep()));
        }
        let outcome = self.step(chain, value, found, unwrap);
        self.steps -= 1;
        outcome
    }

    /// What stands behind an item, applied to what the item found.
    fn next(&mut self, rest: &[Item], value: Value<'a>, found: Into<'_, 'a>) -> Outcome {
        if rest.is_empty() {
            self.put(found, value)?;
            return Ok(true);
        }
        self.item(rest, value, found)
    }

    fn step(&mut self, chain: &[Item], value: Value<'a>, mut found: Into<'_, 'a>, unwrap: bool) -> Outcome {
        let Some((item, rest)) = chain.split_first() else { return self.next(chain, value, found) };
        let is_list = matches!(value, Value::Node(Node::List(_)));
        let wants_no_list = matches!(
            item,
            Item::Key(_)
                | Item::AnyKey
                | Item::Filter(_)
                | Item::Datetime(_)
                | Item::Method(Method::Abs | Method::Floor | Method::Ceiling | Method::Double | Method::KeyValue)
        );
        if unwrap && is_list && wants_no_list {
            return self.elements(chain, value, found, false);
        }
        match item {
            Item::Binary(op, left, right) if op.is_arithmetic() => {
                self.arithmetic(*op, left, right, rest, value, found)
            }
            Item::Unary(op @ (Unary::Plus | Unary::Minus), of) => self.signed(*op, of, rest, value, found),
            Item::Binary(..) | Item::Unary(..) | Item::LikeRegex { .. } => {
                let holds = self.condition(item, value)?;
                if rest.is_empty() && found.is_none() {
                    return Ok(true);
                }
                let holds = Value::Node(holds.map_or(Node::Null, Node::Bool));
                self.next(rest, holds, found)
            }
            Item::Key(key) => match value {
                Value::Node(Node::Map(map)) => match map.find(key)? {
                    Some(member) => self.next(rest, Value::Node(member), found),
                    None => self.misfit("2203A", || format!("JSON object does not contain key \"{key}\"")),
                },
                _ => self.misfit("2203A", || "jsonpath member accessor can only be applied to an object".into()),
            },
            Item::Root => {
                let base = std::mem::replace(&mut self.base, (as_node(self.root), 0));
                let outcome = self.next(rest, self.root, found);
                self.base = base;
                outcome
            }
            Item::Current => self.next(rest, self.current, found),
            Item::AnyArray => match value {
                _ if is_list => self.elements(rest, value, found, self.lax),
                _ if self.lax => self.next(rest, value, found),
                _ => self.misfit("22039", || "jsonpath wildcard array accessor can only be applied to an array".into()),
            },
            Item::Index(all) => {
                if !is_list && !self.lax {
                    return self.misfit("22039", || "jsonpath array accessor can only be applied to an array".into());
                }
                let outer = self.array_len;
                let outcome = self.subscripts(all, rest, value, found);
                self.array_len = outer;
                outcome
            }
            Item::Last => {
                let Some(len) = self.array_len else {
                    return Err(Stop::Error(SqlError::internal("evaluating jsonpath LAST outside of array subscript")));
                };
                if rest.is_empty() && found.is_none() {
                    return Ok(true);
                }
                let last = self.number(&Numeric::from(len as i64 - 1));
                self.next(rest, last, found)
            }
            Item::AnyKey => match value {
                Value::Node(node @ Node::Map(_)) => self.any(rest, node, found, (1, 1, 1), false, self.lax),
                _ => {
                    self.misfit("2203C", || "jsonpath wildcard member accessor can only be applied to an object".into())
                }
            },
            Item::Any { first, last } => {
                let mut outcome = false;
                if *first == 0 {
                    let ignored = std::mem::replace(&mut self.ignores_structure, true);
                    let done = self.next(rest, value, found.as_deref_mut());
                    self.ignores_structure = ignored;
                    outcome = done?;
                    if outcome && found.is_none() {
                        return Ok(true);
                    }
                }
                match value {
                    Value::Node(node @ (Node::List(_) | Node::Map(_))) => {
                        self.any(rest, node, found, (1, *first, *last), true, self.lax)
                    }
                    _ => Ok(outcome),
                }
            }
            Item::Filter(condition) => {
                let outer = std::mem::replace(&mut self.current, value);
                let holds = self.chain_condition(condition, value);
                self.current = outer;
                match holds? {
                    Some(true) => self.next(rest, value, found),
                    _ => Ok(false),
                }
            }
            Item::Null | Item::Bool(_) | Item::Number(_) | Item::Text(_) => {
                if rest.is_empty() && found.is_none() {
                    return Ok(true);
                }
                let value = match item {
                    Item::Bool(value) => Value::Node(Node::Bool(*value)),
                    Item::Number(number) => self.number(number),
                    Item::Text(text) => self.text(text),
                    _ => Value::Node(Node::Null),
                };
                self.next(rest, value, found)
            }
            Item::Variable(name) => {
                let outer = self.base;
                let value = self.variable(name)?;
                let outcome = self.next(rest, value, found);
                self.base = outer;
                outcome
            }
            Item::Method(method) => self.method(*method, rest, value, found),
            Item::Datetime(template) => {
                let Value::Node(Node::Text(text)) = value else {
                    return self
                        .fail(|| error("22031", "jsonpath item method .datetime() can only be applied to a string"));
                };
                let moment = match Moment::read(text, template.as_deref()) {
                    Ok(moment) => moment,
                    Err(refused) if refused.sqlstate == "0A000" => return Err(Stop::Error(refused)),
                    Err(refused) => return self.fail(|| refused),
                };
                self.next(rest, Value::Moment(moment), found)
            }
        }
    }

    fn variable(&mut self, name: &str) -> Result<Value<'a>, Stop> {
        let Some(vars) = self.vars else { return Ok(Value::Node(Node::Null)) };
        match vars.find(name)? {
            Some(value) => {
                self.base = (Some(Node::Map(vars)), 1);
                Ok(Value::Node(value))
            }
            None => Err(Stop::Error(error("42704", format!("could not find jsonpath variable \"{name}\"")))),
        }
    }

    /// Items applied to each element of a list.
    fn elements(&mut self, chain: &[Item], list: Value<'a>, found: Into<'_, 'a>, unwrap: bool) -> Outcome {
        match list {
            Value::Node(node @ Node::List(_)) => self.any(chain, node, found, (1, 1, 1), false, unwrap),
            _ => Err(Stop::Error(SqlError::internal("a list that is none"))),
        }
    }

    /// Items applied to what lies `first` to `last` levels below a list or map, which is at `level - 1` (`executeAnyItem`).
    fn any(
        &mut self,
        chain: &[Item],
        of: Node<'a>,
        mut found: Into<'_, 'a>,
        (level, first, last): (u32, u32, u32),
        ignore: bool,
        unwrap: bool,
    ) -> Outcome {
        if level > last {
            return Ok(false);
        }
        self.steps += 1;
        if self.steps > STEPS_MAX {
            return Err(Stop::Error(too_deep()));
        }
        let mut outcome = false;
        let count = match &of {
            Node::List(list) => list.len(),
            Node::Map(map) => map.len(),
            _ => 0,
        };
        for at in 0..count {
            crate::running::check()?;
            let node = match &of {
                Node::List(list) => list.get(at)?,
                Node::Map(map) => map.value(at)?,
                _ => break,
            };
            let is_leaf = !matches!(node, Node::List(_) | Node::Map(_));
            if level >= first || first == LEAVES && last == LEAVES && is_leaf {
                if !chain.is_empty() {
                    let ignored = self.ignores_structure;
                    self.ignores_structure |= ignore;
                    let done = self.item_of(chain, Value::Node(node), found.as_deref_mut(), unwrap);
                    self.ignores_structure = ignored;
                    outcome = done?;
                    if outcome && found.is_none() {
                        break;
                    }
                } else if found.is_some() {
                    self.put(found.as_deref_mut(), Value::Node(node))?;
                } else {
                    outcome = true;
                    break;
                }
            }
            if level < last && !is_leaf {
                outcome = self.any(chain, node, found.as_deref_mut(), (level + 1, first, last), ignore, unwrap)?;
                if outcome && found.is_none() {
                    break;
                }
            }
        }
        self.steps -= 1;
        Ok(outcome)
    }

    fn subscripts(
        &mut self,
        all: &[(Vec<Item>, Option<Vec<Item>>)],
        rest: &[Item],
        value: Value<'a>,
        mut found: Into<'_, 'a>,
    ) -> Outcome {
        let list = match value {
            Value::Node(Node::List(list)) => Some(list),
            _ => None,
        };
        let len = list.map_or(1, |list| list.len()) as i64;
        let mut outcome = false;
        for (from, to) in all {
            // A subscript within may have one of another array.
            self.array_len = Some(len as usize);
            let mut from = self.index(from, value)?;
            let mut to = match to {
                Some(to) => self.index(to, value)?,
                None => from,
            };
            if !self.ignores_structure && (from < 0 || from > to || to >= len) {
                return self.fail(|| error("22033", "jsonpath array subscript is out of bounds"));
            }
            (from, to) = (from.max(0), to.min(len - 1));
            outcome = false;
            for at in from..=to {
                crate::running::check()?;
                let element = match &list {
                    Some(list) => Value::Node(list.get(at as usize)?),
                    None => value,
                };
                if rest.is_empty() && found.is_none() {
                    return Ok(true);
                }
                outcome = self.next(rest, element, found.as_deref_mut())?;
                if outcome && found.is_none() {
                    return Ok(true);
                }
            }
        }
        Ok(outcome)
    }

    /// A subscript: a single number, its fraction cut off.
    fn index(&mut self, chain: &[Item], value: Value<'a>) -> Result<i64, Stop> {
        let mut found = Vec::new();
        self.item(chain, value, Some(&mut found))?;
        let [Value::Node(Node::Number(number))] = found.as_slice() else {
            return self.fail(|| error("22033", "jsonpath array subscript is not a single numeric value"));
        };
        let whole = Numeric::decode(number).and_then(|number| number.trunc(0)).and_then(|number| number.to_i32());
        match whole {
            Ok(whole) => Ok(i64::from(whole)),
            Err(_) => self.fail(|| error("22033", "jsonpath array subscript is out of integer range")),
        }
    }

    /// As [`item`](Self::item), and in lax mode what is found is unwrapped.
    pub(super) fn unwrapped(&mut self, chain: &[Item], value: Value<'a>, found: &mut Vec<Value<'a>>) -> Outcome {
        if !self.lax {
            return self.item(chain, value, Some(found));
        }
        let mut all = Vec::new();
        self.item(chain, value, Some(&mut all))?;
        for value in all {
            match value {
                Value::Node(Node::List(_)) => {
                    self.elements(&[], value, Some(found), false)?;
                }
                value => self.put(Some(found), value)?,
            }
        }
        Ok(true)
    }

    /// Evaluates while errors are suppressed.
    pub(super) fn silently<T>(&mut self, go: impl FnOnce(&mut Self) -> Result<T, Stop>) -> Result<Option<T>, Stop> {
        let throws = std::mem::replace(&mut self.throws, false);
        let steps = self.steps;
        let kept = (self.base, self.array_len, self.current, self.ignores_structure);
        let outcome = go(self);
        self.throws = throws;
        match outcome {
            Ok(value) => Ok(Some(value)),
            Err(Stop::Silent) => {
                // Whoever was on the way did not come back to set them right.
                self.steps = steps;
                (self.base, self.array_len, self.current, self.ignores_structure) = kept;
                Ok(None)
            }
            Err(stop) => Err(stop),
        }
    }

    fn arithmetic(
        &mut self,
        op: Binary,
        left: &[Item],
        right: &[Item],
        rest: &[Item],
        value: Value<'a>,
        found: Into<'_, 'a>,
    ) -> Outcome {
        let mut operands = Vec::with_capacity(2);
        let mut sides = [Vec::new(), Vec::new()];
        for (side, chain) in sides.iter_mut().zip([left, right]) {
            self.unwrapped(chain, value, side)?;
        }
        for (side, word) in sides.iter().zip(["left", "right"]) {
            let [Value::Node(Node::Number(number))] = side.as_slice() else {
                let name = op.name();
                return self.fail(|| {
                    error("22038", format!("{word} operand of jsonpath operator {name} is not a single numeric value"))
                });
            };
            operands.push(Numeric::decode(number).map_err(|error| Stop::Error(numeric_error(error)))?);
        }
        let (a, b) = (&operands[0], &operands[1]);
        let result = match op {
            Binary::Add => a.add(b),
            Binary::Sub => a.sub(b),
            Binary::Mul => a.mul(b),
            Binary::Div => a.div(b),
            _ => a.rem(b),
        };
        let result = match result {
            Ok(result) => result,
            Err(error) => return self.fail(|| numeric_error(error)),
        };
        if rest.is_empty() && found.is_none() {
            return Ok(true);
        }
        let result = self.number(&result);
        self.next(rest, result, found)
    }

    fn signed(&mut self, op: Unary, of: &[Item], rest: &[Item], value: Value<'a>, mut found: Into<'_, 'a>) -> Outcome {
        let mut all = Vec::new();
        self.unwrapped(of, value, &mut all)?;
        let only_asked = rest.is_empty() && found.is_none();
        let mut outcome = false;
        for value in all {
            let Value::Node(Node::Number(number)) = value else {
                if only_asked {
                    continue;
                }
                let sign = if op == Unary::Plus { '+' } else { '-' };
                return self.fail(|| {
                    error("2203B", format!("operand of unary jsonpath operator {sign} is not a numeric value"))
                });
            };
            if only_asked {
                return Ok(true);
            }
            let value = match op {
                Unary::Minus => {
                    let number = Numeric::decode(number).map_err(|error| Stop::Error(numeric_error(error)))?;
                    self.number(&number.neg())
                }
                _ => value,
            };
            if self.next(rest, value, found.as_deref_mut())? {
                outcome = true;
                if found.is_none() {
                    return Ok(true);
                }
            }
        }
        Ok(outcome)
    }

    fn method(&mut self, method: Method, rest: &[Item], value: Value<'a>, found: Into<'_, 'a>) -> Outcome {
        let name = method.name();
        match method {
            Method::Type => {
                let name = self.text(type_name(value));
                self.next(rest, name, found)
            }
            Method::Size => {
                let count = match value {
                    Value::Node(Node::List(list)) => list.len(),
                    _ if self.lax => 1,
                    _ => {
                        return self.misfit("22039", || {
                            format!("jsonpath item method .{name}() can only be applied to an array")
                        });
                    }
                };
                let count = self.count(count);
                self.next(rest, count, found)
            }
            Method::Abs | Method::Floor | Method::Ceiling => {
                let Value::Node(Node::Number(number)) = value else {
                    return self.fail(|| {
                        error("22036", format!("jsonpath item method .{name}() can only be applied to a numeric value"))
                    });
                };
                let number = Numeric::decode(number).map_err(|error| Stop::Error(numeric_error(error)))?;
                let result = match method {
                    Method::Abs => Ok(number.abs()),
                    Method::Floor => number.floor(),
                    _ => number.ceil(),
                };
                let result = result.map_err(|error| Stop::Error(numeric_error(error)))?;
                if rest.is_empty() && found.is_none() {
                    return Ok(true);
                }
                let result = self.number(&result);
                self.next(rest, result, found)
            }
            Method::Double => {
                let value = self.double(value)?;
                self.next(rest, value, found)
            }
            Method::KeyValue => self.key_values(rest, value, found),
        }
    }

    /// What `.double()` gives: a number that double precision has room for as it is, a text as that type reads it.
    fn double(&self, value: Value<'a>) -> Result<Value<'a>, Stop> {
        let read = |text: &str| crate::decode::parse_float8(text).ok().filter(|value| value.is_finite());
        match value {
            Value::Node(Node::Number(number)) => {
                let number = Numeric::decode(number).map_err(|error| Stop::Error(numeric_error(error)))?;
                let mut text = String::new();
                number.write_text(&mut text);
                if read(&text).is_some() {
                    return Ok(value);
                }
                self.fail(|| {
                    let text = "numeric argument of jsonpath item method .double() is out of range for type double precision";
                    error("22036", text)
                })
            }
            Value::Node(Node::Text(text)) => match read(text) {
                Some(value) => Ok(self.number(&Numeric::from_f64(value))),
                None => self.fail(|| {
                    let text = "string argument of jsonpath item method .double() is not a valid representation of a double \
                                precision number";
                    error("22036", text)
                }),
            },
            _ => self.fail(|| {
                error("22036", "jsonpath item method .double() can only be applied to a string or numeric value")
            }),
        }
    }

    /// Each member of a map as a map of its key, its value and the map's id.
    fn key_values(&mut self, rest: &[Item], value: Value<'a>, mut found: Into<'_, 'a>) -> Outcome {
        let Value::Node(node @ Node::Map(map)) = value else {
            return self.fail(|| error("2203C", "jsonpath item method .keyvalue() can only be applied to an object"));
        };
        if map.is_empty() {
            return Ok(false);
        }
        if rest.is_empty() && found.is_none() {
            return Ok(true);
        }
        let offset = match &self.base.0 {
            Some(base) => offset_within(base, &node)?,
            None => 0,
        };
        let id = Numeric::from(offset.saturating_add(self.base.1.saturating_mul(ID_STEP)));
        let mut id_bytes = Vec::new();
        id.write_encoded(&mut id_bytes);
        let mut outcome = false;
        for at in 0..map.len() {
            crate::running::check()?;
            let made = self.key_value(map.key(at)?, map.value(at)?, &id_bytes)?;
            let base = std::mem::replace(&mut self.base, (Some(made), self.next_id));
            self.next_id += 1;
            let done = self.next(rest, Value::Node(made), found.as_deref_mut());
            self.base = base;
            outcome = done?;
            if outcome && found.is_none() {
                break;
            }
        }
        Ok(outcome)
    }

    /// `{"id": id, "key": key, "value": value}`
    fn key_value(&self, key: &str, value: Node<'a>, id: &[u8]) -> Result<Node<'a>, Stop> {
        let mut bytes = resurgam_engine::document::begin();
        let mut open = put_map(3, &mut bytes);
        for key in ["id", "key", "value"] {
            bytes.extend_from_slice(key.as_bytes());
            open.end(&mut bytes);
        }
        put_number(id, &mut bytes);
        open.end(&mut bytes);
        put_text(key, &mut bytes);
        open.end(&mut bytes);
        value.copy_into(&mut bytes);
        open.end(&mut bytes);
        crate::memory::value(bytes.len())?;
        Ok(resurgam_engine::document::read(self.arena.alloc_slice_copy(&bytes))?)
    }
}

fn as_node(value: Value<'_>) -> Option<Node<'_>> {
    match value {
        Value::Node(node @ (Node::List(_) | Node::Map(_))) => Some(node),
        _ => None,
    }
}

fn type_name(value: Value<'_>) -> &'static str {
    match value {
        Value::Node(Node::Null) => "null",
        Value::Node(Node::Bool(_)) => "boolean",
        Value::Node(Node::Number(_)) => "number",
        Value::Node(Node::Text(_)) => "string",
        Value::Node(Node::List(_)) => "array",
        Value::Node(Node::Map(_)) => "object",
        Value::Moment(moment) => moment.type_name(),
    }
}

/// How two numbers compare.
pub(super) fn compare_numbers(a: &[u8], b: &[u8]) -> Ordering {
    resurgam_numeric::key::key_of(a).cmp(resurgam_numeric::key::key_of(b))
}
