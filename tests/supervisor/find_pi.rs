//! Finding Pi and Node: R-PI-06, B100, R-OPS-02. Real files and real processes, in a folder of the test's own.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use pi_agents::pi::compat::Version;
use pi_agents::supervisor::find_pi::{PiProblem, find, find_within, no_models, split_words};
use pretty_assertions::assert_eq;

type Env = Vec<(OsString, OsString)>;

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("temp dir"))
    }

    fn path(&self, rel: &str) -> PathBuf {
        self.0.path().canonicalize().expect("real path").join(rel)
    }

    fn write(&self, rel: &str, text: &str) -> PathBuf {
        let path = self.path(rel);
        fs::create_dir_all(path.parent().expect("parent")).expect("mkdir");
        fs::write(&path, text).expect("write");
        path
    }

    fn program(&self, rel: &str, text: &str) -> PathBuf {
        let path = self.write(rel, text);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("chmod");
        path
    }

    /// Pi as npm installs it: a link in `bin` to a script deep in its package.
    fn pi_package(&self, bin: &str, version: &str) -> PathBuf {
        let root = format!("lib-{version}/node_modules/@earendil-works/pi-coding-agent");
        self.write(
            &format!("{root}/package.json"),
            &format!(r#"{{"name":"@earendil-works/pi-coding-agent","version":"{version}"}}"#),
        );
        // Would leave a trace if it were run: the version must come from package.json.
        let script = self.program(
            &format!("{root}/dist/bundle/cli.js"),
            "#!/usr/bin/env node\n",
        );
        let link = self.path(&format!("{bin}/pi"));
        fs::create_dir_all(link.parent().expect("parent")).expect("mkdir");
        std::os::unix::fs::symlink(script, &link).expect("symlink");
        link
    }

    fn node(&self, bin: &str, version: &str) -> PathBuf {
        self.program(
            &format!("{bin}/node"),
            &format!("#!/bin/sh\necho ran >> \"${{0%/*}}/ran\"\necho v{version}\n"),
        )
    }

    fn env(&self, bins: &[&str]) -> Env {
        let mut path = bins
            .iter()
            .map(|bin| self.path(bin).display().to_string())
            .collect::<Vec<_>>();
        path.push("/usr/bin-that-is-not-there".to_owned());
        vec![
            ("PATH".into(), path.join(":").into()),
            ("HOME".into(), self.path("home").into()),
        ]
    }
}

fn title(result: Result<impl Sized, PiProblem>) -> String {
    result.err().expect("a problem").title()
}

#[test]
fn pi_is_found_by_its_package_and_not_run() {
    // R-PI-06: the version comes from package.json (pi-compat F13).
    let place = Place::new();
    let pi = place.pi_package("bin", "1.6.0");
    place.node("bin", "22.19.0");
    let found = find(None, &place.env(&["bin"])).expect("found");
    assert_eq!(found.argv, vec![pi.into_os_string()]);
    assert_eq!(found.version, Version::new(1, 6, 0));
    assert_eq!(found.path_prefix, None, "the first node on PATH is good");
}

#[test]
fn the_first_node_that_is_new_enough_is_put_first() {
    let place = Place::new();
    place.pi_package("a", "1.4.0");
    place.node("a", "20.20.2");
    place.node("b", "22.18.9");
    place.node("c", "22.19.0");
    place.node("d", "24.0.0");
    let env = place.env(&["a", "b", "c", "d"]);
    let found = find(None, &env).expect("found");
    assert_eq!(found.path_prefix, Some(place.path("c")));
    assert!(!place.path("d/ran").exists(), "no more is run than needed");
    let path = found.path_for_child(&env).expect("a path");
    let dirs: Vec<PathBuf> = std::env::split_paths(&path).collect();
    assert_eq!(dirs[..2], [place.path("c"), place.path("a")]);
}

#[test]
fn a_node_beside_pi_is_found_without_path() {
    let place = Place::new();
    let pi = place.pi_package("manager/v22/bin", "1.6.0");
    place.node("manager/v22/bin", "22.20.0");
    place.node("old", "18.0.0");
    let found = find(Some(&pi.display().to_string()), &place.env(&["old"])).expect("found");
    assert_eq!(found.path_prefix, Some(place.path("manager/v22/bin")));
}

