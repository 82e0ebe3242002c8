//! Screenings: each source's own candidates, judged as it is configured, and counted afterwards.

use super::{Shelf, Source, counting, embedding, errors_of, ids, stores};
use std::sync::{Arc, Mutex};
use triune::models::{ModelError, ModelErrorKind};
use triune::retrieval::{
    Answer, Dispatcher, Models, Passage, PreScreenConfig, Question, RetrievalConfig, ScreenMaker, SourceEntry, Stage, StageContext,
};
use triune::{Error, Result};

/// Keeps every second passage, or fails.
struct EverySecond {
    told: Arc<Mutex<Vec<String>>>,
    config: PreScreenConfig,
    fails: bool,
}

impl Stage for EverySecond {
    fn name(&self) -> &str {
        "every-second"
    }
    fn apply(&self, _: &StageContext<'_>, passages: Vec<Passage>) -> Result<Vec<Passage>> {
        self.told.lock().unwrap().push(format!("{} of {}", self.config.max_keep, passages.len()));
        if self.fails {
            return Err(ModelError::new(ModelErrorKind::TimedOut, "made to fail").into());
        }
        Ok(passages.into_iter().step_by(2).collect())
    }
}

fn screen(fails: bool) -> (Arc<Mutex<Vec<String>>>, ScreenMaker) {
    let told: Arc<Mutex<Vec<String>>> = Arc::default();
    let of_stages = told.clone();
    let maker: ScreenMaker =
        Arc::new(move |config| Ok(Arc::new(EverySecond { told: of_stages.clone(), config: config.clone(), fails }) as Arc<dyn Stage>));
    (told, maker)
}

fn screened(candidate_k: usize, max_keep: usize) -> RetrievalConfig {
    let prescreen = PreScreenConfig { candidate_k, max_keep, ..Default::default() };
    RetrievalConfig { prescreen: Some(prescreen), ..Default::default() }
}

fn ask(shelf: &Arc<Shelf>, maker: Option<ScreenMaker>, models: Models, sources: Vec<SourceEntry>, token_limit: Option<usize>) -> Answer {
    let dispatcher = Dispatcher::new(stores(shelf), models);
    let dispatcher = match maker {
        Some(maker) => dispatcher.with_screens(maker),
        None => dispatcher,
    };
    dispatcher.ask(&Question { sources, chunks: 6, token_limit, ..Question::new("q") })
}

#[test]
fn only_the_source_that_wants_it_is_screened_and_stays_in_its_place() {
    let shelf = Shelf::tens(&["a", "b", "c"]);
    let (told, maker) = screen(false);
    let sources = vec![SourceEntry::stored("a"), SourceEntry::with("b", screened(7, 3)), SourceEntry::stored("c")];
    let answer = ask(&shelf, Some(maker), embedding().1, sources, None);
    assert_eq!(ids(&answer.passages), ["a0", "a1", "b0", "b2", "b4", "c0", "c1"]);
    assert_eq!(*told.lock().unwrap(), ["3 of 7"], "as many as are to be judged, and none of the others");
    assert!(answer.errors.is_empty());
}

#[test]
fn each_source_is_screened_once_and_as_it_is_configured() {
    let shelf = Shelf::tens(&["a", "b"]);
    let (told, maker) = screen(false);
    let sources = vec![SourceEntry::with("a", screened(4, 2)), SourceEntry::with("b", screened(4, 2))];
    let answer = ask(&shelf, Some(maker), embedding().1, sources, None);
    assert_eq!((ids(&answer.passages), told.lock().unwrap().len()), (vec!["a0", "a2", "b0", "b2"], 2));
}

#[test]
fn no_more_than_max_keep_are_kept_whatever_happens() {
    let shelf = Shelf::tens(&["a", "b"]);
    let sources = || vec![SourceEntry::with("a", screened(8, 3)), SourceEntry::stored("b")];
    let (_, keeping_too_many) = screen(false);
    assert_eq!(ids(&ask(&shelf, Some(keeping_too_many), embedding().1, sources(), None).passages), ["a0", "a2", "a4", "b0", "b1", "b2"]);
    let (_, failing) = screen(true);
    let answer = ask(&shelf, Some(failing), embedding().1, sources(), None);
    assert_eq!(ids(&answer.passages), ["a0", "a1", "a2", "b0", "b1", "b2"]);
    assert_eq!(errors_of(&answer.errors), ["a every-second: Model"]);
}

#[test]
fn a_screen_that_cannot_be_made_is_reported_and_the_first_candidates_go_on() {
    let shelf = Shelf::tens(&["a"]);
    let sources = || vec![SourceEntry::with("a", screened(8, 3))];
    let broken: ScreenMaker = Arc::new(|_| Err(Error::InvalidArgument("made to fail".into())));
    let answer = ask(&shelf, Some(broken), embedding().1, sources(), None);
    assert_eq!(
        (ids(&answer.passages), errors_of(&answer.errors)),
        (vec!["a0", "a1", "a2"], vec!["a pre-screen: InvalidArgument".to_string()])
    );
    let answer = ask(&shelf, None, embedding().1, sources(), None);
    assert_eq!((ids(&answer.passages), errors_of(&answer.errors)), (vec!["a0", "a1", "a2"], vec!["a pre-screen: Model".to_string()]));
}

#[test]
fn candidates_that_are_screened_away_take_nothing_of_the_budget() {
    let (shelf, (_, maker)) = (Shelf::tens(&["a", "b"]), screen(false));
    let sources = vec![SourceEntry::with("a", screened(10, 3)), SourceEntry::stored("b")];
    // 21 tokens each: five stay below 108, of which the three that were kept take the first.
    let answer = ask(&shelf, Some(maker), counting(), sources, Some(120));
    assert_eq!(ids(&answer.passages), ["a0", "a2", "a4", "b0", "b1"]);
}

#[test]
fn a_source_that_finds_nothing_is_not_screened() {
    let shelf = Arc::new(Shelf::new(vec![("a", Source::default())]));
    let (told, maker) = screen(false);
    let answer = ask(&shelf, Some(maker), embedding().1, vec![SourceEntry::with("a", screened(4, 2))], None);
    assert!(answer.passages.is_empty() && answer.errors.is_empty() && told.lock().unwrap().is_empty());
}
