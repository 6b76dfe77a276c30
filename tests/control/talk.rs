//! Client and server against each other over a socket pair.

use pi_agents::client::{ErrorCode, FleetClient, Reply, Request, Update};
use pi_agents::control::client::{ControlClient, connect_stream};
use pi_agents::control::protocol::Role;
use pi_agents::control::server::{Options, Server};
use pi_agents::fleet::roster::FleetSnapshot;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tokio::net::UnixStream;

use super::fake_core::{FakeCore, core_view, named, soon, until};

async fn attach(server: &Server, role: Role) -> ControlClient {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let server = server.clone();
    tokio::spawn(async move {
        let (reader, writer) = theirs.into_split();
        server.serve_stream(reader, writer, None).await
    });
    let (reader, writer) = ours.into_split();
    soon("handshake", connect_stream(reader, writer, role))
        .await
        .unwrap()
}

fn apply(fleet: &mut Option<FleetSnapshot>, batch: Vec<Update>) {
    for update in batch {
        match update {
            Update::Snapshot(all) => *fleet = Some(*all),
            Update::Delta(delta) => {
                assert!(fleet.as_mut().unwrap().apply(delta), "a gap in the changes");
            }
            Update::Transcript { .. } => {}
        }
    }
}

fn rev(fleet: &Option<FleetSnapshot>) -> u64 {
    fleet.as_ref().map_or(0, |f| f.rev)
}

