//! Rows of one unit: bars from 0 where all fit on one scale, dots on a
//! logarithmic axis where they do not (a bar would have no beginning there).

use super::curves::{plain, Axis};
use super::panel::{range, Bar, Bars, Row};
use super::{style, Drawn};
use crate::report::TANE;
use crate::table::number;
use plotters::coord::ranged1d::Ranged;
use plotters::coord::Shift;
use plotters::prelude::*;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

const DOT_ROW: i32 = 30;
const BAR: i32 = 17;
const GAP: i32 = 14;
/// For the unit above and the scale below.
const AROUND: i32 = 76;
/// For the text beside a bar.
const BESIDE: i32 = 150;

fn is_log(bars: &Bars) -> bool {
    let values = bars.rows.iter().flat_map(|r| &r.bars);
    let (min, max) = range(values.map(|b| b.sample.median));
    // Counts are exact and few: their lengths are to be compared.
    bars.unit != "instr" && min > 0.0 && max / min > 20.0
}

fn row_height(row: &Row, log: bool) -> i32 {
    match log {
        true => DOT_ROW,
        false => row.bars.len() as i32 * BAR + GAP,
    }
}

pub fn height(bars: &Bars) -> i32 {
    let log = is_log(bars);
    let rows: i32 = bars.rows.iter().map(|r| row_height(r, log)).sum();
    rows + AROUND
}

/// The width of the labels.
pub fn labels(bars: &Bars) -> i32 {
    let labels = bars.rows.iter().map(|r| style::width(&r.label));
    labels.max().unwrap_or(0).clamp(80, 560) + 14
}

pub fn draw(area: &Area, bars: &Bars, left: i32) -> Drawn {
    let log = is_log(bars);
    let (width, height) = area.dim_in_pixel();
    let span = (left, width as i32 - BESIDE);
    let scale = Scale::of(bars, log, span);
    let bottom = height as i32 - 40;
    area.draw(&Text::new(unit(&bars.unit), (left, 6), style::heading()))?;
    for mark in scale.axis.key_points(8) {
        let x = scale.at(mark);
        let line = vec![(x, 30), (x, bottom)];
        area.draw(&PathElement::new(line, style::GRID.stroke_width(1)))?;
        let text = readable(mark, &bars.unit, plain);
        area.draw(&Text::new(text, (x, bottom + 6), style::centered()))?;
    }
    let mut y = 34;
    for row in &bars.rows {
        let tall = row_height(row, log);
        let middle = y + tall / 2;
        let label = Text::new(row.label.clone(), (left - 12, middle), style::left());
        area.draw(&label)?;
        let end = match log {
            true => dots(area, row, &scale, middle)?,
            false => rods(area, row, &bars.unit, &scale, y + GAP / 2)?,
        };
        if let Some(target) = row.target {
            diamond(area, (scale.at(target), our_middle(row, log, y)))?;
        }
        if log {
            let text = figures(row, &bars.unit);
            area.draw(&Text::new(text, (end + 14, middle), style::right()))?;
        }
        y += tall;
    }
    Ok(())
}

/// The row's own figures: ours, and how many times that the host takes.
fn figures(row: &Row, unit: &str) -> String {
    let ours = row.bars.iter().find(|b| b.subject == TANE);
    match (ours, row.ratio) {
        (Some(ours), Some(ratio)) => {
            let ours = readable(ours.sample.median, unit, number);
            format!("{ours}  ({}×)", number(ratio))
        }
        (Some(ours), None) => readable(ours.sample.median, unit, number),
        _ => String::new(),
    }
}

/// 20 ns, 2 µs, 0.2 ms: with the unit in which it has few digits.
fn readable(value: f64, unit: &str, number: fn(f64) -> String) -> String {
    const UNITS: [&str; 4] = ["ns", "µs", "ms", "s"];
    let (mut value, mut unit) = (value, unit);
    while let Some(at) = UNITS[..3].iter().position(|u| *u == unit) {
        if value < 1000.0 {
            break;
        }
        (value, unit) = (value / 1000.0, UNITS[at + 1]);
    }
    format!("{} {unit}", number(value))
}

fn unit(unit: &str) -> &str {
    match unit {
        "ns" => "nanoseconds",
        "µs" => "microseconds",
        "ms" => "milliseconds",
        "MB" => "megabytes",
        "kB" => "kilobytes",
        "instr" => "instructions",
        "×" => "times the work of one thread",
        "%" => "per cent",
        other => other,
    }
}

