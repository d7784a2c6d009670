// SPDX-License-Identifier: Apache-2.0
//! A fast check of objects against a table of fields. The answer is yes or unsure. If it is unsure,
//! the caller walks the table again and reports what is wrong, and where.

use std::collections::HashMap;

use omsgrain_core::{Node, View, datetime};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::pyref::{Exact, declined};

/// A field from Python: name, kind, kind of its parts, form of its texts, known values, minimum,
/// maximum, whether it may be null, and whether it is required. A name can repeat, with
/// alternatives.
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

/// Deeper objects are unsure, since an object can contain itself.
const DEPTH: usize = 64;

/// Shapes of objects, by name.
#[pyclass(frozen, module = "omsgrain._core")]
pub struct Outline {
    places: HashMap<String, usize>,
    shapes: Vec<Shape>,
}

#[derive(Default)]
struct Shape {
    fields: HashMap<String, Field>,
    /// The number of required fields.
    needed: usize,
    /// The alternatives for a value under any other name; None allows anything.
    others: Option<Vec<Row>>,
}

#[derive(Default)]
struct Field {
    rows: Vec<Row>,
    needed: bool,
}

struct Row {
    kind: Kind,
    of: Of,
    form: Form,
    known: Vec<String>,
    least: Option<f64>,
    most: Option<f64>,
    nullable: bool,
}

#[derive(Clone, Copy)]
enum Kind {
    Any,
    Str,
    Bool,
    Number,
    Int,
    Object,
    Array,
}

/// The shape or kind of an object's or an array's parts.
#[derive(Clone, Copy)]
enum Of {
    Anything,
    Str,
    Number,
    Shape(usize),
    /// An undefined shape: every value is unsure.
    Unknown,
}

#[pymethods]
impl Outline {
    #[new]
    #[pyo3(signature = (shapes, others = Vec::new()))]
    fn new(shapes: Vec<(String, Vec<Given>)>, others: Vec<(String, Vec<Given>)>) -> PyResult<Self> {
        let names = shapes.iter().enumerate().map(|(at, (name, _))| (name.clone(), at));
        let mut outline = Outline { places: names.collect(), shapes: Vec::new() };
        for (_, fields) in shapes {
            let mut shape = Shape::default();
            for given in fields {
                let needed = given.8;
                let (name, row) = outline.row(given)?;
                let field = shape.fields.entry(name).or_default();
                field.rows.push(row);
                field.needed |= needed;
            }
            shape.needed = shape.fields.values().filter(|field| field.needed).count();
            outline.shapes.push(shape);
        }
        for (name, given) in others {
            let rows = given.into_iter().map(|one| Ok(outline.row(one)?.1));
            let rows = rows.collect::<PyResult<_>>()?;
            let shape = outline.places.get(&name).and_then(|at| outline.shapes.get_mut(*at));
            shape.ok_or_else(|| PyValueError::new_err("the shape is unknown"))?.others = Some(rows);
        }
        Ok(outline)
    }

    /// Whether a value surely is an object of a shape, without a defect or a warning.
    fn fits(&self, shape: &str, value: &Bound<'_, PyAny>) -> bool {
        self.places.get(shape).is_some_and(|at| self.object(*at, Exact::new(value), DEPTH))
    }
}

impl Outline {
    fn row(&self, given: Given) -> PyResult<(String, Row)> {
        let Given(name, kind, of, look, known, least, most, nullable, _) = given;
        let kind = match kind.as_str() {
            "any" => Kind::Any,
            "str" => Kind::Str,
            "bool" => Kind::Bool,
            "number" => Kind::Number,
            "int" => Kind::Int,
            "object" => Kind::Object,
            "array" => Kind::Array,
            _ => return Err(PyValueError::new_err("the kind of field is unknown")),
        };
        let of = match of.as_deref() {
            None => Of::Anything,
            Some("str") => Of::Str,
            Some("number") => Of::Number,
            Some(shape) => self.places.get(shape).map_or(Of::Unknown, |at| Of::Shape(*at)),
        };
        let form = look.map_or(Form::Any, Form::of);
        Ok((name, Row { kind, of, form, known, least, most, nullable }))
    }

    fn object(&self, shape: usize, value: Exact<'_>, depth: usize) -> bool {
        let Some(depth) = depth.checked_sub(1) else { return false };
        let shape = &self.shapes[shape];
        let (mut good, mut needed) = (value.is_dict(), 0);
        value.entries(|key, item| {
            good = key.text().is_some_and(|name| match (shape.fields.get(name), &shape.others) {
                (Some(field), _) => {
                    needed += usize::from(field.needed);
                    self.any(&field.rows, item, depth)
                }
                (None, Some(rows)) => self.any(rows, item, depth),
                (None, None) => true,
            });
            good
        });
        good && needed == shape.needed
    }

    fn any(&self, rows: &[Row], value: Exact<'_>, depth: usize) -> bool {
        rows.iter().any(|row| self.value(row, value, depth))
    }

