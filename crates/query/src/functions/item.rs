//! Functions of an item as a whole.

use sidereal_protocol::Rid;

use crate::error::EvalError;
use crate::meter::Meter;
use crate::value::{Datum, View};

/// The number of an item within its physical partition: the last part of its RID.
pub(super) fn document_id<'a>(
    _: &mut Meter<'_>,
    args: &mut [Datum<'a>],
) -> Result<Datum<'a>, EvalError> {
    let View::Object(members) = args[0].view() else { return Ok(Datum::Undefined) };
    let rid = members.get("_rid").and_then(serde_json::Value::as_str);
    let rid: Option<Rid> = rid.and_then(|rid| rid.parse().ok());
    let number = rid.and_then(|rid| rid.document_order());
    Ok(number.map_or(Datum::Undefined, |number| Datum::number(number as f64)))
}
