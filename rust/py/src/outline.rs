// SPDX-License-Identifier: Apache-2.0
//! Whether objects are what a table of fields asks for. The answer is yes, or that it is not sure:
//! whoever must tell what is wrong, and where, walks the table again.

use std::collections::HashMap;

use omsgrain_core::{Node, View, datetime};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::borrowed::{Exact, declined};

/// A field as Python gives it: name, kind, of what it is made, how its texts look, the values that
/// are known, the least and the most, whether it may be null, and whether it must be there.
#[derive(FromPyObject)]
pub struct Given(
    String,
    String,
    Option<String>,
    Option<Look>,
    Vec<String>,
    Option<f64>,
    Option<f64>,
    bool,
    bool,
);

/// How a text looks: by name, or as a beginning and the characters that may stand behind it.
#[derive(FromPyObject)]
enum Look {
    Named(String),
    Word(String, String),
}

/// Shapes of objects, by name.
#[pyclass(frozen, module = "omsgrain._core")]
pub struct Outline {
    places: HashMap<String, usize>,
    shapes: Vec<Shape>,
}

#[derive(Default)]
struct Shape {
    rows: HashMap<String, Row>,
    /// How many fields must be there.
    needed: usize,
}

struct Row {
    kind: Kind,
    of: Of,
    form: Form,
    known: Vec<String>,
    least: Option<f64>,
    most: Option<f64>,
    nullable: bool,
    needed: bool,
}

#[derive(Clone, Copy)]
enum Kind {
    Str,
    Bool,
    Number,
    Int,
    Object,
    Array,
}

/// Of what an object or the items of an array are.
#[derive(Clone, Copy)]
enum Of {
    Anything,
    Str,
    Number,
    Shape(usize),
    /// A shape that was not given: nothing is sure of it.
    Unknown,
}

enum Form {
    Any,
    Uuid,
    Time,
    /// A time that says that it is in UTC.
    Utc,
    Word(String, Box<[bool; 128]>),
    /// No text is sure to have it.
    Unknown,
}

#[pymethods]
impl Outline {
    #[new]
    fn new(shapes: Vec<(String, Vec<Given>)>) -> PyResult<Self> {
        let names = shapes.iter().enumerate().map(|(at, (name, _))| (name.clone(), at));
        let mut outline = Outline { places: names.collect(), shapes: Vec::new() };
        for (_, fields) in shapes {
            let mut shape = Shape::default();
            for given in fields {
                let (name, row) = outline.row(given)?;
                shape.needed += usize::from(row.needed);
                shape.rows.insert(name, row);
            }
            outline.shapes.push(shape);
        }
        Ok(outline)
    }

    /// Whether a value is surely an object of a shape, and nothing is to be said of it.
    fn fits(&self, shape: &str, value: &Bound<'_, PyAny>) -> bool {
        self.places.get(shape).is_some_and(|at| self.object(*at, Exact::new(value)))
    }
}

impl Outline {
    fn row(&self, given: Given) -> PyResult<(String, Row)> {
        let Given(name, kind, of, look, known, least, most, nullable, needed) = given;
        let kind = match kind.as_str() {
            "str" => Kind::Str,
            "bool" => Kind::Bool,
            "number" => Kind::Number,
            "int" => Kind::Int,
            "object" => Kind::Object,
            "array" => Kind::Array,
            _ => return Err(PyValueError::new_err("no kind of field")),
        };
        let of = match of.as_deref() {
            None => Of::Anything,
            Some("str") => Of::Str,
            Some("number") => Of::Number,
            Some(shape) => self.places.get(shape).map_or(Of::Unknown, |at| Of::Shape(*at)),
        };
        let form = look.map_or(Form::Any, Form::of);
        Ok((name, Row { kind, of, form, known, least, most, nullable, needed }))
    }

