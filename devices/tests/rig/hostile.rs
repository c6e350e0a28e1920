//! A driver that writes garbage, drawn from random bytes. Whatever the
//! bytes are, the device comes back, stays inside guest memory and remembers no
//! more than its queue has entries.

use super::memory::{Line, Ram, Registers};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::Arc;
use tane_devices::{Block, BlockOptions, Chain, Device, Queue, QueueLayout, Transport};
use tane_host::{abi, Physical};
use tane_images::{total, Backend, Buffers};

const RAM: u64 = 1 << 14;

/// Takes numbers off the fuzzer's bytes; zeros when they are spent.
pub struct Bytes<'a>(pub &'a [u8]);

impl Bytes<'_> {
    pub fn number(&mut self) -> u16 {
        u16::from(self.byte()) | u16::from(self.byte()) << 8
    }

    pub fn byte(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().map_or((0, self.0), |(f, r)| (*f, r));
        self.0 = rest;
        first
    }
}

/// A disk that checks what it is handed, and touches all of it.
struct Checked {
    start: usize,
    end: usize,
}

impl Checked {
    fn check(&self, buffers: Buffers, offset: u64) {
        for buffer in buffers {
            let at = buffer.iov_base as usize;
            assert!(at >= self.start && at + buffer.iov_len <= self.end);
        }
        assert!(offset + total(buffers) as u64 <= self.size());
    }
}

impl Backend for Checked {
    fn size(&self) -> u64 {
        (1 << 20) + 100
    }
    fn read(&self, to: Buffers, offset: u64) -> std::io::Result<()> {
        self.check(to, offset);
        // Bounded, or a chain of many large buffers makes the fuzzer slow.
        let part = tane_images::slice(to, 0, total(to).min(1 << 16));
        // SAFETY: guest memory.
        unsafe { tane_images::clear(&part) };
        Ok(())
    }
    fn write(&self, from: Buffers, offset: u64) -> std::io::Result<()> {
        self.check(from, offset);
        let mut bytes = vec![0; total(from).min(1 << 16)];
        // SAFETY: guest memory.
        unsafe { tane_images::gather(from, &mut bytes) };
        Ok(())
    }
    fn flush(&self) -> std::io::Result<()> {
        Ok(())
    }
    fn discard(&self, offset: u64, len: u64) -> std::io::Result<()> {
        assert!(offset + len <= self.size());
        Ok(())
    }
    fn write_zeroes(&self, offset: u64, len: u64, _: bool) -> std::io::Result<()> {
        self.discard(offset, len)
    }
    fn try_read(&self, to: Buffers, offset: u64) -> std::io::Result<bool> {
        self.read(to, offset).map(|()| true)
    }
    fn try_write(&self, from: Buffers, offset: u64) -> std::io::Result<bool> {
        self.write(from, offset).map(|()| true)
    }
}

fn layout(bytes: &mut Bytes) -> QueueLayout {
    let flags = bytes.byte();
    // Mostly near valid places, so that more than the first check is reached.
    let mut place = |usual: u64| match bytes.byte() {
        0..=223 => usual,
        224..=239 => u64::from(bytes.number()),
        240..=247 => RAM - u64::from(bytes.byte()),
        _ => u64::MAX - u64::from(bytes.number()),
    };
    let (desc, driver, device) = (place(0), place(0x200), place(0x300));
    let size = match bytes.byte() {
        wild @ 240.. => u16::from(wild) * 251,
        n => 1 << (n % 6),
    };
    QueueLayout {
        desc: Physical(desc),
        driver: Physical(driver),
        device: Physical(device),
        size,
        event_idx: flags & 1 != 0,
        indirect: flags & 2 != 0,
    }
}

