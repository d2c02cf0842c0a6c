//! Scans over a page server ask for pages ahead, and see what they must.

#[path = "scans_afar/model.rs"]
mod model;
#[allow(dead_code)]
#[path = "harness/remote.rs"]
mod remote;
#[allow(dead_code)]
#[path = "harness/rng.rs"]
mod rng;

/// Where things are on the simulated disks.
mod schedule {
    pub const ARCHIVE: &str = "/disk5/archive";
    pub const BACKUPS: &str = "/disk6/backups";
    pub const PAGES: &str = "/disk7/pages";
}

/// `RESURGAM_SCHEDULES=n` runs n schedules, `RESURGAM_SEED=s` one.
#[test]
fn scans_see_what_they_must() {
    let variable = |name: &str| std::env::var(name).ok()?.parse::<u64>().ok();
    let seeds = match variable("RESURGAM_SEED") {
        Some(seed) => seed..seed + 1,
        None => 1..1 + variable("RESURGAM_SCHEDULES").unwrap_or(40),
    };
    let (mut scans, mut crashes, mut used_ahead, mut count) = (0, 0, 0, 0);
    let (mut samples, mut sampled_ahead) = (0, 0);
    for seed in seeds {
        let met = model::run(seed).unwrap_or_else(|what| panic!("seed {seed}: {what}"));
        (scans, crashes, used_ahead) = (scans + met.scans, crashes + met.crashes, used_ahead + met.used_ahead);
        (samples, sampled_ahead) = (samples + met.samples, sampled_ahead + met.sampled_ahead);
        count += 1;
    }
    eprintln!("{count} schedules: {scans} scans, {crashes} crashes, {used_ahead} pages came ahead and were used");
    eprintln!("{samples} samples, which used {sampled_ahead} pages that came ahead");
    assert!(used_ahead > scans * 10, "few pages are asked for ahead: {used_ahead}");
    assert!(sampled_ahead > samples, "few pages of samples are asked for ahead: {sampled_ahead} of {samples}");
}
