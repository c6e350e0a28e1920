//! Disks for a driver to drive, and what is on them.

use super::driver::Style;
use std::sync::Arc;
use tane_devices::BlockOptions;
use tane_images::{buffer_mut, Backend, Fault, Ram};

pub fn ram(size: u64) -> Arc<Ram> {
    Arc::new(Ram::new(size).unwrap())
}

pub fn fault() -> Arc<Fault> {
    Arc::new(Fault::logging(ram(1 << 20)))
}

pub fn pattern(len: usize, seed: u8) -> Vec<u8> {
    (0..len).map(|i| (i % 251) as u8 ^ seed).collect()
}

pub fn bytes(backend: &dyn Backend, offset: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    backend.read(&[buffer_mut(&mut bytes)], offset).unwrap();
    bytes
}

/// All ways to drive a queue, with and without inline answers, some or all.
pub fn every_style(test: impl Fn(BlockOptions, Style)) {
    for bits in 0..16 {
        let options = BlockOptions {
            inline: bits & 1 != 0,
            in_order: bits & 8 != 0,
            ..BlockOptions::default()
        };
        let style = Style {
            event_idx: bits & 2 != 0,
            indirect: bits & 4 != 0,
            ..Style::default()
        };
        test(options, style);
    }
}
