//! The extended protocol: Parse, Bind, Describe, Execute, Close, Sync.

use std::time::Instant;

use resurgam_sql::wire::{Field, Format, SqlError};

use super::respond::{self, Outcome};
use super::{Connection, Ending};
use crate::protocol::backend;
use crate::protocol::frontend::Target;

impl Connection<'_> {
    /// Answers a step that has no result: its completion, or its error.
    #[inline]
    pub(super) fn answer(&mut self, result: Result<(), SqlError>, complete: fn(&mut bytes::BytesMut)) {
        match result {
            Ok(()) => complete(&mut self.channel.output),
            Err(error) => self.fail_until_sync(&error),
        }
    }

    /// Tells the client of an error, after the notices that led to it.
    pub(super) fn fail(&mut self, error: &SqlError) {
        self.session.error_occurred();
        for notice in self.session.take_notices() {
            backend::error(&mut self.channel.output, &notice);
        }
        // The farewell says it.
        if !self.channel.control.is_ending() {
            backend::error(&mut self.channel.output, error);
        }
    }

    fn fail_until_sync(&mut self, error: &SqlError) {
        self.fail(error);
        self.skipping = true;
    }

    pub(super) fn describe(&mut self, target: Target, name: &str) {
        let described = match target {
            Target::Statement => self.session.describe_statement(name).map(|(types, fields)| {
                backend::parameter_description(&mut self.channel.output, &types);
                (fields, &[][..])
            }),
            Target::Portal => self.session.describe_portal(name),
        };
        match described {
            Ok((Some(fields), formats)) => describe_fields(&mut self.channel.output, &fields, formats),
            Ok((None, _)) => backend::no_data(&mut self.channel.output),
            Err(error) => self.fail_until_sync(&error),
        }
    }

    /// Runs a portal, to its end or for `rows_max` rows (all when not positive).
    pub(super) async fn execute(&mut self, portal: &str, rows_max: i32) -> Result<(), Ending> {
        let logged = self.settings.log_min_duration.map(|_| (Instant::now(), self.session.statement_text(portal)));
        let rows_max = usize::try_from(rows_max).unwrap_or(0);
        let executed = match self.session.execute_at_once(portal) {
            Some(executed) => executed,
            None => self.session.execute(portal, rows_max).await,
        };
        let outcome = match executed {
            Ok(execution) => respond::execution(&mut self.session, self.channel, execution, false).await?,
            Err(error) => Outcome::Failed(error),
        };
        if let Outcome::Failed(error) = outcome {
            self.fail_until_sync(&error);
        }
        if let Some((begun, Some(text))) = logged {
            let name = if portal.is_empty() { "<unnamed>" } else { portal };
            self.lasted(begun, || (format!("execute {name}"), text));
        }
        self.channel.flush_if_large().await
    }

    /// Ends the implicit transaction, and the skipping.
    pub(super) async fn sync(&mut self) -> Result<(), Ending> {
        self.skipping = false;
        if let Err(error) = self.session.sync().await {
            self.fail(&error);
        }
        self.ready().await
    }
}

fn describe_fields(out: &mut bytes::BytesMut, fields: &[Field], formats: &[Format]) {
    backend::row_description(out, fields, formats);
}
