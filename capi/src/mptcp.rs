//! tane_mptcp_*.

use crate::error::{answer, answer64, done, Failure, Result};
use crate::kernel::TaneKernel;
use crate::pass::{self, bytes, handle, Sized_};
use crate::socket::{failed, TaneSocket};
use std::ffi::c_char;
use std::net::IpAddr;
use tane::net::{Endpoint, EndpointFlags, Mptcp, MptcpLimits, Subflow};

#[repr(C)]
pub struct RawEndpoint {
    id: u32,
    flags: u32,
    link: u32,
    address: [u8; 48],
}

/// Of `flags`, what the kernel sets by itself.
const IMPLICIT: u32 = 16;

#[repr(C)]
pub struct RawInfo {
    size: usize,
    bytes_sent: u64,
    bytes_retransmitted: u64,
    bytes_acked: u64,
    bytes_received: u64,
}

// SAFETY: integers.
unsafe impl Sized_ for RawInfo {}

#[repr(C)]
pub struct RawPath {
    id: u32,
    rtt: u32,
    min_rtt: u32,
    congestion_window: u32,
    retransmits: u32,
    local: [u8; 64],
    remote: [u8; 64],
    bytes_sent: u64,
    bytes_acked: u64,
    bytes_received: u64,
    delivery_rate: u64,
}

/// With zeroes behind it. Texts of addresses are shorter than the fields for them.
fn field<const N: usize>(text: &str) -> [u8; N] {
    let mut field = [0; N];
    let len = text.len().min(N - 1);
    field[..len].copy_from_slice(&text.as_bytes()[..len]);
    field
}

impl From<&Endpoint> for RawEndpoint {
    fn from(of: &Endpoint) -> Self {
        Self {
            id: of.id.into(),
            flags: of.flags.bits() | if of.implicit { IMPLICIT } else { 0 },
            link: of.link.unwrap_or(0),
            address: field(&of.address.to_string()),
        }
    }
}

impl From<&Subflow> for RawPath {
    fn from(of: &Subflow) -> Self {
        let micros = |time: std::time::Duration| time.as_micros().try_into().unwrap_or(u32::MAX);
        Self {
            id: of.id,
            rtt: micros(of.tcp.rtt),
            min_rtt: micros(of.tcp.min_rtt),
            congestion_window: of.tcp.congestion_window,
            retransmits: of.tcp.retransmits,
            local: field(&of.local.to_string()),
            remote: field(&of.remote.to_string()),
            bytes_sent: of.tcp.bytes_sent,
            bytes_acked: of.tcp.bytes_acked,
            bytes_received: of.tcp.bytes_received,
            delivery_rate: of.tcp.delivery_rate,
        }
    }
}

/// Write as many of them as there is room for: their number.
///
/// # Safety
/// `count` of them may be written at `to`.
unsafe fn fill<'a, F: 'a, T: From<&'a F>>(all: &'a [F], to: *mut T, count: usize) -> Result<i64> {
    let count = count.min(all.len());
    if count > 0 && to.is_null() {
        return Err(pass::null());
    }
    for (at, one) in all[..count].iter().enumerate() {
        // SAFETY: there is room for it, as the caller promises.
        unsafe { to.add(at).write(one.into()) };
    }
    Ok(count as i64)
}

/// # Safety
/// As tane.h says.
unsafe fn mptcp(kernel: *mut TaneKernel) -> Result<Mptcp> {
    // SAFETY: as tane.h says.
    Ok(unsafe { handle(kernel) }?.local()?.mptcp()?)
}

#[no_mangle]
pub unsafe extern "C" fn tane_mptcp_add_endpoint(
    kernel: *mut TaneKernel,
    link: *const c_char,
    address: *const c_char,
    flags: u32,
) -> i32 {
    // SAFETY: as tane.h says.
    done(|| unsafe {
        let mptcp = mptcp(kernel)?;
        let text = bytes(address)?.to_string_lossy();
        let address: IpAddr = text.parse().map_err(|_| {
            let text = format!("{text:?} is no address: write it as 10.0.0.2 or fd00::2");
            Failure::new(libc::EINVAL, text)
        })?;
        let flags = EndpointFlags::from_bits(flags)
            .ok_or_else(|| Failure::new(libc::EINVAL, "an endpoint has no such flags"))?;
        match link.is_null() {
            true => mptcp.add_endpoint(address, flags)?,
            false => mptcp.add_endpoint_at(&crate::link::link(kernel, link)?, address, flags)?,
        }
        Ok::<_, Failure>(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn tane_mptcp_remove_endpoint(kernel: *mut TaneKernel, id: u32) -> i32 {
    done(|| {
        // SAFETY: as tane.h says.
        let mptcp = unsafe { mptcp(kernel) }?;
        // 0 is each connection's first address, which is no endpoint.
        let id = u8::try_from(id).ok().filter(|id| *id != 0);
        let id = id.ok_or_else(|| {
            let text = "the number of an endpoint is between 1 and 255";
            Failure::new(libc::EINVAL, text)
        })?;
        Ok::<_, Failure>(mptcp.remove_endpoint(id)?)
    })
}

#[no_mangle]
pub unsafe extern "C" fn tane_mptcp_clear(kernel: *mut TaneKernel) -> i32 {
    // SAFETY: as tane.h says.
    done(|| Ok::<_, Failure>(unsafe { mptcp(kernel) }?.clear()?))
}

#[no_mangle]
pub unsafe extern "C" fn tane_mptcp_endpoints(
    kernel: *mut TaneKernel,
    endpoints: *mut RawEndpoint,
    count: usize,
) -> i64 {
    // SAFETY: as tane.h says.
    answer64(|| unsafe { fill(&mptcp(kernel)?.endpoints()?, endpoints, count) })
}

#[no_mangle]
pub unsafe extern "C" fn tane_mptcp_limits(
    kernel: *mut TaneKernel,
    subflows: *mut u32,
    accepted: *mut u32,
) -> i32 {
    // SAFETY: as tane.h says.
    answer(|| unsafe {
        let limits = mptcp(kernel)?.limits()?;
        let (Some(to), Some(also)) = (subflows.as_mut(), accepted.as_mut()) else {
            return Err(pass::null());
        };
        (*to, *also) = (limits.subflows, limits.accepted);
        Ok(0)
    })
}

#[no_mangle]
pub unsafe extern "C" fn tane_mptcp_set_limits(
    kernel: *mut TaneKernel,
    subflows: u32,
    accepted: u32,
) -> i32 {
    let limits = MptcpLimits { subflows, accepted };
    // SAFETY: as tane.h says.
    done(|| Ok::<_, Failure>(unsafe { mptcp(kernel) }?.set_limits(limits)?))
}

#[no_mangle]
pub unsafe extern "C" fn tane_mptcp_info(
    socket: *mut TaneSocket,
    to: *mut RawInfo,
    paths: *mut RawPath,
    count: usize,
) -> i64 {
    // SAFETY: as tane.h says.
    answer64(|| unsafe {
        let told = handle(socket)?.0.mptcp_info();
        let told = told.map_err(failed("ask for the paths"))?;
        if !to.is_null() {
            let info = RawInfo {
                size: 0,
                bytes_sent: told.bytes_sent,
                bytes_retransmitted: told.bytes_retransmitted,
                bytes_acked: told.bytes_acked,
                bytes_received: told.bytes_received,
            };
            pass::write(to, &info)?;
        }
        fill(&told.subflows, paths, count)
    })
}
