//! The oldest supported Pi: stop and revival (R-PI-06).

use pi_agents::client::Reply;
use pi_agents::fleet::agent::{Status, StopCause};
use pi_agents::fleet::transcript::{EntryKind, ToolState};
use serde_json::json;

use crate::support::core::Core;
use crate::support::hermetic_pi::HermeticPi;
use crate::support::model::{ModelServer, Turn};
use crate::support::processes;
use crate::support::versions::Version;

#[test]
fn stop_and_revival() {
    let model = ModelServer::start();
    model.on(
        "long",
        [
            Turn::call("bash", json!({"command": "sleep 300"})),
            Turn::say("back"),
        ],
    );
    let pi = HermeticPi::new(Version::Oldest, &model);
    let core = Core::start(&pi);
    let name = core.spawn("long");
    core.wait_entries(&name, "the call runs", |e| {
        e.iter()
            .any(|e| matches!(&e.kind, EntryKind::Tool(t) if t.state == ToolState::Running))
            .then_some(())
    });
    let tree = processes::descendants_of(core.agent(&name).pid.unwrap());
    assert_eq!(core.stop(&name), Reply::Stopped { was_live: true });
    assert!(tree.iter().all(|p| !p.alive()));
    core.wait_agent(&name, "stopped", |a| {
        a.status == Status::Stopped { by: StopCause::You }
    });
    core.send(&name, "come back");
    core.wait_agent(&name, "idle", |a| a.status == Status::Idle);
    assert_eq!(core.texts(&name), ["back"]);
}
