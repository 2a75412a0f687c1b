//! Drawing: axes, bands of the phases, areas, lines and bars as SVG text. It knows nothing of what is drawn.

use std::fmt::Write as _;

use super::escaped;

/// The size of a chart, in its own units; the page scales it.
const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 240.0;
const LEFT: f64 = 56.0;
const RIGHT: f64 = 12.0;
const TOP: f64 = 26.0;
const BOTTOM: f64 = 26.0;

/// A stretch of the horizontal axis that is shaded.
pub(super) struct Band {
    pub(super) name: String,
    pub(super) from: f64,
    pub(super) to: f64,
    pub(super) is_shaded: bool,
}

/// How values become heights.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Scale {
    /// From zero to a value.
    Linear(f64),
    /// From one power of ten to another: both are positive.
    Logarithmic(f64, f64),
}

impl Scale {
    /// A linear scale that has room for a value, and ends at a round number.
    pub(super) fn up_to(value: f64) -> Self {
        let magnitude = 10_f64.powf(value.max(1.0).log10().floor());
        let steps = [1.0, 2.0, 4.0, 6.0, 8.0, 10.0];
        let end = steps.map(|step| step * magnitude).into_iter().find(|end| *end >= value);
        Self::Linear(end.unwrap_or(10.0 * magnitude))
    }

    /// A logarithmic scale that has room for all of some values.
    pub(super) fn around(values: impl Iterator<Item = f64> + Clone) -> Self {
        let positive = values.filter(|value| *value > 0.0);
        let least = positive.clone().fold(f64::INFINITY, f64::min);
        let most = positive.fold(f64::NEG_INFINITY, f64::max);
        if !least.is_finite() || !most.is_finite() {
            return Self::Logarithmic(1.0, 10.0);
        }
        let from = 10_f64.powf(least.log10().floor());
        let to = 10_f64.powf(most.log10().ceil()).max(from * 10.0);
        Self::Logarithmic(from, to)
    }

    /// Where a value is, from 0 at the bottom to 1 at the top.
    fn share(self, value: f64) -> f64 {
        let share = match self {
            Self::Linear(end) => value / end,
            Self::Logarithmic(from, to) => (value.max(from) / from).log10() / (to / from).log10(),
        };
        share.clamp(0.0, 1.0)
    }

    /// The values that get a line across the chart.
    fn ticks(self) -> Vec<f64> {
        match self {
            Self::Linear(end) => (0..=4).map(|part| end * f64::from(part) / 4.0).collect(),
            Self::Logarithmic(from, to) => {
                let decades = (to / from).log10().round() as i32;
                (0..=decades).map(|decade| from * 10_f64.powi(decade)).collect()
            }
        }
    }
}

/// A chart that is being drawn.
pub(super) struct Plot {
    svg: String,
    /// The end of the horizontal axis, in seconds.
    end: f64,
    scale: Scale,
}

impl Plot {
    /// A chart with its bands and axes. The title and the description are read to those who do not see it.
    pub(super) fn new(
        id: &str,
        (title, description): (&str, &str),
        bands: &[Band],
        scale: Scale,
    ) -> Self {
        let end = bands.last().map_or(1.0, |band| band.to).max(f64::EPSILON);
        let svg = format!(
            "<svg id=\"{id}\" class=\"chart\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" \
             aria-labelledby=\"{id}-title {id}-description\"><title id=\"{id}-title\">{}</title>\
             <desc id=\"{id}-description\">{}</desc>",
            escaped(title),
            escaped(description)
        );
        let mut plot = Self { svg, end, scale };
        plot.draw_bands(bands);
        plot.draw_axes();
        plot
    }

    fn x(&self, second: f64) -> f64 {
        LEFT + (second / self.end).clamp(0.0, 1.0) * (WIDTH - LEFT - RIGHT)
    }

    fn y(&self, value: f64) -> f64 {
        HEIGHT - BOTTOM - self.scale.share(value) * (HEIGHT - TOP - BOTTOM)
    }

    fn write(&mut self, text: std::fmt::Arguments<'_>) {
        let _ = self.svg.write_fmt(text); // A text takes everything.
    }

    fn draw_bands(&mut self, bands: &[Band]) {
        for band in bands {
            let (from, to) = (self.x(band.from), self.x(band.to));
            let (width, height) = (to - from, HEIGHT - TOP - BOTTOM);
            let kind = if band.is_shaded { "band disturbed" } else { "band" };
            let name = escaped(&band.name);
            self.write(format_args!(
                "<rect class=\"{kind}\" x=\"{from:.1}\" y=\"{TOP}\" width=\"{width:.1}\" \
                 height=\"{height}\"><title>{name}</title></rect>\
                 <text class=\"phase\" x=\"{:.1}\" y=\"16\">{name}</text>",
                (from + to) / 2.0
            ));
        }
    }

