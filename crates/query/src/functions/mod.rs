//! The built-in functions: one table, one entry a function, one file a group.
//!
//! An entry is a name, how many arguments it takes, and what it does. Adding a function is one
//! entry here, its body in the file of its group, and its rows in the table tests. A function that
//! gets what it does not work on gives undefined; only limits are errors.

mod array;
mod conversion;
mod date_time;
mod date_time_format;
mod integers;
mod item;
mod math;
mod sets;
mod spatial;
mod string;
#[cfg(test)]
mod tests;
mod time;
mod types;

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::error::{CompileError, EvalError};
use crate::meter::Meter;
use crate::value::Datum;

/// A built-in function.
#[derive(Debug)]
pub(crate) struct Function {
    name: &'static str,
    least: usize,
    most: usize,
    body: Body,
}

/// The body of a function: arguments may be taken out of the slice.
type Body = for<'a> fn(&mut Meter<'_>, &mut [Datum<'a>]) -> Result<Datum<'a>, EvalError>;

/// For functions that take any number of arguments.
const ANY: usize = usize::MAX;

/// Every function there is, by group.
static TABLE: &[Function] = &[
    // Types
    entry("IS_ARRAY", 1, 1, types::is_array),
    entry("IS_BOOL", 1, 1, types::is_bool),
    entry("IS_DATETIME", 1, 1, types::is_datetime),
    entry("IS_DEFINED", 1, 1, types::is_defined),
    entry("IS_FINITE_NUMBER", 1, 1, types::is_finite_number),
    entry("IS_INTEGER", 1, 1, types::is_integer),
    entry("IS_NULL", 1, 1, types::is_null),
    entry("IS_NUMBER", 1, 1, types::is_number),
    entry("IS_OBJECT", 1, 1, types::is_object),
    entry("IS_PRIMITIVE", 1, 1, types::is_primitive),
    entry("IS_STRING", 1, 1, types::is_string),
    // Strings
    entry("CONCAT", 2, ANY, string::concat),
    entry("CONTAINS", 2, 3, string::contains),
    entry("CONTAINS_ALL_CI", 2, ANY, string::contains_all_ci),
    entry("CONTAINS_ALL_CS", 2, ANY, string::contains_all_cs),
    entry("CONTAINS_ANY_CI", 2, ANY, string::contains_any_ci),
    entry("CONTAINS_ANY_CS", 2, ANY, string::contains_any_cs),
    entry("ENDSWITH", 2, 3, string::ends_with),
    entry("INDEX_OF", 2, 3, string::index_of),
    entry("LASTINDEXOF", 2, 3, string::last_index_of),
    entry("LEFT", 2, 2, string::left),
    entry("LENGTH", 1, 1, string::length),
    entry("LOWER", 1, 1, string::lower),
    entry("LTRIM", 1, 2, string::trim_left),
    entry(REGEX_MATCH, 2, 3, string::regex_match),
    entry("REPLACE", 3, 3, string::replace),
    entry("REPLICATE", 2, 2, string::replicate),
    entry("REVERSE", 1, 1, string::reverse),
    entry("RIGHT", 2, 2, string::right),
    entry("RTRIM", 1, 2, string::trim_right),
    entry("STARTSWITH", 2, 3, string::starts_with),
    entry("STRINGEQUALS", 2, 3, string::string_equals),
    entry("STRINGJOIN", 2, 2, string::join),
    entry("STRINGSPLIT", 2, 2, string::split),
    entry("SUBSTRING", 3, 3, string::substring),
    entry("TRIM", 1, 2, string::trim),
    entry("UPPER", 1, 1, string::upper),
    // Conversion
    entry("STRINGTOARRAY", 1, 1, conversion::string_to_array),
    entry("STRINGTOBOOLEAN", 1, 1, conversion::string_to_boolean),
    entry("STRINGTONULL", 1, 1, conversion::string_to_null),
    entry("STRINGTONUMBER", 1, 1, conversion::string_to_number),
    entry("STRINGTOOBJECT", 1, 1, conversion::string_to_object),
    entry("TOSTRING", 1, 1, conversion::to_string),
    // Conditional
    entry("IIF", 3, 3, conversion::iif),
    // Arrays
    entry("ARRAY_AVG", 1, 1, array::average),
    entry("ARRAY_CONCAT", 2, ANY, array::concat),
    entry("ARRAY_CONTAINS", 2, 3, array::contains),
    entry("ARRAY_CONTAINS_ALL", 2, ANY, array::contains_all),
    entry("ARRAY_CONTAINS_ANY", 2, ANY, array::contains_any),
    entry("ARRAY_LENGTH", 1, 1, array::length),
    entry("ARRAY_MAX", 1, 1, array::max),
    entry("ARRAY_MEDIAN", 1, 1, array::median),
    entry("ARRAY_MIN", 1, 1, array::min),
    entry("ARRAY_SLICE", 2, 3, array::slice),
    entry("ARRAY_SUM", 1, 1, array::sum),
    entry("CHOOSE", 2, ANY, array::choose),
    entry("OBJECTTOARRAY", 1, 3, array::from_object),
    entry("SETDIFFERENCE", 2, 2, sets::difference),
    entry("SETEQUAL", 2, 2, sets::equal),
    entry("SETINTERSECT", 2, 2, sets::intersect),
    entry("SETUNION", 2, 2, sets::union),
    // Mathematics
    entry("ABS", 1, 1, math::abs),
    entry("ACOS", 1, 1, math::acos),
    entry("ASIN", 1, 1, math::asin),
    entry("ATAN", 1, 1, math::atan),
    entry("ATN2", 2, 2, math::atn2),
    entry("CEILING", 1, 1, math::ceiling),
    entry("COS", 1, 1, math::cos),
    entry("COT", 1, 1, math::cot),
    entry("DEGREES", 1, 1, math::degrees),
    entry("EXP", 1, 1, math::exp),
    entry("FLOOR", 1, 1, math::floor),
    entry("LOG", 1, 2, math::log),
    entry("LOG10", 1, 1, math::log10),
    entry("NUMBERBIN", 1, 2, math::number_bin),
    entry("PI", 0, 0, math::pi),
    entry("POWER", 2, 2, math::power),
    entry("RADIANS", 1, 1, math::radians),
    entry(RAND, 0, 0, math::rand),
    entry("ROUND", 1, 1, math::round),
    entry("SIGN", 1, 1, math::sign),
    entry("SIN", 1, 1, math::sin),
    entry("SQRT", 1, 1, math::sqrt),
    entry("SQUARE", 1, 1, math::square),
    entry("TAN", 1, 1, math::tan),
    entry("TRUNC", 1, 1, math::trunc),
    // The current time
    entry("GETCURRENTDATETIME", 0, 0, time::current_date_time),
    entry("GETCURRENTDATETIMESTATIC", 0, 0, time::current_date_time),
    entry("GETCURRENTTICKS", 0, 0, time::current_ticks),
    entry("GETCURRENTTICKSSTATIC", 0, 0, time::current_ticks),
    entry("GETCURRENTTIMESTAMP", 0, 0, time::current_timestamp),
    entry("GETCURRENTTIMESTAMPSTATIC", 0, 0, time::current_timestamp),
    entry("NOW", 0, 0, time::current_date_time),
    // Dates and times
    entry("AGO", 2, 2, date_time::ago),
    entry("DATETIMEADD", 3, 3, date_time::add),
    entry("DATETIMEBIN", 2, 4, date_time::bin),
    entry("DATETIMEDIFF", 3, 3, date_time::diff),
    entry("DATETIMEFORMAT", 2, 2, date_time::format),
    entry("DATETIMEFROMPARTS", 3, 7, date_time::from_parts),
    entry("DATETIMEPART", 2, 2, date_time::part),
    entry("DATETIMETOTICKS", 1, 1, date_time::to_ticks),
    entry("DATETIMETOTIMESTAMP", 1, 1, date_time::to_timestamp),
    entry("DAY", 1, 1, date_time::day),
    entry("MONTH", 1, 1, date_time::month),
    entry("TICKSTODATETIME", 1, 1, date_time::from_ticks),
    entry("TIMESTAMPTODATETIME", 1, 1, date_time::from_timestamp),
    entry("YEAR", 1, 1, date_time::year),
    // Items
    entry("DOCUMENTID", 1, 1, item::document_id),
    // 64-bit integers
    entry("INTADD", 2, 2, integers::add),
    entry("INTBITAND", 2, 2, integers::bit_and),
    entry("INTBITLEFTSHIFT", 2, 2, integers::shift_left),
    entry("INTBITNOT", 1, 1, integers::bit_not),
    entry("INTBITOR", 2, 2, integers::bit_or),
    entry("INTBITRIGHTSHIFT", 2, 2, integers::shift_right),
    entry("INTBITXOR", 2, 2, integers::bit_xor),
    entry("INTDIV", 2, 2, integers::divide),
    entry("INTMOD", 2, 2, integers::modulo),
    entry("INTMUL", 2, 2, integers::multiply),
    entry("INTSUB", 2, 2, integers::subtract),
    // Spatial
    entry("ST_AREA", 1, 1, spatial::area),
    entry("ST_DISTANCE", 2, 2, spatial::distance),
    entry("ST_INTERSECTS", 2, 2, spatial::intersects),
    entry("ST_ISVALID", 1, 1, spatial::is_valid),
    entry("ST_ISVALIDDETAILED", 1, 1, spatial::is_valid_detailed),
    entry("ST_WITHIN", 2, 2, spatial::within),
];

/// Functions of the language that are not in the table, so that an error can tell them from
/// misspellings.
static KNOWN_ELSEWHERE: &[&str] = &[
    "FULLTEXTCONTAINS",
    "FULLTEXTCONTAINSALL",
    "FULLTEXTCONTAINSANY",
    "FULLTEXTSCORE",
    "RRF",
    "VECTORDISTANCE",
];

/// The one function whose constant arguments are worth compiling with the query.
const REGEX_MATCH: &str = "REGEXMATCH";

/// The one function that is not a function of its arguments.
const RAND: &str = "RAND";

static INDEX: LazyLock<HashMap<&'static str, &'static Function>> =
    LazyLock::new(|| TABLE.iter().map(|function| (function.name, function)).collect());

/// Finds a function by its name, in any case.
pub(crate) fn find(name: &str) -> Result<&'static Function, CompileError> {
    let upper = name.to_ascii_uppercase();
    if let Some(function) = INDEX.get(upper.as_str()) {
        return Ok(function);
    }
    Err(match KNOWN_ELSEWHERE.contains(&upper.as_str()) {
        true => CompileError::UnavailableFunction(name.to_owned()),
        false => CompileError::UnknownFunction(name.to_owned()),
    })
}

