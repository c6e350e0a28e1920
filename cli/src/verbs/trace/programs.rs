//! What programs of BPF found out, for people or as a line of JSON for each thing.

use serde_json::json;
use std::fmt::Write;
use tane_lab::{shown, Data, Map};

/// For people: entries of arrays that are still zero are counted only.
pub fn text(data: &Data) -> String {
    let mut text = String::new();
    for variable in &data.variables {
        let _ = writeln!(text, "{} = {}", variable.name, shown(&variable.value));
    }
    for map in &data.maps {
        text += &table(map);
    }
    text
}

fn table(map: &Map) -> String {
    let is_array = map.kind.ends_with("array");
    let is_ring = map.kind == "ringbuf";
    let is_shown = |entry: &&tane_lab::Entry| !is_array || !entry.is_zero();
    let rows = map.entries.iter().filter(is_shown).map(|entry| {
        let value = match (entry.sum(), &entry.values[..]) {
            (Some(sum), _) => sum.to_string(),
            (None, [value]) => shown(value),
            (None, values) => {
                let each = values.iter().enumerate();
                let each = each.map(|(cpu, value)| format!("CPU {cpu}: {}", shown(value)));
                each.collect::<Vec<_>>().join(", ")
            }
        };
        (shown(&entry.key), value)
    });
    let mut rows: Vec<(String, String)> = rows.collect();
    if !is_array && !is_ring {
        // The kernel's order is that of its hashes.
        rows.sort_by_key(|(key, _)| (key.parse::<u64>().ok(), key.clone()));
    }
    let mut text = format!("{} ({}): {} entries", map.name, map.kind, rows.len());
    if let zero @ 1.. = map.entries.len() - rows.len() {
        let _ = write!(text, ", and {zero} of zero");
    }
    text.push('\n');
    if map.entries.iter().any(|entry| !entry.stack.is_empty()) {
        for entry in &map.entries {
            let _ = writeln!(text, "  {}", shown(&entry.key));
            for function in &entry.stack {
                let _ = writeln!(text, "    {function}");
            }
        }
        return text;
    }
    let width = rows.iter().map(|(key, _)| key.len()).max().unwrap_or(0);
    for (key, value) in rows {
        let _ = writeln!(text, "  {key:>width$}  {value}");
    }
    text
}

/// For programs, with all bytes, as hexadecimal digits in the order of memory.
pub fn json((file, data): &(String, Data)) -> String {
    let hex = |bytes: &[u8]| {
        let digits: Vec<_> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        digits.concat()
    };
    let mut text = String::new();
    for variable in &data.variables {
        let _ = writeln!(
            text,
            "{}",
            json!({"variable": {"file": file, "name": variable.name, "value": hex(&variable.value)}})
        );
    }
    for map in &data.maps {
        let entries = map.entries.iter().map(|entry| {
            let values: Vec<_> = entry.values.iter().map(|value| hex(value)).collect();
            json!({"key": hex(&entry.key), "values": values, "stack": entry.stack})
        });
        let entries: Vec<_> = entries.collect();
        let map = json!({"file": file, "name": map.name, "kind": map.kind, "entries": entries});
        let _ = writeln!(text, "{}", json!({ "map": map }));
    }
    text
}
