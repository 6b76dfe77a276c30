//! The scripted agent says what real Pi says, in the same order: compared with recorded streams.

use pi_agents::pi::event::{Parser, Record};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::Stage;
use crate::pi::traces::traces;
use crate::support::rpc::{Rpc, last_answer, message_text};
use crate::support::wait;

/// The order of records, without texts: one word each, repeats of a stream taken together.
fn order(records: &[Value]) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for record in records {
        let kind = record["type"].as_str().unwrap_or("?");
        let word = match kind {
            "response" => format!("response {}", record["command"].as_str().unwrap_or("?")),
            "message_update" => record["assistantMessageEvent"]["type"]
                .as_str()
                .unwrap_or("?")
                .to_owned(),
            "message_start" | "message_end" => format!(
                "{kind} {} {}",
                record["message"]["role"].as_str().unwrap_or("?"),
                record["message"]["stopReason"].as_str().unwrap_or("")
            ),
            "agent_end" => format!("agent_end {}", record["willRetry"]),
            "agent_settled" => format!("agent_settled {}", record["aborted"]),
            "auto_retry_start" => format!("auto_retry_start {}", record["attempt"]),
            "auto_retry_end" => format!("auto_retry_end {}", record["success"]),
            "tool_execution_end" => format!("tool_execution_end {}", record["isError"]),
            other => other.to_owned(),
        };
        if words.last() != Some(&word) {
            words.push(word);
        }
    }
    words
}

/// A recorded stream of real Pi.
fn recorded(name: &str) -> Vec<Value> {
    let bytes = traces().remove(name).expect(name);
    bytes
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_slice(line).expect("JSON"))
        .filter(|record: &Value| record["command"] != "get_state")
        .collect()
}

/// The records from the first that fits.
fn from(records: Vec<Value>, found: impl Fn(&Value) -> bool) -> Vec<Value> {
    let at = records.iter().position(found).expect("such a record");
    records[at..].to_vec()
}

/// Every line is one that our reader knows.
#[track_caller]
fn all_known(agent: &Rpc) {
    let mut parser = Parser::new();
    for line in agent.lines() {
        match parser.parse(&line) {
            Ok(Record::Unknown { kind }) => panic!("unknown record {kind}"),
            Ok(_) => {}
            Err(error) => panic!("{error}: {}", String::from_utf8_lossy(&line)),
        }
    }
}

#[test]
fn a_run_with_a_tool_has_pis_order() {
    // R-OPS-03; pi-facts §3
    let stage = Stage::new();
    let mut agent = stage.agent(&["--thinking", "off"]);
    let run = agent.run("continue");
    assert_eq!(order(&agent.records()), order(&recorded("bash_tool")));
    all_known(&agent);

    let answer = last_answer(&run);
    assert_eq!(answer["stopReason"], "stop");
    assert!(message_text(answer).contains("On “continue”"), "{answer}");
    let usage = &answer["usage"];
    let number = |key: &str| usage[key].as_u64().expect("a number");
    assert_eq!(
        number("totalTokens"),
        number("input") + number("output") + number("cacheRead") + number("cacheWrite")
    );
    assert!(usage["cost"]["total"].as_f64().expect("money") > 0.0);
}

#[test]
fn type_is_the_first_key_of_every_record() {
    // Readers skip the bodies of long records by looking at the beginning only.
    let stage = Stage::new();
    let mut agent = stage.agent(&[]);
    agent.run("fix the tests");
    for line in agent.lines() {
        let text = String::from_utf8_lossy(&line).into_owned();
        let start = text.starts_with("{\"type\":\"") || text.starts_with("{\"id\":\"");
        assert!(start, "{text}");
    }
    let end = agent
        .lines()
        .into_iter()
        .rfind(|line| line.starts_with(b"{\"type\":\"agent_end\""))
        .expect("agent_end");
    assert!(end.ends_with(b",\"willRetry\":false}"));
}

