//! Feeds what is no escape sequence to the collector of safe text. The grammar is the core's
//! (`fleet::plain`).

use super::chars::Out;
pub(super) use crate::fleet::plain::{Item, each_char};

/// Feeds the characters of `raw` to `out`. For every complete SGR sequence `sgr` is called with
/// its parameters and the number of bytes written so far.
pub(super) fn each<F: FnMut(&str, usize)>(raw: &str, out: &mut Out, mut sgr: F) {
    each_char(raw, |item| match item {
        Item::Char(c) => out.push(c),
        Item::Sgr(params) => {
            let at = out.settle();
            sgr(params, at);
        }
    });
}
