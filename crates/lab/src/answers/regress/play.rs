//! Plays one script to both servers, as psql would: its statements, and of its backslash
//! commands those that change what is sent. Commands that only show something are counted.

use std::fs;
use std::path::PathBuf;

use super::contents;
use super::judge::{self, Said, Verdict};
use super::pair::Pair;
use super::script::{Both, Item, Mark, Script, Variables};
use super::stand_in;
use super::taint::Taint;
use super::tally::{Finding, Tally};
use super::words;
use crate::Result;
use crate::answers::client::Outcome;
use crate::answers::known::Known;

/// The root of differences that come from other rows in a table, whatever made them.
const OTHER_CONTENTS: &str = "other rows in a table, after an earlier difference";

/// The names of everything that scripts have made.
const OWN_NAMES: &str = "SELECT relname::text FROM pg_class WHERE oid >= 16384 \
    UNION SELECT proname FROM pg_proc WHERE oid >= 16384 UNION SELECT typname FROM pg_type WHERE oid >= 16384 \
    UNION SELECT oprname FROM pg_operator WHERE oid >= 16384 UNION SELECT nspname FROM pg_namespace WHERE oid >= 16384 \
    UNION SELECT rolname FROM pg_roles WHERE oid >= 16384 UNION SELECT collname FROM pg_collation WHERE oid >= 16384 \
    UNION SELECT lanname FROM pg_language WHERE oid >= 16384 UNION SELECT spcname FROM pg_tablespace WHERE oid >= 16384";

/// What the scripts find in their environment.
pub struct Environment {
    /// The folder that has `sql` and `data`.
    pub source: PathBuf,
    /// Where scripts write files, below `results`.
    pub build: PathBuf,
    /// Of PostgreSQL's modules.
    pub library: PathBuf,
}

/// A script being played.
pub struct Player<'a> {
    pub pair: &'a mut Pair,
    pub taint: &'a mut Taint,
    pub tally: &'a mut Tally,
    pub known: &'a Known,
    pub environment: &'a Environment,
    /// Whether tables that are not right in Resurgam are made right before a query.
    stand_ins: bool,
    file: String,
    script: Script,
    variables: Variables,
    branches: Vec<Branch>,
    /// The last statement, which `\g` alone runs again.
    last: Option<Both>,
}

/// An `\if` that is open.
struct Branch {
    /// Whether the `\if` itself is in a branch that is played.
    outer: bool,
    /// A branch of it has been played, or is.
    taken: bool,
    /// The begin of the branch that is left out.
    mark: Option<Mark>,
}

impl<'a> Player<'a> {
    pub fn new(
        pair: &'a mut Pair,
        taint: &'a mut Taint,
        tally: &'a mut Tally,
        known: &'a Known,
        environment: &'a Environment,
        stand_ins: bool,
        file: &str,
        text: &str,
    ) -> Self {
        let mut variables = Variables::new();
        for (name, value) in [("DBNAME", "postgres"), ("USER", "postgres"), ("ENCODING", "UTF8"), ("HOST", "localhost")]
        {
            variables.insert(name.into(), [value.to_owned(), value.to_owned()]);
        }
        let script = Script::new(text);
        let (branches, last) = (Vec::new(), None);
        Self { pair, taint, tally, known, environment, stand_ins, file: file.into(), script, variables, branches, last }
    }

    /// Plays it to its end, in new sessions.
    ///
    /// # Errors
    /// A server that cannot be started again.
    pub fn play(mut self) -> Result<()> {
        self.connect("postgres")?;
        while let Some(item) = self.script.next(&self.variables) {
            match item {
                Item::Statement { texts, line } => drop(self.run(texts, line)?),
                Item::Command { name, rest, line } => self.command(&name, &rest, line)?,
            }
        }
        // Outside of any block that the script left open.
        self.pair.connect("postgres")?;
        let left = self.pair.ask_postgres(OWN_NAMES)?;
        self.taint.keep(&left);
        Ok(())
    }

    fn connect(&mut self, user: &str) -> Result<()> {
        let complaint = self.pair.connect(user)?;
        self.taint.new_session(complaint.as_deref());
        Ok(())
    }