    fn object(&self, shape: usize, value: Exact<'_>) -> bool {
        let shape = &self.shapes[shape];
        let (mut good, mut needed) = (value.is_dict(), 0);
        value.entries(|key, item| {
            good = key.text().is_some_and(|name| match shape.rows.get(name) {
                None => true,
                Some(row) => {
                    needed += usize::from(row.needed);
                    self.value(row, item)
                }
            });
            good
        });
        good && needed == shape.needed
    }

    fn value(&self, row: &Row, value: Exact<'_>) -> bool {
        if let Kind::Str = row.kind {
            return row.has_text(value) || (row.nullable && value.is_null());
        }
        let Ok(view) = value.view() else { return false };
        match (row.kind, view) {
            (_, View::Null) => row.nullable,
            (Kind::Bool, View::Bool(_)) => true,
            (Kind::Int | Kind::Number, View::Int(whole)) => row.holds(whole as f64),
            (Kind::Number, View::Float(float)) => row.holds(float),
            (Kind::Object, View::Map) => match row.of {
                Of::Shape(at) => self.object(at, value),
                Of::Anything => true,
                _ => false,
            },
            (Kind::Array, View::List) => matches!(row.of, Of::Anything) || self.items(row, value),
            _ => false,
        }
    }

    fn items(&self, row: &Row, list: Exact<'_>) -> bool {
        let walked = list.each_item(&mut |item| {
            let good = match row.of {
                Of::Str => row.has_text(item),
                Of::Number => matches!(item.view(), Ok(View::Int(_) | View::Float(_))),
                Of::Shape(at) => self.object(at, item),
                Of::Anything | Of::Unknown => false,
            };
            if good { Ok(()) } else { Err(declined()) }
        });
        walked.is_ok()
    }
}

impl Row {
    fn has_text(&self, value: Exact<'_>) -> bool {
        let Some(letters) = value.letters() else { return false };
        if !self.holds(letters as f64) {
            return false;
        }
        if matches!(self.form, Form::Any) && self.known.is_empty() {
            return true;
        }
        value.text().is_some_and(|text| {
            self.form.has(text) && (self.known.is_empty() || self.known.iter().any(|one| one == text))
        })
    }

    fn holds(&self, value: f64) -> bool {
        self.least.is_none_or(|least| value >= least) && self.most.is_none_or(|most| value <= most)
    }
}

impl Form {
    fn of(look: Look) -> Form {
        match look {
            Look::Named(name) => match name.as_str() {
                "uuid" => Form::Uuid,
                "time" => Form::Time,
                "utc" => Form::Utc,
                _ => Form::Unknown,
            },
            Look::Word(head, letters) => {
                let mut set = [false; 128];
                for byte in letters.bytes() {
                    if let Some(one) = set.get_mut(usize::from(byte)) {
                        *one = true;
                    }
                }
                Form::Word(head, Box::new(set))
            }
        }
    }

    fn has(&self, text: &str) -> bool {
        match self {
            Form::Any => true,
            Form::Uuid => is_uuid(text.as_bytes()),
            Form::Time => is_time(text),
            Form::Utc => is_time(text) && text.ends_with(['Z', 'z']) && !text.contains(' '),
            Form::Word(head, set) => text.strip_prefix(head.as_str()).is_some_and(|rest| {
                let known = |byte: u8| set.get(usize::from(byte)).is_some_and(|known| *known);
                !rest.is_empty() && rest.bytes().all(known)
            }),
            Form::Unknown => false,
        }
    }
}

fn is_uuid(text: &[u8]) -> bool {
    let fits = |(at, byte): (usize, &u8)| match at {
        8 | 13 | 18 | 23 => *byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    };
    text.len() == 36 && text.iter().enumerate().all(fits)
}

/// Bytes of a time whose fraction nobody cuts.
const LONG: usize = 48;

/// Python's calendar has no year 0.
fn is_time(text: &str) -> bool {
    text.len() <= LONG && !text.starts_with("0000") && datetime::parse_rfc3339(text).is_some()
}
