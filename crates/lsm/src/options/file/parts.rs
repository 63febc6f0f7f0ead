//! Options that stand together in one value: `{name=value;name=value;}`.

use super::values::Taken;

/// One option within a value, of a struct `T`.
pub(super) struct Part<T> {
    pub(super) name: &'static str,
    pub(super) text: fn(&T) -> String,
    pub(super) take: fn(&mut T, &str) -> Taken,
}

/// A part whose name and type are those of the struct.
macro_rules! part {
    ($type:ident . $name:ident) => {
        Part::<$type> {
            name: stringify!($name),
            text: |options| options.$name.to_text(),
            take: |options, text| take(&mut options.$name, text),
        }
    };
}
pub(super) use part;

/// The parts of a value; `None` if it is not one that has parts.
pub(super) fn parts_of(text: &str) -> Option<impl Iterator<Item = (&str, &str)>> {
    let text = text.trim();
    (text.starts_with('{') && text.ends_with('}')).then(|| parts(text).map(|(name, value)| (name.trim(), value.trim())))
}

/// The parts of a value.
fn parts(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let inner = text.strip_prefix('{').and_then(|text| text.strip_suffix('}')).unwrap_or_default();
    inner.split(';').filter_map(|part| part.split_once('='))
}

/// What was there under names that this engine does not know, and `known` with the values of `options`.
pub(super) fn render<T>(known: &[Part<T>], options: &T, before: Option<&str>) -> String {
    let is_other = |(name, _): &(&str, &str)| known.iter().all(|part| part.name != *name);
    let others = parts(before.unwrap_or_default()).filter(is_other).map(|(name, value)| format!("{name}={value};"));
    let own = known.iter().map(|part| format!("{}={};", part.name, (part.text)(options)));
    format!("{{{}}}", others.chain(own).collect::<String>())
}

/// The first part that `known` does not have.
pub(super) fn unknown<'a, T>(known: &[Part<T>], text: &'a str) -> Option<&'a str> {
    parts(text).map(|(name, _)| name).find(|name| known.iter().all(|part| part.name != *name))
}

/// Takes what `known` has of a value.
pub(super) fn read<T>(known: &[Part<T>], options: &mut T, text: &str) -> Taken {
    // Before 6.0 RocksDB separated bare numbers by colons.
    if !text.starts_with('{') {
        return Taken::Unknown;
    }
    let mut whole = Taken::Yes;
    for (name, value) in parts(text) {
        let Some(part) = known.iter().find(|part| part.name == name) else { continue };
        match (part.take)(options, value) {
            Taken::Yes => {}
            // The others are taken all the same: they are what a file says.
            Taken::Unknown => whole = Taken::Unknown,
            Taken::Malformed => return Taken::Malformed,
        }
    }
    whole
}
