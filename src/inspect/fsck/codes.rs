//! Every code of a finding. They are stable: programs act on them, and a code is never used for something else. `docs/fsck.md` repeats the
//! table with what is lost and what to do; a test compares the two.

use std::fmt;

/// How bad a finding is. The worst one of a report decides its exit status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Severity {
    /// Nothing is lost, and the next writer puts it right: what a crash may leave.
    Benign,
    /// Something is damaged that can be made again from what is sound.
    Derived,
    /// Something is damaged that only another copy can give back.
    Primary,
}

impl Severity {
    /// Its stable name.
    pub fn as_str(self) -> &'static str {
        match self {
            Severity::Benign => "benign",
            Severity::Derived => "derived",
            Severity::Primary => "primary",
        }
    }

    /// The exit status of `triune fsck` when this is the worst.
    pub fn exit_status(self) -> u8 {
        match self {
            Severity::Benign => 1,
            Severity::Derived => 4,
            Severity::Primary => 8,
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

macro_rules! codes {
    ($($name:ident $text:literal $severity:ident $level:literal $meaning:literal;)+) => {
        /// What was found.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum FindingCode { $(#[doc = $meaning] $name),+ }

        impl FindingCode {
            /// All of them, in the order of the table in `docs/fsck.md`.
            pub const ALL: &[FindingCode] = &[$(FindingCode::$name),+];

            /// Its stable name.
            pub fn as_str(self) -> &'static str {
                match self { $(FindingCode::$name => $text),+ }
            }

            /// How bad it is.
            pub fn severity(self) -> Severity {
                match self { $(FindingCode::$name => Severity::$severity),+ }
            }

            /// The lowest level that finds it, 0 to 3.
            pub fn level(self) -> u8 {
                match self { $(FindingCode::$name => $level),+ }
            }

            /// What it means, in a sentence.
            pub fn meaning(self) -> &'static str {
                match self { $(FindingCode::$name => $meaning),+ }
            }
        }
    };
}

codes! {
    CreateUnfinished "CREATE-UNFINISHED" Benign 0 "A create, build, restore or backup was cut short; nothing in it counts.";
    Orphan "ORPHAN" Benign 0 "Nothing names this file: a crash left it, a writer is making it now, or could not remove it while a process was opening the database.";
    HeadSlot "HEAD-SLOT" Benign 0 "One slot of HEAD is not valid; the other one counts.";
    HeadLength "HEAD-LENGTH" Benign 0 "Bytes follow the two slots of HEAD.";
    FallbackState "FALLBACK-STATE" Benign 0 "The older slot of HEAD names a state that is not whole; the newer one counts.";
    LogTornTail "LOG-TORN-TAIL" Benign 0 "The log ends in bytes that were never synced, as a crash leaves them.";
    Witness "WITNESS" Benign 1 "WITNESS is missing or a record of it is no evidence.";
    Ballast "BALLAST" Benign 1 "The spare room for a full disk is missing or short.";
    Padding "PADDING" Benign 1 "Bytes that must be zero and mean nothing are not zero.";
    LockMissing "LOCK-MISSING" Derived 0 "LOCK is missing, so that no writer opens.";
    SegmentTable "SEGMENT-TABLE" Derived 1 "One of the two copies of a section table is damaged; the other one counts.";
    DerivedCrc "DERIVED-CRC" Derived 1 "A checksum in a derived section does not hold.";
    IdMap "ID-MAP" Derived 2 "The map from ids to rows does not agree with the ids.";
    VectorNorms "VECTOR-NORMS" Derived 2 "Inverse norms of vectors are missing or are not those of the vectors.";
    VectorGraph "VECTOR-GRAPH" Derived 2 "The vector graph or its codes contradict themselves or each other.";
    TextIndex "TEXT-INDEX" Derived 2 "The text index contradicts itself.";
    MetadataIndex "METADATA-INDEX" Derived 2 "The metadata index contradicts itself.";
    GraphIndex "GRAPH-INDEX" Derived 2 "The entity graph contradicts itself.";
    DeadFrequencies "DEAD-FREQUENCIES" Derived 2 "The document frequencies of dead rows are not those of the rows.";
    ManifestTotals "MANIFEST-TOTALS" Derived 2 "The counts that the manifest keeps are not those of the live rows.";
    VectorCodes "VECTOR-CODES" Derived 3 "The codes of the vector graph are not those of the vectors.";
    VectorRecall "VECTOR-RECALL" Derived 3 "Walks through the vector graph find far less than it says of itself.";
    TextPostings "TEXT-POSTINGS" Derived 3 "The text index is not that of the stored texts.";
    MetadataKeys "METADATA-KEYS" Derived 3 "The metadata index is not that of the stored metadata.";
    GraphEdges "GRAPH-EDGES" Derived 3 "The entity graph is not that of the stored documents.";
    SearchAnswer "SEARCH-ANSWER" Derived 3 "A search answers other than reading every document does.";
    HeadMissing "HEAD-MISSING" Primary 0 "HEAD is missing and other files of a database are here.";
    HeadLost "HEAD-LOST" Primary 0 "Neither slot of HEAD is valid.";
    HeadConflict "HEAD-CONFLICT" Primary 0 "The slots of HEAD contradict each other, or one says what no slot can.";
    Manifest "MANIFEST" Primary 0 "The manifest is missing, damaged, or not the one that HEAD names.";
    LogDamaged "LOG-DAMAGED" Primary 0 "A log is missing or damaged: commits that were durable are lost, or may be.";
    LogRecord "LOG-RECORD" Primary 0 "A record of the log passes its checksum and says what no commit can do.";
    FileMissing "FILE-MISSING" Primary 0 "A file is missing that the state names.";
    SegmentFrame "SEGMENT-FRAME" Primary 0 "A segment's header, footer or section table cannot be read.";
    TombstonesFrame "TOMBSTONES-FRAME" Primary 0 "The header of a file of tombstones cannot be read.";
    ReadFailed "READ-FAILED" Primary 0 "The operating system could not read a file.";
    Newer "NEWER-VERSION" Primary 0 "Something was written by a newer version, which this one cannot check.";
    PrimaryCrc "PRIMARY-CRC" Primary 1 "A checksum in a primary section does not hold.";
    Tombstones "TOMBSTONES" Primary 1 "A set of dead rows or dying seqs is damaged or is not that of its segment.";
    Rows "ROWS" Primary 2 "Documents, ids or seqs of a segment contradict each other.";
    Sources "SOURCES" Primary 2 "The registry of sources is not that of the documents.";
    Vectors "VECTORS" Primary 2 "The vectors of a segment contradict its rows or the schema.";
    SegmentCounts "SEGMENT-COUNTS" Primary 2 "A segment's rows, vectors, tokens or seqs are not those that the manifest gives.";
    ContentHash "CONTENT-HASH" Primary 2 "The documents of a segment are not those that it was written with.";
    IdTwice "ID-TWICE" Primary 2 "An id lives twice in one collection.";
}

impl fmt::Display for FindingCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
