//! Splits `--pi CMD` into words the way a shell would, without a shell: quotes and backslashes, nothing else.
//! No variables, no globs, no `~`, no operators: such characters are ordinary text.

/// Why a command could not be split.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WordsError {
    /// A quote has no partner.
    #[error("a quote ({0}) is not closed")]
    OpenQuote(char),
    /// The last character is a backslash.
    #[error("it ends with a backslash")]
    OpenBackslash,
    /// NUL cannot be part of an argument.
    #[error("it contains a NUL character")]
    Nul,
}

/// Splits a command into words.
///
/// `'…'` is taken literally; in `"…"` a backslash escapes `"`, `\`, `$` and a backquote; elsewhere it escapes
/// any character. Adjacent pieces join (`a'b c'd` is one word); `''` is an empty word.
///
/// # Errors
/// An unclosed quote, a backslash at the end, a NUL.
pub fn split_words(command: &str) -> Result<Vec<String>, WordsError> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = command.chars();
    while let Some(c) = chars.next() {
        match c {
            '\0' => return Err(WordsError::Nul),
            c if c.is_ascii_whitespace() => words.extend(word.take()),
            '\'' => single_quoted(&mut chars, word.get_or_insert_default())?,
            '"' => double_quoted(&mut chars, word.get_or_insert_default())?,
            '\\' => {
                let next = chars.next().ok_or(WordsError::OpenBackslash)?;
                word.get_or_insert_default().push(next);
            }
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    if words.iter().any(|word| word.contains('\0')) {
        return Err(WordsError::Nul);
    }
    Ok(words)
}

fn single_quoted(chars: &mut std::str::Chars<'_>, word: &mut String) -> Result<(), WordsError> {
    for c in chars {
        if c == '\'' {
            return Ok(());
        }
        word.push(c);
    }
    Err(WordsError::OpenQuote('\''))
}

fn double_quoted(chars: &mut std::str::Chars<'_>, word: &mut String) -> Result<(), WordsError> {
    while let Some(c) = chars.next() {
        match c {
            '"' => return Ok(()),
            '\\' => match chars.next().ok_or(WordsError::OpenQuote('"'))? {
                escaped @ ('"' | '\\' | '$' | '`') => word.push(escaped),
                other => {
                    word.push('\\');
                    word.push(other);
                }
            },
            c => word.push(c),
        }
    }
    Err(WordsError::OpenQuote('"'))
}
