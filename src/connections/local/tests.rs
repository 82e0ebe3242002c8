//! The model directory: a small made-up model against its values by hand, and every way in which a directory can be wrong.

use super::*;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Instant;

const HIDDEN: usize = 8;
const INNER: usize = 12;
const POSITIONS: usize = 10;
const WORDS: [&str; 9] = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", "a", "torn", "tail", "of", "log"];

fn config() -> Value {
    json!({
        "model_type": "bert", "vocab_size": WORDS.len(), "hidden_size": HIDDEN, "num_hidden_layers": 1, "num_attention_heads": 2,
        "intermediate_size": INNER, "hidden_act": "gelu", "max_position_embeddings": POSITIONS, "type_vocab_size": 2,
        "layer_norm_eps": 1e-12, "pad_token_id": 0, "hidden_dropout_prob": 0.1,
    })
}

fn tokenizer_json() -> Value {
    let vocabulary: BTreeMap<&str, usize> = WORDS.iter().enumerate().map(|(at, word)| (*word, at)).collect();
    let mark = |word: &str| json!({"SpecialToken": {"id": word, "type_id": 0}});
    let special = |word: &str, id: u32| json!({"id": word, "ids": [id], "tokens": [word]});
    json!({
        "version": "1.0", "added_tokens": [], "decoder": null, "normalizer": {"type": "Lowercase"}, "pre_tokenizer": {"type": "Whitespace"},
        // As the tokenizers of published models have them, and not to be used.
        "truncation": {"max_length": 3, "strategy": "LongestFirst", "stride": 0, "direction": "Right"},
        "padding": {"strategy": {"Fixed": 7}, "direction": "Right", "pad_to_multiple_of": null, "pad_id": 0, "pad_type_id": 0, "pad_token": "[PAD]"},
        "post_processor": {
            "type": "TemplateProcessing", "single": [mark("[CLS]"), {"Sequence": {"id": "A", "type_id": 0}}, mark("[SEP]")],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}],
            "special_tokens": {"[CLS]": special("[CLS]", 1), "[SEP]": special("[SEP]", 2)},
        },
        "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "[UNK]"},
    })
}

type Tensors = BTreeMap<String, (Vec<usize>, Vec<f32>)>;

/// Every weight of a model with one layer; all that multiplies inside of it times `strength`.
fn tensors(strength: f32) -> Tensors {
    let mut state = 42_u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1_u64 << 24) as f32 - 0.5
    };
    let mut all = Tensors::new();
    for (name, rows) in [("word", WORDS.len()), ("position", POSITIONS), ("token_type", 2)] {
        let values = (0..rows * HIDDEN).map(|_| next()).collect();
        all.insert(format!("embeddings.{name}_embeddings.weight"), (vec![rows, HIDDEN], values));
    }
    for name in ["embeddings", "encoder.layer.0.attention.output", "encoder.layer.0.output"] {
        all.insert(format!("{name}.LayerNorm.weight"), (vec![HIDDEN], vec![1.0; HIDDEN]));
        all.insert(format!("{name}.LayerNorm.bias"), (vec![HIDDEN], vec![0.0; HIDDEN]));
    }
    for (name, out, from) in [
        ("attention.self.query", HIDDEN, HIDDEN),
        ("attention.self.key", HIDDEN, HIDDEN),
        ("attention.self.value", HIDDEN, HIDDEN),
        ("attention.output.dense", HIDDEN, HIDDEN),
        ("intermediate.dense", INNER, HIDDEN),
        ("output.dense", HIDDEN, INNER),
    ] {
        let weights = (0..out * from).map(|_| next() * strength).collect();
        all.insert(format!("encoder.layer.0.{name}.weight"), (vec![out, from], weights));
        all.insert(format!("encoder.layer.0.{name}.bias"), (vec![out], (0..out).map(|_| next() * strength).collect()));
    }
    all
}

/// A file of safetensors: the length of a header in JSON, the header, and the bytes it speaks of.
fn safetensors(tensors: &Tensors) -> Vec<u8> {
    let (mut header, mut data) = (serde_json::Map::new(), Vec::new());
    for (name, (shape, values)) in tensors {
        let start = data.len();
        data.extend(values.iter().flat_map(|v| v.to_le_bytes()));
        header.insert(name.clone(), json!({"dtype": "F32", "shape": shape, "data_offsets": [start, data.len()]}));
    }
    let mut header = Value::Object(header).to_string();
    header.push_str(&" ".repeat(header.len().next_multiple_of(8) - header.len()));
    [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &data].concat()
}

