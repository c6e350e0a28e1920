//! A diagram of lines: medians, with the quartiles as a shade.

use super::panel::{range, Curves, Line, X};
use super::{style, Drawn};
use crate::promise::size;
use crate::table::number;
use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged};
use plotters::coord::Shift;
use plotters::prelude::*;
use std::ops::Range;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

pub fn draw(area: &Area, curves: &Curves) -> Drawn {
    let spots = || curves.lines.iter().flat_map(|l| &l.points);
    let (x_min, x_max) = range(spots().map(|s| s.x));
    let (y_min, y_max) = range(spots().flat_map(|s| [s.low, s.high]));
    let x = Axis::x(x_min, x_max, curves.x);
    let y = match curves.log_y {
        true => Axis::log(y_min / 1.3, y_max * 1.3, 10.0),
        false => Axis::linear(0.0, y_max.max(1e-9) * 1.12),
    };
    let mut chart = ChartBuilder::on(area)
        .caption(&curves.title, style::heading())
        .margin(8)
        .x_label_area_size(44)
        .y_label_area_size(58)
        .build_cartesian_2d(x, y)?;
    let kind = curves.x;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(style::GRID)
        .axis_style(style::AXIS)
        .label_style(style::small())
        .axis_desc_style(style::small())
        .x_desc(curves.x_label)
        .y_desc(curves.y_label)
        .x_label_formatter(&move |x| match kind {
            X::Bytes => size(x.round() as usize),
            X::Threads => format!("{x:.0}"),
            X::Count => count(*x),
        })
        .y_label_formatter(&|y| plain(*y))
        .draw()?;
    for line in &curves.lines {
        shade(&mut chart, line)?;
    }
    for line in &curves.lines {
        let look = style::of(&line.subject);
        let points = line.points.iter().map(|s| (s.x, s.y));
        let stroke = look.color.stroke_width(if look.dashed { 2 } else { 3 });
        if look.dashed {
            chart.draw_series(DashedLineSeries::new(points, 7, 5, stroke))?;
            continue;
        }
        chart.draw_series(LineSeries::new(points.clone(), stroke))?;
        let dots = points.map(|at| Circle::new(at, 4, look.color.filled()));
        chart.draw_series(dots)?;
    }
    Ok(())
}

type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<Axis, Axis>>;

fn shade(chart: &mut Chart, line: &Line) -> Drawn {
    let color = style::of(&line.subject).color.mix(0.16);
    let there = line.points.iter().map(|s| (s.x, s.high));
    let back = line.points.iter().rev().map(|s| (s.x, s.low));
    let outline: Vec<_> = there.chain(back).collect();
    chart.draw_series([Polygon::new(outline, color.filled())])?;
    Ok(())
}

fn count(x: f64) -> String {
    match x.round() as u64 {
        n if n >= 1 << 20 => format!("{}M", n >> 20),
        n if n >= 1 << 10 => format!("{}K", n >> 10),
        n => n.to_string(),
    }
}

/// 0.1, 1, 2.5, 100.
pub fn plain(y: f64) -> String {
    let text = number(y);
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_string(),
        false => text,
    }
}

/// A linear or logarithmic axis that chooses its own marks: plotters' own
/// logarithm marks powers of ten only, and these have to fit sizes and counts.
#[derive(Clone)]
pub struct Axis {
    range: Range<f64>,
    /// Of a logarithmic one.
    base: Option<f64>,
    /// Marks only at whole numbers.
    whole: bool,
}

impl Axis {
    pub fn linear(min: f64, max: f64) -> Self {
        Self {
            range: min..max,
            base: None,
            whole: false,
        }
    }

    pub fn log(min: f64, max: f64, base: f64) -> Self {
        Self {
            range: min..max.max(min * 1.01),
            base: Some(base),
            whole: false,
        }
    }

    fn x(min: f64, max: f64, kind: X) -> Self {
        match kind {
            X::Threads => Self {
                whole: true,
                ..Self::linear(min - 0.15, max + 0.15)
            },
            X::Bytes | X::Count => Self::log(min / 1.25, max * 1.25, 2.0),
        }
    }

    fn marks(&self, most: usize) -> Vec<f64> {
        let Range { start, end } = self.range;
        let Some(base) = self.base else {
            let step = step((end - start) / most.max(1) as f64);
            let step = if self.whole { step.max(1.0) } else { step };
            let first = (start / step).ceil() as i64;
            let all = (first..).map(|i| i as f64 * step);
            return all.take_while(|v| *v <= end).collect();
        };
        let (first, last) = (start.log(base).ceil() as i32, end.log(base).floor() as i32);
        let powers = (last - first + 1).max(0) as usize;
        // Few powers of ten: 1, 2, 5 between them.
        if base == 10.0 && powers <= 2 {
            let digits = |e| [1.0, 2.0, 5.0].map(|d| d * 10f64.powi(e));
            let all = (first - 1..=last).flat_map(digits);
            return all.filter(|v| (start..=end).contains(v)).collect();
        }
        let stride = powers.div_ceil(most.max(1)).max(1);
        let all = (first..=last).step_by(stride);
        all.map(|e| base.powi(e)).collect()
    }
}

/// The next of 1, 2, 5, 10, 20, …
fn step(least: f64) -> f64 {
    let power = 10f64.powf(least.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|s| s * power);
    steps
        .into_iter()
        .find(|s| *s >= least)
        .unwrap_or(10.0 * power)
}

impl Ranged for Axis {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        let Range { start, end } = self.range;
        let part = match self.base {
            Some(_) => (value.max(start).ln() - start.ln()) / (end.ln() - start.ln()),
            None => (value - start) / (end - start),
        };
        limit.0 + (part.clamp(-1.0, 2.0) * f64::from(limit.1 - limit.0)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        self.marks(hint.max_num_points().min(8))
    }

    fn range(&self) -> Range<f64> {
        self.range.clone()
    }
}

impl plotters::coord::ranged1d::ValueFormatter<f64> for Axis {
    fn format_ext(&self, value: &f64) -> String {
        plain(*value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_round_and_within_the_axis() {
        assert_eq!(
            Axis::linear(0.0, 11.0).marks(6),
            [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]
        );
        assert_eq!(
            Axis::log(0.5, 2000.0, 10.0).marks(8),
            [1.0, 10.0, 100.0, 1000.0]
        );
        assert_eq!(Axis::log(15.0, 90.0, 10.0).marks(8), [20.0, 50.0]);
        assert_eq!(
            Axis::log(60.0, 5000.0, 2.0).marks(4),
            [64.0, 256.0, 1024.0, 4096.0]
        );
    }

    #[test]
    fn values_map_to_pixels_by_their_logarithm() {
        let axis = Axis::log(1.0, 100.0, 10.0);
        let pixels = [1.0, 10.0, 100.0].map(|v| axis.map(&v, (0, 200)));
        assert_eq!(pixels, [0, 100, 200]);
        let axis = Axis::linear(0.0, 4.0);
        assert_eq!(
            [0.0, 1.0, 4.0].map(|v| axis.map(&v, (200, 0))),
            [200, 150, 0]
        );
    }
}
