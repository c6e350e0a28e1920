//! What a disk with several partitions is made of: a TOML file in the terms of
//! repart.d(5).

use super::table::{Purpose, Table};
use serde::{Deserialize, Deserializer};
use std::path::{Path, PathBuf};
use tane::parse_size;

/// A disk.
#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct Layout {
    /// Its partition table.
    #[serde(default)]
    pub table: Table,
    /// Of the disk; else it is as large as its partitions.
    #[serde(default, deserialize_with = "size")]
    pub size: Option<u64>,
    /// In their order on the disk.
    #[serde(default, rename = "partition")]
    pub partitions: Vec<Partition>,
}

/// One of its partitions.
#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Partition {
    /// Its type.
    #[serde(default, rename = "type", deserialize_with = "purpose")]
    pub purpose: Option<Purpose>,
    /// Of the partition, and of its file system.
    pub label: Option<String>,
    /// What it holds: a kind that make-image makes, or swap.
    pub fs: Option<String>,
    /// In bytes; else it is as large as its files.
    #[serde(default, deserialize_with = "size")]
    pub size: Option<u64>,
    /// It gets what the others leave of the disk.
    #[serde(default)]
    pub grow: bool,
    /// A file that it holds as it is.
    pub copy_blocks: Option<PathBuf>,
    /// Of its file system.
    pub uuid: Option<String>,
    /// Of squashfs and erofs.
    pub compression: Option<String>,
    // What follows is what the options of these names say.
    /// `SOURCE`.
    pub source: Option<PathBuf>,
    /// `--layer`
    #[serde(default)]
    pub layer: Vec<PathBuf>,
    /// `--ref`
    #[serde(rename = "ref")]
    pub reference: Option<String>,
    /// `--owner`
    pub owner: Option<String>,
    /// `--metadata`
    #[serde(default)]
    pub metadata: Vec<PathBuf>,
    /// `--xattrs`
    #[serde(default)]
    pub xattrs: Vec<PathBuf>,
    /// `--selinux`
    #[serde(default)]
    pub selinux: Vec<PathBuf>,
}

/// Whether SOURCE is such a file: nothing else that images are made of is called so.
pub fn is_layout(source: &Path) -> bool {
    source.extension().is_some_and(|end| end == "toml") && !source.is_dir()
}

impl Layout {
    /// Names in the file start where it is.
    /// `size`: in place of what it says of the disk.
    pub fn read(path: &Path, size: Option<u64>) -> Result<Layout, String> {
        let text = std::fs::read_to_string(path).map_err(|e| e.to_string())?;
        let mut layout: Layout = toml::from_str(&text).map_err(|e| e.to_string())?;
        let dir = path.parent().unwrap_or(Path::new(""));
        for partition in &mut layout.partitions {
            for name in partition.files_mut() {
                *name = dir.join(&*name);
            }
        }
        layout.size = size.or(layout.size);
        layout.check()?;
        Ok(layout)
    }

    fn check(&self) -> Result<(), String> {
        let count = self.partitions.len();
        match count {
            0 => return Err("has no [[partition]]".into()),
            n if n > self.table.most() => {
                let (table, most) = (self.table, self.table.most());
                return Err(format!(
                    "{n} partitions: a table of this kind ({table:?}) has {most} at most"
                ));
            }
            _ => {}
        }
        let growing = self.partitions.iter().filter(|p| p.grow).count();
        match growing {
            0 => {}
            1 if self.size.is_some() => {}
            1 => return Err("grow takes a size of the disk".into()),
            _ => return Err("only one partition can grow".into()),
        }
        for (number, partition) in (1..).zip(&self.partitions) {
            partition
                .check(self.table)
                .map_err(|e| format!("partition {number}: {e}"))?;
        }
        Ok(())
    }
}

impl Partition {
    fn files_mut(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        let lists = [
            &mut self.layer,
            &mut self.metadata,
            &mut self.xattrs,
            &mut self.selinux,
        ];
        let one = [&mut self.source, &mut self.copy_blocks]
            .into_iter()
            .flatten();
        one.chain(lists.into_iter().flatten())
    }

