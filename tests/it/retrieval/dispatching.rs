//! The dispatcher: groups, shares, one budget, stages, and partial answers beside errors.

use super::{Lengths, Replies, Shelf, Source, counting, embedding, errors_of, ids, stores};
use std::sync::{Arc, Mutex};
use triune::models::{Call, Cancellation, ModelError, ModelErrorKind, Purpose, UsageLedger};
use triune::retrieval::{
    Answer, ClassicRetriever, Dispatcher, Models, Passage, Question, Registry, Request, RetrievalConfig, Retrieved, Retriever,
    SourceConfig, SourceEntry, SourceRequest, Stage, StageContext, Turn,
};
use triune::{Error, Result};

fn by(retriever: &str, chunks: usize) -> RetrievalConfig {
    RetrievalConfig { retriever: retriever.into(), chunks, ..Default::default() }
}

fn entries(of: &[(&str, &str)]) -> Vec<SourceEntry> {
    of.iter().map(|(id, retriever)| SourceEntry::with(*id, by(retriever, 2))).collect()
}

fn dispatcher(shelf: &Arc<Shelf>, models: Models) -> Dispatcher {
    Dispatcher::new(stores(shelf), models)
}

/// Says what it is given and gives it on, or does something else.
struct Does<F>(&'static str, F);

impl<F: Fn(&StageContext<'_>, Vec<Passage>) -> Result<Vec<Passage>> + Send + Sync> Stage for Does<F> {
    fn name(&self) -> &str {
        self.0
    }
    fn apply(&self, context: &StageContext<'_>, passages: Vec<Passage>) -> Result<Vec<Passage>> {
        (self.1)(context, passages)
    }
}

fn stage(
    name: &'static str,
    does: impl Fn(&StageContext<'_>, Vec<Passage>) -> Result<Vec<Passage>> + Send + Sync + 'static,
) -> Arc<dyn Stage> {
    Arc::new(Does(name, does))
}

/// A retriever of the caller's own, which gives everything it can.
struct Everything;

impl Retriever for Everything {
    fn name(&self) -> &str {
        "everything"
    }
    fn search(&self, request: &Request<'_>) -> Retrieved {
        let mut all = Retrieved::default();
        for source in request.asked() {
            let question = request.question_for(source);
            let vector = request.vector_of(&question).unwrap();
            for found in request.store(&source.id).unwrap().dense(&request.call, &source.id, &vector, 99, None).unwrap() {
                all.passages.push(Passage { id: found.id.clone(), text: found.id, source_id: source.id.clone(), ..Passage::default() });
            }
        }
        all
    }
}

#[test]
fn when_every_source_is_classic_the_answer_equals_the_classic_retrievers_field_for_field() {
    let mut failing = Source::of("c", 5).failing("dense");
    failing.metadata = Some("{}".into());
    let sources = vec![("a", Source::of("a", 12)), ("b", Source::of("b", 12)), ("c", failing), ("d", Source::of("d", 12))];
    let turns = [Turn::new("before?", "Before.")];
    let configs = [
        RetrievalConfig::default(),
        by("DEFAULT", 5),
        RetrievalConfig { score_threshold: Some(0.75), rephrase_query: false, ..by("", 4) },
        by("Classic", 2),
    ];
    for (limit, chunks) in [(None, 2), (Some(150), 9), (Some(400), 40), (Some(1), 3), (None, 0)] {
        let shelf = Arc::new(Shelf::new(sources.clone()));
        let models = Models { language_model: Some(Replies::with("rewritten")), ..counting() };
        let requests = |ids: [&str; 4]| ids.iter().zip(&configs).map(|(id, c)| (id.to_string(), c.clone())).collect::<Vec<_>>();
        let named = requests(["a", "b", "c", "d"]);
        let stores = stores(&shelf);
        let mut request = Request::new("and then?", &stores, &models);
        (request.history, request.chunks, request.token_limit) = (&turns, chunks, limit);
        request.sources = named.iter().map(|(id, config)| SourceRequest { id: id.clone(), config: config.clone() }).collect();
        let plain = ClassicRetriever.search(&request);
        let question = Question {
            history: &turns,
            sources: named.into_iter().map(|(id, config)| SourceEntry::with(id, config)).collect(),
            chunks,
            token_limit: limit,
            ..Question::new("and then?")
        };
        let answer = dispatcher(&shelf, models.clone()).ask(&question);
        assert_eq!(answer.passages, plain.passages, "limit {limit:?}, chunks {chunks}");
        assert_eq!((answer.notes, errors_of(&answer.errors)), (plain.notes, errors_of(&plain.errors)));
        assert!(chunks == 0 || !answer.passages.is_empty());
    }
}

#[test]
fn groups_answer_in_the_order_of_their_retrievers_and_each_divides_what_is_asked_for() {
    let mut keyword = Source::of("h", 9);
    keyword.keyword = vec!["h5".into()];
    let shelf = Arc::new(Shelf::new(vec![("a", Source::of("a", 9)), ("h", keyword), ("b", Source::of("b", 9)), ("x", Source::of("x", 9))]));
    let question = Question {
        sources: entries(&[("h", "hybrid"), ("a", "classic"), ("b", "default")]),
        active: vec!["x".into(), "a".into()],
        chunks: 3,
        ..Question::new("q")
    };
    let answer = dispatcher(&shelf, embedding().1).ask(&question);
    assert_eq!(ids(&answer.passages), ["h5", "h0", "h1", "a0", "b0", "x0"]);
    assert!(answer.errors.is_empty());
}

#[test]
fn each_group_has_a_share_of_the_limit_and_all_of_them_one_budget() {
    let shelf = Shelf::tens(&["a", "b", "c"]);
    let limit = |token_limit| {
        let sources = entries(&[("a", "classic"), ("b", "hybrid"), ("c", "mine")]);
        let question = Question { sources, chunks: 9, token_limit, ..Question::new("q") };
        let mut registry = Registry::default();
        registry.register("mine", Arc::new(ClassicRetriever));
        dispatcher(&shelf, counting()).with_registry(registry).ask(&question)
    };
    let count = |answer: &Answer| ["a", "b", "c"].map(|id| answer.passages.iter().filter(|p| p.source_id == id).count());
    // "text of a0" costs 10 + 1 + 10; a third of 600 is 200, of which 180 are spent: 8 of 21 tokens are below.
    assert_eq!(count(&limit(Some(600))), [8, 8, 8]);
    assert_eq!(count(&limit(None)), [9, 9, 9]);
    // Thirds of 150 are raised to 100 each: 4 of 21 stay below. Together they have 135: 6 stay below, and the first are served first.
    assert_eq!(count(&limit(Some(150))), [4, 2, 0]);
}

#[test]
fn a_retriever_that_no_one_registered_is_told_and_the_others_answer() {
    let shelf = Shelf::tens(&["a", "b", "c"]);
    let question = Question { sources: entries(&[("a", "magic"), ("b", "classic"), ("c", "Magic")]), ..Question::new("q") };
    let answer = dispatcher(&shelf, embedding().1).ask(&question);
    assert_eq!(ids(&answer.passages), ["b0", "b1"]);
    assert_eq!(errors_of(&answer.errors), ["a dispatcher: InvalidArgument", "c dispatcher: InvalidArgument"]);
    assert!(answer.errors[0].to_string().contains("known: classic, default, graphrag, hybrid"), "{}", answer.errors[0]);
}

#[test]
fn a_retriever_of_ones_own_shares_what_is_rewritten_and_embedded_and_is_cut_to_the_budget() {
    let shelf = Shelf::tens(&["a", "b"]);
    let model = Replies::with("rewritten");
    let embedder = Arc::new(Lengths::default());
    let models = Models { embedder: Some(embedder.clone()), language_model: Some(model.clone()), ..counting() };
    let mut registry = Registry::default();
    registry.register("Everything", Arc::new(Everything));
    let turns = [Turn::new("before?", "Before.")];
    let question = Question {
        history: &turns,
        sources: entries(&[("a", "EVERYTHING"), ("b", "classic")]),
        token_limit: Some(200),
        ..Question::new("and then?")
    };
    let answer = dispatcher(&shelf, models).with_registry(registry).ask(&question);
    assert_eq!((model.asked(), embedder.asked.lock().unwrap().len()), (1, 1));
    // A passage of its costs 0 + 1 + 2, all ten 30; then 21 and 21 of the classic one's 99.
    assert_eq!((answer.passages.len(), answer.errors.len()), (12, 0));
    let tight = Question { token_limit: Some(1), ..question };
    let mut registry = Registry::default();
    registry.register("everything", Arc::new(Everything));
    let long =
        Arc::new(Shelf::new(vec![("a", Source { dense: (0..50).map(|i| (format!("id{i:08}"), 1.0)).collect(), ..Source::default() })]));
    let answer = dispatcher(&long, counting()).with_registry(registry).ask(&Question { sources: entries(&[("a", "everything")]), ..tight });
    assert_eq!(answer.passages.len(), 9, "11 tokens each, and fewer than 100 in all");
}

#[test]
fn a_source_is_asked_as_its_store_says_unless_the_question_says_otherwise() {
    let config = SourceConfig::from(by("classic", 5));
    let stored = Source { config: Some(config), ..Source::of("a", 9) };
    let shelf = Arc::new(Shelf::new(vec![("a", stored), ("b", Source::of("b", 9)), ("c", Source::of("c", 9).failing("config"))]));
    let ask = |sources| dispatcher(&shelf, embedding().1).ask(&Question { sources, ..Question::new("q") });
    let answer = ask(vec![SourceEntry::stored("a"), SourceEntry::stored("b")]);
    assert_eq!(ids(&answer.passages), ["a0", "a1", "a2", "a3", "a4", "b0"]);
    let answer = ask(vec![SourceEntry::with("a", by("classic", 3))]);
    assert_eq!(answer.passages.len(), 3);
    let answer = ask(vec![SourceEntry::stored("c")]);
    assert_eq!(ids(&answer.passages), ["c0", "c1"]);
    assert_eq!(errors_of(&answer.errors), ["c reading its configuration: Io"]);
}

#[test]
fn switched_off_it_is_the_classic_retriever_over_every_source() {
    let shelf = Shelf::tens(&["a", "b", "x"]);
    let never = stage("never", |_, _| Ok(Vec::new()));
    let off = dispatcher(&shelf, embedding().1).with_stage(never.clone()).with_group_stage(never).per_source(false);
    let sources = vec![SourceEntry::with("a", by("graphrag", 7)), SourceEntry::with("b", by("nobody", 2))];
    let answer = off.ask(&Question { sources, active: vec!["x".into(), "a".into()], chunks: 3, ..Question::new("q") });
    assert_eq!(ids(&answer.passages), ["a0", "b0", "x0"]);
    assert!(answer.errors.is_empty() && shelf.told_of("keyword").is_empty());
}

#[test]
fn stages_run_in_their_order_those_of_groups_first() {
    let shelf = Shelf::tens(&["a", "b"]);
    let told: Arc<Mutex<Vec<String>>> = Arc::default();
    let telling = |name: &'static str| {
        let told = told.clone();
        stage(name, move |context, passages| {
            told.lock().unwrap().push(format!("{name} {} {}", context.query, ids(&passages).join(" ")));
            Ok(passages.into_iter().skip(1).collect())
        })
    };
    let dispatcher = dispatcher(&shelf, embedding().1)
        .with_stage(telling("last"))
        .with_group_stage(telling("first"))
        .with_group_stage(telling("second"));
    let question = Question { sources: entries(&[("a", "classic"), ("b", "hybrid")]), chunks: 4, ..Question::new("q?") };
    let answer = dispatcher.ask(&question);
    let expected = ["first q? a0 a1 a2 a3", "second q? a1 a2 a3", "first q? b0 b1 b2 b3", "second q? b1 b2 b3", "last q? a2 a3 b2 b3"];
    assert_eq!(*told.lock().unwrap(), expected);
    assert_eq!(ids(&answer.passages), ["a3", "b2", "b3"]);
}

#[test]
fn what_a_question_says_of_a_source_is_held_to_the_ranges_of_a_configuration() {
    let shelf = Shelf::tens(&["a", "b"]);
    let odd = RetrievalConfig { score_threshold: Some(f64::NAN), chunks: 501, ..Default::default() };
    let sources = vec![SourceEntry::with("a", odd), SourceEntry::with("b", by("", 1))];
    let answer = dispatcher(&shelf, embedding().1).ask(&Question { sources, chunks: 4, ..Question::new("q") });
    assert_eq!(errors_of(&answer.errors), ["a reading its configuration: InvalidArgument"]);
    let told = answer.errors[0].to_string();
    assert!(told.contains("score_threshold is NaN") && told.contains("501") && told.contains("asked as by default"), "{told}");
    assert_eq!(ids(&answer.passages), ["a0", "a1", "b0"]);
}

#[test]
fn stages_judge_by_the_question_that_was_searched_for() {
    let shelf = Shelf::tens(&["a", "b"]);
    let told: Arc<Mutex<Vec<String>>> = Arc::default();
    let tells = told.clone();
    let telling = stage("tells", move |context, passages| {
        tells.lock().unwrap().push(format!("{}|{}", context.query, context.asked));
        Ok(passages)
    });
    let (_, models) = embedding();
    let models = Models { language_model: Some(Replies::with("where was Curie born?")), ..models };
    let dispatcher = dispatcher(&shelf, models).with_stage(telling);
    let history = [Turn::new("who found radium?", "Curie.")];
    let ask = |history| dispatcher.ask(&Question { history, active: vec!["a".into()], ..Question::new("where was she born?") });
    assert_eq!(ask(&history).rewritten.as_deref(), Some("where was Curie born?"));
    assert_eq!(ask(&[]).rewritten, None);
    assert_eq!(*told.lock().unwrap(), ["where was Curie born?|where was she born?", "where was she born?|where was she born?"]);
}

#[test]
fn a_stage_that_fails_changes_nothing_and_is_reported() {
    let shelf = Shelf::tens(&["a"]);
    let failing = stage("breaks", |_, mut passages| {
        passages.clear();
        Err(ModelError::new(ModelErrorKind::Unavailable, "made to fail").into())
    });
    let reporting = stage("half", |context, passages| {
        context.report.note("one of two was judged");
        context.report.failure(ModelError::new(ModelErrorKind::Malformed, "the other reply was no reply"));
        context.report.failure(Error::InvalidArgument("and so on".into()));
        Ok(passages)
    });
    let dispatcher = dispatcher(&shelf, embedding().1).with_stage(failing).with_stage(reporting);
    let answer = dispatcher.ask(&Question { active: vec!["a".into()], ..Question::new("q") });
    assert_eq!(ids(&answer.passages), ["a0", "a1"]);
    assert_eq!(errors_of(&answer.errors), ["- breaks: Model", "- half: Model", "- half: InvalidArgument"]);
    assert_eq!(answer.notes, ["one of two was judged"]);
}

#[test]
fn what_a_stage_adds_is_within_the_budget_too() {
    let shelf = Shelf::tens(&["a"]);
    let adding = stage("web", |_, mut passages| {
        passages.insert(0, Passage { text: "y".repeat(60), ..Passage::default() });
        Ok(passages)
    });
    let dispatcher = dispatcher(&shelf, counting()).with_stage(adding);
    let answer = dispatcher.ask(&Question { active: vec!["a".into()], chunks: 9, token_limit: Some(100), ..Question::new("q") });
    // 61, then one of 21: another one would reach 103.
    assert_eq!(ids(&answer.passages), ["", "a0"]);
}

#[test]
fn a_request_that_is_cancelled_gets_what_was_found_and_is_told_so() {
    let stop = Cancellation::new();
    let shelf = Arc::new(Shelf { cancels: Some(stop.clone()), ..Shelf::new(vec![("a", Source::of("a", 3)), ("b", Source::of("b", 3))]) });
    let never = stage("never", |_, _| Ok(Vec::new()));
    let call = Call { cancellation: stop, ..Call::default() };
    let question = Question { sources: entries(&[("a", "classic"), ("b", "hybrid")]), call, ..Question::new("q") };
    let answer = dispatcher(&shelf, embedding().1).with_stage(never).ask(&question);
    assert_eq!(ids(&answer.passages), ["a0", "a1"]);
    assert_eq!(errors_of(&answer.errors), ["b hybrid: Model", "- never: Model"]);
    assert!(answer.errors.iter().all(|e| e.to_string().contains("cancelled")));
}

#[test]
fn tokens_are_reported_by_purpose_with_the_answer_and_to_the_caller() {
    let shelf = Shelf::tens(&["a", "b"]);
    let models = Models { language_model: Some(Replies::with("rewritten")), ..embedding().1 };
    let (usage, turns) = (UsageLedger::default(), [Turn::new("x", "y")]);
    let question = Question {
        history: &turns,
        sources: entries(&[("a", "classic"), ("b", "hybrid")]),
        call: Call { usage: Some(&usage), ..Call::default() },
        ..Question::new("q")
    };
    let dispatcher = dispatcher(&shelf, models);
    let answer = dispatcher.ask(&question);
    assert_eq!((answer.usage[&Purpose::CONDENSE].calls, answer.usage[&Purpose::EMBED_QUERY].calls), (1, 1), "once for both groups");
    assert_eq!(dispatcher.ask(&question).usage[&Purpose::CONDENSE].calls, 1);
    assert_eq!(usage.by_purpose()[&Purpose::CONDENSE].calls, 2);
}

#[test]
fn no_word_of_questions_documents_or_histories_stands_in_errors_and_notes() {
    let secret = "zanzibar";
    let shelf = Arc::new(Shelf::new(vec![
        ("a", Source::of(secret, 3).failing("dense")),
        ("b", Source::of(secret, 3).failing("documents")),
        ("c", Source { keyword: vec![secret.into()], ..Source::of(secret, 3) }.failing("keyword")),
    ]));
    let turns = [Turn::new(secret, secret)];
    let models = Models { language_model: Some(Replies::failing()), ..counting() };
    let sources = entries(&[("a", "classic"), ("b", "graphrag"), ("c", "hybrid")]);
    let question = Question { history: &turns, sources, ..Question::new(secret) };
    let answer = dispatcher(&shelf, models).ask(&question);
    assert!(answer.errors.len() >= 4);
    let told: String = answer.errors.iter().map(|e| format!("{e} {e:?}")).chain(answer.notes).collect();
    assert!(!told.contains(secret), "{told}");
}
