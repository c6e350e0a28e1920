//! The network device (virtio 1.2, 5.1).
//!
//! A notification runs inside the kernel's CPU and must not wait: packets go to the wire
//! from there, by the thread that sends them. What comes is put into the driver's
//! buffers by the wire's thread or, of a pair, by the sender's.
//!
//! Locks: a queue's own; of a pair the sender's first, then the receiver's. So nothing
//! is sent, and no wire called, with the queue of what comes held.

use super::config::{self, Mac, NetOptions, ANNOUNCE, CONTROL_SIZE, LINK_UP, QUEUE_SIZE, STATUS};
use super::control::{self, Command};
use super::counters::NetCounters;
use super::receive::Receive;
use super::transmit::{After, Transmit};
use crate::pool::Pool;
use crate::virtio::{Chain, Device, Queue, Slot};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, Weak};
use std::time::Duration;
use tane_net::{Packet, Port, Sent, Wire};

const VIRTIO_ID_NET: u32 = 1;
const RX: usize = 0;
const TX: usize = 1;
const CONTROL: usize = 2;

/// A peer that takes nothing for so long stands still. Longer than a busy host keeps a
/// thread waiting, shorter than Linux waits for its queue (5 s).
const PATIENCE: Duration = Duration::from_millis(500);

/// A network interface card.
pub struct Net {
    inner: Arc<Inner>,
}

struct Inner {
    wire: Arc<dyn Wire>,
    options: NetOptions,
    mac: Mac,
    counters: NetCounters,
    receive: Mutex<Option<Receive>>,
    transmit: Mutex<Option<Transmit>>,
    control: Mutex<Option<(Queue, Arc<Slot>)>>,
    state: Mutex<State>,
    /// Who watches is told to end.
    ending: (Mutex<bool>, Condvar),
    last_error: Mutex<Option<String>>,
    /// Does what a notification cannot wait for.
    later: Pool<Job>,
    watching: AtomicBool,
}

enum Job {
    /// Watch a peer that put off what is sent, when so many packets had gone.
    Watch(u64),
    /// Send what a driver added faster than it was sent.
    Send,
    /// Do what it commands as fast.
    Control,
}

/// One watches, the other works.
const THREADS: usize = 2;

/// What the configuration's status says, and where.
#[derive(Default)]
struct State {
    status: u16,
    slot: Option<Arc<Slot>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|e| e.into_inner())
}

impl Net {
    /// A device at the end of this wire, in no kernel yet.
    pub fn new(wire: Arc<dyn Wire>, mut options: NetOptions) -> Arc<Self> {
        options.mtu = options.mtu.max(68);
        let inner = Arc::new_cyclic(|weak: &Weak<Inner>| Inner {
            later: later(weak.clone()),
            watching: AtomicBool::new(false),
            mac: options.mac.unwrap_or_else(Mac::generated),
            wire,
            options,
            counters: NetCounters::default(),
            receive: Mutex::default(),
            transmit: Mutex::default(),
            control: Mutex::default(),
            state: Mutex::default(),
            ending: Default::default(),
            last_error: Mutex::default(),
        });
        Arc::new(Self { inner })
    }

    /// What it has done so far.
    pub fn counters(&self) -> &NetCounters {
        &self.inner.counters
    }

    /// Its address, as it was made.
    pub fn mac(&self) -> Mac {
        self.inner.mac
    }

    /// What is at the other end.
    pub fn wire(&self) -> &Arc<dyn Wire> {
        &self.inner.wire
    }

    /// Whether somebody is at the other end.
    pub fn link_is_up(&self) -> bool {
        lock(&self.inner.state).status & LINK_UP != 0
    }

    /// Have the driver tell the network where it is (gratuitous ARP and the like), as
    /// after a move.
    pub fn announce(&self) {
        self.inner.set_status(ANNOUNCE, true);
    }

    /// What the driver or the wire got wrong last.
    pub fn last_error(&self) -> Option<String> {
        lock(&self.inner.last_error).clone()
    }
}

fn later(device: Weak<Inner>) -> Pool<Job> {
    Pool::new("tane-net-later", THREADS, move |job| {
        let Some(device) = device.upgrade() else {
            return;
        };
        match job {
            Job::Watch(progress) => device.watch(progress),
            Job::Send => device.send_again(|_| ()),
            Job::Control => device.control(false),
        }
    })
}

impl Device for Net {
    fn id(&self) -> u32 {
        VIRTIO_ID_NET
    }

    fn features(&self) -> u64 {
        config::features(&self.inner.options)
    }

    fn config(&self) -> Vec<u8> {
        let status = lock(&self.inner.state).status;
        config::config(self.inner.mac, status, self.inner.options.mtu).to_vec()
    }

    fn queue_sizes(&self) -> Vec<u16> {
        vec![QUEUE_SIZE, QUEUE_SIZE, CONTROL_SIZE]
    }

    fn activate(&self, features: u64, queues: Vec<Option<Queue>>, slot: Arc<Slot>) {
        let inner = &self.inner;
        if let Err(error) = inner.later.start() {
            inner.note(&error);
            return slot.needs_reset(true);
        }
        *lock(&inner.ending.0) = false;
        let mut queues = queues.into_iter();
        let mut next = || queues.next().flatten();
        *lock(&inner.receive) =
            next().map(|queue| Receive::new(queue, slot.clone(), features, inner.mac));
        *lock(&inner.transmit) = next().map(|queue| Transmit::new(queue, slot.clone()));
        *lock(&inner.control) = next().map(|queue| (queue, slot.clone()));
        lock(&inner.state).slot = Some(slot.clone());
        let port: Arc<dyn Port> = inner.clone();
        if let Err(error) = inner.wire.connect(Arc::downgrade(&port)) {
            inner.note(&error);
            slot.needs_reset(true);
        }
    }

