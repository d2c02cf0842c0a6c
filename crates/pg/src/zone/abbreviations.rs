//! Abbreviations of time zones in dates and `AT TIME ZONE`: PostgreSQL's set `Default`
//! (`src/timezone/tznames/Default`).

/// What an abbreviation means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// Seconds east of Greenwich.
    Fixed(i32),
    /// The same, of summer time.
    Summer(i32),
    /// What it last meant in that zone.
    Zone(&'static str),
}

use Meaning::{Fixed, Summer, Zone};

/// The meaning of an abbreviation in small letters.
pub fn meaning(abbreviation: &str) -> Option<Meaning> {
    let at = ALL.binary_search_by(|(name, _)| (*name).cmp(abbreviation)).ok()?;
    ALL.get(at).map(|(_, meaning)| *meaning)
}

/// All of them, by name.
pub fn all() -> &'static [(&'static str, Meaning)] {
    &ALL
}

/// By name.
#[rustfmt::skip]
const ALL: [(&str, Meaning); 195] = [
    ("acdt", Summer(37800)), ("acsst", Summer(37800)), ("acst", Fixed(34200)), ("act", Fixed(-18000)),
    ("acwst", Fixed(31500)), ("adt", Summer(-10800)), ("aedt", Summer(39600)), ("aesst", Summer(39600)),
    ("aest", Fixed(36000)), ("aft", Fixed(16200)), ("akdt", Summer(-28800)), ("akst", Fixed(-32400)),
    ("almst", Summer(25200)), ("almt", Fixed(21600)), ("amst", Zone("Asia/Yerevan")), ("amt", Fixed(-14400)),
    ("anast", Zone("Asia/Anadyr")), ("anat", Zone("Asia/Anadyr")),
    ("arst", Zone("America/Argentina/Buenos_Aires")), ("art", Zone("America/Argentina/Buenos_Aires")),
    ("ast", Fixed(-14400)), ("awsst", Summer(32400)), ("awst", Fixed(28800)), ("azost", Summer(0)),
    ("azot", Fixed(-3600)), ("azst", Zone("Asia/Baku")), ("azt", Zone("Asia/Baku")), ("bdst", Summer(7200)),
    ("bdt", Fixed(21600)), ("bnt", Fixed(28800)), ("bort", Fixed(28800)), ("bot", Fixed(-14400)),
    ("bra", Fixed(-10800)), ("brst", Summer(-7200)), ("brt", Fixed(-10800)), ("bst", Summer(3600)),
    ("btt", Fixed(21600)), ("cadt", Summer(37800)), ("cast", Fixed(34200)), ("cct", Fixed(28800)),
    ("cdt", Summer(-18000)), ("cest", Summer(7200)), ("cet", Fixed(3600)), ("cetdst", Summer(7200)),
    ("chadt", Summer(49500)), ("chast", Fixed(45900)), ("chut", Fixed(36000)),
    ("ckt", Zone("Pacific/Rarotonga")), ("clst", Summer(-10800)), ("clt", Zone("America/Santiago")),
    ("cot", Fixed(-18000)), ("cst", Fixed(-21600)), ("cxt", Fixed(25200)), ("davt", Zone("Antarctica/Davis")),
    ("ddut", Fixed(36000)), ("easst", Zone("Pacific/Easter")), ("east", Zone("Pacific/Easter")),
    ("eat", Fixed(10800)), ("edt", Summer(-14400)), ("eest", Summer(10800)), ("eet", Fixed(7200)),
    ("eetdst", Summer(10800)), ("egst", Summer(0)), ("egt", Fixed(-3600)), ("est", Fixed(-18000)),
    ("fet", Fixed(10800)), ("fjst", Summer(46800)), ("fjt", Fixed(43200)), ("fkst", Zone("Atlantic/Stanley")),
    ("fkt", Zone("Atlantic/Stanley")), ("fnst", Summer(-3600)), ("fnt", Fixed(-7200)), ("galt", Fixed(-21600)),
    ("gamt", Fixed(-32400)), ("gest", Zone("Asia/Tbilisi")), ("get", Zone("Asia/Tbilisi")),
    ("gft", Fixed(-10800)), ("gilt", Fixed(43200)), ("gmt", Fixed(0)), ("gyt", Zone("America/Guyana")),
    ("hkt", Fixed(28800)), ("hst", Fixed(-36000)), ("ict", Fixed(25200)), ("idt", Summer(10800)),
    ("iot", Zone("Indian/Chagos")), ("irkst", Zone("Asia/Irkutsk")), ("irkt", Zone("Asia/Irkutsk")),
    ("irt", Fixed(12600)), ("ist", Fixed(7200)), ("jayt", Fixed(32400)), ("jst", Fixed(32400)),
    ("kdt", Summer(36000)), ("kgst", Summer(21600)), ("kgt", Zone("Asia/Bishkek")),
    ("kost", Zone("Pacific/Kosrae")), ("krast", Zone("Asia/Krasnoyarsk")), ("krat", Zone("Asia/Krasnoyarsk")),
    ("kst", Fixed(32400)), ("lhdt", Zone("Australia/Lord_Howe")), ("lhst", Fixed(37800)),
    ("ligt", Fixed(36000)), ("lint", Zone("Pacific/Kiritimati")), ("lkt", Zone("Asia/Colombo")),
    ("magst", Zone("Asia/Magadan")), ("magt", Zone("Asia/Magadan")), ("mart", Fixed(-34200)),
    ("mawt", Zone("Antarctica/Mawson")), ("mdt", Summer(-21600)), ("mest", Summer(7200)),
    ("mesz", Summer(7200)), ("met", Fixed(3600)), ("metdst", Summer(7200)), ("mez", Fixed(3600)),
    ("mht", Fixed(43200)), ("mmt", Fixed(23400)), ("mpt", Fixed(36000)), ("msd", Summer(14400)),
    ("msk", Zone("Europe/Moscow")), ("mst", Fixed(-25200)), ("must", Summer(18000)), ("mut", Fixed(14400)),
    ("mvt", Fixed(18000)), ("myt", Fixed(28800)), ("ndt", Summer(-9000)), ("nft", Fixed(-12600)),
    ("novst", Zone("Asia/Novosibirsk")), ("novt", Zone("Asia/Novosibirsk")), ("npt", Fixed(20700)),
    ("nst", Fixed(-12600)), ("nut", Zone("Pacific/Niue")), ("nzdt", Summer(46800)), ("nzst", Fixed(43200)),
    ("nzt", Fixed(43200)), ("omsst", Zone("Asia/Omsk")), ("omst", Zone("Asia/Omsk")), ("pdt", Summer(-25200)),
    ("pet", Fixed(-18000)), ("petst", Zone("Asia/Kamchatka")), ("pett", Zone("Asia/Kamchatka")),
    ("pgt", Fixed(36000)), ("pht", Fixed(28800)), ("pkst", Summer(21600)), ("pkt", Fixed(18000)),
    ("pmdt", Summer(-7200)), ("pmst", Fixed(-10800)), ("pont", Fixed(39600)), ("pst", Fixed(-28800)),
    ("pwt", Fixed(32400)), ("pyst", Summer(-10800)), ("pyt", Zone("America/Asuncion")), ("ret", Fixed(14400)),
    ("sadt", Summer(37800)), ("sast", Fixed(7200)), ("sct", Fixed(14400)), ("sgt", Zone("Asia/Singapore")),
    ("taht", Fixed(-36000)), ("tft", Fixed(18000)), ("tjt", Fixed(18000)), ("tkt", Zone("Pacific/Fakaofo")),
    ("tmt", Zone("Asia/Ashgabat")), ("tot", Fixed(46800)), ("trut", Fixed(36000)), ("tvt", Fixed(43200)),
    ("uct", Fixed(0)), ("ulast", Summer(32400)), ("ulat", Zone("Asia/Ulaanbaatar")), ("ut", Fixed(0)),
    ("utc", Fixed(0)), ("uyst", Summer(-7200)), ("uyt", Fixed(-10800)), ("uzst", Summer(21600)),
    ("uzt", Fixed(18000)), ("vet", Zone("America/Caracas")), ("vlast", Zone("Asia/Vladivostok")),
    ("vlat", Zone("Asia/Vladivostok")), ("volt", Zone("Europe/Volgograd")), ("vut", Fixed(39600)),
    ("wadt", Summer(28800)), ("wakt", Fixed(43200)), ("wast", Fixed(25200)), ("wat", Fixed(3600)),
    ("wdt", Summer(32400)), ("wet", Fixed(0)), ("wetdst", Summer(3600)), ("wft", Fixed(43200)),
    ("wgst", Summer(-7200)), ("wgt", Fixed(-10800)), ("xjt", Fixed(21600)), ("yakst", Zone("Asia/Yakutsk")),
    ("yakt", Zone("Asia/Yakutsk")), ("yapt", Fixed(36000)), ("yekst", Summer(21600)),
    ("yekt", Zone("Asia/Yekaterinburg")), ("z", Fixed(0)), ("zulu", Fixed(0)),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sorted() {
        assert!(ALL.windows(2).all(|pair| pair[0].0 < pair[1].0));
        assert_eq!(meaning("pdt"), Some(Summer(-25_200)));
        assert_eq!(meaning("msk"), Some(Zone("Europe/Moscow")));
        assert_eq!(meaning("nope"), None);
    }
}