#[test]
fn what_is_too_old_or_missing_says_what_to_do() {
    let place = Place::new();
    place.pi_package("old", "1.3.9");
    place.pi_package("new", "1.6.0");
    place.node("node20", "20.20.2");

    let old = find(None, &place.env(&["old"])).expect_err("too old");
    assert_eq!(old.title(), "Pi 1.3.9 is too old: 1.4.0 or newer is needed");
    assert!(
        old.lines()
            .contains(&"  npm install -g @earendil-works/pi-coding-agent@latest".to_owned()),
        "{:?}",
        old.lines()
    );

    assert_eq!(
        title(find(None, &place.env(&["new", "node20"]))),
        "Node 20.20.2 is too old for Pi: 22.19.0 or newer is needed"
    );
    assert_eq!(
        title(find(None, &place.env(&["new"]))),
        "Node is not installed"
    );
    assert_eq!(
        title(find(None, &place.env(&["nothing"]))),
        "Pi is not installed"
    );
    assert_eq!(
        title(find(Some("/no/such/pi"), &place.env(&[]))),
        "/no/such/pi is not there"
    );
}

#[test]
fn another_program_called_pi_is_named_by_its_path() {
    // B100
    let place = Place::new();
    let wrong = place.program(
        "bin/pi",
        "#!/bin/sh\nprintf '3.14159265358979\\n\\033]0;owned\\007\\033[31mred'\n",
    );
    let problem = find(None, &place.env(&["bin"])).expect_err("not pi");
    assert_eq!(problem.title(), format!("{} is not Pi", wrong.display()));
    let PiProblem::NotPi { said, .. } = &problem else {
        panic!("{problem:?}");
    };
    assert!(said.starts_with("3.14159265358979"), "{said}");
    for line in problem.lines() {
        assert!(!line.chars().any(char::is_control), "{line:?}");
    }
}

#[test]
fn a_flood_of_output_is_cut() {
    // B100: its output is capped.
    let place = Place::new();
    place.program(
        "bin/pi",
        "#!/bin/sh\nwhile :; do echo digits digits digits; done\n",
    );
    let begun = Instant::now();
    let problem = find(None, &place.env(&["bin"])).expect_err("not pi");
    assert!(begun.elapsed() < Duration::from_secs(5));
    let PiProblem::NotPi { said, .. } = problem else {
        panic!("{problem:?}");
    };
    assert!(said.len() < 100, "{said}");
}

