//! One picture of each set: curves where figures are a series, dots on a
//! logarithmic axis where they differ by magnitudes, bars where they do not.
//!
//!   style.rs   colours, sizes, who is drawn how: the same in every picture
//!   panel.rs   which diagrams a set's picture has
//!   curves.rs  lines over sizes or counts; bars.rs, rows of bars or dots
//!   png.rs     the SVG, rendered

mod bars;
mod curves;
mod panel;
mod png;
mod style;

use crate::promise::Set;
use crate::report::Report;
use crate::table;
use panel::Panel;
use plotters::prelude::*;
use std::path::{Path, PathBuf};

/// SVG and PNG of every set that has figures; where they are. Without a font
/// there are no PNGs, and a warning.
pub fn draw(report: &Report, dir: &Path) -> Result<Vec<PathBuf>, String> {
    let mut drawn = Vec::new();
    let mut renderer = Some(png::Renderer::new());
    for set in Set::ALL {
        let Some(svg) = picture(set, report)? else {
            continue;
        };
        let path = dir.join(format!("{}.svg", set.name()));
        write(&path, svg.as_bytes())?;
        drawn.push(path.clone());
        match renderer.as_ref().map(|r| r.as_ref()) {
            Some(Ok(renderer)) => {
                let path = path.with_extension("png");
                write(&path, &renderer.render(&svg)?)?;
                drawn.push(path);
            }
            Some(Err(why)) => {
                eprintln!("tane-bench: no PNGs: {why}");
                renderer = None;
            }
            None => {}
        }
    }
    Ok(drawn)
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), String> {
    std::fs::write(path, bytes).map_err(|e| format!("{}: {e}", path.display()))
}

/// The picture of a set as SVG; nothing if nothing of it was measured.
fn picture(set: Set, report: &Report) -> Result<Option<String>, String> {
    let panels = panel::of(set, report);
    if panels.is_empty() {
        return Ok(None);
    }
    let mut svg = String::new();
    paint(&mut svg, set, report, &panels).map_err(|e| format!("drawing {}: {e}", set.name()))?;
    Ok(Some(svg))
}

type Drawn<T = ()> = Result<T, Box<dyn std::error::Error>>;

fn paint(svg: &mut String, set: Set, report: &Report, panels: &[Panel]) -> Drawn {
    let layout = panel::Layout::of(panels);
    let root = SVGBackend::with_string(svg, (style::WIDTH, layout.height)).into_drawing_area();
    root.fill(&WHITE)?;
    header(&root, set, report, panels)?;
    for (panel, rect) in panels.iter().zip(&layout.rects) {
        let area = root
            .clone()
            .shrink((rect.x, rect.y), (rect.width, rect.height));
        match panel {
            Panel::Curves(curves) => curves::draw(&area, curves)?,
            Panel::Bars(rows) => bars::draw(&area, rows, layout.labels)?,
        }
    }
    root.present()?;
    Ok(())
}

/// What bench.json says in more words.
const METHOD: &str = "Contestants took turns, each round beginning with another one; ratios are \
of runs of the same round. Files are in the page cache unless a row says cold.";

