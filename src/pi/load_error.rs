//! What Pi says on stderr when it cannot load an extension (pi-facts §0, §1). Pure.

/// Between the file and what is wrong with it.
const BEGIN: &str = "Failed to load extension \"";
const MIDDLE: &str = "\": ";

/// An extension that keeps Pi from starting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadError<'a> {
    /// Its file, as Pi names it.
    pub extension: &'a str,
    /// What is wrong.
    pub why: Why<'a>,
}

/// What is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why<'a> {
    /// It and another extension have a tool of the same name. Which of the two is blamed is a matter
    /// of the order in which they are loaded.
    SameTool {
        /// The name.
        tool: &'a str,
        /// The file of the other one.
        other: &'a str,
    },
    /// Anything else, in Pi's words.
    Other(&'a str),
}

impl<'a> LoadError<'a> {
    /// Reads a line of stderr.
    #[must_use]
    pub fn read(line: &'a str) -> Option<Self> {
        let (_, rest) = line.split_once(BEGIN)?;
        let (extension, why) = rest.split_once(MIDDLE)?;
        // Somebody may have forced colours on it.
        let why = why.split('\u{1b}').next().unwrap_or_default().trim_end();
        let same = why
            .strip_prefix("Tool \"")
            .and_then(|rest| rest.split_once("\" conflicts with "))
            .map(|(tool, other)| Why::SameTool { tool, other });
        Some(Self {
            extension,
            why: same.unwrap_or(Why::Other(why)),
        })
    }

    /// The tool that an extension and ours both have, and that extension. `ours` tells our own files.
    #[must_use]
    pub fn foreign(&self, ours: impl Fn(&str) -> bool) -> Option<(&'a str, &'a str)> {
        let Why::SameTool { tool, other } = self.why else {
            return None;
        };
        match (ours(self.extension), ours(other)) {
            (true, false) => Some((tool, other)),
            (false, true) => Some((tool, self.extension)),
            _ => None,
        }
    }
}
