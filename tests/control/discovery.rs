//! Finding cores; one host and one core per folder. R-TUI-01.

use std::path::Path;
use std::sync::Arc;

use pi_agents::control::discovery::{self, Advert, CoreEntry};
use pi_agents::control::host::{self, HostError};
use pi_agents::fleet::ids::{CoreId, HostId};

use super::paths::sandbox;

#[test]
fn a_published_core_is_found_by_its_folder_until_it_goes() {
    let root = tempfile::tempdir().unwrap();
    let paths = sandbox(root.path());
    let folder = Path::new("/home/ada/project");
    assert_eq!(discovery::find_core(&paths, folder), None);
    assert!(discovery::list_cores(&paths).is_empty());
    paths.ensure_runtime().unwrap();
    let entry = CoreEntry::of_this_process(
        CoreId::fresh(),
        HostId::fresh(),
        folder,
        &paths.socket(folder),
    );
    let advert = Advert::publish(entry.clone()).unwrap();
    assert_eq!(discovery::find_core(&paths, folder), Some(entry.clone()));
    assert_eq!(discovery::find_core(&paths, Path::new("/home/ada")), None);
    // Whatever else lies there is passed over, and nothing blocks.
    std::fs::write(paths.runtime.join("rubbish.json"), "{").unwrap();
    std::fs::create_dir(paths.runtime.join("folder.json")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        paths.runtime.join("pipe.json"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    )
    .unwrap();
    // A core that is gone: its process had this number, but another start time.
    let gone = CoreEntry {
        start_time: entry.start_time + 1,
        folder: "/home/ada/other".into(),
        socket: paths.socket(Path::new("/home/ada/other")),
        core: CoreId::fresh(),
        ..entry.clone()
    };
    let file = gone.socket.with_extension("json");
    let crashed = Advert::publish(gone.clone()).unwrap();
    let text = std::fs::read(&file).unwrap();
    drop(crashed);
    std::fs::write(&file, text).unwrap();
    assert_eq!(discovery::list_cores(&paths), vec![entry.clone()]);
    assert_eq!(
        discovery::list_entries(&paths),
        [gone.clone(), entry.clone()]
    );
    assert!(!gone.is_alive());
    assert_eq!(discovery::find_core(&paths, &gone.folder), None);

    // A successor's file is not removed by the one before.
    let next = CoreEntry {
        core: CoreId::fresh(),
        ..entry
    };
    let successor = Advert::publish(next.clone()).unwrap();
    drop(advert);
    assert_eq!(discovery::find_core(&paths, folder), Some(next));
    drop(successor);
    assert_eq!(discovery::find_core(&paths, folder), None);
}

#[test]
fn a_folder_keeps_its_host_and_another_folder_has_another() {
    let root = tempfile::tempdir().unwrap();
    let paths = sandbox(root.path());
    let folder = Path::new("/home/ada/project");
    let host = host::host_of(&paths, folder).unwrap();
    assert_eq!(host::host_of(&paths, folder).unwrap(), host);
    assert!(paths.agents_dir(folder).is_dir());
    let moved = host::host_of(&paths, Path::new("/home/ada/moved")).unwrap();
    assert_ne!(moved, host);

    std::fs::write(paths.host_file(folder), "{\"vers").unwrap();
    let error = host::host_of(&paths, folder).unwrap_err().to_string();
    let file = paths.host_file(folder).display().to_string();
    assert!(
        error.contains(&file) && error.contains("move it away"),
        "{error}"
    );
    assert_eq!(std::fs::read(paths.host_file(folder)).unwrap(), b"{\"vers");
}

#[test]
fn many_that_ask_at_once_get_the_same_host() {
    let root = tempfile::tempdir().unwrap();
    let paths = Arc::new(sandbox(root.path()));
    let threads: Vec<_> = (0..8)
        .map(|_| {
            let paths = Arc::clone(&paths);
            std::thread::spawn(move || host::host_of(&paths, Path::new("/home/ada")).unwrap())
        })
        .collect();
    let mut hosts: Vec<HostId> = threads.into_iter().map(|t| t.join().unwrap()).collect();
    hosts.dedup();
    assert_eq!(hosts.len(), 1);
}

// B101
#[test]
fn a_host_that_cannot_be_saved_names_the_place() {
    let root = tempfile::tempdir().unwrap();
    let paths = sandbox(root.path());
    std::fs::write(root.path().join("state"), "").unwrap();
    let error = host::host_of(&paths, Path::new("/home/ada")).unwrap_err();
    let said = error.to_string();
    assert!(
        said.contains(&root.path().join("state").display().to_string()),
        "{said}"
    );
    assert!(said.contains("XDG_STATE_HOME"), "{said}");
}

#[test]
fn one_core_works_for_a_folder() {
    let root = tempfile::tempdir().unwrap();
    let paths = sandbox(root.path());
    let folder = Path::new("/home/ada/project");
    let claim = host::claim(&paths, folder).unwrap();
    match host::claim(&paths, folder) {
        Err(HostError::Claimed { pid }) => assert_eq!(pid, Some(std::process::id())),
        other => panic!("claimed twice: {other:?}"),
    }
    host::claim(&paths, Path::new("/home/ada/other")).unwrap();
    drop(claim);
    host::claim(&paths, folder).unwrap();
}
