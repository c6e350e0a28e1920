//! Which diagrams a set's picture has, and where.

use super::style;
use crate::promise::{Promise, Set};
use crate::report::{Report, HOST, TANE};
use crate::sample::Sample;
use crate::target::{fastest_other, Target};

pub enum Panel {
    Curves(Curves),
    Bars(Bars),
}

/// One diagram of lines.
pub struct Curves {
    pub title: String,
    pub x_label: &'static str,
    pub y_label: &'static str,
    pub x: X,
    /// Magnitudes apart, so that a logarithm has to be drawn.
    pub log_y: bool,
    pub lines: Vec<Line>,
}

#[derive(Clone, Copy, PartialEq)]
pub enum X {
    Bytes,
    Threads,
    Count,
}

pub struct Line {
    pub subject: String,
    pub points: Vec<Spot>,
}

/// A median between quartiles.
pub struct Spot {
    pub x: f64,
    pub low: f64,
    pub y: f64,
    pub high: f64,
}

/// Rows of one unit.
pub struct Bars {
    pub unit: String,
    pub rows: Vec<Row>,
}

pub struct Row {
    pub label: String,
    pub bars: Vec<Bar>,
    /// Where our bar should end.
    pub target: Option<f64>,
    /// How many times what ours takes the host takes, if it is in the row.
    pub ratio: Option<f64>,
}

pub struct Bar {
    pub subject: String,
    pub sample: Sample,
}

/// The diagrams of a set: curves first.
pub fn of(set: Set, report: &Report) -> Vec<Panel> {
    let rows: Vec<_> = report.promises.iter().filter(|p| p.set == set).collect();
    let mut curves: Vec<Curves> = Vec::new();
    let mut bars: Vec<Bars> = Vec::new();
    for promise in rows.into_iter().filter(|p| report.of(p).next().is_some()) {
        match &promise.point {
            Some(_) => add_point(&mut curves, promise, report),
            None => add_row(&mut bars, promise, report),
        }
    }
    for curve in &mut curves {
        let spots = curve.lines.iter().flat_map(|l| &l.points);
        let positive = spots.clone().all(|s| s.low > 0.0);
        let (min, max) = range(spots.flat_map(|s| [s.low, s.high]));
        curve.log_y = curve.x != X::Threads && positive && max / min > 8.0;
    }
    let curves = curves.into_iter().map(Panel::Curves);
    curves.chain(bars.into_iter().map(Panel::Bars)).collect()
}

pub fn range(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::MAX, 0.0), |(min, max), v| (v.min(min), v.max(max)))
}

fn add_point(curves: &mut Vec<Curves>, promise: &Promise, report: &Report) {
    let Some(point) = &promise.point else { return };
    let at = curves.iter().position(|c| c.title == point.panel);
    let at = at.unwrap_or_else(|| {
        curves.push(empty(promise, &point.panel));
        curves.len() - 1
    });
    for figure in report.of(promise) {
        let lines = &mut curves[at].lines;
        let line = lines.iter().position(|l| l.subject == figure.subject);
        let line = line.unwrap_or_else(|| {
            let (subject, points) = (figure.subject.clone(), Vec::new());
            lines.push(Line { subject, points });
            lines.len() - 1
        });
        let sample = &figure.sample;
        // What takes less is faster: quartiles change places.
        let shown = |v: f64| match promise.gigabytes(v) {
            Some(speed) => speed,
            None if promise.set == Set::Threads => 1e3 / v,
            None => v,
        };
        let (a, b) = (shown(sample.lower), shown(sample.upper));
        lines[line].points.push(Spot {
            x: point.x,
            low: a.min(b),
            y: shown(sample.median),
            high: a.max(b),
        });
    }
}

fn empty(promise: &Promise, title: &str) -> Curves {
    let (x, x_label, y_label) = match promise.set {
        Set::Threads => (X::Threads, "threads", "million calls a second"),
        Set::Xarray if promise.unit == "B" => (X::Count, "entries", "bytes an entry"),
        Set::Xarray => (X::Count, "entries", "ns an entry"),
        Set::Probes if promise.unit == "B" => (X::Count, "probes", "bytes a probe"),
        Set::Probes => (X::Count, "probes", "ns"),
        Set::Files => (X::Bytes, "size of the file", "GB/s"),
        _ => (X::Bytes, "bytes a call", "GB/s"),
    };
    Curves {
        title: title.into(),
        x,
        x_label,
        y_label,
        log_y: false,
        lines: Vec::new(),
    }
}

