//! How steps are drawn: what is common comes often, what is refused comes now and then.

use super::operations::{CROWD, Call, Draft, Settings, Step, Work, id};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

fn draft() -> impl Strategy<Value = Draft> {
    let vector = option::weighted(0.6, (any::<u8>(), [-2i8..3, -2i8..3, -2i8..3]));
    let words = vec(any::<u8>(), 0..6);
    let metadata = option::weighted(0.6, any::<(u8, u8)>());
    let source = option::weighted(0.25, any::<u8>());
    let graph = (option::weighted(0.25, vec(any::<(u8, u8)>(), 0..4)), option::weighted(0.25, vec(any::<(u8, u8, u8)>(), 0..4)));
    (any::<u8>(), words, metadata, vector, source, graph).prop_map(|(id, words, metadata, vector, source, (entities, relations))| Draft {
        id,
        words,
        metadata,
        vector,
        source,
        entities,
        relations,
    })
}

fn drafts(most: usize) -> impl Strategy<Value = Vec<Draft>> {
    // Two of one id in a call refuse the batch; mostly they do not.
    (vec(draft(), 0..=most), any::<u8>()).prop_map(|(mut drafts, strict)| {
        if strict > 12 {
            let mut seen = std::collections::BTreeSet::new();
            drafts.retain(|d| seen.insert(id(d.id)));
        }
        drafts
    })
}

fn call() -> impl Strategy<Value = Call> {
    let t = any::<u8>;
    prop_oneof![
        14 => (t(), drafts(8)).prop_map(|(target, drafts)| Call::Put { target, drafts }),
        3 => (t(), drafts(4), 0u8..8).prop_map(|(target, drafts, strict)| Call::Insert { target, drafts, strict }),
        5 => (t(), vec((draft(), 0u8..8), 0..4), 0u8..8).prop_map(|(target, drafts, strict)| Call::Patch { target, drafts, strict }),
        4 => (t(), vec(any::<u8>(), 0..4)).prop_map(|(target, ids)| Call::Delete { target, ids }),
        4 => (t(), vec(any::<u8>(), 0..16)).prop_map(|(target, choices)| Call::DeleteWhere { target, choices }),
        2 => (t(), any::<u8>()).prop_map(|(target, source)| Call::DeleteSource { target, source }),
        3 => (t(), any::<u8>(), drafts(4), 0u8..6)
            .prop_map(|(target, source, drafts, strict)| Call::ReplaceSource { target, source, drafts, strict }),
        1 => t().prop_map(|target| Call::Clear { target }),
        2 => crowd(),
        1 => (t(), 0u8..9, t()).prop_map(|(target, eighths, seed)| Call::Thin { target, eighths, seed }),
        5 => catalog(),
    ]
}

fn crowd() -> impl Strategy<Value = Call> {
    (any::<u8>(), 1u8..=CROWD, any::<u8>()).prop_map(|(target, count, seed)| Call::Crowd { target, count, seed })
}

/// What changes which collections there are.
fn catalog() -> impl Strategy<Value = Call> {
    let t = any::<u8>;
    prop_oneof![
        2 => (t(), t(), t(), any::<bool>(), any::<bool>(), proptest::bool::weighted(0.25))
            .prop_map(|(name, dimension, metric, scorer, key, plain)| Call::Create { name, dimension, metric, scorer, key, plain }),
        1 => t().prop_map(|target| Call::Drop { target }),
        1 => (t(), t()).prop_map(|(target, to)| Call::Rename { target, to }),
        1 => (t(), t()).prop_map(|(a, b)| Call::Swap { a, b }),
    ]
}

fn batch() -> impl Strategy<Value = Vec<Call>> {
    prop_oneof![
        24 => vec(call(), 1..2),
        12 => vec(call(), 2..5),
        2 => vec(prop_oneof![catalog(), call()], 3..7),
        1 => Just(Vec::new()),
    ]
}

/// A batch that leaves something to flush.
fn growth() -> impl Strategy<Value = Vec<Call>> {
    (0u8..250, drafts(5), vec(any::<u8>(), 0..3)).prop_map(|(target, drafts, ids)| {
        let more = Draft {
            id: ids.len() as u8,
            words: vec![0, 1, 3],
            metadata: None,
            vector: None,
            source: None,
            entities: None,
            relations: None,
        };
        vec![Call::Delete { target, ids }, Call::Put { target, drafts: vec![more] }, Call::Put { target, drafts }]
    })
}

fn oversize() -> impl Strategy<Value = Vec<Call>> {
    let oversize = || (0u8..200, vec(any::<u8>(), 2..4)).prop_map(|(target, ids)| Call::Oversize { target, ids });
    prop_oneof![oversize().prop_map(|o| vec![o]), (call(), oversize(), call()).prop_map(|(a, o, b)| vec![a, o, b]),]
}

pub fn settings() -> impl Strategy<Value = Settings> {
    let rarely = proptest::bool::weighted;
    let graph_vectors = prop_oneof![3 => Just(0u8), 3 => Just(4u8), 1 => 1u8..40];
    (rarely(0.35), rarely(0.15), 2u8..4, any::<bool>(), any::<bool>(), rarely(0.3), graph_vectors).prop_map(
        |(tiny_memtable, tiny_log, fan_in, pread, buffered, tiny_records, graph_vectors)| Settings {
            tiny_memtable,
            tiny_log,
            fan_in,
            pread,
            buffered,
            tiny_records,
            graph_vectors,
        },
    )
}

fn work() -> impl Strategy<Value = Work> {
    prop_oneof![3 => Just(Work::Checkpoint), 2 => Just(Work::Merge), 2 => Just(Work::Compact)]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        300 => batch().prop_map(Step::Commit),
        3 => oversize().prop_map(Step::Commit),
        30 => vec(batch(), 1..5).prop_map(Step::Group),
        15 => (prop_oneof![Just(0u16), 0u16..600, 0u16..20_000], vec(batch(), 1..4), work())
            .prop_map(|(room, batches, work)| Step::Full { room, batches, work }),
        30 => Just(Step::Checkpoint),
        15 => Just(Step::Merge),
        12 => Just(Step::Compact),
        40 => (work(), 0u8..4, vec(growth(), 1..4), vec(batch(), 1..4))
            .prop_map(|(work, at, before, batches)| Step::Amid { work, at, before, batches }),
        2 => (work(), 0u8..3, vec(growth(), 1..3), oversize(), batch())
            .prop_map(|(work, at, before, o, b)| Step::Amid { work, at, before, batches: vec![o, b] }),
        12 => settings().prop_map(Step::Close),
        20 => (settings(), any::<bool>()).prop_map(|(settings, kill)| Step::Vanish { settings, kill }),
        30 => Just(Step::Keep),
        8 => any::<u8>().prop_map(Step::Forget),
        20 => settings().prop_map(|settings| Step::Read { settings }),
        3 => Just(Step::StopReading),
    ]
}

/// A run: the first settings, and at most `most` steps.
pub fn run(most: usize) -> impl Strategy<Value = (Settings, Vec<Step>)> {
    (settings(), vec(step(), 1..=most))
}
