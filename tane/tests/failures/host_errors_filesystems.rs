//! Promises for hosts that fail, beside those of ext4 (host_errors.rs): an
//! error below is an error of fsync, the kernel goes on, the file system comes back by
//! a mount or its own program, and what fsync promised is there.

use crate::common::TempDir;
use crate::crash::kinds::Kind;
use crate::crash::Image;
use std::io::Write;
use tane::images::{Failure, Operation};
use tane::{Kernel, Mount};

/// Whether it was told that the content is durable.
fn write_and_sync(mount: &Mount, name: &str, content: &[u8], parents: bool) -> bool {
    let Ok(mut file) = mount.create(name) else {
        return false;
    };
    let written = file.write_all(content).is_ok() && file.sync_all().is_ok();
    let synced = || mount.open_dir("/").is_ok_and(|dir| dir.sync().is_ok());
    written && (!parents || synced())
}

fn still_has(kernel: &Kernel, image: &Image, durable: &[(String, Vec<u8>)]) {
    let name = image.kind.name;
    assert!(kernel.is_alive(), "{name}: {}", kernel.last_words());
    let back = image.bring_back(kernel);
    back.unwrap_or_else(|e| panic!("{name}: {e}"));
    let mount = image
        .mount(kernel)
        .unwrap_or_else(|e| panic!("{name}: {e}"));
    for (file, content) in durable {
        let read = mount.read(file).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(read == *content, "{name}: {file}: not as promised");
    }
    mount.write("after", "usable").expect("writes");
    mount.unmount().expect("unmounts");
}

/// `fails`: what of the host's does, for good, once something was synced.
fn an_error_below_is_an_error_above(kernel: &Kernel, image: &Image, fails: fn(Operation) -> bool) {
    let name = image.kind.name;
    let (fault, mount) = image.mount_faulty(kernel);
    let parents = !image.kind.gives.names;
    let before = vec![7; 30_000];
    assert!(write_and_sync(&mount, "before", &before, parents), "{name}");
    mount.sync().expect("syncs");
    fault.plan(move |operation| fails(operation).then(|| Failure::errno(libc::EIO)));
    let lied = write_and_sync(&mount, "f", &[1; 100_000], parents);
    assert!(!lied, "{name}: fsync promised what was not written");
    let _ = mount.unmount();
    fault.plan(|_| None);
    drop(fault);
    still_has(kernel, image, &[("before".into(), before)]);
}

/// Every so many operations one fails, whichever it is: calls may fail, never lie.
fn what_is_durable_stays(kernel: &Kernel, image: &Image, nth: u64) {
    let (fault, mount) = image.mount_faulty(kernel);
    let mut count = 0;
    fault.plan(move |operation| {
        let reads = matches!(operation, Operation::Read { .. });
        count += u64::from(!reads);
        (!reads && count % nth == 0).then(|| Failure::errno(libc::EIO))
    });
    let mut durable = Vec::new();
    for i in 0..20u8 {
        let (name, content) = (format!("f{i}"), vec![i; 20_000]);
        if write_and_sync(&mount, &name, &content, !image.kind.gives.names) {
            durable.push((name, content));
        }
    }
    let unmounted = mount.unmount();
    let (name, count) = (image.kind.name, durable.len());
    println!("{name}, every {nth}th: {count} of 20 durable, {unmounted:?}");
    fault.plan(|_| None);
    drop(fault);
    still_has(kernel, image, &durable);
}

#[track_caller]
fn survives_a_failing_host(kind: &Kind) {
    let Some(kernel) = crate::inside::default_kernel() else {
        return;
    };
    let dir = TempDir::new();
    let Some(image) = Image::new(kind, dir.path().join("image")) else {
        return;
    };
    let fresh = image.save();
    an_error_below_is_an_error_above(&kernel, &image, |operation| {
        matches!(operation, Operation::Write { .. })
    });
    if kind.flushes {
        image.restore(&fresh);
        an_error_below_is_an_error_above(&kernel, &image, |operation| {
            operation == Operation::Flush
        });
    }
    let turns: &[u64] = if kind.notices_errors { &[5, 17] } else { &[] };
    for &nth in turns {
        image.restore(&fresh);
        what_is_durable_stays(&kernel, &image, nth);
    }
}

crate::crash::each_file_system!(survives_a_failing_host);
