//! A text without its comments and literals, and the paths that `use` declarations name.

/// Replaces comments and the contents of string and character literals by blanks. Lines stay where they are.
pub fn code_only(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = bytes.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let end = literal_or_comment_end(bytes, at);
        if end > at {
            out[at..end].iter_mut().filter(|byte| **byte != b'\n').for_each(|byte| *byte = b' ');
            at = end;
        } else {
            at += 1;
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// The end of the comment or literal that begins at `at`, or `at` if none does.
fn literal_or_comment_end(bytes: &[u8], at: usize) -> usize {
    let rest = &bytes[at..];
    let ident_before = at > 0 && is_ident(bytes[at - 1]);
    match rest {
        [b'/', b'/', ..] => at + rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len()),
        [b'/', b'*', ..] => at + block_comment_len(rest),
        [b'"', ..] => at + quoted_len(rest),
        [b'r', b'"' | b'#', ..] if !ident_before => at + raw_len(rest),
        [b'b', b'r', b'"' | b'#', ..] if !ident_before => at + 1 + raw_len(&rest[1..]),
        [b'\'', b'\\', ..] => {
            at + 2 + rest[2..].iter().skip(1).position(|byte| *byte == b'\'').map_or(0, |end| end + 2)
        }
        [b'\'', first, ..] => {
            let width = match first {
                0xF0.. => 4,
                0xE0.. => 3,
                0xC0.. => 2,
                _ => 1,
            };
            if rest.get(1 + width) == Some(&b'\'') { at + width + 2 } else { at }
        }
        _ => at,
    }
}

fn is_ident(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

fn block_comment_len(rest: &[u8]) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    while at < rest.len() {
        match &rest[at..] {
            [b'/', b'*', ..] => (depth, at) = (depth + 1, at + 2),
            [b'*', b'/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at
}

fn quoted_len(rest: &[u8]) -> usize {
    let mut at = 1;
    while at < rest.len() {
        match rest[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

/// The length of `r"…"` or `r#"…"#`; 0 for a raw identifier.
fn raw_len(rest: &[u8]) -> usize {
    let hashes = rest[1..].iter().take_while(|byte| **byte == b'#').count();
    if rest.get(1 + hashes) != Some(&b'"') {
        return 0;
    }
    let mut closing = vec![b'"'];
    closing.resize(1 + hashes, b'#');
    let body = 2 + hashes;
    rest[body..]
        .windows(closing.len())
        .position(|window| window == closing)
        .map_or(rest.len(), |end| body + end + closing.len())
}

/// The positions in `code` at which the word `word` stands.
pub fn word_positions<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    code.match_indices(word).map(|(at, _)| at).filter(move |&at| {
        let before = at.checked_sub(1).map(|before| code.as_bytes()[before]);
        let after = code.as_bytes().get(at + word.len()).copied();
        !before.is_some_and(is_ident) && !after.is_some_and(is_ident)
    })
}

/// Every path that begins with `head` (`crate` or `super`), groups expanded: `a::{b, c::d}` gives two.
pub fn paths_from(code: &str, head: &str) -> Vec<Vec<String>> {
    let mut paths = Vec::new();
    for at in word_positions(code, head) {
        let after_colons = code[..at].trim_end().ends_with("::");
        if !after_colons && code[at + head.len()..].trim_start().starts_with("::") {
            expand(&code[at..], &[], &mut paths);
        }
    }
    paths
}

/// Reads one use tree from the front of `text`; returns how much of it was read.
fn expand(text: &str, prefix: &[String], paths: &mut Vec<Vec<String>>) -> usize {
    let mut path = prefix.to_vec();
    let mut at = 0;
    loop {
        at += blanks(&text[at..]);
        let rest = &text[at..];
        if let Some(group) = rest.strip_prefix('{') {
            at += 1;
            let mut inside = group;
            while !inside.is_empty() && !inside.starts_with('}') {
                let mut read = expand(inside, &path, paths);
                read += blanks(&inside[read..]);
                if inside[read..].starts_with(',') {
                    read += 1;
                }
                read += blanks(&inside[read..]);
                // Something that is no use tree: give up on this group.
                if read == 0 {
                    return at;
                }
                at += read;
                inside = &inside[read..];
            }
            return at + 1;
        }
        let word = rest.bytes().take_while(|byte| is_ident(*byte) || *byte == b'*').count();
        if word == 0 {
            return at;
        }
        path.push(rest[..word].to_owned());
        at += word;
        let gap = blanks(&text[at..]);
        if text[at + gap..].starts_with("::") {
            at += gap + 2;
            continue;
        }
        if text[at + gap..].starts_with("as ") {
            let renamed = gap + 3;
            at += renamed + text[at + renamed..].bytes().take_while(|byte| is_ident(*byte)).count();
        }
        paths.push(path);
        return at;
    }
}

fn blanks(text: &str) -> usize {
    text.len() - text.trim_start().len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_become_blanks() {
        for (text, wanted) in [
            ("a // b\nc", "a     \nc"),
            ("a /* b /* c */ d */ e", "a                   e"),
            ("f(\"x // y\", 'z', '\\'', 'é')", "f(        ,    ,     ,     )"),
            ("r#\"a\"b\"# c br\"d\" e", "         c       e"),
            ("fn f<'a>(x: &'a str)", "fn f<'a>(x: &'a str)"),
            ("let r#type = 1;", "let r#type = 1;"),
        ] {
            assert_eq!(code_only(text), wanted, "{text}");
        }
    }

    #[test]
    fn use_trees_are_expanded() {
        let code = "use crate::a::{b, c::{d as e, f}, self};\nlet x = crate::g::h(1); pub(crate) fn other_crate::x()";
        let paths: Vec<String> = paths_from(code, "crate").iter().map(|path| path.join("::")).collect();
        assert_eq!(paths, ["crate::a::b", "crate::a::c::d", "crate::a::c::f", "crate::a::self", "crate::g::h"]);
        assert_eq!(paths_from("use super::super::x::*;", "super"), [["super", "super", "x", "*"].map(str::to_owned)]);
    }
}