/// A model directory, whole until a test takes something away.
struct Model(tempfile::TempDir);

impl Model {
    fn new(strength: f32) -> Model {
        let model = Model(tempfile::tempdir().unwrap());
        model.put("config.json", &config());
        model.put("tokenizer.json", &tokenizer_json());
        model.write("model.safetensors", &safetensors(&tensors(strength)));
        model
    }

    fn write(&self, name: &str, bytes: &[u8]) {
        let path = self.0.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }

    fn put(&self, name: &str, json: &Value) {
        self.write(name, json.to_string().as_bytes());
    }

    fn open(&self) -> LocalEmbedder {
        LocalEmbedder::open(self.0.path(), LocalOptions::default()).unwrap()
    }

    fn refused(&self) -> String {
        let error = LocalEmbedder::open(self.0.path(), LocalOptions::default()).unwrap_err();
        assert_eq!(error.kind, ModelErrorKind::Configuration, "{error}");
        error.message
    }
}

fn embed(embedder: &LocalEmbedder, texts: &[&str]) -> Vec<Vec<f32>> {
    embedder.embed(&Call::default(), texts, TextRole::Document).unwrap()
}

fn cosine(a: &[f32], b: &[f32]) -> f64 {
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(x, y)| f64::from(*x) * f64::from(*y)).sum::<f64>();
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
}

fn close(a: &[f32], b: &[f32]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(x, y)| (x - y).abs() < 1e-5)
}

/// What a model whose layer adds nothing must give: the normed sum of the three embeddings of each token, pooled.
fn by_hand(ids: &[usize], pooling: Pooling) -> Vec<f32> {
    let all = tensors(0.0);
    let row = |name: &str, at: usize| &all[&format!("embeddings.{name}_embeddings.weight")].1[at * HIDDEN..][..HIDDEN];
    let mut sum = [0.0_f32; HIDDEN];
    for (position, id) in ids.iter().enumerate().take(if pooling == Pooling::First { 1 } else { ids.len() }) {
        let token: Vec<f32> = (0..HIDDEN).map(|i| row("word", *id)[i] + row("position", position)[i] + row("token_type", 0)[i]).collect();
        let mean = token.iter().sum::<f32>() / HIDDEN as f32;
        let deviation = (token.iter().map(|x| (x - mean).powi(2)).sum::<f32>() / HIDDEN as f32).sqrt();
        for (s, x) in sum.iter_mut().zip(&token) {
            *s += (x - mean) / deviation;
        }
    }
    let length = sum.iter().map(|x| x * x).sum::<f32>().sqrt();
    sum.iter().map(|x| x / length).collect()
}

#[test]
fn vectors_are_the_normalised_mean_over_the_tokens_of_each_text() {
    let embedder = Model::new(0.0).open();
    let vectors = embed(&embedder, &["torn log", "", "A tail of what"]);
    assert!(close(&vectors[0], &by_hand(&[1, 5, 8, 2], Pooling::Mean)), "{:?}", vectors[0]);
    assert!(close(&vectors[1], &by_hand(&[1, 2], Pooling::Mean)));
    assert!(close(&vectors[2], &by_hand(&[1, 4, 6, 7, 3, 2], Pooling::Mean)));
    assert_eq!(embedder.dimension(), HIDDEN as u32);
    assert!(embed(&embedder, &[]).is_empty());
}

#[test]
fn the_first_token_is_the_vector_where_the_directory_says_so() {
    let model = Model::new(0.0);
    model.put(
        "1_Pooling/config.json",
        &json!({"word_embedding_dimension": HIDDEN, "pooling_mode_cls_token": true, "pooling_mode_mean_tokens": false}),
    );
    assert!(close(&embed(&model.open(), &["torn log"])[0], &by_hand(&[1, 5, 8, 2], Pooling::First)));
}

