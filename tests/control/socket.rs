//! The socket file. R-Q-03, B090, B093, B094.

use std::os::unix::fs::{FileTypeExt, PermissionsExt, symlink};
use std::os::unix::net::{UnixDatagram, UnixListener as StdListener, UnixStream as StdStream};
use std::path::{Path, PathBuf};

use pi_agents::client::{FleetClient, Request};
use pi_agents::control::client::{ConnectError, connect};
use pi_agents::control::protocol::Role;
use pi_agents::control::server::Options;
use pi_agents::control::socket::{BindError, Listener};
use tempfile::TempDir;

use super::fake_core::{FakeCore, core_view, soon, until};

fn place() -> (TempDir, PathBuf) {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("run/core.sock");
    std::fs::create_dir(root.path().join("run")).unwrap();
    std::fs::set_permissions(root.path().join("run"), PermissionsExt::from_mode(0o700)).unwrap();
    (root, path)
}

fn mode(path: &Path) -> u32 {
    std::fs::symlink_metadata(path)
        .unwrap()
        .permissions()
        .mode()
        & 0o777
}

#[tokio::test]
async fn a_core_is_reached_and_its_file_goes_with_it() {
    let (_root, path) = place();
    let core = FakeCore::new();
    let (server, shutdown) = core.server(Options::default());
    let listener = Listener::bind(&path).unwrap();
    assert_eq!(mode(&path), 0o600);
    let serving = tokio::spawn(async move { server.serve(listener).await });
    let client = connect(&path, Role::Cli).await.unwrap();
    assert_eq!(client.core(), &core_view());
    client.request(Request::Snapshot).await.unwrap();
    let pid = core.clients.lock().unwrap()[0].pid;
    assert_eq!(pid, cfg!(target_os = "linux").then(std::process::id));
    shutdown.cancel();
    soon("end", serving).await.unwrap();
    assert!(!path.exists());
    assert_eq!(soon("news", client.updates()).await, None);
    assert!(connect(&path, Role::Cli).await.unwrap_err().is_absent());
}

// B090
#[tokio::test]
async fn a_file_left_by_a_crash_is_replaced() {
    let (_root, path) = place();
    drop(StdListener::bind(&path).unwrap());
    assert!(
        std::fs::symlink_metadata(&path)
            .unwrap()
            .file_type()
            .is_socket()
    );
    let error = connect(&path, Role::Cli).await.unwrap_err();
    assert!(matches!(error, ConnectError::Stale { .. }) && error.is_absent());
    let listener = Listener::bind(&path).unwrap();
    StdStream::connect(&path).unwrap();
    drop(listener);
    assert!(!path.exists());
}

// B090
#[tokio::test]
async fn a_live_core_is_left_alone() {
    let (_root, path) = place();
    let first = Listener::bind(&path).unwrap();
    let error = Listener::bind(&path).unwrap_err();
    assert!(matches!(error, BindError::Running { .. }), "{error}");
    #[cfg(target_os = "linux")]
    assert!(
        error.to_string().contains(&std::process::id().to_string()),
        "{error}"
    );
    StdStream::connect(&path).unwrap();
    drop(first);
}

// B093
#[tokio::test]
async fn a_busy_core_is_a_live_one() {
    let (_root, path) = place();
    let listener = Listener::bind(&path).unwrap();
    // Nobody accepts: fill what the system holds.
    let mut waiting = Vec::new();
    let address = rustix::net::SocketAddrUnix::new(&path).unwrap();
    loop {
        let socket = rustix::net::socket(
            rustix::net::AddressFamily::UNIX,
            rustix::net::SocketType::STREAM,
            None,
        )
        .unwrap();
        rustix::io::ioctl_fionbio(&socket, true).unwrap();
        match rustix::net::connect(&socket, &address) {
            Ok(()) => waiting.push(socket),
            Err(rustix::io::Errno::AGAIN) => break,
            Err(e) => panic!("{e}"),
        }
        assert!(waiting.len() < 10_000);
    }
    let error = Listener::bind(&path).unwrap_err();
    assert!(matches!(error, BindError::Running { .. }), "{error}");
    assert!(path.exists());
    drop(listener);
}

