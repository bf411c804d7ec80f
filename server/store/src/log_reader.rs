//! Reading one log file (upstream `FileTxnLog.FileTxnIterator`), and telling a torn tail from damage.
//!
//! Format: header `ZKLG`, int version 2, long dbid; then records of long Adler-32, int length, body, byte 0x42; then
//! zeros up to the preallocated length. A record that is not intact ends the log. What that means depends on where
//! it is, which [`crate::log_chain`] decides; this module only says what it saw.

use bytes::Bytes;
use zk_jute::Zxid;
use zk_jute::txn::{LoggedTxn, TxnHeader};

use crate::config::MAX_UNSYNCED;
use crate::disk::{Disk, DiskFile};
use crate::error::StoreError;
use crate::files::{WINDOW, Window};

/// Bytes of the file header.
pub(crate) const HEADER_LEN: usize = 16;
/// Bytes before a record's body: checksum and length.
const PREFIX_LEN: usize = 12;
/// Ends every record.
const END_OF_RECORD: u8 = 0x42;
/// Epochs that can pass between two transactions, for telling records from noise.
const MAX_EPOCH_STEP: u32 = 1 << 16;
/// Bytes that a disk writes as a whole, at least.
const SECTOR: u64 = 512;
/// Zeros that every record begins with: the upper half of its checksum.
const CHECKSUM_ZEROS: u64 = 4;
/// Bytes of a record without a body of its own.
const MIN_RECORD_LEN: u64 = (PREFIX_LEN + TxnHeader::ENCODED_LEN + 1) as u64;
/// Where a record's body holds the zxid: after client id and cxid.
const ZXID_AT: usize = 8 + 4;

/// The file header: magic, version 2, dbid 0.
pub(crate) const HEADER: [u8; HEADER_LEN] = *b"ZKLG\0\0\0\x02\0\0\0\0\0\0\0\0";

/// Appends one record.
pub(crate) fn encode_record(body: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&u64::from(adler(body)).to_be_bytes());
    let len = i32::try_from(body.len()).expect("a record is bounded far below 2 GiB");
    out.extend_from_slice(&len.to_be_bytes());
    out.extend_from_slice(body);
    out.push(END_OF_RECORD);
}

/// Bytes that a record with this body takes.
pub(crate) const fn record_len(body: &[u8]) -> u64 {
    (PREFIX_LEN + body.len() + 1) as u64
}

/// The zxid inside a record's body, without decoding it.
pub(crate) fn zxid_of(body: &[u8]) -> Option<Zxid> {
    let bytes = body.get(ZXID_AT..)?.first_chunk()?;
    Some(Zxid(i64::from_be_bytes(*bytes)))
}

fn adler(bytes: &[u8]) -> u32 {
    let mut adler = adler2::Adler32::new();
    adler.write_slice(bytes);
    adler.checksum()
}

/// Why there is no further record at an offset.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum LogEnd {
    /// The file ends here, or its preallocated space begins.
    Clean,
    /// Something is there, but no intact record.
    Damaged { what: String },
}

/// What is behind the last record that was read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Rest {
    /// Nothing but zeros.
    Nothing,
    Damaged(Damage),
}

/// Something that is neither a record nor zeros.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Damage {
    pub(crate) what: String,
    /// It is the start of a single record that was never written to its end.
    pub(crate) cut_short: bool,
    /// Intact records behind it that show that it was durable once: no torn write leaves this.
    ///
    /// Writes that were never synced reach the disk in any order, so a torn tail may have intact records behind a part
    /// that is missing, but not further than [`MAX_UNSYNCED`].
    pub(crate) durable: Option<Intact>,
}

/// Intact records behind damage.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Intact {
    pub(crate) count: u64,
    /// Where the first begins.
    start: u64,
    /// Where the last ends.
    pub(crate) end: u64,
}

/// A file that may be a log.
pub(crate) enum Opened<F> {
    Log(LogReader<F>),
    /// No header: created, but never made durable.
    Headless,
}

/// What [`LogReader::next`] found.
pub(crate) enum Next {
    Txn { offset: u64, txn: LoggedTxn },
    End(LogEnd),
}

/// A cursor over the records of one file.
pub(crate) struct LogReader<F> {
    window: Window<F>,
    offset: u64,
    /// Longest record that is one, in bytes.
    limit: usize,
}