    fn value(&self, row: &Row, value: Exact<'_>, depth: usize) -> bool {
        match row.kind {
            Kind::Any => return true,
            Kind::Str => return row.has_text(value) || (row.nullable && value.is_null()),
            _ => {}
        }
        let Ok(view) = value.view() else { return false };
        match (row.kind, view) {
            (_, View::Null) => row.nullable,
            (Kind::Bool, View::Bool(_)) => true,
            (Kind::Int | Kind::Number, View::Int(whole)) => row.holds(whole as f64),
            (Kind::Number, View::Float(float)) => row.holds(float),
            (Kind::Object, View::Map) => match row.of {
                Of::Shape(at) => self.object(at, value, depth),
                Of::Anything => true,
                _ => false,
            },
            (Kind::Array, View::List) => matches!(row.of, Of::Anything) || self.items(row, value, depth),
            _ => false,
        }
    }

    fn items(&self, row: &Row, list: Exact<'_>, depth: usize) -> bool {
        let walked = list.each_item(&mut |item| {
            let good = match row.of {
                Of::Str => row.has_text(item),
                Of::Number => matches!(item.view(), Ok(View::Int(_) | View::Float(_))),
                Of::Shape(at) => self.object(at, item, depth),
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

// Forms of texts that surely are valid. A text in another form may be valid too.

/// The form of a text: a name, or a prefix and the characters that may follow it.
#[derive(FromPyObject)]
pub enum Look {
    Named(String),
    Word(String, String),
}

/// The form of a text that surely is valid.
pub enum Form {
    Any,
    Uuid,
    Time,
    /// A time with `T` and an offset.
    Rfc3339,
    /// The same with UTC as the offset.
    Utc,
    Day,
    /// Letters, digits, `_` and `-`, in parts between slashes.
    Path,
    /// A lower-case letter, then lower-case letters, digits and `-`.
    Kebab,
    /// Two words of letters and digits with a colon between them; the second may have `-`.
    Prefixed,
    /// Three numbers separated by points.
    Version,
    Word(String, Box<[bool; 128]>),
    /// An unknown form: every text is unsure.
    Unknown,
}

impl Form {
    /// The form for a look; an unknown name becomes `Unknown`.
    pub fn of(look: Look) -> Form {
        match look {
            Look::Named(name) => match name.as_str() {
                "uuid" => Form::Uuid,
                "time" => Form::Time,
                "rfc3339" => Form::Rfc3339,
                "utc" => Form::Utc,
                "day" => Form::Day,
                "path" => Form::Path,
                "kebab" => Form::Kebab,
                "prefixed" => Form::Prefixed,
                "version" => Form::Version,
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

    /// Whether a text surely has this form.
    pub fn has(&self, text: &str) -> bool {
        match self {
            Form::Any => true,
            Form::Uuid => is_uuid(text.as_bytes()),
            Form::Time => is_time(text),
            Form::Rfc3339 => is_rfc3339(text),
            Form::Utc => is_rfc3339(text) && text.ends_with(['Z', 'z']),
            Form::Day => text.len() == DAY && is_time(&format!("{text}T00:00:00Z")),
            Form::Path => text
                .split('/')
                .all(|part| is_of(part, |c| matches!(c, b'_' | b'-') || c.is_ascii_alphanumeric())),
            Form::Kebab => {
                text.starts_with(|c: char| c.is_ascii_lowercase())
                    && is_of(text, |c| c == b'-' || c.is_ascii_lowercase() || c.is_ascii_digit())
            }
            Form::Prefixed => text.split_once(':').is_some_and(|(prefix, name)| {
                [prefix, name].iter().all(|word| word.starts_with(|c: char| c.is_ascii_alphabetic()))
                    && is_of(prefix, |c| c.is_ascii_alphanumeric())
                    && is_of(name, |c| c == b'-' || c.is_ascii_alphanumeric())
            }),
            Form::Version => {
                text.split('.').count() == 3
                    && text.split('.').all(|part| is_of(part, |c| c.is_ascii_digit()))
            }
            Form::Word(head, set) => text.strip_prefix(head.as_str()).is_some_and(|rest| {
                is_of(rest, |byte| set.get(usize::from(byte)).is_some_and(|known| *known))
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

/// Whether the text is not empty, and all its bytes pass.
fn is_of(text: &str, known: impl Fn(u8) -> bool) -> bool {
    !text.is_empty() && text.bytes().all(known)
}

/// The bytes of a day.
const DAY: usize = 10;
/// The bytes of a time whose fraction is kept whole.
const LONG: usize = 48;

/// Python's calendar has no year 0.
fn is_time(text: &str) -> bool {
    text.len() <= LONG && !text.starts_with("0000") && datetime::parse_rfc3339(text).is_some()
}

fn is_rfc3339(text: &str) -> bool {
    !text.contains(' ') && is_time(text)
}
