//! A running program and its three pipes, each with a thread, so that nobody waits for a program longer than he wants to.

use crate::connections::waiting::receive;
use crate::models::{Call, ModelError};
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, SyncSender, TryRecvError};
use std::thread::Builder;
use std::time::{Duration, Instant};

/// How long a program that is not needed any more has to end by itself once its input has ended.
const FAREWELL: Duration = Duration::from_millis(200);

/// A line that a program wrote, or why there is none.
pub(super) type Line = Result<Vec<u8>, NoLine>;

/// Why there is no line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoLine {
    /// The output ended.
    Ended,
    /// The line is longer than it may be.
    TooLong,
}

/// A running program.
#[derive(Debug)]
pub(super) struct Running {
    child: Child,
    /// To the thread that writes; dropped to end the program's input.
    input: Option<Sender<Vec<u8>>>,
    lines: Receiver<Line>,
}

impl Running {
    /// Starts a program.
    ///
    /// # Errors
    /// What the operating system says: the program is not there, or there is no room for it.
    pub(super) fn start(words: &[String], line_bytes_max: u64) -> std::io::Result<Running> {
        let (program, arguments) = words.split_first().ok_or(std::io::ErrorKind::NotFound)?;
        let mut child =
            Command::new(program).args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let (Some(stdin), Some(stdout), Some(stderr)) = (child.stdin.take(), child.stdout.take(), child.stderr.take()) else {
            return Err(std::io::ErrorKind::BrokenPipe.into());
        };
        let (input, to_write) = std::sync::mpsc::channel();
        // One line is asked for at a time; a program that talks on its own is held up by its pipe, not kept in memory.
        let (read, lines) = std::sync::mpsc::sync_channel(1);
        // From here on `Drop` ends the program, whatever fails.
        let running = Running { child, input: Some(input), lines };
        Builder::new().name("triune-cmd-in".into()).spawn(move || write_all(stdin, &to_write))?;
        Builder::new().name("triune-cmd-out".into()).spawn(move || read_lines(stdout, &read, line_bytes_max))?;
        Builder::new().name("triune-cmd-err".into()).spawn(move || drain(stderr))?;
        Ok(running)
    }

    /// Gives the program a line. Never waits; whether it arrived shows in the answer.
    pub(super) fn say(&self, line: Vec<u8>) {
        if let Some(input) = &self.input {
            let _ = input.send(line);
        }
    }

    /// The next line of the program.
    ///
    /// # Errors
    /// `Cancelled` or `TimedOut`, by `call`.
    pub(super) fn hear(&self, call: &Call<'_>) -> Result<Line, ModelError> {
        Ok(receive(call, &self.lines)?.unwrap_or(Err(NoLine::Ended)))
    }

    /// The program, if it runs and has said no more than it was asked for; ended otherwise.
    pub(super) fn if_ready(mut self) -> Option<Running> {
        let ready = matches!(self.child.try_wait(), Ok(None)) && matches!(self.lines.try_recv(), Err(TryRecvError::Empty));
        if !ready {
            self.kill();
        }
        ready.then_some(self)
    }

    /// How the program ended, waiting a moment for it; `None` when it has not.
    pub(super) fn ended(&mut self) -> Option<String> {
        let end = Instant::now() + FAREWELL;
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => {
                    let code = status.code().map_or("by a signal".to_string(), |code| format!("with the exit code {code}"));
                    return Some(code);
                }
                Ok(None) if Instant::now() < end => std::thread::sleep(Duration::from_millis(5)),
                Ok(None) | Err(_) => return None,
            }
        }
    }

    /// Ends the program at once: its next line would be the answer to what nobody asks any more.
    pub(super) fn kill(&mut self) {
        self.input = None;
        // It fails for a program that has ended, which is as well.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.input = None;
        if self.ended().is_none() {
            self.kill();
        }
    }
}

fn write_all(mut stdin: impl Write, lines: &Receiver<Vec<u8>>) {
    for line in lines {
        if stdin.write_all(&line).and_then(|()| stdin.flush()).is_err() {
            return;
        }
    }
}

fn read_lines(stdout: impl Read, lines: &SyncSender<Line>, line_bytes_max: u64) {
    let mut stdout = BufReader::new(stdout);
    loop {
        let mut line = Vec::new();
        let read = stdout.by_ref().take(line_bytes_max.saturating_add(1)).read_until(b'\n', &mut line);
        let heard = match read {
            Ok(_) if line.last() == Some(&b'\n') => Ok(line),
            Ok(_) if line.len() as u64 > line_bytes_max => Err(NoLine::TooLong),
            Ok(_) | Err(_) => Err(NoLine::Ended),
        };
        let over = heard.is_err();
        if lines.send(heard).is_err() || over {
            return;
        }
    }
}

/// What a program says on the side is not kept: it may repeat what it was given.
fn drain(mut stderr: impl Read) {
    let _ = std::io::copy(&mut stderr, &mut std::io::sink());
}
