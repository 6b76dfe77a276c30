//! The bridge in Pi's own screen.

use serde_json::json;

use super::world::{Plan, deliveries};
use crate::support::model::Turn;
use crate::support::pty::Setup;
use crate::support::versions::Version;

// R-PI-01, R-PI-02: in Pi's own screen the core is there from the start, and a wake starts a run.
#[test]
fn an_idle_screen_is_woken() {
    for version in Version::ALL {
        let (command, core, model, _pi) = Plan::new(version).screen().command();
        model.queue([Turn::say("I have read it")]);
        let mut terminal = Setup::new().start(&command);
        let connection = core.joined(0);
        assert_eq!(connection.facts()["mode"], "tui");
        assert_eq!(connection.facts()["has_ui"], true);
        connection.offer(1, "wake", &["one:1", "two:1"]);
        assert_eq!(connection.ack(1)["found"], json!(["one:1", "two:1"]));
        terminal.wait_text("I have read it");
        assert_eq!(
            deliveries(&model.requests()[0], &["one:1", "two:1"]),
            ["one:1", "two:1"]
        );
        // The session has no file before somebody has said something; then it is safe.
        assert_eq!(connection.ack(1)["durable"], false);
        let ack = connection.wait_told("host/ack", |ack| ack["durable"] == true);
        assert_eq!(ack["found"], json!(["one:1", "two:1"]));
        terminal.keys("<ctrl-d>");
        assert!(terminal.exit_status().success());
        let left = connection.wait_told("host/leaving", |_| true);
        assert_eq!(left["reason"], "quit");
    }
}
