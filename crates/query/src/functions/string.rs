//! Text: searching, cutting, joining. Positions and lengths count characters.

use std::borrow::Cow;

use serde_json::Value;

use crate::error::EvalError;
use crate::limits::MAX_REPLICATED_LENGTH;
use crate::meter::Meter;
use crate::value::Datum;

type Answer<'a> = Result<Datum<'a>, EvalError>;

pub(super) fn concat<'a>(meter: &mut Meter<'_>, args: &mut [Datum<'a>]) -> Answer<'a> {
    let Some(parts) = args.iter().map(Datum::as_str).collect::<Option<Vec<_>>>() else {
        return Ok(Datum::Undefined);
    };
    meter.build("CONCAT", parts.iter().map(|part| part.len()).sum())?;
    Ok(Datum::text(parts.concat()))
}

/// Applies `test` to two texts, folded to one case if a third argument of true says so.
fn test_texts<'a>(args: &[Datum<'a>], test: fn(&str, &str) -> bool) -> Answer<'a> {
    let ignore_case = match args.get(2) {
        None => false,
        Some(Datum::Bool(ignore)) => *ignore,
        Some(_) => return Ok(Datum::Undefined),
    };
    let (Some(text), Some(part)) = (args[0].as_str(), args[1].as_str()) else {
        return Ok(Datum::Undefined);
    };
    Ok(Datum::Bool(match ignore_case {
        true => test(&text.to_lowercase(), &part.to_lowercase()),
        false => test(text, part),
    }))
}

