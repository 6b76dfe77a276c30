//! Installing once, whoever asks and whatever was interrupted (without npm).

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::support::pi_install::install_into;

fn complete(root: &Path) -> bool {
    root.join("done").exists()
}

#[test]
fn many_at_once_install_once() {
    let cache = tempfile::tempdir().unwrap();
    let fetched = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                let place = install_into(cache.path(), "x", "x", complete, &|into| {
                    fetched.fetch_add(1, Ordering::SeqCst);
                    std::thread::sleep(std::time::Duration::from_millis(20));
                    std::fs::write(into.join("done"), "").map_err(|error| error.to_string())
                });
                assert!(complete(&place.unwrap()));
            });
        }
    });
    assert_eq!(fetched.load(Ordering::SeqCst), 1);
}

#[test]
fn an_interrupted_installation_is_done_again() {
    let cache = tempfile::tempdir().unwrap();
    let failing = install_into(cache.path(), "x", "x", complete, &|into| {
        std::fs::write(into.join("half"), "").unwrap();
        Err("the line broke".to_owned())
    });
    assert_eq!(failing.unwrap_err(), "the line broke");
    let place = install_into(cache.path(), "x", "x", complete, &|into| {
        assert!(!into.join("half").exists());
        std::fs::write(into.join("done"), "").map_err(|error| error.to_string())
    });
    assert_eq!(place.unwrap(), cache.path().join("x"));
}

#[test]
fn what_was_fetched_must_be_complete() {
    let cache = tempfile::tempdir().unwrap();
    let wrong = install_into(cache.path(), "x", "the thing", complete, &|_| Ok(()));
    assert!(wrong.unwrap_err().contains("the thing"));
    assert!(!cache.path().join("x").exists());
}