impl<F: DiskFile> LogReader<F> {
    /// Opens a log and checks its header. Records longer than `limit` bytes are damage.
    ///
    /// # Errors
    /// A header that is there, but not a log's.
    pub(crate) fn open<D: Disk<File = F>>(
        disk: &D,
        path: &std::path::Path,
        limit: usize,
    ) -> Result<Opened<F>, StoreError> {
        let mut window = Window::open(disk, path)?;
        let header = window.get(0, HEADER_LEN)?.to_vec();
        // The dbid is never checked, as upstream never does.
        if header.len() == HEADER_LEN && header[..8] == HEADER[..8] {
            return Ok(Opened::Log(Self { window, offset: HEADER_LEN as u64, limit }));
        }
        let written = header.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        let torn = HEADER.starts_with(&header[..written]);
        if torn && window.first_nonzero(written as u64)?.is_none() {
            return Ok(Opened::Headless);
        }
        let what = format!("the file header is {header:02x?}, not that of a log of version 2");
        Err(StoreError::corrupt(path, 0, what))
    }

    /// Offset of what comes next.
    pub(crate) const fn offset(&self) -> u64 {
        self.offset
    }

    pub(crate) const fn size(&self) -> u64 {
        self.window.size()
    }

    /// The next record, or why there is none. After an end the cursor stays where the log ends.
    ///
    /// # Errors
    /// A record whose checksum is right, but which is no transaction; a record that is longer than the limit.
    pub(crate) fn next(&mut self) -> Result<Next, StoreError> {
        let offset = self.offset;
        let body = match read_body(&mut self.window, offset, self.limit)? {
            Ok(body) => Bytes::copy_from_slice(body),
            Err(end) => {
                self.refuse_too_long()?;
                return Ok(Next::End(end));
            }
        };
        self.offset = offset + record_len(&body);
        let txn = LoggedTxn::decode(body).map_err(|error| {
            let what = format!("the record's checksum is right, but it is no transaction: {error}");
            StoreError::corrupt(self.window.path(), offset, what)
        })?;
        Ok(Next::Txn { offset, txn })
    }

    /// A record beyond the limit that has its end is no damage that could be cut: the limit is wrong.
    fn refuse_too_long(&mut self) -> Result<(), StoreError> {
        let Some((_, len)) = split_prefix(self.window.get(self.offset, PREFIX_LEN)?) else { return Ok(()) };
        let Some(len) = usize::try_from(len).ok().filter(|len| *len > self.limit) else { return Ok(()) };
        let end = self.offset + (PREFIX_LEN + len) as u64;
        if self.window.get(end, 1)? != [END_OF_RECORD] {
            return Ok(());
        }
        let what =
            format!("a record of {len} bytes is longer than the {} that jute.maxbuffer allows", self.limit);
        Err(StoreError::corrupt(self.window.path(), self.offset, what))
    }

    /// What the rest of the file is, once [`LogReader::next`] has found `end`; `last` is the last transaction of the
    /// history so far. Upstream takes the first zero length for the end, but data behind it was once written.
    pub(crate) fn rest(&mut self, end: LogEnd, last: Zxid) -> Result<Rest, StoreError> {
        let (what, cut_short) = match end {
            LogEnd::Clean => match self.window.first_nonzero(self.offset)? {
                None => return Ok(Rest::Nothing),
                Some(at) => (format!("zeros, but data again at byte {at}"), false),
            },
            LogEnd::Damaged { what } => (what, self.is_cut_short()?),
        };
        let Some(intact) = self.intact_behind(last)? else {
            return Ok(Rest::Damaged(Damage { what, cut_short, durable: None }));
        };
        let torn = intact.end - self.offset <= MAX_UNSYNCED && self.is_lost_write(intact.start)?;
        Ok(Rest::Damaged(Damage { what, cut_short: false, durable: (!torn).then_some(intact) }))
    }

    /// Whether what is at the cursor is the start of one record, and nothing else: it runs into the end of the file or
    /// into zeros before its own end. So ends the log of a server that was stopped within an append, and such an append
    /// was never synced, because a sync comes after whole records.
    fn is_cut_short(&mut self) -> Result<bool, StoreError> {
        let prefix = self.window.get(self.offset, PREFIX_LEN)?;
        let body = self.offset + PREFIX_LEN as u64;
        let Some((_, len)) = split_prefix(prefix) else { return Ok(true) };
        let Some(len) = u64::try_from(len).ok().filter(|len| *len <= self.limit as u64) else {
            return Ok(false);
        };
        if self.window.first_nonzero(body + len)?.is_some() {
            return Ok(false);
        }
        // A whole record with a wrong length would end with its end byte.
        let (mut at, mut last) = (body, 0);
        while let Some(nonzero) = self.window.first_nonzero(at)? {
            let bytes = self.window.get(nonzero, WINDOW)?;
            last = bytes.iter().rfind(|byte| **byte != 0).copied().unwrap_or(last);
            at = nonzero + bytes.len() as u64;
        }
        Ok(last != END_OF_RECORD)
    }

