//! Faults of the whole process, from `FAKE_PI_OPTS` (words separated by spaces).

/// See the fields; each is `--` and its name with dashes.
#[derive(Debug, Default)]
pub(crate) struct Options {
    /// `--chunk N`: writes stdout N bytes at a time.
    pub(crate) chunk: usize,
    /// `--stderr-bytes N`: writes N bytes to stderr before anything else.
    pub(crate) stderr_bytes: usize,
    /// `--start-delay MS`: does nothing for so long after its start.
    pub(crate) start_delay: Option<u64>,
    /// `--exit CODE`: ends at once with an error on stderr.
    pub(crate) exit: Option<i32>,
    /// `--exit-signal NAME`: kills itself at once.
    pub(crate) exit_signal: Option<String>,
    /// `--exit-on-command CODE`: ends when the first command arrives, without answering it.
    pub(crate) exit_on_command: Option<i32>,
    /// `--silence`: reads commands and never answers.
    pub(crate) silence: bool,
    /// `--no-read`: never reads stdin.
    pub(crate) no_read: bool,
    /// `--read-lines N`: closes stdin after so many commands and lives on.
    pub(crate) read_lines: Option<u64>,
    /// `--read-delay MS`: waits before each line it reads.
    pub(crate) read_delay: Option<u64>,
    /// `--byte-delay MS`: waits before each byte it reads.
    pub(crate) byte_delay: Option<u64>,
    /// `--ignore-eof`: does not end with stdin.
    pub(crate) ignore_eof: bool,
    /// `--ignore-term`: does not end on SIGTERM or SIGHUP (also `--trap-term`).
    pub(crate) ignore_term: bool,
    /// `--ignore-abort`: neither obeys nor answers `abort`.
    pub(crate) ignore_abort: bool,
    /// `--grandchild KIND`: starts a process that outlives it, see `helpers.rs`.
    pub(crate) grandchild: Option<String>,
    /// `--preflight MS`: so long after its response a prompt has not begun; as Pi 1.6.0 does,
    /// another prompt in that time is lost (with a stray `agent_settled`) and an abort does nothing.
    pub(crate) preflight: Option<u64>,
    /// `--compact-time MS`: how long a compaction takes.
    pub(crate) compact_time: u64,
    /// `--old`: responses without `data`, settlements without `aborted`, as Pi before 0.99.
    pub(crate) old: bool,
    /// `--run VERB,ARGUMENT,...`: what a prompt without `fake:` does.
    pub(crate) run: Option<String>,
}

impl Options {
    /// Reads the variable; a word it does not know ends the process: a test with a typo in it
    /// would prove nothing.
    pub(crate) fn from_env() -> Self {
        let text = std::env::var("FAKE_PI_OPTS").unwrap_or_default();
        Self::parse(&text).unwrap_or_else(|message| crate::fail(&message))
    }

    fn parse(text: &str) -> Result<Self, String> {
        let mut options = Self {
            compact_time: 20,
            ..Self::default()
        };
        let mut words = text.split_whitespace();
        while let Some(word) = words.next() {
            let mut value = || {
                let value = words.next();
                value.ok_or_else(|| format!("FAKE_PI_OPTS: {word} needs a value"))
            };
            match word {
                "--chunk" => options.chunk = number(value()?)?,
                "--stderr-bytes" => options.stderr_bytes = number(value()?)?,
                "--start-delay" => options.start_delay = Some(number(value()?)?),
                "--exit" => options.exit = Some(number(value()?)?),
                "--exit-signal" => options.exit_signal = Some(value()?.to_owned()),
                "--exit-on-command" => options.exit_on_command = Some(number(value()?)?),
                "--silence" => options.silence = true,
                "--no-read" => options.no_read = true,
                "--read-lines" => options.read_lines = Some(number(value()?)?),
                "--read-delay" => options.read_delay = Some(number(value()?)?),
                "--byte-delay" => options.byte_delay = Some(number(value()?)?),
                "--ignore-eof" => options.ignore_eof = true,
                "--ignore-term" | "--trap-term" => options.ignore_term = true,
                "--ignore-abort" => options.ignore_abort = true,
                "--grandchild" => options.grandchild = Some(value()?.to_owned()),
                "--preflight" => options.preflight = Some(number(value()?)?),
                "--compact-time" => options.compact_time = number(value()?)?,
                "--old" => options.old = true,
                "--run" => options.run = Some(value()?.replace(',', " ")),
                other => return Err(format!("FAKE_PI_OPTS: unknown word {other}")),
            }
        }
        Ok(options)
    }
}

/// A number, or the end of the start with a reason.
pub(crate) fn number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    let parsed = text.trim().parse();
    parsed.map_err(|_| format!("fake pi: {text:?} is not a number"))
}
