//! What Pi says of extensions that do not load.

use pi_agents::pi::load_error::{LoadError, Why};

const OURS: &str = "/k/bridge/1/src/index.ts";

fn ours(path: &str) -> bool {
    path == OURS
}

// pi-facts §0: whichever of the two is blamed, the other one's owner is the stranger.
#[test]
fn the_stranger_is_told_from_ours_on_either_side() {
    let theirs = format!(
        "Error: Failed to load extension \"/a/owns.ts\": Tool \"agent_spawn\" conflicts with {OURS}"
    );
    let blamed = format!(
        "Error: Failed to load extension \"{OURS}\": Tool \"agent_spawn\" conflicts with /a/owns.ts"
    );
    let coloured = format!("\u{1b}[31m{blamed}\u{1b}[39m");
    for line in [theirs, blamed, coloured] {
        let error = LoadError::read(&line).unwrap();
        assert_eq!(
            error.foreign(ours),
            Some(("agent_spawn", "/a/owns.ts")),
            "{line:?}"
        );
    }
    let both = "Failed to load extension \"/a\": Tool \"x\" conflicts with /b";
    let error = LoadError::read(both).unwrap();
    assert_eq!(error.foreign(ours), None);
    assert_eq!(
        error.why,
        Why::SameTool {
            tool: "x",
            other: "/b"
        }
    );
}

#[test]
fn anything_else_is_in_pis_words() {
    let line = "Error: Failed to load extension \"/a \"b\".ts\": Flag \"--x\" conflicts with /c";
    let error = LoadError::read(line).unwrap();
    assert_eq!(error.extension, "/a \"b\".ts");
    assert_eq!(error.why, Why::Other("Flag \"--x\" conflicts with /c"));
    assert_eq!(error.foreign(ours), None);
    for line in [
        "",
        "Error: it broke",
        "Failed to load extension \"",
        "Failed to load extension \"/a",
    ] {
        assert_eq!(LoadError::read(line), None, "{line:?}");
    }
}
