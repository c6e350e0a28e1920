//! What was recorded as a flame graph: an SVG in which each function is a box as wide as
//! what it took, on the box of what called it.

use crate::call::micro;
use crate::record::Record;
use crate::tree::Node;
use std::fmt::Write;

/// In pixels, of the whole and of a line.
const WIDTH: f64 = 1200.0;
const LINE: f64 = 17.0;
/// Above the boxes.
const HEAD: f64 = 46.0;
/// Of a letter, about.
const LETTER: f64 = 6.6;

impl Record {
    /// An SVG with a row of boxes for each level of calls, the outermost at the top, and
    /// side by side what was called from the same function. A box's title has its times.
    /// What took less than `least` ns in all is left out, with what it called.
    pub fn flame(&self, least: u64) -> String {
        let threads = self.threads.iter().map(|thread| {
            let tree = thread.calls.tree();
            Node {
                function: format!("{} {}", thread.name, thread.id),
                count: 1,
                ..tree
            }
        });
        let threads: Vec<_> = threads.filter(|tree| tree.total > 0).collect();
        let total: u64 = threads.iter().map(|tree| tree.total).sum();
        let deepest = threads
            .iter()
            .map(|tree| depth(tree, least))
            .max()
            .unwrap_or(0);
        let height = HEAD + LINE * (deepest + 1) as f64 + 8.0;
        let mut svg = format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
             <svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" \
             viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" font-size=\"11\">\n\
             <style>g:hover rect {{ stroke: #000; }}</style>\n\
             <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n\
             <text x=\"8\" y=\"18\" font-size=\"14\">{} µs in the kernel</text>\n\
             <text x=\"8\" y=\"35\">{}</text>\n",
            micro(total),
            self.notes(least)
        );
        let scale = (WIDTH - 16.0) / total.max(1) as f64;
        let mut left = 8.0;
        for tree in &threads {
            boxes(tree, left, 0, scale, least, total, &mut svg);
            left += tree.total as f64 * scale;
        }
        svg + "</svg>\n"
    }

    fn notes(&self, least: u64) -> String {
        let mut text = format!("boxes of less than {} µs are left out", micro(least));
        if self.lost_calls > 0 {
            let _ = write!(text, "; {} events were lost", self.lost_calls);
        }
        text
    }
}

/// Levels below it that are drawn.
fn depth(node: &Node, least: u64) -> usize {
    let drawn = node.inside.iter().filter(|node| node.total >= least);
    drawn.map(|node| 1 + depth(node, least)).max().unwrap_or(0)
}

fn boxes(node: &Node, left: f64, row: usize, scale: f64, least: u64, all: u64, svg: &mut String) {
    let width = node.total as f64 * scale;
    let top = HEAD + LINE * row as f64;
    let part = node.total as f64 * 100.0 / all.max(1) as f64;
    let name = escape(&node.function);
    let _ = write!(
        svg,
        "<g><title>{name}: {} µs ({part:.1} %), {} µs by itself, {} calls</title>\
         <rect x=\"{left:.2}\" y=\"{top}\" width=\"{width:.2}\" height=\"{}\" fill=\"{}\"/>",
        micro(node.total),
        micro(node.own),
        node.count,
        LINE - 1.0,
        colour(&node.function)
    );
    let room = ((width - 6.0) / LETTER) as usize;
    let shown = match node.function.chars().count() {
        len if len <= room => name,
        // Two letters and a mark that it goes on.
        _ if room < 4 => String::new(),
        _ => escape(&node.function.chars().take(room - 1).collect::<String>()) + "…",
    };
    if !shown.is_empty() {
        let (x, y) = (left + 3.0, top + 12.0);
        let _ = write!(svg, "<text x=\"{x:.2}\" y=\"{y}\">{shown}</text>");
    }
    svg.push_str("</g>\n");
    let mut at = left;
    for inner in node.inside.iter().filter(|inner| inner.total >= least) {
        boxes(inner, at, row + 1, scale, least, all, svg);
        at += inner.total as f64 * scale;
    }
}

/// The same for a function wherever it is; functions of one name's beginning are alike.
fn colour(function: &str) -> String {
    let sum = |bytes: &[u8]| {
        let step = |sum: u32, byte: &u8| (sum ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
        bytes.iter().fold(0x811c_9dc5, step)
    };
    let family = function
        .split('_')
        .find(|part| !part.is_empty())
        .unwrap_or("");
    let (hue, light) = (sum(family.as_bytes()) % 360, sum(function.as_bytes()) % 14);
    format!("hsl({hue},65%,{}%)", 68 + light)
}

fn escape(text: &str) -> String {
    let plain = |c: char| match c {
        '<' => "&lt;".to_owned(),
        '>' => "&gt;".to_owned(),
        '&' => "&amp;".to_owned(),
        '"' => "&quot;".to_owned(),
        // XML has no others, not even escaped.
        c if c < ' ' => "?".to_owned(),
        c => c.to_string(),
    };
    text.chars().map(plain).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::{Call, Calls};
    use crate::record::Thread;

    fn record() -> Record {
        let call = |function: &str, depth, start, duration| Call {
            function: function.into(),
            depth,
            start,
            duration,
            value: 0,
        };
        let calls = vec![
            call("outer<&>", 0, 0, 4000),
            call("half", 1, 100, 2000),
            call("little", 1, 2200, 10),
            call("other", 0, 5000, 1000),
        ];
        Record {
            threads: vec![Thread {
                id: 1,
                name: "a \"name\"\n".into(),
                calls: Calls { calls, lost: 0 },
            }],
            ..Record::default()
        }
    }

    /// The width of the box with this title.
    fn width(svg: &str, title: &str) -> f64 {
        let at = svg.find(&format!("<title>{title}")).expect(title);
        let (_, rest) = svg[at..].split_once("width=\"").expect("a box");
        rest.split('"')
            .next()
            .and_then(|n| n.parse().ok())
            .expect("a number")
    }

    #[test]
    fn boxes_are_as_wide_as_what_they_took() {
        let svg = record().flame(11);
        let outer = width(
            &svg,
            "outer&lt;&amp;&gt;: 4.000 µs (80.0 %), 1.990 µs by itself",
        );
        assert!((outer - 0.8 * (WIDTH - 16.0)).abs() < 0.1, "{outer}");
        assert!((width(&svg, "half") - outer / 2.0).abs() < 0.1);
        assert!((width(&svg, "other") - outer / 4.0).abs() < 0.1);
        assert!(!svg.contains("little") && record().flame(0).contains("little"));
        assert!(svg.contains("a &quot;name&quot;? 1"));
    }

    #[test]
    fn nothing_is_a_picture_too() {
        assert!(Record::default().flame(0).ends_with("</svg>\n"));
    }
}