/// Title, machine, method, versions, and who has which colour.
fn header(
    root: &DrawingArea<SVGBackend, plotters::coord::Shift>,
    set: Set,
    report: &Report,
    panels: &[Panel],
) -> Drawn {
    let place = |x, y| (style::MARGIN + x, y);
    root.draw(&Text::new(set.title(), place(0, 18), style::title()))?;
    let line = format!(
        "{} · medians of {} runs, with quartiles · {}",
        report.machine.summary(),
        report.runs,
        report.machine.date
    );
    let mut lines = vec![line, METHOD.into()];
    let versions = format!("Versions: {}", report.machine.versions_text());
    lines.extend(table::wrapped(&versions, style::LINE));
    for (at, line) in lines.into_iter().take(style::LINES).enumerate() {
        let y = 48 + at as i32 * style::LINE_HEIGHT;
        root.draw(&Text::new(line, place(0, y), style::small()))?;
    }
    let (mut x, y) = (0, style::HEADER - 34);
    for subject in panel::subjects(panels) {
        let look = style::of(&subject);
        let stroke = look.color.stroke_width(3);
        root.draw(&PathElement::new(
            vec![place(x, y + 7), place(x + 22, y + 7)],
            stroke,
        ))?;
        root.draw(&Circle::new(place(x + 11, y + 7), 5, look.color.filled()))?;
        root.draw(&Text::new(
            subject.clone(),
            place(x + 30, y),
            style::label(),
        ))?;
        x += 56 + style::width(&subject);
    }
    if panel::has_targets(panels) {
        bars::diamond(root, place(x + 10, y + 7))?;
        root.draw(&Text::new("target", place(x + 24, y), style::label()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Machine;
    use crate::promise::Promise;
    use crate::report::{HOST, MEMCPY, TANE};
    use crate::sample::Sample;
    use crate::target::Target;

    /// Every row of every set, with figures that rise by the row.
    fn report() -> Report {
        let promises = crate::sets::promises();
        let mut machine = Machine::default();
        machine.versions.insert("7-Zip".into(), "22.01".into());
        let mut report = Report::new(machine, 3, promises.clone());
        for (i, promise) in promises.iter().enumerate() {
            for (subject, factor) in [(TANE, 1.0), (HOST, 8.0), (MEMCPY, 0.9)] {
                let base = (i + 1) as f64 * factor;
                let sample = Sample::of(vec![base, base * 1.1, base * 1.3]).unwrap();
                report.add(promise, subject, sample);
            }
        }
        report.conclude();
        report
    }

    #[test]
    fn the_picture_of_every_set_is_well_formed_svg_with_its_title_and_subjects() {
        let report = report();
        for set in Set::ALL {
            let svg = picture(set, &report).unwrap().unwrap();
            let tree = resvg::usvg::roxmltree::Document::parse(&svg).unwrap();
            assert_eq!(tree.root_element().tag_name().name(), "svg");
            let texts: Vec<_> = tree.descendants().filter_map(|n| n.text()).collect();
            let has = |text: &str| texts.iter().any(|t| t.trim() == text);
            assert!(has(set.title()), "{}", set.name());
            assert!(has(TANE) && has(HOST), "{}", set.name());
            assert!(
                has(METHOD) && has("Versions: 7-Zip 22.01"),
                "{}",
                set.name()
            );
            assert!(
                !svg.contains("NaN") && !svg.contains("inf\""),
                "{}",
                set.name()
            );
        }
    }

    #[test]
    fn pictures_render_to_png_with_something_on_them() {
        let report = report();
        let Ok(renderer) = png::Renderer::new() else {
            panic!("no font: apt install fonts-dejavu-core");
        };
        // It has curves, bars and dots.
        let svg = picture(Set::Threads, &report).unwrap().unwrap();
        let png = renderer.render(&svg).unwrap();
        let image = resvg::tiny_skia::Pixmap::decode_png(&png).unwrap();
        assert!(image.width() >= style::WIDTH && image.height() > 1000);
        let RGBColor(r, g, b) = style::of(HOST).color;
        let blue = image
            .pixels()
            .iter()
            .filter(|pixel| (pixel.red(), pixel.green(), pixel.blue()) == (r, g, b));
        assert!(blue.count() > 1000);
    }

    #[test]
    fn what_was_not_measured_has_no_picture() {
        let promise = Promise::new("x", Set::Boot, "x", "ms", Target::None);
        let mut report = Report::empty();
        report.promises = vec![promise.clone()];
        report.miss(&promise, TANE, "no image");
        assert!(picture(Set::Boot, &report).unwrap().is_none());
    }

    #[test]
    fn one_figure_of_one_run_and_a_zero_can_be_drawn() {
        for value in [0.0, 1.0] {
            let promise = Promise::new("x", Set::Boot, "x", "ms", Target::AtMost(4.0));
            let mut report = Report::empty();
            report.promises = vec![promise.clone()];
            report.add(&promise, TANE, Sample::of(vec![value]).unwrap());
            let svg = picture(Set::Boot, &report).unwrap().unwrap();
            assert!(!svg.contains("NaN"), "{svg}");
        }
    }
}
