//! Manifest files: what each says, and whether it is the one that HEAD names.

use super::findings::{Findings, located, what};
use super::survey::Survey;
use super::whole;
use crate::error::Result;
use crate::format::head::HeadState;
use crate::format::manifest::{CollectionEntry, Manifest, ManifestHeader, decode_manifest};
use crate::ids::Uuid;
use crate::io::Directory;
use crate::io::names::FileName;
use crate::manifest::{check, read_manifest};

/// A manifest file as it was read.
#[derive(Debug)]
pub(super) struct ManifestFile {
    /// Its header, when that much can be read.
    pub(super) header: Option<ManifestHeader>,
    /// What it says, or why it says nothing.
    pub(super) body: std::result::Result<Manifest, String>,
}

impl ManifestFile {
    /// Reads it as far as it can be read.
    pub(super) fn read(dir: &dyn Directory, number: u64) -> ManifestFile {
        let bytes = dir.open(&FileName::Manifest(number).to_string()).and_then(|file| whole(file.as_ref()));
        match bytes {
            Err(e) => ManifestFile { header: None, body: Err(format!("reading: {e}")) },
            Ok(bytes) => match decode_manifest(&bytes) {
                Ok((header, manifest)) => ManifestFile { header: Some(header), body: Ok(manifest) },
                Err(e) => ManifestFile { header: ManifestHeader::decode(&bytes).ok(), body: Err(located(e, 0)) },
            },
        }
    }

    /// The database it was written for.
    pub(super) fn database(&self) -> Option<Uuid> {
        self.header.map(|header| Uuid(header.database))
    }
}

/// The fields of the manifest `number`, and the first thing wrong: in itself first, then with what HEAD says of it.
pub(super) fn describe(survey: &Survey, number: u64, findings: &mut Findings) {
    let Some(file) = survey.manifests.get(&number) else { return };
    if let Some(header) = &file.header {
        findings.field("version", format_args!("{}.{}", header.major, header.minor));
        findings.field("database", Uuid(header.database));
        findings.field("number", header.number);
        if header.number.get() != number {
            findings.problem(format!("byte 32: the number is {}, its name says {number}: another file stands in its place", header.number));
        }
    }
    match &file.body {
        Err(problem) => findings.problem(problem),
        Ok(manifest) => {
            findings.field("applied lsn", manifest.applied_lsn);
            findings.field("next seq", manifest.next_seq);
            findings.field("next incarnation", manifest.next_incarnation);
            findings.field("collections", manifest.collections.len());
            for (index, collection) in manifest.collections.iter().enumerate() {
                describe_collection(index, collection, findings);
            }
            if let Err(e) = check(manifest) {
                findings.problem(what(&e));
            }
        }
    }
    if let Some(Err(e)) = survey.named_manifests.get(&number) {
        findings.problem(what(e));
    }
}

/// As the slots that name it check it.
pub(super) fn check_named(dir: &dyn Directory, state: &HeadState) -> Result<()> {
    read_manifest(dir, state).map(drop)
}

fn describe_collection(index: usize, c: &CollectionEntry, findings: &mut Findings) {
    let dimension = c.schema.dimension.map_or("not fixed yet".to_string(), |d| d.to_string());
    findings.field(
        format!("collection {index}"),
        format_args!(
            "{:?}, incarnation {}, {} documents, {} vectors, {} tokens, {} segments",
            c.name,
            c.incarnation,
            c.documents,
            c.vectors,
            c.tokens,
            c.segments.len()
        ),
    );
    let schema = &c.schema;
    findings.field(
        format!("collection {index} schema"),
        format_args!(
            "dimension {dimension}, metric {}, analyzer {}, scorer {}, extractor {}, source key {:?}, embedder {}, components {}, weights of vector, text and graph {}, {} and {}",
            schema.metric,
            schema.analyzer,
            schema.scorer,
            schema.extractor,
            schema.source_key,
            schema.embedder.as_ref().map_or("unknown".to_string(), |e| format!("{e:?}")),
            schema.components,
            f64::from(schema.leg_weights.vector) / 1e3,
            f64::from(schema.leg_weights.text) / 1e3,
            f64::from(schema.leg_weights.graph) / 1e3
        ),
    );
    for (i, s) in c.segments.iter().enumerate() {
        let dead = s
            .tombstones
            .as_ref()
            .map_or("none dead".to_string(), |t| format!("{} dead as {} says at byte {}", t.dead, FileName::Tombstones(t.file), t.offset));
        findings.field(
            format!("collection {index} segment {i}"),
            format_args!(
                "{} at byte {}, {} bytes, checksum {:#010x}, seqs {} to {}, {} rows, {} vectors, {} tokens, {dead}",
                FileName::Segments(s.file),
                s.offset,
                s.length,
                s.crc,
                s.base_seq,
                s.last_seq,
                s.rows,
                s.vectors,
                s.tokens
            ),
        );
    }
}