    /// Runs a statement at both, judges and counts it; answers what both said.
    fn run(&mut self, texts: Both, line: usize) -> Result<[Said; 2]> {
        self.last = Some(texts.clone());
        let (texts, given) = with_data(texts);
        let fine = match self.stand_ins {
            true => stand_in::prepare(self.pair, self.taint, &texts[0], &words::tokens(&texts[0]))?,
            false => Vec::new(),
        };
        let undo = self.taint.is_of_other_table(&words::tokens(&texts[0]));
        let script = &mut self.script;
        let said = self.pair.run(&texts, &mut || given.clone().unwrap_or_else(|| script.copy_data()), undo)?;
        self.count(&texts[0], line, &said, &fine)?;
        self.follow_settings(&texts[0]);
        Ok(said)
    }

    fn count(&mut self, sql: &str, line: usize, said: &[Said; 2], fine: &[String]) -> Result<()> {
        let [theirs, ours] = said;
        let counts = self.tally.file(&self.file);
        counts.statements += 1;
        if !matches!(theirs, Said::Reply(_)) || theirs.error().is_some_and(|(code, _)| code == "57014") {
            counts.not_compared += 1;
            return Ok(());
        }
        let accepted = theirs.error().is_none();
        let (verdict, reason) = judge::judge(sql, theirs, ours);
        let mut root = self.taint.root(sql, verdict, &reason, ours, fine).map(str::to_owned);
        let listed = match verdict {
            Verdict::Rows | Verdict::Order | Verdict::Accepted => self.known.reason(&self.file, sql).map(str::to_owned),
            _ => None,
        };
        if root.is_none() && listed.is_none() && contents_matter(verdict, ours) {
            for name in contents::different(self.pair, sql)? {
                self.taint.mark(&name, OTHER_CONTENTS);
                root = Some(OTHER_CONTENTS.into());
            }
        }
        let tokens = words::tokens(sql);
        let is_same = matches!(verdict, Verdict::Same | Verdict::SameCode);
        self.taint.in_block(self.pair.in_block(), (!is_same).then_some(root.as_deref().unwrap_or(&reason)));
        self.taint.learn(sql, &tokens, verdict, root.as_ref().unwrap_or(&reason));
        if matches!(verdict, Verdict::Crash | Verdict::Hang) && !matches!(ours, Said::Reply(_)) {
            self.taint.lose_session(&format!("what a {verdict:?} took away ({}:{line})", self.file));
        }
        let with_rows = matches!(theirs, Said::Reply(reply) if reply.outcomes.iter().any(|o| o.columns.is_some()));
        let finding = Finding {
            file: self.file.clone(),
            line,
            sql: sql.to_owned(),
            accepted,
            verdict,
            reason,
            root,
            listed,
            theirs: String::new(),
            ours: String::new(),
        };
        self.tally.add(finding, with_rows, || [judge::show(theirs), judge::show(ours)]);
        Ok(())
    }

    /// What of the server's settings psql's own reading depends on.
    fn follow_settings(&mut self, sql: &str) {
        let lower = sql.to_lowercase();
        if lower.contains("standard_conforming_strings") && words::first(&words::tokens(sql)) != "select" {
            self.script.conforming = !lower.contains("off") && !lower.contains("false");
        }
    }

    fn command(&mut self, name: &str, rest: &str, line: usize) -> Result<()> {
        match name {
            "if" | "elif" | "else" | "endif" => self.branch(name, rest),
            _ if !self.script.active => {}
            "g" | "gx" | "crosstabview" | "crosstabview(" => {
                self.send(line)?;
            }
            "gset" => {
                let said = self.send(line)?;
                if let Some(said) = said {
                    self.keep(&said, rest);
                }
            }
            "gexec" => {
                if let Some(said) = self.send(line)? {
                    self.execute_answers(&said, line)?;
                }
            }
            "gdesc" => {
                self.script.take();
                self.tally.file(&self.file).commands += 1;
            }
            "set" => {
                let mut words = self.arguments(rest).into_iter();
                if let Some([name, _]) = words.next() {
                    let value = words.fold(Both::default(), |[a, b], [c, d]| [a + &c, b + &d]);
                    self.variables.insert(name, value);
                }
            }
            "unset" => {
                self.variables.remove(rest.trim());
            }
            "getenv" => self.get_environment(rest),
            "c" | "connect" => {
                let words = self.arguments(rest);
                let user = words.get(1).map_or("postgres", |[user, _]| user.as_str()).to_owned();
                self.connect(if user == "-" { "postgres" } else { &user })?;
            }
            "copy" => {
                let sql = format!("COPY {rest}");
                let both = substituted(&sql, &self.variables);
                self.run(both, line)?;
            }
            "r" | "reset" => drop(self.script.take()),
            "q" | "quit" => self.script.quit(),
            "" | "echo" | "qecho" | "warn" | "pset" | "a" | "t" | "x" | "p" | "f" | "H" | "o" | "timing" | "w"
            | "!" => {}
            _ => self.tally.file(&self.file).commands += 1,
        }
        Ok(())
    }

