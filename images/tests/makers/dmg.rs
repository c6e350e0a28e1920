//! A writer of DMGs.

use base64::engine::general_purpose::STANDARD;
use base64::Engine;
use std::collections::HashMap;
use std::io::Write;

const SECTOR: usize = 512;
/// Sectors in a chunk.
const CHUNK: usize = 512;

/// How chunks are compressed, by their kind.
pub const KINDS: &[(&str, u32)] = &[
    ("raw", 1),
    ("adc", 0x8000_0004),
    ("zlib", 0x8000_0005),
    ("bzip2", 0x8000_0006),
    ("lzfse", 0x8000_0007),
    ("xz", 0x8000_0008),
];

/// A DMG of this disk. Its first chunk is a table of its own.
pub fn make(disk: &[u8], kind: u32) -> Vec<u8> {
    let (mut file, mut tables) = (Vec::new(), String::new());
    let chunks: Vec<&[u8]> = disk.chunks(CHUNK * SECTOR).collect();
    let (first, others) = chunks.split_at(1);
    for (id, start, chunks) in [(0, 0, first), (1, CHUNK, others)] {
        let table = STANDARD.encode(table(&mut file, start, chunks, kind));
        let lines: Vec<&str> = (0..table.len())
            .step_by(52)
            .map(|at| &table[at..table.len().min(at + 52)])
            .collect();
        tables += &format!(
            "<dict><key>Attributes</key><string>0x0050</string>\n<key>CFName</key>\
             <string>part {id}</string>\n<key>Data</key>\n<data>\n{}\n</data>\n\
             <key>ID</key><string>{id}</string>\n<key>Name</key><string>part {id}</string>\
             </dict>\n",
            lines.join("\n")
        );
    }
    let list = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!DOCTYPE plist PUBLIC \"-//Apple \
         Computer//DTD PLIST 1.0//EN\" \"http://www.apple.com/DTDs/PropertyList-1.0.dtd\">\n\
         <plist version=\"1.0\">\n<dict>\n<key>resource-fork</key>\n<dict>\n<key>blkx</key>\n\
         <array>\n{tables}</array>\n<key>plst</key>\n<array>\n</array>\n</dict>\n</dict>\n\
         </plist>\n"
    );
    let data = file.len() as u64;
    file.extend_from_slice(list.as_bytes());
    let mut trailer = vec![0; 512];
    trailer[..12].copy_from_slice(b"koly\0\0\0\x04\0\0\x02\0");
    let mut put = |at: usize, bytes: &[u8]| trailer[at..at + bytes.len()].copy_from_slice(bytes);
    put(12, &1u32.to_be_bytes());
    put(32, &data.to_be_bytes());
    put(56, &1u32.to_be_bytes());
    put(60, &1u32.to_be_bytes());
    put(216, &data.to_be_bytes());
    put(224, &(list.len() as u64).to_be_bytes());
    put(488, &1u32.to_be_bytes());
    put(492, &((disk.len() / SECTOR) as u64).to_be_bytes());
    file.extend_from_slice(&trailer);
    file
}

/// Append chunks that start at this sector, and tell where they are.
fn table(file: &mut Vec<u8>, start: usize, chunks: &[&[u8]], kind: u32) -> Vec<u8> {
    let sectors: usize = chunks.iter().map(|chunk| chunk.len() / SECTOR).sum();
    let mut table = vec![0; 204];
    table[..8].copy_from_slice(b"mish\0\0\0\x01");
    table[8..16].copy_from_slice(&(start as u64).to_be_bytes());
    table[16..24].copy_from_slice(&(sectors as u64).to_be_bytes());
    table[32..36].copy_from_slice(&(CHUNK as u32 + 8).to_be_bytes());
    table[200..204].copy_from_slice(&(chunks.len() as u32 + 1).to_be_bytes());
    let mut entry = |kind: u32, sector: usize, count: usize, at: usize, len: usize| {
        table.extend_from_slice(&kind.to_be_bytes());
        table.extend_from_slice(&[0; 4]);
        for number in [sector, count, at, len] {
            table.extend_from_slice(&(number as u64).to_be_bytes());
        }
    };
    let mut sector = 0;
    for (i, chunk) in chunks.iter().enumerate() {
        let count = chunk.len() / SECTOR;
        match chunk.iter().all(|b| *b == 0) {
            // Zeros, or of no matter: both kinds.
            true => entry([0, 2][i % 2], sector, count, file.len(), 0),
            false => {
                let packed = pack(chunk, kind);
                entry(kind, sector, count, file.len(), packed.len());
                file.extend_from_slice(&packed);
            }
        }
        sector += count;
    }
    entry(0xffff_ffff, sector, 0, file.len(), 0);
    table
}

fn pack(bytes: &[u8], kind: u32) -> Vec<u8> {
    let mut packed = Vec::new();
    match kind & 0xf {
        4 => return adc(bytes),
        5 => {
            let level = flate2::Compression::default();
            let mut stream = flate2::write::ZlibEncoder::new(&mut packed, level);
            stream.write_all(bytes).unwrap();
            stream.finish().unwrap();
        }
        6 => {
            let level = bzip2::Compression::default();
            let mut stream = bzip2::write::BzEncoder::new(&mut packed, level);
            stream.write_all(bytes).unwrap();
            stream.finish().unwrap();
        }
        7 => drop(lzfse_rust::encode_bytes(bytes, &mut packed).unwrap()),
        8 => {
            let mut stream = liblzma::write::XzEncoder::new(&mut packed, 1);
            stream.write_all(bytes).unwrap();
            stream.finish().unwrap();
        }
        _ => packed.extend_from_slice(bytes),
    }
    packed
}

/// Bytes as they are, and copies of both lengths.
fn adc(bytes: &[u8]) -> Vec<u8> {
    let mut packed = Vec::new();
    let mut seen: HashMap<&[u8], usize> = HashMap::new();
    let (mut at, mut literal) = (0, 0);
    let flush = |packed: &mut Vec<u8>, from: usize, to: usize| {
        for piece in bytes[from..to].chunks(128) {
            packed.push(0x80 | (piece.len() - 1) as u8);
            packed.extend_from_slice(piece);
        }
    };
    while at + 4 <= bytes.len() {
        let before = seen.insert(&bytes[at..at + 4], at);
        let Some(from) = before.filter(|from| at - from <= 1 << 16) else {
            at += 1;
            continue;
        };
        let same = (0..67.min(bytes.len() - at)).take_while(|i| bytes[from + i] == bytes[at + i]);
        let (len, distance) = (same.count(), at - from - 1);
        flush(&mut packed, literal, at);
        if len <= 18 && distance < 1024 {
            let first = ((len - 3) << 2 | distance >> 8) as u8;
            packed.extend_from_slice(&[first, distance as u8]);
        } else {
            packed.push(0x40 | (len - 4) as u8);
            packed.extend_from_slice(&(distance as u16).to_be_bytes());
        }
        at += len;
        literal = at;
    }
    flush(&mut packed, literal, bytes.len());
    packed
}
