// SPDX-License-Identifier: Apache-2.0
//! Reads of one commit of an LMDB store, each in one call: the look-ups, the hashes and the
//! count of the reads. In Python each step would cost as much as the look-up itself.
//!
//! LMDB's own objects do the look-ups. A read that finds anything unusual returns None, and the
//! caller repeats it in Python, which reports what is wrong.

use omsgrain_core::address::{self, Digest};
use omsgrain_core::batch;
use omsgrain_core::index_rows::Place;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString};

use crate::addresses;
use crate::functions::{HeldFile, digest as hash, hex};
use crate::index::{Stored, hashed, with_addresses};
use crate::memtable::Tail;
use crate::read_counts::ReadCounts;

/// The bytes of a sequence number. A place has the last four.
const NUMBER: usize = 8;

/// Keys that are looked up together.
const TOGETHER: usize = 16;

/// A key or value of a table.
type Key<'py> = Bound<'py, PyBytes>;

/// A snapshot of a commit, as long as it is the newest. Any thread may use it.
#[pyclass(frozen, module = "omsgrain._core")]
pub struct CommitReader {
    commit: u64,
    /// Begins a read transaction of the data file.
    begin: Py<PyAny>,
    held: Py<HeldFile>,
    lock: Py<PyAny>,
    /// The lock's open transactions.
    marks: Py<PyList>,
    /// The handles of the tables.
    tables: Tables,
    mark: usize,
    memtable: Py<PyAny>,
    /// The numbers of the grains in the memtable, by address.
    recent: Py<PyDict>,
    tail: Py<Tail>,
    watermark: u64,
    last: u64,
    /// Whether all grains in the memtable are still there.
    whole: bool,
    /// Whether also nothing is said of any of them.
    plain: bool,
}

struct Tables {
    addresses: [Py<PyAny>; 2],
    blobs: Py<PyAny>,
    terms: Py<PyAny>,
}

/// A data file: what begins a read transaction, the open file, the lock of its map, and the tables
/// of addresses and of old addresses, of blobs and of current terms.
type File = (Py<PyAny>, Py<HeldFile>, Py<PyAny>, [Py<PyAny>; 2], Py<PyAny>, Py<PyAny>);
/// A commit: its number, the watermark, the last sequence number; whether the memtable is whole,
/// and plain.
type Commit = (u64, u64, u64, bool, bool);
/// A page of grains: their blobs and addresses, the place of the last, and whether there are more.
type Page<'py> = (Vec<Stored<'py>>, Bound<'py, PyBytes>, bool);

#[pymethods]
impl CommitReader {
    #[new]
    fn new(py: Python<'_>, file: File, commit: Commit, memtable: Py<PyAny>, mark: usize) -> PyResult<Self> {
        let (begin, held, lock, addresses, blobs, terms) = file;
        let (commit, watermark, last, whole, plain) = commit;
        let marks = lock.bind(py).getattr(intern!(py, "marks"))?.cast_into::<PyList>()?.unbind();
        let known = memtable.bind(py);
        let recent = known.getattr(intern!(py, "digests"))?.cast_into::<PyDict>()?.unbind();
        let tail = known.getattr(intern!(py, "tail"))?.cast_into::<Tail>()?.unbind();
        let tables = Tables { addresses, blobs, terms };
        Ok(CommitReader {
            commit,
            begin,
            held,
            lock,
            marks,
            tables,
            mark,
            memtable,
            recent,
            tail,
            watermark,
            last,
            whole,
            plain,
        })
    }