    /// Runs what was read, or the last statement again.
    fn send(&mut self, line: usize) -> Result<Option<[Said; 2]>> {
        let (texts, line) = match self.script.take() {
            Some((texts, line)) => (texts, line),
            None => match self.last.clone() {
                Some(texts) => (texts, line),
                None => return Ok(None),
            },
        };
        self.run(texts, line).map(Some)
    }

    /// `\gset`: the columns of the only row become variables; where Resurgam has none, it gets
    /// PostgreSQL's, so that what follows is a statement at all.
    fn keep(&mut self, said: &[Said; 2], prefix: &str) {
        let row = |said: &Said| {
            let Said::Reply(reply) = said else { return Vec::new() };
            let Some(outcome) = reply.outcomes.last().filter(|o| o.rows.len() == 1) else { return Vec::new() };
            let names = outcome.columns.iter().flatten().map(|column| column.name.clone());
            names.zip(outcome.rows.first().map(|row| Outcome::texts(row)).unwrap_or_default()).collect()
        };
        let [theirs, ours] = [row(&said[0]), row(&said[1])];
        for (i, (name, value)) in theirs.into_iter().enumerate() {
            let name = format!("{prefix}{name}");
            match value {
                None => drop(self.variables.remove(&name)),
                Some(value) => {
                    let own = ours.get(i).and_then(|(_, value)| value.clone()).unwrap_or_else(|| value.clone());
                    self.variables.insert(name, [value, own]);
                }
            }
        }
    }

    /// `\gexec`: each value of the answer is a statement.
    fn execute_answers(&mut self, said: &[Said; 2], line: usize) -> Result<()> {
        let cells = |said: &Said| {
            let Said::Reply(reply) = said else { return Vec::new() };
            let rows = reply.outcomes.last().map(|o| o.rows.clone()).unwrap_or_default();
            rows.iter().flat_map(|row| Outcome::texts(row)).flatten().collect::<Vec<String>>()
        };
        let [theirs, ours] = [cells(&said[0]), cells(&said[1])];
        for (i, text) in theirs.into_iter().enumerate() {
            let own = ours.get(i).unwrap_or(&text).clone();
            self.run([text, own], line)?;
        }
        Ok(())
    }

    fn get_environment(&mut self, rest: &str) {
        let mut words = rest.split_whitespace();
        let (Some(name), Some(from)) = (words.next(), words.next()) else { return };
        let value = match from {
            "PG_ABS_SRCDIR" => self.environment.source.display().to_string(),
            "PG_ABS_BUILDDIR" => self.environment.build.display().to_string(),
            "PG_LIBDIR" => self.environment.library.display().to_string(),
            "PG_DLSUFFIX" => ".so".into(),
            _ => return,
        };
        self.variables.insert(name.into(), [value.clone(), value]);
    }

    fn branch(&mut self, name: &str, rest: &str) {
        let value = self
            .arguments(rest)
            .first()
            .is_some_and(|[text, _]| matches!(text.to_lowercase().as_str(), "true" | "t" | "on" | "1" | "yes" | "y"));
        if name == "if" {
            let outer = self.script.active;
            self.branches.push(Branch { outer, taken: !outer, mark: None });
            return self.enter(outer && value);
        }
        let Some(branch) = self.branches.last_mut() else { return };
        if let Some(mark) = branch.mark.take() {
            self.script.back_to(&mark);
        }
        match name {
            "endif" => {
                self.script.active = branch.outer;
                self.branches.pop();
            }
            _ => {
                let played = !branch.taken && (name == "else" || value);
                self.enter(played);
            }
        }
    }

    /// Begins a branch of the innermost `\if`.
    fn enter(&mut self, played: bool) {
        let mark = (!played).then(|| self.script.mark());
        self.script.active = played;
        if let Some(branch) = self.branches.last_mut() {
            branch.taken |= played;
            branch.mark = mark;
        }
    }