#[test]
fn a_text_has_the_same_vector_in_every_batch() {
    let model = Model::new(3.0);
    let texts = ["a", "torn tail of a log", "", "log log log log log log log log log log log log", "tail", "a torn a torn"];
    let together = embed(&model.open(), &texts);
    for batch_tokens in [1, 12, 20] {
        let small = LocalEmbedder::open(model.0.path(), LocalOptions { batch_tokens, ..LocalOptions::default() }).unwrap();
        for (a, b) in together.iter().zip(embed(&small, &texts)) {
            assert!(close(a, &b), "{a:?} {b:?}");
        }
    }
    // Else the layer does nothing, and the mask is not tested.
    assert!(!close(&together[1], &embed(&Model::new(0.0).open(), &texts)[1]));
    for vector in &together {
        assert!((vector.iter().map(|x| x * x).sum::<f32>() - 1.0).abs() < 1e-5);
    }
}

#[test]
fn a_text_is_cut_where_the_model_ends_and_not_where_its_tokenizer_says() {
    let model = Model::new(0.0);
    let long = "log ".repeat(1000);
    let cut: Vec<usize> = [&[1][..], &[8; POSITIONS - 2], &[2]].concat();
    assert!(close(&embed(&model.open(), &[&long])[0], &by_hand(&cut, Pooling::Mean)));
    model.put("sentence_bert_config.json", &json!({"max_seq_length": 5, "do_lower_case": false}));
    assert!(close(&embed(&model.open(), &[&long])[0], &by_hand(&[1, 8, 8, 8, 2], Pooling::Mean)));
    let shorter = LocalEmbedder::open(model.0.path(), LocalOptions { tokens_max: Some(4), ..LocalOptions::default() }).unwrap();
    assert!(close(&embed(&shorter, &[&long])[0], &by_hand(&[1, 8, 8, 2], Pooling::Mean)));
}

#[test]
fn a_fingerprint_changes_with_weights_settings_and_prefixes() {
    let model = Model::new(1.0);
    let open = |options: LocalOptions| LocalEmbedder::open(model.0.path(), options).unwrap().fingerprint().to_string();
    let first = open(LocalOptions::default());
    assert!(first.starts_with("local:bert/8/") && first.len() == 13 + 32, "{first}");
    assert_eq!(first, open(LocalOptions { batch_tokens: 7, ..LocalOptions::default() }));
    assert_eq!(first, Model::new(1.0).open().fingerprint(), "not with the folder");
    assert_ne!(first, Model::new(1.5).open().fingerprint());
    assert_ne!(first, open(LocalOptions { tokens_max: Some(4), ..LocalOptions::default() }));
    let (query, document) = (
        LocalOptions { query_prefix: "log".into(), ..LocalOptions::default() },
        LocalOptions { document_prefix: "log".into(), ..LocalOptions::default() },
    );
    assert_ne!(first, open(query.clone()));
    assert_ne!(open(document), open(query.clone()));
    let prefixed = LocalEmbedder::open(model.0.path(), LocalOptions { query_prefix: "log ".into(), ..query }).unwrap();
    assert_eq!(
        prefixed.embed_one(&Call::default(), "tail", TextRole::Query),
        prefixed.embed_one(&Call::default(), "log tail", TextRole::Document)
    );
}

#[test]
fn a_missing_file_is_named() {
    for name in ["config.json", "tokenizer.json", "model.safetensors"] {
        let model = Model::new(1.0);
        std::fs::remove_file(model.0.path().join(name)).unwrap();
        assert!(model.refused().contains(&format!("{name} is missing")), "{}", model.refused());
    }
    let error = LocalEmbedder::open("/no/such/model", LocalOptions::default()).unwrap_err();
    assert!(error.message.contains("cannot be opened") && !error.message.contains("such"), "{error}");
}

