//! Scripts that pass, fail, are rewritten and are malformed.

use super::*;

const SCRIPT: &str = "\
# Comment.

open wal_size=4096 families=(default, users) sync
put a 1
put b 2
----
open 4096 default|users true
put+a+1
put+b+2

empty
----

gaps
----
----
one

two
----
----

last
----
last
";

fn run(command: &Command) -> String {
    match command.name.as_str() {
        "open" => {
            let families = command.values("families").unwrap_or_default().join("|");
            let mut out = format!("open {} {families} {}\n", command.get_or("wal_size", 0), command.has("sync"));
            for words in command.input_words() {
                out.push_str(&words.join("+"));
                out.push('\n');
            }
            out
        }
        "empty" => String::new(),
        "gaps" => "one\n\ntwo".to_owned(),
        other => other.to_owned(),
    }
}

#[test]
fn a_script_whose_outputs_are_right_passes() {
    assert!(matches!(run_text(SCRIPT, &mut run), Outcome::Same));
}

#[test]
fn rewriting_restores_what_was_wrong_and_nothing_else() {
    for (right, wrong) in [
        ("put+b+2", "put+b+3"),
        ("one\n\ntwo", "one"),
        ("last\n----\nlast\n", "last\n----\n"),
        ("empty\n----\n", "empty\n----\nno\n"),
    ] {
        let damaged = SCRIPT.replacen(right, wrong, 1);
        assert_ne!(damaged, SCRIPT);
        let Outcome::Different { actual, report } = run_text(&damaged, &mut run) else { panic!("no difference seen") };
        assert_eq!(actual, SCRIPT);
        assert!(report.contains("expected:") && report.contains("line "), "{report}");
    }
}

#[test]
fn commands_know_their_lines_and_words() {
    let mut seen = Vec::new();
    let _ = run_text(SCRIPT, &mut |command| {
        seen.push((command.line, command.name.clone(), command.arguments.len()));
        String::new()
    });
    let expected = [(3, "open", 3), (11, "empty", 0), (14, "gaps", 0), (23, "last", 0)];
    assert_eq!(seen, expected.map(|(line, name, count)| (line, name.to_owned(), count)));
}

#[test]
fn malformed_scripts_are_refused() {
    let rows = [
        ("open\nput\n", "line 1: no ----"),
        ("# fine\n\nopen a=(b\n----\n", "line 3: no closing parenthesis"),
        ("open\n----\n----\nout\n", "line 1: output does not end"),
        ("open\n----\n----\nout\n----\nmore\n", "line 1: output with empty lines ends with ---- twice"),
    ];
    for (text, expected) in rows {
        let Outcome::Malformed(reason) = run_text(text, &mut run) else { panic!("accepted: {text}") };
        assert_eq!(reason, expected);
    }
}

#[test]
fn files_of_a_directory_run_in_order_with_their_own_state() {
    let directory = tempfile::tempdir().unwrap();
    write(&directory.path().join("b"), "next\n----\n1\n\nnext\n----\n2\n");
    write(&directory.path().join("a"), "next\n----\n1\n");
    let mut order = Vec::new();
    run_dir(directory.path(), |path| {
        order.push(path.file_name().unwrap().to_owned());
        let mut count = 0;
        move |_: &Command| {
            count += 1;
            count.to_string()
        }
    });
    assert_eq!(order, ["a", "b"]);
}

#[test]
#[should_panic(expected = "outputs differ")]
fn a_file_with_a_wrong_output_fails() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("wrong");
    write(&path, "next\n----\n1\n");
    run_file(&path, |_| "2".to_owned());
}
