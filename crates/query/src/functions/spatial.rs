//! Spatial functions over GeoJSON (RFC 7946): distance, area, containment, intersection, validity.
//!
//! Distances and areas are geodesic, on the WGS 84 ellipsoid (`geographiclib-rs`, a port of Karney's
//! algorithms). Containment and intersection take edges as straight in longitude and latitude, so a
//! shape that crosses the antimeridian or holds a pole is judged by its coordinates as written.

mod geometry;

use geographiclib_rs::{Geodesic, InverseGeodesic as _, PolygonArea, Winding};
use serde_json::{Map, Value};

use self::geometry::{Geometry, Position, Ring};
use crate::error::EvalError;
use crate::meter::Meter;
use crate::value::{Datum, Members, View};

type Answer<'a> = Result<Datum<'a>, EvalError>;

/// The charge of comparing two edges, in steps: a geodesic takes about a microsecond.
const EDGE_COST: u64 = 16;

/// The shortest distance in metres; 0 where the two intersect.
pub(super) fn distance<'a>(meter: &mut Meter<'_>, args: &mut [Datum<'a>]) -> Answer<'a> {
    pairwise(meter, args, |left, right| {
        if left.intersects(right) {
            return Datum::number(0.0);
        }
        let earth = Geodesic::wgs84();
        let near = |from: &Geometry, to: &Geometry| {
            let pairs = from
                .vertices()
                .flat_map(|point| to.edges().map(move |edge| (point, edge.nearest(point))));
            pairs
                .map(|(point, nearest)| metres(&earth, point, nearest))
                .fold(f64::INFINITY, f64::min)
        };
        Datum::number(near(left, right).min(near(right, left)))
    })
}

/// Whether the first is inside the second, which is a polygon or several.
pub(super) fn within<'a>(meter: &mut Meter<'_>, args: &mut [Datum<'a>]) -> Answer<'a> {
    pairwise(meter, args, |inner, outer| Datum::Bool(inner.is_within(outer)))
}

pub(super) fn intersects<'a>(meter: &mut Meter<'_>, args: &mut [Datum<'a>]) -> Answer<'a> {
    pairwise(meter, args, |left, right| Datum::Bool(left.intersects(right)))
}

/// Square metres; 0 for points and lines.
pub(super) fn area<'a>(meter: &mut Meter<'_>, args: &mut [Datum<'a>]) -> Answer<'a> {
    let Some(geometry) = read(meter, &args[0])? else { return Ok(Datum::Undefined) };
    let earth = Geodesic::wgs84();
    let polygon = |rings: &Vec<Ring>| {
        let mut areas = rings.iter().map(|ring| ring_area(&earth, ring));
        // The first ring is the outline, the others are holes in it.
        areas.next().unwrap_or(0.0) - areas.sum::<f64>()
    };
    Ok(Datum::number(geometry.polygons().iter().map(polygon).sum()))
}

pub(super) fn is_valid<'a>(meter: &mut Meter<'_>, args: &mut [Datum<'a>]) -> Answer<'a> {
    if args[0].is_undefined() {
        return Ok(Datum::Undefined);
    }
    meter.touch(args[0].size())?;
    Ok(Datum::Bool(geometry_of(&args[0]).is_ok()))
}

/// `{"valid": true}`, or `{"valid": false, "reason": "…"}`.
pub(super) fn is_valid_detailed<'a>(meter: &mut Meter<'_>, args: &mut [Datum<'a>]) -> Answer<'a> {
    if args[0].is_undefined() {
        return Ok(Datum::Undefined);
    }
    meter.touch(args[0].size())?;
    let mut verdict = Map::new();
    let reason = geometry_of(&args[0]).err();
    verdict.insert("valid".to_owned(), Value::Bool(reason.is_none()));
    if let Some(reason) = reason {
        verdict.insert("reason".to_owned(), Value::String(reason));
    }
    Ok(Datum::Object(Members::Owned(Box::new(verdict))))
}

/// Applies a function of two geometries, whose edges are compared each with each; undefined if one of
/// the two is not valid.
fn pairwise<'a>(
    meter: &mut Meter<'_>,
    args: &[Datum<'a>],
    compute: impl Fn(&Geometry, &Geometry) -> Datum<'a>,
) -> Answer<'a> {
    let (left, right) = (read(meter, &args[0])?, read(meter, &args[1])?);
    let (Some(left), Some(right)) = (left, right) else { return Ok(Datum::Undefined) };
    let pairs = (left.vertices().count() as u64).saturating_mul(right.vertices().count() as u64);
    meter.spend(pairs.saturating_mul(EDGE_COST))?;
    Ok(compute(&left, &right))
}

fn read(meter: &mut Meter<'_>, argument: &Datum<'_>) -> Result<Option<Geometry>, EvalError> {
    meter.touch(argument.size())?;
    Ok(geometry_of(argument).ok())
}

fn geometry_of(argument: &Datum<'_>) -> Result<Geometry, String> {
    match argument.view() {
        View::Object(members) => Geometry::parse(members),
        _ => Err("The input is not a GeoJSON object.".to_owned()),
    }
}

fn metres(earth: &Geodesic, from: Position, to: Position) -> f64 {
    earth.inverse(from.latitude, from.longitude, to.latitude, to.longitude)
}

/// Without regard to the direction of the ring: both directions are common in stored data.
fn ring_area(earth: &Geodesic, ring: &[Position]) -> f64 {
    let mut polygon = PolygonArea::new(earth, Winding::CounterClockwise);
    // The last position repeats the first.
    for position in &ring[..ring.len() - 1] {
        polygon.add_point(position.latitude, position.longitude);
    }
    let (_, area, _) = polygon.compute(true);
    area.abs()
}
