//! The checksum of cksum(1), as POSIX defines it.

const POLYNOMIAL: u32 = 0x04c1_1db7;

const TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut rest = (byte as u32) << 24;
        let mut bit = 0;
        while bit < 8 {
            let carry = rest >> 31;
            rest = (rest << 1) ^ (POLYNOMIAL * carry);
            bit += 1;
        }
        table[byte] = rest;
        byte += 1;
    }
    table
};

#[derive(Clone, Copy, Default)]
pub struct Cksum {
    rest: u32,
    len: u64,
}

impl Cksum {
    pub fn add(&mut self, bytes: &[u8]) {
        self.len += bytes.len() as u64;
        for &byte in bytes {
            self.push(byte);
        }
    }

    fn push(&mut self, byte: u8) {
        let index = (self.rest >> 24) as u8 ^ byte;
        self.rest = (self.rest << 8) ^ TABLE[index as usize];
    }

    pub fn len(&self) -> u64 {
        self.len
    }

    /// The length, without zeroes at its end, is a part of what is summed up.
    pub fn finish(mut self) -> u32 {
        let mut len = self.len;
        while len > 0 {
            self.push(len as u8);
            len >>= 8;
        }
        !self.rest
    }
}
