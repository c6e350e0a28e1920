//! The block device (virtio 1.2, 5.2).
//!
//! A notification runs inside the kernel's CPU and must not wait. What the
//! host's page cache can answer at once is answered there, which saves two
//! changes of thread per request; everything else goes to a pool.

use super::config::{self, CAPACITY, CONFIG_WCE, QUEUE_SIZE};
use super::counters::{count, Counters};
use super::request::{Disk, Failure, Request, Status, ID_SIZE, SECTOR};
use super::saved::SavedBlock;
use crate::pool::Pool;
use crate::virtio::{Attached, Device, Queue, Slot};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use tane_host::Saved;
use tane_images::Backend;

const VIRTIO_ID_BLOCK: u32 = 2;

/// How much one notification does by itself, inside the CPU. Handing a request
/// over costs what copying this much does, some 40 us; beyond it, others who
/// want the CPU would wait for nothing.
const INLINE_BYTES: usize = 256 << 10;
const INLINE_REQUESTS: usize = QUEUE_SIZE as usize;

/// How a disk shows itself.
#[derive(Clone, Debug)]
pub struct BlockOptions {
    /// At most 20 bytes, the rest is cut; the kernel shows it in
    /// /sys/block/*/serial.
    pub serial: String,
    /// Refuse writes, and say so.
    pub read_only: bool,
    /// The smallest unit of a transfer and of partition tables, in bytes: a power
    /// of two from 512 to 4096. None: what the backend says.
    pub sector_size: Option<u32>,
    /// The driver sees whole units of so many bytes, a power of two: behind the end of
    /// the backend are zeros.
    pub unit: u64,
    /// From 1 to 8.
    pub queues: u16,
    /// Most host threads that wait for storage at a time.
    pub threads: usize,
    /// Answer inside the notification what takes no waiting.
    pub inline: bool,
    /// Answer everything inside the notification, in the order in which it was
    /// asked, however long the storage takes: the driver sees the same in every
    /// run, and all else in its CPU waits.
    pub in_order: bool,
}

impl Default for BlockOptions {
    fn default() -> Self {
        Self {
            serial: String::new(),
            read_only: false,
            sector_size: None,
            unit: SECTOR,
            queues: 1,
            threads: 4,
            inline: true,
            in_order: false,
        }
    }
}

/// A disk.
pub struct Block {
    inner: Arc<Inner>,
    pool: Pool<Job>,
}

/// What the device and its threads share.
pub(super) struct Inner {
    pub backend: Arc<dyn Backend>,
    pub options: BlockOptions,
    serial: [u8; ID_SIZE],
    counters: Arc<Counters>,
    last_error: Mutex<Option<String>>,
    first_error: OnceLock<Arc<io::Error>>,
    pub lines: Vec<Mutex<Line>>,
    pub write_cache: AtomicBool,
}

/// A queue and what belongs to it. Locked for short moments only, never while
/// a thread waits for storage.
#[derive(Default)]
pub(super) struct Line {
    pub active: Option<Active>,
    /// Requests to be used again.
    free: Vec<Request>,
    /// Those of one notification that go to the pool.
    batch: Vec<Job>,
}

#[derive(Clone)]
pub(super) struct Active {
    queue: Queue,
    slot: Arc<Slot>,
    /// Features that decide when a write is durable.
    wce: bool,
    flush: bool,
    /// Nothing is popped any more: a reset, or a driver that broke the rules.
    closed: bool,
}

impl Active {
    /// Whether a write is answered only when it is durable (5.2.6.2).
    fn through(&self, inner: &Inner) -> bool {
        let cache = match self.wce {
            true => self.slot.config_byte(CONFIG_WCE) != 0,
            false => self.flush,
        };
        inner.write_cache.store(cache, Ordering::Relaxed);
        !cache
    }
}

struct Job {
    line: usize,
    request: Request,
    through: bool,
}

