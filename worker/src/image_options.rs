//! [`tane::ImageOptions`] as bytes: a worker is sent all of it. What has a field that is
//! not here does not compile.

use crate::failure::Result;
use crate::wire::{List, Reader, Wire, Writer};
use std::path::PathBuf;
use std::str::FromStr;
use tane::images::Format;
use tane::{ImageOptions, Selector, Verity};

impl Wire<'_> for ImageOptions {
    fn put(&self, to: &mut Writer) -> Result<()> {
        let ImageOptions {
            write,
            format,
            overlay,
            trust,
            with,
            lower,
            secrets,
            verity,
            sector_size,
        } = self;
        write.put(to)?;
        format.put(to)?;
        overlay.put(to)?;
        List(trust.clone()).put(to)?;
        List(with.clone()).put(to)?;
        List(lower.clone()).put(to)?;
        List(secrets.clone()).put(to)?;
        verity.put(to)?;
        sector_size.put(to)
    }

    fn get(from: &mut Reader) -> Result<Self> {
        Ok(ImageOptions {
            write: Wire::get(from)?,
            format: Wire::get(from)?,
            overlay: Wire::get(from)?,
            trust: List::get(from)?.0,
            with: List::get(from)?.0,
            lower: List::get(from)?.0,
            secrets: List::get(from)?.0,
            verity: Wire::get(from)?,
            sector_size: Wire::get(from)?,
        })
    }
}

impl Wire<'_> for (PathBuf, Option<Selector>) {
    fn put(&self, to: &mut Writer) -> Result<()> {
        self.0.put(to)?;
        self.1.put(to)
    }

    fn get(from: &mut Reader) -> Result<Self> {
        Ok((Wire::get(from)?, Wire::get(from)?))
    }
}

/// What its text says.
fn parsed<T: FromStr>(text: &str, from: &Reader) -> Result<T> {
    text.parse().or_else(|_| from.malformed())
}

impl Wire<'_> for Format {
    fn put(&self, to: &mut Writer) -> Result<()> {
        self.name().put(to)
    }

    fn get(from: &mut Reader) -> Result<Self> {
        let name = String::get(from)?;
        parsed(&name, from)
    }
}

impl Wire<'_> for Selector {
    fn put(&self, to: &mut Writer) -> Result<()> {
        self.to_string().put(to)
    }

    fn get(from: &mut Reader) -> Result<Self> {
        Ok(Selector::parse(&String::get(from)?)?)
    }
}

impl Wire<'_> for Verity {
    fn put(&self, to: &mut Writer) -> Result<()> {
        self.root.put(to)?;
        self.offset.put(to)
    }

    fn get(from: &mut Reader) -> Result<Self> {
        Ok(Verity {
            root: Wire::get(from)?,
            offset: Wire::get(from)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_gets_every_option_as_it_was_said() {
        let selector = |text| Selector::parse(text).expect("a selector");
        let said = ImageOptions {
            write: true,
            format: Some(Format::Vhdx),
            overlay: Some(":memory:".into()),
            trust: vec!["/a".into(), "b".into()],
            with: vec!["c".into()],
            lower: vec![
                ("d".into(), None),
                ("e".into(), Some(selector("vg/root,subvol=@"))),
            ],
            secrets: vec![b"one".to_vec(), vec![0, 0xff]],
            verity: Some(Verity {
                root: vec![7; 32],
                offset: Some(1 << 40),
            }),
            sector_size: Some(4096),
        };
        for said in [said, ImageOptions::new()] {
            let mut room = [0; 4096];
            let mut to = Writer::new(&mut room);
            said.put(&mut to).expect("room");
            let len = to.len();
            let mut from = Reader::new(&room[..len]);
            let got = ImageOptions::get(&mut from).expect("all of it");
            assert!(from.is_empty());
            assert!(got == said, "{got:?}");
        }
    }
}
