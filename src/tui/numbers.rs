//! Numbers as the screen writes them (screens.md §1): rows and lines short, cards exact.
//! Pure; every result is drawable text.

use super::text::SafeText;

fn made(text: String) -> SafeText {
    SafeText::from_digits(text)
}

/// Milliseconds, short: `42s`, `3m02`, `1h07`, `2d`.
#[must_use]
pub fn short(ms: u64) -> SafeText {
    let s = ms / 1000;
    made(match s {
        0..60 => format!("{s}s"),
        60..3600 => format!("{}m{:02}", s / 60, s % 60),
        3600..86_400 => format!("{}h{:02}", s / 3600, s % 3600 / 60),
        _ => format!("{}d", s / 86_400),
    })
}

/// Milliseconds in one unit, for waits: `42s`, `1m`, `2h`, `3d`.
#[must_use]
pub fn coarse(ms: u64) -> SafeText {
    let s = ms / 1000;
    made(match s {
        0..60 => format!("{s}s"),
        60..3600 => format!("{}m", s / 60),
        3600..86_400 => format!("{}h", s / 3600),
        _ => format!("{}d", s / 86_400),
    })
}

/// Milliseconds, short and with one digit below ten seconds, for tools: `0.1s`, `12s`, `3m02`.
#[must_use]
pub fn brief(ms: u64) -> SafeText {
    if ms < 10_000 {
        made(format!("{}.{}s", ms / 1000, ms % 1000 / 100))
    } else {
        short(ms)
    }
}

/// Milliseconds, exact: `27.5s`; from one minute on as [`short`] (`3m02`).
#[must_use]
pub fn exact(ms: u64) -> SafeText {
    if ms < 60_000 {
        made(format!("{}.{}s", ms / 1000, ms % 1000 / 100))
    } else {
        short(ms)
    }
}

/// Token counts, short: `940`, `12.4k`, `1.2M`.
#[must_use]
pub fn tokens(n: u64) -> SafeText {
    made(match n {
        0..1000 => n.to_string(),
        1000..100_000 => tenths(n / 100, "k"),
        100_000..1_000_000 => format!("{}k", n / 1000),
        _ => tenths(n / 100_000, "M"),
    })
}

fn tenths(n: u64, unit: &str) -> String {
    if n.is_multiple_of(10) {
        format!("{}{unit}", n / 10)
    } else {
        format!("{}.{}{unit}", n / 10, n % 10)
    }
}

/// A number with thousands grouped: `1,250`.
#[must_use]
pub fn grouped(n: u64) -> SafeText {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    made(out)
}

/// US dollars: `$0.42`; below one cent `<1¢`; nothing at all `$0`.
#[must_use]
pub fn cost(dollars: f64) -> SafeText {
    made(if !dollars.is_finite() || dollars <= 0.0 {
        "$0".to_owned()
    } else if dollars < 0.01 {
        "<1¢".to_owned()
    } else if dollars < 1000.0 {
        format!("${dollars:.2}")
    } else {
        format!("${dollars:.0}")
    })
}

/// Bytes: `512 B`, `12.4 KB`, `3 MB` (thousands of 1024).
#[must_use]
pub fn bytes(n: u64) -> SafeText {
    const UNITS: [&str; 5] = [" KB", " MB", " GB", " TB", " PB"];
    if n < 1024 {
        return made(format!("{n} B"));
    }
    let mut value = n;
    let mut last = 0;
    for unit in UNITS {
        last = value;
        value /= 1024;
        if value < 1024 {
            return made(if value < 100 {
                tenths(last.saturating_mul(10) / 1024, unit)
            } else {
                format!("{value}{unit}")
            });
        }
    }
    made(format!("{} PB", last / 1024))
}

/// A count with its noun: `1 tool`, `3 tools`. The plural adds an `s`.
#[must_use]
pub fn count(n: u64, noun: &'static str) -> SafeText {
    let mut text = grouped(n).with_static(" ").with_static(noun);
    if n != 1 {
        text.push_static("s");
    }
    text
}

/// A plain number.
#[must_use]
pub fn plain(n: u64) -> SafeText {
    made(n.to_string())
}

/// Time of day: `12:03`.
#[must_use]
pub fn clock(hour: i8, minute: i8) -> SafeText {
    made(format!("{hour:02}:{minute:02}"))
}

/// Percent: `18%`.
#[must_use]
pub fn percent(n: u64) -> SafeText {
    made(format!("{n}%"))
}

/// Milliseconds between two wall clocks; a clock that went back gives 0.
#[must_use]
pub fn since(now_ms: i64, then_ms: i64) -> u64 {
    u64::try_from(now_ms.saturating_sub(then_ms)).unwrap_or(0)
}
