//! Colours and sizes: the same in every picture.

use crate::report::{HOST, MEMCPY, TANE};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

pub const WIDTH: u32 = 1280;
pub const MARGIN: i32 = 28;
/// Small lines below the title, the signs that have room in one, and its pixels.
pub const LINES: usize = 4;
pub const LINE: usize = 190;
pub const LINE_HEIGHT: i32 = 17;
/// Above the first diagram.
pub const HEADER: i32 = 91 + LINES as i32 * LINE_HEIGHT;

const INK: RGBColor = RGBColor(34, 40, 49);
const GREY: RGBColor = RGBColor(110, 118, 129);
pub const GRID: RGBColor = RGBColor(232, 235, 239);
pub const AXIS: RGBColor = RGBColor(150, 157, 166);
pub const TARGET: RGBColor = INK;

pub struct Look {
    pub color: RGBColor,
    /// A limit or a reference rather than a contestant.
    pub dashed: bool,
}

/// Blue and orange can be told apart by nearly everyone, in print too.
pub fn of(subject: &str) -> Look {
    let color = match subject {
        TANE => RGBColor(230, 97, 1),
        HOST => RGBColor(38, 94, 160),
        MEMCPY => RGBColor(120, 125, 132),
        "tane, tiny image" | "tane, sleeps at once" => RGBColor(246, 173, 96),
        "tane, smp image" | "tane, 1 CPU" | "tane, default image" => RGBColor(158, 60, 6),
        "host, directory" => RGBColor(137, 178, 220),
        "xarray" | "XArray" => RGBColor(230, 97, 1),
        "hash table, 64 slots" | "64 lists" => RGBColor(38, 94, 160),
        "hash table, 512 slots" | "512 lists" => RGBColor(137, 178, 220),
        "XArray and cache" => RGBColor(158, 60, 6),
        "XArray, addresses" => RGBColor(246, 173, 96),
        "rhashtable" => RGBColor(42, 140, 120),
        "the article" => RGBColor(120, 125, 132),
        "alone" => RGBColor(176, 44, 84),
        "in kprobes" => RGBColor(201, 154, 26),
        "one thread" => RGBColor(120, 125, 132),
        "separate buffers" => RGBColor(42, 140, 120),
        "own words of lines" => RGBColor(201, 154, 26),
        "same words" => RGBColor(176, 44, 84),
        other => {
            let palette = [
                RGBColor(42, 140, 120),
                RGBColor(122, 81, 149),
                RGBColor(201, 154, 26),
                RGBColor(176, 44, 84),
                RGBColor(80, 130, 60),
            ];
            let sum: usize = other.bytes().map(usize::from).sum();
            palette[sum % palette.len()]
        }
    };
    let dashed = subject == MEMCPY;
    Look { color, dashed }
}

fn text(size: u32, color: RGBColor) -> TextStyle<'static> {
    (FontFamily::SansSerif, size).into_font().color(&color)
}

pub fn title() -> TextStyle<'static> {
    let font = (FontFamily::SansSerif, 24, FontStyle::Bold).into_font();
    font.color(&INK)
}

pub fn heading() -> TextStyle<'static> {
    let font = (FontFamily::SansSerif, 16, FontStyle::Bold).into_font();
    font.color(&INK)
}

pub fn label() -> TextStyle<'static> {
    text(14, INK)
}

pub fn small() -> TextStyle<'static> {
    text(13, GREY)
}

pub fn left() -> TextStyle<'static> {
    label().pos(Pos::new(HPos::Right, VPos::Center))
}

pub fn right() -> TextStyle<'static> {
    text(13, GREY).pos(Pos::new(HPos::Left, VPos::Center))
}

pub fn centered() -> TextStyle<'static> {
    text(13, GREY).pos(Pos::new(HPos::Center, VPos::Top))
}

/// About how many pixels a label takes.
pub fn width(label: &str) -> i32 {
    label.chars().count() as i32 * 8
}
