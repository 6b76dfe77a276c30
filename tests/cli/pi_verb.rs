//! `pi-agents pi` before Pi is there: what it hands over, to whom, and what it says when it cannot.

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use pi_agents::supervisor::find_pi;

use crate::support::core::PROGRAM;
use crate::support::sandbox::Sandbox;

use super::ended;

/// A Pi that writes down how it was started, and then does `then`.
struct Stub {
    sandbox: Sandbox,
}

impl Stub {
    fn new(then: &str) -> Self {
        let stub = Self {
            sandbox: Sandbox::new(),
        };
        stub.script(&format!(
            "[ \"$*\" = --version ] && {{ echo 1.6.0; exit; }}\n\
             cd \"$TMPDIR\"\n\
             : >args; for arg; do printf '%s\\0' \"$arg\" >>args; done\n\
             printf '%s' $$ >pid; printf '%s' \"$PI_AGENTS_BIN\" >bin\n\
             printf '%s' \"$PI_AGENTS_PI\" >chosen\n\
             grep '^Sig[BI]' /proc/self/status >signals 2>/dev/null\n{then}\n"
        ));
        stub
    }

    fn bin(&self) -> PathBuf {
        self.sandbox.root().join("bin")
    }

    fn script(&self, text: &str) {
        std::fs::create_dir_all(self.bin()).unwrap();
        let path = self.bin().join("pi");
        std::fs::write(&path, format!("#!/bin/sh\n{text}")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn program(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        let path = format!("{}:/usr/bin:/bin", self.bin().display());
        command
            .env_clear()
            .envs(self.sandbox.env(None))
            .env("PATH", path)
            .current_dir(self.sandbox.work());
        command
    }

    fn command<A: AsRef<OsStr>>(&self, args: &[A]) -> Command {
        let mut command = self.program(PROGRAM);
        command.arg("pi").args(args);
        command
    }

    fn run<A: AsRef<OsStr>>(&self, args: &[A]) -> Output {
        self.command(args).output().unwrap()
    }

    fn noted(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.sandbox.tmp().join(name)).unwrap_or_default()
    }

    /// What Pi got.
    fn args(&self) -> Vec<OsString> {
        let all = self.noted("args");
        let mut args: Vec<OsString> = all
            .split(|byte| *byte == 0)
            .map(|arg| OsString::from_vec(arg.to_vec()))
            .collect();
        assert_eq!(args.pop(), Some(OsString::new()), "each ends in NUL");
        args
    }

    fn package(&self) -> PathBuf {
        pi_agents::bridge::folder(&self.sandbox.cache().join("pi-agents"))
    }
}

/// R-OPS-01: all that follows `pi` is Pi's, whatever it looks like.
#[test]
fn every_argument_is_handed_over_as_it_is() {
    let stub = Stub::new("");
    let lines: &[&[&[u8]]] = &[
        &[],
        &[b"-p", b"say hello"],
        &[b"--help"],
        &[b"-h"],
        &[b"--version"],
        &[b"-V"],
        &[b"--"],
        &[b"--", b"-dash", b"--", b"--help"],
        &[b"--json", b"--pi", b"x", b"--in", b"y", b"--cwd=z"],
        &[b"pi", b"ps", b"help"],
        &[b"", b" ", b"two\nlines", "\u{2028}é".as_bytes()],
        &[b"\xff\xfe not text", b"--name", b"\xc3("],
        &[b"--mode", b"rpc", b"-e", b"/other", b"--extension"],
    ];
    for line in lines {
        let line: Vec<&OsStr> = line.iter().map(|arg| OsStr::from_bytes(arg)).collect();
        let output = stub.run(&line);
        assert_eq!(output.status.code(), Some(0), "{line:?}: {output:?}");
        assert_eq!((&*output.stdout, &*output.stderr), (&b""[..], &b""[..]));
        let got = stub.args();
        assert_eq!(
            got[..2],
            [OsString::from("--extension"), stub.package().into()]
        );
        assert_eq!(got[2..], line, "{line:?}");
    }
    assert!(stub.package().join("src/index.ts").is_file());
    assert!(stub.package().join("skills").is_dir());
    assert_eq!(stub.noted("bin"), PROGRAM.as_bytes());
}

// Pi knows its commands by their first place: with anything before them they would be a message.
#[test]
fn a_command_of_pi_is_left_alone() {
    let stub = Stub::new("");
    for word in [
        "install",
        "remove",
        "uninstall",
        "update",
        "list",
        "config",
        "auth",
        "mcp",
    ] {
        stub.run(&[word, "--help"]);
        assert_eq!(stub.args(), [word, "--help"]);
    }
    // Elsewhere the same words are not commands.
    for line in [&["--", "install"][..], &["please install it"]] {
        stub.run(line);
        assert_eq!(stub.args().len(), 2 + line.len(), "{line:?}");
    }
}

#[test]
fn without_skills_the_extension_comes_alone() {
    let stub = Stub::new("");
    for option in ["--no-skills", "-ns"] {
        stub.run(&["-p", "x", option]);
        let extension = stub.package().join("src/index.ts");
        assert_eq!(
            stub.args()[..2],
            [OsString::from("--extension"), extension.into()]
        );
    }
    stub.run(&["-p", "--", "--no-skills"]);
    assert_eq!(stub.args()[1], stub.package());
}

#[test]
fn it_becomes_pi_with_the_same_process_signals_and_exit_code() {
    for (then, code, signal) in [
        ("exit 0", Some(0), None),
        ("exit 17", Some(17), None),
        ("exit 143", Some(143), None),
        // One that nobody inherits as ignored, as a job in the background does SIGINT.
        ("kill -TERM $$", None, Some(15)),
        ("kill -KILL $$", None, Some(9)),
    ] {
        let stub = Stub::new(then);
        let mut child = stub.command(&["-p"]).spawn().unwrap();
        let pid = child.id();
        let status = child.wait().unwrap();
        assert_eq!((status.code(), status.signal()), (code, signal), "{then}");
        assert_eq!(stub.noted("pid"), pid.to_string().as_bytes());
    }
    // What is ignored or held back is what a Pi without us has.
    let stub = Stub::new("");
    stub.program(stub.bin().join("pi")).output().unwrap();
    let plain = stub.noted("signals");
    stub.run(&["-p"]);
    assert_eq!(stub.noted("signals"), plain);
}

#[test]
fn stdin_and_both_outputs_are_pis() {
    let stub = Stub::new("cat; echo said >&2");
    let mut child = stub
        .command(&["--mode", "rpc"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let text = b"{\"type\":\"x\"}\n\0\xff";
    child.stdin.take().unwrap().write_all(text).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.stdout, text);
    assert_eq!(output.stderr, b"said\n");
}

// R-PI-06: the words of the first screen, with the command that mends it.
#[test]
fn without_a_pi_that_works_it_says_what_to_do() {
    let stub = Stub::new("");
    std::fs::remove_file(stub.bin().join("pi")).unwrap();
    let (code, out, err) = ended(&stub.run(&["-p", "x"]));
    assert_eq!((code, &*out), (6, ""));
    assert_eq!(
        err,
        "pi-agents: Pi is not installed\n  \
         No pi on your PATH. Install it:\n    \
         npm install -g @earendil-works/pi-coding-agent@latest\n  \
         Or say where it is:\n    \
         PI_AGENTS_PI=/path/to/pi pi-agents pi\n"
    );
    stub.script("echo 1.3.9");
    let (code, out, err) = ended(&stub.run(&["--help"]));
    assert_eq!((code, &*out), (6, ""));
    assert!(err.starts_with("pi-agents: Pi 1.3.9 is too old: 1.4.0 or newer is needed\n"));
    assert!(
        err.contains("\n    npm install -g @earendil-works/pi-coding-agent@latest\n"),
        "{err}"
    );
    // Chosen by the variable: then it is the variable that can be left out.
    let named = stub.bin().join("pi");
    let mut command = stub.command(&["-p"]);
    let (code, _, err) = ended(&command.env("PI_AGENTS_PI", &named).output().unwrap());
    assert_eq!(code, 6);
    assert!(
        err.contains("leave PI_AGENTS_PI out") && !err.contains("--pi"),
        "{err}"
    );
    let mut command = stub.command(&["-p"]);
    let (code, _, err) = ended(&command.env("PI_AGENTS_PI", "'open").output().unwrap());
    assert_eq!(code, 6);
    assert!(
        err.contains("is not closed") && !err.contains("--pi"),
        "{err}"
    );
}

// Another Pi by the variable, with words of its own before ours.
#[test]
fn the_pi_that_was_chosen_is_the_one() {
    let stub = Stub::new("");
    let wrapper = stub.sandbox.root().join("wrap");
    std::fs::write(&wrapper, "#!/bin/sh\nshift; exec pi \"$@\"\n").unwrap();
    std::fs::set_permissions(&wrapper, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = stub.command(&["-p", "x"]);
    let chosen = format!("'{}' 'a word'", wrapper.display());
    let output = command.env("PI_AGENTS_PI", chosen).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(stub.args()[2..], ["-p", "x"]);
    let chosen = format!("'{}' 'a word'", wrapper.display());
    assert_eq!(stub.noted("chosen"), chosen.as_bytes());
    // Its agents run the same one: by its whole path, whatever folder they work in.
    std::fs::copy(stub.bin().join("pi"), stub.sandbox.work().join("it's")).unwrap();
    let mut command = stub.command(&["-p"]);
    let output = command.env("PI_AGENTS_PI", "\"./it's\"").output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let whole = stub.sandbox.work().join("it's");
    let chosen = stub.noted("chosen");
    let words = find_pi::split_words(std::str::from_utf8(&chosen).unwrap()).unwrap();
    assert_eq!(words, [whole.to_str().unwrap()]);
}

#[test]
fn a_bridge_that_cannot_be_written_is_named() {
    // Holds for root too: a file is where the folder should be.
    let stub = Stub::new("");
    std::fs::remove_dir_all(stub.sandbox.cache()).unwrap();
    std::fs::write(stub.sandbox.cache(), "").unwrap();
    let (code, _, err) = ended(&stub.run(&["-p"]));
    assert_eq!(code, 1);
    assert!(err.contains("XDG_CACHE_HOME"), "{err}");
    assert_eq!(stub.noted("pid"), b"", "Pi is not started without it");
    // What needs no bridge works.
    let (code, ..) = ended(&stub.run(&["list"]));
    assert_eq!(code, 0);
}
