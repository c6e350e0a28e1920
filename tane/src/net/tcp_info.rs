//! What TCP knows of a connection: TCP_INFO and TCP_CONGESTION of tcp(7).

use super::socket::Socket;
use std::io;
use std::time::Duration;

/// Longest name of a congestion control, with the zero behind it.
const TCP_CA_NAME_MAX: usize = 16;

/// What TCP says of a connection at one time: the parts of `struct tcp_info` that are numbers
/// of bytes, packets and time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpInfo {
    /// The round trip's time, smoothed.
    pub rtt: Duration,
    /// The shortest one of late.
    pub min_rtt: Duration,
    /// The congestion window, in segments.
    pub congestion_window: u32,
    /// Segments that were sent again.
    pub retransmits: u32,
    /// Bytes that the other end has acknowledged.
    pub bytes_acked: u64,
    /// Bytes that came and were new.
    pub bytes_received: u64,
    /// Bytes that were sent, again ones included.
    pub bytes_sent: u64,
    /// How fast it was lately delivered, in bytes a second.
    pub delivery_rate: u64,
}

/// Where these are in `struct tcp_info` (include/uapi/linux/tcp.h), in bytes.
pub(super) mod at {
    pub const RTT: usize = 68;
    pub const SND_CWND: usize = 80;
    pub const TOTAL_RETRANS: usize = 100;
    pub const BYTES_ACKED: usize = 120;
    pub const BYTES_RECEIVED: usize = 128;
    pub const MIN_RTT: usize = 148;
    pub const DELIVERY_RATE: usize = 160;
    pub const BYTES_SENT: usize = 200;
    pub const END: usize = 208;
}

impl TcpInfo {
    /// What these bytes of a `struct tcp_info` say.
    pub(super) fn read(bytes: &[u8; at::END]) -> Self {
        let number = |at: usize| {
            let bytes = bytes[at..at + 4].try_into().expect("four bytes");
            u32::from_ne_bytes(bytes)
        };
        let long = |at: usize| {
            let bytes = bytes[at..at + 8].try_into().expect("eight bytes");
            u64::from_ne_bytes(bytes)
        };
        let time = |at| Duration::from_micros(number(at).into());
        TcpInfo {
            rtt: time(at::RTT),
            // All ones before the first one.
            min_rtt: match number(at::MIN_RTT) {
                u32::MAX => Duration::ZERO,
                _ => time(at::MIN_RTT),
            },
            congestion_window: number(at::SND_CWND),
            retransmits: number(at::TOTAL_RETRANS),
            bytes_acked: long(at::BYTES_ACKED),
            bytes_received: long(at::BYTES_RECEIVED),
            bytes_sent: long(at::BYTES_SENT),
            delivery_rate: long(at::DELIVERY_RATE),
        }
    }
}

impl Socket {
    /// TCP_INFO of a TCP socket.
    ///
    /// Errors: EOPNOTSUPP or ENOPROTOOPT it is none; EPROTO the kernel has less to say.
    pub fn tcp_info(&self) -> io::Result<TcpInfo> {
        let (mut bytes, mut len) = ([0u8; at::END], at::END as u32);
        let (level, option) = (libc::IPPROTO_TCP as u64, libc::TCP_INFO as u64);
        let args = [
            level,
            option,
            bytes.as_mut_ptr() as u64,
            &raw mut len as u64,
        ];
        // SAFETY: writes at most so many bytes, and how many.
        unsafe { self.call(libc::SYS_getsockopt, &args)? };
        if (len as usize) < at::END {
            return Err(io::Error::from_raw_os_error(libc::EPROTO));
        }
        Ok(TcpInfo::read(&bytes))
    }

    /// How a TCP socket that sends shares a way with others, such as "cubic" or "bbr"; a
    /// listener's is that of its connections.
    ///
    /// Errors: ENOENT the image has no such congestion control
    /// (/proc/sys/net/ipv4/tcp_available_congestion_control has all).
    pub fn set_congestion_control(&self, name: &str) -> io::Result<()> {
        if name.len() >= TCP_CA_NAME_MAX {
            return Err(io::Error::from_raw_os_error(libc::ENOENT));
        }
        let args = [
            libc::IPPROTO_TCP as u64,
            libc::TCP_CONGESTION as u64,
            name.as_ptr() as u64,
            name.len() as u64,
        ];
        // SAFETY: reads a name of this length.
        unsafe { self.call(libc::SYS_setsockopt, &args)? };
        Ok(())
    }
}
