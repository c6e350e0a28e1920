//! Whatever a driver writes, a disk neither hangs nor leaves guest memory: the
//! whole way from registers to backend, on bytes that proptest draws.

mod rig;

use proptest::collection::vec;
use proptest::prelude::*;
use rig::hostile;

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 8 } else { 1000 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn garbage_in_a_queue_is_an_error_and_nothing_else(data in vec(any::<u8>(), 0..600)) {
        hostile::virtqueue(&data);
    }

    #[test]
    fn garbage_in_a_disks_queue_is_an_error_and_nothing_else(data in vec(any::<u8>(), 0..600)) {
        hostile::block(&data);
    }
}
