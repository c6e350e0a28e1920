//! A picture's SVG as PNG, twice as fine, with the fonts of the machine.

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{fontdb, Options, Tree};
use std::sync::Arc;

/// Sans-serif fonts that have ×, ≥, µ and ¼, best first.
const FAMILIES: [&str; 5] = [
    "DejaVu Sans",
    "Noto Sans",
    "Liberation Sans",
    "FreeSans",
    "Arial",
];
const SCALE: f32 = 2.0;

pub struct Renderer {
    options: Options<'static>,
}

impl Renderer {
    /// An error names what to install if there is no font.
    pub fn new() -> Result<Self, String> {
        let mut fonts = fontdb::Database::new();
        fonts.load_system_fonts();
        let has = |name: &str| {
            let mut families = fonts.faces().flat_map(|face| &face.families);
            families.any(|(family, _)| family == name)
        };
        let found = FAMILIES.into_iter().find(|name| has(name));
        let family = found.ok_or("no font was found: apt install fonts-dejavu-core")?;
        fonts.set_sans_serif_family(family);
        let options = Options {
            fontdb: Arc::new(fonts),
            ..Default::default()
        };
        Ok(Self { options })
    }

    pub fn render(&self, svg: &str) -> Result<Vec<u8>, String> {
        let tree = Tree::from_str(svg, &self.options).map_err(|e| e.to_string())?;
        let size = tree.size();
        let (width, height) = (size.width() * SCALE, size.height() * SCALE);
        let mut image = Pixmap::new(width.ceil() as u32, height.ceil() as u32)
            .ok_or("a picture too large to render")?;
        resvg::render(
            &tree,
            Transform::from_scale(SCALE, SCALE),
            &mut image.as_mut(),
        );
        image.encode_png().map_err(|e| e.to_string())
    }
}