const fn entry(name: &'static str, least: usize, most: usize, body: Body) -> Function {
    Function { name, least, most, body }
}

impl Function {
    pub(crate) fn is_regex_match(&self) -> bool {
        self.name == REGEX_MATCH
    }

    /// Whether two calls give two results.
    pub(crate) fn is_random(&self) -> bool {
        self.name == RAND
    }

    pub(crate) fn check_arity(&self, given: usize) -> Result<(), CompileError> {
        if (self.least..=self.most).contains(&given) {
            return Ok(());
        }
        let expected = match (self.least, self.most) {
            (least, most) if least == most => format!("{least} argument(s)"),
            (least, ANY) => format!("at least {least} argument(s)"),
            (least, most) => format!("{least} to {most} argument(s)"),
        };
        Err(Self::wrong_count(self.name, &expected, given))
    }

    pub(crate) fn wrong_count(name: &str, expected: &str, given: usize) -> CompileError {
        CompileError::ArgumentCount { name: name.to_owned(), expected: expected.to_owned(), given }
    }

    pub(crate) fn apply<'a>(
        &self,
        meter: &mut Meter<'_>,
        arguments: &mut [Datum<'a>],
    ) -> Result<Datum<'a>, EvalError> {
        (self.body)(meter, arguments)
    }
}
