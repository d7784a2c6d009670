// SPDX-License-Identifier: Apache-2.0
//! NFC without an allocator: a letter at a time, with a bounded number of marks on it. Libraries
//! that compose text allocate. Spec: OMS §4.4, Unicode Standard Annex 15

use unicode_normalization::char::{canonical_combining_class, compose as join, decompose_canonical};

/// The most marks on one letter. Text of Unicode's stream-safe format has no more.
pub const MARKS: usize = 30;

/// Gives a text in NFC to `emit`, in pieces, and returns whether that was possible: false if a
/// letter has more than [`MARKS`] marks.
#[must_use]
pub fn compose(text: &str, emit: &mut dyn FnMut(&str)) -> bool {
    if text.is_ascii() {
        emit(text);
        return true;
    }
    let mut letter = Letter { emit, starter: None, marks: [(0, '\0'); MARKS], count: 0, full: false };
    for c in text.chars() {
        decompose_canonical(c, |part| letter.add(part));
    }
    letter.compose_marks();
    letter.give();
    !letter.full
}

/// The letter that may still change: a starter, and its marks in canonical order.
struct Letter<'e> {
    emit: &'e mut dyn FnMut(&str),
    starter: Option<char>,
    /// Each mark after its combining class.
    marks: [(u8, char); MARKS],
    count: usize,
    full: bool,
}

impl Letter<'_> {
    fn add(&mut self, c: char) {
        match canonical_combining_class(c) {
            0 => self.add_starter(c),
            class => self.add_mark(class, c),
        }
    }

    fn add_starter(&mut self, c: char) {
        self.compose_marks();
        if self.count == 0
            && let Some(both) = self.starter.and_then(|starter| join(starter, c))
        {
            self.starter = Some(both);
            return;
        }
        self.give();
        self.starter = Some(c);
    }

    /// Marks of one class keep their order.
    fn add_mark(&mut self, class: u8, c: char) {
        if self.count == MARKS {
            self.full = true;
            return;
        }
        let (mut moved, mut behind) = ((class, c), false);
        for mark in self.marks.iter_mut().take(self.count) {
            behind |= mark.0 > class;
            if behind {
                core::mem::swap(mark, &mut moved);
            }
        }
        self.put(moved);
    }

    /// A mark of the same class between a mark and the starter keeps the two apart.
    fn compose_marks(&mut self) {
        let Some(mut starter) = self.starter else { return };
        let (marks, count, mut last) = (self.marks, self.count, 0);
        self.count = 0;
        for (class, c) in marks.into_iter().take(count) {
            match join(starter, c) {
                Some(both) if last < class => starter = both,
                _ => {
                    self.put((class, c));
                    last = class;
                }
            }
        }
        self.starter = Some(starter);
    }

    fn put(&mut self, mark: (u8, char)) {
        if let Some(free) = self.marks.get_mut(self.count) {
            *free = mark;
            self.count += 1;
        }
    }

    fn give(&mut self) {
        let marks = self.marks.iter().take(self.count).map(|(_, c)| *c);
        for c in self.starter.take().into_iter().chain(marks) {
            (self.emit)(c.encode_utf8(&mut [0; 4]));
        }
        self.count = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::String;
    use unicode_normalization::UnicodeNormalization as _;

    fn agree(text: &str) {
        let mut out = String::new();
        assert!(compose(text, &mut |piece| out.push_str(piece)), "{text:?}");
        assert_eq!(out, text.nfc().collect::<String>(), "{text:?}");
    }

    #[test]
    fn every_letter_alone_and_between_marks() {
        let mut text = String::new();
        for c in '\u{80}'..=char::MAX {
            let odd = canonical_combining_class(c) != 0 || !core::iter::once(c).nfd().eq([c]);
            // A sample of the million letters that do not change is enough.
            if odd || (c as u32).is_multiple_of(61) {
                text.clear();
                text.push(c);
                agree(&text);
                text.insert_str(0, "a\u{323}");
                text.push_str("\u{301}\u{307}\u{1175}\u{11a8}e");
                agree(&text);
            }
        }
    }

    #[test]
    fn random_runs_of_letters_that_combine() {
        let odd: Vec<char> = ('\u{80}'..=char::MAX)
            .filter(|c| canonical_combining_class(*c) != 0 || ('\u{1100}'..'\u{1200}').contains(c))
            .chain("aeiouKα\u{1025}\u{102e}\u{9c7}\u{9be}\u{9d7}\u{dd9}\u{dcf}\u{dca}가각かハ".chars())
            .collect();
        let mut seed = 7u64;
        let mut below = |n: usize| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) as usize % n
        };
        for _ in 0..20_000 {
            let text: String = (0..below(12)).map(|_| odd[below(odd.len())]).collect();
            agree(&text);
        }
    }

    #[test]
    fn too_many_marks_are_refused() {
        let text = |n: usize| String::from("a") + &"\u{323}\u{301}".repeat(n);
        agree(&text(MARKS / 2));
        assert!(!compose(&text(MARKS / 2 + 1), &mut |_| ()));
    }
}
