//! Configurations in results: objects in which engines, steps and the like go by the names that the command line has for them.

use serde::{Serialize, Serializer};
use serde_json::Value;
use std::fmt::Display;

/// The whole of a configuration, for a result line, but for the directory of the databases: of that the machine's file system tells. `None` where JSON cannot say it, as with a directory whose name is not Unicode.
pub(crate) fn whole(config: &impl Serialize) -> Option<Value> {
    let mut value = serde_json::to_value(config).ok()?;
    if let Some(settings) = value.as_object_mut() {
        settings.remove("dir");
    }
    Some(value)
}

/// Serialises one value as its name.
pub(crate) fn name<T: Display, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

/// Serialises a list of values as their names.
pub(crate) fn names<T: Display, S: Serializer>(values: &[T], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(values.iter().map(ToString::to_string))
}
