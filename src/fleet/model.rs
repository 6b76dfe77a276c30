//! Model names (R-TOOL-04, R-PI-10). Pi accepts any id of a known provider; here a name that is not
//! in the child's own list is refused, with near matches.

use super::agent::Thinking;

/// How many near matches a refusal names.
const MAX_NEAR: usize = 3;

/// Takes a thinking level off the end of `model:thinking`.
#[must_use]
pub fn without_thinking(wanted: &str) -> &str {
    match wanted.rsplit_once(':') {
        Some((model, level)) if Thinking::parse(level).is_some() => model,
        _ => wanted,
    }
}

/// The model that is meant, as `provider/id`, with the thinking level that was behind it. `known` are
/// `provider/id`; of several with the same id it is the one of the provider of `own`, the dispatching
/// session's model (R-TOOL-04).
///
/// # Errors
/// As [`check`]; or which ones it can be.
pub fn resolve(wanted: &str, own: Option<&str>, known: &[String]) -> Result<String, String> {
    let wanted = wanted.trim();
    // Some ids end with a colon and a word: the whole text first.
    for (name, level) in [
        (wanted, ""),
        (
            without_thinking(wanted),
            wanted
                .get(without_thinking(wanted).len()..)
                .unwrap_or_default(),
        ),
    ] {
        if known.iter().any(|k| k == name) {
            return Ok(format!("{name}{level}"));
        }
        let same = |k: &&String| k.split_once('/').is_some_and(|(_, id)| id == name);
        let found: Vec<&String> = known.iter().filter(same).collect();
        let provider = |text: &str| text.split_once('/').map(|(p, _)| p.to_owned());
        let near = |k: &&&String| own.is_some_and(|own| provider(own) == provider(k));
        match found.as_slice() {
            [] => {}
            [one] => return Ok(format!("{one}{level}")),
            several => {
                let all: Vec<&str> = several.iter().map(|k| k.as_str()).collect();
                return several
                    .iter()
                    .find(near)
                    .map(|k| format!("{k}{level}"))
                    .ok_or_else(|| {
                        format!(
                            "several models are called {name} · say which: {}",
                            all.join(", ")
                        )
                    });
            }
        }
    }
    check(wanted, None, known).map(|()| wanted.to_owned())
}

/// Checks that the model a child uses is a real one. `known` are `provider/id`.
///
/// # Errors
/// One line for a person: what was not found and what comes near.
pub fn check(wanted: &str, in_use: Option<&str>, known: &[String]) -> Result<(), String> {
    let wanted = without_thinking(wanted);
    if in_use.is_some_and(|used| known.iter().any(|k| k == used)) {
        return Ok(());
    }
    let near = near_matches(wanted, known);
    let mut text = format!("model not found: {wanted}");
    if known.is_empty() {
        text.push_str(" · Pi has no usable model; configure one with `pi` and /login");
    } else if !near.is_empty() {
        text.push_str(" · did you mean ");
        text.push_str(&near.join(", "));
        text.push('?');
    }
    Err(text)
}

/// Known names that come near, nearest first.
#[must_use]
pub fn near_matches(wanted: &str, known: &[String]) -> Vec<String> {
    let wanted = wanted.to_lowercase();
    let short = wanted.rsplit('/').next().unwrap_or(&wanted);
    let mut scored: Vec<(usize, &String)> = known
        .iter()
        .filter_map(|k| {
            let name = k.to_lowercase();
            let id = name.split_once('/').map_or(name.as_str(), |(_, id)| id);
            let score = if id.contains(short) || short.contains(id) {
                0
            } else {
                distance(short, id).min(distance(&wanted, &name))
            };
            (score <= short.chars().count().div_ceil(2)).then_some((score, k))
        })
        .collect();
    scored.sort();
    scored
        .into_iter()
        .take(MAX_NEAR)
        .map(|(_, k)| k.clone())
        .collect()
}

/// Edit distance in characters.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.chars().enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        for (cell, cb) in row.iter_mut().skip(1).zip(&b) {
            let up = *cell;
            let here = (diagonal + usize::from(ca != *cb))
                .min(up + 1)
                .min(left + 1);
            diagonal = up;
            left = here;
            *cell = here;
        }
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
    }
    row.last().copied().unwrap_or(0)
}
