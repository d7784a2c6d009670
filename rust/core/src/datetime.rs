// SPDX-License-Identifier: Apache-2.0
//! RFC 3339 text to milliseconds since 1970, floored, and back. Spec: OMS §4.7

use alloc::string::String;

/// Parses `2026-01-15T10:00:00.25+01:00`. `T` may be `t` or a space, `Z` may be `z`; a leap second
/// is read as the first instant of the next minute. None for anything else.
pub fn parse_rfc3339(text: &str) -> Option<i64> {
    let b = text.as_bytes();
    let number = |from: usize, to: usize| -> Option<i64> {
        let digits = b.get(from..to)?;
        digits.iter().try_fold(0i64, |n, d| d.is_ascii_digit().then(|| n * 10 + i64::from(d - b'0')))
    };
    let sign = |at: usize, any: &[u8]| b.get(at).filter(|c| any.contains(c)).map(|_| ());
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    sign(4, b"-")?;
    sign(7, b"-")?;
    sign(10, b"Tt ")?;
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    sign(13, b":")?;
    sign(16, b":")?;
    if !(1..=12).contains(&month) || day < 1 || day > days_in_month(year, month) {
        return None;
    }
    if hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let mut at = 19;
    let mut millis = 0;
    if b.get(at) == Some(&b'.') {
        let digits = b[at + 1..].iter().take_while(|d| d.is_ascii_digit()).count();
        if digits == 0 {
            return None;
        }
        for place in 0..3 {
            let digit = if place < digits { i64::from(b[at + 1 + place] - b'0') } else { 0 };
            millis = millis * 10 + digit;
        }
        at += 1 + digits;
    }
    let offset = match b.get(at)? {
        b'Z' | b'z' if b.len() == at + 1 => 0,
        c @ (b'+' | b'-') if b.len() == at + 6 && b[at + 3] == b':' => {
            let (h, m) = (number(at + 1, at + 3)?, number(at + 4, at + 6)?);
            if h > 23 || m > 59 {
                return None;
            }
            (h * 60 + m) * if *c == b'+' { 1 } else { -1 }
        }
        _ => return None,
    };
    let seconds =
        days_since_1970(year, month, day) * 86_400 + hour * 3_600 + minute * 60 + second - offset * 60;
    // A leap second ends a UTC day; a second later it is midnight.
    if second == 60 && seconds.rem_euclid(86_400) != 0 {
        return None;
    }
    Some(seconds * 1_000 + if second == 60 { 0 } else { millis })
}

/// Milliseconds since 1970 as text in UTC: in whole seconds if possible, else with three decimals.
/// None except for years 1 to 9999.
pub fn spell(ms: i64) -> Option<String> {
    let (days, rest) = (ms.div_euclid(86_400_000), ms.rem_euclid(86_400_000));
    let (year, month, day) = date(days);
    if !(1..=9999).contains(&year) {
        return None;
    }
    let (seconds, millis) = (rest / 1000, rest % 1000);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let whole = format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}");
    Some(if millis == 0 { whole + "Z" } else { format!("{whole}.{millis:03}Z") })
}

fn days_in_month(year: i64, month: i64) -> i64 {
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    match month {
        2 => 28 + i64::from(leap),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days from 1970-01-01 in the proleptic Gregorian calendar (counted from March, so that the leap
/// day comes last).
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let year = year - i64::from(month <= 2);
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// The inverse of `days_since_1970`.
fn date(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = (from_march + 2) % 12 + 1;
    (era * 400 + year + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::{date, days_since_1970, parse_rfc3339, spell};

    #[test]
    fn spells_what_it_reads() {
        for text in [
            "1970-01-01T00:00:00Z",
            "2026-01-15T10:00:00Z",
            "2000-02-29T23:59:59.999Z",
            "1969-12-31T23:59:59.001Z",
            "0001-01-01T00:00:00Z",
            "9999-12-31T23:59:59.999Z",
        ] {
            assert_eq!(parse_rfc3339(text).and_then(spell).as_deref(), Some(text));
        }
        for text in ["0000-12-31T23:59:59Z", "9999-12-31T23:59:59-00:01"] {
            assert_eq!(parse_rfc3339(text).and_then(spell), None);
        }
        assert_eq!((spell(i64::MIN), spell(i64::MAX)), (None, None));
        for days in (-1_000_000..4_000_000).step_by(97) {
            let (year, month, day) = date(days);
            assert_eq!(days_since_1970(year, month, day), days);
        }
    }

    #[test]
    fn reads_what_rfc_3339_allows() {
        for (text, ms) in [
            ("1970-01-01T00:00:00Z", 0),
            ("2026-01-15T10:00:00Z", 1_768_471_200_000),
            ("2026-01-15t11:00:00.5+01:00", 1_768_471_200_500),
            ("2026-01-15 10:00:00.0009z", 1_768_471_200_000),
            ("2000-02-29T23:59:59.999-00:30", 951_870_599_999),
            ("1969-12-31T23:59:59.9999Z", -1),
            ("2016-12-31T23:59:60Z", 1_483_228_800_000),
            ("0000-01-01T00:00:00Z", -62_167_219_200_000),
        ] {
            assert_eq!(parse_rfc3339(text), Some(ms), "{text}");
        }
    }

    #[test]
    fn refuses_the_rest() {
        for text in [
            "",
            "2026-01-15",
            "2026-01-15T10:00Z",
            "2026-01-15T10:00:00",
            "2026-13-01T00:00:00Z",
            "2026-02-29T00:00:00Z",
            "2026-01-15T24:00:00Z",
            "2026-01-15T10:00:60Z",
            "2026-01-15T10:00:00.Z",
            "2026-01-15T10:00:00+0100",
            "2026-01-15T10:00:00Zz",
            "2026-01-15T10:00:00+24:00",
            "２026-01-15T10:00:00Z",
            "2026-1-15T10:00:00Z",
        ] {
            assert_eq!(parse_rfc3339(text), None, "{text}");
        }
    }
}