/// Put descriptors and the available ring where the queue looks for them. Most
/// fields are small, so that chains link up.
fn garbage(ram: &Ram, bytes: &mut Bytes) {
    for entry in 0..32 {
        if bytes.0.is_empty() {
            break;
        }
        let at = 16 * entry;
        let (pa, len, flags) = (bytes.number(), bytes.number(), bytes.byte());
        let pa = match flags >> 6 {
            3 => u64::MAX << 16 | u64::from(pa),
            _ => u64::from(pa) % RAM,
        };
        let len = match flags >> 4 & 3 {
            3 => u32::from(len) << 16,
            2 => u32::from(len) & !15,
            _ => u32::from(len) % 600,
        };
        ram.write(at, &pa.to_le_bytes());
        ram.write(at + 8, &len.to_le_bytes());
        ram.write(at + 12, &[flags & 7, 0]);
        ram.write(at + 14, &[bytes.byte() % 40, 0]);
    }
    for at in 0x204..0x250 {
        ram.write(at, &[bytes.byte() % 33]);
    }
    for at in (0x400..RAM).step_by(16) {
        // Request headers, wherever an address points.
        let header = [bytes.byte() % 16, 0, 0, 0, 0, 0, 0, 0, bytes.byte()];
        ram.write(at, &header);
        if bytes.0.is_empty() {
            break;
        }
    }
}

/// The queue alone.
pub fn virtqueue(data: &[u8]) {
    let mut bytes = Bytes(data);
    let ram = Ram::new(RAM as usize);
    let memory = ram.guest();
    let layout = layout(&mut bytes);
    garbage(&ram, &mut bytes);
    let Ok(mut queue) = Queue::new(memory, layout) else {
        return;
    };
    let start = memory.pointer(Physical(0), RAM).unwrap() as usize;
    let mut chain = Chain::default();
    let mut heads = Vec::new();
    for _ in 0..64 {
        // The available index jumps as it likes.
        let step = u16::from(bytes.byte() % 5);
        let index = ram.u16(layout.driver + 2);
        index.store(index.load(Relaxed).wrapping_add(step), Relaxed);
        for _ in 0..100 {
            match queue.pop(&mut chain) {
                Ok(true) => {
                    for buffer in chain.readable.iter().chain(&chain.writable) {
                        let at = buffer.iov_base as usize;
                        assert!(at >= start && at + buffer.iov_len <= start + RAM as usize);
                    }
                    assert!(total(&chain.readable) + total(&chain.writable) <= u32::MAX as usize);
                    heads.push(chain.head);
                }
                Ok(false) => {
                    queue.enable_notification();
                    break;
                }
                Err(_) => break,
            }
        }
        assert!(heads.len() <= usize::from(layout.size));
        if bytes.byte() % 2 == 0 {
            for head in heads.drain(..) {
                queue.push(head, 1);
            }
            queue.wants_interrupt();
        }
    }
}

/// The whole block device, on memory that changes under its hands.
pub fn block(data: &[u8]) {
    let mut bytes = Bytes(data);
    let ram = Ram::new(RAM as usize);
    let (line, registers) = (Arc::new(Line::default()), Registers::default());
    let start = ram.guest().pointer(Physical(0), RAM).unwrap() as usize;
    let disk = Checked {
        start,
        end: start + RAM as usize,
    };
    let options = BlockOptions {
        inline: bytes.byte() % 4 != 0,
        ..BlockOptions::default()
    };
    let device = Block::new(Arc::new(disk), options);
    let transport = Transport::new(device.clone(), registers.slot(line), ram.guest());
    let layout = layout(&mut bytes);
    garbage(&ram, &mut bytes);
    // SAFETY: the device looks at them at DRIVER_OK.
    unsafe {
        let r = registers.pointer();
        (*r).driver_features = u64::MAX;
        (*r).queues[0] = abi::VirtioQueue {
            desc: layout.desc.0.into(),
            driver: layout.driver.0.into(),
            device: layout.device.0.into(),
            size: layout.size,
            size_max: 256,
            ready: 1,
            pad: [0; 3],
        };
    }
    registers.set_status(15);
    transport.status();
    for turn in 0..8 {
        let at = 0x202 + u64::from(bytes.byte() & 1) * 2;
        ram.write(at, &[turn * (bytes.byte() % 8)]);
        transport.notify(u32::from(bytes.byte() % 3 / 2));
        garbage(&ram, &mut bytes);
    }
    registers.set_status(0);
    transport.status();
    let counters = device.counters();
    let seen = counters.at_once.load(Relaxed) + counters.handed_over.load(Relaxed);
    assert!(seen <= 1 << 16, "the driver got more than a queue's worth");
    device.stop();
}
