//! A peer's index in a process of its own, asked over a pipe.

use crate::curve::Side;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;
use triune_benches::Failure;

pub(crate) struct Peer {
    engine: String,
    m: u16,
    child: Child,
    questions: ChildStdin,
    answers: BufReader<ChildStdout>,
    remark: String,
    /// How long building took, by its own clock: now, or when its index was kept.
    built: Duration,
    /// Microseconds of a call into an index of a single vector: what Python costs.
    overhead: f64,
}

impl Peer {
    pub(crate) fn start(
        python: &Path,
        program: &Path,
        data: &Path,
        engine: &str,
        m: u16,
        efc: u32,
        keep: Option<&Path>,
    ) -> Result<Peer, Failure> {
        let mut command = Command::new(python);
        command.arg(program).arg("--folder").arg(data).args(["--engine", engine, "--m", &m.to_string(), "--efc", &efc.to_string()]);
        keep.into_iter().for_each(|keep| {
            command.arg("--keep").arg(keep);
        });
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let (questions, answers) = (child.stdin.take().ok_or("no stdin")?, child.stdout.take().ok_or("no stdout")?);
        let answers = BufReader::new(answers);
        let mut peer =
            Peer { engine: engine.into(), m, child, questions, answers, remark: String::new(), built: Duration::ZERO, overhead: 0.0 };
        let built = peer.line()?;
        let (wall, cpu) = (built["build_s"].as_f64().unwrap_or(f64::NAN), built["cpu_s"].as_f64().unwrap_or(f64::NAN));
        peer.built = Duration::try_from_secs_f64(wall)?;
        let mut calls = Vec::new();
        for _ in 0..3 {
            calls.push(peer.ask(0)?.1);
        }
        calls.sort_by(f64::total_cmp);
        peer.overhead = calls[1];
        peer.remark = format!("built in {wall:.1} s ({cpu:.0} s of processor), {:.1} us a call taken off", peer.overhead);
        Ok(peer)
    }

    pub(crate) fn built(&self) -> Duration {
        self.built
    }

    fn ask(&mut self, ef: usize) -> Result<(f64, f64), Failure> {
        writeln!(self.questions, "{ef}")?;
        self.questions.flush()?;
        let answer = self.line()?;
        Ok((answer["recall"].as_f64().ok_or("no recall")?, answer["us"].as_f64().ok_or("no time")?))
    }

    fn line(&mut self) -> Result<serde_json::Value, Failure> {
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        Ok(serde_json::from_str(&line).map_err(|e| format!("{} said {line:?}: {e}", self.engine))?)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Side for Peer {
    fn name(&self) -> String {
        format!("{} M{}", self.engine, self.m)
    }

    fn peer(&self) -> Option<String> {
        Some(self.engine.clone())
    }

    fn widths(&self) -> Vec<usize> {
        vec![10, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1_024]
    }

    fn remark(&self) -> String {
        self.remark.clone()
    }

    fn pass(&mut self, ef: usize) -> Result<(f64, f64), Failure> {
        let (recall, us) = self.ask(ef)?;
        Ok((recall, us - self.overhead))
    }
}
