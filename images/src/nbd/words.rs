//! Numbers of the protocol, as its specification has them, and how errors are called.
//! <https://github.com/NetworkBlockDevice/nbd/blob/master/doc/proto.md>

use std::io;

pub const GREETING: [u8; 8] = *b"NBDMAGIC";
pub const OPTION: [u8; 8] = *b"IHAVEOPT";
/// What greets in the place of the latter when there is nothing to negotiate.
pub const OLD_STYLE: u64 = 0x0000_4202_8186_1253;
pub const OPTION_REPLY: u64 = 0x0003_e889_0455_65a9;
pub const REQUEST: u32 = 0x2560_9513;
pub const REPLY: u32 = 0x6744_6698;

/// Flags of the greeting, and of its answer.
pub const FIXED_NEWSTYLE: u16 = 1;
pub const NO_ZEROES: u16 = 1 << 1;

/// Options.
pub const EXPORT_NAME: u32 = 1;
pub const ABORT: u32 = 2;
pub const LIST: u32 = 3;
pub const GO: u32 = 7;

/// Answers to options.
pub const ACK: u32 = 1;
pub const SERVER: u32 = 2;
pub const INFO: u32 = 3;
pub const UNSUPPORTED: u32 = 1 << 31 | 1;
pub const POLICY: u32 = 1 << 31 | 2;
pub const INVALID: u32 = 1 << 31 | 3;
pub const TLS_REQUIRED: u32 = 1 << 31 | 5;
pub const UNKNOWN: u32 = 1 << 31 | 6;
pub const SHUTDOWN: u32 = 1 << 31 | 7;
pub const BLOCK_SIZE_REQUIRED: u32 = 1 << 31 | 8;
pub const TOO_BIG: u32 = 1 << 31 | 9;

/// What is told of an export.
pub const INFO_EXPORT: u16 = 0;
pub const INFO_BLOCK_SIZE: u16 = 3;

/// Flags of an export.
pub const HAS_FLAGS: u16 = 1;
pub const READ_ONLY: u16 = 1 << 1;
pub const SEND_FLUSH: u16 = 1 << 2;
pub const SEND_FUA: u16 = 1 << 3;
pub const SEND_TRIM: u16 = 1 << 5;
pub const SEND_WRITE_ZEROES: u16 = 1 << 6;

/// Commands, and their flags.
pub const READ: u16 = 0;
pub const WRITE: u16 = 1;
pub const DISCONNECT: u16 = 2;
pub const FLUSH: u16 = 3;
pub const TRIM: u16 = 4;
pub const WRITE_ZEROES: u16 = 6;
pub const FUA: u16 = 1;
pub const NO_HOLE: u16 = 1 << 1;

/// What a server says instead of doing what it was asked for. Its numbers are Linux's, as
/// far as there are any.
pub fn error(number: u32) -> io::Error {
    match number as i32 {
        known @ (libc::EPERM
        | libc::EIO
        | libc::ENOMEM
        | libc::EINVAL
        | libc::ENOSPC
        | libc::EOVERFLOW
        | libc::ENOTSUP
        | libc::ESHUTDOWN) => io::Error::from_raw_os_error(known),
        _ => io::Error::other(format!("error {number}, which NBD does not have")),
    }
}
