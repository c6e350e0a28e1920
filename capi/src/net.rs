//! tane_nic_*.

use crate::error::{answer, Failure, Result};
use crate::kernel::TaneKernel;
use crate::pass::{self, give, handle, path, read_or_zero, take, Sized_};
use std::ffi::{c_char, CString};
use std::fmt::Display;
use std::fs::File;
use std::io;
use std::net::IpAddr;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::str::FromStr;
use std::sync::Arc;
use tane::net::{
    Capture, Datagram, Mac, Nic, NicOptions, Offloads, Pair, Stream, Tap, UserNetwork, UserNic,
    Wire,
};
use tane::Kernel;

pub struct TaneNic {
    end: End,
    name: CString,
    /// What is written down, beside the card, which keeps it.
    capture: Option<Arc<Capture>>,
}

enum End {
    #[expect(dead_code, reason = "it is there until it is dropped")]
    Card(Nic),
    User(UserNic),
}

#[repr(C)]
pub struct RawNicOptions {
    size: usize,
    flags: u32,
    mtu: u32,
    mac: *const u8,
    capture: *const c_char,
}

// SAFETY: integers and pointers.
unsafe impl Sized_ for RawNicOptions {}

const PLAIN: u32 = 1;

#[repr(C)]
pub struct RawUserNetwork {
    size: usize,
    allow: *const *const c_char,
    deny: *const *const c_char,
    forwards: *const *const c_char,
    resolvers: *const *const c_char,
}

// SAFETY: an integer and pointers.
unsafe impl Sized_ for RawUserNetwork {}

/// The card's options, and where packets are written down.
///
/// # Safety
/// As tane.h says.
unsafe fn options(at: *const RawNicOptions) -> Result<(NicOptions, Option<File>)> {
    // SAFETY: as tane.h says.
    let raw = unsafe { read_or_zero(at)? };
    let mut options = NicOptions::default();
    if raw.flags & PLAIN != 0 {
        (options.transmit, options.receive) = (Offloads::NONE, Offloads::NONE);
        options.mergeable = false;
    }
    if raw.flags & !PLAIN != 0 {
        return Err(Failure::new(libc::EINVAL, "a card has no such flags"));
    }
    if raw.mtu != 0 {
        let mtu = u16::try_from(raw.mtu).ok().filter(|mtu| *mtu >= 68);
        let text = "the MTU of a card is between 68 and 65535";
        options.mtu = mtu.ok_or_else(|| Failure::new(libc::EINVAL, text))?;
    }
    if !raw.mac.is_null() {
        // SAFETY: six bytes, as tane.h says.
        let mac = Mac(unsafe { raw.mac.cast::<[u8; 6]>().read_unaligned() });
        if mac.is_group() {
            let text = "the address of a card is not that of a group";
            return Err(Failure::new(libc::EINVAL, text));
        }
        options.mac = Some(mac);
    }
    let capture = match raw.capture.is_null() {
        true => None,
        false => {
            // SAFETY: the caller's string.
            let path = unsafe { path(raw.capture)? };
            let file = File::create(path);
            Some(file.map_err(|e| of_io(&e, &path.display()))?)
        }
    };
    Ok((options, capture))
}

fn of_io(error: &io::Error, what: &dyn Display) -> Failure {
    Failure::new(tane::errno_or_guess(error), format!("{what}: {error}"))
}

fn plug(
    kernel: &Kernel,
    mut wire: Arc<dyn Wire>,
    options: &NicOptions,
    to: Option<File>,
) -> Result<TaneNic> {
    let mut capture = None;
    if let Some(to) = to {
        let around = Capture::new(wire, to, "tane").map_err(|e| of_io(&e, &"the capture"))?;
        wire = around.clone();
        capture = Some(around);
    }
    let nic = kernel.add_nic(wire, options)?;
    let name = CString::new(nic.name()).unwrap_or_default();
    Ok(TaneNic {
        end: End::Card(nic),
        name,
        capture,
    })
}

#[no_mangle]
pub unsafe extern "C" fn tane_nic_pair(
    a: *mut TaneKernel,
    b: *mut TaneKernel,
    raw: *const RawNicOptions,
    nic_a: *mut *mut TaneNic,
    nic_b: *mut *mut TaneNic,
) -> i32 {
    // SAFETY: as tane.h says.
    answer(|| unsafe {
        let (a, b) = (handle(a)?.local()?, handle(b)?.local()?);
        let (mut options, capture) = options(raw)?;
        if nic_a.is_null() || nic_b.is_null() {
            return Err(pass::null());
        }
        let (near, far) = Pair::new();
        let one = plug(a, near, &options, capture)?;
        options.mac = None;
        let other = plug(b, far, &options, None)?;
        give(nic_a, || Ok(one))?;
        give(nic_b, || Ok(other))
    })
}

/// A card at the wire that `open` makes.
///
/// # Safety
/// As tane.h says.
unsafe fn card<W: Wire + 'static>(
    kernel: *mut TaneKernel,
    raw: *const RawNicOptions,
    nic: *mut *mut TaneNic,
    open: impl FnOnce() -> Result<Arc<W>>,
) -> i32 {
    // SAFETY: as tane.h says.
    answer(|| unsafe {
        let kernel = handle(kernel)?.local()?;
        let (options, capture) = options(raw)?;
        give(nic, || plug(kernel, open()?, &options, capture))
    })
}

#[no_mangle]
pub unsafe extern "C" fn tane_nic_tap(
    kernel: *mut TaneKernel,
    name: *const c_char,
    raw: *const RawNicOptions,
    nic: *mut *mut TaneNic,
) -> i32 {
    // SAFETY: as tane.h says.
    unsafe {
        card(kernel, raw, nic, || {
            let name = pass::text(name)?;
            let what = name.as_deref().unwrap_or("a tap interface");
            Tap::open(name.as_deref()).map_err(|e| of_io(&e, &what))
        })
    }
}

