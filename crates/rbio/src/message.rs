//! Requests and answers, and their bytes: a kind, then fields in a fixed order, numbers little-endian, texts and bytes after their
//! length (32 bits).
//!
//! A message must be used up by its fields: what is left over is an error, as is what is missing. A later version adds kinds; it
//! changes none. From version 5 on each answer but that to a greeting is followed by how the server does ([`Standing`]).

use resurgam_base::{Error, ErrorKind, Lsn, PageId, Result, checksum_append};

use crate::frame::FRAME_HEADER_BYTES;

/// The newest version of the messages that this program speaks, and the oldest.
pub const VERSION: u16 = 6;
pub const VERSION_OLDEST: u16 = 1;

/// Longest text in a message, in bytes: names and errors.
const TEXT_BYTES_MAX: usize = 8 << 10;
/// Most pages in a request.
pub const PAGES_MAX: usize = 128;
/// Most numbers in a [`Part`].
pub const PART_NUMBERS_MAX: usize = 1024;
/// The kind of greetings, and that of blocks on their way to a log service.
const HELLO: u8 = 1;
const DISSEMINATE: u8 = 5;
/// The kinds of answers with pages.
const PAGE: u8 = 2;
const PAGES: u8 = 8;
/// The version from which on answers are followed by how the server does.
pub(crate) const STANDING_SINCE: u16 = 5;
/// The version from which on a log service takes blocks.
pub(crate) const DISSEMINATE_SINCE: u16 = 2;
/// The version from which on a log service says what it does for the archive.
pub(crate) const KEEPING_SINCE: u16 = 6;
const STANDING_BYTES: usize = 12;
/// Most reasons why more of an archive is kept than is promised, in an answer.
const HELD_MAX: usize = 64;
/// Most blocks in an answer.
const BLOCKS_MAX: usize = 1 << 16;

/// What a process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Role {
    /// Has the log and runs the database.
    Primary = 1,
    /// Has pages.
    PageServer = 2,
    /// Asks only.
    Client = 3,
    /// Gives out the log; from version 2 on.
    Log = 4,
}

/// What a server says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The version that is spoken from here on.
    pub version: u16,
    pub role: Role,
    pub database: [u8; 16],
    /// Where the log of a new database of this kind begins.
    pub first: Lsn,
    /// Bytes of a segment of the log: with it, what a block says is known to be right.
    pub segment_bytes: u64,
}

/// Which pages: those of partitions of so many pages whose number, modulo `count`, is one of `numbers`. What it says need not make sense.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Part {
    pub pages: u64,
    pub count: u32,
    pub numbers: Vec<u32>,
}

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// The first message: versions that are understood, and the database that is meant (zeros: whichever it is).
    Hello { oldest: u16, newest: u16, role: Role, database: [u8; 16] },
    /// The page with its record at `at_least`, or with later ones. Waits for it for at most so long. `have`: the LSN of the copy that
    /// the client has, 0 for none.
    GetPage { page: PageId, at_least: Lsn, have: Lsn, wait_ms: u32 },
    /// Durable blocks of the log from `from` on, waiting for them for at most so long. The consumer has everything below `durable` and
    /// never asks for it again.
    PullBlocks { consumer: String, from: Lsn, durable: Lsn, bytes_max: u32, wait_ms: u32 },
    /// How far it is.
    Position,
    /// From the primary to the log service, from version 2 on: blocks, whether they are durable or not, in no order and with gaps; and that
    /// everything below `hardened` is durable in the landing zone, which takes so many bytes at most. The log of this epoch begins at `start`.
    Disseminate { epoch: u32, start: Lsn, hardened: Lsn, zone_bound: u64, blocks: Vec<(Lsn, Vec<u8>)> },
    /// Pages as in [`Request::GetPage`], each with what it must be as new as; from version 3 on. Those that cannot be had in that time, all
    /// together, are left out of the answer.
    GetPages { pages: Vec<(PageId, Lsn)>, wait_ms: u32 },
    /// Which pages it has; from version 4 on.
    Coverage,
    /// As [`Request::PullBlocks`], of blocks with records of these pages; from version 4 on.
    PullPart { consumer: String, from: Lsn, durable: Lsn, bytes_max: u32, wait_ms: u32, part: Part },
    /// What a log service does for the archive that it writes, beside adding runs; from version 6 on.
    Keeping,
}

