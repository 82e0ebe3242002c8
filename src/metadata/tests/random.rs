//! Random documents and random filters: the index against the filter itself.

use super::*;
use proptest::prelude::*;
use proptest::sample::select;

fn scalar() -> impl Strategy<Value = Value> {
    let numbers = [
        json!(0), json!(-0.0), json!(1), json!(1.0), json!(2), json!(2.5), json!(-1), json!(-1.5), json!(1152921504606846976u64),
        json!(1152921504606846977u64), json!(1152921504606846976.0), json!(u64::MAX), json!(18446744073709551616.0), json!(i64::MIN),
        json!(1e300), json!(-1e300), json!(5e-324),
    ];
    let strings = [
        "".to_string(), "1".into(), "a".into(), "a\0".into(), "b".into(), "é".into(), "中".into(), "x".repeat(128), "x".repeat(129),
        "x".repeat(128) + "y", "x".repeat(127) + "é", "x".repeat(300),
    ];
    prop_oneof![
        1 => Just(Value::Null),
        1 => any::<bool>().prop_map(Value::from),
        5 => select(numbers.to_vec()),
        1 => any::<i64>().prop_map(Value::from),
        1 => (-1e6..1e6f64).prop_map(Value::from),
        5 => select(strings.to_vec()).prop_map(Value::from),
    ]
}

fn key() -> impl Strategy<Value = String> {
    let long = "k".repeat(260);
    select(vec!["a".to_string(), "b".into(), "c".into(), "a.b".into(), "a.b.c".into(), "".into(), "a\0".into(), long])
}

fn path() -> impl Strategy<Value = String> {
    prop::collection::vec(key(), 1..3).prop_map(|steps| steps.join("."))
}

fn value() -> impl Strategy<Value = Value> {
    scalar().prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map(key(), inner, 0..3).prop_map(|m| Value::Object(m.into_iter().collect())),
        ]
    })
}

fn document() -> impl Strategy<Value = (Option<Metadata>, String)> {
    let metadata = prop::collection::btree_map(key(), value(), 0..4)
        .prop_map(|m| Some(Metadata::from_json(Value::Object(m.into_iter().collect()).to_string()).unwrap()));
    (prop_oneof![1 => Just(None), 6 => metadata], select(vec!["", "alpha", "beta"]).prop_map(String::from))
}

fn condition() -> impl Strategy<Value = Value> {
    let pair = |operator: Vec<&'static str>, operand: BoxedStrategy<Value>| {
        (path(), select(operator), operand).prop_map(|(path, operator, operand)| json!({path: {operator: operand}}))
    };
    let ordered = scalar().prop_filter("numbers and strings have an order", |v| v.is_number() || v.is_string()).boxed();
    prop_oneof![
        2 => (path(), scalar()).prop_map(|(path, v)| json!({path: v})),
        3 => pair(vec!["$eq", "$ne", "$contains", "$not_contains"], scalar().boxed()),
        4 => pair(vec!["$gt", "$gte", "$lt", "$lte"], ordered),
        1 => pair(vec!["$in", "$nin"], prop::collection::vec(scalar(), 0..4).prop_map(Value::from).boxed()),
        1 => pair(vec!["$exists"], any::<bool>().prop_map(Value::from).boxed()),
        1 => pair(vec!["$regex"], select(vec!["^x", "a|b", ""]).prop_map(Value::from).boxed()),
        1 => select(vec!["$contains", "$not_contains", "$regex"]).prop_map(|operator| json!({"$text": {operator: "alp"}})),
    ]
}

fn filter() -> impl Strategy<Value = Value> {
    condition().prop_recursive(3, 10, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(|all| json!({"$and": all})),
            prop::collection::vec(inner.clone(), 0..4).prop_map(|any| json!({"$or": any})),
            inner.prop_map(|f| json!({"$not": f})),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn the_index_answers_every_filter_as_the_filter_itself_does(
        documents in prop::collection::vec(document(), 0..30),
        filters in prop::collection::vec(filter(), 1..12),
    ) {
        let filters: Vec<Filter> = filters.iter().map(|f| Filter::from_value(f).unwrap()).collect();
        agrees_everywhere(&filters, &documents);
    }
}
