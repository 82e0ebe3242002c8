//! SIGKILL at any moment: what was acknowledged is there, the rest is a prefix of what was asked, and the next process goes on at once.

use crate::support::{
    Random, State, checked, committed, line, nothing_left_over, opens_twice, read, run, settle, size, states_after, triune,
};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// What the rounds came to.
#[derive(Debug, Default)]
struct Counts {
    rounds: u64,
    killed: u64,
    of_loads: u64,
    of_deletes: u64,
    of_compactions: u64,
    of_recoveries: u64,
    acknowledged: u64,
    /// Lines that were there although their acknowledgement never came.
    unacknowledged: u64,
    replaying_opens: u64,
    torn_tails: u64,
}

struct World {
    path: PathBuf,
    state: State,
    /// The number of the next line.
    next: u64,
    random: Random,
    counts: Counts,
    /// How long a compaction or a recovery takes when nobody kills it.
    usual: Duration,
}

#[test]
fn a_kill_at_any_moment_loses_nothing_acknowledged() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("db");
    run(&path, "create", &[]);
    let begun = Instant::now();
    run(&path, "compact", &[]);
    let usual = begun.elapsed();
    let mut world = World { path, state: State::new(), next: 1, random: Random::new("kill"), counts: Counts::default(), usual };
    for round in 0..size("TRIUNE_ROUNDS", 15, 1000) {
        world.round(round);
    }
    println!("kill: {:?}", world.counts);
    let counts = &world.counts;
    assert!(counts.killed > 0 && counts.acknowledged > 0 && counts.replaying_opens > 0, "{counts:?}");
}

impl World {
    fn round(&mut self, round: u64) {
        let about = format!("round {round}");
        self.counts.rounds += 1;
        let killed = match self.random.below(10) {
            0..=5 => {
                let killed = self.load(&about);
                self.counts.of_loads += u64::from(killed);
                killed
            }
            6 => {
                let killed = self.delete(&about);
                self.counts.of_deletes += u64::from(killed);
                killed
            }
            7 => {
                let killed = self.without_effect("compact", &[], &about);
                self.counts.of_compactions += u64::from(killed);
                killed
            }
            _ => {
                // Nothing to load: it opens, which recovers what the round before left, and closes.
                let killed = self.without_effect("load", &["-"], &about);
                self.counts.of_recoveries += u64::from(killed);
                killed
            }
        };
        self.counts.killed += u64::from(killed);
        checked(&self.path, 1, &about);
        // Otherwise the next round finds what the kill left.
        if self.random.below(2) == 0 {
            let (replayed, torn) = opens_twice(&self.path, &self.state, &about);
            self.counts.replaying_opens += u64::from(replayed > 0);
            self.counts.torn_tails += u64::from(torn);
        }
    }

    /// A load of one line a commit, killed some time after some acknowledgement, or while it closes.
    fn load(&mut self, about: &str) -> bool {
        let lines = 1 + self.random.below(40);
        let numbers = self.next..self.next + lines;
        self.next += lines;
        let durability = ["sync", "sync", "buffered"][self.random.below(3) as usize];
        let mut command = triune(&self.path, "load", &["-", "--batch", "1", "--json", "--durability", durability]);
        let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
        // While stdin stays open the load waits for more, so the kill finds it alive.
        let closes = self.random.below(3) == 0;
        let wait_for = if closes { lines } else { self.random.below(lines + 1) };
        let moment = Duration::from_micros(self.random.below(if wait_for == 0 || closes { 30_000 } else { 3_000 }));
        let mut stdin = child.stdin.take().unwrap();
        let fed: Vec<String> = numbers.clone().map(line).collect();
        let feeder = thread::spawn(move || {
            // A killed child reads no further.
            let _ = fed.iter().try_for_each(|line| stdin.write_all(line.as_bytes()));
            (!closes).then_some(stdin)
        });
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut said = Vec::new();
        while (committed(&said) as u64) < wait_for && stdout.read_until(b'\n', &mut said).unwrap() > 0 {}
        let killed = kill(&mut child, moment, about);
        stdout.read_to_end(&mut said).unwrap();
        drop(feeder.join().unwrap());
        let acknowledged = committed(&said);
        let at = settle(&read(&self.path), &states_after(&self.state, numbers.clone()), acknowledged, about);
        self.counts.acknowledged += acknowledged as u64;
        self.counts.unacknowledged += (at - acknowledged) as u64;
        self.state = states_after(&self.state, numbers.take(at)).pop().unwrap();
        killed
    }