#[test]
fn output_of_a_tool_grows_and_is_told_whole_each_time() {
    // pi-facts §3: cumulative, the first one empty.
    let stage = Stage {
        pace: "0.15",
        ..Stage::new()
    };
    let mut agent = stage.agent(&[]);
    let run = agent.run("check the build");
    let first_call = run
        .iter()
        .find(|record| record["type"] == "tool_execution_start")
        .expect("a tool")["toolCallId"]
        .clone();
    let updates: Vec<String> = run
        .iter()
        .filter(|r| r["type"] == "tool_execution_update" && r["toolCallId"] == first_call)
        .map(|record| message_text(&record["partialResult"]))
        .collect();
    assert!(updates.len() >= 4, "{updates:?}");
    assert_eq!(updates[0], "");
    for pair in updates.windows(2) {
        assert!(pair[1].starts_with(pair[0].as_str()) && pair[1].len() > pair[0].len());
    }
    let end = run
        .iter()
        .find(|r| r["type"] == "tool_execution_end" && r["toolCallId"] == first_call)
        .expect("its end");
    // The first call of this script is a failing test run.
    assert_eq!(end["isError"], true);
    let text = message_text(&end["result"]);
    assert!(text.ends_with("Command exited with code 1"), "{text}");
    assert!(text.starts_with(updates.last().expect("one").trim_end()));
}

#[test]
fn a_message_to_a_running_agent_steers_it_at_the_next_tool_boundary() {
    // R-DELIV-11, pi-facts §3
    let stage = Stage {
        pace: "0.15",
        ..Stage::new()
    };
    let mut agent = stage.agent(&["--thinking", "off"]);
    agent.prompt("continue");
    agent.wait_record("a running tool", |r| r["type"] == "tool_execution_update");
    let refused = agent.request("prompt", json!({"message": "no behavior given"}));
    assert_eq!(refused["success"], false, "{refused}");
    let queued = agent.prompt("use tabs instead");
    assert_eq!(queued["data"]["disposition"], "queued");
    let state = agent.request("get_state", json!({}));
    assert_eq!(state["data"]["isStreaming"], true);
    assert_eq!(state["data"]["pendingMessageCount"], 1);
    let run = agent.wait_settled(0);

    let records: Vec<Value> = run
        .into_iter()
        .filter(|record| record["type"] != "response")
        .collect();
    let theirs: Vec<Value> = recorded("prompt_steer_running")
        .into_iter()
        .filter(|record| record["type"] != "response")
        .collect();
    // How many updates come before and after the message is a matter of time.
    let without_updates = |records: &[Value]| -> Vec<String> {
        order(records)
            .into_iter()
            .filter(|word| word != "tool_execution_update")
            .collect()
    };
    assert_eq!(without_updates(&records), without_updates(&theirs));
    let answer = message_text(last_answer(&records));
    assert!(answer.contains("use tabs instead"), "{answer}");
    all_known(&agent);
}

#[test]
fn a_message_at_the_very_end_still_joins_the_run() {
    let stage = Stage {
        pace: "0.3",
        ..Stage::new()
    };
    let mut agent = stage.agent(&["--no-tools"]);
    agent.prompt("continue");
    // Without tools the second answer is the last one.
    agent.wait_record("the last answer", |r| {
        r["assistantMessageEvent"]["type"] == "text_delta"
            && r["assistantMessageEvent"]["delta"] == "Nothing "
    });
    let queued = agent.request(
        "prompt",
        json!({"message": "and then?", "streamingBehavior": "followUp"}),
    );
    assert_eq!(queued["data"]["disposition"], "queued");
    let run = agent.wait_settled(0);
    let count = |kind: &str| run.iter().filter(|r| r["type"] == kind).count();
    assert_eq!((count("agent_start"), count("agent_end")), (1, 1));
    assert_eq!(count("tool_execution_start"), 0, "R-TOOL-05: no tools");
    let answer = message_text(last_answer(&run));
    assert!(answer.contains("and then?"), "{answer}");
}

