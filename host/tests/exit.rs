//! exit(2) by a thread of the host's: its task ends, and the thread goes on.

mod common;

use common::{boot, syscall};

#[test]
fn a_thread_that_ends_its_task_gets_an_answer_and_has_none_any_more() {
    let k = boot();
    std::thread::scope(|scope| {
        for _ in 0..20 {
            let thread = scope.spawn(|| {
                assert_eq!(syscall(&k, libc::SYS_getpid, &[]), 1);
                assert_eq!(syscall(&k, libc::SYS_exit, &[3]), 0);
                for _ in 0..3 {
                    let answer = syscall(&k, libc::SYS_getpid, &[]);
                    assert_eq!(answer, -i64::from(libc::ESRCH));
                }
            });
            thread.join().expect("it ends");
            assert_eq!(syscall(&k, libc::SYS_getpid, &[]), 1);
        }
    });
    // As the first call of a thread, and of one that keeps its CPU.
    std::thread::scope(|scope| {
        scope.spawn(|| assert_eq!(syscall(&k, libc::SYS_exit, &[0]), 0));
        scope.spawn(|| {
            for _ in 0..5_000 {
                assert_eq!(syscall(&k, libc::SYS_getppid, &[]), 0);
            }
            assert_eq!(syscall(&k, libc::SYS_exit, &[0]), 0);
        });
    });
    assert_eq!(syscall(&k, libc::SYS_getpid, &[]), 1);
    assert!(k.is_alive());
}
