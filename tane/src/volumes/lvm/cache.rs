//! Volumes with a faster one before them, dm-cache and dm-writecache, and those with
//! a checksum of each sector, dm-integrity.

use super::group::{damaged, Made, Segment};
use super::stack::{Part, Stack, Under};
use super::text::Value;
use crate::volumes::Writes;

type Pair = (&'static str, String);

impl Stack<'_> {
    pub(super) fn cache(&mut self, segment: &Segment, under: &mut Under) -> Made<Pair> {
        let origin = self.named(segment, "origin", under)?;
        let name = segment.text("cache_pool")?;
        let group = self.group;
        let pool = group.segments(group.volume(name).ok_or_else(damaged)?)?;
        let pool = pool.into_iter().next().ok_or_else(damaged)?;
        // A cache of one volume says how it is used where it is used.
        let is_pool = pool.kind == "cache-pool";
        let settings = if is_pool { &pool } else { segment };
        let cleaner = segment.text.number("cleaner") == Some(1);
        let mode = match settings.text.text("cache_mode") {
            _ if cleaner => "writethrough",
            Some(mode @ ("writeback" | "passthrough")) => mode,
            _ => "writethrough",
        };
        let whole = || Ok(("linear", format!("{} 0", origin.device.display())));
        // All is in the origin then, unless the cache is being emptied; and reading
        // through the cache would copy into it.
        if mode == "writethrough" && !cleaner && self.writes != Writes::Last {
            return whole();
        }
        let (metadata, data) = match self.cache_parts(segment, &pool, is_pool, name) {
            Ok(parts) => parts,
            Err(why) if mode == "writeback" || cleaner => {
                return Err(format!("its cache has what it lacks: {why}"))
            }
            Err(why) => return Err(format!("{why}; without its cache it is only read")),
        };
        under.add(&metadata.under);
        under.add(&data.under);
        if self.writes == Writes::Refused {
            return Err("a cache needs a disk that can be written, or a snapshot of one".into());
        }
        let mut features = vec![mode];
        if settings.text.number("metadata_format") == Some(2) {
            features.insert(0, "metadata2");
        }
        let policy = match settings.text.text("policy") {
            _ if cleaner => "cleaner",
            // What mq was is smq today.
            Some("mq") | None => "smq",
            Some(policy) => word(policy)?,
        };
        let mut arguments = Vec::new();
        if let Some(Value::Section(_)) = settings.text.get("policy_settings") {
            let threshold = settings.text.number("policy_settings/migration_threshold");
            arguments.extend(threshold.map(|n| format!("migration_threshold {n}")));
        }
        let words = [
            metadata.device.display().to_string(),
            data.device.display().to_string(),
            origin.device.display().to_string(),
            settings.number("chunk_size")?.to_string(),
            features.len().to_string(),
            features.join(" "),
            policy.into(),
            (2 * arguments.len()).to_string(),
            arguments.join(" "),
        ];
        Ok(("cache", words.join(" ").trim_end().to_owned()))
    }

    /// Where a cache keeps its metadata, and the data.
    fn cache_parts(
        &mut self,
        segment: &Segment,
        pool: &Segment,
        is_pool: bool,
        name: &str,
    ) -> Made<(Part, Part)> {
        if is_pool {
            let metadata = self.part(pool.text("metadata")?)?;
            return Ok((metadata, self.part(pool.text("data")?)?));
        }
        let whole = self.part(name)?;
        let mut piece = |what: &str| {
            let start = segment.number(&format!("{what}_start"))?;
            self.piece(&whole, start, segment.number(&format!("{what}_len"))?)
        };
        Ok((piece("metadata")?, piece("data")?))
    }

    pub(super) fn write_cache(&mut self, segment: &Segment, under: &mut Under) -> Made<Pair> {
        let origin = self.named(segment, "origin", under)?;
        let cache = self.named(segment, "writecache", under)?;
        let mut options = Vec::new();
        match self.writes {
            Writes::Last => {
                let known = [
                    "high_watermark",
                    "low_watermark",
                    "writeback_jobs",
                    "autocommit_blocks",
                    "autocommit_time",
                    "max_age",
                    "pause_writeback",
                ];
                for name in known {
                    let number = segment.text.number(name);
                    options.extend(number.map(|n| format!("{name} {n}")));
                }
                let flags = ["fua", "nofua", "cleaner", "metadata_only"];
                let is_set = |name: &&&str| segment.text.number(name) == Some(1);
                options.extend(flags.iter().filter(is_set).map(|name| name.to_string()));
            }
            // What is in the cache may stay there.
            Writes::Forgotten => {
                options.push("high_watermark 100".into());
                options.push("low_watermark 100".into());
            }
            Writes::Refused => {
                return Err("a cache needs a disk that can be written, or a snapshot of one".into())
            }
        }
        let options = options.join(" ");
        let block = match segment.number("writecache_block_size")? {
            0 => 4096,
            size => size,
        };
        let count = options.split_whitespace().count();
        let (origin, cache) = (origin.device.display(), cache.device.display());
        let words = format!("s {origin} {cache} {block} {count} {options}");
        Ok(("writecache", words.trim_end().to_owned()))
    }

    pub(super) fn integrity(&mut self, segment: &Segment, under: &mut Under) -> Made<Pair> {
        let origin = self.named(segment, "origin", under)?;
        let mut options = vec![
            "fix_padding".to_owned(),
            format!("block_size:{}", segment.number("block_size")?),
            format!("internal_hash:{}", word(segment.text("internal_hash")?)?),
        ];
        if segment.text.text("meta_dev").is_some() {
            let metadata = self.named(segment, "meta_dev", under)?;
            options.push(format!("meta_device:{}", metadata.device.display()));
        }
        if segment.text.number("recalculate") == Some(1) {
            options.push("recalculate".into());
        }
        for name in [
            "journal_sectors",
            "interleave_sectors",
            "buffer_sectors",
            "journal_watermark",
            "commit_time",
            "bitmap_flush_interval",
            "sectors_per_bit",
        ] {
            let number = segment.text.number(name);
            options.extend(number.map(|n| format!("{name}:{n}")));
        }
        if segment.text.number("allow_discards") == Some(1) {
            options.push("allow_discards".into());
        }
        let mode = match self.writes {
            Writes::Refused => "R",
            _ => word(segment.text("mode")?)?,
        };
        let (device, tag) = (origin.device.display(), segment.number("tag_size")?);
        let (count, options) = (options.len(), options.join(" "));
        let words = format!("{device} 0 {tag} {mode} {count} {options}");
        Ok(("integrity", words))
    }
}

/// A text that becomes a word of a line for the kernel.
fn word(text: &str) -> Made<&str> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-_".contains(&b);
    match !text.is_empty() && text.bytes().all(plain) {
        true => Ok(text),
        false => Err(damaged()),
    }
}
