//! From JSON to a filter.

use super::{Comparison, FILTER_DEPTH_MAX, FILTER_REGEX_BYTES_MAX, FILTER_REGEXES_MAX, Filter, Node, Scalar, SourceTest, Test, TextTest};
use crate::document::json::{self, Twice};
use crate::error::{Error, Result};
use regex::{Regex, RegexBuilder};
use serde_json::{Map, Value};
use std::fmt;

/// Reads a filter from its text.
pub(super) fn from_json(json: &str) -> Result<Filter> {
    // Of `{"n": {"$gt": 1}, "n": {"$lt": 3}}` a map would silently drop half of what was meant.
    let value = json::parse(json, Twice::Refused).map_err(|e| {
        let message = e.to_string();
        if message.starts_with("recursion limit") {
            return Error::LimitExceeded(format!("a filter nests at most {FILTER_DEPTH_MAX} deep"));
        }
        Error::InvalidArgument(format!("a filter is a JSON object: {message}"))
    })?;
    from_value(&value)
}

/// Reads a filter from parsed JSON.
pub(super) fn from_value(value: &Value) -> Result<Filter> {
    Parser { trail: Vec::new(), regexes: 0, depth: 0 }.filter(value)
}

/// Where the parser stands, for messages and limits.
struct Parser {
    trail: Vec<String>,
    regexes: usize,
    depth: usize,
}

impl Parser {
    /// Names the place of what is wrong.
    fn invalid<T>(&self, what: impl fmt::Display) -> Result<T> {
        let place = if self.trail.is_empty() { "filter".to_string() } else { format!("filter at {}", self.trail.join(" ")) };
        Err(Error::InvalidArgument(format!("{place}: {what}")))
    }

    /// Does something one step further down.
    fn at<T>(&mut self, step: impl Into<String>, then: impl FnOnce(&mut Parser) -> Result<T>) -> Result<T> {
        self.trail.push(step.into());
        let result = then(self);
        self.trail.pop();
        result
    }

    fn filter(&mut self, value: &Value) -> Result<Filter> {
        let Value::Object(conditions) = value else {
            return self.invalid(format_args!("a filter is an object; {} was given", kind(value)));
        };
        if self.depth > FILTER_DEPTH_MAX {
            return Err(Error::LimitExceeded(format!("a filter nests at most {FILTER_DEPTH_MAX} deep")));
        }
        self.depth += 1;
        let mut all = Vec::with_capacity(conditions.len());
        for (key, operand) in conditions {
            self.at(format!("{key:?}"), |p| p.condition(key, operand, &mut all))?;
        }
        self.depth -= 1;
        Ok(joined(all))
    }

