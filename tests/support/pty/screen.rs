//! The screen as a person sees it, and a terminal's answers to a program's questions.

use vt100::Callbacks;

/// A look at the screen. Rows and columns count from 0.
pub struct Screen<'a>(&'a vt100::Screen);

impl<'a> Screen<'a> {
    pub(super) fn new(screen: &'a vt100::Screen) -> Self {
        Self(screen)
    }

    /// All rows, without trailing blanks.
    pub fn text(&self) -> String {
        let (_, cols) = self.0.size();
        let rows = self.0.rows(0, cols.get());
        let rows: Vec<String> = rows.map(|row| row.trim_end().to_owned()).collect();
        rows.join("\n")
    }

    /// One row, without trailing blanks.
    pub fn row(&self, row: u16) -> String {
        let (_, cols) = self.0.size();
        let mut rows = self.0.rows(0, cols.get());
        let text = rows.nth(usize::from(row)).unwrap_or_default();
        text.trim_end().to_owned()
    }

    /// Whether some row has that text.
    pub fn contains(&self, text: &str) -> bool {
        self.find(text).is_some()
    }

    /// Row and column (in cells) where that text first stands.
    pub fn find(&self, text: &str) -> Option<(u16, u16)> {
        let (_, cols) = self.0.size();
        self.0.rows(0, cols.get()).zip(0..).find_map(|(line, row)| {
            let before = line.split_once(text)?.0;
            let width = unicode_width::UnicodeWidthStr::width(before);
            Some((row, u16::try_from(width).ok()?))
        })
    }

    /// Row and column of the cursor, if it is shown.
    pub fn cursor(&self) -> Option<(u16, u16)> {
        (!self.0.hide_cursor()).then(|| self.0.cursor_position())
    }

    /// Whether the program draws on the alternate screen.
    pub fn alternate(&self) -> bool {
        self.0.alternate_screen()
    }

    /// Everything else vt100 knows: cells with their colours, modes.
    pub fn inner(&self) -> &vt100::Screen {
        self.0
    }
}

/// Answers questions and keeps what a program tells its terminal.
pub(super) struct Replies {
    answers: Vec<u8>,
    kitty: bool,
    mute: bool,
    background: (u8, u8, u8),
    /// The kitty protocol's stack of flags.
    keyboard: Vec<u16>,
    pub(super) clipboard: Vec<String>,
    pub(super) title: Option<String>,
    pub(super) bells: usize,
}

impl Replies {
    pub(super) fn new(kitty: bool, mute: bool, background: (u8, u8, u8)) -> Self {
        Self {
            answers: Vec::new(),
            kitty,
            mute,
            background,
            keyboard: Vec::new(),
            clipboard: Vec::new(),
            title: None,
            bells: 0,
        }
    }

    /// The flags in force.
    pub(super) fn keyboard_flags(&self) -> u16 {
        self.keyboard.last().copied().unwrap_or(0)
    }

    pub(super) fn take_answers(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.answers)
    }

    fn answer(&mut self, text: &str) {
        if !self.mute {
            self.answers.extend_from_slice(text.as_bytes());
        }
    }

    fn keyboard(&mut self, kind: u8, first: u16) {
        match kind {
            b'?' => self.answer(&format!("\x1b[?{}u", self.keyboard_flags())),
            b'>' => self.keyboard.push(first),
            b'<' => {
                let left = self
                    .keyboard
                    .len()
                    .saturating_sub(usize::from(first.max(1)));
                self.keyboard.truncate(left);
            }
            b'=' => {
                self.keyboard.pop();
                self.keyboard.push(first);
            }
            _ => {}
        }
    }
}

impl Callbacks for Replies {
    fn audible_bell(&mut self, _: &mut vt100::Screen) {
        self.bells += 1;
    }

    fn set_window_title(&mut self, _: &mut vt100::Screen, title: &[u8]) {
        self.title = Some(String::from_utf8_lossy(title).into_owned());
    }

    fn copy_to_clipboard(&mut self, _: &mut vt100::Screen, _: &[u8], data: &[u8]) {
        let data = String::from_utf8_lossy(data).into_owned();
        self.clipboard.push(data);
    }

    fn unhandled_csi(
        &mut self,
        screen: &mut vt100::Screen,
        first: Option<u8>,
        second: Option<u8>,
        params: &[&[u16]],
        end: char,
    ) {
        let number = params.first().and_then(|p| p.first()).copied().unwrap_or(0);
        match (first, second, end) {
            (None, _, 'n') if number == 5 => self.answer("\x1b[0n"),
            (None, _, 'n') if number == 6 => {
                let (row, col) = screen.cursor_position();
                self.answer(&format!("\x1b[{};{}R", row + 1, col + 1));
            }
            (None, _, 'c') => self.answer("\x1b[?62;22c"),
            (Some(b'>'), _, 'c') => self.answer("\x1b[>1;1;0c"),
            (Some(b'>'), _, 'q') => self.answer("\x1bP>|test 1\x1b\\"),
            // No mode is known: "not recognised".
            (Some(b'?'), Some(b'$'), 'p') => self.answer(&format!("\x1b[?{number};0$y")),
            (None, _, 't') if number == 18 => {
                let (rows, cols) = screen.size();
                self.answer(&format!("\x1b[8;{rows};{cols}t"));
            }
            (Some(kind), None, 'u') if self.kitty => self.keyboard(kind, number),
            _ => {}
        }
    }

    fn unhandled_osc(&mut self, _: &mut vt100::Screen, params: &[&[u8]]) {
        let ((red, green, blue), code) = match params {
            [b"11", b"?"] => (self.background, 11),
            [b"10", b"?"] => {
                let (red, green, blue) = self.background;
                ((!red, !green, !blue), 10)
            }
            _ => return,
        };
        self.answer(&format!(
            "\x1b]{code};rgb:{red:02x}{red:02x}/{green:02x}{green:02x}/{blue:02x}{blue:02x}\x1b\\"
        ));
    }
}
