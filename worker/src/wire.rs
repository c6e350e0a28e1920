//! Arguments and answers as bytes: integers little-endian in eight bytes, bytes and
//! texts behind their length, structures as they are in memory.

use crate::failure::{Failure, Result};
use crate::records::{MountHow, Record, SharedPart, Stat, StatFs, Time, VolumeRecord};
use std::ffi::OsStr;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// Bytes that are being written into a room of fixed size.
pub(crate) struct Writer<'a> {
    room: &'a mut [u8],
    at: usize,
}

impl<'a> Writer<'a> {
    pub fn new(room: &'a mut [u8]) -> Self {
        Writer { room, at: 0 }
    }

    pub fn len(&self) -> usize {
        self.at
    }

    /// The next bytes, to be filled.
    pub fn take(&mut self, len: usize) -> Result<&mut [u8]> {
        let end = self
            .at
            .checked_add(len)
            .filter(|end| *end <= self.room.len());
        let too_big = || Failure::new(libc::E2BIG, "the arguments are too long for one call");
        let end = end.ok_or_else(too_big)?;
        let taken = &mut self.room[self.at..end];
        self.at = end;
        Ok(taken)
    }

    /// Of what was taken last, so many bytes at the end were not needed.
    pub fn give_back(&mut self, len: usize) {
        self.at -= len;
    }

    /// Of what was taken, from `place` on.
    pub fn put_at(&mut self, place: usize, bytes: &[u8]) {
        self.room[place..place + bytes.len()].copy_from_slice(bytes);
    }

    pub fn left(&self) -> usize {
        self.room.len() - self.at
    }

    pub fn raw(&mut self, bytes: &[u8]) -> Result<()> {
        self.take(bytes.len())?.copy_from_slice(bytes);
        Ok(())
    }

    pub fn int(&mut self, value: u64) -> Result<()> {
        self.raw(&value.to_le_bytes())
    }

    pub fn bytes(&mut self, bytes: &[u8]) -> Result<()> {
        self.int(bytes.len() as u64)?;
        self.raw(bytes)
    }
}

/// Bytes that somebody else wrote.
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

fn malformed() -> Failure {
    Failure::malformed()
}

impl<'a> Reader<'a> {
    pub fn new(rest: &'a [u8]) -> Self {
        Reader { rest }
    }

    pub fn raw(&mut self, len: usize) -> Result<&'a [u8]> {
        let (first, rest) = self.rest.split_at_checked(len).ok_or_else(malformed)?;
        self.rest = rest;
        Ok(first)
    }

    pub fn int(&mut self) -> Result<u64> {
        let bytes = self.raw(8)?.try_into().map_err(|_| malformed())?;
        Ok(u64::from_le_bytes(bytes))
    }

    pub fn bytes(&mut self) -> Result<&'a [u8]> {
        let len = usize::try_from(self.int()?).map_err(|_| malformed())?;
        self.raw(len)
    }

    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub fn left(&self) -> usize {
        self.rest.len()
    }

    /// Whether a 0 comes next.
    pub fn is_zero_here(&self) -> bool {
        self.rest.starts_with(&[0; 8])
    }

    /// For what has a length that its bytes do not.
    pub fn malformed<T>(&self) -> Result<T> {
        Err(malformed())
    }
}

/// What can cross.
pub(crate) trait Wire<'a>: Sized {
    fn put(&self, to: &mut Writer) -> Result<()>;
    fn get(from: &mut Reader<'a>) -> Result<Self>;
}

impl Wire<'_> for () {
    fn put(&self, _: &mut Writer) -> Result<()> {
        Ok(())
    }

    fn get(_: &mut Reader) -> Result<()> {
        Ok(())
    }
}

macro_rules! integers {
    ($($type:ty),*) => { $(
        impl Wire<'_> for $type {
            fn put(&self, to: &mut Writer) -> Result<()> {
                to.int(*self as u64)
            }

            fn get(from: &mut Reader) -> Result<$type> {
                Ok(from.int()? as $type)
            }
        }
    )* };
}

integers!(u32, u64, i32, i64);

impl Wire<'_> for bool {
    fn put(&self, to: &mut Writer) -> Result<()> {
        to.int(u64::from(*self))
    }

    fn get(from: &mut Reader) -> Result<bool> {
        Ok(from.int()? != 0)
    }
}

