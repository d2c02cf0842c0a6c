//! Whether the process that holds the log is known to have died: then nobody has to wait for its lease.
//!
//! Known only of a process of the same machine since its last boot, in the same namespace of processes. A number of a process may be used
//! again: it counts together with the time at which that process was started.

use std::fs;
use std::sync::OnceLock;

/// A process, told from all others of all machines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessId {
    /// Of the machine's boot, and the namespace of processes; `-`: not known.
    pub boot: String,
    pub pid: u32,
    /// In ticks since the boot.
    pub started: u64,
}

impl ProcessId {
    /// This process.
    pub fn own() -> Self {
        // That does not change, but in a process that was forked off.
        static OWN: OnceLock<ProcessId> = OnceLock::new();
        if let Some(own) = OWN.get().filter(|own| own.pid == std::process::id()) {
            return own.clone();
        }
        let own = Self::look(std::process::id());
        if own.boot != "-" {
            let _ = OWN.set(own.clone());
        }
        own
    }

    fn look(pid: u32) -> Self {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok();
        let space = fs::read_link("/proc/self/ns/pid").ok();
        let known = boot.zip(space).zip(started(pid));
        match known {
            Some(((boot, space), started)) => {
                let digits: String = space.to_string_lossy().chars().filter(char::is_ascii_digit).collect();
                Self { boot: format!("{}/{digits}", boot.trim()), pid, started }
            }
            None => Self { boot: "-".into(), pid, started: 0 },
        }
    }

    /// Whether it is certain that it does not run any more.
    pub fn has_died(&self) -> bool {
        let own = Self::own();
        if self.boot == "-" || self.boot != own.boot {
            return false;
        }
        match started(self.pid) {
            Some(started) => started != self.started,
            // Processes of others may be hidden.
            None => !exists(self.pid),
        }
    }
}

/// When a process was started; none: it is not there, or not shown.
fn started(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name before it may have anything in it.
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(19)?.parse().ok()
}

fn exists(pid: u32) -> bool {
    let Ok(pid) = i32::try_from(pid) else { return true };
    // SAFETY: signal 0 is sent to nobody; it is only looked whether the process is there.
    let outcome = unsafe { libc::kill(pid, 0) };
    outcome == 0 || std::io::Error::last_os_error().raw_os_error() != Some(libc::ESRCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_process_that_is_gone_has_died() {
        let own = ProcessId::own();
        assert!(!own.has_died());
        assert!(ProcessId { started: own.started + 1, ..own.clone() }.has_died(), "its number was used again");
        assert!(!ProcessId { boot: "elsewhere".into(), started: 1, ..own.clone() }.has_died());
        let mut child = std::process::Command::new("sleep").arg("100").spawn().unwrap();
        let there = ProcessId { pid: child.id(), started: started(child.id()).unwrap(), ..own };
        assert!(!there.has_died());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(there.has_died());
    }
}
