//! Turns longer texts into rows: styled text that wraps, Markdown. Owns no colours (the theme
//! does) and no widths (`width` does).

pub mod flow;
pub mod markdown;
