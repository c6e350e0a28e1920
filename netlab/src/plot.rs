//! What was measured as a picture: an SVG with a diagram of each quantity over time, and a
//! line in it for each connection, and for each of its paths.

use crate::report::{rate, Report, Sample};
use std::fmt::Write;

/// In pixels, of the whole, of a diagram, and around it.
const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 200.0;
const LEFT: f64 = 96.0;
const RIGHT: f64 = 16.0;
const HEAD: f64 = 34.0;
const FOOT: f64 = 34.0;
/// Of a line of text.
const LINE: f64 = 18.0;
/// Marks at most, on either axis.
const MARKS: f64 = 6.0;

/// Okabe and Ito's colours, which who sees few colours tells apart.
const COLOURS: [&str; 7] = [
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000",
];

/// How the lines of a connection's paths are broken, one after the other.
const DASHES: [&str; 3] = ["6 3", "2 3", "9 3 2 3"];

/// A line in each diagram.
struct Line<'r> {
    text: String,
    colour: &'static str,
    /// Of a path's; a connection's is whole.
    dashes: Option<&'static str>,
    samples: &'r [Sample],
    /// How many of the diagrams it is in: datagrams only arrive.
    diagrams: usize,
}

impl Line<'_> {
    fn stroke(&self) -> String {
        let dashes = self.dashes.map_or(String::new(), |dashes| {
            format!(" stroke-dasharray=\"{dashes}\"")
        });
        format!("stroke=\"{}\"{dashes}", self.colour)
    }
}

/// A quantity.
struct Diagram {
    title: &'static str,
    of: fn(&Sample) -> f64,
    shown: fn(f64) -> String,
}

const DIAGRAMS: [Diagram; 4] = [
    diagram("Arrived", |sample| sample.bits_per_second, rate),
    diagram(
        "Congestion window, segments",
        |sample| sample.congestion_window.into(),
        plain,
    ),
    diagram("Round trip, ms", |sample| sample.rtt_ms, plain),
    diagram(
        "Segments sent again, in all",
        |sample| sample.retransmits.into(),
        plain,
    ),
];

const fn diagram(title: &'static str, of: fn(&Sample) -> f64, shown: fn(f64) -> String) -> Diagram {
    Diagram { title, of, shown }
}

impl Report {
    /// An SVG of all connections' samples; it names every line.
    pub fn svg(&self) -> String {
        let lines = self.lines();
        let legend = lines.len() as f64 * LINE;
        let each = HEAD + HEIGHT + FOOT;
        let height = 16.0 + legend + each * DIAGRAMS.len() as f64;
        let mut svg = format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
             <svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" \
             viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" font-size=\"12\">\n\
             <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n"
        );
        for (number, line) in lines.iter().enumerate() {
            let y = 20.0 + number as f64 * LINE;
            let _ = writeln!(
                svg,
                "<path d=\"M{LEFT} {}h24\" {} stroke-width=\"3\"/>\
                 <text x=\"{}\" y=\"{y}\">{}</text>",
                y - 4.0,
                line.stroke(),
                LEFT + 32.0,
                line.text,
            );
        }
        for (number, diagram) in DIAGRAMS.iter().enumerate() {
            let top = 16.0 + legend + each * number as f64 + HEAD;
            let drawn: Vec<_> = lines.iter().filter(|line| number < line.diagrams).collect();
            self.draw(diagram, &drawn, top, &mut svg);
        }
        svg + "</svg>\n"
    }

    fn lines(&self) -> Vec<Line<'_>> {
        let mut lines = Vec::new();
        for (number, flow) in self.flows.iter().enumerate() {
            let control = flow.congestion.as_deref();
            let control = control.map_or(String::new(), |name| format!(", {name}"));
            let colour = COLOURS[number % COLOURS.len()];
            lines.push(Line {
                text: format!("{}: {} to {}{control}", flow.name, flow.from, flow.to),
                colour,
                dashes: None,
                samples: &flow.samples,
                diagrams: match flow.datagrams {
                    Some(_) => 1,
                    None => DIAGRAMS.len(),
                },
            });
            lines.extend(flow.paths.iter().enumerate().map(|(path, of)| Line {
                text: format!("{}, by {}", flow.name, of.links.join(", ")),
                colour,
                dashes: Some(DASHES[path % DASHES.len()]),
                samples: &of.samples,
                diagrams: DIAGRAMS.len(),
            }));
        }
        lines
    }

    fn draw(&self, diagram: &Diagram, lines: &[&Line<'_>], top: f64, svg: &mut String) {
        let samples = || lines.iter().flat_map(|line| line.samples);
        let most = samples().map(diagram.of).fold(0.0, f64::max);
        let most = if most > 0.0 { most * 1.05 } else { 1.0 };
        let last = samples()
            .map(|sample| sample.seconds)
            .fold(self.seconds, f64::max);
        let last = if last > 0.0 { last } else { 1.0 };
        let (wide, bottom) = (WIDTH - LEFT - RIGHT, top + HEIGHT);
        let x = |seconds: f64| LEFT + seconds / last * wide;
        let y = |value: f64| bottom - value / most * HEIGHT;
        let _ = writeln!(
            svg,
            "<text x=\"{LEFT}\" y=\"{}\" font-size=\"14\">{}</text>",
            top - 10.0,
            diagram.title
        );
        for mark in marks(most) {
            let _ = writeln!(
                svg,
                "<path d=\"M{LEFT} {0:.1}h{wide}\" stroke=\"#ddd\"/>\
                 <text x=\"{1}\" y=\"{2:.1}\" text-anchor=\"end\">{3}</text>",
                y(mark),
                LEFT - 8.0,
                y(mark) + 4.0,
                (diagram.shown)(mark)
            );
        }
        for mark in marks(last) {
            let _ = writeln!(
                svg,
                "<text x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">{} s</text>",
                x(mark),
                bottom + LINE,
                plain(mark)
            );
        }
        for line in lines {
            let points = line
                .samples
                .iter()
                .map(|sample| format!("{:.1},{:.1}", x(sample.seconds), y((diagram.of)(sample))));
            let points: Vec<_> = points.collect();
            let _ = writeln!(
                svg,
                "<polyline fill=\"none\" {} stroke-width=\"1.5\" points=\"{}\"/>",
                line.stroke(),
                points.join(" ")
            );
        }
        let _ = writeln!(
            svg,
            "<path d=\"M{LEFT} {top}V{bottom}H{}\" fill=\"none\" stroke=\"#444\"/>",
            LEFT + wide
        );
    }
}

/// Round numbers from 0 on: 1, 2 or 5 and zeroes apart.
fn marks(most: f64) -> impl Iterator<Item = f64> {
    let least = most / MARKS;
    let power = 10f64.powf(least.log10().floor());
    let steps = [1.0, 2.0, 5.0].map(|digit| digit * power);
    let step = steps
        .into_iter()
        .find(|step| *step >= least)
        .unwrap_or(10.0 * power);
    (0..=(most / step) as u32).map(move |n| f64::from(n) * step)
}

/// 250, 0.5.
fn plain(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_round_and_few() {
        for most in [0.003, 1.0, 9.9, 104.0, 7e9] {
            let marks: Vec<_> = marks(most).collect();
            assert!((2..=8).contains(&marks.len()), "{most}: {marks:?}");
            assert!(marks.last().is_some_and(|last| *last <= most));
        }
        assert_eq!(
            marks(10.0).collect::<Vec<_>>(),
            [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]
        );
    }
}
