//! The process that serves an image; started by the library, not by people.

fn main() {
    tane_worker::serve()
}
