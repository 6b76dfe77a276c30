//! What is installed is looked through for our names before Pi is asked about it (design §6).

use std::ffi::OsString;
use std::path::Path;

use pi_agents::supervisor::find_pi::any_suspect;

use crate::support::sandbox::Sandbox;

const CODE: &str = "pi.registerTool({ name: \"agent_send\" });";

fn looks(sandbox: &Sandbox) -> bool {
    let env: Vec<(OsString, OsString)> = sandbox.env(None);
    any_suspect(&env, &sandbox.work(), &["agent_send"])
}

fn write(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

#[test]
fn it_is_found_wherever_pi_loads_from() {
    let places: [(&str, &str, &str); 9] = [
        ("a/extensions/x.ts", "", ""),
        ("a/extensions/x/index.js", "", ""),
        ("w/.pi/extensions/x/src/deep/x.mjs", "", ""),
        (
            "a/git/host/owner/repo/extensions/x.ts",
            "a",
            r#"{"packages": ["git:host/owner/repo"]}"#,
        ),
        (
            "a/npm/node_modules/x/index.js",
            "a",
            r#"{"packages": ["npm:x@1.0.0"]}"#,
        ),
        (
            "a/npm/node_modules/@s/x/index.js",
            "a",
            r#"{"packages": [{"source": "npm:@s/x@^2"}]}"#,
        ),
        ("a/mine/x.ts", "a", r#"{"packages": ["./mine"]}"#),
        ("w/.pi/own/x.ts", "w/.pi", r#"{"extensions": ["own/x.ts"]}"#),
        ("h/far/x.ts", "a", r#"{"extensions": ["~/far"]}"#),
    ];
    for (file, base, settings) in places {
        let sandbox = Sandbox::new();
        if !base.is_empty() {
            write(&sandbox.root().join(base).join("settings.json"), settings);
        }
        assert!(!looks(&sandbox), "{file}");
        write(&sandbox.root().join(file), CODE);
        assert!(looks(&sandbox), "{file}");
        write(
            &sandbox.root().join(file),
            "pi.registerTool({ name: \"agents\" });",
        );
        assert!(!looks(&sandbox), "{file}");
    }
}

#[test]
fn what_pi_does_not_load_is_passed_over() {
    let sandbox = Sandbox::new();
    for file in [
        "a/extensions/readme.md",
        "a/extensions/x/node_modules/y/index.js",
        "a/extensions/.hidden/index.ts",
        "a/npm/node_modules/not-installed/index.js",
        "w/x.ts",
    ] {
        write(&sandbox.root().join(file), CODE);
    }
    assert!(!looks(&sandbox));
    // Copies of our own bridge find each other.
    let ours = pi_agents::bridge::install(&sandbox.data()).unwrap();
    std::fs::create_dir_all(sandbox.agent_dir().join("extensions")).unwrap();
    std::os::unix::fs::symlink(&ours, sandbox.agent_dir().join("extensions/ours")).unwrap();
    assert!(!looks(&sandbox));
}

// Nothing that lies there makes it wait or fail.
#[test]
fn odd_files_do_no_harm() {
    let sandbox = Sandbox::new();
    let folder = sandbox.agent_dir().join("extensions");
    std::fs::create_dir_all(&folder).unwrap();
    let fifo = std::process::Command::new("mkfifo")
        .arg(folder.join("x.ts"))
        .status();
    assert!(fifo.unwrap().success());
    std::os::unix::fs::symlink("/dev/zero", folder.join("y.ts")).unwrap();
    std::os::unix::fs::symlink(&folder, folder.join("again")).unwrap();
    std::os::unix::fs::symlink("/nowhere", folder.join("z.ts")).unwrap();
    for text in [
        "",
        "{",
        "[]",
        "null",
        r#"{"packages": 1, "extensions": {"a": 1}}"#,
        r#"{"packages": [1, null, {}, "npm:", "npm:é"]}"#,
    ] {
        write(&sandbox.agent_dir().join("settings.json"), text);
        assert!(!looks(&sandbox), "{text}");
    }
    write(&folder.join("real/index.ts"), CODE);
    assert!(looks(&sandbox));
}
