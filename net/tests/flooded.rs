//! A peer that floods the wire with what is no frame delays nobody.

use std::io::Write;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use tane_net::{Datagram, Packet, Port, Sent, Stream, Wire};

/// Longer than any busy machine takes to end a thread.
const PATIENCE: Duration = Duration::from_secs(60);

struct Card;

impl Port for Card {
    fn deliver(&self, _: &Packet) -> Sent {
        Sent::Done
    }

    fn room(&self) {}

    fn link(&self, _: bool) {}
}

/// Disconnects the wire while `flood` goes on, until it is told to end.
fn disconnects(wire: Arc<dyn Wire>, flood: impl FnOnce(&AtomicBool) + Send + 'static) {
    let card: Arc<dyn Port> = Arc::new(Card);
    wire.connect(Arc::downgrade(&card)).unwrap();
    let over = Arc::new(AtomicBool::new(false));
    let its = over.clone();
    let peer = thread::spawn(move || flood(&its));
    // The flood is under way.
    thread::sleep(Duration::from_millis(200));
    let (done, waits) = channel();
    thread::spawn(move || {
        wire.disconnect();
        done.send(()).ok();
    });
    let result = waits.recv_timeout(PATIENCE);
    over.store(true, Ordering::Relaxed);
    result.expect("the wire was not disconnected");
    peer.join().unwrap();
}

#[test]
fn runts_on_a_stream_delay_no_disconnecting() {
    let (ours, mut peer) = UnixStream::pair().unwrap();
    peer.set_nonblocking(true).unwrap();
    disconnects(Stream::new(ours).unwrap(), move |over| {
        let empty = [0; 64 << 10];
        // All zeros: lengths of empty frames, wherever a piece ends.
        while !over.load(Ordering::Relaxed) {
            if peer.write(&empty).is_err() {
                thread::yield_now();
            }
        }
    });
}

#[test]
fn runts_on_a_datagram_socket_delay_no_disconnecting() {
    let (ours, peer) = UnixDatagram::pair().unwrap();
    peer.set_nonblocking(true).unwrap();
    disconnects(Datagram::new(ours).unwrap(), move |over| {
        while !over.load(Ordering::Relaxed) {
            if peer.send(&[]).is_err() {
                thread::yield_now();
            }
        }
    });
}