/// What a log service does for the archive that it writes, beside adding runs, as of its start. One of before does nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Keeping {
    /// It merges runs, while it is the one that archives; else the primary has to.
    pub merges: bool,
    /// Merges that were made, the runs that they merged, and bytes of those that were made of them.
    pub merged: u64,
    pub merged_runs: u64,
    pub merged_bytes: u64,
    /// Of the merge that is under way: records that are written, of how many; 0: there is none.
    pub merging: u64,
    pub merging_of: u64,
    /// Microseconds that merging has rested for others.
    pub rested_us: u64,
    /// Why runs are not merged now; empty: they are.
    pub merge_error: String,
    /// How far back points in time are promised, in microseconds; 0: it gives nothing up.
    pub window_us: u64,
    /// The oldest promised point, from where on the archive is kept, and when that was found, in microseconds since 2000-01-01 UTC; 0: not known.
    pub promised: Lsn,
    pub kept_from: Lsn,
    pub looked_us: u64,
    /// Given up.
    pub runs: u64,
    pub backups: u64,
    pub bytes: u64,
    /// What keeps more than is promised.
    pub held_by: Vec<String>,
    /// Why what is not promised is not given up now; empty: it is.
    pub expire_error: String,
}

/// Blocks of the log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlocksAnswer {
    /// Each begins where the one before it ends; header and records.
    pub blocks: Vec<Vec<u8>>,
    /// All log below is in these blocks, or was asked for before.
    pub complete_to: Lsn,
    /// All log below is durable.
    pub durable: Lsn,
}

/// Those blocks of the log that matter to who asks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartOfBlocks {
    /// In order, each with where it begins; header and records.
    pub blocks: Vec<(Lsn, Vec<u8>)>,
    /// All log below was asked for before, is in these blocks, or has no record of the pages that were named.
    pub complete_to: Lsn,
    /// All log below is durable.
    pub durable: Lsn,
    /// So many blocks were left out.
    pub left_out: u32,
}

/// What a page server has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    pub part: Part,
    /// Pages that it has to fetch yet.
    pub missing: u64,
    /// Requests for pages that it does not have, since its start.
    pub refused: u64,
    /// Times that a record showed that one before it had been left out of the log that it was given, since its start.
    pub gaps: u64,
}

/// How a server does, by its own word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// Requests that it works on, or that wait there, beside the one that is answered.
    pub load: u32,
    /// It has applied all log below; none where it applies none.
    pub applied: Lsn,
}

impl Standing {
    /// Puts it behind an answer.
    pub(crate) fn append(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.load.to_le_bytes());
        out.extend_from_slice(&self.applied.0.to_le_bytes());
    }

    /// Takes it from the end of an answer; returns what was before it.
    ///
    /// # Errors
    /// `Corrupt` for a message that is too short.
    pub(crate) fn split(bytes: &[u8]) -> Result<(&[u8], Self)> {
        let at = bytes.len().checked_sub(STANDING_BYTES).ok_or_else(|| Error::corrupt("a message is too short"))?;
        let (answer, standing) = bytes.split_at(at);
        let mut from = Reader(standing);
        let standing = Self { load: from.u32()?, applied: Lsn(from.u64()?) };
        from.end().map(|()| (answer, standing))
    }
}

/// One that pulls the log from a log service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Consumer {
    pub name: String,
    /// It has asked for what is behind this, and has everything below `durable` for good.
    pub position: Lsn,
    pub durable: Lsn,
    /// When it has asked last.
    pub silent_ms: u32,
}

/// What is answered.
#[derive(Clone, Debug)]
pub enum Answer {
    Hello(Hello),
    Page(Vec<u8>),
    /// The copy that the client has is as new as what it asked for, and as what there is.
    NotModified,
    Blocks(BlocksAnswer),
    Position {
        applied: Lsn,
        durable: Lsn,
    },
    Error(Error),
    /// How far the log service is, and who pulls from it; from version 2 on.
    Log {
        disseminated: Lsn,
        destaged: Lsn,
        consumers: Vec<Consumer>,
    },
    /// For each page that was asked for, in that order, its bytes; none: it cannot be had now. From version 3 on.
    Pages(Vec<Vec<u8>>),
    /// From version 4 on.
    Coverage(Coverage),
    /// It does not have the page, or one of the pages, that were asked for: this is what it has. From version 4 on.
    Elsewhere(Part),
    /// From version 4 on.
    PartOfBlocks(PartOfBlocks),
    /// From version 6 on.
    Keeping(Keeping),
}

