//! Vectors that are stored otherwise than the schema of their collection says.

use super::image::{Image, options};
use super::{Code, assert_clean, check, codes};
use std::sync::Arc;
use triune::format::manifest::Manifest;
use triune::io::SimDirectory;
use triune::maintenance::{LossKind, Salvage, rebuild_directory, write_salvaged};
use triune::{Components, Database, Document, Error, ErrorCode, Schema};

/// One segment with one vector, and a commit after it that only the log has.
fn image(components: Components, logged: f32) -> Image {
    let disk = SimDirectory::new();
    let db = Database::create_with(Arc::new(disk.clone()), options()).unwrap();
    db.create_collection("main", Schema { components, ..Schema::default() }).unwrap();
    db.put("main", vec![Document::new("stored").vector([0.5, 2.0])]).unwrap();
    db.checkpoint().unwrap();
    db.put("main", vec![Document::new("logged").vector([logged, 1.0])]).unwrap();
    drop(db);
    Image { disk: disk.after_kill() }
}

fn says(components: Components) -> impl FnOnce(&mut Manifest) {
    move |manifest| manifest.collections[0].schema.components = components
}

#[test]
fn vectors_of_another_width_than_the_schema_says_are_damage_with_an_address() {
    for (stored, said) in [(Components::F32, Components::F16), (Components::F16, Components::F32)] {
        let image = image(stored, 0.5);
        assert_clean(&image.disk, "what was written");
        let disk = image.with_manifest(says(said));
        assert!(check(&disk, 1).is_clean(), "every checksum holds");
        let report = check(&disk, 2);
        assert_eq!(codes(&report), [Code::Vectors], "{:#?}", report.findings);
        let finding = &report.findings[0];
        assert_eq!(finding.section.as_deref(), Some("Vectors"));
        assert!(finding.detail.contains(stored.as_str()) && finding.detail.contains(said.as_str()), "{}", finding.detail);
        let db = Database::open_read_only_with(Arc::new(disk.clone()), options()).unwrap();
        let main = db.snapshot().collection("main").unwrap();
        let refused = main.nearest(&[1.0, 1.0], None, 1).unwrap_err();
        let Error::Corrupt(damage) = &refused else { panic!("{refused}") };
        assert_eq!((&damage.file, damage.offset), (&finding.file, finding.offset));
        drop((main, db));
        assert_eq!(rebuild_directory(Arc::new(disk.after_kill()), options(), None).unwrap_err().code(), ErrorCode::Corrupt);
    }
}

#[test]
fn a_vector_of_the_log_that_no_schema_would_have_stored_is_damage() {
    let image = image(Components::F32, 0.1);
    let disk = image.with_manifest(|manifest| {
        says(Components::F16)(manifest);
        // Only the log is wrong.
        (manifest.collections[0].segments, manifest.collections[0].documents) = (Vec::new(), 0);
        (manifest.collections[0].vectors, manifest.collections[0].tokens) = (0, 0);
    });
    let report = check(&disk, 2);
    assert!(!report.is_clean() && report.findings.iter().any(|f| f.file.ends_with(".wal")), "{:#?}", report.findings);
    let refused = Database::open_read_only_with(Arc::new(disk), options()).unwrap_err();
    assert!(matches!(&refused, Error::Corrupt(d) if d.file == image.log() && d.what.contains("component 0")), "{refused}");
}

#[test]
fn salvage_keeps_every_number_whatever_the_schema_says() {
    for (stored, said, logged) in
        [(Components::F16, Components::F16, 0.5), (Components::F32, Components::F16, 0.1), (Components::F16, Components::F32, 0.5)]
    {
        let disk = image(stored, logged).with_manifest(says(said));
        let survey = Salvage::survey(&disk).unwrap();
        let new = SimDirectory::new();
        let report = write_salvaged(&survey, Arc::new(new.clone()), options()).unwrap();
        assert_eq!(
            report.ledger.iter().any(|loss| loss.kind == LossKind::Collection),
            said == Components::F16 && stored == Components::F32
        );
        let main = Database::open_read_only_with(Arc::new(new), options()).unwrap().snapshot().collection("main").unwrap();
        assert_eq!(main.get("stored").unwrap().unwrap().vector.as_deref(), Some(&[0.5, 2.0][..]));
        assert_eq!(main.get("logged").unwrap().unwrap().vector.as_deref(), Some(&[logged, 1.0][..]));
        assert_eq!(main.schema().components, if stored == said { stored } else { Components::F32 });
    }
}