#[test]
fn abort_inside_a_tool_ends_the_run_and_kills_the_tool() {
    // R-LIFE-15, R-DELIV-16
    let stage = Stage::slow();
    let mut agent = stage.agent(&["--thinking", "off"]);
    agent.prompt("run the tests");
    agent.wait_record("output of the tool", |record| {
        record["partialResult"]["content"][0]["text"]
            .as_str()
            .is_some_and(|text| text.contains("Compiling"))
    });
    let response = agent.request("abort", json!({}));
    assert_eq!(response["success"], true);
    let end = |record: &Value| record["type"] == "tool_execution_end";
    assert_eq!(
        order(&from(agent.records(), end)),
        order(&from(recorded("abort_bash_tool"), end))
    );
    let ended = agent.wait_record("the end of the tool", end);
    assert!(message_text(&ended["result"]).ends_with("Command aborted"));
    wait::wait_until("only the agent to be left", || {
        stage.sandbox.processes().len() == 1
    });
    all_known(&agent);

    // The agent stays and can be asked again.
    let state = agent.request("get_state", json!({}));
    assert_eq!(state["data"]["isStreaming"], false);
    assert_eq!(agent.prompt("continue")["data"]["disposition"], "started");
}

#[test]
fn abort_inside_an_answer_keeps_what_was_said() {
    let stage = Stage::slow();
    let mut agent = stage.agent(&["--thinking", "off"]);
    agent.prompt("find it");
    agent.wait_record("some text", |record| {
        record["assistantMessageEvent"]["type"] == "text_delta"
    });
    agent.prompt("wait");
    let dropped = agent.request("clear_queue", json!({}));
    assert_eq!(dropped["data"]["steering"], json!(["wait"]));
    agent.request("abort", json!({}));
    let end = |record: &Value| record["message"]["stopReason"] == "aborted";
    let mut theirs = from(recorded("abort_midstream"), end);
    let answered = theirs
        .iter()
        .position(|record| record["command"] == "abort")
        .expect("its answer");
    // That recording goes on with another run.
    theirs.truncate(answered + 1);
    assert_eq!(order(&from(agent.records(), end)), order(&theirs));
    let ended = agent.wait_record("the end of the answer", end);
    assert!(message_text(&ended["message"]).starts_with("I "), "{ended}");
}

#[test]
fn a_failing_provider_is_asked_four_times() {
    let stage = Stage::new();
    let mut agent = stage.agent(&[]);
    let run = agent.run("what does the provider say");
    let failed = |record: &Value| record["message"]["stopReason"] == "error";
    assert_eq!(
        order(&from(run.clone(), failed)),
        order(
            &from(recorded("provider_500_forever"), failed)
                .into_iter()
                .filter(|record| record["type"] != "response")
                .collect::<Vec<_>>()
        )
    );
    let answer = last_answer(&run);
    assert!(
        answer["errorMessage"]
            .as_str()
            .expect("why")
            .starts_with("503")
    );
    all_known(&agent);
}

#[test]
fn a_provider_that_recovers_goes_on() {
    let stage = Stage::new();
    let mut agent = stage.agent(&[]);
    let run = agent.run("port everything");
    let retried: Vec<&Value> = run
        .iter()
        .filter(|record| record["type"] == "auto_retry_end")
        .collect();
    assert_eq!(retried.len(), 1);
    assert_eq!(retried[0]["success"], true);
    assert_eq!(last_answer(&run)["stopReason"], "stop");
    all_known(&agent);
}

#[test]
fn abort_while_it_waits_to_retry() {
    let stage = Stage {
        pace: "0.2",
        ..Stage::new()
    };
    let mut agent = stage.agent(&[]);
    agent.prompt("an outage");
    agent.wait_record("a longer wait", |record| record["attempt"] == 3);
    agent.request("abort", json!({}));
    let cancelled = |record: &Value| record["type"] == "auto_retry_end";
    assert_eq!(
        order(&from(agent.records(), cancelled)),
        order(&from(recorded("abort_during_retry"), cancelled))
    );
}

