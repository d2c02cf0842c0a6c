//! Sending what an execution gives back, shared by both protocols.

use bytes::BytesMut;
use resurgam_sql::wire::{Execution, SqlError, Tag};
use resurgam_sql::{RowStream, Session};

use super::io::Channel;
use super::{Ending, copy};
use crate::protocol::backend;

/// How an execution came out.
pub enum Outcome {
    /// All of it was sent, with its command tag.
    Done,
    /// The statement failed; the client was not told yet.
    Failed(SqlError),
}

/// Notices and changed settings that the last call left in the session.
#[inline]
pub fn changes(session: &mut Session, out: &mut BytesMut) {
    for notice in session.take_notices() {
        backend::error(out, &notice);
    }
    for (name, value) in session.take_parameter_changes() {
        backend::parameter_status(out, &name, &value);
    }
}

/// Sends an execution's rows or copy stream, and its end.
///
/// `describe`: the simple protocol sends `RowDescription` first.
pub async fn execution(
    session: &mut Session,
    channel: &mut Channel,
    execution: Execution,
    describe: bool,
) -> Result<Outcome, Ending> {
    match execution {
        Execution::Empty => backend::empty_query(&mut channel.output),
        Execution::Command { tag } => complete(session, channel, &tag),
        Execution::Rows { fields, first, rows, tag } => {
            if describe {
                backend::row_description(&mut channel.output, &fields, &[]);
            }
            if let Some(chunk) = first {
                backend::data_rows(&mut channel.output, &chunk);
                session.give_back(chunk);
            }
            let Some(mut rows) = rows else {
                complete(session, channel, &tag);
                return Ok(Outcome::Done);
            };
            // Boxed as the copies are: they are larger than all that an ordinary statement needs.
            return Box::pin(stream(session, channel, &mut rows)).await;
        }
        Execution::CopyIn(copy) => return Box::pin(copy::receive(session, channel, *copy)).await,
        Execution::CopyOut(copy) => return Box::pin(copy::send(session, channel, copy)).await,
    }
    Ok(Outcome::Done)
}

/// Sends the rest of an execution's rows, and its end.
async fn stream(session: &mut Session, channel: &mut Channel, rows: &mut RowStream) -> Result<Outcome, Ending> {
    loop {
        if let Err(error) = flush_if_large(session, channel).await? {
            return Ok(Outcome::Failed(error));
        }
        match rows.next(session).await {
            Ok(Some(chunk)) => backend::data_rows(&mut channel.output, &chunk),
            Ok(None) => break,
            Err(error) => return Ok(Outcome::Failed(error)),
        }
    }
    if rows.suspended() {
        changes(session, &mut channel.output);
        backend::portal_suspended(&mut channel.output);
    } else {
        complete(session, channel, &rows.tag());
    }
    Ok(Outcome::Done)
}

/// Sends what has gathered of a statement's answer, if it is much. A statement that is stopped while the client does not
/// take its answer fails, and gives back what it holds; what was answered before still has to be taken.
pub async fn flush_if_large(session: &mut Session, channel: &mut Channel) -> Result<Result<(), SqlError>, Ending> {
    if !channel.is_large() {
        return Ok(Ok(()));
    }
    match session.stoppable(channel.flush()).await {
        Ok(flushed) => flushed.map(Ok),
        Err(error) => Ok(Err(error)),
    }
}

/// Notices first, then `CommandComplete`.
pub fn complete(session: &mut Session, channel: &mut Channel, tag: &Tag) {
    for notice in session.take_notices() {
        backend::error(&mut channel.output, &notice);
    }
    backend::command_complete(&mut channel.output, tag);
}
