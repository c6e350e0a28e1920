//! A network device and a driver that does not stop.

mod rig;

use rig::memory::{Line, Ram, Registers};
use rig::ring::{into, out, Ring};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::thread::ThreadId;
use tane_devices::{Net, NetOptions, Transport};
use tane_host::abi;
use tane_net::{Header, Packet, Port, Sent, Wire};
use tane_test_support::eventually;

const SIZE: u16 = 64;
const TX: usize = 1;
const CONTROL: usize = 2;
/// What the driver adds, one for each that is taken.
const MORE: usize = 3_000;

/// For each packet that it gets the driver sends one more.
#[derive(Default)]
struct Greedy {
    ring: OnceLock<(Arc<Mutex<Ring>>, u64)>,
    sent: AtomicUsize,
    /// Packets that came by the thread that notifies.
    inside: AtomicUsize,
    notifier: OnceLock<ThreadId>,
}

impl Wire for Greedy {
    fn connect(&self, _port: Weak<dyn Port>) -> std::io::Result<()> {
        Ok(())
    }

    fn disconnect(&self) {}

    fn send(&self, packet: &Packet) -> Sent {
        assert_eq!(packet.len(), 60);
        if self.notifier.get() == Some(&std::thread::current().id()) {
            self.inside.fetch_add(1, SeqCst);
        }
        let (ring, frame) = self.ring.get().expect("it was set before");
        if self.sent.fetch_add(1, SeqCst) < MORE {
            let mut ring = ring.lock().unwrap();
            while ring.take().is_some() {}
            ring.add(&[out(*frame, Header::SIZE as u32 + 60)]);
        }
        Sent::Done
    }

    fn room(&self) {}
}

struct Guest {
    transport: Transport,
    rings: Vec<Arc<Mutex<Ring>>>,
    _registers: Registers,
    ram: Arc<Ram>,
}

impl Guest {
    fn new(wire: Arc<dyn Wire>) -> Self {
        let (ram, registers) = (Arc::new(Ram::new(1 << 18)), Registers::default());
        let net = Net::new(wire, NetOptions::default());
        let slot = registers.slot(Arc::new(Line::default()));
        let transport = Transport::new(net, slot, ram.guest());
        let r = registers.pointer();
        let mut rings = Vec::new();
        for index in 0..3 {
            let ring = Ring::new(ram.clone(), SIZE, true, true);
            // SAFETY: the registers are ours; the device looks at DRIVER_OK.
            unsafe {
                let queue = &mut (*r).queues[index];
                *queue = abi::VirtioQueue {
                    desc: ring.layout.desc.0.into(),
                    driver: ring.layout.driver.0.into(),
                    device: ring.layout.device.0.into(),
                    size: SIZE,
                    size_max: queue.size_max,
                    ready: 1,
                    pad: [0; 3],
                };
                (*r).driver_features = (*r).device_features;
            }
            rings.push(Arc::new(Mutex::new(ring)));
        }
        registers.set_status(15);
        transport.status();
        Self {
            transport,
            rings,
            _registers: registers,
            ram,
        }
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        // Threads must not outlive the memory.
        self.transport.stop();
    }
}

#[test]
fn a_driver_that_sends_more_and_more_keeps_no_notification_and_is_served() {
    let wire = Arc::new(Greedy::default());
    let guest = Guest::new(wire.clone());
    let frame = guest.ram.allocate(Header::SIZE + 60, 16);
    let ring = guest.rings[TX].clone();
    wire.notifier.set(std::thread::current().id()).unwrap();
    wire.ring.set((ring.clone(), frame)).ok().unwrap();
    for _ in 0..SIZE / 2 {
        let parts = [out(frame, Header::SIZE as u32 + 60)];
        ring.lock().unwrap().add(&parts);
    }
    guest.transport.notify(TX as u32);
    assert!(wire.inside.load(SeqCst) <= 2 * usize::from(SIZE));
    let all = MORE + usize::from(SIZE / 2);
    eventually("the rest is sent", || wire.sent.load(SeqCst) == all);
}

#[test]
fn commands_are_answered_however_many_there_are() {
    let guest = Guest::new(Arc::new(Greedy::default()));
    let command = guest.ram.allocate(3, 16);
    // Promiscuous mode: on.
    guest.ram.write(command, &[0, 0, 1]);
    let ring = &guest.rings[CONTROL];
    let mut answered = 0;
    for round in 0..200 {
        let mut answers = Vec::new();
        for _ in 0..round % 30 + 1 {
            let answer = guest.ram.allocate(1, 1);
            guest.ram.write(answer, &[0xee]);
            ring.lock()
                .unwrap()
                .add(&[out(command, 3), into(answer, 1)]);
            answers.push(answer);
        }
        let wanted = ring.lock().unwrap().must_notify();
        assert!(wanted, "round {round}");
        guest.transport.notify(CONTROL as u32);
        while ring.lock().unwrap().take().is_some() {
            answered += 1;
        }
        for answer in answers {
            assert_eq!(guest.ram.read(answer, 1), [0]);
        }
    }
    assert!(answered > 200);
}