    fn draw_axes(&mut self) {
        for value in self.scale.ticks() {
            let y = self.y(value);
            let label = number(value);
            self.write(format_args!(
                "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
                 <text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>",
                WIDTH - RIGHT,
                LEFT - 8.0,
                y + 4.0
            ));
        }
        let step = (self.end / 8.0).ceil().max(1.0);
        let end = self.end;
        let seconds = (0..).map(|tick| f64::from(tick) * step).take_while(|at| *at <= end);
        for second in seconds {
            let x = self.x(second);
            self.write(format_args!(
                "<text class=\"tick\" x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{second:.0} s</text>",
                HEIGHT - 8.0
            ));
        }
    }

    /// An area between two curves; points are of a second, a lower and an upper value.
    pub(super) fn area(&mut self, class: &str, points: &[(f64, f64, f64)]) {
        let at =
            |(second, value): (f64, f64)| format!("{:.1},{:.1}", self.x(second), self.y(value));
        let upper = points.iter().map(|(second, _, upper)| at((*second, *upper)));
        let lower = points.iter().rev().map(|(second, lower, _)| at((*second, *lower)));
        let outline: Vec<String> = upper.chain(lower).collect();
        let outline = outline.join(" ");
        self.write(format_args!("<polygon class=\"area {class}\" points=\"{outline}\"/>"));
    }

    /// A line; where there is no value it is interrupted.
    pub(super) fn line(&mut self, class: &str, points: &[(f64, Option<f64>)]) {
        let mut path = String::new();
        let mut is_drawing = false;
        for (second, value) in points {
            if let Some(value) = value {
                let command = if is_drawing { 'L' } else { 'M' };
                let _ = write!(path, "{command}{:.1} {:.1}", self.x(*second), self.y(*value));
            }
            is_drawing = value.is_some();
        }
        self.write(format_args!("<path class=\"line {class}\" d=\"{path}\"/>"));
    }

    /// Bars from zero; points are of a second and a value, which stands for so many seconds.
    pub(super) fn bars(&mut self, class: &str, points: &[(f64, f64)], seconds: f64) {
        let bottom = self.y(0.0);
        for (second, value) in points.iter().filter(|(_, value)| *value > 0.0) {
            let (from, to) = (self.x(second - seconds), self.x(*second));
            let y = self.y(*value);
            self.write(format_args!(
                "<rect class=\"bar {class}\" x=\"{from:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{:.1}\"/>",
                (to - from - 0.6).max(0.6),
                bottom - y
            ));
        }
    }

    /// Marks a moment.
    pub(super) fn mark(&mut self, second: f64, name: &str) {
        let (x, name) = (self.x(second), escaped(name));
        let bottom = HEIGHT - BOTTOM;
        self.write(format_args!(
            "<line class=\"mark\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{TOP}\" y2=\"{bottom}\"><title>{name}</title></line>"
        ));
    }

    /// The chart as text.
    pub(super) fn finish(mut self) -> String {
        self.svg.push_str("</svg>");
        self.svg
    }
}

/// A number of an axis.
fn number(value: f64) -> String {
    match value {
        value if value >= 10_000.0 => format!("{:.0}k", value / 1_000.0),
        value if value >= 1_000.0 => format!("{}k", (value / 100.0).round() / 10.0),
        value if value >= 10.0 || value == value.trunc() => format!("{value:.0}"),
        value => format!("{value}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_linear_scale_ends_at_a_round_number() {
        for (value, end) in [(0.0, 1.0), (1.0, 1.0), (37.0, 40.0), (401.0, 600.0), (990.0, 1_000.0)]
        {
            assert_eq!(Scale::up_to(value), Scale::Linear(end), "{value}");
        }
    }

    #[test]
    fn a_logarithmic_scale_spans_whole_decades() {
        let scale = Scale::around([2.5, 310.0].into_iter());
        assert_eq!(scale, Scale::Logarithmic(1.0, 1_000.0));
        assert_eq!(scale.ticks(), [1.0, 10.0, 100.0, 1_000.0]);
        assert_eq!(scale.share(0.1), 0.0);
        assert!((scale.share(1_000.0) - 1.0).abs() < 1e-9);
        let nothing = Scale::around(std::iter::empty());
        assert_eq!(nothing, Scale::Logarithmic(1.0, 10.0));
    }

    #[test]
    fn a_line_is_interrupted_where_there_is_nothing() {
        let band = Band { name: "all".to_owned(), from: 0.0, to: 4.0, is_shaded: false };
        let mut plot = Plot::new("it", ("title", "text"), &[band], Scale::Linear(10.0));
        let points = [(0.0, Some(1.0)), (1.0, Some(2.0)), (2.0, None), (3.0, Some(1.0))];
        plot.line("p50", &points);
        let svg = plot.finish();
        let path = svg.split(" d=\"").nth(1).unwrap();
        let path = path.split('"').next().unwrap();
        assert_eq!((path.matches('M').count(), path.matches('L').count()), (2, 1), "{path}");
        assert!(!svg.contains("NaN"));
    }
}
