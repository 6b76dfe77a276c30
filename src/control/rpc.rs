//! The envelope: JSON-RPC 2.0 messages and their errors. Knows no method.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::client::{ErrorCode, RequestError};

/// The line is not JSON.
pub const PARSE_ERROR: i64 = -32700;
/// The line is JSON and no message.
pub const INVALID_REQUEST: i64 = -32600;
/// The method is not known.
pub const METHOD_NOT_FOUND: i64 = -32601;
/// The params do not fit the method.
pub const INVALID_PARAMS: i64 = -32602;
/// A fault of the core.
pub const INTERNAL: i64 = -32603;
/// Too much at once: try again later.
pub const OVERLOAD: i64 = -32001;
/// `initialize` must come first, and once.
pub const NOT_INITIALIZED: i64 = -32002;
/// No version both ends speak.
pub const VERSION: i64 = -32003;
const NOT_FOUND: i64 = -32010;
const CONFLICT: i64 = -32011;
const START_FAILED: i64 = -32012;
const GONE: i64 = -32013;
const DISCONNECTED: i64 = -32014;
const CANCELLED: i64 = -32015;

/// Identity of a call, chosen by the caller.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(untagged)]
pub enum RpcId {
    /// A whole number.
    Number(i64),
    /// A text.
    Text(String),
}

/// An error answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message} ({code})")]
pub struct RpcError {
    /// Number of JSON-RPC, or one of ours.
    pub code: i64,
    /// One line.
    pub message: String,
    /// The refusal as the asker is meant to see it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<RequestError>,
}

impl RpcError {
    /// An error with this number that carries a refusal.
    #[must_use]
    pub fn new(code: i64, refusal: RequestError) -> Self {
        Self {
            code,
            message: refusal.message.clone(),
            data: Some(refusal),
        }
    }

    /// The refusal in it; of a foreign core as good as its number says.
    #[must_use]
    pub fn into_refusal(self) -> RequestError {
        let code = match self.code {
            METHOD_NOT_FOUND | VERSION => ErrorCode::Unsupported,
            INVALID_PARAMS | INVALID_REQUEST | PARSE_ERROR => ErrorCode::Invalid,
            OVERLOAD | CONFLICT => ErrorCode::Conflict,
            NOT_FOUND => ErrorCode::NotFound,
            START_FAILED => ErrorCode::StartFailed,
            GONE => ErrorCode::Gone,
            CANCELLED => ErrorCode::Cancelled,
            DISCONNECTED => ErrorCode::Disconnected,
            _ => ErrorCode::Internal,
        };
        self.data
            .unwrap_or_else(|| RequestError::new(code, self.message))
    }
}

impl From<RequestError> for RpcError {
    fn from(refusal: RequestError) -> Self {
        let code = match refusal.code {
            ErrorCode::Invalid => INVALID_PARAMS,
            ErrorCode::NotFound => NOT_FOUND,
            ErrorCode::Conflict => CONFLICT,
            ErrorCode::StartFailed => START_FAILED,
            ErrorCode::Gone => GONE,
            ErrorCode::Cancelled => CANCELLED,
            ErrorCode::Unsupported => METHOD_NOT_FOUND,
            ErrorCode::Disconnected => DISCONNECTED,
            ErrorCode::Internal => INTERNAL,
        };
        Self::new(code, refusal)
    }
}

/// One message.
#[derive(Clone, Debug)]
pub enum Message {
    /// Wants an answer.
    Call {
        /// To be repeated in the answer.
        id: RpcId,
        /// What.
        method: String,
        /// With what.
        params: Option<Box<RawValue>>,
    },
    /// Wants none.
    Notice {
        /// What.
        method: String,
        /// With what.
        params: Option<Box<RawValue>>,
    },
    /// An answer.
    Answer {
        /// Of which call; `None` = the other end could not tell.
        id: Option<RpcId>,
        /// The result (`None` = null) or why not.
        outcome: Result<Option<Box<RawValue>>, RpcError>,
    },
}