    /// The arguments of a command: quotes are taken off, variables replaced.
    fn arguments(&self, rest: &str) -> Vec<Both> {
        split_arguments(&substituted(rest, &self.variables))
    }
}

/// Whether a difference may come from what the tables hold: other rows, and constraints that
/// only one of the servers finds violated.
fn contents_matter(verdict: Verdict, ours: &Said) -> bool {
    match verdict {
        Verdict::Rows | Verdict::Accepted => true,
        Verdict::Refused | Verdict::OtherCode => ours.error().is_some_and(|(code, _)| code.starts_with("23")),
        _ => false,
    }
}

/// Replaces variables in the rest of a command's line.
fn substituted(text: &str, variables: &Variables) -> Both {
    // What psql does within a statement; a semicolon ends nothing here.
    let mut script = Script::new(text);
    script.active = false;
    while script.next(variables).is_some() {}
    script.take().map(|(both, _)| both).unwrap_or_default()
}

/// Words, with single quotes taken off; the same number for both, or PostgreSQL's for both.
fn split_arguments(texts: &Both) -> Vec<Both> {
    let split = |text: &str| {
        let mut out: Vec<String> = Vec::new();
        let mut chars = text.chars().peekable();
        let mut open = false;
        while let Some(c) = chars.next() {
            if c.is_whitespace() {
                open = false;
                continue;
            }
            if !open {
                out.push(String::new());
                open = true;
            }
            let Some(word) = out.last_mut() else { continue };
            if c != '\'' {
                word.push(c);
                continue;
            }
            while let Some(c) = chars.next() {
                match c {
                    '\'' if chars.next_if_eq(&'\'').is_some() => word.push('\''),
                    '\'' => break,
                    '\\' => word.extend(chars.next()),
                    _ => word.push(c),
                }
            }
        }
        out
    };
    let (theirs, ours) = (split(&texts[0]), split(&texts[1]));
    let same = theirs.len() == ours.len();
    theirs
        .iter()
        .enumerate()
        .map(|(i, text)| [text.clone(), if same { ours[i].clone() } else { text.clone() }])
        .collect()
}

/// `COPY … FROM 'file'` as one from the client, with the file's content. Resurgam reads no
/// files of the server.
fn with_data(texts: Both) -> (Both, Option<Vec<u8>>) {
    let sql = &texts[0];
    let lower = sql.to_lowercase();
    let tokens = words::tokens(sql);
    let Some(at) = lower.find("from '").filter(|_| words::first(&tokens) == "copy" && !lower.contains("binary")) else {
        return (texts, None);
    };
    let begin = at + "from '".len();
    // Small letters may be of another length.
    let end = sql.get(begin..).and_then(|rest| rest.find('\'')).map(|len| begin + len);
    let data = end.and_then(|end| Some((end, fs::read(sql.get(begin..end)?).ok()?)));
    let Some((end, data)) = data else { return (texts, None) };
    let sql = format!("{}FROM STDIN{}", &sql[..at], &sql[end + 1..]);
    ([sql.clone(), sql], Some(data))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_joined_and_replaced() {
        let mut variables = Variables::new();
        variables.insert("dir".into(), ["/a".into(), "/b".into()]);
        let got = split_arguments(&substituted("filename :dir '/data/on''e' x;y", &variables));
        let texts: Vec<&str> = got.iter().map(|[theirs, _]| theirs.as_str()).collect();
        assert_eq!(texts, ["filename", "/a", "/data/on'e", "x;y"]);
        assert_eq!(got[1][1], "/b");
    }

    #[test]
    fn files_become_data() {
        let path = std::env::temp_dir().join(format!("resurgam-lab-copy-{}", std::process::id()));
        fs::write(&path, "1\n").expect("a file");
        let sql = format!("COPY t (a) FROM '{}' csv", path.display());
        let (texts, data) = with_data([sql.clone(), sql]);
        assert_eq!((texts[1].as_str(), data), ("COPY t (a) FROM STDIN csv", Some(b"1\n".to_vec())));
        fs::remove_file(path).expect("the file goes");
        let other = ["copy t from stdin".to_owned(), String::new()];
        assert_eq!(with_data(other.clone()), (other, None));
    }
}
