//! Dialogs of a child's extensions (B014, R-TUI-07).

use pi_agents::client::{AgentRef, ErrorCode, Reply, Request, RequestError};
use pi_agents::fleet::agent::Status;
use pi_agents::fleet::roster::{DialogAnswer, DialogKind, DialogView};

use super::{case, wait_idle};
use crate::support::core::Core;
use crate::support::fake::FakePi;

fn answer(
    core: &Core,
    name: &str,
    dialog: &str,
    answer: DialogAnswer,
) -> Result<Reply, RequestError> {
    core.ask(Request::Answer {
        agent: AgentRef::Name(name.to_owned()),
        dialog: dialog.to_owned(),
        answer,
    })
}

#[track_caller]
fn wait_dialog(core: &Core, name: &str, id: &str) -> DialogView {
    let row = core.wait_agent(name, &format!("dialog {id} is open"), |a| {
        a.dialogs.iter().any(|d| d.id == id)
    });
    row.dialogs.into_iter().find(|d| d.id == id).unwrap()
}

fn value(text: &str) -> DialogAnswer {
    DialogAnswer::Value(text.to_owned())
}

#[test]
fn every_sort_of_dialog_is_shown_answered_once_and_gone() {
    let pi = FakePi::new().replay_lines(case("B014-extension-dialogs.rpc.jsonl").as_bytes());
    let core = Core::start(&pi);
    let name = core.spawn("task");
    let bad = |dialog: &str, given: DialogAnswer| {
        let error = answer(&core, &name, dialog, given).unwrap_err();
        assert_eq!(error.code, ErrorCode::Invalid, "{error}");
    };

    let confirm = wait_dialog(&core, &name, "u2");
    assert_eq!(confirm.title, "Allow command?");
    assert_eq!(
        confirm.kind,
        DialogKind::Confirm {
            message: "rm -r build/".into()
        }
    );
    core.wait_agent(&name, "running", |a| a.status == Status::Running);
    bad("u2", value("yes"));
    answer(&core, &name, "u2", DialogAnswer::Confirmed(true)).unwrap();
    // A second answer has no dialog any more.
    let twice = answer(&core, &name, "u2", DialogAnswer::Confirmed(false)).unwrap_err();
    assert_eq!(twice.code, ErrorCode::NotFound);

    wait_dialog(&core, &name, "u3");
    bad("u3", value("Never heard of"));
    bad("u3", DialogAnswer::Confirmed(true));
    answer(&core, &name, "u3", value("Always")).unwrap();

    let input = wait_dialog(&core, &name, "u4");
    assert_eq!(
        input.kind,
        DialogKind::Input {
            placeholder: Some("type…".into())
        }
    );
    bad("u4", DialogAnswer::Confirmed(true));
    answer(&core, &name, "u4", value("because")).unwrap();

    wait_dialog(&core, &name, "u5");
    answer(&core, &name, "u5", DialogAnswer::Cancelled).unwrap();

    // The timed one goes by itself, and an answer to it then is not sent.
    let timed = wait_dialog(&core, &name, "u10");
    assert_eq!(timed.timeout_ms, Some(400));
    core.wait_agent(&name, "the timed dialog is gone", |a| {
        a.dialogs.iter().all(|d| d.id != "u10")
    });
    let late = answer(&core, &name, "u10", DialogAnswer::Confirmed(true)).unwrap_err();
    assert_eq!(late.code, ErrorCode::NotFound);

    let row = wait_idle(&core, &name, 1);
    assert!(row.dialogs.is_empty());
    assert_eq!(core.texts(&name), ["guarded work done"]);
    assert!(pi.events("dialog not answered").is_empty());
    let answers = pi.commands("extension_ui_response");
    let short: Vec<_> = answers
        .iter()
        .map(|a| {
            (
                a["id"].as_str().unwrap(),
                a["value"].as_str(),
                a["confirmed"].as_bool(),
                a["cancelled"].as_bool(),
            )
        })
        .collect();
    assert_eq!(
        short,
        [
            ("u2", None, Some(true), None),
            ("u3", Some("Always"), None, None),
            ("u4", Some("because"), None, None),
            ("u5", None, None, Some(true)),
        ],
        "exactly one each, none for the others"
    );
}

#[test]
fn an_agent_that_asks_can_be_stopped() {
    let pi = FakePi::new();
    let core = Core::start(&pi);
    let name = core.spawn("fake:ask confirm Really?");
    core.wait_agent(&name, "it asks", |a| a.dialogs.len() == 1);
    core.stop(&name);
    let row = core.wait_agent(&name, "stopped", super::stopped_by_you);
    assert!(row.dialogs.is_empty());
}
