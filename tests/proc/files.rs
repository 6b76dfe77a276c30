//! Files that are old or new, private directories, locks.

use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use pi_agents::sys::atomic_file::{self, PrivateDirError, TEMP_PREFIX};
use pi_agents::sys::lock::{self, FileLock};

use super::stand_in::Reaped;
use crate::support::wait::wait_until;

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().mode() & 0o7777
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn a_write_replaces_content_and_mode_and_leaves_no_other_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("record.json");
    atomic_file::write(&path, b"one", 0o600).unwrap();
    assert_eq!(
        (std::fs::read(&path).unwrap(), mode(&path)),
        (b"one".to_vec(), 0o600)
    );
    // A mode that every usual umask would cut.
    atomic_file::write(&path, b"two, longer", 0o666).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"two, longer");
    assert_eq!(mode(&path), 0o666);
    assert_eq!(names(dir.path()), ["record.json"]);
}

#[test]
fn a_reader_sees_the_old_or_the_new_file_never_a_part() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("record");
    let versions = [vec![b'a'; 100_000], vec![b'b'; 60_000]];
    atomic_file::write(&path, &versions[0], 0o600).unwrap();
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut looks = 0;
            while !done.load(std::sync::atomic::Ordering::Relaxed) || looks == 0 {
                let seen = std::fs::read(&path).unwrap();
                assert!(versions.contains(&seen), "{} bytes", seen.len());
                looks += 1;
            }
        });
        for round in 0..50 {
            atomic_file::write(&path, &versions[round % 2], 0o600).unwrap();
        }
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        reader.join().unwrap();
    });
}

/// Holds for root too: the obstacles are no permissions.
#[test]
fn a_failed_write_names_the_file_keeps_the_old_one_and_cleans_up() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, "x").unwrap();

    let below = file.join("record.json");
    let error = atomic_file::write(&below, b"new", 0o600)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("file/record.json") && error.contains("Not a directory"),
        "{error}"
    );
    assert!(!error.contains(TEMP_PREFIX), "{error}");

    let missing = dir.path().join("missing").join("record.json");
    let error = atomic_file::write(&missing, b"new", 0o600)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("missing/record.json") && error.contains("No such file"),
        "{error}"
    );
    assert!(!error.contains(TEMP_PREFIX), "{error}");

    // A folder where the file should be: everything works but the last step.
    let folder = dir.path().join("folder");
    std::fs::create_dir(&folder).unwrap();
    let error = atomic_file::write(&folder, b"new", 0o600)
        .unwrap_err()
        .to_string();
    assert!(error.contains("put it in place"), "{error}");
    assert_eq!(names(dir.path()), ["file", "folder"]);
    assert_eq!(std::fs::read(&file).unwrap(), b"x");

    assert!(atomic_file::write(Path::new("/"), b"new", 0o600).is_err());
}

/// R-Q-03
#[test]
fn a_private_directory_is_made_closed_or_refused() {
    let dir = tempfile::tempdir().unwrap();
    let made = dir.path().join("a").join("b");
    atomic_file::private_dir(&made).unwrap();
    assert_eq!((mode(&made), mode(made.parent().unwrap())), (0o700, 0o700));
    atomic_file::private_dir(&made).unwrap();

    std::fs::set_permissions(&made, PermissionsExt::from_mode(0o750)).unwrap();
    let error = atomic_file::private_dir(&made).unwrap_err();
    assert!(matches!(error, PrivateDirError::Open { mode: 0o750, .. }));
    assert!(error.to_string().contains("chmod 700"), "{error}");
    // Refused, not repaired.
    assert_eq!(mode(&made), 0o750);
    std::fs::set_permissions(&made, PermissionsExt::from_mode(0o700)).unwrap();

    let link = dir.path().join("link");
    symlink(&made, &link).unwrap();
    let error = atomic_file::private_dir(&link).unwrap_err();
    assert!(error.to_string().contains("is a symbolic link"), "{error}");

    let file = dir.path().join("file");
    std::fs::write(&file, "").unwrap();
    let error = atomic_file::private_dir(&file).unwrap_err();
    assert!(error.to_string().contains("is a file"), "{error}");
    let error = atomic_file::private_dir(&file.join("below")).unwrap_err();
    assert!(matches!(error, PrivateDirError::Create { .. }), "{error}");

    // Somebody else's: root's for an ordinary user, and for root a directory given away.
    let foreign = if rustix::process::geteuid().is_root() {
        let given = dir.path().join("given");
        atomic_file::private_dir(&given).unwrap();
        std::os::unix::fs::chown(&given, Some(12345), None).unwrap();
        given
    } else {
        Path::new("/root").to_owned()
    };
    let error = atomic_file::private_dir(&foreign).unwrap_err();
    assert!(matches!(error, PrivateDirError::Foreign { .. }), "{error}");
}

#[test]
fn a_lock_excludes_until_it_is_dropped() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("core.lock");
    assert!(!lock::is_free(&path));
    assert!(FileLock::try_acquire_existing(&path).is_err());

    let held = FileLock::try_acquire(&path).unwrap().unwrap();
    assert_eq!(mode(&path), 0o600);
    assert_eq!(lock::holder(&path), Some(std::process::id()));
    assert!(FileLock::try_acquire(&path).unwrap().is_none());
    assert!(!lock::is_free(&path));
    drop(held);
    assert!(lock::is_free(&path));
    FileLock::try_acquire_existing(&path)
        .unwrap()
        .unwrap()
        .remove()
        .unwrap();
    assert!(!path.exists());
}

/// Descriptors are close-on-exec: a child that outlives the holder does not keep the lock.
#[test]
fn a_child_does_not_hold_the_lock_of_its_parent() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("lock");
    let held = FileLock::try_acquire(&path).unwrap().unwrap();
    let child = Reaped::sh("exec sleep 600");
    let targets = || -> Vec<_> {
        std::fs::read_dir(format!("/proc/{}/fd", child.0.id()))
            .unwrap()
            .filter_map(|entry| std::fs::read_link(entry.unwrap().path()).ok())
            .collect()
    };
    assert!(!targets().contains(&path));
    drop(held);
    assert!(lock::is_free(&path));
}

/// A lock on a file that its holder removes meanwhile would exclude nobody.
#[test]
fn a_removed_lock_file_is_not_taken_for_the_lock() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("lock");
    let owners = std::sync::atomic::AtomicUsize::new(0);
    let taken = std::sync::atomic::AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..200 {
                    let Some(lock) = FileLock::try_acquire(&path).unwrap() else {
                        continue;
                    };
                    assert_eq!(owners.fetch_add(1, std::sync::atomic::Ordering::SeqCst), 0);
                    taken.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                    owners.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
                    lock.remove().unwrap();
                }
            });
        }
    });
    assert!(taken.into_inner() > 0);
}

/// A dead holder holds nothing.
#[test]
fn a_lock_ends_with_its_process() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("lock");
    std::fs::write(&path, "1\n").unwrap();
    let script = format!(
        "exec 9< {}; flock -n 9 || exit 1; exec sleep 600",
        path.display()
    );
    let mut child = Reaped::sh(&script);
    wait_until("the child holds it", || !lock::is_free(&path));
    assert!(FileLock::try_acquire(&path).unwrap().is_none());
    child.0.kill().unwrap();
    child.0.wait().unwrap();
    assert!(lock::is_free(&path));
}
