//! What is known of a connection over several paths: MPTCP_FULL_INFO.

use super::address::{self, decode};
use super::socket::Socket;
use super::tcp_info::{at as tcp, TcpInfo};
use std::io;
use std::net::SocketAddr;

const SOL_MPTCP: i32 = 284;
const MPTCP_FULL_INFO: i32 = 4;
/// Paths that are looked at; the kernel has 9 at most.
const MOST: usize = 16;

/// What MPTCP says of a connection at one time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MptcpInfo {
    /// Bytes that were sent, again ones included.
    pub bytes_sent: u64,
    /// Of them bytes that were sent again by another path.
    pub bytes_retransmitted: u64,
    /// Bytes that the other end has acknowledged.
    pub bytes_acked: u64,
    /// Bytes that came and were new.
    pub bytes_received: u64,
    /// Its paths as they are now.
    pub subflows: Vec<Subflow>,
}

/// A path of a connection: a connection of TCP's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subflow {
    /// No other path of this connection has or had it.
    pub id: u32,
    /// Here.
    pub local: SocketAddr,
    /// There.
    pub remote: SocketAddr,
    /// What TCP says of it.
    pub tcp: TcpInfo,
}

/// `struct mptcp_full_info` (include/uapi/linux/mptcp.h) up to where `struct mptcp_info` ends.
#[repr(C)]
#[derive(Clone, Copy)]
struct Full {
    size_tcpinfo_kernel: u32,
    size_tcpinfo_user: u32,
    size_sfinfo_kernel: u32,
    size_sfinfo_user: u32,
    num_subflows: u32,
    size_arrays_user: u32,
    subflow_info: u64,
    tcp_info: u64,
    /// Flags and limits.
    about: [u8; 48],
    bytes_retrans: u64,
    bytes_sent: u64,
    bytes_received: u64,
    bytes_acked: u64,
    /// Times.
    rest: [u32; 4],
}

/// `struct mptcp_subflow_info`: two of `struct sockaddr_storage`.
#[repr(C, align(8))]
#[derive(Clone, Copy)]
struct Ends {
    id: u32,
    pad: u32,
    local: [u8; 128],
    remote: [u8; 128],
}

impl Socket {
    /// Which paths a socket of MPTCP takes, and what went by each.
    ///
    /// Errors: EOPNOTSUPP or ENOPROTOOPT it is of another kind, or went on by TCP alone, as the
    /// other end has no MPTCP.
    pub fn mptcp_info(&self) -> io::Result<MptcpInfo> {
        let none = Ends {
            id: 0,
            pad: 0,
            local: [0; 128],
            remote: [0; 128],
        };
        let (mut ends, mut infos) = ([none; MOST], [[0u8; tcp::END]; MOST]);
        let mut full = Full {
            size_tcpinfo_kernel: 0,
            size_tcpinfo_user: tcp::END as u32,
            size_sfinfo_kernel: 0,
            size_sfinfo_user: size_of::<Ends>() as u32,
            num_subflows: 0,
            size_arrays_user: MOST as u32,
            subflow_info: ends.as_mut_ptr() as u64,
            tcp_info: infos.as_mut_ptr() as u64,
            about: [0; 48],
            bytes_retrans: 0,
            bytes_sent: 0,
            bytes_received: 0,
            bytes_acked: 0,
            rest: [0; 4],
        };
        let mut len = size_of::<Full>() as u32;
        let args = [
            SOL_MPTCP as u64,
            MPTCP_FULL_INFO as u64,
            &raw mut full as u64,
            &raw mut len as u64,
        ];
        // SAFETY: writes at most so many bytes, and how many, and by the pointers in them so many
        // elements of these sizes.
        unsafe { self.call(libc::SYS_getsockopt, &args)? };
        let whole = [full.size_tcpinfo_user, full.size_sfinfo_user];
        if whole != [tcp::END as u32, size_of::<Ends>() as u32]
            || (len as usize) < size_of::<Full>()
        {
            return Err(io::Error::from_raw_os_error(libc::EPROTO));
        }
        let all = ends.iter().zip(&infos).take(full.num_subflows as usize);
        let subflows = all.filter_map(|(ends, info)| {
            Some(Subflow {
                id: ends.id,
                local: internet(&ends.local)?,
                remote: internet(&ends.remote)?,
                tcp: TcpInfo::read(info),
            })
        });
        Ok(MptcpInfo {
            bytes_sent: full.bytes_sent,
            bytes_retransmitted: full.bytes_retrans,
            bytes_acked: full.bytes_acked,
            bytes_received: full.bytes_received,
            subflows: subflows.collect(),
        })
    }
}

fn internet(storage: &[u8; 128]) -> Option<SocketAddr> {
    decode(storage.first_chunk::<{ address::SIZE }>()?)
}