    fn notify(&self, index: usize) {
        match index {
            RX => {
                let mut receive = lock(&self.inner.receive);
                let waited_for = receive.as_mut().is_some_and(Receive::refilled);
                drop(receive);
                if waited_for {
                    self.inner.wire.room();
                }
            }
            TX => {
                let mut transmit = lock(&self.inner.transmit);
                let Some(transmit) = transmit.as_mut() else {
                    return;
                };
                let after = transmit.send(&*self.inner.wire, &self.inner.counters);
                self.inner.finish(after, true);
            }
            CONTROL => self.inner.control(true),
            _ => {}
        }
    }

    fn is_busy(&self) -> bool {
        lock(&self.inner.transmit)
            .as_ref()
            .is_some_and(Transmit::is_busy)
            || lock(&self.inner.receive)
                .as_ref()
                .is_some_and(Receive::is_busy)
    }

    fn reset(&self) {
        let inner = &self.inner;
        *lock(&inner.ending.0) = true;
        inner.ending.1.notify_all();
        *lock(&inner.receive) = None;
        *lock(&inner.transmit) = None;
        *lock(&inner.control) = None;
        lock(&inner.state).slot = None;
        inner.wire.disconnect();
        inner.later.drain();
    }

    fn stop(&self) {
        self.reset();
        self.inner.later.stop();
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Port for Inner {
    fn deliver(&self, packet: &Packet) -> Sent {
        let mut receive = lock(&self.receive);
        let receive = receive.as_mut();
        receive.map_or(Sent::Dropped, |receive| {
            receive.deliver(packet, &self.counters)
        })
    }

    fn room(&self) {
        self.send_again(Transmit::room);
    }

    fn link(&self, up: bool) {
        self.set_status(LINK_UP, up);
    }
}

impl Inner {
    /// The wire may take what it put off.
    fn send_again(&self, prepare: impl FnOnce(&mut Transmit)) {
        let mut transmit = lock(&self.transmit);
        if let Some(transmit) = transmit.as_mut() {
            prepare(transmit);
            let after = transmit.send(&*self.wire, &self.counters);
            self.finish(after, false);
        }
    }

    fn finish(&self, after: After, inside: bool) {
        if let Some(slot) = after.interrupt {
            slot.used(inside);
        }
        if let Some((slot, broken)) = after.broken {
            self.note(&broken);
            slot.needs_reset(inside);
        }
        if after.more {
            self.later.submit(&mut vec![Job::Send]);
        }
        if let Some(progress) = after.watch {
            if !self.watching.swap(true, Ordering::SeqCst) {
                self.later.submit(&mut vec![Job::Watch(progress)]);
            }
        }
    }

    /// Something was put off when so many packets had been taken: see that it does not
    /// wait for ever.
    fn watch(&self, mut progress: u64) {
        loop {
            let ending = lock(&self.ending.0);
            let waited = self
                .ending
                .1
                .wait_timeout_while(ending, PATIENCE, |ending| !*ending);
            // Before looking: what is put off from now on is seen, or watched anew.
            self.watching.store(false, Ordering::SeqCst);
            if *waited.unwrap_or_else(|e| e.into_inner()).0 {
                return;
            }
            let stalled = lock(&self.transmit).as_ref().and_then(Transmit::stalled);
            match stalled {
                None => return,
                Some(now) if now != progress => {
                    progress = now;
                    self.watching.store(true, Ordering::SeqCst);
                }
                Some(_) => {
                    self.send_again(|transmit| transmit.give_up(progress));
                    return;
                }
            }
        }
    }

    fn control(&self, inside: bool) {
        let mut control = lock(&self.control);
        let Some((queue, slot)) = control.as_mut() else {
            return;
        };
        let result = control::serve(queue, &mut Chain::default(), |command| {
            self.command(command)
        });
        if queue.wants_interrupt() {
            slot.used(inside);
        }
        match result {
            Ok(true) => self.later.submit(&mut vec![Job::Control]),
            Ok(false) => {}
            Err(broken) => {
                self.note(&broken);
                slot.needs_reset(inside);
                *control = None;
            }
        }
    }

    fn command(&self, command: Command) -> bool {
        if command == Command::Announced {
            self.set_status(ANNOUNCE, false);
            return true;
        }
        let mut receive = lock(&self.receive);
        let Some(receive) = receive.as_mut() else {
            return false;
        };
        match command {
            Command::Promiscuous(yes) => receive.filter.set_promiscuous(yes),
            Command::AllGroups(yes) => receive.filter.set_all_groups(yes),
            Command::Tables(bytes) => return receive.filter.set_tables(bytes),
            Command::Mac(mac) => receive.filter.set_mac(mac),
            Command::Offloads(bits) => {
                if bits & !config::features(&self.options) != 0 {
                    return false;
                }
                receive.set_offloads(bits);
            }
            Command::Announced => {}
        }
        true
    }

    fn set_status(&self, bit: u16, on: bool) {
        let mut state = lock(&self.state);
        let before = state.status;
        match on {
            true => state.status |= bit,
            false => state.status &= !bit,
        }
        if state.status != before {
            if let Some(slot) = &state.slot {
                slot.change_config(STATUS, &state.status.to_le_bytes());
            }
        }
    }

    fn note(&self, error: &dyn std::error::Error) {
        *lock(&self.last_error) = Some(error.to_string());
    }
}
