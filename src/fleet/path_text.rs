//! Paths in JSON (`#[serde(with = "crate::fleet::path_text")]`): a text, or, for a path that is not
//! UTF-8, an object with its bytes. Serde's own form fails for the latter.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

#[derive(Serialize)]
#[serde(untagged)]
enum Out<'a> {
    Text(&'a str),
    Bytes { bytes: &'a [u8] },
}

#[derive(Deserialize)]
#[serde(untagged)]
enum In {
    Text(String),
    Bytes { bytes: Vec<u8> },
}

impl<'a> From<&'a Path> for Out<'a> {
    fn from(path: &'a Path) -> Self {
        path.to_str().map_or(
            Self::Bytes {
                bytes: path.as_os_str().as_bytes(),
            },
            Self::Text,
        )
    }
}

impl From<In> for PathBuf {
    fn from(path: In) -> Self {
        match path {
            In::Text(text) => text.into(),
            In::Bytes { bytes } => OsString::from_vec(bytes).into(),
        }
    }
}

/// Writes a path.
///
/// # Errors
/// Those of the serializer.
pub fn serialize<S: Serializer>(path: &Path, to: S) -> Result<S::Ok, S::Error> {
    Out::from(path).serialize(to)
}

/// Reads a path.
///
/// # Errors
/// Neither a text nor an object with bytes.
pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<PathBuf, D::Error> {
    In::deserialize(from).map(PathBuf::from)
}

/// The same for a path that may be missing (add `default`).
pub mod option {
    use super::{Deserialize, Deserializer, In, Out, PathBuf, Serialize, Serializer};

    /// Writes a path or null.
    ///
    /// # Errors
    /// Those of the serializer.
    pub fn serialize<S: Serializer>(path: &Option<PathBuf>, to: S) -> Result<S::Ok, S::Error> {
        path.as_deref().map(Out::from).serialize(to)
    }

    /// Reads a path or null.
    ///
    /// # Errors
    /// Neither null, nor a text, nor an object with bytes.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<PathBuf>, D::Error> {
        Ok(Option::<In>::deserialize(from)?.map(PathBuf::from))
    }
}