#[derive(Deserialize)]
struct Incoming {
    jsonrpc: String,
    #[serde(default)]
    id: Option<RpcId>,
    #[serde(default)]
    method: Option<String>,
    #[serde(default)]
    params: Option<Box<RawValue>>,
    #[serde(default)]
    result: Option<Box<RawValue>>,
    #[serde(default)]
    error: Option<RpcError>,
}

#[derive(Deserialize)]
struct OnlyId {
    #[serde(default)]
    id: Option<RpcId>,
}

/// Why a line is no message, ready to be sent back.
#[derive(Debug)]
pub struct BadLine {
    /// The id, when the line had a usable one.
    pub id: Option<RpcId>,
    /// The answer.
    pub error: RpcError,
}

/// Reads a line. Unknown fields are ignored.
///
/// # Errors
/// [`BadLine`]: not JSON, or not a message of JSON-RPC 2.0. Lists of messages are not taken.
pub fn parse(line: &[u8]) -> Result<Message, BadLine> {
    let bad = |code, id, what: String| BadLine {
        id,
        error: RpcError::new(code, RequestError::new(ErrorCode::Invalid, what)),
    };
    let invalid = |what: &str| {
        let id = serde_json::from_slice::<OnlyId>(line)
            .ok()
            .and_then(|only| only.id);
        bad(INVALID_REQUEST, id, format!("not a message: {what}"))
    };
    let message: Incoming = match serde_json::from_slice(line) {
        Ok(message) => message,
        Err(e) if e.is_data() => return Err(invalid(&e.to_string())),
        Err(e) => return Err(bad(PARSE_ERROR, None, format!("not JSON: {e}"))),
    };
    if message.jsonrpc != "2.0" {
        return Err(invalid("`jsonrpc` must be \"2.0\""));
    }
    match (message.method, message.id, message.error) {
        (Some(method), Some(id), _) => Ok(Message::Call {
            id,
            method,
            params: message.params,
        }),
        (Some(method), None, _) => Ok(Message::Notice {
            method,
            params: message.params,
        }),
        (None, id, Some(error)) => Ok(Message::Answer {
            id,
            outcome: Err(error),
        }),
        (None, Some(id), None) => Ok(Message::Answer {
            id: Some(id),
            outcome: Ok(message.result),
        }),
        (None, None, None) => Err(invalid("neither a method nor an answer")),
    }
}

/// A call as a line, LF included.
///
/// # Errors
/// The params cannot be written as JSON.
pub fn call(id: i64, method: &str, params: &impl Serialize) -> serde_json::Result<Vec<u8>> {
    #[derive(Serialize)]
    struct Out<'a, P> {
        jsonrpc: &'static str,
        id: i64,
        method: &'a str,
        params: &'a P,
    }
    line(&Out {
        jsonrpc: "2.0",
        id,
        method,
        params,
    })
}

/// A notice as a line, LF included.
///
/// # Errors
/// The params cannot be written as JSON.
pub fn notice(method: &str, params: &impl Serialize) -> serde_json::Result<Vec<u8>> {
    #[derive(Serialize)]
    struct Out<'a, P> {
        jsonrpc: &'static str,
        method: &'a str,
        params: &'a P,
    }
    line(&Out {
        jsonrpc: "2.0",
        method,
        params,
    })
}

/// A result as a line, LF included.
///
/// # Errors
/// The result cannot be written as JSON.
pub fn result(id: &RpcId, result: &impl Serialize) -> serde_json::Result<Vec<u8>> {
    #[derive(Serialize)]
    struct Out<'a, R> {
        jsonrpc: &'static str,
        id: &'a RpcId,
        result: &'a R,
    }
    line(&Out {
        jsonrpc: "2.0",
        id,
        result,
    })
}

/// An error as a line, LF included.
///
/// # Errors
/// None in practice: an error is text and numbers.
pub fn error(id: Option<&RpcId>, error: &RpcError) -> serde_json::Result<Vec<u8>> {
    #[derive(Serialize)]
    struct Out<'a> {
        jsonrpc: &'static str,
        id: Option<&'a RpcId>,
        error: &'a RpcError,
    }
    line(&Out {
        jsonrpc: "2.0",
        id,
        error,
    })
}

fn line(value: &impl Serialize) -> serde_json::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    Ok(line)
}