/// Pages as they came, in the memory of whoever has received them.
#[derive(Debug, PartialEq, Eq)]
pub enum Pages<'a> {
    /// [`Answer::Page`].
    One(&'a [u8]),
    /// [`Answer::Pages`].
    Many(Vec<&'a [u8]>),
}

impl Request {
    /// The version in which it came to be.
    pub(crate) fn since(&self) -> u16 {
        match self {
            // What is to be agreed upon.
            Self::Hello { .. } => 0,
            Self::GetPage { .. } | Self::PullBlocks { .. } | Self::Position => 1,
            Self::Disseminate { .. } => DISSEMINATE_SINCE,
            Self::GetPages { .. } => 3,
            Self::Coverage | Self::PullPart { .. } => 4,
            Self::Keeping => KEEPING_SINCE,
        }
    }

    /// Whether a message is a greeting: what is answered to it is in no version yet.
    pub(crate) fn is_greeting(message: &[u8]) -> bool {
        message.first() == Some(&HELLO)
    }

    /// Puts its bytes in place of what is in `out`, with room for the frame's header before them.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let mut out = Writer::new(out);
        match self {
            Self::Hello { oldest, newest, role, database } => {
                out.u8(HELLO).u16(*oldest).u16(*newest).u8(*role as u8).raw(database);
            }
            Self::GetPage { page, at_least, have, wait_ms } => {
                out.u8(2).u64(page.0).u64(at_least.0).u64(have.0).u32(*wait_ms);
            }
            Self::PullBlocks { consumer, from, durable, bytes_max, wait_ms } => {
                out.u8(3).text(consumer).u64(from.0).u64(durable.0).u32(*bytes_max).u32(*wait_ms);
            }
            Self::Position => {
                out.u8(4);
            }
            Self::Disseminate { epoch, start, hardened, zone_bound, blocks } => {
                out.u8(DISSEMINATE).u32(*epoch).u64(start.0).u64(hardened.0).u64(*zone_bound);
                out.u32(blocks.len() as u32);
                for (lsn, block) in blocks {
                    out.u64(lsn.0).bytes(block);
                }
            }
            Self::GetPages { pages, wait_ms } => {
                out.u8(6).u32(*wait_ms).u32(pages.len() as u32);
                for (page, at_least) in pages {
                    out.u64(page.0).u64(at_least.0);
                }
            }
            Self::Coverage => {
                out.u8(7);
            }
            Self::PullPart { consumer, from, durable, bytes_max, wait_ms, part } => {
                out.u8(8).text(consumer).u64(from.0).u64(durable.0).u32(*bytes_max).u32(*wait_ms).part(part);
            }
            Self::Keeping => {
                out.u8(9);
            }
        }
    }

    /// # Errors
    /// `Corrupt`.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self> {
        let mut from = Reader(bytes);
        let request = match from.u8()? {
            HELLO => {
                Self::Hello { oldest: from.u16()?, newest: from.u16()?, role: from.role()?, database: from.array()? }
            }
            2 => Self::GetPage {
                page: PageId(from.u64()?),
                at_least: Lsn(from.u64()?),
                have: Lsn(from.u64()?),
                wait_ms: from.u32()?,
            },
            3 => Self::PullBlocks {
                consumer: from.text()?,
                from: Lsn(from.u64()?),
                durable: Lsn(from.u64()?),
                bytes_max: from.u32()?,
                wait_ms: from.u32()?,
            },
            4 => Self::Position,
            DISSEMINATE => {
                let (epoch, start, hardened) = (from.u32()?, Lsn(from.u64()?), Lsn(from.u64()?));
                let (zone_bound, blocks) = (from.u64()?, from.blocks("a request")?);
                Self::Disseminate { epoch, start, hardened, zone_bound, blocks }
            }
            6 => {
                let (wait_ms, count) = (from.u32()?, from.u32()? as usize);
                if count > PAGES_MAX {
                    return Err(Error::corrupt(format!("a request for {count} pages")));
                }
                let pages = (0..count).map(|_| Ok((PageId(from.u64()?), Lsn(from.u64()?)))).collect::<Result<_>>()?;
                Self::GetPages { pages, wait_ms }
            }
            7 => Self::Coverage,
            8 => Self::PullPart {
                consumer: from.text()?,
                from: Lsn(from.u64()?),
                durable: Lsn(from.u64()?),
                bytes_max: from.u32()?,
                wait_ms: from.u32()?,
                part: from.part()?,
            },
            9 => Self::Keeping,
            kind => return Err(unknown("request", kind)),
        };
        from.end().map(|()| request)
    }
}

