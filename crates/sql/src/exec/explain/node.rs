//! A plan as EXPLAIN shows it: a tree of nodes in PostgreSQL's words, whatever the format.

use super::document::Document;

/// One operator. What PostgreSQL has no word for keeps a clear name of its own.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Node {
    /// The kind of operator, as the other formats than TEXT have it ("Aggregate").
    pub kind: String,
    /// As TEXT has it ("HashAggregate"), without what it works on; the kind, if it is empty.
    pub name: String,
    /// How the kind works ("Hashed"), and whether it does a part only ("Partial").
    pub strategy: Option<&'static str>,
    pub partial: Option<&'static str>,
    /// What a `ModifyTable` does.
    pub operation: Option<&'static str>,
    /// What it is of the node above it ("Outer").
    pub relationship: Option<&'static str>,
    /// "SubPlan 1", "CTE c".
    pub subplan: Option<String>,
    pub on: Option<On>,
    pub index: Option<String>,
    /// Of a scan by an index.
    pub backward: bool,
    /// "Inner", "Left" …, of a join.
    pub join: Option<&'static str>,
    pub estimate: Option<Estimate>,
    pub actual: Option<Actual>,
    pub properties: Vec<Property>,
    pub inputs: Vec<Node>,
}

/// The key of an index that is all that a node reads.
pub(crate) const INDEX_NAME: &str = "Index Name";

/// What a node reads or writes.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct On {
    /// The key of the name: "Relation Name", "Index Name", "CTE Name", "Function Name"; empty: there is an alias only.
    pub key: &'static str,
    pub name: String,
    /// Shown if VERBOSE is asked for.
    pub schema: Option<String>,
    pub alias: String,
}

/// What is expected of a node, with its inputs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Estimate {
    pub startup: f64,
    pub total: f64,
    pub rows: f64,
    /// Bytes of a row.
    pub width: u64,
}

/// What was measured of it, per run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Actual {
    /// Until the first row, and until the last, in milliseconds.
    pub time: Option<(f64, f64)>,
    pub rows: f64,
    /// 0: it was never run.
    pub loops: u64,
}

/// What else is said of a node.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Property {
    /// The same in all formats.
    Pair(&'static str, Value),
    /// A line of TEXT, which may be missing, and what the other formats have in its place.
    Line(Option<String>, Vec<(&'static str, Value)>),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Text(String),
    List(Vec<String>),
    Count(u64),
}

/// What is shown of nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shown {
    pub verbose: bool,
    pub costs: bool,
}

impl Node {
    pub(crate) fn new(kind: impl Into<String>) -> Self {
        Self { kind: kind.into(), ..Self::default() }
    }

    /// A node over others: the first of two is PostgreSQL's outer one.
    pub(crate) fn over(kind: impl Into<String>, inputs: impl IntoIterator<Item = Node>) -> Self {
        let mut node = Self::new(kind);
        for (at, input) in inputs.into_iter().enumerate() {
            node.add(if at == 0 { "Outer" } else { "Inner" }, input);
        }
        node
    }

    pub(crate) fn add(&mut self, relationship: &'static str, input: Node) {
        self.inputs.push(Node { relationship: Some(relationship), ..input });
    }

    pub(crate) fn named(self, name: impl Into<String>) -> Self {
        Self { name: name.into(), ..self }
    }

    pub(crate) fn pair(&mut self, key: &'static str, value: Value) {
        self.properties.push(Property::Pair(key, value));
    }

    /// A condition, if there is one.
    pub(crate) fn condition(&mut self, key: &'static str, condition: Option<String>) {
        if let Some(condition) = condition {
            self.pair(key, Value::Text(condition));
        }
    }

    pub(crate) fn list(&mut self, key: &'static str, list: Vec<String>) {
        if !list.is_empty() {
            self.pair(key, Value::List(list));
        }
    }

    pub(crate) fn has(&self, key: &str) -> bool {
        self.properties.iter().any(|property| matches!(property, Property::Pair(known, _) if *known == key))
    }

    /// How many rows a condition has dropped, in each run: TEXT says nothing of none.
    pub(crate) fn removed(&mut self, key: &'static str, rows: f64) {
        let rows = rows.max(0.0).round();
        let line = (rows > 0.0).then(|| format!("{key}: {rows}"));
        self.properties.push(Property::Line(line, vec![(key, Value::Count(rows as u64))]));
    }

    /// As the formats for programs have it, with PostgreSQL's keys in PostgreSQL's order.
    pub(crate) fn document(&self, shown: Shown) -> Document {
        let text = |text: &str| Document::Text(text.to_owned());
        let mut out: Vec<(&'static str, Document)> = vec![("Node Type", text(&self.kind))];
        let mut add = |key, value: Option<Document>| out.extend(value.map(|value| (key, value)));
        add("Strategy", self.strategy.map(text));
        add("Partial Mode", self.partial.map(text));
        add("Operation", self.operation.map(text));
        add("Parent Relationship", self.relationship.map(text));
        add("Subplan Name", self.subplan.as_deref().map(text));
        add("Parallel Aware", Some(Document::Bare("false".to_owned())));
        add("Async Capable", Some(Document::Bare("false".to_owned())));
        if let Some(index) = &self.index {
            add("Scan Direction", Some(text(if self.backward { "Backward" } else { "Forward" })));
            add("Index Name", Some(text(index)));
        }
        if let Some(on) = &self.on {
            if !on.key.is_empty() {
                add(on.key, Some(text(&on.name)));
            }
            add("Schema", on.schema.as_deref().filter(|_| shown.verbose).map(text));
            if on.key != INDEX_NAME {
                add("Alias", Some(text(&on.alias)));
            }
        }
        add("Join Type", self.join.map(text));
        if let (Some(estimate), true) = (self.estimate, shown.costs) {
            add("Startup Cost", Some(Document::number(estimate.startup, 2)));
            add("Total Cost", Some(Document::number(estimate.total, 2)));
            add("Plan Rows", Some(Document::number(estimate.rows, 0)));
            add("Plan Width", Some(Document::Bare(estimate.width.to_string())));
        }
        if let Some(actual) = self.actual {
            if let Some((first, all)) = actual.time {
                add("Actual Startup Time", Some(Document::number(first, 3)));
                add("Actual Total Time", Some(Document::number(all, 3)));
            }
            add("Actual Rows", Some(Document::number(actual.rows, 0)));
            add("Actual Loops", Some(Document::Bare(actual.loops.to_string())));
        }
        for property in &self.properties {
            match property {
                Property::Pair(key, value) => out.push((key, value.document())),
                Property::Line(_, pairs) => out.extend(pairs.iter().map(|(key, value)| (*key, value.document()))),
            }
        }
        if !self.inputs.is_empty() {
            let inputs = self.inputs.iter().map(|input| input.document(shown)).collect();
            out.push(("Plans", Document::Groups("Plan", inputs)));
        }
        Document::Group(out)
    }
}

impl Value {
    fn document(&self) -> Document {
        match self {
            Self::Text(text) => Document::Text(text.clone()),
            Self::List(list) => Document::List(list.clone()),
            Self::Count(count) => Document::Bare(count.to_string()),
        }
    }
}