    /// All that is read for it.
    pub fn files(&self) -> impl Iterator<Item = &PathBuf> {
        let lists = [&self.layer, &self.metadata, &self.xattrs, &self.selinux];
        let one = [&self.source, &self.copy_blocks].into_iter().flatten();
        one.chain(lists.into_iter().flatten())
    }

    /// Its type, which follows from what it holds if nobody says.
    pub fn purpose(&self) -> Purpose {
        let given = self.purpose.clone();
        given.unwrap_or_else(|| Purpose::of(self.fs.as_deref()))
    }

    /// What it holds, if that is files.
    pub fn kind(&self) -> Option<&str> {
        self.fs.as_deref().filter(|fs| *fs != "swap")
    }

    fn check(&self, table: Table) -> Result<(), String> {
        if !table.has(&self.purpose()) {
            return Err(format!("a table of kind {table:?} has no such type").to_lowercase());
        }
        let contents = self.source.is_some() || !self.layer.is_empty();
        let says = !self.metadata.is_empty() || !self.xattrs.is_empty();
        match () {
            () if self.fs.is_some() && self.copy_blocks.is_some() => {
                Err("copy-blocks brings its own file system: leave fs out".into())
            }
            () if self.kind().is_none() && (contents || says || !self.selinux.is_empty()) => {
                Err("files take a file system: add fs".into())
            }
            () if self.kind().is_none()
                && (self.compression.is_some()
                    || self.owner.is_some()
                    || self.reference.is_some()) =>
            {
                Err("compression, owner and ref are for files: add fs".into())
            }
            () if self.fs.is_none() && self.uuid.is_some() => {
                Err("uuid is that of a file system, and there is none: leave it out".into())
            }
            () if self.source.is_none() && !self.layer.is_empty() => {
                Err("layers lie on a source: add one".into())
            }
            () if self.size.is_none() && !self.grow && !contents && self.copy_blocks.is_none() => {
                Err("how large is it? Add size, or grow".into())
            }
            () => Ok(()),
        }
    }
}

/// As `--size` takes it, or a number of bytes.
fn size<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Size {
        Bytes(u64),
        Text(String),
    }
    match Size::deserialize(from)? {
        Size::Bytes(bytes) => Ok(Some(bytes)),
        Size::Text(text) => parse_size(&text)
            .map(Some)
            .map_err(serde::de::Error::custom),
    }
}

fn purpose<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Purpose>, D::Error> {
    let text = String::deserialize(from)?;
    Purpose::parse(&text)
        .map(Some)
        .map_err(serde::de::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Layout, String> {
        let layout: Layout = toml::from_str(text).map_err(|e| e.to_string())?;
        layout.check().map(|()| layout)
    }

    #[test]
    fn a_layout_says_what_lies_where() {
        let layout = read(
            "size = '1G'\n[[partition]]\ntype = 'esp'\nfs = 'vfat'\nsize = '64M'\n\
             [[partition]]\nfs = 'ext4'\nsource = 'root'\ngrow = true\n\
             [[partition]]\nfs = 'swap'\nsize = 1048576\n",
        )
        .unwrap();
        assert_eq!((layout.table, layout.size), (Table::Gpt, Some(1 << 30)));
        let sizes: Vec<_> = layout.partitions.iter().map(|p| p.size).collect();
        assert_eq!(sizes, [Some(64 << 20), None, Some(1 << 20)]);
        assert_eq!(
            layout.partitions[2].purpose(),
            Purpose::parse("swap").unwrap()
        );
    }

    #[test]
    fn a_layout_that_makes_no_sense_says_why() {
        for (text, why) in [
            ("", "no [[partition]]"),
            ("[[partition]]\nsize = '1M'\nsise = 2", "sise"),
            ("[[partition]]\nsize = '1X'", "1X"),
            ("[[partition]]\nfs = 'ext4'", "how large"),
            (
                "[[partition]]\nfs = 'ext4'\ngrow = true",
                "size of the disk",
            ),
            ("[[partition]]\nsource = 'x'\nsize = 1", "add fs"),
            ("[[partition]]\ntype = 'rot'\nsize = 1", "rot"),
            (
                "table = 'mbr'\n[[partition]]\ntype = 'bios'\nsize = 1",
                "no such type",
            ),
            (
                "[[partition]]\nfs = 'ext4'\ncopy-blocks = 'x'",
                "leave fs out",
            ),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