    /// One key of a filter and what stands under it.
    fn condition(&mut self, key: &str, operand: &Value, out: &mut Vec<Filter>) -> Result<()> {
        match key {
            "$and" => out.push(Filter(Node::All(self.list(operand)?))),
            "$or" => out.push(Filter(Node::Any(self.list(operand)?))),
            "$not" => out.push(not(self.filter(operand)?)),
            "$text" => {
                let operators = self.operators(operand)?;
                for (operator, operand) in operators {
                    out.push(self.at(operator, |p| p.text(operator, operand))?);
                }
            }
            "$source" => match operand {
                Value::Null => out.push(not(source(SourceTest::Exists))),
                Value::String(only) => out.push(Filter::of_sources([only.as_str()])),
                Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
                    let operators = self.operators(operand)?;
                    for (operator, operand) in operators {
                        out.push(self.at(operator, |p| p.source(operator, operand))?);
                    }
                }
            },
            _ if key.starts_with('$') => return self.invalid("unknown operator; known here: $and, $or, $not, $text, $source"),
            _ => match Scalar::of(operand) {
                Some(scalar) => out.push(field(key, Test::In(vec![scalar]))),
                None => {
                    let operators = self.operators(operand)?;
                    for (operator, operand) in operators {
                        out.push(self.at(operator, |p| p.field(key, operator, operand))?);
                    }
                }
            },
        }
        Ok(())
    }

    fn list(&mut self, operand: &Value) -> Result<Vec<Filter>> {
        let Value::Array(filters) = operand else {
            return self.invalid(format_args!("takes a list of filters; {} was given", kind(operand)));
        };
        filters.iter().enumerate().map(|(i, f)| self.at(i.to_string(), |p| p.filter(f))).collect()
    }

    /// An object of at least one operator.
    fn operators<'a>(&self, operand: &'a Value) -> Result<&'a Map<String, Value>> {
        match operand.as_object() {
            Some(operators) if !operators.is_empty() => Ok(operators),
            Some(_) => self.invalid("an object of operators has at least one"),
            None => self.invalid(format_args!("takes a scalar to equal or an object of operators; {} was given", kind(operand))),
        }
    }

    fn field(&mut self, path: &str, operator: &str, operand: &Value) -> Result<Filter> {
        Ok(match operator {
            "$eq" => field(path, Test::In(vec![self.scalar(operand)?])),
            "$ne" => not(field(path, Test::In(vec![self.scalar(operand)?]))),
            "$in" => field(path, Test::In(self.scalars(operand)?)),
            "$nin" => not(field(path, Test::In(self.scalars(operand)?))),
            "$gt" => self.comparison(path, Comparison::Greater, operand)?,
            "$gte" => self.comparison(path, Comparison::GreaterOrEqual, operand)?,
            "$lt" => self.comparison(path, Comparison::Less, operand)?,
            "$lte" => self.comparison(path, Comparison::LessOrEqual, operand)?,
            "$contains" => field(path, Test::Contains(self.scalar(operand)?)),
            "$not_contains" => not(field(path, Test::Contains(self.scalar(operand)?))),
            "$regex" => field(path, Test::Regex(self.regex(operand)?)),
            "$exists" => match self.boolean(operand)? {
                true => field(path, Test::Exists),
                false => not(field(path, Test::Exists)),
            },
            _ => {
                let known = "$eq, $ne, $in, $nin, $gt, $gte, $lt, $lte, $contains, $not_contains, $regex, $exists";
                return self.invalid(format_args!("unknown operator; known here: {known}"));
            }
        })
    }

    fn text(&mut self, operator: &str, operand: &Value) -> Result<Filter> {
        let contains = |part: String| Filter(Node::Text(TextTest::Contains(part.into())));
        Ok(match operator {
            "$contains" => contains(self.string(operand)?),
            "$not_contains" => not(contains(self.string(operand)?)),
            "$regex" => Filter(Node::Text(TextTest::Regex(self.regex(operand)?))),
            _ => return self.invalid("unknown operator; known here: $contains, $not_contains, $regex"),
        })
    }

    fn source(&mut self, operator: &str, operand: &Value) -> Result<Filter> {
        Ok(match operator {
            "$eq" => Filter::of_sources([self.string(operand)?]),
            "$ne" => not(Filter::of_sources([self.string(operand)?])),
            "$in" => Filter::of_sources(self.strings(operand)?),
            "$nin" => not(Filter::of_sources(self.strings(operand)?)),
            "$exists" => match self.boolean(operand)? {
                true => source(SourceTest::Exists),
                false => not(source(SourceTest::Exists)),
            },
            _ => return self.invalid("unknown operator; known here: $eq, $ne, $in, $nin, $exists"),
        })
    }

    fn comparison(&self, path: &str, comparison: Comparison, operand: &Value) -> Result<Filter> {
        match Scalar::of(operand) {
            Some(scalar @ (Scalar::Number(_) | Scalar::String(_))) => Ok(field(path, Test::Compare(comparison, scalar))),
            _ => self.invalid(format_args!("takes a number or a string; {} was given", kind(operand))),
        }
    }

    fn scalar(&self, operand: &Value) -> Result<Scalar> {
        match Scalar::of(operand) {
            Some(scalar) => Ok(scalar),
            None => self.invalid(format_args!("takes null, a boolean, a number or a string; {} was given", kind(operand))),
        }
    }

    fn scalars(&mut self, operand: &Value) -> Result<Vec<Scalar>> {
        let Value::Array(values) = operand else {
            return self.invalid(format_args!("takes a list; {} was given", kind(operand)));
        };
        values.iter().enumerate().map(|(i, v)| self.at(i.to_string(), |p| p.scalar(v))).collect()
    }

    fn strings(&mut self, operand: &Value) -> Result<Vec<String>> {
        let Value::Array(values) = operand else {
            return self.invalid(format_args!("takes a list; {} was given", kind(operand)));
        };
        values.iter().enumerate().map(|(i, v)| self.at(i.to_string(), |p| p.string(v))).collect()
    }

    fn boolean(&self, operand: &Value) -> Result<bool> {
        match operand.as_bool() {
            Some(answer) => Ok(answer),
            None => self.invalid(format_args!("takes true or false; {} was given", kind(operand))),
        }
    }

    fn string(&self, operand: &Value) -> Result<String> {
        match operand.as_str() {
            Some(s) => Ok(s.to_string()),
            None => self.invalid(format_args!("takes a string; {} was given", kind(operand))),
        }
    }

    fn regex(&mut self, operand: &Value) -> Result<Regex> {
        let pattern = self.string(operand)?;
        self.regexes += 1;
        if self.regexes > FILTER_REGEXES_MAX {
            return Err(Error::LimitExceeded(format!("a filter has at most {FILTER_REGEXES_MAX} regular expressions")));
        }
        match RegexBuilder::new(&pattern).size_limit(FILTER_REGEX_BYTES_MAX).build() {
            Ok(regex) => Ok(regex),
            Err(regex::Error::CompiledTooBig(limit)) => {
                let place = self.trail.join(" ");
                Err(Error::LimitExceeded(format!("filter at {place}: the regular expression compiles to over {limit} bytes")))
            }
            Err(e) => self.invalid(format_args!("not a regular expression: {e}")),
        }
    }
}

fn field(path: &str, test: Test) -> Filter {
    Filter(Node::Field(path.into(), test))
}

fn source(test: SourceTest) -> Filter {
    Filter(Node::Source(test))
}

fn not(filter: Filter) -> Filter {
    Filter(Node::Not(Box::new(filter)))
}

/// Several conditions mean all of them; one needs no list.
fn joined(mut all: Vec<Filter>) -> Filter {
    match all.pop() {
        Some(only) if all.is_empty() => only,
        last => {
            all.extend(last);
            Filter(Node::All(all))
        }
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}
