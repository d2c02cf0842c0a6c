//! A statement as a tree of text: what the minimiser may take away is known without knowing
//! the grammar. Constants are holes, which are filled differently in each run.

use super::types::{Ty, Value, quoted};

/// A piece of a statement.
#[derive(Clone, Debug, PartialEq)]
pub enum Tree {
    Text(String),
    /// The constant of that number.
    Hole(usize),
    Seq(Vec<Tree>),
    /// An expression: any other of the same type can stand in its place.
    Expr(Ty, Box<Tree>),
    /// Items, of which all but `min` can go.
    List {
        items: Vec<Tree>,
        separator: &'static str,
        min: usize,
    },
    /// What can go.
    Maybe(Box<Tree>),
    /// Elements of NOT IN: the planted bug about NULL in there needs to know them.
    NotInItem(Box<Tree>),
}

impl From<&str> for Tree {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Tree {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl Tree {
    pub fn list(items: Vec<Tree>, separator: &'static str, min: usize) -> Self {
        Self::List { items, separator, min }
    }

    pub fn maybe(tree: impl Into<Tree>) -> Self {
        Self::Maybe(Box::new(tree.into()))
    }

    pub fn expr(ty: Ty, tree: impl Into<Tree>) -> Self {
        Self::Expr(ty, Box::new(tree.into()))
    }

    pub fn nothing() -> Self {
        Self::Seq(Vec::new())
    }
}

/// Pieces one after the other.
macro_rules! seq {
    ($($piece:expr),* $(,)?) => {
        $crate::answers::fuzz::tree::Tree::Seq(vec![$($crate::answers::fuzz::tree::Tree::from($piece)),*])
    };
}
pub(crate) use seq;

/// How a constant is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// `5`, `'abc'`, `$1`: of the type that the place gives it.
    Bare,
    /// `'5'::integer`, `$1::integer`.
    Cast,
    /// `CAST('5' AS integer)`.
    Long,
    /// `date '2024-01-01'`; a parameter is cast.
    Keyword,
}

/// A constant: what each run puts there.
#[derive(Clone, Debug)]
pub struct Hole {
    pub ty: Ty,
    pub style: Style,
    pub values: Vec<Value>,
}

impl Hole {
    pub fn value(&self, run: usize) -> &Value {
        &self.values[run % self.values.len()]
    }
}

/// Whom a text is for.
#[derive(Clone, Copy, Debug)]
pub struct Writing {
    /// The run whose constants it has; none for parameters.
    pub run: Option<usize>,
    /// The planted bug: NULLs in NOT IN are left out.
    pub drop_null_in_not_in: bool,
}

/// A statement's text, and the holes of its parameters in order of their numbers.
pub fn write(tree: &Tree, holes: &[Hole], how: Writing) -> (String, Vec<usize>) {
    let mut writer = Writer { text: String::new(), parameters: Vec::new(), holes, how };
    writer.write(tree);
    (writer.text, writer.parameters)
}

struct Writer<'a> {
    text: String,
    parameters: Vec<usize>,
    holes: &'a [Hole],
    how: Writing,
}

impl Writer<'_> {
    fn write(&mut self, tree: &Tree) {
        match tree {
            Tree::Text(text) => self.text.push_str(text),
            Tree::Hole(at) => self.hole(*at),
            Tree::Seq(pieces) => pieces.iter().for_each(|piece| self.write(piece)),
            Tree::Expr(_, inner) | Tree::Maybe(inner) | Tree::NotInItem(inner) => self.write(inner),
            Tree::List { items, separator, .. } => {
                let mut first = true;
                for item in items {
                    if self.how.drop_null_in_not_in && self.is_null_of_not_in(item) {
                        continue;
                    }
                    if !first {
                        self.text.push_str(separator);
                    }
                    first = false;
                    self.write(item);
                }
            }
        }
    }

    fn is_null_of_not_in(&self, item: &Tree) -> bool {
        let Tree::NotInItem(inner) = item else { return false };
        match &**inner {
            Tree::Hole(at) => self.holes[*at].value(self.how.run.unwrap_or(0)) == &Value::Null,
            Tree::Text(text) => text == "NULL",
            _ => false,
        }
    }

    fn hole(&mut self, at: usize) {
        let hole = &self.holes[at];
        let name = hole.ty.name();
        let (bare, in_quotes) = match self.how.run {
            None => {
                let known = self.parameters.iter().position(|p| *p == at);
                let number = known.unwrap_or_else(|| {
                    self.parameters.push(at);
                    self.parameters.len() - 1
                });
                let text = format!("${}", number + 1);
                (text.clone(), text)
            }
            Some(run) => {
                let value = hole.value(run);
                (value.literal(hole.ty), value.text(hole.ty).map_or_else(|| "NULL".into(), |text| quoted(&text)))
            }
        };
        let text = match hole.style {
            Style::Bare => bare,
            // `integer[] 'x'` is no constant.
            Style::Keyword if in_quotes.starts_with('\'') && !name.ends_with([']', ')']) => {
                format!("{name} {in_quotes}")
            }
            Style::Cast | Style::Keyword => format!("{in_quotes}::{name}"),
            Style::Long => format!("CAST({in_quotes} AS {name})"),
        };
        self.text.push_str(&text);
    }
}

