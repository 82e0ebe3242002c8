//! What an edit changes: bytes of a structure, the end of a file, or a value of a manifest.

use super::Files;
use super::layout::{Layout, Site};
use serde_json::Value;
use std::ops::Range;

/// A site as `u16`, a place in it as `u16`, what to do, and a `u32` to do it with.
pub const EDIT_BYTES: usize = 9;

/// Numbers at which something changes.
const EDGES: [u64; 24] = [
    0,
    1,
    2,
    3,
    7,
    8,
    64,
    127,
    128,
    255,
    256,
    4095,
    4096,
    0xffff,
    0x1_0000,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    0x1_0000_0000,
    1 << 53,
    i64::MAX as u64,
    1 << 63,
    u64::MAX - 1,
    u64::MAX,
];

pub fn apply(edit: &[u8; EDIT_BYTES], layout: &Layout, files: &mut Files) {
    let [s0, s1, a0, a1, what, v0, v1, v2, v3] = *edit;
    let site = &layout.sites[usize::from(u16::from_le_bytes([s0, s1])) % layout.sites.len()];
    let at = usize::from(u16::from_le_bytes([a0, a1]));
    let value = u32::from_le_bytes([v0, v1, v2, v3]);
    let file = files.get_mut(&site.file).expect("sites lie in files");
    if site.bytes.end > file.len() {
        return;
    }
    if site.json && what & 0x80 == 0 {
        json(file, site.bytes.start, at, what, value);
    } else {
        bytes(file, site, at, what, value);
    }
}

fn bytes(file: &mut Vec<u8>, site: &Site, at: usize, what: u8, value: u32) {
    let from = site.bytes.start + at % site.bytes.len();
    let edge = EDGES[value as usize % EDGES.len()];
    let Range { start, end } = site.bytes;
    match what % 16 {
        0 => file[from] ^= value as u8 | 1,
        1 => file[from] = value as u8,
        2 => put(file, from..end, &value.to_le_bytes()[..2]),
        3 => put(file, from..end, &value.to_le_bytes()),
        4 => put(file, from..end, &(edge as u16).to_le_bytes()),
        5 => put(file, from & !3..end, &(edge as u32).to_le_bytes()),
        6 => put(file, from & !7..end, &edge.to_le_bytes()),
        7 => add::<4>(file, from & !3..end, u64::from(value)),
        8 => add::<8>(file, from & !7..end, value as i32 as i64 as u64),
        9 => {
            let source = start + value as usize % (end - start);
            let length = (usize::from(what >> 4) * 8 + 8).min(end - from.max(source));
            file.copy_within(source..source + length, from);
        }
        10 => file[from..end.min(from + (value as usize & 0xfff) + 1)].fill((value >> 16) as u8),
        11 => file[from..end].rotate_left(value as usize % (end - from)),
        12 => put(file, from..end, &f32::from_bits(value).to_le_bytes()),
        13 => put(file, from..end, &[0xff; 10][..1 + value as usize % 10]),
        14 => file.truncate(from),
        _ => file.extend(std::iter::repeat_n((value >> 16) as u8, value as usize & 0x1fff)),
    }
}

fn put(file: &mut [u8], within: Range<usize>, bytes: &[u8]) {
    if within.start < within.end {
        let length = bytes.len().min(within.end - within.start);
        file[within.start..within.start + length].copy_from_slice(&bytes[..length]);
    }
}

/// Adds to the number of `N` bytes at the start of a range, if it lies there whole.
fn add<const N: usize>(file: &mut [u8], within: Range<usize>, value: u64) {
    if let Some(number) = file[..within.end].get_mut(within.start..within.start + N) {
        let mut word = [0; 8];
        word[..N].copy_from_slice(number);
        number.copy_from_slice(&u64::from_le_bytes(word).wrapping_add(value).to_le_bytes()[..N]);
    }
}

/// Changes a value of the JSON that stands from `start` to the end of the file.
fn json(file: &mut Vec<u8>, start: usize, at: usize, what: u8, value: u32) {
    let Ok(mut body) = serde_json::from_slice::<Value>(&file[start..]) else { return };
    let mut paths = Vec::new();
    collect(&body, &mut String::new(), &mut paths);
    let Some(path) = at.checked_rem(paths.len()).map(|i| &paths[i]) else { return };
    let other = body.pointer(&paths[value as usize % paths.len()]).cloned().unwrap_or_default();
    let there = body.pointer_mut(path).expect("it was found");
    let edge = EDGES[value as usize % EDGES.len()];
    // A number keeps its form: 64-bit ones are strings.
    let numbered = |n: u64| if there.is_number() { Value::from(n) } else { Value::from(n.to_string()) };
    let old = there.as_u64().or_else(|| there.as_str()?.parse().ok()).unwrap_or(0);
    match what % 8 {
        0 => *there = numbered(edge),
        1 => *there = numbered(u64::from(value)),
        2 => *there = numbered(old.wrapping_add(value as i32 as i64 as u64)),
        3 => *there = other,
        4 => *there = Value::Null,
        5 => match there {
            Value::Array(items) => drop(items.pop()),
            Value::Object(members) => {
                if let Some(key) = members.keys().nth(value as usize % members.len().max(1)).cloned() {
                    members.remove(&key);
                }
            }
            Value::String(text) => text.push_str(&"x".repeat(value as usize & 0x7ff)),
            _ => *there = Value::Bool(true),
        },
        6 => match there {
            Value::Array(items) if !items.is_empty() => {
                let copy = items[value as usize % items.len()].clone();
                items.push(copy);
            }
            Value::Array(items) => items.push(other),
            _ => *there = Value::from(""),
        },
        _ => match there {
            Value::Array(items) if !items.is_empty() => {
                let by = value as usize % items.len();
                items.rotate_left(by);
            }
            _ => *there = Value::from(value as f32),
        },
    }
    file.truncate(start);
    serde_json::to_writer(file, &body).expect("memory takes it");
}

/// The pointers to every value.
fn collect(value: &Value, path: &mut String, paths: &mut Vec<String>) {
    paths.push(path.clone());
    let length = path.len();
    let mut inside = |step: String, value: &Value, path: &mut String| {
        path.push('/');
        path.push_str(&step);
        collect(value, path, paths);
        path.truncate(length);
    };
    match value {
        Value::Array(items) => items.iter().enumerate().for_each(|(i, v)| inside(i.to_string(), v, path)),
        Value::Object(members) => members.iter().for_each(|(k, v)| inside(k.replace('~', "~0").replace('/', "~1"), v, path)),
        _ => {}
    }
}