impl Block {
    /// A disk of these bytes, in no kernel yet.
    pub fn new(backend: Arc<dyn Backend>, mut options: BlockOptions) -> Arc<Self> {
        options.queues = options.queues.clamp(1, 8);
        options.unit = options.unit.max(SECTOR);
        options.read_only |= backend.read_only();
        let mut serial = [0; ID_SIZE];
        let len = options.serial.len().min(ID_SIZE);
        serial[..len].copy_from_slice(&options.serial.as_bytes()[..len]);
        let inner = Arc::new(Inner {
            backend,
            serial,
            counters: Counters::known(),
            last_error: Mutex::default(),
            first_error: OnceLock::new(),
            lines: (0..options.queues).map(|_| Mutex::default()).collect(),
            options,
            write_cache: AtomicBool::new(true),
        });
        let worker = inner.clone();
        let pool = Pool::new("tane-disk", inner.options.threads, move |job| {
            worker.work(job)
        });
        Arc::new(Self { inner, pool })
    }

    /// What it has done so far.
    pub fn counters(&self) -> &Counters {
        &self.inner.counters
    }

    /// What its bytes are.
    pub fn backend(&self) -> &Arc<dyn Backend> {
        &self.inner.backend
    }

    /// The latest error of the backend, which the driver knows as an I/O error.
    pub fn last_error(&self) -> Option<String> {
        let last = self.inner.last_error.lock();
        last.unwrap_or_else(|e| e.into_inner()).clone()
    }

    /// The first error of the backend, with its reason. The driver knows it as an
    /// I/O error: the protocol has no words for more.
    pub fn first_error(&self) -> Option<Arc<io::Error>> {
        self.inner.first_error.get().cloned()
    }

    /// The capacity as the configuration has it: in sectors, the last unit whole.
    pub fn capacity(&self) -> [u8; 8] {
        config::capacity(self.inner.backend.size(), &self.inner.options)
    }
}

impl Device for Block {
    fn id(&self) -> u32 {
        VIRTIO_ID_BLOCK
    }

    fn features(&self) -> u64 {
        config::features(self.inner.options.read_only)
    }

    fn config(&self) -> Vec<u8> {
        let backend = &*self.inner.backend;
        config::config(backend, &self.inner.options).to_vec()
    }

    fn queue_sizes(&self) -> Vec<u16> {
        vec![QUEUE_SIZE; self.inner.lines.len()]
    }

    fn activate(&self, features: u64, queues: Vec<Option<Queue>>, slot: Arc<Slot>) {
        if let Err(error) = self.pool.start() {
            self.inner.note(&error);
            return slot.needs_reset(true);
        }
        for (index, queue) in queues.into_iter().enumerate().take(self.inner.lines.len()) {
            self.inner.line(index).active = queue.map(|queue| Active {
                queue,
                slot: slot.clone(),
                wce: features & config::F_CONFIG_WCE != 0,
                flush: features & config::F_FLUSH != 0,
                closed: false,
            });
        }
    }

    fn notify(&self, index: usize) {
        if index >= self.inner.lines.len() {
            return;
        }
        let mut line = self.inner.line(index);
        let Line {
            active,
            free,
            batch,
        } = &mut *line;
        let Some(active) = active.as_mut().filter(|active| !active.closed) else {
            return;
        };
        let broken = self.inner.serve(index, active, free, batch);
        active.closed = broken;
        let wanted = active.queue.wants_interrupt();
        let slot = (wanted || broken).then(|| active.slot.clone());
        // Before the line is let go, so that a reset finds all there is.
        self.pool.submit(batch);
        drop(line);
        if let Some(slot) = slot {
            if wanted {
                slot.used(true);
            }
            if broken {
                slot.needs_reset(true);
            }
        }
    }

    fn is_busy(&self) -> bool {
        let is_busy = |index| {
            let line = self.inner.line(index);
            let active = line.active.as_ref();
            active.is_some_and(|active| active.queue.is_busy(active.closed))
        };
        (0..self.inner.lines.len()).any(is_busy)
    }

