//! What the traits promise without an implementation: one vector for one text, deadlines and cancellation, objects that threads share.

use super::*;
use std::time::{Duration, Instant};

struct Gives(usize);

impl Embedder for Gives {
    fn fingerprint(&self) -> &str {
        "gives"
    }
    fn dimension(&self) -> u32 {
        1
    }
    fn embed(&self, _: &Call<'_>, _: &[&str], _: TextRole) -> Result<Vec<Vec<f32>>, ModelError> {
        Ok(vec![vec![1.0]; self.0])
    }
}

#[test]
fn one_text_has_one_vector_or_a_malformed_answer_that_counts_them() {
    let ask = |n| Gives(n).embed_one(&Call::default(), "text", TextRole::Query);
    assert_eq!(ask(1), Ok(vec![1.0]));
    for n in [0, 2, 3] {
        let error = ask(n).unwrap_err();
        assert_eq!(error.kind, ModelErrorKind::Malformed);
        assert!(error.message.contains(&format!("{n} vectors")), "{error}");
    }
}

#[test]
fn a_call_is_of_no_use_after_its_deadline_or_when_cancelled() {
    let past = Call { deadline: Some(Instant::now()), ..Call::default() };
    assert_eq!(past.check().unwrap_err().kind, ModelErrorKind::TimedOut);
    let call = Call { deadline: Some(Instant::now() + Duration::from_secs(3600)), ..Call::default() };
    assert_eq!(call.check(), Ok(()));
    call.cancellation.cancel();
    assert_eq!(call.with_purpose(Purpose::RERANK).check().unwrap_err().message, "rag_rerank was cancelled");
}

#[test]
fn the_object_of_every_trait_can_be_shared_by_threads() {
    fn shared<T: Send + Sync + ?Sized>() {}
    shared::<dyn Embedder>();
    shared::<dyn LanguageModel>();
    shared::<dyn Reranker>();
    shared::<dyn TokenCounter>();
}