// B093: only "refused" on a socket file counts as left behind.
#[tokio::test]
async fn whatever_else_lies_there_is_left_alone() {
    let (root, path) = place();
    let check = |what: &str, fits: fn(&BindError) -> bool| {
        let error = Listener::bind(&path).unwrap_err();
        assert!(fits(&error), "{what}: {error}");
        assert!(
            std::fs::symlink_metadata(&path).is_ok(),
            "{what} was removed"
        );
    };
    let not_a_socket = |e: &BindError| matches!(e, BindError::NotASocket { .. });
    std::fs::write(&path, "precious").unwrap();
    check("a file", not_a_socket);
    assert_eq!(std::fs::read(&path).unwrap(), b"precious");
    std::fs::remove_file(&path).unwrap();

    // Even a symlink to a socket nobody listens at.
    let stale = root.path().join("run/stale.sock");
    drop(StdListener::bind(&stale).unwrap());
    symlink(&stale, &path).unwrap();
    check("a symlink", not_a_socket);
    assert!(stale.exists());
    std::fs::remove_file(&path).unwrap();

    symlink(root.path().join("nowhere"), &path).unwrap();
    check("a dangling symlink", not_a_socket);
    std::fs::remove_file(&path).unwrap();

    std::fs::create_dir(&path).unwrap();
    check("a folder", not_a_socket);
    std::fs::remove_dir(&path).unwrap();

    // Another sort of socket: connecting fails, but is not refused.
    let _other = UnixDatagram::bind(&path).unwrap();
    check("a datagram socket", |e| {
        matches!(e, BindError::Unclear { .. })
    });
}

#[tokio::test]
async fn the_lock_is_no_way_to_write_elsewhere() {
    let (root, path) = place();
    let victim = root.path().join("victim");
    symlink(&victim, path.with_extension("lock")).unwrap();
    assert!(Listener::bind(&path).is_err());
    assert!(!victim.exists());
}

// B094
#[tokio::test]
async fn an_open_folder_is_refused() {
    let (root, path) = place();
    std::fs::set_permissions(root.path().join("run"), PermissionsExt::from_mode(0o777)).unwrap();
    let error = Listener::bind(&path).unwrap_err();
    assert!(matches!(error, BindError::Dir(_)), "{error}");
    assert!(!path.exists());
}

#[tokio::test]
async fn a_path_that_is_too_long_says_so() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("x".repeat(100)).join("core.sock");
    let error = Listener::bind(&path).unwrap_err();
    assert!(matches!(error, BindError::TooLong { .. }), "{error}");
    assert!(error.to_string().contains("XDG_RUNTIME_DIR"));
}

