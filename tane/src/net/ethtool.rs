//! Features of an interface, by the names that ethtool(8) has for them.

use super::link::Link;
use super::socket::Socket;
use crate::error::{errno_or_guess, Error, Result};
use std::io;
use std::path::Path;

const SIOCETHTOOL: u64 = 0x8946;
const GSTRINGS: u32 = 0x1b;
const GSSET_INFO: u32 = 0x37;
const SFEATURES: u32 = 0x3b;
const SS_FEATURES: u32 = 4;
/// Bytes of a name.
const NAME: usize = 32;
/// More than any Linux has.
const MOST: usize = 1024;

/// `struct ifreq`, as this call uses it.
#[repr(C)]
struct Request {
    name: [u8; 16],
    data: *mut u32,
    rest: [u64; 2],
}

impl Link {
    /// Turn a feature on or off: "tx-udp-segmentation", as `ethtool -k` lists it.
    ///
    /// Errors: EINVAL no such feature; EOPNOTSUPP the interface cannot.
    pub fn set_feature(&self, feature: &str, on: bool) -> Result<()> {
        let result = self.try_set_feature(feature, on);
        result.map_err(|error| {
            let text = format!("the feature {feature}");
            let error = Error::new(errno_or_guess(&error), "change").with_text(text);
            error.with_path(Path::new(self.name()))
        })
    }

    fn try_set_feature(&self, feature: &str, on: bool) -> io::Result<()> {
        let errno = |errno| io::Error::from_raw_os_error(errno);
        let socket = Socket::new(self.kernel(), libc::AF_INET, libc::SOCK_DGRAM, 0)?;
        // A mask of eight bytes, then a count for each of its bits.
        let mut count = [GSSET_INFO, 0, 1 << SS_FEATURES, 0, 0];
        self.ethtool(&socket, &mut count)?;
        let count = count[4] as usize;
        if count > MOST {
            return Err(errno(libc::EPROTO));
        }
        let mut names = vec![0u32; 3 + count * NAME / 4];
        names[..3].copy_from_slice(&[GSTRINGS, SS_FEATURES, count as u32]);
        self.ethtool(&socket, &mut names)?;
        let bytes: Vec<u8> = names[3..]
            .iter()
            .flat_map(|word| word.to_ne_bytes())
            .collect();
        let is_it = |name: &[u8]| name.split(|b| *b == 0).next() == Some(feature.as_bytes());
        let index = bytes.chunks_exact(NAME).position(is_it);
        let index = index.ok_or_else(|| errno(libc::EINVAL))?;
        // Pairs of masks: which are meant, and which of them are to be on.
        let blocks = count.div_ceil(32);
        let mut change = vec![0u32; 2 + 2 * blocks];
        change[..2].copy_from_slice(&[SFEATURES, blocks as u32]);
        let bit = 1 << (index % 32);
        change[2 + 2 * (index / 32)] = bit;
        change[3 + 2 * (index / 32)] = if on { bit } else { 0 };
        match self.ethtool(&socket, &mut change)? {
            0 => Ok(()),
            _ => Err(errno(libc::EOPNOTSUPP)),
        }
    }

    fn ethtool(&self, socket: &Socket, data: &mut [u32]) -> io::Result<u64> {
        let mut request = Request {
            name: [0; 16],
            data: data.as_mut_ptr(),
            rest: [0; 2],
        };
        let name = &self.name().as_bytes()[..self.name().len().min(15)];
        request.name[..name.len()].copy_from_slice(name);
        let at = &raw mut request as u64;
        // SAFETY: the structures are as long as their own counts say.
        unsafe { socket.call(libc::SYS_ioctl, &[SIOCETHTOOL, at]) }
    }
}
