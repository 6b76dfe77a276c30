//! Themes and numbers.

use pi_agents::tui::numbers as n;
use pi_agents::tui::theme::{Depth, Ground, Theme, ThemeError};
use pretty_assertions::assert_eq;
use ratatui::style::{Color, Style};

#[test]
fn own_themes_have_every_role() {
    for source in [
        include_str!("../../assets/themes/dark.json"),
        include_str!("../../assets/themes/light.json"),
    ] {
        let file: serde_json::Value = serde_json::from_str(source).unwrap();
        for role in Theme::ROLES {
            assert!(file["colors"].get(role).is_some(), "{role}");
        }
        assert_eq!(
            file["colors"].as_object().unwrap().len(),
            Theme::ROLES.len()
        );
        Theme::parse(source, Ground::Dark, Depth::True).unwrap();
    }
}

fn luminance(color: Color) -> f64 {
    let Color::Rgb(r, g, b) = color else {
        panic!("not a colour of our own: {color:?}")
    };
    let part = |v: u8| {
        let v = f64::from(v) / 255.0;
        if v <= 0.04045 {
            v / 12.92
        } else {
            ((v + 0.055) / 1.055).powf(2.4)
        }
    };
    0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b)
}

fn contrast(a: Color, b: Color) -> f64 {
    let (a, b) = (luminance(a), luminance(b));
    (a.max(b) + 0.05) / (a.min(b) + 0.05)
}

// R-TUI-09: readable on every ground it is drawn on.
#[test]
fn text_is_readable_on_its_grounds() {
    for (ground, terminal) in [
        (Ground::Dark, Color::Rgb(30, 30, 30)),
        (Ground::Light, Color::Rgb(255, 255, 255)),
    ] {
        let t = Theme::load(ground, Depth::True);
        let grounds = [
            terminal,
            t.selected_bg.bg.unwrap(),
            t.user_message_bg.bg.unwrap(),
            t.custom_message_bg.bg.unwrap(),
            t.tool_pending_bg.bg.unwrap(),
            t.tool_success_bg.bg.unwrap(),
            t.tool_error_bg.bg.unwrap(),
        ];
        for (name, style, least) in [
            ("accent", t.accent, 4.5),
            ("success", t.success, 4.5),
            ("error", t.error, 4.5),
            ("warning", t.warning, 4.5),
            ("muted", t.muted, 4.5),
            ("toolOutput", t.tool_output, 4.5),
            ("mdCode", t.md_code, 4.5),
            ("dim", t.dim, 3.0),
        ] {
            for bg in grounds {
                let got = contrast(style.fg.unwrap(), bg);
                assert!(got >= least, "{ground:?} {name} on {bg:?}: {got:.2}");
            }
        }
    }
}

// B054
#[test]
fn fewer_colours() {
    let t = Theme::load(Ground::Dark, Depth::Ansi256);
    assert!(matches!(t.accent.fg, Some(Color::Indexed(16..))));
    let t = Theme::load(Ground::Dark, Depth::Ansi16);
    assert_eq!(t.error.fg, Some(Color::Indexed(1)));
    assert_eq!(t.success.fg, Some(Color::Indexed(2)));
    assert_eq!(t.warning.fg, Some(Color::Indexed(3)));
    assert_eq!(t.tool_error_bg, Style::new());
    let t = Theme::load(Ground::Light, Depth::None);
    for style in [
        t.accent,
        t.error,
        t.selected_bg,
        t.tool_error_bg,
        t.md_heading,
    ] {
        assert_eq!((style.fg, style.bg), (None, None));
    }
    let red = Style::new()
        .fg(Color::Rgb(200, 20, 20))
        .bg(Color::Indexed(200));
    assert_eq!(t.output_style(red), Style::new());
}

#[test]
fn themes_of_pi_are_read() {
    let t = Theme::parse(
        r##"{"$schema":"x","name":"mine","vars":{"a":"b","b":"#102030","n":39},
            "colors":{"accent":"a","muted":"n","text":"","error":"#f00","unknownRole":7}}"##,
        Ground::Dark,
        Depth::True,
    )
    .unwrap();
    assert_eq!(t.accent.fg, Some(Color::Rgb(0x10, 0x20, 0x30)));
    assert_eq!(t.muted.fg, Some(Color::Indexed(39)));
    assert_eq!(t.text.fg, None);
    assert_eq!(t.error.fg, Some(Color::Rgb(255, 0, 0)));
    // What the file does not say comes from our own.
    assert_eq!(t.success, Theme::load(Ground::Dark, Depth::True).success);
    for bad in [
        r#"{"colors":{"accent":"nope"}}"#,
        r##"{"colors":{"accent":"#12"}}"##,
        r##"{"colors":{"accent":"#ééé"}}"##,
        r#"{"vars":{"a":"b","b":"a"},"colors":{"accent":"a"}}"#,
    ] {
        let error = Theme::parse(bad, Ground::Dark, Depth::True).unwrap_err();
        assert!(matches!(error, ThemeError::Color { .. }), "{error}");
    }
    assert!(Theme::parse("[]", Ground::Dark, Depth::True).is_err());
}

#[test]
fn numbers_are_written_as_on_the_screens() {
    let s = |t: pi_agents::tui::text::SafeText| t.to_string();
    for (ms, want) in [
        (0, "0s"),
        (42_000, "42s"),
        (59_999, "59s"),
        (182_000, "3m02"),
        (4_020_000, "1h07"),
        (172_800_000, "2d"),
    ] {
        assert_eq!(s(n::short(ms)), want);
    }
    assert_eq!(s(n::exact(27_560)), "27.5s");
    assert_eq!(s(n::exact(3_100)), "3.1s");
    assert_eq!(s(n::exact(182_000)), "3m02");
    assert_eq!(s(n::brief(100)), "0.1s");
    assert_eq!(s(n::brief(12_900)), "12s");
    for (count, want) in [
        (940, "940"),
        (999, "999"),
        (1000, "1k"),
        (12_400, "12.4k"),
        (41_049, "41k"),
        (99_999, "99.9k"),
        (200_000, "200k"),
        (1_200_000, "1.2M"),
    ] {
        assert_eq!(s(n::tokens(count)), want);
    }
    assert_eq!(s(n::grouped(1_250)), "1,250");
    assert_eq!(s(n::grouped(999)), "999");
    assert_eq!(s(n::grouped(1_234_567)), "1,234,567");
    assert_eq!(s(n::cost(0.42)), "$0.42");
    assert_eq!(s(n::cost(0.004)), "<1¢");
    assert_eq!(s(n::cost(0.0)), "$0");
    assert_eq!(s(n::cost(f64::NAN)), "$0");
    assert_eq!(s(n::bytes(512)), "512 B");
    assert_eq!(s(n::bytes(12_700)), "12.4 KB");
    assert_eq!(s(n::bytes(3 * 1024 * 1024)), "3 MB");
    assert_eq!(s(n::bytes(300 * 1024)), "300 KB");
    assert_eq!(s(n::count(1, "tool")), "1 tool");
    assert_eq!(s(n::count(1250, "tool")), "1,250 tools");
    assert_eq!(n::since(5, 10), 0);
}
