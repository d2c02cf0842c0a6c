//! Any text as a config file and as a file of host rules: read, or refused in words.
#![no_main]

use std::path::PathBuf;
use std::sync::LazyLock;

use clap::Command;
use libfuzzer_sys::fuzz_target;
use resurgam_server::hba::Rules;
use resurgam_server::settings::{Settings, add_flags};

static FILE: LazyLock<(tempfile::TempDir, PathBuf)> = LazyLock::new(|| {
    let dir = tempfile::tempdir().expect("folder");
    let file = dir.path().join("config");
    (dir, file)
});

fuzz_target!(|text: &str| {
    // Other files are not part of the input.
    if !text.contains('@') && !text.contains("include") {
        let rules = Rules::built_in(text);
        assert!(rules.iter().count() <= text.lines().count() + 1);
        let _ = rules.shown();
    }
    let file = &FILE.1;
    std::fs::write(file, text).expect("write");
    let arguments = ["fuzz".into(), "--config".into(), file.clone().into_os_string()];
    let matches = add_flags(Command::new("fuzz")).get_matches_from(arguments);
    if let Ok(settings) = Settings::from_matches(&matches) {
        assert!(!settings.rows().is_empty());
    }
});