#[test]
fn a_question_waits_for_its_answer() {
    // R-TUI-07
    let stage = Stage::new();
    let mut agent = stage.agent(&[]);
    agent.prompt("refactor the stock module");
    let dialog = agent.wait_record("the question", |r| r["type"] == "extension_ui_request");
    assert_eq!(dialog["method"], "select");
    assert_eq!(
        agent.request("get_state", json!({}))["data"]["isStreaming"],
        true
    );
    let answer = |id: &Value| {
        let line = json!({"type": "extension_ui_response", "id": id, "value": "With the reports"});
        format!("{line}\n")
    };
    // An answer to another dialog is none.
    agent
        .write(answer(&json!("stranger")).as_bytes())
        .expect("write");
    assert_eq!(
        agent.request("get_state", json!({}))["data"]["isStreaming"],
        true
    );
    agent
        .write(answer(&dialog["id"]).as_bytes())
        .expect("write");
    let run = agent.wait_settled(0);
    let text = message_text(last_answer(&run));
    assert!(text.contains("With the reports"), "{text}");
    all_known(&agent);
}

#[test]
fn abort_closes_a_question() {
    let stage = Stage::new();
    let mut agent = stage.agent(&[]);
    agent.prompt("refactor the stock module");
    agent.wait_record("the question", |r| r["type"] == "extension_ui_request");
    agent.request("abort", json!({}));
    let run = agent.wait_settled(0);
    let end = |record: &Value| record["type"] == "agent_end";
    assert_eq!(
        order(&from(run.clone(), end)),
        ["agent_end false", "agent_settled true", "response abort"]
    );
    assert_eq!(last_answer(&run)["stopReason"], "aborted");
}

#[test]
fn commands_are_answered_as_by_pi() {
    let stage = Stage::new();
    let mut agent = stage.agent(&["--name", "--model", "--model", "demo/deep:high"]);
    let state = agent.request("get_state", json!({}))["data"].clone();
    assert_eq!(
        state["sessionName"], "--model",
        "B048: a value is no option"
    );
    assert_eq!(state["model"]["id"], "deep");
    assert_eq!(state["thinkingLevel"], "high");
    assert_eq!(state["sessionId"], "agent-1");

    let models = agent.request("get_available_models", json!({}));
    assert_eq!(models["data"]["models"].as_array().expect("list").len(), 2);
    let set = |agent: &mut Rpc, id: &str| {
        agent.request("set_model", json!({"provider": "demo", "modelId": id}))
    };
    assert_eq!(set(&mut agent, "swift")["data"]["id"], "swift");
    assert_eq!(
        set(&mut agent, "none")["error"],
        "Model not found: demo/none"
    );
    agent.request("set_thinking_level", json!({"level": "low"}));
    agent.wait_record("the change", |r| r["type"] == "thinking_level_changed");
    let state = agent.request("get_state", json!({}))["data"].clone();
    assert_eq!(
        (&state["model"]["id"], &state["thinkingLevel"]),
        (&json!("swift"), &json!("low"))
    );

    assert_eq!(agent.request("abort", json!({}))["success"], true);
    assert_eq!(
        agent.request("frobnicate", json!({}))["error"],
        "Unknown command: frobnicate"
    );
    agent.write(b"{not json\n[1]\nnull\n").expect("write");
    agent.wait_record("a complaint", |record| record["command"] == "parse");
    let stats = agent.request("get_session_stats", json!({}))["data"].clone();
    assert_eq!(stats["totalMessages"], 0);
    all_known_but_bad(&agent);
}

/// Answers to lines that are no commands have no `command`.
#[track_caller]
fn all_known_but_bad(agent: &Rpc) {
    let mut parser = Parser::new();
    for line in agent.lines() {
        assert!(
            parser.parse(&line).is_ok(),
            "{}",
            String::from_utf8_lossy(&line)
        );
    }
}
