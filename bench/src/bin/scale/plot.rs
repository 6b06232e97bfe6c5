//! [`Plot`]: lines in a coordinate system, as an SVG. Its colours can be read on white and on black, and nothing is painted behind
//! them, so that it fits into a page of either.

use crate::report::short;
use anyhow::{Result, anyhow};
use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};
use plotters::prelude::*;
use std::ops::Range;
use std::path::Path;

/// Lines in a coordinate system.
pub struct Plot {
    /// What it shows.
    pub title: &'static str,
    /// What goes from left to right.
    pub x: Axis,
    /// What goes up.
    pub y: Axis,
    /// The lines.
    pub lines: Vec<Line>,
    /// Where the lines leave room for their names.
    pub legend: SeriesLabelPosition,
}

/// An axis.
pub struct Axis {
    /// What it counts, with the unit.
    pub title: &'static str,
    /// How it is divided.
    pub scale: Scale,
}

/// How an axis is divided.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// Evenly, from zero.
    Linear,
    /// Each step is ten times the one before.
    Log,
    /// Shares, by how little is beyond them: 0.9, 0.99, 0.999 are equal steps.
    Beyond,
}

/// A line through points, from left to right.
pub struct Line {
    name: String,
    points: Vec<(f64, f64)>,
}

const SIZE: (u32, u32) = (720, 400);
const FONT: &str = "sans-serif";
const TEXT: RGBColor = RGBColor(110, 118, 129);
const COLOURS: [RGBColor; 5] = [
    RGBColor(47, 129, 247),
    RGBColor(191, 118, 0),
    RGBColor(35, 154, 75),
    RGBColor(224, 71, 71),
    RGBColor(150, 100, 230),
];

impl Line {
    /// A line with this name.
    pub fn new(name: impl Into<String>, points: Vec<(f64, f64)>) -> Self {
        Line { name: name.into(), points }
    }
}

impl Plot {
    /// Writes the SVG.
    pub fn write(&self, path: &Path) -> Result<()> {
        let mut svg = String::new();
        self.draw(&mut svg).map_err(|error| anyhow!("failed to draw {}: {error}", path.display()))?;
        std::fs::create_dir_all(path.parent().unwrap_or(Path::new(".")))?;
        Ok(std::fs::write(path, svg + "\n")?)
    }

    fn draw(&self, svg: &mut String) -> Result<(), Box<dyn std::error::Error>> {
        let root = SVGBackend::with_string(svg, SIZE).into_drawing_area();
        let text = |size: u32| TextStyle::from((FONT, size).into_font()).color(&TEXT);
        let ranges = [
            self.x.range(self.lines.iter().flat_map(|line| line.points.iter().map(|point| point.0))),
            self.y.range(self.lines.iter().flat_map(|line| line.points.iter().map(|point| point.1))),
        ];
        let [x, y] = ranges;
        let mut chart = ChartBuilder::on(&root)
            .caption(self.title, text(18))
            .margin(12)
            .x_label_area_size(46)
            .y_label_area_size(76)
            .build_cartesian_2d(x, y)?;
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(TEXT.mix(0.25))
            .axis_style(TEXT.mix(0.6))
            .x_label_formatter(&|place| self.x.scale.label(*place))
            .y_label_formatter(&|place| self.y.scale.label(*place))
            .x_desc(self.x.title)
            .y_desc(self.y.title)
            .label_style(text(13))
            .axis_desc_style(text(14))
            .draw()?;
        for (line, colour) in self.lines.iter().zip(COLOURS.iter().cycle()) {
            let points = line.points.iter().map(|(x, y)| (self.x.scale.place(*x), self.y.scale.place(*y)));
            let points: Vec<_> = points.collect();
            chart
                .draw_series(LineSeries::new(points.iter().copied(), colour.stroke_width(2)))?
                .label(line.name.as_str())
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2)));
            // A line of many points has no need for dots.
            if points.len() <= 12 {
                chart.draw_series(points.iter().map(|&place| Circle::new(place, 3, colour.filled())))?;
            }
        }
        if self.lines.len() > 1 {
            chart
                .configure_series_labels()
                .position(self.legend.clone())
                .margin(14)
                .label_font(text(13))
                .border_style(TRANSPARENT)
                .draw()?;
        }
        root.present()?;
        Ok(())
    }
}

impl Axis {
    /// As far as these values need it.
    fn range(&self, values: impl Iterator<Item = f64>) -> Places {
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for place in values.map(|value| self.scale.place(value)) {
            (low, high) = (low.min(place), high.max(place));
        }
        match self.scale {
            Scale::Linear => {
                let step = step_of(high / 5.0);
                let steps = (high * 1.15 / step).ceil();
                let ticks = (0..=steps as u32).map(|number| f64::from(number) * step);
                Places { range: 0.0..steps * step, ticks: ticks.collect() }
            }
            Scale::Log | Scale::Beyond => {
                let (from, to) = ((low - 0.05).floor(), (high + 0.05).ceil());
                let is_short = self.scale == Scale::Log && high - low < 2.0;
                let within: &[f64] = if is_short { &[1.0, 2.0, 5.0] } else { &[1.0] };
                let tick = |decade: u32| within.iter().map(move |part| from + f64::from(decade) + part.log10());
                let ticks = (0..=(to - from) as u32).flat_map(tick);
                let range = from.max(low - 0.15)..to.min(high + 0.35);
                Places { ticks: ticks.filter(|tick| range.contains(tick)).collect(), range }
            }
        }
    }
}

/// The places of an axis, and which of them get a number.
struct Places {
    range: Range<f64>,
    ticks: Vec<f64>,
}

impl Ranged for Places {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, place: &f64, (from, to): (i32, i32)) -> i32 {
        let share = (place - self.range.start) / (self.range.end - self.range.start);
        from + (share * f64::from(to - from)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        self.ticks.clone()
    }

    fn range(&self) -> Range<f64> {
        self.range.clone()
    }
}

impl Scale {
    /// Where a value is on the axis.
    fn place(self, value: f64) -> f64 {
        match self {
            Scale::Linear => value,
            Scale::Log => value.log10(),
            Scale::Beyond => -(1.0 - value).log10(),
        }
    }

    /// What stands at a place of the axis.
    fn label(self, place: f64) -> String {
        match self {
            Scale::Linear => number(place),
            Scale::Log => number(10_f64.powf(place)),
            Scale::Beyond => format!("{:.*} %", (place - 2.0).max(0.0) as usize, 100.0 - 10_f64.powf(2.0 - place)),
        }
    }
}

/// 1, 2 or 5 times a power of ten, not less than this.
fn step_of(least: f64) -> f64 {
    let power = 10_f64.powf(least.log10().floor());
    [1.0, 2.0, 5.0].map(|factor| factor * power).into_iter().find(|step| *step >= least).unwrap_or(10.0 * power)
}

fn number(value: f64) -> String {
    if value < 1.0 && value > 0.0 {
        format!("{value:.3}").trim_end_matches('0').to_owned()
    } else {
        short(value.round() as u64)
    }
}
