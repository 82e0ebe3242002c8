//! The real thing: the real binary on a real file system, killed, starved of disk space, failed by the kernel and read by other processes.
//!
//! `cargo test` runs a slice of each. `TRIUNE_SWEEP=full` runs all; `TRIUNE_ROUNDS=N` and `TRIUNE_SECONDS=N` set sizes one by one,
//! `TRIUNE_SEED=N` draws other moments. `--nocapture` prints what was counted.
//!
//! | file | holds |
//! | --- | --- |
//! | `support.rs` | running the binary, documents told by a number, and the state that a database must be in |
//! | `kill.rs` | SIGKILL at random moments of loads, deletes, compactions and recoveries |
//! | `syscalls.rs` | every system call that writes fails once, or is the last one (needs `strace`) |
//! | `stands.rs` | what a failing call left, beside what the message says of it (needs `strace`) |
//! | `full_disk.rs` | a file system that is full (needs to be allowed to mount a tmpfs of its own) |
//! | `processes.rs` | a writer that is killed and started again, and readers beside it |

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop where it stands")]
#![allow(clippy::print_stdout, reason = "these tests print what they counted")]

mod full_disk;
mod kill;
mod processes;
mod stands;
mod support;
mod syscalls;
