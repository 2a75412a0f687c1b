//! GeoJSON geometries: what is valid, and which of two touch or contain the other.

use serde_json::{Map, Value};

/// A position in degrees.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Position {
    pub(super) longitude: f64,
    pub(super) latitude: f64,
}

/// A closed line: the last position is the first.
pub(super) type Ring = Vec<Position>;

/// A valid geometry.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Geometry {
    Point(Position),
    Line(Vec<Position>),
    /// Each with its outline and its holes.
    Polygons(Vec<Vec<Ring>>),
}

/// A straight piece of a geometry; a point is one of length zero.
#[derive(Clone, Copy, Debug)]
pub(super) struct Edge {
    from: Position,
    to: Position,
}

/// The fewest positions of a ring: a triangle and its first corner again (RFC 7946, section 3.1.6).
const RING_POSITIONS: usize = 4;

impl Geometry {
    /// Reads a geometry; the error says why it is not valid.
    pub(super) fn parse(object: &Map<String, Value>) -> Result<Self, String> {
        let kind = object.get("type").and_then(Value::as_str).unwrap_or_default();
        let coordinates = object.get("coordinates").unwrap_or(&Value::Null);
        match kind {
            "Point" => position(coordinates).map(Self::Point),
            "LineString" => {
                let line = positions(coordinates)?;
                match line.len() {
                    0 | 1 => Err("A LineString must have at least two positions.".to_owned()),
                    _ => Ok(Self::Line(line)),
                }
            }
            "Polygon" => polygon(coordinates).map(|polygon| Self::Polygons(vec![polygon])),
            "MultiPolygon" => {
                let polygons = array(coordinates)?.iter().map(polygon);
                polygons.collect::<Result<_, _>>().map(Self::Polygons)
            }
            _ => Err("The type of a geometry must be Point, LineString, Polygon or MultiPolygon."
                .to_owned()),
        }
    }

    pub(super) fn polygons(&self) -> &[Vec<Ring>] {
        match self {
            Self::Polygons(polygons) => polygons,
            Self::Point(_) | Self::Line(_) => &[],
        }
    }

    /// The lines that make up the geometry: a point is a line of one position.
    fn lines(&self) -> Vec<&[Position]> {
        match self {
            Self::Point(position) => vec![std::slice::from_ref(position)],
            Self::Line(line) => vec![line],
            Self::Polygons(polygons) => polygons.iter().flatten().map(Vec::as_slice).collect(),
        }
    }

    pub(super) fn vertices(&self) -> impl Iterator<Item = Position> + '_ {
        self.lines().into_iter().flatten().copied()
    }

    pub(super) fn edges(&self) -> impl Iterator<Item = Edge> + '_ {
        self.lines().into_iter().flat_map(|line| {
            let single = (line.len() == 1).then(|| Edge { from: line[0], to: line[0] });
            let pairs = line.windows(2).map(|pair| Edge { from: pair[0], to: pair[1] });
            single.into_iter().chain(pairs)
        })
    }

    /// Whether the two have a point in common.
    pub(super) fn intersects(&self, other: &Self) -> bool {
        let crossing = self.edges().any(|edge| other.edges().any(|with| edge.meets(with)));
        // Where no edges cross, a whole line or polygon of one may still be inside the other.
        crossing || self.has_line_in(other) || other.has_line_in(self)
    }

    /// Whether one of the lines begins inside the other's polygons.
    fn has_line_in(&self, other: &Self) -> bool {
        self.lines().iter().any(|line| line.first().is_some_and(|first| other.holds(*first)))
    }

    /// Whether every point of this geometry is inside the other's polygons.
    pub(super) fn is_within(&self, other: &Self) -> bool {
        let crosses = |edge: Edge| other.edges().any(|border| edge.crosses(border));
        let swallows_hole = other
            .polygons()
            .iter()
            .flat_map(|rings| rings.iter().skip(1))
            .any(|hole| hole.first().is_some_and(|corner| self.holds(*corner)));
        self.vertices().all(|vertex| other.holds(vertex))
            && !self.edges().any(crosses)
            && !swallows_hole
    }

    /// Whether a position is inside one of the polygons, or on its border.
    fn holds(&self, position: Position) -> bool {
        self.polygons().iter().any(|rings| {
            let Some((outline, holes)) = rings.split_first() else { return false };
            on_ring(outline, position)
                || (inside(outline, position)
                    && holes.iter().all(|hole| on_ring(hole, position) || !inside(hole, position)))
        })
    }
}

