//! Lists of guest buffers, and copies to and from them.
//!
//! The guest may change its memory at any time, from another thread. So no Rust
//! reference ever covers it; bytes are moved by the host kernel or by an
//! instruction the compiler cannot look into.

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
        copy_to_guest(from.as_ptr(), buffer.iov_base.cast(), len);
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
        copy_from_guest(buffer.iov_base.cast(), to.as_mut_ptr(), len);
        to = &mut to[len..];
        if to.is_empty() {
            return;
        }
    }
}

/// Fill the buffers with zeros.
///
/// # Safety
/// The buffers are writable memory that no Rust reference covers.
pub unsafe fn clear(buffers: Buffers) {
    for buffer in buffers {
        zero(buffer.iov_base.cast(), buffer.iov_len);
    }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
unsafe fn copy_to_guest(from: *const u8, to: *mut u8, len: usize) {
    std::arch::asm!(
        "rep movsb",
        inout("rcx") len => _, inout("rsi") from => _, inout("rdi") to => _,
        options(nostack, preserves_flags)
    );
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
unsafe fn copy_from_guest(from: *const u8, to: *mut u8, len: usize) {
    // The same instruction; elsewhere the sides differ.
    copy_to_guest(from, to, len);
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
unsafe fn zero(to: *mut u8, len: usize) {
    std::arch::asm!(
        "rep stosb",
        inout("rcx") len => _, inout("rdi") to => _, in("al") 0u8,
        options(nostack, preserves_flags)
    );
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
unsafe fn copy_to_guest(from: *const u8, to: *mut u8, len: usize) {
    use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
    for i in 0..len {
        AtomicU8::from_ptr(to.add(i)).store(*from.add(i), Relaxed);
    }
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
unsafe fn copy_from_guest(from: *const u8, to: *mut u8, len: usize) {
    use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
    for i in 0..len {
        *to.add(i) = AtomicU8::from_ptr(from.add(i).cast_mut()).load(Relaxed);
    }
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
unsafe fn zero(to: *mut u8, len: usize) {
    use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
    for i in 0..len {
        AtomicU8::from_ptr(to.add(i)).store(0, Relaxed);
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
}
