//! The text of a script, to commands and back.

use std::str::FromStr;

const END_OF_INPUT: &str = "----";

/// One command of a script.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Command {
    /// The line in the file, from 1.
    pub line: usize,
    /// The first word.
    pub name: String,
    /// The other words.
    pub arguments: Vec<Argument>,
    /// The lines before `----`, each ended by a newline.
    pub input: String,
    /// The first line as it stands in the file.
    text: String,
}

/// A word of a command: `key`, `key=value` or `key=(value, value)`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Argument {
    /// What stands before `=`.
    pub key: String,
    /// What stands behind it.
    pub values: Vec<String>,
}

impl Command {
    /// The values of the argument `key`, if it is there.
    pub fn values(&self, key: &str) -> Option<&[String]> {
        self.arguments.iter().find(|argument| argument.key == key).map(|argument| &argument.values[..])
    }

    /// Whether the argument `key` is there.
    pub fn has(&self, key: &str) -> bool {
        self.values(key).is_some()
    }

    /// The only value of the argument `key`.
    ///
    /// # Panics
    ///
    /// If it has several, or cannot be parsed.
    pub fn get<T: FromStr>(&self, key: &str) -> Option<T> {
        let values = self.values(key)?;
        match values {
            [value] => match value.parse() {
                Ok(value) => Some(value),
                Err(_) => panic!("line {}: cannot parse the value of {key}: {value}", self.line),
            },
            _ => panic!("line {}: {key} needs one value", self.line),
        }
    }

    /// The only value of the argument `key`, or `default`.
    ///
    /// # Panics
    ///
    /// As [`get`](Self::get).
    pub fn get_or<T: FromStr>(&self, key: &str, default: T) -> T {
        self.get(key).unwrap_or(default)
    }

    /// The words of each line of the input that is not empty.
    pub fn input_words(&self) -> impl Iterator<Item = Vec<&str>> {
        self.input.lines().map(|line| line.split_whitespace().collect::<Vec<_>>()).filter(|words| !words.is_empty())
    }
}

/// What a script consists of.
#[derive(Debug)]
pub(super) enum Part {
    /// A comment or an empty line between commands.
    Verbatim(String),
    Command {
        command: Command,
        output: String,
    },
}

/// Reads a script.
pub(super) fn parse(text: &str) -> Result<Vec<Part>, String> {
    let mut parts = Vec::new();
    let mut lines = (1..).zip(text.lines());
    while let Some((number, line)) = lines.next() {
        if line.trim().is_empty() || line.starts_with('#') {
            parts.push(Part::Verbatim(line.to_owned()));
            continue;
        }
        let mut command = parse_command(number, line)?;
        loop {
            match lines.next() {
                None => return Err(format!("line {number}: no {END_OF_INPUT}")),
                Some((_, END_OF_INPUT)) => break,
                Some((_, input)) => {
                    command.input.push_str(input);
                    command.input.push('\n');
                }
            }
        }
        let output = parse_output(number, &mut lines.by_ref().map(|(_, line)| line))?;
        parts.push(Part::Command { command, output });
    }
    Ok(parts)
}

fn parse_output(number: usize, lines: &mut dyn Iterator<Item = &str>) -> Result<String, String> {
    let mut output = String::new();
    let mut line = lines.next();
    if line != Some(END_OF_INPUT) {
        while let Some(text) = line.filter(|text| !text.is_empty()) {
            output.push_str(text);
            output.push('\n');
            line = lines.next();
        }
        return Ok(output);
    }
    while let Some(text) = lines.next() {
        if text == END_OF_INPUT {
            return match (lines.next(), lines.next()) {
                (Some(END_OF_INPUT), None | Some("")) => Ok(output),
                _ => Err(format!("line {number}: output with empty lines ends with {END_OF_INPUT} twice")),
            };
        }
        output.push_str(text);
        output.push('\n');
    }
    Err(format!("line {number}: output does not end"))
}

/// Writes a script.
pub(super) fn render(parts: &[Part]) -> String {
    let mut text = String::new();
    for (index, part) in parts.iter().enumerate() {
        match part {
            Part::Verbatim(line) => {
                text.push_str(line);
                text.push('\n');
            }
            Part::Command { command, output } => {
                text.push_str(&format!("{}\n{}{END_OF_INPUT}\n", command.text, command.input));
                // Only the outer form can hold empty lines, and lines that look like the end of the input.
                if output.lines().any(|line| line.is_empty() || line == END_OF_INPUT) {
                    text.push_str(&format!("{END_OF_INPUT}\n{output}{END_OF_INPUT}\n{END_OF_INPUT}\n"));
                } else {
                    text.push_str(output);
                }
                if index + 1 < parts.len() {
                    text.push('\n');
                }
            }
        }
    }
    text
}

fn parse_command(number: usize, line: &str) -> Result<Command, String> {
    let mut rest = line.trim();
    let mut words = Vec::new();
    while !rest.is_empty() {
        let end = match rest.find(['(', ' ']) {
            Some(open) if rest[open..].starts_with('(') => match rest[open..].find(')') {
                Some(close) => open + close + 1,
                None => return Err(format!("line {number}: no closing parenthesis")),
            },
            Some(blank) => blank,
            None => rest.len(),
        };
        words.push(&rest[..end]);
        rest = rest[end..].trim_start();
    }
    let mut words = words.into_iter();
    let name = words.next().unwrap_or_default().to_owned();
    let arguments = words.map(parse_argument).collect();
    Ok(Command { line: number, name, arguments, input: String::new(), text: line.to_owned() })
}

fn parse_argument(word: &str) -> Argument {
    let (key, value) = word.split_once('=').map_or((word, None), |(key, value)| (key, Some(value)));
    let values = match value {
        None => Vec::new(),
        Some(value) => match value.strip_prefix('(').and_then(|inner| inner.strip_suffix(')')) {
            Some(inner) => {
                inner.split(',').map(|item| item.trim().to_owned()).filter(|item| !item.is_empty()).collect()
            }
            None => vec![value.to_owned()],
        },
    };
    Argument { key: key.to_owned(), values }
}
