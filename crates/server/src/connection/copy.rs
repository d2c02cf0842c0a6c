//! COPY FROM STDIN and COPY TO STDOUT.
//!
//! A failure on this side is answered at once; the client's remaining CopyData is
//! then dropped by the main loop, as PostgreSQL does.

use resurgam_sql::wire::SqlError;
use resurgam_sql::{CopyIn, CopyOut, Session};

use super::Ending;
use super::io::Channel;
use super::respond::{self, Outcome, complete};
use crate::protocol::ProtocolError;
use crate::protocol::backend;
use crate::protocol::frame::Frame;
use crate::protocol::frontend::{self, DecodeError, Frontend};

/// Bytes of short messages whose rows are taken together.
const TOGETHER: usize = 64 << 10;

/// Takes rows from the client until CopyDone or CopyFail.
pub async fn receive(session: &mut Session, channel: &mut Channel, copy: CopyIn) -> Result<Outcome, Ending> {
    channel.expect_bulk(true);
    let outcome = receive_rows(session, channel, copy).await;
    channel.expect_bulk(false);
    outcome
}

async fn receive_rows(session: &mut Session, channel: &mut Channel, mut copy: CopyIn) -> Result<Outcome, Ending> {
    backend::copy_response(&mut channel.output, b'G', copy.format(), copy.columns());
    channel.flush().await?;
    // What came behind data that was taken together.
    let mut behind: Option<Frame> = None;
    loop {
        let next = match behind.take() {
            Some(frame) => Ok(Ok(frame)),
            None => session.stoppable(channel.next(None)).await,
        };
        let frame = match next {
            Ok(Ok(frame)) => frame,
            Ok(Err(ending)) => {
                copy.fail(session, "the connection ended").await;
                return Err(ending);
            }
            Err(stopped) => {
                copy.fail(session, &stopped.message).await;
                return Ok(Outcome::Failed(stopped));
            }
        };
        let message = match frontend::decode(&frame) {
            Ok(message) => message,
            Err(DecodeError::Malformed(error)) => return Err(Ending::Protocol(error)),
            Err(DecodeError::Value { sqlstate, message }) => {
                copy.fail(session, &message).await;
                return Ok(Outcome::Failed(SqlError::new(sqlstate, message)));
            }
        };
        match message {
            Frontend::CopyData(mut data) => {
                // Of clients that send a message for each row, many are here by now.
                let mut bytes = data.len();
                while bytes < TOGETHER && behind.is_none() {
                    // What is wrong with it is told when it is its turn.
                    let Ok(Some(frame)) = channel.buffered() else { break };
                    match frontend::decode(&frame) {
                        Ok(Frontend::CopyData(more)) => {
                            copy.push(&std::mem::replace(&mut data, more));
                            bytes += data.len();
                        }
                        _ => behind = Some(frame),
                    }
                }
                if let Err(error) = copy.data(session, &data).await {
                    return Ok(Outcome::Failed(error));
                }
            }
            Frontend::CopyDone => {
                return Ok(match copy.finish(session).await {
                    Ok(tag) => {
                        complete(session, channel, &tag);
                        Outcome::Done
                    }
                    Err(error) => Outcome::Failed(error),
                });
            }
            Frontend::CopyFail(reason) => return Ok(Outcome::Failed(copy.fail(session, &reason).await)),
            // Clients that pipeline send these without knowing that a COPY began.
            Frontend::Flush | Frontend::Sync => {}
            Frontend::Terminate => return Err(Ending::Closed),
            _ => {
                let what = format!("unexpected message type 0x{:02X} during COPY from stdin", frame.tag);
                copy.fail(session, &what).await;
                return Err(Ending::Protocol(ProtocolError::violation(what)));
            }
        }
    }
}

/// Sends rows to the client.
pub async fn send(session: &mut Session, channel: &mut Channel, mut copy: CopyOut) -> Result<Outcome, Ending> {
    backend::copy_response(&mut channel.output, b'H', copy.format(), copy.columns());
    loop {
        match copy.next(session).await {
            Ok(Some(chunk)) => chunk.messages().for_each(|row| backend::copy_data(&mut channel.output, row)),
            Ok(None) => break,
            Err(error) => return Ok(Outcome::Failed(error)),
        }
        if let Err(error) = respond::flush_if_large(session, channel).await? {
            return Ok(Outcome::Failed(error));
        }
    }
    backend::copy_done(&mut channel.output);
    complete(session, channel, &copy.tag());
    Ok(Outcome::Done)
}
