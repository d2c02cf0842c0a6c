//! Bodies of checkpoints, commits and prepared transactions of any bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use resurgam_page::{boot::Boot, version_file::VersionFileHeader};
use resurgam_recovery::{CheckpointState, PrepareRecord, TxRecord};

fuzz_target!(|data: &[u8]| {
    let mut state = CheckpointState::default();
    // Bodies of several records, each with its length before it.
    let mut rest = data;
    while let [len, body @ ..] = rest {
        let (body, behind) = body.split_at(usize::from(*len).min(body.len()));
        if state.decode_into(body).is_err() {
            break;
        }
        rest = behind;
    }
    // What was understood is written and understood again.
    let mut again = CheckpointState::default();
    for body in state.encode() {
        again.decode_into(&body).expect("a record of our own");
    }
    let _ = TxRecord::decode(data).map(|record| TxRecord::decode(&record.encode()).expect("of our own"));
    let _ = PrepareRecord::decode(data);
    let _ = Boot::decode(data);
    let _ = VersionFileHeader::decode(data);
});
