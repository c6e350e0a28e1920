//! docs/inspect.schema.json and docs/messages.schema.json, and whether something is as it says.

use serde_json::Value;

/// Those that say nothing of what is valid.
const NOTES: [&str; 4] = ["$schema", "$defs", "title", "description"];

pub fn of_inspect() -> Value {
    let text = include_str!("../../../docs/inspect.schema.json");
    serde_json::from_str(text).expect("a schema")
}

/// A real output is valid, and has no key that the schema does not name.
#[track_caller]
pub fn assert_inspected(found: &Value) {
    let schema = of_inspect();
    let mut wrong = Vec::new();
    check(&schema, &schema, found, "", &mut wrong);
    assert!(wrong.is_empty(), "{}\n{found:#}", wrong.join("\n"));
}

/// Each line of standard error is as docs/messages.schema.json says; the objects.
#[track_caller]
pub fn messages(stderr: &[u8]) -> Vec<Value> {
    let text = include_str!("../../../docs/messages.schema.json");
    let schema: Value = serde_json::from_str(text).expect("a schema");
    let lines = std::str::from_utf8(stderr).expect("UTF-8").lines();
    let parse = |line: &str| {
        let found = serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
        let mut wrong = Vec::new();
        check(&schema, &schema, &found, "", &mut wrong);
        assert!(wrong.is_empty(), "{}\n{found:#}", wrong.join("\n"));
        found
    };
    lines.map(parse).collect()
}

/// As much of JSON Schema 2020-12 as the schema has; more is an error.
pub fn check(root: &Value, schema: &Value, value: &Value, at: &str, wrong: &mut Vec<String>) {
    let mut say = |what: &str| wrong.push(format!("{at}: {what}"));
    for (keyword, wants) in schema.as_object().expect("an object") {
        match keyword.as_str() {
            "type" => {
                let types = wants
                    .as_array()
                    .map_or_else(|| vec![wants], |all| all.iter().collect());
                let fits = types.iter().any(|t| is(value, t.as_str().expect("a type")));
                if !fits {
                    say(&format!("{value} is not {wants}"));
                }
            }
            "enum" if !wants.as_array().expect("a list").contains(value) => {
                say(&format!("{value} is none of {wants}"));
            }
            "minimum" if value.is_number() && value.as_i64() < wants.as_i64() => {
                say(&format!("{value} is below {wants}"));
            }
            "required" => {
                let names = wants.as_array().expect("a list").iter();
                for name in names.filter(|name| value.get(name.as_str().expect("a name")).is_none())
                {
                    say(&format!("{name} is missing"));
                }
            }
            "enum" | "minimum" | "properties" | "items" | "$ref" => {}
            note if NOTES.contains(&note) => {}
            other => panic!("{other}: a keyword that the test does not know"),
        }
    }
    if let Some(to) = schema["$ref"].as_str() {
        let there = root
            .pointer(to.trim_start_matches('#'))
            .expect("what $ref means");
        check(root, there, value, at, wrong);
    }
    if let (Some(properties), Some(object)) = (schema.get("properties"), value.as_object()) {
        for (key, value) in object {
            let at = format!("{at}/{key}");
            match properties.get(key) {
                Some(schema) => check(root, schema, value, &at, wrong),
                None => wrong.push(format!("{at}: is not in the schema")),
            }
        }
    }
    if let (Some(items), Some(list)) = (schema.get("items"), value.as_array()) {
        for (n, value) in list.iter().enumerate() {
            check(root, items, value, &format!("{at}/{n}"), wrong);
        }
    }
}

fn is(value: &Value, kind: &str) -> bool {
    match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        other => panic!("{other}: a type that the test does not know"),
    }
}
