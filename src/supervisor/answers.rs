//! Answers to dialogs, checked against what was asked, as the line Pi reads.

use crate::client::{ErrorCode, RequestError};
use crate::fleet::roster::{DialogAnswer, DialogKind};
use crate::pi::command::{Command, UiAnswer, UiResponse};

/// The line for an answer.
///
/// # Errors
/// `Invalid` when the answer does not fit the question.
pub fn line(
    dialog: &str,
    kind: &DialogKind,
    answer: DialogAnswer,
) -> Result<Vec<u8>, RequestError> {
    let bad = |text: String| Err(RequestError::new(ErrorCode::Invalid, text));
    let answer = match (kind, answer) {
        (_, DialogAnswer::Cancelled) => UiAnswer::Cancelled(true),
        (DialogKind::Confirm { .. }, DialogAnswer::Confirmed(yes)) => UiAnswer::Confirmed(yes),
        (DialogKind::Confirm { .. }, DialogAnswer::Value(_)) => {
            return bad("this question wants yes or no".to_owned());
        }
        (DialogKind::Select { options }, DialogAnswer::Value(value)) => {
            if !options.contains(&value) {
                return bad(format!("not one of the choices: {value}"));
            }
            UiAnswer::Value(value)
        }
        (DialogKind::Input { .. } | DialogKind::Editor { .. }, DialogAnswer::Value(value)) => {
            UiAnswer::Value(value)
        }
        (
            DialogKind::Select { .. } | DialogKind::Input { .. } | DialogKind::Editor { .. },
            DialogAnswer::Confirmed(_),
        ) => return bad("this question wants a text".to_owned()),
    };
    let response = UiResponse {
        id: dialog.to_owned(),
        answer,
    };
    Ok(Command::UiResponse(response).to_line(dialog).into_bytes())
}
