//! Thin volumes and their pools, by dm-thin.

use super::group::{damaged, has, Made, Segment};
use super::stack::{Part, Stack, Under};
use super::text::Value;
use super::{le32, le64};
use crate::error::Context;
use crate::volumes::Writes;

/// Of the pool's superblock: linux/drivers/md/dm-thin-metadata.c.
const MAGIC: u64 = 27_022_010;
const NEEDS_CHECK: u32 = 1;

impl Stack<'_> {
    pub(super) fn thin_pool(
        &mut self,
        volume: &Value,
        segment: &Segment,
        under: &mut Under,
    ) -> Made<(&'static str, String)> {
        let metadata = self.named(segment, "metadata", under)?;
        let data = self.named(segment, "pool", under)?;
        self.check(&metadata, segment, under)?;
        let mut features = Vec::new();
        if segment.text.number("zero_new_blocks").unwrap_or(0) == 0 {
            features.push("skip_block_zeroing");
        }
        match segment.text.text("discards") {
            Some("ignore") => features.push("ignore_discard"),
            Some("nopassdown") => features.push("no_discard_passdown"),
            _ => {}
        }
        if has(volume, "ERROR_WHEN_FULL") {
            features.push("error_if_no_space");
        }
        if self.writes == Writes::Refused {
            features.push("read_only");
        }
        let words = [
            metadata.device.display().to_string(),
            data.device.display().to_string(),
            segment.number("chunk_size")?.to_string(),
            "0".into(),
            features.len().to_string(),
            features.join(" "),
        ];
        Ok(("thin-pool", words.join(" ").trim_end().to_owned()))
    }

    /// Whether the pool's metadata is what the group takes it for.
    fn check(&self, metadata: &Part, segment: &Segment, under: &mut Under) -> Made<()> {
        let head = self.kernel.read_device(&metadata.device, 0, 64);
        let head = head.map_err(|errno| errno.on("read", &metadata.device).to_string())?;
        let transaction = le64(&head, 48).ok_or_else(damaged)?;
        if le64(&head, 32) == Some(MAGIC) && le32(&head, 4).is_some_and(|f| f & NEEDS_CHECK != 0) {
            let text = "its pool needs to be checked (thin_check) before it can be written";
            under.note.get_or_insert(text.into());
        }
        // An empty pool has no superblock yet: the kernel makes one.
        let expected = segment.text.number("transaction_id").unwrap_or(0);
        let is_other = le64(&head, 32) == Some(MAGIC) && transaction != expected;
        if is_other && self.writes == Writes::Last {
            return Err(format!(
                "its pool is at transaction {transaction} and LVM at {expected}: only reading \
                 is safe before LVM has repaired that"
            ));
        }
        Ok(())
    }

    pub(super) fn thin(
        &mut self,
        segment: &Segment,
        under: &mut Under,
    ) -> Made<(&'static str, String)> {
        let pool = self.named(segment, "thin_pool", under)?;
        let mut id = segment.number("device_id")?;
        if let Some(merged) = segment.text.text("merge") {
            // It becomes its snapshot when it is next used.
            let snapshot = self.group.volume(merged).ok_or_else(damaged)?;
            let segments = self.group.segments(snapshot)?;
            id = segments.first().ok_or_else(damaged)?.number("device_id")?;
        }
        let mut words = format!("{} {id}", pool.device.display());
        if segment.text.text("external_origin").is_some() {
            let origin = self.named(segment, "external_origin", under)?;
            words += &format!(" {}", origin.device.display());
        }
        Ok(("thin", words))
    }
}
