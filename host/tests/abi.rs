//! abi.rs mirrors asm/host.h: the compiler says what the header means.

use std::fmt::Write;
use std::mem::offset_of;
use std::process::Command;
use tane_host::abi;

macro_rules! fields {
    ($out:ident, $c:literal, $rust:ty, [$($name:ident $(= $c_name:literal)?),* $(,)?]) => {
        writeln!($out, "_Static_assert(sizeof(struct {}) == {}, \"{}\");",
            $c, size_of::<$rust>(), $c).unwrap();
        $(
            #[allow(unused_mut, unused_assignments)]
            let mut name = stringify!($name);
            $(name = $c_name;)?
            writeln!($out, "_Static_assert(offsetof(struct {}, {}) == {}, \"{}.{}\");",
                $c, name, offset_of!($rust, $name), $c, name).unwrap();
        )*
    };
}

#[test]
fn the_rust_structures_are_those_of_the_header() {
    // By its path: beside it lie headers that would shadow the system's.
    let header = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../kernel/arch/tane/include/uapi/asm/host.h"
    );
    let mut c = format!("#include <stddef.h>\n#include \"{header}\"\n");
    fields!(
        c,
        "tane_vcpu",
        abi::Vcpu,
        [
            self_ = "self",
            pending,
            bias,
            kicks,
            irq_enabled,
            kernel_sp,
            host_sp,
            switches,
            current_task,
            lock,
            cpu,
            holder,
            online,
            percpu_offset,
            requests,
            deadline,
            sleep_until,
            in_user,
            kick,
            streak,
            regular,
            biased_at,
            patience,
            relaxed,
            spinners,
            waiters,
            program,
            caller,
            window,
        ]
    );
    fields!(
        c,
        "tane_thread",
        abi::Thread,
        [state, vcpu, task, next, nr, args, ret, sleeping, spin, owner, inside, program]
    );
    fields!(
        c,
        "tane_caller",
        abi::Caller,
        [self_ = "self", slot, stack, serve, saved, regs, xsave]
    );
    fields!(
        c,
        "tane_ops",
        abi::Ops,
        [
            magic,
            version,
            size,
            host,
            monotonic,
            realtime,
            random,
            map,
            unmap,
            discard,
            kick,
            yield_ = "yield",
            wake,
            log,
            die,
            notify,
            call_in,
            new_thread,
            stop,
        ]
    );
    fields!(
        c,
        "tane_program",
        abi::Program,
        [regs, fs_base, xstate, xfeatures, xstate_size, tid, ran]
    );
    fields!(
        c,
        "tane_boot",
        abi::Boot,
        [
            magic,
            version,
            size,
            base,
            ram_size,
            vmalloc_start,
            vmalloc_end,
            user_start,
            user_end,
            shown_start,
            shown_end,
            program_start,
            program_end,
            nr_vcpus,
            randomised,
            vcpus,
            init_thread,
            virtio,
            ops,
            cmdline,
        ]
    );
    fields!(c, "tane_exit", abi::Exit, [ret, reason]);
    fields!(
        c,
        "tane_image",
        abi::ImageHeader,
        [
            magic,
            version,
            size,
            vcpu_size,
            thread_size,
            ops_size,
            boot_size,
            virtio_size,
            smp,
            text_start,
            text_end,
            rodata_end,
            data_end,
            image_end,
            rela_start,
            rela_end,
            start,
            call,
            enter,
            trap_fault,
            trap_invalid,
            trap_interrupt,
            banner,
            extable_start,
            extable_end,
            struct_page_size,
            program,
            program_left,
        ]
    );
    fields!(
        c,
        "tane_virtio_queue",
        abi::VirtioQueue,
        [desc, driver, device, size, size_max, ready]
    );
    fields!(
        c,
        "tane_virtio",
        abi::Virtio,
        [
            state,
            device_id,
            status,
            isr,
            device_features,
            driver_features,
            config_generation,
            config_size,
            nr_queues,
            error,
            config,
            queues,
        ]
    );
    for (name, value) in [
        ("TANE_ABI_MAGIC", abi::MAGIC),
        ("TANE_ABI_VERSION", abi::VERSION.into()),
        ("TANE_MAX_VCPUS", abi::MAX_VCPUS as u64),
        ("TANE_VCPU_SIZE", abi::VCPU_SIZE as u64),
        ("TANE_WINDOW_SIZE", abi::WINDOW_SIZE),
        ("TANE_MAX_DEVICES", abi::MAX_DEVICES as u64),
        ("TANE_MAX_QUEUES", abi::MAX_QUEUES as u64),
        ("TANE_IRQ_HOTPLUG", abi::IRQ_HOTPLUG.into()),
        ("TANE_IRQ_STOP", abi::IRQ_STOP.into()),
        ("TANE_IRQ_DEVICE(0)", abi::IRQ_DEVICE0.into()),
        ("TANE_THREAD_POSTED", abi::THREAD_POSTED.into()),
        ("TANE_THREAD_DONE", abi::THREAD_DONE.into()),
        ("TANE_THREAD_LINKED", abi::THREAD_LINKED.into()),
        ("TANE_NR_ATTACH", abi::NR_ATTACH as u64),
        ("TANE_NR_DETACH", abi::NR_DETACH as u64),
        ("TANE_NR_BOOT", abi::NR_BOOT as u64),
        ("TANE_NR_FAULT", abi::NR_FAULT as u64),
        ("TANE_NR_SPAWN", abi::NR_SPAWN as u64),
        ("TANE_NR_SIGNALS", abi::NR_SIGNALS as u64),
        ("TANE_NR_TRAP", abi::NR_TRAP as u64),
        ("TANE_NR_TEXT", abi::NR_TEXT as u64),
        ("TANE_NR_PEEK", abi::NR_PEEK as u64),
        ("TANE_NR_POKE", abi::NR_POKE as u64),
        ("TANE_NOTIFY_STATUS", abi::NOTIFY_STATUS.into()),
        ("TANE_NOTIFY_STATE", abi::NOTIFY_STATE.into()),
        ("TANE_EXIT_DEAD", abi::EXIT_DEAD),
        ("TANE_EXIT_OUTSIDE", abi::EXIT_OUTSIDE),
        ("TANE_VIRTIO_FAILED", abi::VIRTIO_FAILED.into()),
    ] {
        writeln!(c, "_Static_assert({name} == {value}ULL, \"{name}\");").unwrap();
    }

    let dir = std::env::temp_dir().join(format!("tane-abi-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let source = dir.join("abi.c");
    std::fs::write(&source, c).unwrap();
    let out = Command::new("cc")
        .arg("-fsyntax-only")
        .arg(&source)
        .output()
        .expect("a C compiler");
    std::fs::remove_dir_all(&dir).unwrap();
    assert!(
        out.status.success(),
        "{}",
        String::from_utf8_lossy(&out.stderr)
    );
}
