//! Where in a record a field is: the kernel describes its events itself.

use crate::error::{Error, Result};

/// The layout of one kind of event.
pub struct Format {
    pub id: u16,
    fields: Vec<(String, usize, usize)>,
}

impl Format {
    /// The kernel's text, as in events/ftrace/funcgraph_exit/format.
    pub fn parse(text: &str) -> Result<Self> {
        let id = text.lines().find_map(|line| line.strip_prefix("ID: "));
        let id = id.and_then(|id| id.trim().parse().ok());
        let fields = text.lines().filter_map(|line| {
            let mut parts = line.trim().strip_prefix("field:")?.split(';');
            let name = parts.next()?.rsplit([' ', '*']).next()?.to_owned();
            let mut number = |key: &str| {
                let (found, value) = parts.next()?.trim().split_once(':')?;
                (found == key).then(|| value.parse().ok()).flatten()
            };
            Some((name, number("offset")?, number("size")?))
        });
        Ok(Format {
            id: id.ok_or(Error::Record("an event without a number"))?,
            fields: fields.collect(),
        })
    }

    /// A field of at most eight bytes, not extended by its sign.
    pub fn get(&self, record: &[u8], name: &str) -> Result<u64> {
        let field = self.fields.iter().find(|field| field.0 == name);
        let &(_, offset, size) = field.ok_or(Error::Record("an event lacks a field"))?;
        let end = offset.checked_add(size.min(8));
        let bytes = end.and_then(|end| record.get(offset..end));
        let bytes = bytes.ok_or(Error::Record("an event is too short"))?;
        Ok(bytes.iter().rev().fold(0, |n, &b| n << 8 | u64::from(b)))
    }
}

#[cfg(test)]
mod tests {
    use super::Format;

    const TEXT: &str = "name: funcgraph_exit\nID: 10\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
        \tfield:unsigned long func;\toffset:8;\tsize:8;\tsigned:0;\n";

    #[test]
    fn fields_are_where_the_kernel_says() {
        let format = Format::parse(TEXT).unwrap();
        let record: Vec<u8> = (0..16).collect();
        assert_eq!(format.id, 10);
        assert_eq!(format.get(&record, "common_pid").unwrap(), 0x0706_0504);
        assert_eq!(format.get(&record, "func").unwrap(), 0x0f0e_0d0c_0b0a_0908);
        assert!(format.get(&record[..12], "func").is_err());
        assert!(format.get(&record, "depth").is_err());
    }
}
