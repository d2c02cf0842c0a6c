//! Bytes as a start-up packet, as the answer to a password's question, and as messages: decoded to their end, each message
//! read alike whether its bytes come at once or one after another.
#![no_main]

use bytes::BytesMut;
use libfuzzer_sys::fuzz_target;
use resurgam_server::protocol::{frame, frontend};

/// Longest message that is taken here.
const MESSAGE_BYTES_MAX: usize = 1 << 16;

/// Each message, or what is wrong with it, in words.
fn messages(input: &mut BytesMut, out: &mut Vec<String>) -> bool {
    loop {
        match frame::take(input, MESSAGE_BYTES_MAX) {
            Ok(Some(frame)) => out.push(format!("{:?}", frontend::decode(&frame))),
            Ok(None) => return true,
            Err(error) => {
                out.push(format!("{error:?}"));
                return false;
            }
        }
    }
}

fuzz_target!(|data: &[u8]| {
    let _ = frame::take_startup(&mut BytesMut::from(data));
    let _ = frame::take_sasl(&mut BytesMut::from(data));
    let (mut whole, mut parts) = (Vec::new(), Vec::new());
    messages(&mut BytesMut::from(data), &mut whole);
    let mut input = BytesMut::new();
    for part in data.chunks(3) {
        input.extend_from_slice(part);
        let _ = frame::room_wanted(&input, MESSAGE_BYTES_MAX);
        if !messages(&mut input, &mut parts) {
            break;
        }
    }
    // A header that announces too much is refused when it is there; the whole is refused at the same message.
    assert_eq!(whole, parts);
});
