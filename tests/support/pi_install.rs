//! Real Pi for tests: a Node that is new enough and a pinned Pi from npm, in a cache outside the
//! source tree (`PI_AGENTS_TEST_CACHE`, else `pi-agents-tests` in the user's cache folder).
//!
//! Each package is installed once, whoever asks first and however many test processes run: a
//! lock file per package, an installation beside its final place, then one rename. A folder that
//! is there is therefore complete; one that was interrupted is thrown away by the next run.
//! A test that needs Pi and cannot have it fails with the reason: it is never skipped.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use super::versions::{NODE, PI_PACKAGE, TYPESCRIPT, Version, node_package};
use super::watchdog;

/// One installation may take this long: a slow line, not a hanging one.
const INSTALL_LIMIT: Duration = Duration::from_secs(600);

/// A Pi that can be started: put `node_dir` first in PATH, then run `pi`.
#[derive(Clone, Debug)]
pub struct PiInstall {
    /// Pi's start script, as npm links it.
    pub pi: PathBuf,
    /// The folder with the `node` to run it.
    pub node_dir: PathBuf,
    /// Pi's package folder (types, documentation, examples).
    pub package: PathBuf,
    /// The version number.
    pub version: &'static str,
}

/// The Pi of that version, installed on first use.
///
/// # Panics
/// When it cannot be installed: the message says what failed and how to mend it.
pub fn real_pi(version: Version) -> PiInstall {
    static NEWEST: OnceLock<Result<PiInstall, String>> = OnceLock::new();
    static OLDEST: OnceLock<Result<PiInstall, String>> = OnceLock::new();
    let cell = match version {
        Version::Newest => &NEWEST,
        Version::Oldest => &OLDEST,
    };
    // A failure is remembered: thirty tests do not each wait for the same dead line.
    let pause = watchdog::paused();
    let result = cell.get_or_init(|| install_pi(version));
    drop(pause);
    match result {
        Ok(install) => install.clone(),
        Err(message) => panic!("{message}"),
    }
}

/// The folder of the pinned Node's `node`; `PI_AGENTS_TEST_NODE` names another.
///
/// # Panics
/// As [`real_pi`].
pub fn node_dir() -> PathBuf {
    let pause = watchdog::paused();
    let result = node();
    drop(pause);
    match result {
        Ok(dir) => dir,
        Err(message) => panic!("{message}"),
    }
}

fn node() -> Result<PathBuf, String> {
    static NODE_DIR: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    NODE_DIR.get_or_init(install_node).clone()
}

/// The script of the pinned TypeScript compiler, to be run by [`node_dir`]'s `node`.
///
/// # Panics
/// As [`real_pi`].
pub fn typescript() -> PathBuf {
    static COMPILER: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    const SCRIPT: &str = "node_modules/typescript/bin/tsc";
    let pause = watchdog::paused();
    let result = COMPILER.get_or_init(|| {
        let root = install(
            &format!("typescript-{TYPESCRIPT}"),
            &format!("typescript@{TYPESCRIPT}"),
            |root| root.join(SCRIPT).is_file(),
        )?;
        Ok(root.join(SCRIPT))
    });
    drop(pause);
    match result {
        Ok(script) => script.clone(),
        Err(message) => panic!("{message}"),
    }
}

fn install_pi(version: Version) -> Result<PiInstall, String> {
    let node_dir = node()?;
    let number = version.number();
    let root = install(
        &format!("pi-{number}"),
        &format!("{PI_PACKAGE}@{number}"),
        |root| root.join("node_modules/.bin/pi").exists(),
    )?;
    Ok(PiInstall {
        pi: root.join("node_modules/.bin/pi"),
        node_dir,
        package: root.join("node_modules").join(PI_PACKAGE),
        version: number,
    })
}

fn install_node() -> Result<PathBuf, String> {
    if let Some(dir) = std::env::var_os("PI_AGENTS_TEST_NODE") {
        return Ok(PathBuf::from(dir));
    }
    let package = node_package().ok_or_else(|| {
        "no Node package is known for this platform: set PI_AGENTS_TEST_NODE to the folder of a \
         `node` that is at least 22.19"
            .to_owned()
    })?;
    let binary = |root: &Path| root.join("node_modules").join(package).join("bin/node");
    let root = install(
        &format!("{package}-{NODE}"),
        &format!("{package}@{NODE}"),
        |root| binary(root).exists(),
    )?;
    let node = binary(&root);
    let answer = Command::new(&node).arg("--version").output();
    let found = answer.as_ref().map_or_else(
        |error| error.to_string(),
        |output| String::from_utf8_lossy(&output.stdout).trim().to_owned(),
    );
    if found == format!("v{NODE}") {
        Ok(root.join("node_modules").join(package).join("bin"))
    } else {
        Err(format!(
            "{} does not run here (`--version`: {found}). Remove {} to have it installed again, \
             or set PI_AGENTS_TEST_NODE to the folder of a `node` that is at least 22.19.",
            node.display(),
            root.display()
        ))
    }
}

