//! The child process that reads files, and both ends of the pipe to it.
//!
//! A request is the kind (one byte), the length (u64, little-endian) and the bytes of a file; an answer is a length and JSON: the answer
//! proper, and whether it is the child's last. The child limits its own memory and time, and a panic is an answer like any other; when it dies all the same (a stack overflow, no memory left), the
//! parent says so of that file and starts another for the next. It is started with the first file that has to be read.

use super::Extracted;
use super::chunk::Cutting;
use super::extract::extract;
use super::kind::SourceType;
use clap::ValueEnum;
use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitCode, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

/// Memory of the child beyond what the size of its files asks for.
const MEMORY_BYTES: u64 = 2 << 30;

/// Parsers that nest calls as a file nests its parts need a deep stack.
const STACK_BYTES: usize = 64 << 20;

/// How the child is started. Not for people.
#[derive(Debug, clap::Args)]
pub(crate) struct WorkerArgs {
    #[command(flatten)]
    pub(crate) cutting: Cutting,
    /// Bytes of memory
    #[arg(long)]
    memory: u64,
    /// Seconds a file
    #[arg(long)]
    seconds: u64,
}

/// What the child says of one file: its chunks, or a reason.
type Answer = Result<Extracted, String>;

/// The parent's end.
pub(crate) struct Worker {
    args: WorkerArgs,
    running: Option<Running>,
}

