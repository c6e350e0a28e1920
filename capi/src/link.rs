//! tane_link_*, tane_route_add, tane_lookup.

use crate::error::{answer, answer64, done, Failure, Result};
use crate::kernel::TaneKernel;
use crate::pass::{self, bytes, handle};
use std::ffi::c_char;
use std::net::IpAddr;
use std::str::FromStr;
use tane::net::{Impairment, Link, NoImpairment};

/// The interface of this name.
///
/// # Safety
/// As tane.h says.
pub unsafe fn link(kernel: *mut TaneKernel, name: *const c_char) -> Result<Link> {
    // SAFETY: as tane.h says.
    let (kernel, name) = unsafe { (handle(kernel)?.local()?, bytes(name)?) };
    Ok(kernel.link(&name.to_string_lossy())?)
}

#[no_mangle]
pub unsafe extern "C" fn tane_link_up(kernel: *mut TaneKernel, name: *const c_char) -> i32 {
    // SAFETY: as tane.h says.
    done(|| Ok::<_, Failure>(unsafe { link(kernel, name) }?.set_up()?))
}

#[no_mangle]
pub unsafe extern "C" fn tane_link_down(kernel: *mut TaneKernel, name: *const c_char) -> i32 {
    // SAFETY: as tane.h says.
    done(|| Ok::<_, Failure>(unsafe { link(kernel, name) }?.set_down()?))
}

#[no_mangle]
pub unsafe extern "C" fn tane_link_mtu(
    kernel: *mut TaneKernel,
    name: *const c_char,
    mtu: u32,
) -> i32 {
    // SAFETY: as tane.h says.
    done(|| Ok::<_, Failure>(unsafe { link(kernel, name) }?.set_mtu(mtu)?))
}

#[no_mangle]
pub unsafe extern "C" fn tane_link_is_running(kernel: *mut TaneKernel, name: *const c_char) -> i32 {
    // SAFETY: as tane.h says.
    answer(|| Ok(unsafe { link(kernel, name) }?.is_running()?.into()))
}

#[no_mangle]
pub unsafe extern "C" fn tane_link_index(kernel: *mut TaneKernel, name: *const c_char) -> i32 {
    // SAFETY: as tane.h says.
    answer(|| Ok(unsafe { link(kernel, name) }?.index() as i32))
}

/// `ADDRESS/BITS`; without bits, all of them.
struct Network(IpAddr, u8);

impl FromStr for Network {
    type Err = Failure;

    fn from_str(text: &str) -> Result<Self> {
        let parse = || {
            let (address, bits) = match text.split_once('/') {
                Some((address, bits)) => (address, Some(bits.parse().ok()?)),
                None => (text, None),
            };
            let address: IpAddr = address.parse().ok()?;
            let most = if address.is_ipv4() { 32 } else { 128 };
            let bits = bits.unwrap_or(most);
            (bits <= most).then_some(Network(address, bits))
        };
        let text = format!("{text:?} is no address: write ADDRESS/BITS, such as 10.0.0.2/24");
        parse().ok_or_else(|| Failure::new(libc::EINVAL, text))
    }
}

/// # Safety
/// As tane.h says.
unsafe fn parsed<T: FromStr<Err = E>, E: Into<Failure>>(at: *const c_char) -> Result<T> {
    // SAFETY: as tane.h says.
    let text = unsafe { bytes(at)? };
    text.to_string_lossy().parse().map_err(Into::into)
}

#[no_mangle]
pub unsafe extern "C" fn tane_link_add_address(
    kernel: *mut TaneKernel,
    name: *const c_char,
    address: *const c_char,
) -> i32 {
    // SAFETY: as tane.h says.
    done(|| unsafe {
        let Network(address, bits) = parsed(address)?;
        Ok::<_, Failure>(link(kernel, name)?.add_address(address, bits)?)
    })
}

#[no_mangle]
pub unsafe extern "C" fn tane_link_remove_address(
    kernel: *mut TaneKernel,
    name: *const c_char,
    address: *const c_char,
) -> i32 {
    // SAFETY: as tane.h says.
    done(|| unsafe {
        let Network(address, bits) = parsed(address)?;
        Ok::<_, Failure>(link(kernel, name)?.remove_address(address, bits)?)
    })
}

#[no_mangle]
pub unsafe extern "C" fn tane_link_impair(
    kernel: *mut TaneKernel,
    name: *const c_char,
    how: *const c_char,
) -> i32 {
    // SAFETY: as tane.h says.
    done(|| unsafe {
        let link = link(kernel, name)?;
        let Some(how) = pass::text(how)? else {
            return Ok::<_, Failure>(link.unimpair()?);
        };
        let how: Impairment = how
            .parse()
            .map_err(|e: NoImpairment| Failure::new(libc::EINVAL, e.to_string()))?;
        Ok(link.impair(&how)?)
    })
}

#[no_mangle]
pub unsafe extern "C" fn tane_link_add_route(
    kernel: *mut TaneKernel,
    name: *const c_char,
    network: *const c_char,
    gateway: *const c_char,
    metric: u32,
) -> i32 {
    // SAFETY: as tane.h says.
    done(|| unsafe {
        let Network(network, bits) = parsed(network)?;
        let Network(gateway, _) = parsed(gateway)?;
        Ok::<_, Failure>(link(kernel, name)?.add_route(network, bits, gateway, metric)?)
    })
}

#[no_mangle]
pub unsafe extern "C" fn tane_route_add(
    kernel: *mut TaneKernel,
    network: *const c_char,
    gateway: *const c_char,
) -> i32 {
    // SAFETY: as tane.h says.
    done(|| unsafe {
        let kernel = handle(kernel)?.local()?;
        let Network(network, bits) = parsed(network)?;
        let Network(gateway, _) = parsed(gateway)?;
        Ok::<_, Failure>(kernel.add_route(network, bits, gateway)?)
    })
}

#[no_mangle]
pub unsafe extern "C" fn tane_lookup(
    kernel: *mut TaneKernel,
    name: *const c_char,
    addresses: *mut c_char,
    len: usize,
) -> i64 {
    // SAFETY: as tane.h says.
    answer64(|| unsafe {
        let found = handle(kernel)?
            .local()?
            .lookup(&bytes(name)?.to_string_lossy())?;
        let texts: Vec<u8> = found
            .iter()
            .flat_map(|ip| format!("{ip}\0").into_bytes())
            .collect();
        if len == 0 {
            return Ok(texts.len() as i64);
        }
        if addresses.is_null() {
            return Err(pass::null());
        }
        if texts.len() > len {
            let text = "the addresses take more room than there is";
            return Err(Failure::new(libc::ERANGE, text));
        }
        addresses
            .cast::<u8>()
            .copy_from_nonoverlapping(texts.as_ptr(), texts.len());
        Ok(texts.len() as i64)
    })
}
