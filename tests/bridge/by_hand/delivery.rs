//! Results on their way to a Pi session, with the journal on a real disk.

use serde_json::{Value, json};

use super::bridge::{Bridge, facts};
use crate::support::fake::FakePi;
use crate::support::processes;

const SESSION: &str = "0199c0de-0000-7000-8000-000000000002";

fn contents(offers: &[Value]) -> Vec<Value> {
    offers
        .iter()
        .flat_map(|o| o["deliveries"].as_array().cloned().unwrap_or_default())
        .map(|d| serde_json::from_str(d["content"].as_str().unwrap()).unwrap())
        .collect()
}

#[test]
fn three_results_for_an_idle_session_are_one_wake() {
    // R-DELIV-01, R-DELIV-03
    let pi = FakePi::new();
    let mut bridge = Bridge::start(&pi, SESSION);
    let gate = pi.sandbox.root().join("gate");
    for n in 1..=3 {
        bridge.spawn(&format!("fake:wait {} ;; say report {n}", gate.display()));
    }
    std::fs::write(&gate, "").unwrap();
    let mut reports = Vec::new();
    let mut seen = 0;
    while reports.len() < 3 {
        let offers = bridge.wait_offers(seen + 1);
        // One wake at a time: the next comes when the run this one started is over.
        assert_eq!(offers.len(), seen + 1);
        let offer = offers[seen].clone();
        seen += 1;
        // One that ends while the session is busy with the wake joins that run.
        assert!(seen > 1 || offer["mode"] == "wake", "{offer}");
        reports.extend(contents(std::slice::from_ref(&offer)));
        bridge.take(&offer);
        bridge.state("busy");
        bridge.state("idle");
    }
    let mut texts: Vec<_> = reports.iter().map(|r| r["result"].to_string()).collect();
    texts.sort();
    assert_eq!(texts, ["\"report 1\"", "\"report 2\"", "\"report 3\""]);
}

#[test]
fn a_result_is_the_contracts_json_once() {
    // R-DELIV-01, R-DELIV-02
    let pi = FakePi::new();
    let mut bridge = Bridge::start(&pi, SESSION);
    bridge.state("busy");
    bridge.spawn("fake:say the report");
    let offers = bridge.wait_offers(1);
    assert_eq!(offers[0]["mode"], "boundary");
    let content = contents(&offers).remove(0);
    assert_eq!(content["kind"], "final_reply");
    assert_eq!(content["status"], "completed");
    assert_eq!(content["agent_id"], "max");
    assert_eq!(content["result"], "the report");
    assert_eq!(content["idle"], true);
    assert_eq!(content["completion_id"], offers[0]["deliveries"][0]["id"]);
    bridge.take(&offers[0]);
    bridge.state("idle");
    bridge.state("busy");
    let name = bridge.spawn("fake:say another");
    assert_eq!(name, "zoe");
    let offers = bridge.wait_offers(2);
    assert_eq!(
        contents(&offers).len(),
        2,
        "the first one was not offered again"
    );
}

#[test]
fn what_was_not_taken_survives_the_core_and_reaches_the_same_session_only() {
    // R-DELIV-05, R-DELIV-17
    let pi = FakePi::new();
    let mut bridge = Bridge::start(&pi, SESSION);
    bridge.state("busy");
    bridge.spawn("fake:say the report");
    let offers = bridge.wait_offers(1);
    let id = offers[0]["deliveries"][0]["id"].clone();
    bridge.spawn("fake:hang");
    // The core dies by a signal, the second run with it.
    let guard = bridge.guard_pid();
    let mut core = processes::descendants_of(guard);
    core.retain(|p| p.parent == guard);
    processes::kill(&core);
    bridge.wait_exit();
    drop(bridge);

    let mut other = Bridge::start(&pi, "0199c0de-0000-7000-8000-0000000000ff");
    other.state("busy");
    let mut same = Bridge::start(&pi, SESSION);
    same.state("busy");
    // The second one is told only when its end is safe on the disk, too.
    let offers = same.wait_deliveries(2);
    let told = contents(&offers);
    assert_eq!(told.len(), 2, "{told:?}");
    assert_eq!(told[0]["completion_id"], id);
    assert_eq!(told[0]["result"], "the report");
    assert_eq!(told[1]["status"], "failed");
    assert!(
        told[1]["result"]
            .as_str()
            .unwrap()
            .contains("supervisor lost"),
        "{told:?}"
    );
    for offer in &offers {
        same.take(offer);
    }
    // Its agents are known again.
    let result = same.tool("agent_stop", json!({"agent_id": "max"}));
    assert_eq!(result["isError"], false, "{result}");
    same.hang_up();
    same.wait_exit();
    assert!(other.offers().is_empty(), "nothing of another session");

    let mut last = Bridge::start(&pi, SESSION);
    last.state("busy");
    assert_eq!(
        last.spawn("fake:say more"),
        "kai",
        "names are not used twice"
    );
    let offers = last.wait_offers(1);
    assert_eq!(contents(&offers).len(), 1, "acknowledged is over");
}

#[test]
fn what_the_session_has_already_is_not_offered_again() {
    // R-DELIV-05: found anywhere in the session when it joins
    let pi = FakePi::new();
    let mut bridge = Bridge::start(&pi, SESSION);
    bridge.state("busy");
    bridge.spawn("fake:say the report");
    let offers = bridge.wait_offers(1);
    let id = offers[0]["deliveries"][0]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    bridge.notify("host/taken", json!({"epoch": offers[0]["epoch"]}));
    bridge.hang_up();
    bridge.wait_exit();
    let mut same = Bridge::with(&pi, facts(&pi, SESSION, &[&id])).unwrap();
    same.state("busy");
    same.spawn("fake:say more");
    let offers = same.wait_offers(1);
    let told = contents(&offers);
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(told[0]["result"], "more");
}

#[test]
fn one_session_has_one_deliverer() {
    // R-DELIV-05
    let pi = FakePi::new();
    let _bridge = Bridge::start(&pi, SESSION);
    let Err(refusal) = Bridge::with(&pi, facts(&pi, SESSION, &[])) else {
        panic!("two cores deliver for one session");
    };
    let words = refusal["error"]["message"].as_str().unwrap();
    assert!(words.contains("another pi-agents"), "{words}");
}

#[test]
fn a_question_comes_by_itself_and_wakes() {
    // R-DELIV-10
    let pi = FakePi::new();
    let mut bridge = Bridge::start(&pi, SESSION);
    bridge.spawn("fake:message which branch? ;; hang");
    let offers = bridge.wait_offers(1);
    assert_eq!(offers[0]["mode"], "wake");
    let content = contents(&offers).remove(0);
    assert_eq!(
        content,
        json!({"kind": "non_blocking_question", "agent_id": "max", "question": "which branch?"})
    );
}

#[test]
fn a_session_that_comes_back_while_its_last_core_still_ends_is_served() {
    // R-DELIV-05: Pi was quit, or died, and is there again at once; an agent takes its time to end
    let pi = FakePi::new().options("--ignore-eof");
    let mut bridge = Bridge::start(&pi, SESSION);
    bridge.state("busy");
    bridge.spawn("fake:hang");
    bridge.hang_up();
    let mut same = Bridge::start(&pi, SESSION);
    same.state("busy");
    let told = contents(&same.wait_offers(1));
    assert_eq!(told[0]["status"], "stopped", "{told:?}");
    bridge.wait_exit();
}
