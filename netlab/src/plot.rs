//! What was measured as a picture: an SVG with a diagram of each quantity over time, and a
//! line in it for each connection, and for each of its paths.

use crate::report::{rate, Report, Sample};
use std::borrow::Cow;
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
/// Of the diagrams' common axis.
const AXIS: f64 = 20.0;
/// Marks at most, on either axis.
const MARKS: f64 = 6.0;
/// Means of what arrived that a line has, at most.
const MEANS: f64 = 120.0;

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
    /// Which of the diagrams it is in.
    diagrams: &'static [usize],
}

/// Those of TCP.
const ALL: &[usize] = &[ARRIVED, 1, ROUND_TRIP, 3];
/// Datagrams only arrive.
const DATAGRAMS: &[usize] = &[ARRIVED];
/// A connection by several paths has no round trip of its own.
const OF_PATHS: &[usize] = &[ARRIVED, 1, 3];

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

const ARRIVED: usize = 0;
const ROUND_TRIP: usize = 2;
const DIAGRAMS: [Diagram; 4] = [
    diagram(
        "Arrived at the program, in order",
        |sample| sample.bits_per_second,
        rounded_rate,
    ),
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
        let height = 16.0 + legend + each * DIAGRAMS.len() as f64 + AXIS;
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
            let drawn = lines.iter().filter(|line| line.diagrams.contains(&number));
            self.draw((number, diagram), &drawn.collect::<Vec<_>>(), top, &mut svg);
        }
        let _ = writeln!(
            svg,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">seconds by the laboratory's clock</text>",
            WIDTH - RIGHT,
            height - 8.0
        );
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
                diagrams: match &flow.datagrams {
                    Some(_) => DATAGRAMS,
                    None if !flow.paths.is_empty() => OF_PATHS,
                    None => ALL,
                },
            });
            lines.extend(flow.paths.iter().enumerate().map(|(path, of)| Line {
                text: format!("{}, by {}", flow.name, of.links.join(", ")),
                colour,
                dashes: Some(DASHES[path % DASHES.len()]),
                samples: &of.samples,
                diagrams: ALL,
            }));
        }
        lines
    }

    /// What a diagram has of a line, and what must be said of that.
    fn drawn<'r>(&self, number: usize, samples: &'r [Sample]) -> (Cow<'r, [Sample]>, String) {
        match number {
            // What a loss has held back arrives all at once: faster than the cable is.
            ARRIVED => {
                let lines = self.lines();
                let span = span(self.seconds, lines.iter().map(|line| line.samples));
                let said = format!(", mean of {}", time(span));
                (means(samples, span).into(), said)
            }
            // Before the first answer there is none.
            ROUND_TRIP => {
                let known = samples.iter().filter(|sample| sample.rtt_ms > 0.0);
                (known.copied().collect(), String::new())
            }
            _ => (samples.into(), String::new()),
        }
    }

    fn draw(
        &self,
        (number, diagram): (usize, &Diagram),
        lines: &[&Line<'_>],
        top: f64,
        svg: &mut String,
    ) {
        let said = self.drawn(number, &[]).1;
        let curves = lines.iter().map(|line| self.drawn(number, line.samples).0);
        let curves: Vec<_> = curves.collect();
        let samples = || curves.iter().flat_map(|samples| samples.iter());
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
            "<text x=\"{LEFT}\" y=\"{}\" font-size=\"14\">{}{said}</text>",
            top - 18.0,
            diagram.title
        );
        for event in &self.events {
            let _ = writeln!(
                svg,
                "<path d=\"M{0:.1} {top}V{bottom}\" stroke=\"#888\" stroke-dasharray=\"1 3\"/>\
                 <text x=\"{0:.1}\" y=\"{1}\" text-anchor=\"middle\" font-size=\"10\" fill=\"#555\">{2}</text>",
                x(event.seconds),
                top - 3.0,
                event.what
            );
        }
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
        for (line, samples) in lines.iter().zip(&curves) {
            let points = samples
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

/// A round number, 1, 2 or 5 and zeroes, of which `most` has no more than `count`.
fn step(most: f64, count: f64) -> f64 {
    let least = most / count;
    let power = 10f64.powf(least.log10().floor());
    let steps = [1.0, 2.0, 5.0].map(|digit| digit * power);
    let found = steps.into_iter().find(|step| *step >= least);
    found.unwrap_or(10.0 * power)
}

/// Seconds that each of a line's means is of: of whole samples, as far apart as most are.
fn span<'r>(seconds: f64, lines: impl Iterator<Item = &'r [Sample]>) -> f64 {
    let wanted = step(seconds.max(1e-3), MEANS);
    let pairs = lines.flat_map(|samples| samples.windows(2));
    let apart = pairs.map(|pair| pair[1].seconds - pair[0].seconds);
    let mut apart: Vec<_> = apart.filter(|apart| *apart > 0.0).collect();
    apart.sort_by(f64::total_cmp);
    match apart.get(apart.len() / 2) {
        Some(apart) => apart * (wanted / apart - 1e-6).ceil().max(1.0),
        None => wanted,
    }
}

/// What arrived, by the bytes of each `span` of seconds. The last one may be shorter.
fn means(samples: &[Sample], span: f64) -> Vec<Sample> {
    let mut means: Vec<Sample> = Vec::new();
    // Of the first one it is not known when its bytes began to come.
    let mut before: Option<Sample> = None;
    for (at, sample) in samples.iter().enumerate() {
        let Some(last) = before else {
            before = Some(*sample);
            means.push(*sample);
            continue;
        };
        let passed = sample.seconds - last.seconds;
        if passed + 1e-9 < span && at + 1 < samples.len() {
            continue;
        }
        let bits = sample.bytes.saturating_sub(last.bytes) as f64 * 8.0;
        means.push(Sample {
            bits_per_second: if passed > 0.0 { bits / passed } else { 0.0 },
            ..*sample
        });
        before = Some(*sample);
    }
    means
}

/// Round numbers from 0 on: 1, 2 or 5 and zeroes apart.
fn marks(most: f64) -> impl Iterator<Item = f64> {
    let step = step(most, MARKS);
    (0..=(most / step) as u32).map(move |n| f64::from(n) * step)
}

/// 20 Mbit/s, of a round number.
fn rounded_rate(bits: f64) -> String {
    rate(bits).replace(".0 ", " ")
}

/// 2 s, 50 ms.
fn time(seconds: f64) -> String {
    match seconds < 1.0 {
        true => format!("{} ms", plain(seconds * 1e3)),
        false => format!("{} s", plain(seconds)),
    }
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
    fn means_are_of_all_that_arrived_and_no_faster_than_a_cable_for_long() {
        // Ten times 1 KB in 0.1 s; what a loss held back comes with the sixth.
        let bytes = [1, 2, 2, 2, 2, 6, 7, 8, 9, 10].map(|kb| kb * 1000);
        let samples: Vec<_> = bytes
            .iter()
            .enumerate()
            .map(|(at, bytes)| Sample {
                seconds: (at + 1) as f64 / 10.0,
                bytes: *bytes,
                bits_per_second: 0.0,
                rtt_ms: 0.0,
                congestion_window: 0,
                retransmits: 0,
            })
            .collect();
        let means = means(&samples, 0.5);
        let found: Vec<_> = means
            .iter()
            .map(|mean| (mean.seconds, mean.bits_per_second))
            .collect();
        assert_eq!(found.len(), 3);
        assert_eq!(found[1], (0.6, 80_000.0));
        assert_eq!(found[2].0, 1.0);
        assert!((found[2].1 - 80_000.0).abs() < 1.0);
    }

    #[test]
    fn what_a_diagram_says_of_its_means_is_what_they_are_of() {
        let every = |apart: f64, count: u32| -> Vec<Sample> {
            let sample = |at| Sample {
                seconds: f64::from(at) * apart,
                bytes: u64::from(at),
                bits_per_second: 0.0,
                rtt_ms: 0.0,
                congestion_window: 0,
                retransmits: 0,
            };
            (1..=count).map(sample).collect()
        };
        for (apart, count, said) in [
            // Fewer than there is room for: each is one.
            (0.1, 50, "100 ms"),
            (1.5, 4, "1.5 s"),
            // Two of 30 ms are the least that is 50.
            (0.03, 200, "60 ms"),
            (0.1, 600, "500 ms"),
            (0.0001, 100, "0.1 ms"),
        ] {
            let samples = every(apart, count);
            let span = span(apart * f64::from(count), [&samples[..]].into_iter());
            assert_eq!(time(span), said);
            let means = means(&samples, span);
            let pairs = means
                .windows(2)
                .map(|pair| pair[1].seconds - pair[0].seconds);
            let mut whole = pairs.take(means.len().saturating_sub(2));
            assert!(whole.all(|is| (is - span).abs() < 1e-9), "{apart}");
        }
        assert_eq!(time(span(60.0, [].into_iter())), "500 ms");
    }

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
