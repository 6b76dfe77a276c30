//! Only `paint.rs` makes what ratatui draws (R-TUI-10).

use std::fs;
use std::path::{Path, PathBuf};

/// Ways to bring text to a cell. The editor widget draws itself and is the one exception.
const FORBIDDEN: &[&str] = &[
    "Span::",
    "Line::from",
    "Line::raw",
    "Line::styled",
    "Text::from",
    "Text::raw",
    "Text::styled",
    "Paragraph::new",
    "set_string",
    "set_stringn",
    "set_line",
    "set_span",
    "set_symbol",
    "set_char",
    "ListItem",
    "Block::",
    ".title(",
    "Tabs::",
    "Gauge",
    "render_widget(\"",
    "Print(",
];
const EXCEPT: &[&str] = &["paint.rs", "composer.rs"];

fn sources(dir: &Path, out: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, out);
        } else if path.extension().is_some_and(|e| e == "rs") {
            out.push(path);
        }
    }
}

#[test]
fn text_reaches_cells_through_paint_only() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/tui");
    let mut files = Vec::new();
    sources(&root, &mut files);
    assert!(files.len() > 5);
    let mut found = Vec::new();
    for file in files {
        if EXCEPT.iter().any(|name| file.ends_with(name)) {
            continue;
        }
        for (n, line) in fs::read_to_string(&file).unwrap().lines().enumerate() {
            let code = line.split("//").next().unwrap_or_default();
            for word in FORBIDDEN {
                // A whole word: `SafeText::line` is not `Text::line`.
                let hit = code.match_indices(word).any(|(at, _)| {
                    let before = code[..at].chars().next_back();
                    !before.is_some_and(|c| c.is_alphanumeric() || c == '_')
                });
                if hit {
                    found.push(format!("{}:{}: {word}", file.display(), n + 1));
                }
            }
        }
    }
    assert!(
        found.is_empty(),
        "use tui::paint instead:\n{}",
        found.join("\n")
    );
}
