//! Host rules: who may come in from where, and how they prove who they are; in the format of PostgreSQL's `pg_hba.conf`.
//!
//! Contract: the first rule that matches decides; a client that none matches is refused. A file with a mistake is no
//! set of rules at all: the server does not start, or goes on with the rules that it has.

mod address;
mod rule;
mod tokens;

use std::path::Path;

pub use address::AddressRule;
use resurgam_sql::pg::context::HostRule;
pub use rule::{Client, ClientCert, Kind, Method, Rule};

/// The rules in force.
#[derive(Clone, Debug)]
pub struct Rules {
    rules: Vec<Rule>,
}

impl Rules {
    /// Reads a file.
    ///
    /// # Errors
    /// Everything that is wrong with it, each a sentence that names the file and the line.
    pub fn read(path: &Path) -> Result<Self, Vec<String>> {
        let lines = tokens::read(path)
            .map_err(|error| vec![format!("could not open configuration file \"{}\": {error}", path.display())])?;
        let (mut rules, mut errors) = (Vec::new(), Vec::new());
        for line in &lines {
            match Rule::read(line) {
                Ok(rule) => rules.push(rule),
                Err(error) => {
                    errors.push(format!("{error} (line {} of configuration file \"{}\")", line.number, path.display()));
                }
            }
        }
        if errors.is_empty() && rules.is_empty() {
            errors.push(format!("configuration file \"{}\" contains no entries", path.display()));
        }
        if errors.is_empty() { Ok(Self { rules }) } else { Err(errors) }
    }

    /// The rules of a text that is known to be right.
    pub fn built_in(text: &str) -> Self {
        let rules = tokens::lines(Path::new(""), text, 0).iter().filter_map(|line| Rule::read(line).ok()).collect();
        Self { rules }
    }

    /// Refuses whatever is not encrypted, before all else.
    pub fn require_tls(&mut self) {
        let mut first = Self::built_in("hostnossl all all all reject").rules;
        first.iter_mut().for_each(|rule| rule.line = 0);
        self.rules.splice(0..0, first);
    }

    /// The rule for a client.
    pub fn find(&self, client: &Client<'_>) -> Option<&Rule> {
        self.rules.iter().find(|rule| rule.matches(client))
    }

    /// All rules, in their order.
    pub fn iter(&self) -> impl Iterator<Item = &Rule> {
        self.rules.iter()
    }

    /// The rules as `pg_hba_file_rules` shows them.
    pub fn shown(&self) -> Vec<HostRule> {
        self.rules.iter().map(|rule| show(rule, None)).collect()
    }
}

/// What is in a file now, mistakes included, as `pg_hba_file_rules` shows it.
///
/// # Errors
/// The file cannot be read.
pub fn show_file(path: &Path, has_tls: bool) -> std::io::Result<Vec<HostRule>> {
    let lines = tokens::read(path)?;
    let row = |line: &tokens::Line| match Rule::read(line) {
        Ok(rule) => {
            let idle = rule.kind == Kind::HostSsl && !has_tls;
            show(&rule, idle.then(|| "hostssl record cannot match because SSL is disabled".to_owned()))
        }
        Err(error) => HostRule { line_number: line.number as i32, error: Some(error), ..HostRule::default() },
    };
    Ok(lines.iter().map(row).collect())
}

fn show(rule: &Rule, error: Option<String>) -> HostRule {
    let names = |tokens: &[tokens::Token]| Some(tokens.iter().map(|token| token.text.clone()).collect());
    let (address, netmask) = match &rule.address {
        None => (None, None),
        Some(AddressRule::All) => (Some("all".to_owned()), None),
        Some(AddressRule::SameHost) => (Some("samehost".to_owned()), None),
        Some(AddressRule::SameNet) => (Some("samenet".to_owned()), None),
        Some(AddressRule::Range { address, mask }) => (Some(address.to_string()), Some(mask.to_string())),
    };
    HostRule {
        line_number: rule.line as i32,
        kind: Some(rule.kind.word().to_owned()),
        database: names(&rule.databases),
        user_name: names(&rule.users),
        address,
        netmask,
        auth_method: Some(rule.method.word().to_owned()),
        options: Some(rule.options()).filter(|options| !options.is_empty()),
        error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_that_matches_decides() {
        let rules = Rules::built_in(
            "host all all 10.0.0.0/8 reject\nhost all alice 10.0.0.0/8 trust\nhostssl all all all scram-sha-256\n",
        );
        let client = |peer: &str, encrypted| {
            let client = Client {
                peer: peer.parse().unwrap(),
                encrypted,
                user: "alice",
                database: "postgres",
                is_member: &|role| role == "alice",
            };
            rules.find(&client).map(|rule| (rule.line, rule.method))
        };
        assert_eq!(client("10.0.0.1", false), Some((1, Method::Reject)));
        assert_eq!(client("11.0.0.1", true), Some((3, Method::Scram)));
        assert_eq!(client("11.0.0.1", false), None);
    }

    #[test]
    fn every_mistake_names_file_and_line() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "# rules\nhost all all all trust\nhost all all\nhost a b c d\n").unwrap();
        let errors = Rules::read(file.path()).unwrap_err();
        assert_eq!(errors.len(), 2, "{errors:?}");
        let place = |line: u32| format!("(line {line} of configuration file \"{}\")", file.path().display());
        assert!(errors[0].ends_with(&place(3)) && errors[1].ends_with(&place(4)), "{errors:?}");
        std::fs::write(file.path(), "# nothing\n").unwrap();
        assert!(Rules::read(file.path()).unwrap_err()[0].ends_with("contains no entries"));
        assert!(Rules::read(Path::new("/no/such/file")).unwrap_err()[0].contains("/no/such/file"));
        // Shown are the mistakes, too.
        std::fs::write(file.path(), "local all all trust\nhost all all\n").unwrap();
        let rows = show_file(file.path(), false).unwrap();
        assert_eq!(rows[0].kind.as_deref(), Some("local"));
        assert_eq!(rows[1].error.as_deref(), Some("end-of-line before IP address specification"));
    }
}