#[test]
fn a_shape_that_is_not_computed_is_refused() {
    for (field, value, what) in [
        ("model_type", json!("roberta"), "\"roberta\"; only \"bert\""),
        ("position_embedding_type", json!("relative_key"), "only \"absolute\""),
        ("hidden_act", json!("swish"), "\"swish\""),
        ("num_attention_heads", json!(3), "cannot be shared by 3"),
        ("num_attention_heads", json!(0), "num_attention_heads is 0"),
        ("hidden_size", json!(1_000_000), "hidden_size is 1000000"),
        ("max_position_embeddings", json!(2), "2 tokens"),
        ("vocab_size", json!(5), "has 9 tokens, config.json speaks of 5"),
        ("vocab_size", json!(-1), "config.json"),
        ("hidden_size", json!(16), "model.safetensors"),
        ("num_hidden_layers", json!(2), "model.safetensors"),
    ] {
        let model = Model::new(1.0);
        let mut changed = config();
        changed[field] = value;
        model.put("config.json", &changed);
        assert!(model.refused().contains(what), "{field}: {}", model.refused());
    }
    let model = Model::new(1.0);
    model.write("config.json", b"{\"model_type\": \"bert\"}");
    assert!(model.refused().contains("missing field `vocab_size`"), "{}", model.refused());
}

#[test]
fn steps_and_poolings_that_are_not_computed_are_refused() {
    for (name, settings, what) in [
        ("1_Pooling/config.json", json!({"pooling_mode_max_tokens": true}), "pooling_mode_max_tokens is not computed"),
        ("1_Pooling/config.json", json!({"pooling_mode_mean_tokens": true, "pooling_mode_cls_token": true}), "one way of pooling"),
        ("1_Pooling/config.json", json!({}), "one way of pooling"),
        ("1_Pooling/config.json", json!({"word_embedding_dimension": 9, "pooling_mode_mean_tokens": true}), "speaks of 9 components"),
        (
            "modules.json",
            json!([{"type": "sentence_transformers.models.Transformer"}, {"type": "sentence_transformers.models.Dense"}]),
            "models.Dense",
        ),
        ("sentence_bert_config.json", json!({"max_seq_length": 1}), "1 tokens"),
        ("tokenizer.json", json!({"model": 1}), "tokenizer.json"),
    ] {
        let model = Model::new(1.0);
        model.put(name, &settings);
        assert!(model.refused().contains(what), "{name}: {}", model.refused());
    }
    let model = Model::new(1.0);
    model.put("modules.json", &json!([{"type": "sentence_transformers.models.Transformer"}, {"type": "sentence_transformers.models.Pooling"}, {"type": "sentence_transformers.models.Normalize"}]));
    model.open();
}

#[test]
fn a_tokenizer_with_more_marks_than_room_is_refused() {
    let model = Model::new(1.0);
    let mut tokenizer = tokenizer_json();
    tokenizer["post_processor"]["special_tokens"]["[CLS]"]["ids"] = json!(vec![1; 20]);
    tokenizer["post_processor"]["special_tokens"]["[CLS]"]["tokens"] = json!(vec!["[CLS]"; 20]);
    model.put("tokenizer.json", &tokenizer);
    assert!(model.refused().contains("21 marks around a text, and 10 tokens"), "{}", model.refused());
}

#[test]
fn weights_cut_anywhere_are_refused() {
    let whole = safetensors(&tensors(1.0));
    let model = Model::new(1.0);
    for len in [0, 4, 8, 9, 200, whole.len() / 2, whole.len() - 1] {
        model.write("model.safetensors", &whole[..len]);
        assert!(model.refused().contains("model.safetensors"), "{len}: {}", model.refused());
    }
    model.write("model.safetensors", &[&u64::MAX.to_le_bytes()[..], &whole[8..]].concat());
    assert!(model.refused().contains("model.safetensors"));
    for missing in tensors(1.0).keys() {
        let mut fewer = tensors(1.0);
        fewer.remove(missing);
        model.write("model.safetensors", &safetensors(&fewer));
        assert!(model.refused().contains(missing), "{missing}: {}", model.refused());
    }
}

#[test]
fn weights_without_an_end_give_an_error_and_no_vector() {
    let model = Model::new(1.0);
    let mut broken = tensors(1.0);
    broken.get_mut("encoder.layer.0.output.dense.bias").unwrap().1[3] = f32::NAN;
    model.write("model.safetensors", &safetensors(&broken));
    let error = model.open().embed(&Call::default(), &["a hidden word"], TextRole::Query).unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::Malformed);
    assert!(error.message.contains("not finite") && !error.message.contains("hidden"), "{error}");
}

