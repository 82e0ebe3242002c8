//! What DESIGN says of a damaged log, computed from where its records stand: which damage is refused, and which is a torn tail.

use std::ops::Range;
use triune::format::head::{HEAD_SLOT_BYTES, HeadSlot};
use triune::format::wal::{Link, RECORD_ALIGNMENT, RECORD_HEADER_BYTES, RecordHeader, WAL_HEADER_BYTES, WalHeader};
use triune::format::witness::{WITNESS_SLOT_BYTES, WitnessSlot};
use triune::io::SimDirectory;
use triune::{Lsn, Uuid};

/// Where a record stands.
#[derive(Debug, Clone)]
struct Record {
    lsn: u64,
    durable_lsn: u64,
    start: usize,
    end: usize,
}

/// One log of a sound image.
#[derive(Debug)]
struct Log {
    file: String,
    bytes: Vec<u8>,
    records: Vec<Record>,
    /// Where its successor says that it ends; `None` for the active one.
    continued: Option<Link>,
}

/// The logs of a sound image that HEAD reaches, oldest first, and what is known to be durable apart from them.
#[derive(Debug)]
pub struct Logs {
    logs: Vec<Log>,
    durable_elsewhere: u64,
    pub last_lsn: Lsn,
}

/// What has to come of a damage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing is lost.
    Exact,
    /// The open is refused, and names this lsn when it is a record that is lost.
    Corrupt(Option<u64>),
    /// The records after this lsn are dropped.
    Prefix(Lsn),
}

impl Logs {
    pub fn of(image: &SimDirectory) -> Logs {
        let head = image.read_file("HEAD").unwrap();
        let slots = head.chunks(HEAD_SLOT_BYTES).map(|slot| HeadSlot::decode(slot).unwrap().understand().unwrap());
        let witness = image.read_file("WITNESS").unwrap();
        let witnessed = witness.chunks(WITNESS_SLOT_BYTES).filter_map(|slot| WitnessSlot::decode(slot).ok());
        let durable_elsewhere = slots.map(|s| s.durable_lsn.0).chain(witnessed.map(|w| w.durable_lsn.0)).max().unwrap();
        let mut files: Vec<String> = image.file_names().into_iter().filter(|name| name.ends_with(".wal")).collect();
        let (mut logs, mut continued) = (Vec::new(), None::<Link>);
        // The active log is the youngest; a log that none continues is what an earlier session left.
        while let Some(file) = files.pop() {
            let bytes = image.read_file(&file).unwrap();
            let header = WalHeader::decode(&bytes[..WAL_HEADER_BYTES]).unwrap();
            if continued.is_some_and(|link: Link| link.id.0 != header.id) || (continued.is_none() && !logs.is_empty()) {
                continue;
            }
            logs.insert(0, Log { records: records(&bytes, Uuid(header.id)), file, bytes, continued });
            continued = header.link();
        }
        let last_lsn = Lsn(logs.iter().flat_map(|l| &l.records).map(|r| r.lsn).max().unwrap());
        Logs { logs, durable_elsewhere, last_lsn }
    }

    /// The greatest lsn that something other than the last group of records calls durable.
    pub fn evidenced(&self) -> u64 {
        let by_records = self.logs.iter().flat_map(|l| &l.records).map(|r| r.durable_lsn).max().unwrap_or(0);
        by_records.max(self.durable_elsewhere)
    }

    /// How many records each log holds.
    pub fn record_counts(&self) -> Vec<usize> {
        self.logs.iter().map(|l| l.records.len()).collect()
    }

    /// What has to come of the damage that made `damaged` of the image.
    pub fn verdict(&self, damaged: &SimDirectory) -> Verdict {
        let differs = |log: &&Log| damaged.read_file(&log.file).as_ref() != Some(&log.bytes);
        let Some(log) = self.logs.iter().find(differs) else { return Verdict::Exact };
        let now = damaged.read_file(&log.file).unwrap_or_default();
        let bad = |range: Range<usize>| now.get(range.clone()) != Some(&log.bytes[range]);
        if bad(0..WAL_HEADER_BYTES) {
            return Verdict::Corrupt(None);
        }
        let first_bad = log.records.iter().filter(|r| bad(r.start..r.end)).map(|r| r.lsn).min();
        if let Some(link) = log.continued {
            let cut = (now.len() as u64) < link.end_offset;
            return if first_bad.is_some() || cut { Verdict::Corrupt(first_bad) } else { Verdict::Exact };
        }
        let Some(first_bad) = first_bad else { return Verdict::Exact };
        let headers = log.records.iter().filter(|r| !bad(r.start..r.start + RECORD_HEADER_BYTES));
        let durable = headers.map(|r| r.durable_lsn).max().unwrap_or(0).max(self.durable_elsewhere);
        if first_bad <= durable { Verdict::Corrupt(Some(first_bad)) } else { Verdict::Prefix(Lsn(first_bad - 1)) }
    }
}

fn records(log: &[u8], id: Uuid) -> Vec<Record> {
    let starts = (WAL_HEADER_BYTES..log.len().saturating_sub(RECORD_HEADER_BYTES)).step_by(RECORD_ALIGNMENT as usize);
    starts
        .filter_map(|start| {
            let header = RecordHeader::decode(&log[start..start + RECORD_HEADER_BYTES], id, start as u64).ok()?;
            let end = start + RECORD_HEADER_BYTES + header.payload_length.get() as usize;
            Some(Record { lsn: header.lsn.get(), durable_lsn: header.durable_lsn.get(), start, end })
        })
        .collect()
}
