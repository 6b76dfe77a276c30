//! `docs/exit-codes.md` is made from the code (R-OPS-01).

use std::fmt::Write as _;
use std::path::Path;

use pi_agents::cli::Kind;

fn page() -> String {
    let mut text = String::from(
        "# Exit codes\n\n\
         <!-- Generated from src/cli/exit.rs; `UPDATE_GENERATED=1 cargo test --test it cli::exit_codes` \
         writes it again. -->\n\n\
         | code | meaning |\n|---|---|\n| 0 | it worked |\n",
    );
    for (kind, meaning) in Kind::ALL {
        writeln!(text, "| {} | {meaning} |", kind.code()).unwrap();
    }
    text.push_str(
        "| 128 + n | a signal ended it: 129 the terminal went away (hang-up), 130 interrupt, 143 terminate |\n",
    );
    text.push_str(
        "\nWithout `--json` the reason goes to standard error, followed by the way out. With `--json` \
         it goes to standard output as one line, see [json.md](json.md).\n",
    );
    text
}

#[test]
fn the_page_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/exit-codes.md");
    if std::env::var_os("UPDATE_GENERATED").is_some() {
        std::fs::write(&path, page()).unwrap();
    }
    let there = std::fs::read_to_string(&path).unwrap_or_default();
    pretty_assertions::assert_eq!(there, page(), "UPDATE_GENERATED=1 writes it again");
}

#[test]
fn every_sort_has_a_code_of_its_own() {
    let mut codes: Vec<u8> = Kind::ALL.iter().map(|(kind, _)| kind.code()).collect();
    codes.sort_unstable();
    codes.dedup();
    assert_eq!(codes.len(), Kind::ALL.len());
    assert!(!codes.contains(&0));
}