#[test]
fn a_dimension_that_was_not_expected_is_refused() {
    let model = Model::new(1.0);
    let with = |dimension| LocalEmbedder::open(model.0.path(), LocalOptions { dimension: Some(dimension), ..LocalOptions::default() });
    assert!(with(8).is_ok());
    assert!(with(384).unwrap_err().message.contains("8 components; 384 were asked for"));
}

#[test]
fn a_call_that_is_over_computes_nothing_and_tokens_are_counted() {
    let embedder = Model::new(1.0).open();
    let ledger = crate::models::UsageLedger::default();
    let call = Call { usage: Some(&ledger), ..Call::default() };
    embedder.embed(&call, &["torn log", ""], TextRole::Query).unwrap();
    assert_eq!(ledger.total(), Usage { calls: 1, prompt_tokens: 6, completion_tokens: 0 });
    let late = Call { deadline: Some(Instant::now()), ..Call::default() };
    assert_eq!(embedder.embed(&late, &["a"], TextRole::Query).unwrap_err().kind, ModelErrorKind::TimedOut);
    call.cancellation.cancel();
    assert_eq!(embedder.embed(&call, &["a"], TextRole::Query).unwrap_err().kind, ModelErrorKind::Cancelled);
}

/// Questions, one JSON object a line with a field `text`, and their vectors by the same model elsewhere, as NumPy writes them (16- or 32-bit floats).
fn reference(questions: &str, vectors: &str, width: usize) -> (Vec<String>, Vec<Vec<f32>>) {
    let lines = std::fs::read_to_string(questions).unwrap();
    let texts = lines.lines().map(|l| serde_json::from_str::<Value>(l).unwrap()["text"].as_str().unwrap().to_string()).collect();
    let bytes = std::fs::read(vectors).unwrap();
    let header_end = 10 + usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    let header = String::from_utf8_lossy(&bytes[10..header_end]).into_owned();
    let components: Vec<f32> = if header.contains("<f2") {
        bytes[header_end..].chunks_exact(2).map(|b| half(u16::from_le_bytes([b[0], b[1]]))).collect()
    } else {
        bytes[header_end..].chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
    };
    (texts, components.chunks_exact(width).map(<[f32]>::to_vec).collect())
}

/// A float of 16 bits that is no infinity.
fn half(bits: u16) -> f32 {
    let (exponent, fraction) = (i32::from(bits >> 10 & 31), f32::from(bits & 1023));
    let size = if exponent == 0 { fraction * 2_f32.powi(-24) } else { (1024.0 + fraction) * 2_f32.powi(exponent - 25) };
    if bits >> 15 == 1 { -size } else { size }
}

/// Against vectors that another library made of the same weights. Runs where `TRIUNE_TEST_MODEL` names a directory with all-MiniLM-L6-v2,
/// `TRIUNE_TEST_QUESTIONS` and `TRIUNE_TEST_VECTORS` files as [`reference`] reads them; says that it did not run elsewhere.
#[test]
fn vectors_of_a_published_model_are_those_of_its_makers() {
    let variable = |name: &str| std::env::var(name).ok();
    let names = ["TRIUNE_TEST_MODEL", "TRIUNE_TEST_QUESTIONS", "TRIUNE_TEST_VECTORS"];
    let [Some(directory), Some(questions), Some(vectors)] = names.map(variable) else {
        use std::io::Write;
        let _ = writeln!(std::io::stdout(), "skipped: {names:?} name no model to compare with");
        return;
    };
    let embedder = LocalEmbedder::open(PathBuf::from(directory), LocalOptions::default()).unwrap();
    let (texts, expected) = reference(&questions, &vectors, embedder.dimension() as usize);
    let texts: Vec<&str> = texts.iter().map(String::as_str).take(200).collect();
    let found = embed(&embedder, &texts);
    let mut cosines: Vec<f64> = found.iter().zip(&expected).map(|(a, b)| cosine(a, b)).collect();
    cosines.sort_by(f64::total_cmp);
    let (least, median) = (cosines[0], cosines[cosines.len() / 2]);
    // Vectors of weights rounded to 8 bits are still within this.
    assert!(least > 0.99, "least {least}, median {median} of {}", cosines.len());
    use std::io::Write;
    let _ = writeln!(std::io::stdout(), "cosine with the reference: least {least:.5}, median {median:.5}, of {}", cosines.len());
}
