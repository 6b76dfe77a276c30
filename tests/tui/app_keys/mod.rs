//! What keys do, pressed by a person at a desk: the rules of R-TUI-06, R-LIFE-15 and screens.md.

mod agent_view;
mod fleet;
mod stop;
mod task_line;

use pi_agents::client::{AgentRef, Request, SpawnRequest};
use pi_agents::fleet::agent::ToolChoice;
use pi_agents::tui::app::Screen;

use crate::tui::desk::Desk;
use crate::tui::fake_client::{FakeClient, agent, id};

fn two() -> FakeClient {
    FakeClient::new(vec![
        agent(1, "max", "Check CI configuration"),
        agent(2, "zoe", "Research db schema"),
    ])
}

fn desk() -> Desk {
    Desk::new(two(), 120, 30)
}

fn opened() -> Desk {
    let mut desk = desk();
    desk.press("enter");
    assert_eq!(desk.app.screen, Screen::Agent(id(1)));
    desk.now.mono += 5_000;
    desk
}

fn stop(n: u128) -> Request {
    Request::Stop {
        agent: AgentRef::Id(id(n)),
    }
}

fn abort(n: u128) -> Request {
    Request::Abort {
        agent: AgentRef::Id(id(n)),
    }
}

fn send(n: u128, text: &str) -> Request {
    Request::Send {
        agent: AgentRef::Id(id(n)),
        text: text.into(),
        env: Vec::new(),
    }
}

fn spawn(prompt: &str) -> SpawnRequest {
    SpawnRequest {
        prompt: prompt.into(),
        label: None,
        model: None,
        thinking: None,
        tools: ToolChoice::All,
        cwd: None,
        persistent: None,
        timeout_ms: None,
        env: Vec::new(),
    }
}
