//! Settings: who beats whom, and what wrong ones say. R-OPS-04.

use std::path::Path;
use std::time::Duration;

use pi_agents::config::env::{Environment, VARIABLES};
use pi_agents::config::settings::{Loaded, Origin, Settings, SettingsError, TABLE};

fn load(file: &str, env: &[(&str, &str)], line: &[(&str, &str)]) -> Result<Loaded, SettingsError> {
    let env = Environment::of(env.iter().copied());
    Loaded::from_text(Path::new("/etc/c.toml"), file, &env, line)
}

fn error(file: &str) -> String {
    load(file, &[], &[]).unwrap_err().to_string()
}

#[test]
fn defaults_are_those_of_the_step() {
    let loaded = load("", &[], &[]).unwrap();
    assert_eq!(loaded.settings, Settings::default());
    assert_eq!(loaded.settings.stop_eof, Duration::from_millis(1500));
    assert_eq!(loaded.settings.stop_term, Duration::from_millis(750));
    assert_eq!(loaded.settings.double_key, Duration::from_secs(2));
    assert_eq!(loaded.settings.core_idle_exit, Duration::from_secs(600));
    assert_eq!(loaded.settings.record_limit, 64 << 20);
    assert!(loaded.settings.launch_slots >= 1);
    assert_eq!(loaded.origins.len(), TABLE.len());
    assert!(loaded.origins.values().all(|o| *o == Origin::Default));
}

#[test]
fn command_line_beats_environment_beats_file_beats_default() {
    let file = "pi = 'file'\n\n[stop]\neof_ms = 1\n";
    let env = [("PI_AGENTS_PI", "env"), ("PI_AGENTS_STOP_EOF_MS", "2")];
    let line = [("pi", "line")];
    let get = |l: &Loaded| (l.settings.pi.clone(), l.settings.stop_eof.as_millis());

    let one = load(file, &[], &[]).unwrap();
    assert_eq!(get(&one), (Some("file".into()), 1));
    assert_eq!(one.origins["pi"], Origin::File { line: 1 });
    assert_eq!(one.origins["stop.eof_ms"], Origin::File { line: 4 });
    let two = load(file, &env, &[]).unwrap();
    assert_eq!(get(&two), (Some("env".into()), 2));
    let three = load(file, &env, &line).unwrap();
    assert_eq!(get(&three), (Some("line".into()), 2));
    assert_eq!(three.origins["pi"], Origin::CommandLine);
    assert_eq!(three.origins["stop.eof_ms"], Origin::Environment);
    // Set to nothing is not set.
    let four = load(file, &[("PI_AGENTS_PI", "")], &[]).unwrap();
    assert_eq!(four.settings.pi.as_deref(), Some("file"));
}

#[test]
fn every_setting_works_in_all_three_places() {
    for setting in TABLE {
        let text = matches!(setting.key, "pi" | "model" | "log");
        let value = if text { "word" } else { "65537" };
        let value = match setting.key {
            "launch.slots" | "agents.max_depth" => "3",
            "log" => "debug",
            _ => value,
        };
        let shown = if text {
            format!("'{value}'")
        } else {
            value.to_owned()
        };
        let by_file = load(&format!("{} = {shown}", setting.key), &[], &[]).unwrap();
        let by_env = load("", &[(setting.env, value)], &[]).unwrap();
        let by_line = load("", &[], &[(setting.key, value)]).unwrap();
        assert_ne!(by_file.settings, Settings::default(), "{setting:?}");
        assert_eq!(by_file.settings, by_env.settings, "{setting:?}");
        assert_eq!(by_file.settings, by_line.settings, "{setting:?}");
        assert_eq!(by_file.origins[setting.key], Origin::File { line: 1 });
    }
}

#[test]
fn wrong_files_say_where_and_what() {
    let at = |line: usize, file: &str, words: &[&str]| {
        let error = error(file);
        assert!(
            error.starts_with(&format!("/etc/c.toml, line {line}: ")),
            "{error}"
        );
        for word in words {
            assert!(error.contains(word), "{error} lacks {word}");
        }
    };
    at(
        2,
        "\nstopp = 1\n",
        &["`stopp` is no setting", "stop.eof_ms"],
    );
    at(3, "[stop]\n\nfast = 1\n", &["`stop.fast` is no setting"]);
    at(
        2,
        "[stop]\neof_ms = 'soon'\n",
        &["`stop.eof_ms`", "whole number"],
    );
    at(2, "\nlog = 'loud'\n", &["`log`", "`loud`", "trace"]);
    at(1, "log = 'info,pi_agents=loud'\n", &["`log`"]);
    at(1, "stop = 5\n", &["group", "[stop]"]);
    at(1, "pi = 5\n", &["`pi`", "text in quotes"]);
    at(1, "pi = ['a']\n", &["`pi`", "array"]);
    at(2, "[launch]\nslots = 0\n", &["between 1 and"]);
    at(2, "[launch]\nslots = -4\n", &["`launch.slots`", "-4"]);
    at(2, "[launch]\nslots = 1.5\n", &["float"]);
    at(2, "# fine\npi = 'open\n", &[]);
    at(2, "pi = 'a'\npi = 'b'\n", &["duplicate"]);
}

