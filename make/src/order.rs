//! What whoever fills a new file system has to know of it, in this process or in another.

use crate::means::Wanted;

/// A file system that is empty yet, where it is, and the Linux that is to fill it.
#[derive(Clone, Debug)]
pub struct Order {
    /// What Linux calls it.
    pub kind: String,
    /// Its first byte in the file.
    pub start: u64,
    /// In bytes.
    pub size: u64,
    /// Bytes of a sector of the disk, if that is not 512.
    pub sector_size: Option<u32>,
    /// Options of the mount, as mount(8) takes them.
    pub options: Option<String>,
    /// The kernel.
    pub wanted: Wanted,
}

impl Order {
    /// For another process.
    pub fn to_bytes(&self) -> Vec<u8> {
        let Wanted {
            time,
            seed,
            plain,
            working_set,
        } = self.wanted;
        let sector = u64::from(self.sector_size.unwrap_or(0));
        let numbers = [
            self.start,
            self.size,
            sector,
            time,
            seed,
            plain.into(),
            working_set,
        ];
        let mut bytes: Vec<u8> = numbers.iter().flat_map(|n| n.to_le_bytes()).collect();
        bytes.extend_from_slice(self.kind.as_bytes());
        if let Some(options) = &self.options {
            bytes.push(0);
            bytes.extend_from_slice(options.as_bytes());
        }
        bytes
    }

    /// What [`Self::to_bytes`] made.
    pub fn of_bytes(bytes: &[u8]) -> Option<Order> {
        const NUMBERS: usize = 7;
        let (numbers, words) = bytes.split_at_checked(NUMBERS * size_of::<u64>())?;
        let mut numbers = numbers.chunks_exact(size_of::<u64>());
        let mut number = || Some(u64::from_le_bytes(numbers.next()?.try_into().ok()?));
        let mut words = words.splitn(2, |b| *b == 0);
        let mut word = || {
            words
                .next()
                .map(|w| String::from_utf8_lossy(w).into_owned())
        };
        Some(Order {
            start: number()?,
            size: number()?,
            sector_size: u32::try_from(number()?).ok().filter(|bytes| *bytes > 0),
            wanted: Wanted {
                time: number()?,
                seed: number()?,
                plain: number()? != 0,
                working_set: number()?,
            },
            kind: word()?,
            options: word(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_is_the_same_in_another_process_and_no_other_bytes_are_one() {
        for (sector_size, options) in [(None, None), (Some(4096), Some("discard".to_owned()))] {
            let order = Order {
                kind: "btrfs".into(),
                start: 1 << 20,
                size: u64::MAX,
                sector_size,
                options,
                wanted: Wanted {
                    time: 1_700_000_000,
                    seed: 7,
                    plain: false,
                    working_set: 5,
                },
            };
            let bytes = order.to_bytes();
            let again = Order::of_bytes(&bytes).expect("an order");
            assert_eq!(format!("{order:?}"), format!("{again:?}"));
            assert!(Order::of_bytes(&bytes[..55]).is_none());
        }
    }
}