pub(super) fn contains<'a>(_: &mut Meter<'_>, args: &mut [Datum<'a>]) -> Answer<'a> {
    test_texts(args, |text, part| text.contains(part))
}

pub(super) fn starts_with<'a>(_: &mut Meter<'_>, args: &mut [Datum<'a>]) -> Answer<'a> {
    test_texts(args, |text, part| text.starts_with(part))
}

pub(super) fn ends_with<'a>(_: &mut Meter<'_>, args: &mut [Datum<'a>]) -> Answer<'a> {
    test_texts(args, |text, part| text.ends_with(part))
}

pub(super) fn string_equals<'a>(_: &mut Meter<'_>, args: &mut [Datum<'a>]) -> Answer<'a> {
    test_texts(args, |text, other| text == other)
}

pub(super) fn contains_all_cs<'a>(meter: &mut Meter<'_>, args: &mut [Datum<'a>]) -> Answer<'a> {
    contains_several(meter, args, false, false)
}

pub(super) fn contains_all_ci<'a>(meter: &mut Meter<'_>, args: &mut [Datum<'a>]) -> Answer<'a> {
    contains_several(meter, args, false, true)
}

pub(super) fn contains_any_cs<'a>(meter: &mut Meter<'_>, args: &mut [Datum<'a>]) -> Answer<'a> {
    contains_several(meter, args, true, false)
}

pub(super) fn contains_any_ci<'a>(meter: &mut Meter<'_>, args: &mut [Datum<'a>]) -> Answer<'a> {
    contains_several(meter, args, true, true)
}

/// One `decisive` answer settles it; otherwise a part that is no text leaves it open.
fn contains_several<'a>(
    meter: &mut Meter<'_>,
    args: &[Datum<'a>],
    decisive: bool,
    ignore_case: bool,
) -> Answer<'a> {
    let Some(text) = args[0].as_str() else { return Ok(Datum::Undefined) };
    let text = if ignore_case { Cow::Owned(text.to_lowercase()) } else { Cow::Borrowed(text) };
    let mut open = false;
    for part in &args[1..] {
        meter.touch(text.len())?;
        let found = part.as_str().map(|part| match ignore_case {
            true => text.contains(&part.to_lowercase()),
            false => text.contains(part),
        });
        match found {
            Some(found) if found == decisive => return Ok(Datum::Bool(decisive)),
            Some(_) => {}
            None => open = true,
        }
    }
    Ok(Datum::bool((!open).then_some(!decisive)))
}

/// Where a part first occurs at or after a start, or -1.
pub(super) fn index_of<'a>(_: &mut Meter<'_>, args: &mut [Datum<'a>]) -> Answer<'a> {
    let start = match args.get(2) {
        None => Some(0),
        Some(start) => whole(start).map(|start| start.max(0) as usize),
    };
    let (Some(text), Some(part), Some(start)) = (args[0].as_str(), args[1].as_str(), start) else {
        return Ok(Datum::Undefined);
    };
    let Some(skipped) = byte_offset(text, start) else { return Ok(Datum::number(-1.0)) };
    let found = text[skipped..].find(part);
    Ok(found.map_or(Datum::number(-1.0), |at| Datum::integer(text[..skipped + at].chars().count())))
}

/// Where a part last occurs at or before a start, or -1.
pub(super) fn last_index_of<'a>(_: &mut Meter<'_>, args: &mut [Datum<'a>]) -> Answer<'a> {
    let last = match args.get(2) {
        None => Some(usize::MAX),
        Some(last) => whole(last).map(|last| usize::try_from(last).unwrap_or(0)),
    };
    let (Some(text), Some(part), Some(last)) = (args[0].as_str(), args[1].as_str(), last) else {
        return Ok(Datum::Undefined);
    };
    // A match may start at `last`, so it may end a whole part later.
    let end = byte_offset(text, last).map_or(text.len(), |at| (at + part.len()).min(text.len()));
    let end = (end..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
    let found = text[..end].rfind(part);
    Ok(found.map_or(Datum::number(-1.0), |at| Datum::integer(text[..at].chars().count())))
}

pub(super) fn length<'a>(_: &mut Meter<'_>, args: &mut [Datum<'a>]) -> Answer<'a> {
    Ok(args[0].as_str().map_or(Datum::Undefined, |text| Datum::integer(text.chars().count())))
}

pub(super) fn lower<'a>(meter: &mut Meter<'_>, args: &mut [Datum<'a>]) -> Answer<'a> {
    map_text(meter, "LOWER", args, str::to_lowercase)
}

pub(super) fn upper<'a>(meter: &mut Meter<'_>, args: &mut [Datum<'a>]) -> Answer<'a> {
    map_text(meter, "UPPER", args, str::to_uppercase)
}

pub(super) fn reverse<'a>(meter: &mut Meter<'_>, args: &mut [Datum<'a>]) -> Answer<'a> {
    map_text(meter, "REVERSE", args, |text| text.chars().rev().collect())
}

fn map_text<'a>(
    meter: &mut Meter<'_>,
    function: &'static str,
    args: &[Datum<'a>],
    map: impl Fn(&str) -> String,
) -> Answer<'a> {
    let Some(text) = args[0].as_str() else { return Ok(Datum::Undefined) };
    meter.build(function, text.len())?;
    Ok(Datum::text(map(text)))
}

pub(super) fn trim<'a>(_: &mut Meter<'_>, args: &mut [Datum<'a>]) -> Answer<'a> {
    trim_sides(args, true, true)
}

pub(super) fn trim_left<'a>(_: &mut Meter<'_>, args: &mut [Datum<'a>]) -> Answer<'a> {
    trim_sides(args, true, false)
}

pub(super) fn trim_right<'a>(_: &mut Meter<'_>, args: &mut [Datum<'a>]) -> Answer<'a> {
    trim_sides(args, false, true)
}

/// Takes off white space, or the characters of a second argument.
fn trim_sides<'a>(args: &mut [Datum<'a>], left: bool, right: bool) -> Answer<'a> {
    let drop = match args.get(1) {
        None => None,
        Some(Datum::String(drop)) => Some(drop.to_string()),
        Some(_) => return Ok(Datum::Undefined),
    };
    let drops = |c: char| drop.as_ref().map_or(c.is_whitespace(), |drop| drop.contains(c));
    cut(args, |text| {
        let start = if left { text.len() - text.trim_start_matches(drops).len() } else { 0 };
        let kept = &text[start..];
        let length = if right { kept.trim_end_matches(drops).len() } else { kept.len() };
        start..start + length
    })
}

/// Gives the part of the first argument in a range of bytes, borrowed if the text is.
fn cut<'a>(args: &mut [Datum<'a>], range: impl Fn(&str) -> std::ops::Range<usize>) -> Answer<'a> {
    Ok(match std::mem::take(&mut args[0]) {
        Datum::String(Cow::Borrowed(text)) => Datum::String(Cow::Borrowed(&text[range(text)])),
        Datum::String(Cow::Owned(text)) => Datum::text(&text[range(&text)]),
        _ => Datum::Undefined,
    })
}

pub(super) fn left<'a>(_: &mut Meter<'_>, args: &mut [Datum<'a>]) -> Answer<'a> {
    let Some(count) = whole(&args[1]) else { return Ok(Datum::Undefined) };
    cut(args, |text| 0..offset(text, count))
}

pub(super) fn right<'a>(_: &mut Meter<'_>, args: &mut [Datum<'a>]) -> Answer<'a> {
    let Some(count) = whole(&args[1]) else { return Ok(Datum::Undefined) };
    cut(args, |text| {
        let all = i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
        offset(text, all.saturating_sub(count.max(0)))..text.len()
    })
}

/// From a start, the first character being 0, for a length.
pub(super) fn substring<'a>(_: &mut Meter<'_>, args: &mut [Datum<'a>]) -> Answer<'a> {
    let (Some(start), Some(length)) = (whole(&args[1]), whole(&args[2])) else {
        return Ok(Datum::Undefined);
    };
    cut(args, |text| {
        let from = offset(text, start);
        from..from + offset(&text[from..], length)
    })
}

/// The byte where the character `count` starts, within the text.
fn offset(text: &str, count: i64) -> usize {
    let count = usize::try_from(count).unwrap_or(0);
    byte_offset(text, count).unwrap_or(text.len())
}

/// The byte where the character `count` starts, if the text is as long.
fn byte_offset(text: &str, count: usize) -> Option<usize> {
    if text.is_ascii() {
        return (count <= text.len()).then_some(count);
    }
    let starts = text.char_indices().map(|(at, _)| at).chain([text.len()]);
    starts.into_iter().nth(count)
}

/// A number without its fraction.
fn whole(number: &Datum<'_>) -> Option<i64> {
    // The cast stops at the ends of the range, far beyond any length.
    number.as_f64().map(|number| number as i64)
}

/// Only reached through the table; calls are compiled with their pattern.
pub(super) fn regex_match<'a>(_: &mut Meter<'_>, _: &mut [Datum<'a>]) -> Answer<'a> {
    Ok(Datum::Undefined)
}

pub(super) fn replace<'a>(meter: &mut Meter<'_>, args: &mut [Datum<'a>]) -> Answer<'a> {
    let texts = (args[0].as_str(), args[1].as_str(), args[2].as_str());
    let (Some(text), Some(from), Some(to)) = texts else { return Ok(Datum::Undefined) };
    if from.is_empty() {
        return Ok(Datum::text(text));
    }
    let grown = text.matches(from).count().saturating_mul(to.len());
    meter.build("REPLACE", text.len().saturating_add(grown))?;
    Ok(Datum::text(text.replace(from, to)))
}

pub(super) fn replicate<'a>(meter: &mut Meter<'_>, args: &mut [Datum<'a>]) -> Answer<'a> {
    let (Some(text), Some(times)) = (args[0].as_str(), whole(&args[1])) else {
        return Ok(Datum::Undefined);
    };
    let times = usize::try_from(times).ok();
    let length = times.map(|times| text.chars().count().saturating_mul(times));
    let fits = length.is_some_and(|length| length <= MAX_REPLICATED_LENGTH);
    let Some(times) = times.filter(|_| fits && !text.is_empty()) else {
        let empty = text.is_empty() && times.is_some();
        return Ok(if empty { Datum::text("") } else { Datum::Undefined });
    };
    meter.build("REPLICATE", text.len() * times)?;
    Ok(Datum::text(text.repeat(times)))
}

pub(super) fn join<'a>(meter: &mut Meter<'_>, args: &mut [Datum<'a>]) -> Answer<'a> {
    let (Some(items), Some(between)) = (args[0].as_array(), args[1].as_str()) else {
        return Ok(Datum::Undefined);
    };
    let Some(parts) = items.iter().map(Value::as_str).collect::<Option<Vec<_>>>() else {
        return Ok(Datum::Undefined);
    };
    let separators = between.len().saturating_mul(parts.len());
    meter.build(
        "StringJoin",
        parts.iter().map(|p| p.len()).sum::<usize>().saturating_add(separators),
    )?;
    Ok(Datum::text(parts.join(between)))
}

pub(super) fn split<'a>(meter: &mut Meter<'_>, args: &mut [Datum<'a>]) -> Answer<'a> {
    let (Some(text), Some(between)) = (args[0].as_str(), args[1].as_str()) else {
        return Ok(Datum::Undefined);
    };
    /// The charge of each part beside its text.
    const PART: usize = 32;
    let parts = if between.is_empty() { 1 } else { text.matches(between).count() + 1 };
    meter.build("StringSplit", text.len() + parts.saturating_mul(PART))?;
    let owned = |part: &str| Value::String(part.to_owned());
    let items = match between {
        "" => vec![owned(text)],
        _ => text.split(between).map(owned).collect(),
    };
    Ok(Datum::Array(Cow::Owned(items)))
}
