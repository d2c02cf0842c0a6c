//! The simple protocol: one Query, any number of statements, one `ReadyForQuery`.

use std::time::Instant;

use super::respond::{self, Outcome};
use super::{Connection, Ending};
use crate::protocol::backend;

impl Connection<'_> {
    /// Runs the statements of a Query until one fails.
    pub(super) async fn query(&mut self, text: &str) -> Result<(), Ending> {
        let begun = Instant::now();
        let ready = self.run_query(text).await;
        self.lasted(begun, || ("statement".to_owned(), text.into()));
        ready
    }

    async fn run_query(&mut self, text: &str) -> Result<(), Ending> {
        let statements = match self.session.split(text) {
            Ok(statements) => statements,
            Err(error) => {
                self.session.error_occurred();
                backend::error(&mut self.channel.output, &error);
                return self.ready().await;
            }
        };
        if statements.is_empty() {
            backend::empty_query(&mut self.channel.output);
        }
        let count = statements.len();
        for (i, statement) in statements.into_iter().enumerate() {
            let executed = match self.session.execute_simple_at_once(&statement) {
                Some(executed) => executed,
                None => self.session.execute_simple(statement, i + 1 == count).await,
            };
            let outcome = match executed {
                Ok(execution) => respond::execution(&mut self.session, self.channel, execution, true).await?,
                Err(error) => Outcome::Failed(error),
            };
            if let Outcome::Failed(error) = outcome {
                self.fail(&error);
                break;
            }
        }
        self.ready().await
    }
}