    fn reset(&self) {
        for index in 0..self.inner.lines.len() {
            if let Some(active) = &mut self.inner.line(index).active {
                active.closed = true;
            }
        }
        // What is under way is answered, and nothing new comes.
        self.pool.drain();
        for index in 0..self.inner.lines.len() {
            self.inner.line(index).active = None;
        }
    }

    fn save(&self) -> io::Result<Box<dyn Saved>> {
        SavedBlock::of(&self.inner)
    }

    fn stop(&self) {
        self.reset();
        self.pool.stop();
    }
}

impl Attached<Block> {
    /// The backend's size has changed: tell the driver.
    pub fn resized(&self) {
        self.change_config(CAPACITY, &self.device().capacity());
    }
}

impl Inner {
    pub fn line(&self, index: usize) -> MutexGuard<'_, Line> {
        self.lines[index].lock().unwrap_or_else(|e| e.into_inner())
    }

    fn disk(&self) -> Disk<'_> {
        Disk {
            backend: &*self.backend,
            read_only: self.options.read_only,
            unit: self.options.unit,
            serial: &self.serial,
        }
    }

    /// Take all there is in a queue: answer it, or put it into `batch`. Ends,
    /// however fast the driver adds more: after some requests it only collects,
    /// and a queue has but so many. `true`: the driver broke the rules.
    fn serve(
        &self,
        index: usize,
        active: &mut Active,
        free: &mut Vec<Request>,
        batch: &mut Vec<Job>,
    ) -> bool {
        let through = active.through(self);
        let mut bytes = INLINE_BYTES;
        let mut requests = if self.options.inline {
            INLINE_REQUESTS
        } else {
            0
        };
        loop {
            let mut request = free.pop().unwrap_or_default();
            match active.queue.pop(&mut request.chain) {
                Ok(true) => {}
                Ok(false) => {
                    free.push(request);
                    if active.queue.enable_notification() {
                        continue;
                    }
                    return false;
                }
                Err(broken) => {
                    free.push(request);
                    self.note(&broken);
                    return true;
                }
            }
            if !request.parse() {
                // Nowhere to put a status.
                count(&self.counters.errors);
                active.queue.push(request.chain.head, 0);
                free.push(request);
                continue;
            }
            self.counters.request(request.kind);
            let size = request.bytes();
            let now = match requests > 0 && size <= bytes {
                _ if self.options.in_order => Some(request.now(&self.disk(), through)),
                true => request.try_now(&self.disk(), through),
                false => None,
            };
            match now {
                Some(result) => {
                    requests = requests.saturating_sub(1);
                    bytes = bytes.saturating_sub(size);
                    count(&self.counters.at_once);
                    self.finish(&mut active.queue, &request, result);
                    free.push(request);
                }
                None => {
                    count(&self.counters.handed_over);
                    batch.push(Job {
                        line: index,
                        request,
                        through,
                    });
                }
            }
        }
    }

    /// What a thread of the pool does.
    fn work(&self, mut job: Job) {
        let result = job.request.now(&self.disk(), job.through);
        let mut line = self.line(job.line);
        let slot = line.active.as_mut().and_then(|active| {
            self.finish(&mut active.queue, &job.request, result);
            let wanted = active.queue.wants_interrupt();
            wanted.then(|| active.slot.clone())
        });
        line.free.push(job.request);
        drop(line);
        if let Some(slot) = slot {
            slot.used(false);
        }
    }

    fn finish(&self, queue: &mut Queue, request: &Request, result: Result<(), Failure>) {
        let status = match result {
            Ok(()) => Status::Ok,
            Err((status, error)) => {
                count(&self.counters.errors);
                if let Some(error) = error {
                    self.note(&error);
                    self.first_error.get_or_init(|| Arc::new(error));
                }
                status
            }
        };
        let written = request.answer(status);
        queue.push(request.chain.head, written);
    }

    fn note(&self, error: &dyn std::error::Error) {
        let mut last = self.last_error.lock().unwrap_or_else(|e| e.into_inner());
        *last = Some(error.to_string());
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        self.stop();
    }
}