/// A block of the log as its sender has it: in parts, which are sent from where they are.
pub trait SentBlock {
    /// Where it begins.
    fn lsn(&self) -> Lsn;

    /// Its bytes.
    fn parts(&self) -> [&[u8]; 2];

    /// CRC-32C of bytes whose CRC-32C is `seed`, followed by these. Who receives it computes it from what came.
    fn checksum_after(&self, seed: u32) -> u32;
}

/// [`Request::Disseminate`] without its blocks.
#[derive(Clone, Copy, Debug)]
pub struct Announced {
    pub epoch: u32,
    pub start: Lsn,
    pub hardened: Lsn,
    pub zone_bound: u64,
}

impl Announced {
    /// Puts what [`Request::Disseminate`] has beside the bytes of its blocks in place of what is in `out`: room for the frame's header, what comes
    /// before the first block, what comes before the second, and so on. Returns where what comes before a block ends, block after block, and the
    /// checksum of the message.
    pub(crate) fn encode<B: SentBlock>(&self, blocks: &[B], out: &mut Vec<u8>) -> (Vec<usize>, u32) {
        let Self { epoch, start, hardened, zone_bound } = *self;
        let mut writer = Writer::new(out);
        writer.u8(DISSEMINATE).u32(epoch).u64(start.0).u64(hardened.0).u64(zone_bound).u32(blocks.len() as u32);
        let (mut ends, mut from, mut sum) = (Vec::with_capacity(blocks.len()), FRAME_HEADER_BYTES, 0);
        for block in blocks {
            let len: usize = block.parts().iter().map(|part| part.len()).sum();
            writer.u64(block.lsn().0).u32(len as u32);
            sum = block.checksum_after(checksum_append(sum, &writer.0[from..]));
            from = writer.0.len();
            ends.push(from);
        }
        (ends, checksum_append(sum, &writer.0[from..]))
    }
}

