//! Which lines a replacement changes. Owns no looks.

/// A changed or kept line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Line<'a> {
    /// In both texts.
    Same(&'a str),
    /// Only in the old one.
    Gone(&'a str),
    /// Only in the new one.
    New(&'a str),
}

/// Unchanged lines kept around a change.
const CONTEXT: usize = 2;

/// The change between two texts as one hunk: what both begin and end with is left out but for a
/// few lines.
pub(super) fn diff<'a>(old: &'a str, new: &'a str) -> Vec<Line<'a>> {
    let old: Vec<&str> = lines(old);
    let new: Vec<&str> = lines(new);
    let head = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    let rest = old.len().min(new.len()) - head;
    let tail = old
        .iter()
        .rev()
        .zip(new.iter().rev())
        .take(rest)
        .take_while(|(a, b)| a == b)
        .count();
    let part = |all: &[&'a str], from: usize, to: usize| -> Vec<&'a str> {
        all.get(from..to.max(from)).unwrap_or_default().to_vec()
    };
    let mut out = Vec::new();
    out.extend(
        part(&old, head.saturating_sub(CONTEXT), head)
            .into_iter()
            .map(Line::Same),
    );
    out.extend(
        part(&old, head, old.len() - tail)
            .into_iter()
            .map(Line::Gone),
    );
    out.extend(
        part(&new, head, new.len() - tail)
            .into_iter()
            .map(Line::New),
    );
    let after = old.len() - tail;
    out.extend(
        part(&old, after, (after + CONTEXT).min(old.len()))
            .into_iter()
            .map(Line::Same),
    );
    out
}

fn lines(text: &str) -> Vec<&str> {
    text.strip_suffix('\n')
        .unwrap_or(text)
        .split('\n')
        .collect()
}
