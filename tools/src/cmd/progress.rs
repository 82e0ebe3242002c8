//! A bar on stderr for work that has stages: documents merged, vectors linked. Drawn on a terminal only.

use indicatif::{ProgressBar, ProgressStyle};
use triune::{Observer, Progress};

/// The bar of one command.
pub(crate) struct Stages(ProgressBar);

impl Stages {
    /// Nothing is shown yet.
    pub(crate) fn new() -> Stages {
        Stages::after(ProgressBar::no_length())
    }

    /// Goes on with a bar that showed another stage.
    pub(crate) fn after(bar: ProgressBar) -> Stages {
        Stages(bar)
    }

    /// Tells the bar how far the library has come.
    pub(crate) fn observer(&self) -> Observer {
        let bar = self.0.clone();
        Observer::new(move |progress| {
            let (done, of, what) = match progress {
                Progress::Rewritten { done, of } => (done, of, "documents merged"),
                Progress::Linked { done, of } => (done, of, "vectors in the graph"),
                Progress::Taken { documents, .. } => {
                    bar.set_message(format!("{documents} documents read"));
                    return;
                }
                _ => return,
            };
            if bar.message() != what {
                let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {msg} {eta}");
                bar.set_style(style.expect("the template is constant and parses"));
                bar.set_message(what);
                bar.reset_eta();
            }
            bar.set_length(of);
            bar.set_position(done);
        })
    }

    /// Takes the bar away.
    pub(crate) fn clear(&self) {
        self.0.finish_and_clear();
    }
}
