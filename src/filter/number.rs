//! JSON numbers by their exact values: integers and floats compare as the numbers they are, not as what one rounds the other to.

use serde_json::Number;
use std::cmp::Ordering;

/// What a JSON number is.
#[derive(Debug, Clone, Copy)]
enum Exact {
    Integer(i128),
    Float(f64),
}

impl Exact {
    fn of(number: &Number) -> Option<Exact> {
        if let Some(n) = number.as_u64() {
            return Some(Exact::Integer(n.into()));
        }
        if let Some(n) = number.as_i64() {
            return Some(Exact::Integer(n.into()));
        }
        number.as_f64().filter(|x| x.is_finite()).map(Exact::Float)
    }
}

/// Compares two numbers by exact value; -0.0 is 0. `None` when one of them is beyond the range of `f64`, which equals nothing.
pub(crate) fn compare(a: &Number, b: &Number) -> Option<Ordering> {
    match (Exact::of(a)?, Exact::of(b)?) {
        (Exact::Integer(a), Exact::Integer(b)) => Some(a.cmp(&b)),
        (Exact::Float(a), Exact::Float(b)) => a.partial_cmp(&b),
        (Exact::Integer(a), Exact::Float(b)) => Some(integer_with_float(a, b)),
        (Exact::Float(a), Exact::Integer(b)) => Some(integer_with_float(b, a).reverse()),
    }
}

/// Compares an integer of at most 65 bits with a finite float.
fn integer_with_float(a: i128, b: f64) -> Ordering {
    // The cast drops the fraction and saturates beyond 128 bits, where no such integer is.
    let whole = b.trunc();
    a.cmp(&(whole as i128)).then_with(|| 0.0f64.total_cmp(&(b - whole + 0.0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(a: &str, b: &str) -> Ordering {
        let parse = |s: &str| serde_json::from_str::<Number>(s).unwrap();
        compare(&parse(a), &parse(b)).unwrap()
    }

    #[test]
    fn numbers_compare_by_their_exact_values() {
        // Ascending; those of one line are equal.
        let lines: &[&[&str]] = &[
            &["-1e300"],
            &["-9223372036854775808", "-9223372036854775808.0"],
            &["-9223372036854775807"],
            &["-2.5"],
            &["-2", "-2.0"],
            &["-0.5"],
            &["0", "-0.0", "0.0", "-0"],
            &["5e-324"],
            &["2", "2.0", "20e-1"],
            &["2.5"],
            &["3"],
            &["9007199254740992", "9007199254740992.0"],
            &["9007199254740993"],
            &["1152921504606846976", "1152921504606846976.0"],
            &["1152921504606846977"],
            &["9223372036854775807"],
            &["9223372036854775808", "9223372036854775808.0"],
            &["18446744073709551615"],
            &["18446744073709551616", "18446744073709551616.0"],
            &["1e300"],
        ];
        for (i, left) in lines.iter().enumerate() {
            for (j, right) in lines.iter().enumerate() {
                for (a, b) in left.iter().flat_map(|a| right.iter().map(move |b| (a, b))) {
                    assert_eq!(order(a, b), i.cmp(&j), "{a} and {b}");
                }
            }
        }
    }
}