#[tokio::test]
async fn handshake_requests_errors_and_news() {
    let core = FakeCore::new();
    let (server, _shutdown) = core.server(Options::default());
    let client = attach(&server, Role::Cli).await;
    assert_eq!(client.core(), &core_view());
    assert_eq!(client.version(), 1);
    assert_eq!(core.clients.lock().unwrap()[0].role, Role::Cli);

    let watch = Request::Watch { agents: vec![] };
    assert_eq!(client.request(watch.clone()).await, Ok(Reply::Done));
    let refused = client
        .request(Request::Abort {
            agent: named("zoe"),
        })
        .await
        .unwrap_err();
    assert_eq!(refused.code, ErrorCode::NotFound);
    assert_eq!(refused.hint.as_deref(), Some("look at the roster"));
    assert_eq!(core.asked.lock().unwrap()[0], watch);

    let mut fleet = None;
    apply(
        &mut fleet,
        soon("snapshot", client.updates()).await.unwrap(),
    );
    core.rev.send_modify(|r| *r += 5);
    apply(&mut fleet, soon("delta", client.updates()).await.unwrap());
    assert_eq!(rev(&fleet), 6);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn requests_run_side_by_side_and_arrive_in_order() {
    let core = FakeCore::new();
    let (server, _shutdown) = core.server(Options::default());
    let client = Arc::new(attach(&server, Role::Viewer).await);
    let held = {
        let client = Arc::clone(&client);
        tokio::spawn(async move {
            client
                .request(Request::Stop {
                    agent: named("max"),
                })
                .await
        })
    };
    until("the stop is held", || core.held.load(Ordering::SeqCst) == 1).await;
    // While one request waits, others are answered.
    for i in 0..300 {
        let text = i.to_string();
        let send = Request::Send {
            agent: named("max"),
            text,
            env: vec![],
        };
        let client = Arc::clone(&client);
        let mut sending = Box::pin(async move { client.request(send).await });
        // On its way in this order; answered whenever.
        if std::future::poll_fn(|cx| std::task::Poll::Ready(sending.as_mut().poll(cx).is_pending()))
            .await
        {
            if i % 7 == 0 {
                soon("answer", sending).await.unwrap();
            } else {
                tokio::spawn(sending);
            }
        }
        tokio::task::yield_now().await;
    }
    until("all arrived", || core.asked.lock().unwrap().len() == 301).await;
    let order: Vec<String> = core
        .asked
        .lock()
        .unwrap()
        .iter()
        .filter_map(|r| match r {
            Request::Send { text, .. } => Some(text.clone()),
            _ => None,
        })
        .collect();
    let wanted: Vec<String> = (0..300).map(|i| i.to_string()).collect();
    assert_eq!(order, wanted);
    core.release.notify_one();
    let stopped = soon("stop", held).await.unwrap();
    assert_eq!(stopped, Ok(Reply::Stopped { was_live: true }));
}

// R-Q-02
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_viewer_that_reads_nothing_holds_up_nobody() {
    let core = FakeCore::new();
    core.weight.store(100_000, Ordering::SeqCst);
    let options = Options {
        batch_interval: std::time::Duration::from_millis(1),
        ..Options::default()
    };
    let (server, _shutdown) = core.server(options);
    let slow = attach(&server, Role::Viewer).await;
    // It subscribes and then takes nothing any more.
    let mut late = None;
    apply(
        &mut late,
        soon("first batch", slow.updates()).await.unwrap(),
    );
    let quick = attach(&server, Role::Viewer).await;
    let mut fleet = None;
    apply(&mut fleet, soon("snapshot", quick.updates()).await.unwrap());
    // Change by change until only the quick one takes them: what was pulled for the slow one is
    // what the buffers on the way hold, and no more.
    let mut alone = 0;
    for round in 0.. {
        assert!(
            round < 2000,
            "200 MB are still being pulled for a viewer that reads nothing"
        );
        let before = core.pulled.load(Ordering::SeqCst);
        core.rev.send_modify(|r| *r += 1);
        let batch = soon("news for the quick one", quick.updates()).await;
        apply(&mut fleet, batch.unwrap());
        let asked = quick.request(Request::Watch { agents: vec![] });
        soon("answer for the quick one", asked).await.unwrap();
        let pulled = core.pulled.load(Ordering::SeqCst) - before;
        alone = if pulled == 1 { alone + 1 } else { 0 };
        if alone == 200 {
            break;
        }
    }
    assert_eq!(rev(&fleet), *core.rev.borrow());
    // The slow one still gets answers (R-Q-02: its full buffer is thrown away for that), and comes
    // back to the present state.
    soon(
        "answer for the slow one",
        slow.request(Request::Watch { agents: vec![] }),
    )
    .await
    .unwrap();
    while rev(&late) < *core.rev.borrow() {
        let batch = soon("news for the slow one", slow.updates()).await.unwrap();
        apply(&mut late, batch);
    }
}

#[tokio::test]
async fn a_lost_core_fails_what_is_pending() {
    let core = FakeCore::new();
    let (ours, theirs) = UnixStream::pair().unwrap();
    let (server, _shutdown) = core.server(Options::default());
    let serving = tokio::spawn(async move {
        let (reader, writer) = theirs.into_split();
        server.serve_stream(reader, writer, None).await
    });
    let (reader, writer) = ours.into_split();
    let client = connect_stream(reader, writer, Role::Viewer).await.unwrap();
    let client = Arc::new(client);
    let held = {
        let client = Arc::clone(&client);
        tokio::spawn(async move {
            client
                .request(Request::Stop {
                    agent: named("max"),
                })
                .await
        })
    };
    until("the stop is held", || core.held.load(Ordering::SeqCst) == 1).await;
    serving.abort();
    let lost = soon("pending request", held).await.unwrap().unwrap_err();
    assert_eq!(lost.code, ErrorCode::Disconnected);
    assert_eq!(soon("news", client.updates()).await, None);
    let after = client.request(Request::Snapshot).await.unwrap_err();
    assert_eq!(after.code, ErrorCode::Disconnected);
}

#[tokio::test]
async fn shutdown_lets_the_answer_out_and_says_why() {
    let core = FakeCore::new();
    let (server, shutdown) = core.server(Options::default());
    let attached = server.attached();
    let client = Arc::new(attach(&server, Role::Viewer).await);
    assert_eq!(*attached.borrow(), 1);
    let held = {
        let client = Arc::clone(&client);
        tokio::spawn(async move {
            client
                .request(Request::Stop {
                    agent: named("max"),
                })
                .await
        })
    };
    until("the stop is held", || core.held.load(Ordering::SeqCst) == 1).await;
    shutdown.cancel();
    core.release.notify_one();
    let stopped = soon("answer", held).await.unwrap();
    assert_eq!(stopped, Ok(Reply::Stopped { was_live: true }));
    while soon("end", client.updates()).await.is_some() {}
    assert_eq!(client.end_reason().as_deref(), Some("the core ends"));
    until("nobody attached", || *attached.borrow() == 0).await;
}

#[tokio::test]
async fn a_core_that_is_gone_ends_the_news() {
    let core = FakeCore::new();
    let (server, _shutdown) = core.server(Options::default());
    let client = attach(&server, Role::Viewer).await;
    soon("snapshot", client.updates()).await.unwrap();
    core.gone.cancel();
    assert_eq!(soon("end", client.updates()).await, None);
    assert_eq!(client.end_reason().as_deref(), Some("the core is gone"));
}