impl Answer {
    /// As [`Request::encode`].
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let mut out = Writer::new(out);
        match self {
            Self::Hello(Hello { version, role, database, first, segment_bytes }) => {
                out.u8(1).u16(*version).u8(*role as u8).raw(database).u64(first.0).u64(*segment_bytes);
            }
            Self::Page(bytes) => {
                out.u8(PAGE).bytes(bytes);
            }
            Self::NotModified => {
                out.u8(3);
            }
            Self::Blocks(BlocksAnswer { blocks, complete_to, durable }) => {
                out.u8(4).u64(complete_to.0).u64(durable.0).u32(blocks.len() as u32);
                for block in blocks {
                    out.bytes(block);
                }
            }
            Self::Position { applied, durable } => {
                out.u8(5).u64(applied.0).u64(durable.0);
            }
            Self::Error(error) => {
                out.u8(6).u8(code(error.kind())).text(error.message());
                out.text(error.detail().unwrap_or_default()).text(error.hint().unwrap_or_default());
            }
            Self::Log { disseminated, destaged, consumers } => {
                out.u8(7).u64(disseminated.0).u64(destaged.0).u32(consumers.len() as u32);
                for Consumer { name, position, durable, silent_ms } in consumers {
                    out.text(name).u64(position.0).u64(durable.0).u32(*silent_ms);
                }
            }
            Self::Pages(pages) => {
                out.u8(PAGES).u32(pages.len() as u32);
                for page in pages {
                    out.bytes(page);
                }
            }
            Self::Coverage(Coverage { part, missing, refused, gaps }) => {
                out.u8(9).part(part).u64(*missing).u64(*refused).u64(*gaps);
            }
            Self::Elsewhere(part) => {
                out.u8(10).part(part);
            }
            Self::PartOfBlocks(PartOfBlocks { blocks, complete_to, durable, left_out }) => {
                out.u8(11).u64(complete_to.0).u64(durable.0).u32(*left_out).u32(blocks.len() as u32);
                for (lsn, block) in blocks {
                    out.u64(lsn.0).bytes(block);
                }
            }
            Self::Keeping(keeping) => {
                out.u8(12).keeping(keeping);
            }
        }
    }

    /// Pages, where the answer has some; what else it is, and whether it is anything, is for [`Answer::decode`] to say.
    pub(crate) fn pages_of(bytes: &[u8]) -> Option<Pages<'_>> {
        let mut from = Reader(bytes);
        let pages = match from.u8().ok()? {
            PAGE => Pages::One(from.bytes().ok()?),
            PAGES => {
                let count = from.u32().ok().filter(|count| *count as usize <= PAGES_MAX)?;
                Pages::Many((0..count).map(|_| from.bytes()).collect::<Result<_>>().ok()?)
            }
            _ => return None,
        };
        from.end().ok().map(|()| pages)
    }

    /// # Errors
    /// `Corrupt`.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self> {
        let mut from = Reader(bytes);
        let answer = match from.u8()? {
            1 => Self::Hello(Hello {
                version: from.u16()?,
                role: from.role()?,
                database: from.array()?,
                first: Lsn(from.u64()?),
                segment_bytes: from.u64()?,
            }),
            PAGE => Self::Page(from.bytes()?.to_vec()),
            3 => Self::NotModified,
            4 => {
                let (complete_to, durable, count) = (Lsn(from.u64()?), Lsn(from.u64()?), from.u32()? as usize);
                if count > BLOCKS_MAX {
                    return Err(Error::corrupt(format!("an answer with {count} blocks of the log")));
                }
                let blocks = (0..count).map(|_| Ok(from.bytes()?.to_vec())).collect::<Result<_>>()?;
                Self::Blocks(BlocksAnswer { blocks, complete_to, durable })
            }
            5 => Self::Position { applied: Lsn(from.u64()?), durable: Lsn(from.u64()?) },
            6 => {
                let (kind, message) = (kind(from.u8()?), from.text()?);
                let (detail, hint) = (from.text()?, from.text()?);
                let mut error = Error::new(kind, message);
                if !detail.is_empty() {
                    error = error.with_detail(detail);
                }
                if !hint.is_empty() {
                    error = error.with_hint(hint);
                }
                Self::Error(error)
            }
            7 => {
                let (disseminated, destaged, count) = (Lsn(from.u64()?), Lsn(from.u64()?), from.u32()? as usize);
                if count > BLOCKS_MAX {
                    return Err(Error::corrupt(format!("an answer with {count} consumers of the log")));
                }
                let consumer = |from: &mut Reader<'_>| {
                    Ok(Consumer {
                        name: from.text()?,
                        position: Lsn(from.u64()?),
                        durable: Lsn(from.u64()?),
                        silent_ms: from.u32()?,
                    })
                };
                let consumers = (0..count).map(|_| consumer(&mut from)).collect::<Result<_>>()?;
                Self::Log { disseminated, destaged, consumers }
            }
            PAGES => {
                let count = from.u32()? as usize;
                if count > PAGES_MAX {
                    return Err(Error::corrupt(format!("an answer with {count} pages")));
                }
                Self::Pages((0..count).map(|_| Ok(from.bytes()?.to_vec())).collect::<Result<_>>()?)
            }
            9 => Self::Coverage(Coverage {
                part: from.part()?,
                missing: from.u64()?,
                refused: from.u64()?,
                gaps: from.u64()?,
            }),
            10 => Self::Elsewhere(from.part()?),
            11 => {
                let (complete_to, durable, left_out) = (Lsn(from.u64()?), Lsn(from.u64()?), from.u32()?);
                let blocks = from.blocks("an answer")?;
                Self::PartOfBlocks(PartOfBlocks { blocks, complete_to, durable, left_out })
            }
            12 => Self::Keeping(from.keeping()?),
            kind => return Err(unknown("answer", kind)),
        };
        from.end().map(|()| answer)
    }
}

/// Kinds of errors that mean something to who has asked, by their number in a message. All others are `Io` there: another server, or
/// this one later, may do better.
const KINDS: [(u8, ErrorKind); 11] = [
    (1, ErrorKind::Io),
    (2, ErrorKind::Corrupt),
    (3, ErrorKind::NotADatabase),
    (4, ErrorKind::NewerFormat),
    (5, ErrorKind::NotInPrerequisiteState),
    (6, ErrorKind::InvalidParameter),
    (7, ErrorKind::NotSupported),
    (8, ErrorKind::Stopped),
    (9, ErrorKind::ConfigurationLimitExceeded),
    (10, ErrorKind::OutOfMemory),
    (11, ErrorKind::DiskFull),
];

fn code(kind: ErrorKind) -> u8 {
    KINDS.iter().find(|(_, of)| *of == kind).map_or(1, |(code, _)| *code)
}

fn kind(code: u8) -> ErrorKind {
    KINDS.iter().find(|(of, _)| *of == code).map_or(ErrorKind::Io, |(_, kind)| *kind)
}

#[cold]
fn unknown(what: &str, kind: u8) -> Error {
    Error::corrupt(format!("a {what} of the unknown kind {kind}"))
}

