//! The one width function. Owns how many columns a text takes; everything that measures,
//! wraps, cuts or paints asks here.
//!
//! A grapheme cluster is measured exactly as ratatui's buffer places it, so what is computed is
//! what is drawn. Text is measured after the sanitiser, which removes the clusters terminals
//! disagree about (see [`super::text`]); a cluster wider than one column makes the backend move
//! the cursor explicitly afterwards, so an old terminal cannot shift the rest of the row.

use ratatui::buffer::CellWidth;
use unicode_segmentation::UnicodeSegmentation;

use super::text::{SafeStr, SafeText};

/// The mark that stands for text that was cut off; one column.
pub const ELLIPSIS: &str = "…";

/// True when every byte is a printable ASCII character: then columns = bytes.
fn plain(text: &str) -> bool {
    text.bytes().all(|b| (0x20..0x7f).contains(&b))
}

/// Columns of one grapheme cluster.
#[must_use]
pub fn cluster_width(cluster: &str) -> usize {
    match cluster.as_bytes() {
        [] => 0,
        [b] => usize::from((0x20..0x7f).contains(b)),
        _ => usize::from(cluster.cell_width()),
    }
}

/// Columns of a text of one line.
#[must_use]
pub fn width(text: &str) -> usize {
    if plain(text) {
        return text.len();
    }
    clusters(text).map(|(_, _, w)| w).sum()
}

/// Grapheme clusters of a text: byte offset, cluster, columns.
pub fn clusters(text: &str) -> impl DoubleEndedIterator<Item = (usize, &str, usize)> {
    text.grapheme_indices(true)
        .map(|(at, cluster)| (at, cluster, cluster_width(cluster)))
}

/// Bytes of the longest prefix of whole clusters that fits into `cols` columns.
#[must_use]
pub fn prefix_len(text: &str, cols: usize) -> usize {
    if plain(text) {
        return text.len().min(cols);
    }
    let mut used = 0;
    for (at, _, w) in clusters(text) {
        used += w;
        if used > cols {
            return at;
        }
    }
    text.len()
}

/// Cuts a text to `cols` columns at a cluster boundary; a cut text ends in `…`.
/// The result never takes more than `cols` columns.
#[must_use]
pub fn truncate<'a>(text: impl Into<SafeStr<'a>>, cols: usize) -> SafeText {
    let text: SafeStr<'a> = text.into();
    if width(text.as_str()) <= cols {
        return text.to_text();
    }
    if cols == 0 {
        return SafeText::default();
    }
    let kept = text.slice(0..prefix_len(text.as_str(), cols - 1));
    kept.to_text().with_static(ELLIPSIS)
}

/// Cuts a text to `cols` columns from the front: the end is what is kept (paths).
#[must_use]
pub fn truncate_start<'a>(text: impl Into<SafeStr<'a>>, cols: usize) -> SafeText {
    let text: SafeStr<'a> = text.into();
    let raw = text.as_str();
    if width(raw) <= cols {
        return text.to_text();
    }
    if cols == 0 {
        return SafeText::default();
    }
    let mut used = 1;
    let mut start = raw.len();
    for (at, _, w) in clusters(raw).rev() {
        used += w;
        if used > cols {
            break;
        }
        start = at;
    }
    SafeText::from_static(ELLIPSIS).with(text.slice(start..raw.len()))
}