    /// A delete of about a tenth of what is there; it is done or not.
    fn delete(&mut self, about: &str) -> bool {
        let remainder = self.random.below(10);
        let goes: Vec<u64> = self.state.values().copied().filter(|n| n % 10 == remainder).collect();
        let filter = serde_json::json!({"n": {"$in": goes}}).to_string();
        let moment = self.moment();
        let mut child = triune(&self.path, "delete", &["--filter", &filter, "--json"]).spawn().unwrap();
        let killed = kill(&mut child, moment, about);
        let mut after = self.state.clone();
        after.retain(|_, n| !goes.contains(n));
        let possible = [self.state.clone(), after];
        let at = settle(&read(&self.path), &possible, usize::from(!killed), about);
        self.state = possible[at].clone();
        killed
    }

    /// A command that changes no document, killed.
    fn without_effect(&mut self, command: &str, rest: &[&str], about: &str) -> bool {
        let moment = self.moment();
        let mut child = triune(&self.path, command, rest).spawn().unwrap();
        let killed = kill(&mut child, moment, about);
        settle(&read(&self.path), std::slice::from_ref(&self.state), 0, about);
        killed
    }

    fn moment(&mut self) -> Duration {
        let usual = self.usual.as_micros() as u64;
        Duration::from_micros(self.random.below(usual * 3 / 2 + 1))
    }
}

/// Kills a child after a while, and waits until it is gone. Whether the kill was what ended it; otherwise it has to have succeeded.
fn kill(child: &mut Child, after: Duration, about: &str) -> bool {
    thread::sleep(after);
    child.kill().unwrap();
    let status = child.wait().unwrap();
    if status.signal() == Some(9) {
        return true;
    }
    let mut stderr = String::new();
    child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    assert!(status.success(), "{about}: {status}: {stderr}");
    false
}

/// A lock that a killed process held is free as soon as the process is gone.
#[test]
fn the_lock_of_a_killed_writer_is_free_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("db");
    run(&path, "create", &[]);
    for _ in 0..3 {
        let mut child = triune(&path, "load", &["-", "--batch", "1", "--json"]).stdin(Stdio::piped()).spawn().unwrap();
        child.stdin.as_mut().unwrap().write_all(line(1).as_bytes()).unwrap();
        let mut said = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut said).unwrap();
        let status = triune(&path, "put", &[r#"{"id":"x"}"#]).output().unwrap().status;
        assert_eq!(status.code(), Some(12), "Locked as long as the writer lives");
        child.kill().unwrap();
        child.wait().unwrap();
        assert_ok(&path);
    }
}

#[track_caller]
fn assert_ok(path: &Path) {
    run(path, "put", &[&line(2).replace('\n', "")]);
    assert_eq!(read(path).len(), 2);
}

/// An unfinished `create` is completed by the next one, and a finished one is there.
#[test]
fn a_kill_amid_create_leaves_nothing_or_a_database() {
    let directory = tempfile::tempdir().unwrap();
    let mut random = Random::new("create");
    let begun = Instant::now();
    run(&directory.path().join("whole"), "create", &[]);
    let usual = begun.elapsed().as_micros() as u64;
    let (mut killed, mut unfinished) = (0, 0);
    let rounds = size("TRIUNE_ROUNDS", 10, 1000);
    for round in 0..rounds {
        let (path, about) = (directory.path().join(round.to_string()), format!("create {round}"));
        let mut child = triune(&path, "create", &[]).spawn().unwrap();
        killed += u64::from(kill(&mut child, Duration::from_micros(random.below(usual + 1)), &about));
        let again = triune(&path, "create", &[]).output().unwrap();
        match again.status.code() {
            Some(0) => unfinished += 1,
            // All of it was there, the collection too.
            code => assert_eq!(code, Some(11), "{about}: {}", String::from_utf8_lossy(&again.stderr)),
        }
        assert_eq!(read(&path), State::new());
        // What a killed process made and nothing names goes at the latest with this.
        run(&path, "compact", &[]);
        nothing_left_over(&path);
        std::fs::remove_dir_all(&path).unwrap();
    }
    println!("create: {rounds} rounds, {killed} killed, {unfinished} to be completed");
}