struct Running {
    child: Child,
    requests: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Worker {
    /// For files of at most `bytes_max`, each read within so many seconds. Nothing is started yet.
    pub(crate) fn new(cutting: Cutting, bytes_max: u64, seconds: u64) -> Worker {
        let memory = MEMORY_BYTES.saturating_add(bytes_max.saturating_mul(16));
        Worker { args: WorkerArgs { cutting, memory, seconds }, running: None }
    }

    /// The chunks of a file, or why it has none. An I/O error: there is no child to ask.
    pub(crate) fn ask(&mut self, kind: SourceType, bytes: &[u8]) -> io::Result<Answer> {
        let running = match &mut self.running {
            Some(running) => running,
            none => none.insert(start(&self.args)?),
        };
        let asked = running.ask(kind, bytes);
        if let Ok((answer, false)) = asked {
            return Ok(answer);
        }
        // It has no time left, or died; the next file is none of its business.
        let status = self.stop()?;
        match asked {
            Ok((answer, _)) => Ok(answer),
            Err(_) => {
                Ok(Err(format!("its parser ended in the middle ({status}); it may have asked for too much memory or too deep a stack")))
            }
        }
    }

    /// Ends the child: without requests it goes by itself.
    fn stop(&mut self) -> io::Result<String> {
        let Some(mut running) = self.running.take() else { return Ok(String::new()) };
        drop(running.requests.take());
        Ok(running.child.wait()?.to_string())
    }
}

impl Running {
    /// The answer, and whether it is the last that this child gives.
    fn ask(&mut self, kind: SourceType, bytes: &[u8]) -> io::Result<(Answer, bool)> {
        let pipe = self.requests.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        pipe.write_all(&[kind as u8])?;
        pipe.write_all(&(bytes.len() as u64).to_le_bytes())?;
        pipe.write_all(bytes)?;
        pipe.flush()?;
        let answer = read_frame(&mut self.answers)?.ok_or(io::ErrorKind::UnexpectedEof)?;
        Ok(serde_json::from_slice(&answer)?)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.stop();
    }
}

fn start(args: &WorkerArgs) -> io::Result<Running> {
    let WorkerArgs { cutting, memory, seconds } = args;
    let unit = cutting.unit.to_possible_value().expect("every unit has a name");
    let mut command = Command::new(std::env::current_exe()?);
    command
        .args(["ingest-worker", "--chunk-size", &cutting.size.to_string(), "--chunk-overlap", &cutting.overlap.to_string()])
        .args(["--chunk-unit", unit.get_name(), "--memory", &memory.to_string(), "--seconds", &seconds.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    // Ctrl-C is the parent's to answer; it may want the file that is being read.
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    let mut child = command.spawn()?;
    let requests = child.stdin.take();
    let answers = BufReader::new(child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?);
    Ok(Running { child, requests, answers })
}

/// The child's end: answers until there are no more requests.
pub(crate) fn serve(args: &WorkerArgs) -> ExitCode {
    let Ok(mut answers) = confine(args.memory) else { return ExitCode::FAILURE };
    // A panic is told in the answer; nobody reads this stderr.
    std::panic::set_hook(Box::new(|_| {}));
    let mut requests = io::stdin().lock();
    let cutting = args.cutting;
    while let Ok(Some((kind, bytes))) = read_request(&mut requests) {
        let (answer, over) = within(Duration::from_secs(args.seconds), move || extract(kind, &bytes, cutting));
        let written = serde_json::to_vec(&(answer, over)).map_err(io::Error::from).and_then(|json| write_frame(&mut answers, &json));
        // What took too long still runs: only the end of the process ends it.
        if written.is_err() || over {
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

/// Runs `work` on a thread of its own. The flag says that it ran out of time, and still runs.
fn within(time: Duration, work: impl FnOnce() -> Answer + Send + 'static) -> (Answer, bool) {
    let (sender, receiver) = mpsc::channel();
    let run = move || {
        let answer = catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(format!("its parser failed: {}", message(&*panic))));
        // Nobody waits any more when the time is over.
        let _ = sender.send(answer);
    };
    if let Err(e) = std::thread::Builder::new().stack_size(STACK_BYTES).spawn(run) {
        return (Err(format!("no thread could be started to read it: {e}")), false);
    }
    match receiver.recv_timeout(time) {
        Ok(answer) => (answer, false),
        Err(RecvTimeoutError::Timeout) => (Err(format!("reading it took longer than the {} s of --max-seconds", time.as_secs())), true),
        Err(RecvTimeoutError::Disconnected) => (Err("its parser failed".into()), false),
    }
}

fn message(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("without saying why")
}

/// Limits the memory of this process, lets it die with its parent, and keeps its stdout for answers: what a parser prints goes nowhere. Where
/// the system does not know such a limit, only the time is limited.
#[cfg(unix)]
fn confine(memory: u64) -> io::Result<File> {
    use rustix::process::{Resource, Rlimit, setrlimit};
    use std::os::fd::AsFd;
    let _ = setrlimit(Resource::As, Rlimit { current: Some(memory), maximum: Some(memory) });
    let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
    let answers = io::stdout().as_fd().try_clone_to_owned()?;
    rustix::stdio::dup2_stdout(io::stderr())?;
    Ok(File::from(answers))
}

/// Elsewhere only the time is limited.
#[cfg(not(unix))]
fn confine(_memory: u64) -> io::Result<io::Stdout> {
    Ok(io::stdout())
}

fn read_request(from: &mut impl Read) -> io::Result<Option<(SourceType, Vec<u8>)>> {
    let mut kind = [0];
    if from.read(&mut kind)? == 0 {
        return Ok(None);
    }
    let kind = KINDS.into_iter().find(|k| *k as u8 == kind[0]).ok_or(io::ErrorKind::InvalidData)?;
    Ok(read_frame(from)?.map(|bytes| (kind, bytes)))
}

const KINDS: [SourceType; 9] = [
    SourceType::Pdf,
    SourceType::Text,
    SourceType::Markdown,
    SourceType::Docx,
    SourceType::Json,
    SourceType::Csv,
    SourceType::Html,
    SourceType::Code,
    SourceType::Unknown,
];

fn write_frame(to: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    to.write_all(&(bytes.len() as u64).to_le_bytes())?;
    to.write_all(bytes)?;
    to.flush()
}

/// Nothing at the end.
fn read_frame(from: &mut impl Read) -> io::Result<Option<Vec<u8>>> {
    let mut length = [0; 8];
    match from.read_exact(&mut length) {
        Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        other => other?,
    }
    let length = u64::from_le_bytes(length);
    let mut bytes = Vec::new();
    match from.take(length).read_to_end(&mut bytes)? as u64 == length {
        true => Ok(Some(bytes)),
        false => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_and_a_parser_without_end_are_answers() {
        let (answer, over) = within(Duration::from_secs(60), || panic!("boom {}", 1));
        assert!(answer.is_err_and(|e| e.contains("boom 1")) && !over);
        let (answer, over) = within(Duration::from_millis(10), || {
            loop {
                std::thread::park();
            }
        });
        assert!(answer.is_err_and(|e| e.contains("took longer")) && over);
    }

    #[test]
    fn frames_come_back_whole_or_as_an_error() {
        let mut pipe = Vec::new();
        write_frame(&mut pipe, b"abc").expect("a vector takes it");
        assert_eq!(read_frame(&mut &pipe[..]).expect("it is whole"), Some(b"abc".to_vec()));
        assert!(read_frame(&mut &pipe[..pipe.len() - 1]).is_err());
        assert_eq!(read_frame(&mut &pipe[..0]).expect("it is the end"), None);
    }

    #[test]
    fn every_kind_has_a_number_of_its_own() {
        for kind in KINDS {
            let request = [&[kind as u8][..], &[0; 8]].concat();
            assert_eq!(read_request(&mut &request[..]).expect("it is whole"), Some((kind, Vec::new())));
        }
    }
}
