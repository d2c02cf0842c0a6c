//! A session with any of the servers: the PostgreSQL protocol, or for MariaDB its own
//! command-line program in batch mode over a socket, fed through a pipe. That program adds
//! tens of microseconds to a statement, so MariaDB is timed by statements, never by rows.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use crate::Result;
use crate::wire::Client;

/// What ends the answer to a statement; no experiment's data looks like it.
const MARK: &str = "--end of answer--";

pub enum Session {
    Wire(Client),
    MariaDb(Program),
}

impl Session {
    /// Runs a statement; answers the first column of the last row, `None` without rows.
    ///
    /// # Errors
    /// The server's message, or the connection's.
    pub fn query(&mut self, sql: &str) -> Result<Option<String>> {
        match self {
            Self::Wire(client) => client.query(sql),
            Self::MariaDb(program) => program.query(sql),
        }
    }
}

/// A running `mariadb` program; it ends when this is dropped.
pub struct Program {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Program {
    /// Starts the program; it connects at once, but says so only at the first statement.
    pub fn connect(socket: &Path) -> Result<Self> {
        let mut command = Command::new("mariadb");
        command.args(["--no-defaults", "--batch", "--skip-column-names", "--unbuffered", "--skip-reconnect"]);
        command.args(["--user=root", "--socket"]).arg(socket);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|e| format!("could not run the client of MariaDB: {e}"))?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let input = input.ok_or("the client of MariaDB has no input")?;
        let output = BufReader::new(output.ok_or("the client of MariaDB has no output")?);
        Ok(Self { child, input, output })
    }

    fn query(&mut self, sql: &str) -> Result<Option<String>> {
        let sent = writeln!(self.input, "{sql};\nselect '{MARK}';").and_then(|()| self.input.flush());
        let mut last = None;
        let mut line = String::new();
        while sent.is_ok() {
            line.clear();
            let read = self.output.read_line(&mut line).map_err(|e| e.to_string())?;
            let text = line.trim_end_matches('\n');
            if text == MARK {
                return Ok(last);
            }
            if read == 0 {
                break;
            }
            last = text.split('\t').next().map(str::to_owned);
        }
        // The program ends at the first error, and says why.
        let mut said = String::new();
        if let Some(mut errors) = self.child.stderr.take() {
            let _ = errors.read_to_string(&mut said);
        }
        Err(said.trim().lines().last().unwrap_or("the client of MariaDB ended").to_owned())
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