#[tokio::test]
async fn a_successors_file_is_not_removed() {
    let (_root, path) = place();
    let first = Listener::bind(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    let _second = Listener::bind(&path).unwrap();
    drop(first);
    StdStream::connect(&path).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_many_that_start_at_once_one_listens() {
    let (_root, path) = place();
    drop(StdListener::bind(&path).unwrap());
    let starting: Vec<_> = (0..8)
        .map(|_| {
            let path = path.clone();
            tokio::task::spawn_blocking(move || Listener::bind(&path))
        })
        .collect();
    let mut listeners = Vec::new();
    for start in starting {
        match soon("bind", start).await.unwrap() {
            Ok(listener) => listeners.push(listener),
            Err(BindError::Running { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!(listeners.len(), 1);
    StdStream::connect(&path).unwrap();
}

/// Credentials belong to threads: this one connects as somebody else.
#[cfg(target_os = "linux")]
fn connect_as_nobody(path: PathBuf) -> std::thread::JoinHandle<std::io::Result<StdStream>> {
    std::thread::spawn(move || {
        let nobody = rustix::fs::Uid::from_raw(65534);
        rustix::thread::set_thread_res_uid(nobody, nobody, nobody)?;
        StdStream::connect(path)
    })
}

// R-Q-03, B094
#[cfg(target_os = "linux")]
#[tokio::test]
#[allow(clippy::print_stderr)]
async fn another_user_is_not_heard() {
    use std::io::Read;

    if !rustix::process::geteuid().is_root() {
        eprintln!("not run: only root can connect as somebody else");
        return;
    }
    let (root, path) = place();
    let core = FakeCore::new();
    let (server, _shutdown) = core.server(Options::default());
    let listener = Listener::bind(&path).unwrap();
    let serving = tokio::spawn(async move { server.serve(listener).await });
    // As it is, the other user does not even get there.
    std::fs::set_permissions(root.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let refused = connect_as_nobody(path.clone()).join().unwrap().unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::PermissionDenied);
    // With folder and socket open to all it is closed unheard.
    std::fs::set_permissions(root.path().join("run"), PermissionsExt::from_mode(0o755)).unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o666)).unwrap();
    let mut stream = connect_as_nobody(path.clone()).join().unwrap().unwrap();
    let read = tokio::task::spawn_blocking(move || {
        stream
            .set_read_timeout(Some(std::time::Duration::from_secs(10)))
            .unwrap();
        stream.read(&mut [0; 64])
    });
    assert_eq!(soon("closed", read).await.unwrap().unwrap(), 0);
    assert!(core.clients.lock().unwrap().is_empty());
    // We are still served.
    connect(&path, Role::Viewer).await.unwrap();
    serving.abort();
}

// B093: run by the next test in a process of its own, whose files it uses up.
#[test]
#[ignore = "a part of `a_shortage_of_files_is_no_proof_of_death`"]
fn bind_without_files() {
    let Some(path) = std::env::var_os("CONTROL_TEST_SOCKET").map(PathBuf::from) else {
        return;
    };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let _entered = runtime.enter();
    std::fs::create_dir(path.parent().unwrap()).unwrap();
    std::fs::set_permissions(path.parent().unwrap(), PermissionsExt::from_mode(0o700)).unwrap();
    let _live = StdListener::bind(&path).unwrap();
    let mut files = Vec::new();
    while let Ok(file) = std::fs::File::open("/dev/null") {
        files.push(file);
    }
    let mut shortages = 0;
    loop {
        let error = Listener::bind(&path).unwrap_err();
        assert!(path.exists(), "removed after: {error}");
        if matches!(error, BindError::Running { .. }) {
            break;
        }
        shortages += 1;
        drop(files.pop().expect("never enough files"));
    }
    assert!(shortages > 0);
}

// B093
#[test]
fn a_shortage_of_files_is_no_proof_of_death() {
    let root = tempfile::tempdir().unwrap();
    let output = std::process::Command::new("sh")
        .args(["-c", "ulimit -n 100 && exec \"$@\"", "sh"])
        .arg(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "control::socket::bind_without_files",
            "--ignored",
        ])
        .env("CONTROL_TEST_SOCKET", root.path().join("run/core.sock"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && said.contains("1 passed"),
        "{said}"
    );
}

// B094: run by the next test with a umask that takes nothing away.
#[test]
#[ignore = "a part of `the_socket_is_closed_from_its_first_moment`, which sets the umask"]
fn bind_and_watch() {
    let Some(path) = std::env::var_os("CONTROL_TEST_SOCKET").map(PathBuf::from) else {
        return;
    };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let _entered = runtime.enter();
    for _ in 0..50 {
        let watched = path.clone();
        let watcher = std::thread::spawn(move || {
            loop {
                if let Ok(meta) = std::fs::symlink_metadata(&watched) {
                    return meta.permissions().mode() & 0o777;
                }
                std::hint::spin_loop();
            }
        });
        let listener = Listener::bind(&path).unwrap();
        assert_eq!(watcher.join().unwrap(), 0o600);
        drop(listener);
    }
    assert_eq!(mode(path.parent().unwrap()), 0o700);
    assert_eq!(mode(&path.with_extension("lock")), 0o600);
}

// B094
#[cfg(target_os = "linux")]
#[test]
fn the_socket_is_closed_from_its_first_moment() {
    for umask in ["000", "022", "077"] {
        let root = tempfile::tempdir().unwrap();
        let output = std::process::Command::new("sh")
            .args(["-c", "umask $0 && exec \"$@\"", umask])
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", "control::socket::bind_and_watch", "--ignored"])
            .env("CONTROL_TEST_SOCKET", root.path().join("run/core.sock"))
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success() && said.contains("1 passed"),
            "{umask}: {said}"
        );
    }
}

#[tokio::test]
async fn one_client_too_many_is_told_so() {
    let (_root, path) = place();
    let core = FakeCore::new();
    let (server, shutdown) = core.server(Options {
        max_clients: 2,
        ..Options::default()
    });
    let attached = server.attached();
    let listener = Listener::bind(&path).unwrap();
    let serving = tokio::spawn(async move { server.serve(listener).await });
    let first = connect(&path, Role::Viewer).await.unwrap();
    let _second = connect(&path, Role::Viewer).await.unwrap();
    let error = connect(&path, Role::Viewer).await.unwrap_err();
    assert!(matches!(error, ConnectError::Closed(_)), "{error}");
    assert!(error.to_string().contains("2 clients"), "{error}");
    assert!(!error.is_absent());
    assert_eq!(*attached.borrow(), 2);
    drop(first);
    until("a place is free", || *attached.borrow() == 1).await;
    let mut third = connect(&path, Role::Viewer).await;
    // The count falls a moment before the place is free.
    while third.is_err() {
        tokio::task::yield_now().await;
        third = soon("third", connect(&path, Role::Viewer)).await;
    }
    shutdown.cancel();
    soon("end", serving).await.unwrap();
}

#[tokio::test]
async fn something_else_that_listens_is_not_taken_for_a_core() {
    use tokio::io::AsyncWriteExt;
    let (_root, path) = place();
    let listener = tokio::net::UnixListener::bind(&path).unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.write_all(b"220 mail.example ready\n").await;
        }
    });
    let error = soon("connect", connect(&path, Role::Cli))
        .await
        .unwrap_err();
    assert!(matches!(error, ConnectError::Refused(_)), "{error}");
    let (_root, path) = place();
    assert!(connect(&path, Role::Cli).await.unwrap_err().is_absent());
}
