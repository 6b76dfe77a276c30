//! Colours in program output: SGR parameters to styles. Owns which attributes are honoured:
//! colours, bold, dim, italic, underline, reverse, strike. Concealed and blinking text is drawn
//! as ordinary text.

use ratatui::style::{Color, Modifier, Style};

use super::chars::Out;
use super::{SafeStr, SafeText, escape};

/// Text with the styles its escape sequences asked for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AnsiText {
    text: SafeText,
    /// (byte offset, style from there on), ascending.
    runs: Vec<(usize, Style)>,
}

impl AnsiText {
    /// The text without styles.
    #[must_use]
    pub fn text(&self) -> SafeStr<'_> {
        self.text.as_safe()
    }

    /// Styles: (byte offset, style from there on), ascending.
    #[must_use]
    pub fn runs(&self) -> &[(usize, Style)] {
        &self.runs
    }
}

pub(super) fn parse(raw: &str) -> AnsiText {
    if !raw.contains(['\u{1b}', '\u{9b}']) {
        return AnsiText {
            text: SafeText::block(raw),
            runs: Vec::new(),
        };
    }
    let mut out = Out::new(raw.len(), true);
    let mut runs: Vec<(usize, Style)> = Vec::new();
    let mut style = Style::new();
    escape::each(raw, &mut out, |params, at| {
        style = apply(style, params);
        match runs.last_mut() {
            Some(last) if last.0 == at => last.1 = style,
            _ => runs.push((at, style)),
        }
    });
    AnsiText {
        text: SafeText(out.finish()),
        runs,
    }
}

fn apply(mut style: Style, params: &str) -> Style {
    // A sub-parameter list (`38:2::r:g:b`) is read like the semicolon form.
    let mut codes = params
        .split([';', ':'])
        .map(|p| p.parse::<u16>().unwrap_or(0));
    while let Some(code) = codes.next() {
        style = match code {
            0 => Style::new(),
            1 => style.add_modifier(Modifier::BOLD),
            2 => style.add_modifier(Modifier::DIM),
            3 => style.add_modifier(Modifier::ITALIC),
            4 => style.add_modifier(Modifier::UNDERLINED),
            7 => style.add_modifier(Modifier::REVERSED),
            9 => style.add_modifier(Modifier::CROSSED_OUT),
            22 => without(style, Modifier::BOLD | Modifier::DIM),
            23 => without(style, Modifier::ITALIC),
            24 => without(style, Modifier::UNDERLINED),
            27 => without(style, Modifier::REVERSED),
            29 => without(style, Modifier::CROSSED_OUT),
            30..=37 => style.fg(Color::Indexed(low(code - 30))),
            38 => extended(&mut codes).map_or(style, |c| style.fg(c)),
            39 => Style { fg: None, ..style },
            40..=47 => style.bg(Color::Indexed(low(code - 40))),
            48 => extended(&mut codes).map_or(style, |c| style.bg(c)),
            49 => Style { bg: None, ..style },
            90..=97 => style.fg(Color::Indexed(low(code - 90 + 8))),
            100..=107 => style.bg(Color::Indexed(low(code - 100 + 8))),
            _ => style,
        };
    }
    style
}

fn without(mut style: Style, modifier: Modifier) -> Style {
    style.add_modifier.remove(modifier);
    style
}

fn low(n: u16) -> u8 {
    u8::try_from(n).unwrap_or(u8::MAX)
}

fn extended(codes: &mut impl Iterator<Item = u16>) -> Option<Color> {
    match codes.next()? {
        5 => Some(Color::Indexed(low(codes.next()?))),
        2 => {
            let (r, g, b) = (codes.next()?, codes.next()?, codes.next()?);
            Some(Color::Rgb(low(r), low(g), low(b)))
        }
        _ => None,
    }
}