    /// Whether the bytes from the cursor to the intact record at `to` look like a write that did not reach the disk: such
    /// a write leaves whole sectors of the zeros that were there before, where damage leaves a record with something wrong
    /// in it. The first sector may hold an older record, and is then zero from the cursor on.
    fn is_lost_write(&mut self, to: u64) -> Result<bool, StoreError> {
        let zeros_to = self.window.first_nonzero(self.offset)?.unwrap_or(self.window.size());
        let sector_end = (self.offset + 1).next_multiple_of(SECTOR);
        if zeros_to >= self.offset + PREFIX_LEN as u64
            || zeros_to >= sector_end && sector_end - self.offset > CHECKSUM_ZEROS
        {
            return Ok(true);
        }
        let mut sector = sector_end;
        while sector + SECTOR <= to {
            let nonzero = self.window.first_nonzero(sector)?.unwrap_or(to);
            if nonzero >= sector + SECTOR {
                return Ok(true);
            }
            sector = (nonzero + 1).next_multiple_of(SECTOR);
        }
        Ok(false)
    }

    /// The intact records behind the damage at the cursor that can be what came after `last`.
    fn intact_behind(&mut self, last: Zxid) -> Result<Option<Intact>, StoreError> {
        let mut intact: Option<Intact> = None;
        let mut at = self.offset + 1;
        while at < self.window.size() {
            if self.looks_like_record(at, last)?
                && let Ok(body) = read_body(&mut self.window, at, self.limit)?
            {
                let (start, end) = (at, at + record_len(body));
                let before = intact.unwrap_or(Intact { count: 0, start, end });
                intact = Some(Intact { count: before.count + 1, end, ..before });
                at = end;
                continue;
            }
            // A record has something other than zero within its first bytes: no need to look before that.
            let Some(nonzero) = self.window.first_nonzero(at + 1)? else { break };
            at = (at + 1).max(nonzero.saturating_sub(PREFIX_LEN as u64));
        }
        Ok(intact)
    }

    /// Rules nearly every offset out by the start of the would-be record, without reading its body: an Adler-32 in a
    /// long, and a zxid that can come after `last` with no more records between than there is room for.
    fn looks_like_record(&mut self, at: u64, last: Zxid) -> Result<bool, StoreError> {
        let room = (at - self.offset) / MIN_RECORD_LEN + 1;
        let bytes = self.window.get(at, PREFIX_LEN + TxnHeader::ENCODED_LEN)?;
        let small_checksum = bytes.starts_with(&[0; 4]);
        let Some(zxid) = bytes.get(PREFIX_LEN..).and_then(zxid_of) else { return Ok(false) };
        if !small_checksum || bytes.len() < PREFIX_LEN + TxnHeader::ENCODED_LEN || zxid <= last {
            return Ok(false);
        }
        if zxid.epoch() == last.epoch() {
            return Ok(u64::from(zxid.counter() - last.counter()) <= room);
        }
        // Without anything before it a log may begin anywhere.
        let counter_fits = last == Zxid::ZERO || u64::from(zxid.counter()) <= room;
        Ok(counter_fits && zxid.epoch().0 - last.epoch().0 <= MAX_EPOCH_STEP)
    }
}

/// The body of the record at `offset`, or why there is none.
fn read_body<F: DiskFile>(
    window: &mut Window<F>,
    offset: u64,
    limit: usize,
) -> Result<Result<&[u8], LogEnd>, StoreError> {
    let damaged = |what: String| Ok(Err(LogEnd::Damaged { what }));
    let left = window.size().saturating_sub(offset);
    let prefix = window.get(offset, PREFIX_LEN)?;
    if prefix.iter().all(|byte| *byte == 0) {
        return Ok(Err(LogEnd::Clean));
    }
    let Some((checksum, len)) = split_prefix(prefix) else {
        return damaged(format!("{} bytes are left, too few for a record", prefix.len()));
    };
    if len == 0 {
        return damaged("the record's length is 0".to_owned());
    }
    let Some(len) = usize::try_from(len).ok().filter(|len| *len <= limit) else {
        return damaged(format!("the record's length {len} is impossible"));
    };
    let whole = PREFIX_LEN + len + 1;
    if left < whole as u64 {
        return damaged(format!("the record needs {whole} bytes, but {left} are left"));
    }
    let record = window.get(offset, whole)?;
    if record.len() < whole {
        return damaged(format!("the record needs {whole} bytes, but {} could be read", record.len()));
    }
    let body = &record[PREFIX_LEN..whole - 1];
    if record[whole - 1] != END_OF_RECORD {
        return damaged("the record does not end with 0x42".to_owned());
    }
    let actual = u64::from(adler(body));
    if actual != checksum {
        return damaged(format!("the record's checksum is {checksum:#x}, its bytes give {actual:#x}"));
    }
    Ok(Ok(body))
}

fn split_prefix(prefix: &[u8]) -> Option<(u64, i32)> {
    let (checksum, rest) = prefix.split_first_chunk::<8>()?;
    Some((u64::from_be_bytes(*checksum), i32::from_be_bytes(*rest.first_chunk()?)))
}