#[test]
fn a_program_that_hangs_is_killed_with_its_group() {
    // B100: checked within a bound, and nothing stays behind.
    let place = Place::new();
    let pid_file = place.path("pid");
    place.program(
        "bin/pi",
        &format!(
            "#!/bin/sh\n/bin/sleep 300 &\necho $! > {0}.new; /bin/mv {0}.new {0}\nwait\n",
            pid_file.display()
        ),
    );
    let begun = Instant::now();
    let limit = Duration::from_secs(2);
    let problem = find_within(None, &place.env(&["bin"]), limit).expect_err("hangs");
    assert!(problem.lines()[0].contains("did not answer"), "{problem:?}");
    assert!(begun.elapsed() < Duration::from_secs(8));
    let pid = fs::read_to_string(&pid_file).expect("it ran");
    let deadline = Instant::now() + Duration::from_secs(5);
    while alive(pid.trim()) {
        assert!(Instant::now() < deadline, "sleep {pid} is still alive");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Alive and not a zombie that some init has yet to reap.
fn alive(pid: &str) -> bool {
    let out = std::process::Command::new("ps")
        .args(["-o", "stat=", "-p", pid])
        .output()
        .expect("ps");
    let stat = String::from_utf8_lossy(&out.stdout).trim().to_owned();
    !stat.is_empty() && !stat.starts_with('Z')
}

#[test]
fn a_wrapper_is_asked_and_needs_no_node() {
    let place = Place::new();
    place.program(
        "bin/pi",
        "#!/bin/sh\n[ \"$1\" = --version ] && echo 1.5.2\n",
    );
    let found = find(None, &place.env(&["bin"])).expect("found");
    assert_eq!(found.version, Version::new(1, 5, 2));
    assert_eq!(found.path_prefix, None);
}

#[test]
fn a_wrapper_whose_node_is_too_old_gets_a_good_one() {
    let place = Place::new();
    place.program(
        "bin/pi",
        "#!/bin/sh\ncase $(node --version) in v22*) echo 1.6.0;; *) exit 1;; esac\n",
    );
    place.node("bin", "20.1.0");
    place.node("good", "22.23.3");
    let found = find(None, &place.env(&["bin", "good"])).expect("found");
    assert_eq!(found.path_prefix, Some(place.path("good")));
}

#[test]
fn a_command_of_several_words_is_split_and_asked() {
    // design §2: split into words, never run by a shell.
    let place = Place::new();
    let program = place.program(
        "my tools/launch",
        "#!/bin/sh\n[ \"$#\" = 3 ] && [ \"$1\" = 'a b' ] && [ \"$2\" = '$(touch x); y' ] && echo 1.6.0\n",
    );
    let command = format!("'{}' a\\ b '$(touch x); y'", program.display());
    let found = find(Some(&command), &place.env(&[])).expect("found");
    assert_eq!(found.argv.len(), 3);
    assert_eq!(found.argv[0], program.into_os_string());

    assert_eq!(
        title(find(Some("'open"), &place.env(&[]))),
        "the command of Pi cannot be read: a quote (') is not closed"
    );
    assert_eq!(
        title(find(Some("  "), &place.env(&[]))),
        "the command of Pi cannot be read: it is empty"
    );
}

#[test]
fn only_the_requesters_environment_counts() {
    // R-LIFE-18: PATH of this test process has programs, the requester's has none.
    let place = Place::new();
    place.program(
        "bin/pi",
        "#!/bin/sh\n[ -z \"$CARGO_PKG_NAME\" ] && echo 1.6.0\n",
    );
    assert!(std::env::var_os("CARGO_PKG_NAME").is_some());
    find(None, &place.env(&["bin"])).expect("found");
    assert_eq!(title(find(None, &[])), "Pi is not installed");
}

#[test]
fn a_file_that_cannot_be_executed_is_refused() {
    let place = Place::new();
    let text = place.write("notes.txt", "hello");
    let problem = find(Some(&text.display().to_string()), &place.env(&[])).expect_err("refused");
    assert!(
        matches!(problem, PiProblem::CannotRun { .. }),
        "{problem:?}"
    );
    let broken = place.program("bin/pi", "#!/no/such/interpreter\n");
    let problem = find(Some(&broken.display().to_string()), &place.env(&[])).expect_err("refused");
    assert!(
        matches!(problem, PiProblem::CannotRun { .. }),
        "{problem:?}"
    );
}

#[test]
fn words_follow_the_shells_quotes() {
    let words = |text: &str| split_words(text).expect(text);
    assert_eq!(words(" a  b\tc\n"), ["a", "b", "c"]);
    assert_eq!(
        words(r#"a'b c'd "e \" f" g\ h"#),
        ["ab cd", "e \" f", "g h"]
    );
    assert_eq!(words(r#"'' "" x"#), ["", "", "x"]);
    assert_eq!(
        words(r#""a\nb" 'c\d' $HOME ~ *"#),
        [r"a\nb", r"c\d", "$HOME", "~", "*"]
    );
    assert_eq!(words(""), Vec::<String>::new());
    for bad in ["'a", "\"a", "\"a\\", "a\\", "a\0b", "'a\0b'"] {
        assert!(split_words(bad).is_err(), "{bad:?}");
    }
}

#[test]
fn only_three_numbers_are_a_version() {
    // B100
    let place = Place::new();
    for (says, good) in [
        ("1.6.0", true),
        ("v1.6.0", true),
        ("pi 1.7.0-beta.2", true),
        ("3.14159", false),
        ("16", false),
        ("1.6.0.1", false),
        ("raspberry 1.6.0", false),
        ("", false),
    ] {
        place.program("bin/pi", &format!("#!/bin/sh\necho '{says}'\n"));
        let found = find(None, &place.env(&["bin"]));
        assert_eq!(found.is_ok(), good, "{says:?}: {found:?}");
    }
}

fn warns(place: &Place, more: &[(&str, &str)]) -> bool {
    let mut env = place.env(&[]);
    env.extend(more.iter().map(|(k, v)| (k.into(), v.into())));
    no_models(&env, Path::new("/")).is_some()
}

#[test]
fn no_model_is_said_only_when_sure() {
    let place = Place::new();
    assert!(warns(&place, &[]), "nothing at all");
    assert!(warns(
        &place,
        &[("SSH_AUTH_SOCK", "/x"), ("GROQ_API_KEY", "")]
    ));
    for (name, value) in [
        ("GROQ_API_KEY", "x"),
        ("HF_TOKEN", "x"),
        ("AWS_PROFILE", "work"),
        ("ANTHROPIC_FEDERATION_RULE_ID", "x"),
    ] {
        assert!(!warns(&place, &[(name, value)]), "{name}");
    }

    place.write("home/.pi/agent/auth.json", "{}");
    place.write("home/.pi/agent/models.json", r#"{"providers":{}}"#);
    place.write("home/.pi/agent/settings.json", r#"{"theme":"dark"}"#);
    assert!(warns(&place, &[]), "files that hold nothing");

    for (file, text) in [
        ("auth.json", r#"{"x":{"type":"api_key"}}"#),
        ("auth.json", "// not JSON"),
        ("models.json", r#"{"providers":{"local":{}}}"#),
        ("settings.json", r#"{"packages":["npm:x"]}"#),
        ("extensions/a.ts", "x"),
    ] {
        let full = Place::new();
        full.write(&format!("home/.pi/agent/{file}"), text);
        assert!(!warns(&full, &[]), "{file}: {text}");
        let elsewhere = Place::new();
        let moved = elsewhere.write(&format!("pi/{file}"), text);
        let mut dir = moved.parent().expect("parent").to_owned();
        if dir.ends_with("extensions") {
            dir.pop();
        }
        let dir = dir.display().to_string();
        assert!(
            !warns(&elsewhere, &[("PI_CODING_AGENT_DIR", &dir)]),
            "moved {file}"
        );
    }

    let project = Place::new();
    project.write("work/.pi/settings.json", "{}");
    assert!(no_models(&project.env(&[]), &project.path("work/src")).is_none());
    assert!(no_models(&project.env(&[]), &project.path("other")).is_some());
}

mod real_pi {
    //! The Pis that tests install. Skipped by name in the quick tier.

    use pretty_assertions::assert_eq;

    use super::{Env, PiProblem, find, find_within};
    use crate::support::fake::FakePi;
    use crate::support::pi_install::real_pi;
    use crate::support::sandbox::Sandbox;
    use crate::support::versions::Version;

    #[test]
    fn both_supported_versions_are_found_without_running_them() {
        for version in Version::ALL {
            let install = real_pi(version);
            let sandbox = Sandbox::new();
            let bin = install.pi.parent().expect("a folder");
            let mut env = sandbox.env(Some(bin));
            // The system's Node comes first, whatever it is; the good one is last.
            let path = env.iter_mut().find(|(name, _)| name == "PATH");
            let path = path.map(|(_, value)| value).expect("PATH");
            path.push(":");
            path.push(&install.node_dir);
            let found = find(None, &env).expect("found");
            assert_eq!(found.version.to_string(), install.version);
            assert_eq!(found.argv, vec![install.pi.clone().into_os_string()]);
            if let Some(path) = found.path_for_child(&env) {
                env.push(("PATH".into(), path));
            }
            let answer = std::process::Command::new(&install.pi)
                .arg("--version")
                .env_clear()
                .envs(env)
                .output()
                .expect("it starts");
            let answer = String::from_utf8_lossy(&answer.stdout).trim().to_owned();
            assert_eq!(answer, install.version, "the Node that was chosen runs it");
        }
    }

    #[test]
    fn a_pi_without_any_node_says_so() {
        let install = real_pi(Version::Newest);
        let env: Env = vec![("PATH".into(), "/nowhere".into())];
        let command = format!("'{}'", install.pi.display());
        let problem = find(Some(&command), &env).expect_err("no node");
        assert!(matches!(problem, PiProblem::NoNode { .. }), "{problem:?}");
    }

    #[test]
    fn the_fake_of_the_tests_passes_too() {
        let fake = FakePi::new().version("1.3.0");
        let limit = crate::support::wait::limit();
        let problem = find_within(Some(&fake.pi_command()), &fake.env(), limit);
        assert!(
            matches!(problem, Err(PiProblem::TooOld { .. })),
            "{problem:?}"
        );
        let fake = FakePi::new();
        let found = find_within(Some(&fake.pi_command()), &fake.env(), limit).expect("found");
        assert_eq!(found.version.to_string(), Version::Newest.number());
    }
}