impl Edge {
    /// The position on the edge that is nearest to another, in a plane that touches the earth there.
    pub(super) fn nearest(self, to: Position) -> Position {
        // A degree of longitude shrinks with the cosine of the latitude.
        let scale = to.latitude.to_radians().cos();
        let flat = |p: Position| ((p.longitude - to.longitude) * scale, p.latitude - to.latitude);
        let ((x1, y1), (x2, y2)) = (flat(self.from), flat(self.to));
        let (dx, dy) = (x2 - x1, y2 - y1);
        let length = dx * dx + dy * dy;
        let along =
            if length == 0.0 { 0.0 } else { (-(x1 * dx + y1 * dy) / length).clamp(0.0, 1.0) };
        Position {
            longitude: self.from.longitude + along * (self.to.longitude - self.from.longitude),
            latitude: self.from.latitude + along * (self.to.latitude - self.from.latitude),
        }
    }

    /// Whether the two edges have a point in common.
    fn meets(self, other: Self) -> bool {
        self.crosses(other)
            || self.holds(other.from)
            || self.holds(other.to)
            || other.holds(self.from)
            || other.holds(self.to)
    }

    /// Whether the two edges cross at a point inside both.
    fn crosses(self, other: Self) -> bool {
        let sides = |edge: Self, with: Self| side(edge, with.from) * side(edge, with.to) < 0.0;
        sides(self, other) && sides(other, self)
    }

    /// Whether a position lies on the edge.
    fn holds(self, position: Position) -> bool {
        let between = |a: f64, b: f64, value: f64| a.min(b) <= value && value <= a.max(b);
        side(self, position) == 0.0
            && between(self.from.longitude, self.to.longitude, position.longitude)
            && between(self.from.latitude, self.to.latitude, position.latitude)
    }
}

/// On which side of an edge a position lies: the sign of the cross product.
fn side(edge: Edge, position: Position) -> f64 {
    (edge.to.longitude - edge.from.longitude) * (position.latitude - edge.from.latitude)
        - (edge.to.latitude - edge.from.latitude) * (position.longitude - edge.from.longitude)
}

fn on_ring(ring: &[Position], position: Position) -> bool {
    ring.windows(2).any(|pair| Edge { from: pair[0], to: pair[1] }.holds(position))
}

/// Ray casting: a position is inside if a ray from it crosses the ring an odd number of times.
fn inside(ring: &[Position], position: Position) -> bool {
    let crossings = ring.windows(2).filter(|pair| {
        let (from, to) = (pair[0], pair[1]);
        // One end counts and the other does not, so that a corner is crossed once.
        if (from.latitude > position.latitude) == (to.latitude > position.latitude) {
            return false;
        }
        let share = (position.latitude - from.latitude) / (to.latitude - from.latitude);
        position.longitude < from.longitude + share * (to.longitude - from.longitude)
    });
    crossings.count() % 2 == 1
}

fn polygon(value: &Value) -> Result<Vec<Ring>, String> {
    let rings = array(value)?.iter().map(positions).collect::<Result<Vec<_>, _>>()?;
    if rings.is_empty() {
        return Err("A Polygon must have at least one ring.".to_owned());
    }
    for (ring, number) in rings.iter().zip(1..) {
        if ring.first() != ring.last() {
            return Err(format!(
                "The Polygon input is not valid because the start and end points of the ring number \
                 {number} are not the same. Each ring of a polygon must have the same start and end \
                 points."
            ));
        }
        if ring.len() < RING_POSITIONS {
            return Err(format!("The ring number {number} must have at least four positions."));
        }
    }
    Ok(rings)
}

fn positions(value: &Value) -> Result<Vec<Position>, String> {
    array(value)?.iter().map(position).collect()
}

fn position(value: &Value) -> Result<Position, String> {
    let numbers: Option<Vec<f64>> = value
        .as_array()
        .map_or(Some(Vec::new()), |items| items.iter().map(Value::as_f64).collect());
    let Some([longitude, latitude, ..]) = numbers.as_deref() else {
        return Err("A position must be an array of at least two numbers.".to_owned());
    };
    if !(-90.0..=90.0).contains(latitude) {
        return Err("Latitude values must be between -90 and 90 degrees.".to_owned());
    }
    if !(-180.0..=180.0).contains(longitude) {
        return Err("Longitude values must be between -180 and 180 degrees.".to_owned());
    }
    Ok(Position { longitude: *longitude, latitude: *latitude })
}

fn array(value: &Value) -> Result<&Vec<Value>, String> {
    value.as_array().ok_or_else(|| "Coordinates must be an array.".to_owned())
}