impl<'a> Wire<'a> for &'a [u8] {
    fn put(&self, to: &mut Writer) -> Result<()> {
        to.bytes(self)
    }

    fn get(from: &mut Reader<'a>) -> Result<&'a [u8]> {
        from.bytes()
    }
}

impl<'a> Wire<'a> for &'a OsStr {
    fn put(&self, to: &mut Writer) -> Result<()> {
        to.bytes(self.as_bytes())
    }

    fn get(from: &mut Reader<'a>) -> Result<&'a OsStr> {
        from.bytes().map(OsStr::from_bytes)
    }
}

impl Wire<'_> for Vec<u8> {
    fn put(&self, to: &mut Writer) -> Result<()> {
        to.bytes(self)
    }

    fn get(from: &mut Reader) -> Result<Vec<u8>> {
        from.bytes().map(<[u8]>::to_vec)
    }
}

impl Wire<'_> for PathBuf {
    fn put(&self, to: &mut Writer) -> Result<()> {
        to.bytes(self.as_os_str().as_bytes())
    }

    fn get(from: &mut Reader) -> Result<PathBuf> {
        from.bytes().map(|b| OsStr::from_bytes(b).into())
    }
}

/// What is no UTF-8 is made some: it is for people.
impl Wire<'_> for String {
    fn put(&self, to: &mut Writer) -> Result<()> {
        to.bytes(self.as_bytes())
    }

    fn get(from: &mut Reader) -> Result<String> {
        Ok(String::from_utf8_lossy(from.bytes()?).into_owned())
    }
}

impl<'a> Wire<'a> for &'a str {
    fn put(&self, to: &mut Writer) -> Result<()> {
        to.bytes(self.as_bytes())
    }

    fn get(from: &mut Reader<'a>) -> Result<Self> {
        std::str::from_utf8(from.bytes()?).map_err(|_| malformed())
    }
}

impl<'a, T: Wire<'a>> Wire<'a> for Option<T> {
    fn put(&self, to: &mut Writer) -> Result<()> {
        self.is_some().put(to)?;
        self.as_ref().map_or(Ok(()), |value| value.put(to))
    }

    fn get(from: &mut Reader<'a>) -> Result<Self> {
        match bool::get(from)? {
            true => T::get(from).map(Some),
            false => Ok(None),
        }
    }
}

/// A list of what is no byte.
#[derive(Clone, Debug, Default)]
pub struct List<T>(pub Vec<T>);

impl<'a, T: Wire<'a>> Wire<'a> for List<T> {
    fn put(&self, to: &mut Writer) -> Result<()> {
        to.int(self.0.len() as u64)?;
        self.0.iter().try_for_each(|value| value.put(to))
    }

    fn get(from: &mut Reader<'a>) -> Result<Self> {
        let count = from.int()?;
        let mut list = Vec::new();
        for _ in 0..count {
            if from.is_empty() {
                return from.malformed();
            }
            list.push(T::get(from)?);
        }
        Ok(List(list))
    }
}

impl Wire<'_> for MountHow {
    fn put(&self, to: &mut Writer) -> Result<()> {
        self.flags.put(to)?;
        self.fstype.put(to)?;
        self.options.put(to)
    }

    fn get(from: &mut Reader) -> Result<Self> {
        Ok(MountHow {
            flags: u32::get(from)?,
            fstype: Option::<String>::get(from)?,
            options: String::get(from)?,
        })
    }
}

macro_rules! records {
    ($($type:ty),*) => { $(
        impl Wire<'_> for $type {
            fn put(&self, to: &mut Writer) -> Result<()> {
                let at = std::ptr::from_ref(self).cast();
                // SAFETY: a Record has no padding.
                to.raw(unsafe { std::slice::from_raw_parts(at, size_of::<$type>()) })
            }

            fn get(from: &mut Reader) -> Result<$type> {
                let bytes = from.raw(size_of::<$type>())?;
                let mut record = MaybeUninit::<$type>::uninit();
                // SAFETY: as many bytes, and any are a Record.
                let mut record = unsafe {
                    let to = record.as_mut_ptr().cast::<u8>();
                    to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
                    record.assume_init()
                };
                record.tidy();
                Ok(record)
            }
        }
    )* };
}

records!(Time, Stat, StatFs, SharedPart, VolumeRecord);