fn add_row(bars: &mut Vec<Bars>, promise: &Promise, report: &Report) {
    let at = bars.iter().position(|b| b.unit == promise.unit);
    let at = at.unwrap_or_else(|| {
        let (unit, rows) = (promise.unit.clone(), Vec::new());
        bars.push(Bars { unit, rows });
        bars.len() - 1
    });
    let figures = report.of(promise).map(|figure| Bar {
        subject: figure.subject.clone(),
        sample: figure.sample.clone(),
    });
    let median = |subject: &str| report.figure(promise, subject).map(|f| f.sample.median);
    bars[at].rows.push(Row {
        label: label(&promise.what),
        bars: figures.collect(),
        target: match &promise.target {
            Target::Faster(times) => median(HOST).map(|host| host / times),
            Target::Than { other, times } => median(other).map(|other| other / times),
            Target::Best(times) => fastest_other(promise, report)
                .and_then(|other| median(&other))
                .map(|other| other / times),
            Target::AtMost(limit) | Target::AtLeast(limit) => Some(*limit),
            Target::Bulk { .. } | Target::None => None,
        },
        ratio: report.ratio(promise, HOST, TANE).map(|r| r.median),
    });
}

/// What a row is, without the details that the table has.
fn label(what: &str) -> String {
    let what = what.replace('`', "");
    let short = what.split_once(" (").and_then(|(before, rest)| {
        let (_, after) = rest.split_once(')')?;
        Some(format!("{before}{after}"))
    });
    short.unwrap_or(what)
}

/// Everybody in some diagrams, in the order of their appearance.
pub fn subjects(panels: &[Panel]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for panel in panels {
        let here: Vec<&String> = match panel {
            Panel::Curves(curves) => curves.lines.iter().map(|l| &l.subject).collect(),
            Panel::Bars(bars) => {
                let bars = bars.rows.iter().flat_map(|r| &r.bars);
                bars.map(|b| &b.subject).collect()
            }
        };
        for name in here {
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
    }
    names
}

pub fn has_targets(panels: &[Panel]) -> bool {
    panels.iter().any(|panel| match panel {
        Panel::Bars(bars) => bars.rows.iter().any(|r| r.target.is_some()),
        Panel::Curves(_) => false,
    })
}

#[derive(Clone, Copy)]
pub struct Rect {
    pub x: i32,
    pub y: i32,
    pub width: i32,
    pub height: i32,
}

pub struct Layout {
    pub rects: Vec<Rect>,
    pub height: u32,
    /// For the labels beside bars: the same in all diagrams of a picture.
    pub labels: i32,
}

impl Layout {
    /// Curves side by side, bars below each other.
    pub fn of(panels: &[Panel]) -> Self {
        let curves = panels.iter().filter(|p| matches!(p, Panel::Curves(_)));
        let columns = match curves.count() {
            0 | 1 => 1,
            2..=4 => 2,
            n if n % 5 == 0 => 5,
            _ => 3,
        };
        let inner = style::WIDTH as i32 - 2 * style::MARGIN;
        let width = inner / columns;
        let height = [0, 460, 360, 320, 0, 270][columns as usize];
        let (mut rects, mut y, mut column) = (Vec::new(), style::HEADER, 0);
        for panel in panels {
            match panel {
                Panel::Curves(_) => {
                    let x = style::MARGIN + column * width;
                    rects.push(Rect {
                        x,
                        y,
                        width,
                        height,
                    });
                    column += 1;
                    if column == columns {
                        (column, y) = (0, y + height);
                    }
                }
                Panel::Bars(bars) => {
                    if column > 0 {
                        (column, y) = (0, y + height);
                    }
                    let height = super::bars::height(bars);
                    let (x, width) = (style::MARGIN, inner);
                    rects.push(Rect {
                        x,
                        y,
                        width,
                        height,
                    });
                    y += height;
                }
            }
        }
        if column > 0 {
            y += height;
        }
        let labels = panels.iter().map(|panel| match panel {
            Panel::Bars(bars) => super::bars::labels(bars),
            Panel::Curves(_) => 0,
        });
        Self {
            rects,
            height: (y + style::MARGIN / 2) as u32,
            labels: labels.max().unwrap_or(0),
        }
    }
}