/// Where installations live.
fn cache() -> Result<PathBuf, String> {
    if let Some(dir) = std::env::var_os("PI_AGENTS_TEST_CACHE").filter(|dir| !dir.is_empty()) {
        return Ok(PathBuf::from(dir));
    }
    let base = std::env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .filter(|dir| dir.is_absolute())
        .or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")));
    base.map(|base| base.join("pi-agents-tests"))
        .ok_or_else(|| {
            "no place to install Pi for the tests: set PI_AGENTS_TEST_CACHE or HOME".to_owned()
        })
}

/// Installs `package` into `cache()/name` unless `complete` says that it is there.
fn install(name: &str, package: &str, complete: impl Fn(&Path) -> bool) -> Result<PathBuf, String> {
    install_into(&cache()?, name, package, complete, &|into| {
        run_npm(package, into)
    })
}

/// The part that does not know npm: `fetch` fills a folder.
pub(super) fn install_into(
    cache: &Path,
    name: &str,
    what: &str,
    complete: impl Fn(&Path) -> bool,
    fetch: &dyn Fn(&Path) -> Result<(), String>,
) -> Result<PathBuf, String> {
    let place = cache.join(name);
    if complete(&place) {
        return Ok(place);
    }
    let io = |doing: &str, error: std::io::Error| {
        format!(
            "{what} could not be installed for the tests: {doing}: {error}. \
             PI_AGENTS_TEST_CACHE can name another folder than {}.",
            cache.display()
        )
    };
    std::fs::create_dir_all(cache).map_err(|error| io("creating the cache", error))?;
    let lock = File::create(cache.join(format!(".{name}.lock")))
        .map_err(|error| io("creating the lock file", error))?;
    lock.lock()
        .map_err(|error| io("waiting for the lock", error))?;
    if complete(&place) {
        return Ok(place);
    }
    // Nobody else is at it while we hold the lock: what lies there was interrupted.
    let half_done = cache.join(format!(".{name}.new"));
    for rest in [&half_done, &place] {
        if rest.exists() {
            std::fs::remove_dir_all(rest).map_err(|error| io("removing the remains", error))?;
        }
    }
    std::fs::create_dir(&half_done).map_err(|error| io("creating a folder", error))?;
    fetch(&half_done)?;
    if !complete(&half_done) {
        return Err(format!(
            "{what} was fetched into {} but is not what the tests expect",
            half_done.display()
        ));
    }
    std::fs::rename(&half_done, &place).map_err(|error| io("moving it into place", error))?;
    Ok(place)
}

fn run_npm(package: &str, into: &Path) -> Result<(), String> {
    let mend = "The tests of pi-agents run a real Pi. They need `npm` in PATH and its registry \
                within reach, once; PI_AGENTS_TEST_CACHE can name a folder that was filled elsewhere.";
    // Without a package.json of its own npm would look for one further up.
    std::fs::write(into.join("package.json"), "{\"private\":true}\n")
        .map_err(|error| format!("{}: {error}", into.display()))?;
    let log_path = into.join("npm.log");
    let log =
        File::create(&log_path).map_err(|error| format!("{}: {error}", log_path.display()))?;
    let log_too = log
        .try_clone()
        .map_err(|error| format!("{}: {error}", log_path.display()))?;
    let mut child = Command::new("npm")
        .args(["install", "--ignore-scripts", "--no-audit", "--no-fund"])
        // npm itself runs on the system's Node, which may be older than Pi wants.
        .arg("--engine-strict=false")
        .arg("--loglevel=error")
        .arg("--prefix")
        .arg(into)
        .arg(package)
        .current_dir(into)
        .stdin(Stdio::null())
        .stdout(log)
        .stderr(log_too)
        .spawn()
        .map_err(|error| format!("{package}: `npm` could not be started: {error}\n{mend}"))?;
    let outcome = wait_at_most(&mut child, INSTALL_LIMIT);
    let why = match outcome {
        Some(status) if status.success() => return Ok(()),
        Some(status) => format!("npm ended with {status}"),
        None => format!("npm was still busy after {INSTALL_LIMIT:?}"),
    };
    let mut said = String::new();
    let _ = File::open(&log_path).map(|mut file| file.read_to_string(&mut said));
    let tail: Vec<&str> = said.lines().rev().take(30).collect();
    let tail: Vec<&str> = tail.into_iter().rev().collect();
    Err(format!(
        "{package} could not be installed: {why}\n{}\n{mend}",
        tail.join("\n")
    ))
}

fn wait_at_most(child: &mut std::process::Child, limit: Duration) -> Option<ExitStatus> {
    let deadline = Instant::now() + limit;
    loop {
        if let Ok(Some(status)) = child.try_wait() {
            return Some(status);
        }
        if Instant::now() > deadline {
            let _ = child.kill();
            let _ = child.wait();
            return None;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}