fn our_middle(row: &Row, log: bool, y: i32) -> i32 {
    if log {
        return y + DOT_ROW / 2;
    }
    let ours = row.bars.iter().position(|b| b.subject == TANE);
    y + GAP / 2 + ours.unwrap_or(0) as i32 * BAR + BAR / 2
}

struct Scale {
    axis: Axis,
    span: (i32, i32),
}

impl Scale {
    fn of(bars: &Bars, log: bool, span: (i32, i32)) -> Self {
        let samples = bars
            .rows
            .iter()
            .flat_map(|r| r.bars.iter().map(|b| &b.sample));
        let targets = bars.rows.iter().filter_map(|r| r.target);
        let values = samples.flat_map(|s| [s.lower, s.median, s.upper]);
        let (min, max) = range(values.chain(targets).filter(|v| *v > 0.0));
        let axis = match log {
            true => Axis::log(min / 1.4, max * 1.2, 10.0),
            false => Axis::linear(0.0, max.max(1e-9) * 1.03),
        };
        Self { axis, span }
    }

    fn at(&self, value: f64) -> i32 {
        self.axis.map(&value, self.span)
    }
}

/// Where the text may begin.
fn dots(area: &Area, row: &Row, scale: &Scale, y: i32) -> Drawn<i32> {
    let (min, max) = range(row.bars.iter().map(|b| b.sample.median));
    let line = vec![(scale.at(min), y), (scale.at(max), y)];
    area.draw(&PathElement::new(
        line,
        style::AXIS.mix(0.6).stroke_width(2),
    ))?;
    // Ours on top.
    for Bar { subject, sample } in row.bars.iter().rev() {
        let color = style::of(subject).color;
        let (low, high) = (scale.at(sample.lower), scale.at(sample.upper));
        let shade = Rectangle::new([(low, y - 4), (high, y + 4)], color.mix(0.3).filled());
        area.draw(&shade)?;
        let dot = Circle::new((scale.at(sample.median), y), 6, color.filled());
        area.draw(&dot)?;
    }
    Ok(scale.span.1.max(scale.at(max)))
}

fn rods(area: &Area, row: &Row, unit: &str, scale: &Scale, top: i32) -> Drawn<i32> {
    let mut y = top;
    for Bar { subject, sample } in &row.bars {
        let color = style::of(subject).color;
        let end = scale.at(sample.median);
        let corners = [(scale.at(0.0), y + 2), (end, y + BAR - 1)];
        area.draw(&Rectangle::new(corners, color.filled()))?;
        let middle = y + BAR / 2;
        let (low, high) = (scale.at(sample.lower), scale.at(sample.upper));
        if high > low {
            let line = vec![(low, middle), (high, middle)];
            area.draw(&PathElement::new(line, BLACK.mix(0.7).stroke_width(2)))?;
        }
        let text = readable(sample.median, unit, number);
        let mut x = end.max(high) + 10;
        // A target that would lie on the text goes before it.
        let target = row.target.filter(|_| subject == TANE);
        let target = target.map(|target| scale.at(target));
        if let Some(target) = target.filter(|at| (x - 8..x + 70).contains(at)) {
            x = target + 14;
        }
        area.draw(&Text::new(text, (x, middle), style::right()))?;
        y += BAR;
    }
    Ok(scale.span.1)
}

/// Where a target is.
pub fn diamond(area: &Area, (x, y): (i32, i32)) -> Drawn {
    let corners = vec![(x, y - 8), (x + 6, y), (x, y + 8), (x - 6, y)];
    area.draw(&Polygon::new(corners.clone(), WHITE.filled()))?;
    let outline = corners.iter().chain(corners.first()).copied();
    let outline: Vec<_> = outline.collect();
    area.draw(&PathElement::new(outline, style::TARGET.stroke_width(2)))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_shown_in_the_unit_that_fits() {
        let cases = [
            (20.0, "ns", "20.0 ns"),
            (2000.0, "ns", "2.00 µs"),
            (190_000_000.0, "ns", "190 ms"),
            (5000.0, "MB", "5000 MB"),
        ];
        for (value, unit, text) in cases {
            assert_eq!(readable(value, unit, number), text);
        }
    }
}
