//! Encryption inside a container: by LUKS, and by AES as QEMU first had it. Tables stay
//! plain, and so do packed clusters.

mod cipher;

use crate::backend::{check_range, Backend};
use crate::buffers::{buffer_mut, scatter, total, Buffers};
use crate::errors::Locked;
use crate::format::Format;
use crate::pages::{be32, invalid, read_exactly, unsupported};
use crate::secrets::Secrets;
use cipher::{Cipher, SECTOR};
use std::fmt;
use std::io;
use tane_luks::{Header, LONGEST};

/// The most rounds of PBKDF2 for a key: minutes, where QEMU takes two seconds.
const MOST_ROUNDS: u32 = 1 << 28;

/// How a container encrypts what is in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encryption {
    /// QEMU's first: the passphrase itself is the key, and nothing tells a wrong one.
    Aes,
    /// A header of LUKS 1 inside of the container.
    Luks,
}

impl Encryption {
    /// "aes", "luks": as QEMU calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Aes => "aes",
            Self::Luks => "luks",
        }
    }

    /// That of a container of this format, by its header.
    pub(crate) fn of(file: &dyn Backend, format: Format) -> io::Result<Option<Self>> {
        let at = match format {
            Format::Qcow2 => 32,
            Format::Qcow => 36,
            _ => return Ok(None),
        };
        let method = be32(&read_exactly(file, at, 4)?, 0);
        match (method, format) {
            (0, _) => Ok(None),
            (1, _) => Ok(Some(Self::Aes)),
            (2, Format::Qcow2) => Ok(Some(Self::Luks)),
            _ => Err(unsupported("is encrypted in a way that nobody knows")),
        }
    }
}

impl fmt::Display for Encryption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What the vector of a sector is counted by.
enum Position {
    /// Where it is on the disk.
    Disk,
    /// Where it is in the file, from this place on.
    File(u64),
}

/// The cipher of a container's data.
pub(crate) struct Crypt {
    cipher: Cipher,
    by: Position,
}

impl Crypt {
    /// As QEMU first had it: AES-128-CBC, and the first 16 bytes of the passphrase.
    pub fn aes(secrets: &Secrets) -> io::Result<Self> {
        unlock(secrets, Encryption::Aes, |secret| {
            let mut key = [0; 16];
            let len = secret.len().min(key.len());
            key[..len].copy_from_slice(&secret[..len]);
            Ok(Cipher::new("aes-cbc-plain64", &key).map(|cipher| Self {
                cipher,
                by: Position::Disk,
            }))
        })
    }

    /// By a LUKS header of `len` bytes that is at `at`, for data that is counted from
    /// `start` on; all of the file.
    pub fn luks(
        file: &dyn Backend,
        (at, len): (u64, u64),
        start: u64,
        secrets: &Secrets,
    ) -> io::Result<Self> {
        if len > LONGEST {
            return Err(invalid("has a LUKS header of an impossible size"));
        }
        let bytes = read_exactly(file, at, len as usize)?;
        if !bytes.starts_with(b"LUKS\xba\xbe\0\x01") {
            return Err(invalid("has no LUKS header where it says so"));
        }
        let header = Header::parse(&bytes).map_err(invalid)?;
        if header.rounds() > MOST_ROUNDS {
            return Err(invalid(
                "has a key that takes hours, which no program makes",
            ));
        }
        let name = &header.data.cipher;
        let other = || {
            unsupported(format!(
                "is encrypted by {name}, which cannot be read; qemu-img convert decrypts it"
            ))
        };
        unlock(secrets, Encryption::Luks, |secret| {
            let key = header.unlock(&[secret.to_vec()], |slot, key, len| {
                let cipher = Cipher::new(&slot.cipher, key).ok_or_else(other)?;
                let start = usize::try_from(slot.at).ok();
                let end = start.and_then(|at| at.checked_add(len.next_multiple_of(SECTOR)));
                let split = start.zip(end).and_then(|(at, end)| bytes.get(at..end));
                Ok::<_, io::Error>(split.map(|split| {
                    let mut split = split.to_vec();
                    cipher.decrypt(&mut split, 0);
                    split.truncate(len);
                    split
                }))
            })?;
            let Some(key) = key else { return Ok(None) };
            let cipher = Cipher::new(name, &key).ok_or_else(other)?;
            let by = Position::File(start);
            Ok(Some(Self { cipher, by }))
        })
    }

    /// Bytes of the disk from `offset` on, which are at `at` in the file; `read` reads the
    /// file, and says whether it did.
    pub fn read(
        &self,
        file: &dyn Backend,
        to: Buffers,
        (at, offset): (u64, u64),
        read: impl FnOnce(Buffers, u64) -> io::Result<bool>,
    ) -> io::Result<bool> {
        let outside = || invalid("a block is behind the end of the file");
        let position = match self.by {
            Position::Disk => offset,
            Position::File(start) => at.checked_sub(start).ok_or_else(outside)?,
        };
        let lead = (position % SECTOR as u64) as usize;
        let start = at.checked_sub(lead as u64).ok_or_else(outside)?;
        let len = total(to);
        let mut bytes = vec![0; (lead + len).next_multiple_of(SECTOR)];
        check_range(file.size(), start, bytes.len() as u64).map_err(|_| outside())?;
        if !read(&[buffer_mut(&mut bytes)], start)? {
            return Ok(false);
        }
        self.cipher.decrypt(&mut bytes, position / SECTOR as u64);
        // SAFETY: guest memory, see `Buffers`.
        unsafe { scatter(&bytes[lead..lead + len], to) };
        Ok(true)
    }
}

/// What the first secret that fits opens: of those that were given, or that are asked for.
fn unlock<T>(
    secrets: &Secrets,
    how: Encryption,
    open: impl Fn(&[u8]) -> io::Result<Option<T>>,
) -> io::Result<T> {
    let locked = |why: &str| {
        let text = format!("is encrypted ({how}); {why}");
        Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            Locked(text),
        ))
    };
    if !secrets.given.is_empty() {
        for secret in &secrets.given {
            if let Some(opened) = open(secret)? {
                return Ok(opened);
            }
        }
        return locked("no passphrase fits");
    }
    while let Some(secret) = secrets.ask.as_ref().and_then(|ask| ask()) {
        if let Some(opened) = open(&secret)? {
            return Ok(opened);
        }
    }
    locked("no passphrase was given")
}
