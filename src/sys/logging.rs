//! The log of a process: one file, private, capped, never the terminal. (R-OPS-05)
//!
//! Not here: what is logged. Secrets and prompts belong below the level `debug`, if anywhere.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tracing_subscriber::filter::EnvFilter;

/// What a level can be.
const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// Whether that is a level, or directives such as `pi_agents::supervisor=trace,info`.
///
/// # Errors
/// What is wrong and what would be right. A bare word that is no level is refused: as a directive it
/// would be the name of a module that does not exist, and log nothing.
pub fn check_level(level: &str) -> Result<(), String> {
    let is_level = |word: &str| LEVELS.iter().any(|l| l.eq_ignore_ascii_case(word.trim()));
    let known = level
        .split(',')
        .all(|part| is_level(part.rsplit_once('=').map_or(part, |(_, level)| level)));
    if known && EnvFilter::try_new(level).is_ok() {
        return Ok(());
    }
    Err(format!(
        "`{level}` is not a log level; there are: {}",
        LEVELS.join(", ")
    ))
}

/// Size at which a log file becomes `NAME.1` (replacing the one before) and a new one begins, in bytes.
pub const SIZE_CAP: u64 = 8 << 20;

/// What became of the log.
#[derive(Debug, Default)]
pub struct Logging {
    /// The log file, when there is one.
    pub file: Option<PathBuf>,
    /// What is not as asked for, as a sentence for the person. The program goes on without a log.
    pub warning: Option<String>,
}

/// Starts logging of this process to `dir/name`, creating `dir` with mode 0700 when missing. Once per process.
///
/// `level` as [`check_level`] takes it; one that it refuses is a warning and counts as `info`. Never fails: a log
/// that cannot be written is a warning.
pub fn init(dir: &Path, name: &str, level: &str) -> Logging {
    let (filter, mut warning) = match check_level(level) {
        Ok(()) => (EnvFilter::new(level), None),
        Err(what) => (EnvFilter::new("info"), Some(format!("{what}; using info"))),
    };
    let path = dir.join(name);
    let log = match CappedFile::open(dir, &path, SIZE_CAP) {
        Ok(log) => Arc::new(log),
        Err(error) => {
            return Logging {
                file: None,
                warning: Some(format!("no log: cannot write {}: {error}", path.display())),
            };
        }
    };
    let started = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(log)
        .try_init();
    if started.is_err() {
        warning = Some("logging was already started in this process".to_owned());
    }
    Logging {
        file: started.is_ok().then_some(path),
        warning,
    }
}

/// A file that is renamed to `NAME.1` and begun anew at a size.
///
/// Every record is one write to a file opened for appending, so processes that share a log do not tear each
/// other's lines. A record that cannot be written is dropped or cut: a full disk must not stop the program.
#[derive(Debug)]
pub struct CappedFile {
    path: PathBuf,
    cap: u64,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    file: File,
    length: u64,
    /// The last record may be there in part: the next one begins with a line break.
    cut: bool,
}

impl CappedFile {
    /// Opens (creating, mode 0600) the file `path` in `dir` (creating, mode 0700); `cap` in bytes.
    ///
    /// # Errors
    /// What the system said.
    pub fn open(dir: &Path, path: &Path, cap: u64) -> io::Result<CappedFile> {
        use std::os::unix::fs::DirBuilderExt;
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(dir)?;
        Ok(CappedFile {
            path: path.to_owned(),
            cap,
            state: Mutex::new(State::new(open_append(path)?)),
        })
    }

    fn append(&self, record: &[u8]) {
        // A panic while logging leaves nothing inconsistent here.
        let mut state: MutexGuard<'_, _> =
            self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.length > 0 && state.length + record.len() as u64 > self.cap {
            let mut old = self.path.clone().into_os_string();
            old.push(".1");
            // When that fails, the old file goes on; better a large log than none. A file that is not there
            // any more was moved away, by somebody else or by a turn whose second half failed.
            let aside = match std::fs::rename(&self.path, old) {
                Ok(()) => true,
                Err(error) => error.kind() == io::ErrorKind::NotFound,
            };
            if aside && let Ok(fresh) = open_append(&self.path) {
                *state = State::new(fresh);
            }
        }
        let begin = if state.cut { "\n" } else { "" };
        state.cut = state
            .file
            .write_all(begin.as_bytes())
            .and_then(|()| state.file.write_all(record))
            .is_err();
        if !state.cut {
            state.length += record.len() as u64;
        }
    }
}

impl State {
    fn new((file, length): (File, u64)) -> Self {
        Self {
            file,
            length,
            cut: false,
        }
    }
}

impl Write for &CappedFile {
    fn write(&mut self, record: &[u8]) -> io::Result<usize> {
        self.append(record);
        Ok(record.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Opens a private file for appending and says how long it is.
fn open_append(path: &Path) -> io::Result<(File, u64)> {
    let file = OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .open(path)?;
    let length = file.metadata()?.size();
    Ok((file, length))
}

/// Where stderr led before it was redirected.
static SAVED_STDERR: Mutex<Option<OwnedFd>> = Mutex::new(None);

/// Lets everything that libraries print on stderr go to the end of the file `path`, so that nothing but the
/// screen paints the screen. Undone by [`restore_stderr`].
///
/// # Errors
/// What the system said; then stderr is as before.
pub fn redirect_stderr_to(path: &Path) -> io::Result<()> {
    let (file, _) = open_append(path)?;
    let mut saved = SAVED_STDERR.lock().unwrap_or_else(PoisonError::into_inner);
    if saved.is_none() {
        // Not among the numbers of the standard streams, and not inherited by children.
        *saved = Some(rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stderr(), 3)?);
    }
    rustix::stdio::dup2_stderr(&file)?;
    Ok(())
}

/// Lets stderr lead where it led before [`redirect_stderr_to`]. Harmless when it was not redirected.
pub fn restore_stderr() {
    // From a panic hook: never wait for a lock that the panicking thread may hold.
    if let Ok(mut saved) = SAVED_STDERR.try_lock()
        && let Some(fd) = saved.take()
    {
        let _ = rustix::stdio::dup2_stderr(&fd);
    }
}