    /// The grain at an address, verified and counted.
    fn get<'py>(
        &self,
        py: Python<'py>,
        address: &Bound<'py, PyString>,
        counts: Option<&ReadCounts>,
        when: Option<i64>,
    ) -> Option<Stored<'py>> {
        let digest = address::parse(address.to_str().ok()?).ok()?;
        let (number, rows) = self.read(py, |txn| {
            let Some(number) = self.number(txn, &digest)? else { return Ok(None) };
            let rows = self.rows(txn, std::slice::from_ref(&number))?;
            Ok(rows.map(|rows| (number, rows)))
        })?;
        let blob = rows.first()?.as_bytes().get(self.mark..)?;
        if hash(py, blob) != digest {
            return None;
        }
        if let Some(counts) = counts {
            self.count(py, counts, std::iter::once((digest, sequence(&number))), when);
        }
        Some((PyBytes::new(py, blob), hex(py, &digest)))
    }

    /// The grains at some addresses, verified and counted.
    fn get_many<'py>(
        &self,
        py: Python<'py>,
        addresses: Vec<Bound<'py, PyString>>,
        counts: Option<&ReadCounts>,
        when: Option<i64>,
    ) -> Option<Vec<Stored<'py>>> {
        let digests: Vec<Digest> =
            addresses.iter().map(|one| address::parse(one.to_str().ok()?).ok()).collect::<Option<_>>()?;
        let (numbers, rows) = self.read(py, |txn| {
            let Some(numbers) = self.numbers(txn, &digests)? else { return Ok(None) };
            Ok(self.rows(txn, &numbers)?.map(|rows| (numbers, rows)))
        })?;
        let views: Vec<&[u8]> = rows.iter().map(|row| row.as_bytes()).collect();
        if hashed(py, &views, self.mark) != digests {
            return None;
        }
        let found = with_addresses(py, &views, &digests, self.mark);
        if let Some(counts) = counts {
            let numbers = numbers.iter().map(sequence);
            self.count(py, counts, digests.into_iter().zip(numbers), when);
        }
        Some(found)
    }

    /// The first current grains under a term, verified and counted.
    ///
    /// None too if a grain has this type byte, which only its fields tell the purpose of.
    #[allow(clippy::too_many_arguments)]
    fn page<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyBytes>,
        newest: bool,
        limit: usize,
        unsure: u8,
        counts: Option<&ReadCounts>,
        when: Option<i64>,
    ) -> Option<Page<'py>> {
        let recent = self.recent_places(py, key.as_bytes(), newest, limit + 1)?;
        let (places, rows) = self.read(py, |txn| {
            let places = merged(self.places(txn, key, newest, limit + 1)?, recent, newest, limit + 1);
            let numbers: Vec<_> = places.iter().map(|place| PyBytes::new(py, &number_of(place))).collect();
            Ok(self.rows(txn, &numbers)?.map(|rows| (places, rows)))
        })?;
        let mut views: Vec<&[u8]> = rows.iter().map(|row| row.as_bytes()).collect();
        if views.iter().any(|row| row.get(self.mark + 2).is_none_or(|kind| *kind == unsure)) {
            return None;
        }
        let more = places.len() > limit;
        views.truncate(limit);
        let digests = hashed(py, &views, self.mark);
        if !places.iter().zip(&digests).all(|(place, digest)| batch::is_at(place, digest)) {
            return None;
        }
        let found = with_addresses(py, &views, &digests, self.mark);
        let last = places.get(found.len().wrapping_sub(1)).map_or(&[][..], |place| place);
        if let Some(counts) = counts {
            let numbers = places.iter().map(|place| u64::from_be_bytes(number_of(place)));
            self.count(py, counts, digests.into_iter().zip(numbers), when);
        }
        Some((found, PyBytes::new(py, last), more))
    }
}

impl CommitReader {
    /// Runs in a snapshot of the commit. None if that is no longer the newest, or an error occurs.
    fn read<'py, T>(
        &self,
        py: Python<'py>,
        work: impl FnOnce(&Bound<'py, PyAny>) -> PyResult<Option<T>>,
    ) -> Option<T> {
        let (marks, lock) = (self.marks.bind(py), self.lock.bind(py));
        marks.append(py.None()).ok()?;
        let found = self.begun(py, lock, work);
        // As `Environment.done`: a thread that waits to be alone looks for marks when it is woken.
        let left = marks.del_item(marks.len().wrapping_sub(1));
        if is_taken(lock) {
            lock.call_method0(intern!(py, "wake")).ok()?;
        }
        left.ok()?;
        found.ok().flatten()
    }

    fn count(
        &self,
        py: Python<'_>,
        counts: &ReadCounts,
        grains: impl Iterator<Item = (Digest, u64)>,
        when: Option<i64>,
    ) {
        counts.add_numbered(py, (&self.held, self.commit), grains, when);
    }

    fn begun<'py, T>(
        &self,
        py: Python<'py>,
        lock: &Bound<'py, PyAny>,
        work: impl FnOnce(&Bound<'py, PyAny>) -> PyResult<Option<T>>,
    ) -> PyResult<Option<T>> {
        if is_taken(lock) || !self.held.get().has_name()? {
            return Ok(None);
        }
        let txn = self.begin.bind(py).call0()?;
        let found = match txn.call_method0(intern!(py, "id"))?.extract::<u64>()? == self.commit {
            true => work(&txn),
            false => Ok(None),
        };
        txn.call_method0(intern!(py, "abort"))?;
        found
    }