struct Writer<'a>(&'a mut Vec<u8>);

impl<'a> Writer<'a> {
    fn new(out: &'a mut Vec<u8>) -> Self {
        out.clear();
        out.resize(FRAME_HEADER_BYTES, 0);
        Self(out)
    }
    fn raw(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.extend_from_slice(bytes);
        self
    }
    fn u8(&mut self, n: u8) -> &mut Self {
        self.raw(&[n])
    }
    fn u16(&mut self, n: u16) -> &mut Self {
        self.raw(&n.to_le_bytes())
    }
    fn u32(&mut self, n: u32) -> &mut Self {
        self.raw(&n.to_le_bytes())
    }
    fn u64(&mut self, n: u64) -> &mut Self {
        self.raw(&n.to_le_bytes())
    }
    fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.u32(bytes.len() as u32).raw(bytes)
    }
    fn part(&mut self, Part { pages, count, numbers }: &Part) -> &mut Self {
        self.u64(*pages).u32(*count).u32(numbers.len() as u32);
        numbers.iter().fold(self, |out, number| out.u32(*number))
    }
    fn keeping(&mut self, said: &Keeping) -> &mut Self {
        self.u8(u8::from(said.merges)).u64(said.merged).u64(said.merged_runs).u64(said.merged_bytes);
        self.u64(said.merging).u64(said.merging_of).u64(said.rested_us).text(&said.merge_error);
        self.u64(said.window_us).u64(said.promised.0).u64(said.kept_from.0).u64(said.looked_us);
        self.u64(said.runs).u64(said.backups).u64(said.bytes).text(&said.expire_error);
        let held = said.held_by.get(..HELD_MAX).unwrap_or(&said.held_by);
        held.iter().fold(self.u32(held.len() as u32), |out, reason| out.text(reason))
    }
    /// Cut off where it is too long.
    fn text(&mut self, text: &str) -> &mut Self {
        self.bytes(&text.as_bytes()[..text.floor_char_boundary(TEXT_BYTES_MAX)])
    }
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or_else(|| Error::corrupt("a message is too short"))?;
        self.0 = rest;
        Ok(taken)
    }
    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        Ok(*self.take(N)?.first_chunk().ok_or_else(|| Error::corrupt("a message is too short"))?)
    }
    fn u8(&mut self) -> Result<u8> {
        Ok(self.array::<1>()?[0])
    }
    fn u16(&mut self) -> Result<u16> {
        Ok(u16::from_le_bytes(self.array()?))
    }
    fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }
    fn u64(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.array()?))
    }
    fn bytes(&mut self) -> Result<&'a [u8]> {
        let len = self.u32()? as usize;
        self.take(len)
    }
    fn text(&mut self) -> Result<String> {
        let bytes = self.bytes()?;
        let text = std::str::from_utf8(bytes).ok().filter(|text| text.len() <= TEXT_BYTES_MAX);
        text.map(str::to_owned).ok_or_else(|| Error::corrupt("a text in a message is too long, or no text"))
    }
    fn part(&mut self) -> Result<Part> {
        let (pages, count, numbers) = (self.u64()?, self.u32()?, self.u32()? as usize);
        if numbers > PART_NUMBERS_MAX {
            return Err(Error::corrupt(format!("a part of {numbers} numbers of partitions")));
        }
        Ok(Part { pages, count, numbers: (0..numbers).map(|_| self.u32()).collect::<Result<_>>()? })
    }
    fn keeping(&mut self) -> Result<Keeping> {
        let mut said = Keeping {
            merges: self.u8()? != 0,
            merged: self.u64()?,
            merged_runs: self.u64()?,
            merged_bytes: self.u64()?,
            merging: self.u64()?,
            merging_of: self.u64()?,
            rested_us: self.u64()?,
            merge_error: self.text()?,
            window_us: self.u64()?,
            promised: Lsn(self.u64()?),
            kept_from: Lsn(self.u64()?),
            looked_us: self.u64()?,
            runs: self.u64()?,
            backups: self.u64()?,
            bytes: self.u64()?,
            expire_error: self.text()?,
            held_by: Vec::new(),
        };
        let held = self.u32()? as usize;
        if held > HELD_MAX {
            return Err(Error::corrupt(format!("an answer with {held} reasons")));
        }
        said.held_by = (0..held).map(|_| self.text()).collect::<Result<_>>()?;
        Ok(said)
    }
    /// Each with where it begins.
    fn blocks(&mut self, what: &str) -> Result<Vec<(Lsn, Vec<u8>)>> {
        let count = self.u32()? as usize;
        if count > BLOCKS_MAX {
            return Err(Error::corrupt(format!("{what} with {count} blocks of the log")));
        }
        (0..count).map(|_| Ok((Lsn(self.u64()?), self.bytes()?.to_vec()))).collect()
    }
    fn role(&mut self) -> Result<Role> {
        match self.u8()? {
            1 => Ok(Role::Primary),
            2 => Ok(Role::PageServer),
            3 => Ok(Role::Client),
            4 => Ok(Role::Log),
            role => Err(Error::corrupt(format!("the unknown role {role}"))),
        }
    }
    fn end(&self) -> Result<()> {
        if self.0.is_empty() { Ok(()) } else { Err(Error::corrupt("a message is too long for what it is")) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Its bytes in a frame.
    fn bytes_of(encode: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut out = vec![9; 5];
        encode(&mut out);
        out.split_off(FRAME_HEADER_BYTES)
    }

    fn part() -> Part {
        Part { pages: 128, count: 7, numbers: vec![0, 3, 6] }
    }

    fn requests() -> Vec<Request> {
        vec![
            Request::Hello { oldest: 1, newest: 3, role: Role::PageServer, database: [7; 16] },
            Request::GetPage { page: PageId(9), at_least: Lsn(8), have: Lsn(7), wait_ms: 6 },
            Request::PullBlocks {
                consumer: "page server ä".into(),
                from: Lsn(1),
                durable: Lsn(2),
                bytes_max: 3,
                wait_ms: 4,
            },
            Request::Position,
            Request::Disseminate {
                epoch: 7,
                start: Lsn(1),
                hardened: Lsn(2),
                zone_bound: 4,
                blocks: vec![(Lsn(5), vec![6, 7]), (Lsn(8), vec![])],
            },
            Request::GetPages { pages: vec![(PageId(5), Lsn(6)), (PageId(7), Lsn(8))], wait_ms: 9 },
            Request::Coverage,
            Request::PullPart {
                consumer: "page server ö".into(),
                from: Lsn(1),
                durable: Lsn(2),
                bytes_max: 3,
                wait_ms: 4,
                part: part(),
            },
            Request::Keeping,
        ]
    }

    fn keeping() -> Keeping {
        Keeping {
            merges: true,
            merged: 1,
            merged_runs: 2,
            merged_bytes: 3,
            merging: 4,
            merging_of: 5,
            rested_us: 6,
            merge_error: "ä run is damaged".into(),
            window_us: 7,
            promised: Lsn(8),
            kept_from: Lsn(9),
            looked_us: 10,
            runs: 11,
            backups: 12,
            bytes: 13,
            held_by: vec!["a lease".into(), String::new()],
            expire_error: "a place cannot be reached".into(),
        }
    }

    fn answers() -> Vec<Answer> {
        let hello =
            Hello { version: 1, role: Role::Primary, database: [1; 16], first: Lsn(4096), segment_bytes: 1 << 20 };
        let blocks = BlocksAnswer { blocks: vec![vec![1, 2], vec![], vec![3]], complete_to: Lsn(5), durable: Lsn(6) };
        vec![
            Answer::Hello(hello),
            Answer::Page(vec![3; 100]),
            Answer::NotModified,
            Answer::Blocks(blocks),
            Answer::Position { applied: Lsn(1), durable: Lsn(2) },
            Answer::Log {
                disseminated: Lsn(1),
                destaged: Lsn(2),
                consumers: vec![Consumer { name: "ä".into(), position: Lsn(3), durable: Lsn(4), silent_ms: 5 }],
            },
            Answer::Pages(vec![vec![1, 2, 3], vec![], vec![4]]),
            Answer::Coverage(Coverage { part: part(), missing: 5, refused: 6, gaps: 7 }),
            Answer::Elsewhere(part()),
            Answer::PartOfBlocks(PartOfBlocks {
                blocks: vec![(Lsn(512), vec![1, 2]), (Lsn(2048), vec![3])],
                complete_to: Lsn(5),
                durable: Lsn(6),
                left_out: 7,
            }),
            Answer::Keeping(keeping()),
            Answer::Error(Error::new(ErrorKind::NotADatabase, "another one").with_hint("look").with_detail("what")),
        ]
    }

    #[test]
    fn round_trip_and_damage() {
        for request in requests() {
            let bytes = &bytes_of(|out| request.encode(out))[..];
            assert_eq!(Request::decode(bytes).unwrap(), request);
            for end in 0..bytes.len() {
                assert_eq!(Request::decode(&bytes[..end]).unwrap_err().kind(), ErrorKind::Corrupt);
            }
            let longer = [bytes, &[0]].concat();
            assert_eq!(Request::decode(&longer).unwrap_err().kind(), ErrorKind::Corrupt);
        }
        for answer in answers() {
            let bytes = &bytes_of(|out| answer.encode(out))[..];
            assert_eq!(format!("{:?}", Answer::decode(bytes).unwrap()), format!("{answer:?}"));
            let pages = match &answer {
                Answer::Page(page) => Some(Pages::One(page)),
                Answer::Pages(pages) => Some(Pages::Many(pages.iter().map(|page| &page[..]).collect())),
                _ => None,
            };
            assert_eq!(Answer::pages_of(bytes), pages);
            assert_eq!(Answer::pages_of(&[bytes, &[0]].concat()), None);
            assert_eq!(Answer::pages_of(&bytes[..bytes.len() - 1]), None);
            for end in 0..bytes.len() {
                assert_eq!(Answer::decode(&bytes[..end]).unwrap_err().kind(), ErrorKind::Corrupt);
            }
        }
    }

    /// How a server does is behind whatever it answers, and is not part of it.
    #[test]
    fn a_standing_comes_behind_an_answer() {
        let standing = Standing { load: 7, applied: Lsn(1 << 40) };
        for answer in answers() {
            let alone = bytes_of(|out| answer.encode(out));
            let mut both = alone.clone();
            standing.append(&mut both);
            assert_eq!(Standing::split(&both).unwrap(), (&alone[..], standing));
            assert!(Answer::decode(&both).is_err(), "who does not know of it would notice");
        }
        for short in [&[][..], &[1; STANDING_BYTES - 1]] {
            assert_eq!(Standing::split(short).unwrap_err().kind(), ErrorKind::Corrupt);
        }
    }

    #[test]
    fn too_many_pages_are_refused() {
        for count in [0, PAGES_MAX, PAGES_MAX + 1] {
            let request = Request::GetPages { pages: vec![(PageId(1), Lsn(2)); count], wait_ms: 3 };
            let is_read = Request::decode(&bytes_of(|out| request.encode(out))).is_ok();
            assert_eq!(is_read, count <= PAGES_MAX);
            let answer = Answer::Pages(vec![vec![1]; count]);
            let bytes = bytes_of(|out| answer.encode(out));
            assert_eq!(Answer::decode(&bytes).is_ok(), count <= PAGES_MAX);
            assert_eq!(Answer::pages_of(&bytes).is_some(), count <= PAGES_MAX);
        }
        for count in [HELD_MAX, HELD_MAX + 1] {
            let answer = Answer::Keeping(Keeping { held_by: vec!["why".into(); count], ..keeping() });
            let Answer::Keeping(said) = Answer::decode(&bytes_of(|out| answer.encode(out))).unwrap() else { panic!() };
            assert_eq!(said.held_by.len(), HELD_MAX, "what is too much is not said");
        }
        for count in [PART_NUMBERS_MAX, PART_NUMBERS_MAX + 1] {
            let answer = Answer::Elsewhere(Part { pages: 1, count: 1, numbers: vec![0; count] });
            assert_eq!(Answer::decode(&bytes_of(|out| answer.encode(out))).is_ok(), count <= PART_NUMBERS_MAX);
        }
    }

    #[test]
    fn a_long_text_is_cut_off_between_letters() {
        let error = Error::new(ErrorKind::Internal, "ä".repeat(TEXT_BYTES_MAX));
        let Answer::Error(came) = Answer::decode(&bytes_of(|out| Answer::Error(error).encode(out))).unwrap() else {
            panic!("no error");
        };
        assert_eq!((came.kind(), came.message().len()), (ErrorKind::Io, TEXT_BYTES_MAX));
    }

    proptest! {
        #[test]
        fn any_bytes_are_decoded_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200), kind in 1u8..13) {
            let with_kind = [&[kind], &bytes[..]].concat();
            for bytes in [&bytes, &with_kind] {
                if let Ok(request) = Request::decode(bytes) {
                    prop_assert_eq!(&bytes_of(|out| request.encode(out)), bytes);
                }
                let is_answer = Answer::decode(bytes).is_ok();
                prop_assert!(is_answer || Answer::pages_of(bytes).is_none());
            }
        }
    }
}