#[test]
fn wrong_variables_and_options_are_named() {
    let error = load("", &[("PI_AGENTS_STOP_TERM_MS", "fast")], &[]).unwrap_err();
    assert!(
        error.to_string().contains("PI_AGENTS_STOP_TERM_MS"),
        "{error}"
    );
    let error = load("", &[], &[("stop.nothing", "1")]).unwrap_err();
    assert!(error.to_string().contains("stop.nothing"), "{error}");
    use std::os::unix::ffi::OsStringExt;
    let env = Environment::of([("PI_AGENTS_PI", std::ffi::OsString::from_vec(vec![0xff]))]);
    let error = Loaded::from_text(Path::new("f"), "", &env, &[]).unwrap_err();
    assert!(error.to_string().contains("PI_AGENTS_PI"), "{error}");
}

#[test]
fn a_missing_file_is_an_empty_one_and_an_unreadable_one_is_named() {
    let root = tempfile::tempdir().unwrap();
    let env = Environment::default();
    assert!(Loaded::load(&root.path().join("none/c.toml"), &env, &[]).is_ok());
    let error = Loaded::load(root.path(), &env, &[])
        .unwrap_err()
        .to_string();
    assert!(
        error.contains(&root.path().display().to_string()),
        "{error}"
    );
}

// R-ID-07, R-ID-03: a person's wish; in a child the variable is its core's word and no wish.
#[test]
fn how_deep_agents_may_go_is_a_persons_wish() {
    let depth =
        |env: &[(&str, &str)]| load("agents.max_depth = 4", env, &[]).map(|l| l.settings.max_depth);
    assert_eq!(load("", &[], &[]).unwrap().settings.max_depth, 1);
    assert_eq!(depth(&[]).unwrap(), 4);
    assert_eq!(depth(&[("PI_SUBAGENT_MAX_DEPTH", "2")]).unwrap(), 2);
    let child = [("PI_SUBAGENT_AGENT_ID", "max"), ("PI_SUBAGENT_DEPTH", "1")];
    for word in ["9", "none"] {
        let env = [&child[..], &[("PI_SUBAGENT_MAX_DEPTH", word)]].concat();
        assert_eq!(depth(&env).unwrap(), 4, "{word}");
    }
    for (word, why) in [
        ("0", "0 is not between 1 and 16"),
        ("17", "17 is not between 1 and 16"),
        ("-1", "`-1` is not a whole number"),
        ("1.5", "`1.5` is not a whole number"),
        ("deep", "`deep` is not a whole number"),
        ("99999999999999999999", "is not a whole number"),
    ] {
        let error = depth(&[("PI_SUBAGENT_MAX_DEPTH", word)])
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with("environment variable PI_SUBAGENT_MAX_DEPTH: "),
            "{error}"
        );
        assert!(error.contains(why), "{error}");
    }
    let file = error("[agents]\nmax_depth = 0\n");
    assert!(
        file.contains("line 2") && file.contains("`agents.max_depth`"),
        "{file}"
    );
}

/// A variable of ours used anywhere in the code stands in one of the two tables.
#[test]
fn every_variable_in_the_code_is_in_the_table() {
    let known: Vec<&str> = VARIABLES
        .iter()
        .map(|v| v.name)
        .chain(TABLE.iter().map(|s| s.env))
        .collect();
    let mut todo = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
    let mut seen = 0;
    while let Some(path) = todo.pop() {
        if path.is_dir() {
            todo.extend(std::fs::read_dir(&path).unwrap().map(|f| f.unwrap().path()));
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        for word in
            text.split(|c: char| !(c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_'))
        {
            if word.starts_with("PI_AGENTS_") || word.starts_with("PI_SUBAGENT_") {
                seen += 1;
                assert!(
                    known.contains(&word),
                    "{word} in {} is in no table",
                    path.display()
                );
            }
        }
    }
    assert!(seen > 10);
}
