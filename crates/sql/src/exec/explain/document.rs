//! What EXPLAIN says, as values with keys, and these as JSON, XML and YAML, each with PostgreSQL's spaces and line ends
//! (`explain.c`): programs read what people read.

/// See the module's head.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Document {
    Text(String),
    /// A number, or true or false.
    Bare(String),
    List(Vec<String>),
    Group(Vec<(&'static str, Document)>),
    /// Groups, and what XML calls each.
    Groups(&'static str, Vec<Document>),
}

impl Document {
    /// A number with so many digits behind the point.
    pub(crate) fn number(number: f64, digits: usize) -> Self {
        // What JSON has no number for is none that is expected here.
        let number = if number.is_finite() { number } else { 0.0 };
        Self::Bare(format!("{number:.digits$}"))
    }

    /// The whole answer as JSON; `self` is the group of one statement.
    pub(crate) fn json(&self) -> String {
        let mut out = String::from("[\n  ");
        self.write_json(1, &mut out);
        out.push_str("\n]");
        out
    }

    fn write_json(&self, depth: usize, out: &mut String) {
        let lines =
            |out: &mut String, open: char, close: char, count: usize, each: &mut dyn FnMut(usize, &mut String)| {
                out.push(open);
                for at in 0..count {
                    out.push_str(if at == 0 { "\n" } else { ",\n" });
                    indent(depth + 1, out);
                    each(at, out);
                }
                out.push('\n');
                indent(depth, out);
                out.push(close);
            };
        match self {
            Self::Text(text) => quote(text, out),
            Self::Bare(bare) => out.push_str(bare),
            Self::List(list) => {
                out.push('[');
                for (at, item) in list.iter().enumerate() {
                    if at > 0 {
                        out.push_str(", ");
                    }
                    quote(item, out);
                }
                out.push(']');
            }
            Self::Group(pairs) => lines(out, '{', '}', pairs.len(), &mut |at, out| {
                let (key, value) = &pairs[at];
                quote(key, out);
                out.push_str(": ");
                value.write_json(depth + 1, out);
            }),
            Self::Groups(_, groups) => lines(out, '[', ']', groups.len(), &mut |at, out| {
                groups[at].write_json(depth + 1, out);
            }),
        }
    }

    /// The same as YAML.
    pub(crate) fn yaml(&self) -> String {
        let mut out = String::from("- ");
        self.write_yaml(1, &mut out);
        out
    }

    /// Its first line stands behind what is there.
    fn write_yaml(&self, depth: usize, out: &mut String) {
        match self {
            // PostgreSQL quotes all texts as JSON does.
            Self::Text(text) => quote(text, out),
            Self::Bare(bare) => out.push_str(bare),
            Self::List(list) => {
                for item in list {
                    out.push('\n');
                    indent(depth, out);
                    out.push_str("- ");
                    quote(item, out);
                }
            }
            Self::Group(pairs) => {
                for (at, (key, value)) in pairs.iter().enumerate() {
                    if at > 0 {
                        out.push('\n');
                        indent(depth, out);
                    }
                    out.push_str(key);
                    out.push_str(": ");
                    if let Self::Group(_) = value {
                        out.push('\n');
                        indent(depth + 1, out);
                    }
                    value.write_yaml(depth + 1, out);
                }
            }
            Self::Groups(_, groups) => {
                for group in groups {
                    out.push('\n');
                    indent(depth, out);
                    out.push_str("- ");
                    group.write_yaml(depth + 1, out);
                }
            }
        }
    }

    /// The same as XML.
    pub(crate) fn xml(&self) -> String {
        let mut out = String::from("<explain xmlns=\"http://www.postgresql.org/2009/explain\">\n");
        self.write_xml("Query", 1, &mut out);
        out.push_str("</explain>");
        out
    }

    fn write_xml(&self, key: &str, depth: usize, out: &mut String) {
        let tag: String =
            key.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' || c == '.' { c } else { '-' }).collect();
        indent(depth, out);
        out.push_str(&format!("<{tag}>"));
        match self {
            Self::Text(text) => escape(text, out),
            Self::Bare(bare) => out.push_str(bare),
            Self::List(list) => {
                out.push('\n');
                for item in list {
                    Self::Text(item.clone()).write_xml("Item", depth + 1, out);
                }
                indent(depth, out);
            }
            Self::Group(pairs) => {
                out.push('\n');
                for (key, value) in pairs {
                    value.write_xml(key, depth + 1, out);
                }
                indent(depth, out);
            }
            Self::Groups(each, groups) => {
                out.push('\n');
                for group in groups {
                    group.write_xml(each, depth + 1, out);
                }
                indent(depth, out);
            }
        }
        out.push_str(&format!("</{tag}>\n"));
    }
}

fn indent(depth: usize, out: &mut String) {
    out.extend(std::iter::repeat_n("  ", depth));
}

/// A text as JSON has it.
fn quote(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            c if c < ' ' => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
}

/// A text as XML has it.
fn escape(text: &str, out: &mut String) {
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '\r' => out.push_str("&#x0d;"),
            c => out.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer() -> Document {
        let text = |text: &str| Document::Text(text.to_owned());
        let scan = Document::Group(vec![
            ("Node Type", text("Seq Scan")),
            ("Parent Relationship", text("Outer")),
            ("Filter", text("(t <> 'a\"<&>'::text)")),
        ]);
        let plan = Document::Group(vec![
            ("Node Type", text("Sort")),
            ("Total Cost", Document::number(1.5, 2)),
            ("Sort Key", Document::List(vec!["t".to_owned(), "x".to_owned()])),
            ("Plans", Document::Groups("Plan", vec![scan])),
        ]);
        Document::Group(vec![
            ("Plan", plan),
            ("Triggers", Document::Groups("Trigger", Vec::new())),
            ("Execution Time", Document::number(0.05, 3)),
        ])
    }

    #[test]
    fn json_is_as_postgresql_writes_it() {
        let wanted = r#"[
  {
    "Plan": {
      "Node Type": "Sort",
      "Total Cost": 1.50,
      "Sort Key": ["t", "x"],
      "Plans": [
        {
          "Node Type": "Seq Scan",
          "Parent Relationship": "Outer",
          "Filter": "(t <> 'a\"<&>'::text)"
        }
      ]
    },
    "Triggers": [
    ],
    "Execution Time": 0.050
  }
]"#;
        assert_eq!(answer().json(), wanted);
        assert_eq!(Document::Text("\u{1}\t\\\n".to_owned()).json(), "[\n  \"\\u0001\\t\\\\\\n\"\n]");
        assert_eq!(Document::number(f64::NAN, 1), Document::Bare("0.0".to_owned()));
    }

    #[test]
    fn yaml_is_as_postgresql_writes_it() {
        let wanted = [
            "- Plan: ",
            "    Node Type: \"Sort\"",
            "    Total Cost: 1.50",
            "    Sort Key: ",
            "      - \"t\"",
            "      - \"x\"",
            "    Plans: ",
            "      - Node Type: \"Seq Scan\"",
            "        Parent Relationship: \"Outer\"",
            "        Filter: \"(t <> 'a\\\"<&>'::text)\"",
            "  Triggers: ",
            "  Execution Time: 0.050",
        ];
        assert_eq!(answer().yaml().lines().collect::<Vec<_>>(), wanted);
    }

    #[test]
    fn xml_is_as_postgresql_writes_it() {
        let wanted = "<explain xmlns=\"http://www.postgresql.org/2009/explain\">
  <Query>
    <Plan>
      <Node-Type>Sort</Node-Type>
      <Total-Cost>1.50</Total-Cost>
      <Sort-Key>
        <Item>t</Item>
        <Item>x</Item>
      </Sort-Key>
      <Plans>
        <Plan>
          <Node-Type>Seq Scan</Node-Type>
          <Parent-Relationship>Outer</Parent-Relationship>
          <Filter>(t &lt;&gt; 'a\"&lt;&amp;&gt;'::text)</Filter>
        </Plan>
      </Plans>
    </Plan>
    <Triggers>
    </Triggers>
    <Execution-Time>0.050</Execution-Time>
  </Query>
</explain>";
        assert_eq!(answer().xml(), wanted);
    }
}