    /// The sequence number of an address, as the key of its blob; the blob's hash must be compared.
    fn number<'py>(&self, txn: &Bound<'py, PyAny>, digest: &Digest) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let py = txn.py();
        let (key, recent) = (PyBytes::new(py, digest), self.recent.bind(py));
        if !recent.is_empty()
            && let Some(number) = recent.get_item(&key)?
        {
            let number: u64 = number.extract()?;
            let seen = self.whole && number <= self.last;
            return Ok(seen.then(|| PyBytes::new(py, &number.to_be_bytes())));
        }
        for table in &self.tables.addresses {
            let cursor = opened(txn, table)?;
            let number = addresses::first(&cursor, digest)?;
            cursor.call_method0(intern!(py, "close"))?;
            if let Some(number) = number {
                return Ok(Some(PyBytes::new(py, &number.to_be_bytes())));
            }
        }
        Ok(None)
    }

    /// The same of many; None if one is absent.
    fn numbers<'py>(&self, txn: &Bound<'py, PyAny>, digests: &[Digest]) -> PyResult<Option<Vec<Key<'py>>>> {
        let py = txn.py();
        if digests.len() < TOGETHER || !self.recent.bind(py).is_empty() {
            return digests.iter().map(|digest| self.number(txn, digest)).collect();
        }
        let keys: Vec<_> = digests.iter().map(|digest| PyBytes::new(py, digest)).collect();
        let mut numbers: Vec<Option<Key<'py>>> = vec![None; digests.len()];
        for table in &self.tables.addresses {
            let cursor = opened(txn, table)?;
            for (at, number) in addresses::listed(&cursor, keys.clone())? {
                numbers[at].get_or_insert_with(|| PyBytes::new(py, &number.to_be_bytes()));
            }
            cursor.call_method0(intern!(py, "close"))?;
        }
        Ok(numbers.into_iter().collect())
    }

    /// The rows of grains with some numbers; None if one is absent.
    fn rows<'py>(&self, txn: &Bound<'py, PyAny>, numbers: &[Key<'py>]) -> PyResult<Option<Vec<Key<'py>>>> {
        let get = Get::new(txn, &self.tables.blobs)?;
        numbers.iter().map(|number| get.value(number)).collect()
    }

    /// The first places of a term on disk.
    fn places<'py>(
        &self,
        txn: &Bound<'py, PyAny>,
        key: &Bound<'py, PyBytes>,
        newest: bool,
        limit: usize,
    ) -> PyResult<Vec<Place>> {
        let py = txn.py();
        let cursor = opened(txn, &self.tables.terms)?;
        let mut places = Vec::new();
        if cursor.call_method1(intern!(py, "set_key"), (key,))?.is_truthy()? {
            let walk = if newest {
                cursor.call_method0(intern!(py, "last_dup"))?;
                cursor.call_method0(intern!(py, "iterprev_dup"))?
            } else {
                cursor.call_method0(intern!(py, "iternext_dup"))?
            };
            for place in walk.try_iter()?.take(limit) {
                places.push(place?.cast::<PyBytes>()?.as_bytes().try_into()?);
            }
        }
        cursor.call_method0(intern!(py, "close"))?;
        Ok(places)
    }

    /// The first places of a term in the memtable; None if it does not know them all.
    fn recent_places(&self, py: Python<'_>, key: &[u8], newest: bool, limit: usize) -> Option<Vec<Place>> {
        if self.last == self.watermark {
            return Some(Vec::new());
        }
        let made: u64 = self.memtable.bind(py).getattr(intern!(py, "rows_to")).ok()?.extract().ok()?;
        if !self.plain || made != self.last {
            return None;
        }
        let places = self.tail.get().first(py, key, newest, limit);
        // A later commit may have added grains meanwhile.
        let seen = |place: &Place| u64::from_be_bytes(number_of(place)) <= self.last;
        places.iter().all(seen).then_some(places)
    }
}

/// The sequence number in a place.
fn number_of(place: &Place) -> [u8; NUMBER] {
    let mut number = [0; NUMBER];
    number[NUMBER / 2..].copy_from_slice(&place[12..]);
    number
}

/// The sequence number in a key; 0 if it is none.
fn sequence(key: &Key<'_>) -> u64 {
    key.as_bytes().try_into().map_or(0, u64::from_be_bytes)
}

fn is_taken(lock: &Bound<'_, PyAny>) -> bool {
    let taken = lock.getattr(intern!(lock.py(), "taken"));
    taken.is_ok_and(|taken| taken.is_truthy().unwrap_or(true))
}

/// A cursor on a table; close it.
fn opened<'py>(txn: &Bound<'py, PyAny>, table: &Py<PyAny>) -> PyResult<Bound<'py, PyAny>> {
    txn.call_method1(intern!(txn.py(), "cursor"), (table.bind(txn.py()),))
}

/// Looks up keys in a table.
struct Get<'a, 'py> {
    get: Bound<'py, PyAny>,
    table: &'a Bound<'py, PyAny>,
    none: Bound<'py, PyAny>,
}

impl<'a, 'py> Get<'a, 'py> {
    fn new(txn: &Bound<'py, PyAny>, table: &'a Py<PyAny>) -> PyResult<Self> {
        let py = txn.py();
        let get = txn.getattr(intern!(py, "get"))?;
        Ok(Get { get, table: table.bind(py), none: py.None().into_bound(py) })
    }

    fn value(&self, key: &Key<'py>) -> PyResult<Option<Key<'py>>> {
        let value = self.get.call1((key, &self.none, self.table))?;
        Ok(if value.is_none() { None } else { Some(value.cast_into()?) })
    }
}

fn merged(mut disk: Vec<Place>, recent: Vec<Place>, newest: bool, limit: usize) -> Vec<Place> {
    if !recent.is_empty() {
        disk.extend(recent);
        disk.sort_unstable();
        if newest {
            disk.reverse();
        }
        disk.truncate(limit);
    }
    disk
}
