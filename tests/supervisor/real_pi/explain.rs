//! `explain` with a real Pi: its own words for a refused key are the answer (R-OPS-01).

use pi_agents::fleet::agent::Status;

use crate::support::core::{Core, verb};
use crate::support::hermetic_pi::HermeticPi;
use crate::support::model::{ModelServer, Turn};
use crate::support::versions::Version;

#[test]
fn a_refused_key_is_the_answer() {
    let model = ModelServer::start();
    model.on("task", [Turn::error(401, "invalid key")]);
    let pi = HermeticPi::new(Version::Newest, &model);
    let core = Core::start(&pi);
    let name = core.spawn("task");
    core.wait_agent(&name, "failed and gone", |a| {
        matches!(a.status, Status::Failed { .. }) && a.pid.is_none()
    });
    let output = verb(&pi, &["explain", &name]);
    let page = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{page}");
    assert!(page.starts_with(&format!("{name} failed ")), "{page}");
    let answer = page.split("\n\n").next().unwrap();
    assert!(
        answer.contains("the provider refused the key (401)"),
        "{page}"
    );
    assert!(page.contains("running → failed"), "{page}");
    assert!(
        page.contains("the child answered prompt: started a run"),
        "{page}"
    );
}