/// All trees that are this one with one thing less, the largest reductions first.
pub fn smaller(tree: &Tree) -> Vec<Tree> {
    let mut found = Vec::new();
    match tree {
        Tree::Text(_) | Tree::Hole(_) => {}
        Tree::Seq(pieces) => {
            for (at, piece) in pieces.iter().enumerate() {
                found.extend(smaller(piece).into_iter().map(|less| {
                    let mut pieces = pieces.clone();
                    pieces[at] = less;
                    Tree::Seq(pieces)
                }));
            }
        }
        Tree::Expr(ty, inner) => {
            let mut parts = Vec::new();
            descendants(inner, *ty, &mut parts);
            found.extend(parts);
            let null = Tree::Text(format!("NULL::{}", ty.name()));
            if **inner != null && size(inner) > 1 {
                found.push(Tree::Expr(*ty, Box::new(null)));
            }
            found.extend(smaller(inner).into_iter().map(|less| Tree::Expr(*ty, Box::new(less))));
        }
        Tree::List { items, separator, min } => {
            if items.len() > *min {
                for at in 0..items.len() {
                    let mut items = items.clone();
                    items.remove(at);
                    found.push(Tree::list(items, separator, *min));
                }
            }
            for (at, item) in items.iter().enumerate() {
                found.extend(smaller(item).into_iter().map(|less| {
                    let mut items = items.clone();
                    items[at] = less;
                    Tree::list(items, separator, *min)
                }));
            }
        }
        Tree::Maybe(inner) => {
            found.push(Tree::nothing());
            found.extend(smaller(inner).into_iter().map(|less| Tree::Maybe(Box::new(less))));
        }
        Tree::NotInItem(inner) => {
            found.extend(smaller(inner).into_iter().map(|less| Tree::NotInItem(Box::new(less))));
        }
    }
    found
}

/// Expressions of a type in a tree, the outermost ones.
fn descendants(tree: &Tree, ty: Ty, found: &mut Vec<Tree>) {
    match tree {
        Tree::Text(_) | Tree::Hole(_) => {}
        Tree::Expr(its, inner) => {
            if *its == ty {
                found.push(tree.clone());
            } else {
                descendants(inner, ty, found);
            }
        }
        Tree::Seq(items) | Tree::List { items, .. } => items.iter().for_each(|item| descendants(item, ty, found)),
        Tree::Maybe(inner) | Tree::NotInItem(inner) => descendants(inner, ty, found),
    }
}

/// Pieces of a tree.
pub fn size(tree: &Tree) -> usize {
    match tree {
        Tree::Text(_) | Tree::Hole(_) => 1,
        Tree::Seq(items) | Tree::List { items, .. } => items.iter().map(size).sum(),
        Tree::Expr(_, inner) | Tree::Maybe(inner) | Tree::NotInItem(inner) => size(inner),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holes() -> Vec<Hole> {
        vec![
            Hole { ty: Ty::Int4, style: Style::Bare, values: vec![Value::Int(1), Value::Null] },
            Hole { ty: Ty::Date, style: Style::Keyword, values: vec![Value::Date(0), Value::Null] },
        ]
    }

    #[test]
    fn constants_are_literals_or_parameters() {
        let tree = seq!["a = ", Tree::Hole(0), " and b = ", Tree::Hole(1), " or a = ", Tree::Hole(0)];
        let write = |run| write(&tree, &holes(), Writing { run, drop_null_in_not_in: false });
        assert_eq!(write(Some(0)).0, "a = 1 and b = date '1970-01-01' or a = 1");
        assert_eq!(write(Some(1)).0, "a = NULL and b = NULL::date or a = NULL");
        assert_eq!(write(None), ("a = $1 and b = $2::date or a = $1".into(), vec![0, 1]));
    }

    #[test]
    fn a_tree_gets_smaller() {
        let part = Tree::expr(Ty::Int4, "x");
        let sum = Tree::expr(Ty::Int4, seq![part.clone(), " + ", Tree::Hole(0)]);
        let tree = seq!["select ", sum, Tree::maybe(" limit 1")];
        let texts: Vec<String> = smaller(&tree)
            .iter()
            .map(|t| write(t, &holes(), Writing { run: Some(0), drop_null_in_not_in: false }).0)
            .collect();
        assert_eq!(texts, ["select x limit 1", "select NULL::integer limit 1", "select x + 1"]);
    }
}