/// The caller's descriptor stays the caller's.
fn copy_of(fd: i32) -> Result<OwnedFd> {
    if fd < 0 {
        return Err(Failure::of_errno(libc::EBADF, "a descriptor of the host's"));
    }
    // SAFETY: one that is not open is refused by the host.
    let fd = unsafe { BorrowedFd::borrow_raw(fd) };
    fd.try_clone_to_owned()
        .map_err(|e| of_io(&e, &"a descriptor of the host's"))
}

#[no_mangle]
pub unsafe extern "C" fn tane_nic_tap_fd(
    kernel: *mut TaneKernel,
    fd: i32,
    raw: *const RawNicOptions,
    nic: *mut *mut TaneNic,
) -> i32 {
    let open = || Tap::from_fd(copy_of(fd)?).map_err(|e| of_io(&e, &"a tap interface"));
    // SAFETY: as tane.h says.
    unsafe { card(kernel, raw, nic, open) }
}

#[no_mangle]
pub unsafe extern "C" fn tane_nic_stream(
    kernel: *mut TaneKernel,
    fd: i32,
    raw: *const RawNicOptions,
    nic: *mut *mut TaneNic,
) -> i32 {
    let open = || Stream::new(UnixStream::from(copy_of(fd)?)).map_err(|e| of_io(&e, &"a socket"));
    // SAFETY: as tane.h says.
    unsafe { card(kernel, raw, nic, open) }
}

#[no_mangle]
pub unsafe extern "C" fn tane_nic_datagram(
    kernel: *mut TaneKernel,
    fd: i32,
    raw: *const RawNicOptions,
    nic: *mut *mut TaneNic,
) -> i32 {
    let open =
        || Datagram::new(UnixDatagram::from(copy_of(fd)?)).map_err(|e| of_io(&e, &"a socket"));
    // SAFETY: as tane.h says.
    unsafe { card(kernel, raw, nic, open) }
}

/// A list of texts, each of which says a value.
///
/// # Safety
/// NULL, or strings of which the last one is NULL.
unsafe fn list<T: FromStr<Err: Display>>(mut at: *const *const c_char) -> Result<Vec<T>> {
    let mut values = Vec::new();
    // SAFETY: as the caller promises.
    while let Some(text) = unsafe { at.as_ref() }.filter(|text| !text.is_null()) {
        // SAFETY: the same.
        let text = unsafe { pass::text(*text)? }.unwrap_or_default();
        let value = text.parse();
        values.push(value.map_err(|e: T::Err| Failure::new(libc::EINVAL, e.to_string()))?);
        at = at.wrapping_add(1);
    }
    Ok(values)
}

/// Whom names are asked of: with or without a port.
struct Resolver(std::net::SocketAddr);

impl FromStr for Resolver {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let alone = text.parse::<IpAddr>().ok().map(|ip| (ip, 53).into());
        let found = alone.or_else(|| text.parse().ok()).map(Self);
        found.ok_or_else(|| format!("{text:?} is no resolver: write ADDRESS or ADDRESS:PORT"))
    }
}

#[no_mangle]
pub unsafe extern "C" fn tane_nic_user(
    kernel: *mut TaneKernel,
    raw: *const RawUserNetwork,
    nic: *mut *mut TaneNic,
) -> i32 {
    // SAFETY: as tane.h says.
    answer(|| unsafe {
        let kernel = handle(kernel)?.local()?;
        let raw = read_or_zero(raw)?;
        let resolvers = list::<Resolver>(raw.resolvers)?;
        let options = UserNetwork {
            allow: list(raw.allow)?,
            deny: list(raw.deny)?,
            forwards: list(raw.forwards)?,
            resolvers: (!resolvers.is_empty())
                .then(|| resolvers.into_iter().map(|r| r.0).collect()),
        };
        give(nic, || {
            let user = kernel.user_network(&options)?;
            let name = CString::new(user.name()).unwrap_or_default();
            Ok(TaneNic {
                end: End::User(user),
                name,
                capture: None,
            })
        })
    })
}

#[no_mangle]
pub unsafe extern "C" fn tane_nic_port(nic: *const TaneNic, number: usize) -> i32 {
    // SAFETY: as tane.h says.
    answer(|| match &unsafe { handle(nic) }?.end {
        End::User(user) => match user.listening().get(number) {
            Some(address) => Ok(address.port().into()),
            None => Err(Failure::new(libc::EINVAL, "there is no such forward")),
        },
        End::Card(_) => {
            let text = "a card has no ports of the host's: tane_nic_user() has";
            Err(Failure::new(libc::EINVAL, text))
        }
    })
}

#[no_mangle]
pub unsafe extern "C" fn tane_nic_interface(nic: *const TaneNic) -> *const c_char {
    // SAFETY: as tane.h says.
    match unsafe { handle(nic) } {
        Ok(nic) => nic.name.as_ptr(),
        Err(_) => std::ptr::null(),
    }
}

#[no_mangle]
pub unsafe extern "C" fn tane_nic_flush(nic: *mut TaneNic) -> i32 {
    answer(|| {
        // SAFETY: as tane.h says.
        if let Some(capture) = &unsafe { handle(nic) }?.capture {
            capture.flush().map_err(|e| of_io(&e, &"the capture"))?;
        }
        Ok(0)
    })
}

#[no_mangle]
pub unsafe extern "C" fn tane_nic_close(nic: *mut TaneNic) {
    answer(|| {
        // SAFETY: as tane.h says.
        drop(unsafe { take(nic) });
        Ok(0)
    });
}
