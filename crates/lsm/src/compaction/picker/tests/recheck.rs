//! Tables that were picked to go as a whole are looked at again when they go.

use super::*;

/// Tables of these stamps: `L2 30:a-f` and `30 50:100`.
fn tree(files: &[&str], stamps: &[&str]) -> Arc<Version> {
    let words = |line: &&str| -> Vec<_> { files_of(&line.split(' ').collect::<Vec<_>>()) };
    let version = version_of(&files.iter().flat_map(words).collect::<Vec<_>>(), 4);
    for line in stamps {
        let words: Vec<&str> = line.split(' ').collect();
        let mut files = version.all_files().map(|(_, file)| file);
        let file = files.find(|file| file.number.to_string() == words[0]).unwrap();
        file.set_stamps_for_test(stamps_of(AtItsStamp.name(), &words[1..]));
    }
    version
}

#[test]
fn nothing_older_may_have_come_beneath_meanwhile() {
    let picked = tree(&["L2 30:a-f"], &["30 50:100"]);
    let expiring = Expiring { policy: Arc::new(AtItsStamp), time: 60 };
    let drop = pick_expired_drop(&picked, &expiring).unwrap();
    assert!(may_still_go(&drop, &picked));
    assert!(may_still_go(&drop, &tree(&["L1 40:a-c", "L2 30:a-f 31:g-h", "L3 10:p-z"], &[])));
    assert!(!may_still_go(&drop, &tree(&["L2 30:a-f", "L3 10:c-d"], &[])), "an older row would come back");
    assert!(!may_still_go(&drop, &tree(&["L3 30:a-f"], &[])), "it was moved");
    assert!(!may_still_go(&drop, &tree(&["L2 31:a-f"], &[])), "it is gone");
}

#[test]
fn of_level_0_only_what_is_older_counts() {
    let picked = tree(&["L0 41:a-f 40:p-z"], &["41 50:100", "40 90:100"]);
    let expiring = Expiring { policy: Arc::new(AtItsStamp), time: 60 };
    let drop = pick_expired_drop(&picked, &expiring).unwrap();
    assert!(may_still_go(&drop, &tree(&["L0 42:a-f 41:a-f 40:p-z"], &[])));
    assert!(!may_still_go(&drop, &tree(&["L0 41:a-f 40:e-z"], &[])));
}
