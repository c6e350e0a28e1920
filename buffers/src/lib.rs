//! Lists of guest buffers, and copies to and from them.
//!
//! The guest may change its memory at any time, from another thread. So no Rust
//! reference ever covers it; bytes are moved by the host kernel or by an
//! instruction the compiler cannot look into.
//!
//! Imports of ours: none.

/// Guest memory to fill or to empty, in order. The pointers stay valid for the
/// duration of a call; the guest may change the bytes at any time, so a backend
/// hands them to the host kernel or copies them once, and never forms slices.
pub type Buffers<'a> = &'a [libc::iovec];

/// The sum of the buffers' lengths, in bytes.
#[inline]
pub fn total(buffers: Buffers) -> usize {
    buffers.iter().map(|b| b.iov_len).sum()
}

/// Copy `from` into the buffers; what does not fit is left.
///
/// # Safety
/// The buffers are writable memory that no Rust reference covers.
pub unsafe fn scatter(mut from: &[u8], to: Buffers) {
    for buffer in to {
        let len = buffer.iov_len.min(from.len());
        // SAFETY: as the caller promises; the lengths are the shorter one's.
        unsafe { copy_to_guest(from.as_ptr(), buffer.iov_base.cast(), len) };
        from = &from[len..];
        if from.is_empty() {
            return;
        }
    }
}

/// Copy the buffers into `to`; what does not fit is left.
///
/// # Safety
/// The buffers are readable memory that no Rust reference covers.
pub unsafe fn gather(from: Buffers, mut to: &mut [u8]) {
    for buffer in from {
        let len = buffer.iov_len.min(to.len());
        // SAFETY: as the caller promises; the lengths are the shorter one's.
        unsafe { copy_from_guest(buffer.iov_base.cast(), to.as_mut_ptr(), len) };
        to = &mut to[len..];
        if to.is_empty() {
            return;
        }
    }
}

/// Copy between buffers of two guests, or of one, that do not overlap; what does not
/// fit is left. Returns how many bytes that were.
///
/// # Safety
/// Both are memory that no Rust reference covers; `to` is writable.
pub unsafe fn copy(from: Buffers, to: Buffers) -> usize {
    let mut copied = 0;
    let (mut source, mut target) = (from.iter(), to.iter());
    let (mut a, mut b) = (EMPTY, EMPTY);
    loop {
        if a.iov_len == 0 {
            match source.next() {
                Some(next) => a = *next,
                None => return copied,
            }
            continue;
        }
        if b.iov_len == 0 {
            match target.next() {
                Some(next) => b = *next,
                None => return copied,
            }
            continue;
        }
        let len = a.iov_len.min(b.iov_len);
        // SAFETY: as the caller promises; the lengths are the shorter one's.
        unsafe { copy_to_guest(a.iov_base.cast(), b.iov_base.cast(), len) };
        advance(&mut a, len);
        advance(&mut b, len);
        copied += len;
    }
}

const EMPTY: libc::iovec = libc::iovec {
    iov_base: std::ptr::null_mut(),
    iov_len: 0,
};

fn advance(buffer: &mut libc::iovec, len: usize) {
    buffer.iov_base = buffer.iov_base.cast::<u8>().wrapping_add(len).cast();
    buffer.iov_len -= len;
}

