//! The tables that a DMG's property list has: an XML text with a dictionary
//! "resource-fork", in that an array "blkx", and in it the tables in base64.

use base64::engine::general_purpose::STANDARD;
use base64::Engine;

/// None: it is damaged.
pub(super) fn tables(list: &str) -> Option<Vec<Vec<u8>>> {
    let (_, rest) = list.split_once("<key>blkx</key>")?;
    let (list, _) = rest
        .trim_start()
        .strip_prefix("<array>")?
        .split_once("</array>")?;
    let tables = list.split("<key>Data</key>").skip(1);
    let decoded = tables.map(|part| {
        let part = part.trim_start().strip_prefix("<data>")?;
        let (text, _) = part.split_once("</data>")?;
        let text: String = text.split_ascii_whitespace().collect();
        STANDARD.decode(text).ok()
    });
    decoded.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_found_and_what_is_damaged_is_told() {
        let whole = "<dict><key>resource-fork</key><dict><key>blkx</key>\n<array>\
            <dict><key>Attributes</key><string>0x0050</string><key>Data</key>\n<data>\n\
            \tAAEC\n\tAw==\n</data></dict><dict><key>Data</key><data>/w==</data></dict>\
            </array><key>plst</key><array><dict><key>Data</key><data>AA==</data></dict>\
            </array></dict></dict>";
        assert_eq!(tables(whole), Some(vec![vec![0, 1, 2, 3], vec![0xff]]));
        for (from, to) in [("blkx", "x"), ("</array>", ""), ("AAEC", "A-EC")] {
            assert_eq!(tables(&whole.replace(from, to)), None, "{from}");
        }
        let empty = "<key>blkx</key><array/><key>plst</key><array></array>";
        assert_eq!(tables(empty), None);
    }
}
