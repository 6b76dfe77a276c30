//! What other extensions add to a launch: what of it counts, and how it is kept out of what is said.

use std::ffi::OsString;
use std::path::Path;

use pi_agents::client::host::Contributions;
use pi_agents::fleet::ids::{CoreId, InstanceId};
use pi_agents::supervisor::extras::Hidden;
use pi_agents::supervisor::find_pi::PiFound;
use pi_agents::supervisor::launch::{Identity, environment, searched};
use uuid::Uuid;

fn extra(env: &[(&str, &str)], extensions: &[&str]) -> Contributions {
    Contributions {
        env: env
            .iter()
            .map(|(n, v)| ((*n).to_owned(), (*v).to_owned()))
            .collect(),
        extensions: extensions.iter().map(|e| (*e).to_owned()).collect(),
    }
}

fn pairs(env: &[(&str, &str)]) -> Vec<(Vec<u8>, Vec<u8>)> {
    env.iter()
        .map(|(n, v)| (n.as_bytes().to_vec(), v.as_bytes().to_vec()))
        .collect()
}

fn of_child(
    asker: &[(&str, &str)],
    extra: &Contributions,
    node: Option<&str>,
) -> Vec<(String, String)> {
    let pi = PiFound {
        argv: vec![OsString::from("/bin/pi")],
        version: "1.6.0".parse().unwrap(),
        path_prefix: node.map(Into::into),
    };
    let identity = Identity {
        name: "max",
        core: CoreId(Uuid::nil()),
        instance: InstanceId(Uuid::nil()),
        depth: 1,
        max_depth: 1,
        token: Some("the proof"),
    };
    let all = environment(&pairs(asker), &pi, extra, &identity);
    all.into_iter()
        .map(|(n, v)| (n.into_string().unwrap(), v.into_string().unwrap()))
        .collect()
}

// R-ID-03: who the child is and which core it belongs to is not for other extensions to say.
#[test]
fn identity_wins_over_what_is_added() {
    let names = [
        "PI_SUBAGENT_AGENT_ID",
        "PI_SUBAGENT_DEPTH",
        "PI_SUBAGENT_MAX_DEPTH",
        "PI_AGENTS_SOCKET",
        "PI_AGENTS_TOKEN",
        "PI_AGENTS_INSTANCE",
    ];
    let evil: Vec<_> = names.iter().map(|name| (*name, "evil")).collect();
    let mut more = evil.clone();
    more.push(("TEAM", "blue"));
    let all = of_child(&evil, &extra(&more, &[]), None);
    assert!(all.iter().all(|(_, value)| value != "evil"), "{all:?}");
    assert!(all.contains(&("TEAM".into(), "blue".into())));
    for name in names {
        let count = all.iter().filter(|(n, _)| n == name).count();
        assert_eq!(
            count,
            usize::from(name != "PI_AGENTS_SOCKET"),
            "{name}: {all:?}"
        );
    }
}

// R-PI-04: what is added wins over the asker's, and the good Node stays the first one.
#[test]
fn an_added_path_is_searched_first_and_keeps_the_good_node() {
    let asker = [("PATH", "/good:/usr/bin"), ("A", "1")];
    let added = extra(&[("PATH", "/old"), ("A", "2")], &[]);
    let search = searched(&pairs(&asker), &added).into_owned();
    assert!(search.contains(&(b"PATH".to_vec(), b"/old:/good:/usr/bin".to_vec())));
    assert_eq!(search.len(), 2);
    let all = of_child(&asker, &added, Some("/good"));
    assert!(
        all.contains(&("PATH".into(), "/good:/old".into())),
        "{all:?}"
    );
    assert!(all.contains(&("A".into(), "2".into())), "{all:?}");
    assert_eq!(
        *searched(&pairs(&asker), &extra(&[("A", "2")], &[])),
        pairs(&asker)
    );
}

// R-PI-04: neither values nor paths come back in what a child complains about, however it writes them.
#[test]
fn what_was_added_is_taken_out_of_complaints() {
    let added = extra(
        &[
            ("KEY", "first line\nsecond line"),
            ("N", "1"),
            ("LONG", "secret-and-more"),
            ("SHORT", "secret"),
        ],
        &["./ext/one.ts", "../up/two.ts", "/abs/three.ts"],
    );
    let hidden = Hidden::of(&added, Path::new("/some/here"));
    for (said, left) in [
        ("no such file: ./ext/one.ts", "no such file: (hidden)"),
        ("in /some/here/ext/one.ts:3", "in (hidden):3"),
        ("in /some/up/two.ts", "in (hidden)"),
        (
            "\"/abs/three.ts\" and ../up/two.ts",
            "\"(hidden)\" and (hidden)",
        ),
        ("bad key second line!", "bad key (hidden)!"),
        ("it is secret-and-more", "it is (hidden)"),
        ("it is secret", "it is (hidden)"),
        ("exit code 1 of /some/here", "exit code 1 of /some/here"),
    ] {
        assert_eq!(hidden.hide(said), left);
    }
    assert_eq!(
        Hidden::of(&extra(&[], &[]), Path::new("/")).hide("all"),
        "all"
    );
}