/// Fill the buffers with zeros.
///
/// # Safety
/// The buffers are writable memory that no Rust reference covers.
pub unsafe fn clear(buffers: Buffers) {
    for buffer in buffers {
        // SAFETY: as the caller promises; the lengths are the shorter one's.
        unsafe { zero(buffer.iov_base.cast(), buffer.iov_len) };
    }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
unsafe fn copy_to_guest(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: as the caller promises.
    unsafe {
        std::arch::asm!(
            "rep movsb",
            inout("rcx") len => _, inout("rsi") from => _, inout("rdi") to => _,
            options(nostack, preserves_flags)
        );
    }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
unsafe fn copy_from_guest(from: *const u8, to: *mut u8, len: usize) {
    // The same instruction; elsewhere the sides differ.
    // SAFETY: as the caller promises.
    unsafe { copy_to_guest(from, to, len) };
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
unsafe fn zero(to: *mut u8, len: usize) {
    // SAFETY: as the caller promises.
    unsafe {
        std::arch::asm!(
            "rep stosb",
            inout("rcx") len => _, inout("rdi") to => _, in("al") 0u8,
            options(nostack, preserves_flags)
        );
    }
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
unsafe fn copy_to_guest(from: *const u8, to: *mut u8, len: usize) {
    use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
    for i in 0..len {
        // SAFETY: as the caller promises.
        unsafe { AtomicU8::from_ptr(to.add(i)).store(*from.add(i), Relaxed) };
    }
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
unsafe fn copy_from_guest(from: *const u8, to: *mut u8, len: usize) {
    use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
    for i in 0..len {
        // SAFETY: as the caller promises.
        unsafe { *to.add(i) = AtomicU8::from_ptr(from.add(i).cast_mut()).load(Relaxed) };
    }
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
unsafe fn zero(to: *mut u8, len: usize) {
    use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
    for i in 0..len {
        // SAFETY: as the caller promises.
        unsafe { AtomicU8::from_ptr(to.add(i)).store(0, Relaxed) };
    }
}

/// Put the part of `buffers` that is `len` bytes from `start` on into `part`,
/// whose old content goes and whose memory is used again.
pub fn slice_into(buffers: Buffers, mut start: usize, mut len: usize, part: &mut Vec<libc::iovec>) {
    part.clear();
    for buffer in buffers {
        let cut = start.min(buffer.iov_len);
        start -= cut;
        let keep = (buffer.iov_len - cut).min(len);
        len -= keep;
        if keep > 0 {
            part.push(libc::iovec {
                iov_base: buffer.iov_base.cast::<u8>().wrapping_add(cut).cast(),
                iov_len: keep,
            });
        }
    }
}

/// The part of `buffers` that is `len` bytes from `start` on.
pub fn slice(buffers: Buffers, start: usize, len: usize) -> Vec<libc::iovec> {
    let mut part = Vec::with_capacity(buffers.len());
    slice_into(buffers, start, len, &mut part);
    part
}

/// A buffer for memory of ours that is to be filled.
pub fn buffer_mut(bytes: &mut [u8]) -> libc::iovec {
    libc::iovec {
        iov_base: bytes.as_mut_ptr().cast(),
        iov_len: bytes.len(),
    }
}

/// A buffer for memory of ours that is only read.
pub fn buffer(bytes: &[u8]) -> libc::iovec {
    libc::iovec {
        iov_base: bytes.as_ptr().cast_mut().cast(),
        iov_len: bytes.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_of_buffers_has_the_bytes_of_that_range() {
        let mut bytes: Vec<u8> = (0..60).collect();
        let (a, rest) = bytes.split_at_mut(7);
        let (b, c) = rest.split_at_mut(20);
        let all = [
            buffer_mut(a),
            buffer_mut(&mut []),
            buffer_mut(b),
            buffer_mut(c),
        ];
        for start in 0..=60 {
            for len in 0..=60 - start {
                let part = slice(&all, start, len);
                assert_eq!(total(&part), len);
                let mut got = vec![0; len];
                // SAFETY: the buffers are `bytes`, which nothing else uses here.
                unsafe { gather(&part, &mut got) };
                let want: Vec<u8> = (start as u8..(start + len) as u8).collect();
                assert_eq!(got, want);
            }
        }
    }

    #[test]
    fn a_copy_between_buffers_of_other_lengths_has_the_same_bytes() {
        let mut from: Vec<u8> = (0..50).collect();
        for cut in 0..=50 {
            let mut to = [0xff; 60];
            let (a, b) = from.split_at_mut(cut);
            let (c, d) = to.split_at_mut(23);
            let source = [buffer_mut(a), buffer_mut(b)];
            let target = [buffer_mut(c), buffer_mut(&mut []), buffer_mut(d)];
            // SAFETY: the buffers are of vectors that nothing else uses here.
            assert_eq!(unsafe { copy(&source, &target) }, 50);
            assert_eq!(to[..50], from);
            assert_eq!(to[50..], [0xff; 10]);
        }
    }
}
