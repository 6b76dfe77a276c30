//! Starting children and checking what has to be checked on disk first. Runs beside the actor, so
//! that a slow disk or a slow `node --version` never delays a stop.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{mpsc, oneshot};

use super::SupervisorConfig;
use super::actor::{Event, started};
use super::child::{self, ChildHandle, ChildSetup};
use super::extras::{Checked, Hidden};
use super::find_pi::{self, PiFound, PiProblem};
use super::hosts::LAUNCH_ANSWER;
use super::launch;
use super::launch::Identity;
use super::live::AgentLive;
use super::progress::Origin;
use super::requests::child_env;
use super::session_file::{self, SessionMark};
use super::shared::Shared;
use super::witness::Witness;
use crate::client::host::{Contributions, Known};
use crate::client::{ErrorCode, Reply, RequestError, SpawnRequest};
use crate::fleet::agent::{AgentSpec, ToolChoice};
use crate::fleet::history::{Asked, Beginning};
use crate::fleet::host::{Caller, SpawnMode};
use crate::fleet::ids::{AgentId, CallId, InstanceId, MessageId};
use crate::fleet::machine::{EnvPairs, Input, LaunchPlan};
use crate::fleet::model;
use crate::fleet::transcript::Level;
use crate::sys::limits;
use crate::sys::lock::{self, FileLock};
use crate::sys::process;
use crate::sys::spawn;

/// Longest label made from a task, in characters.
const LABEL: usize = 80;

/// A process that was started.
pub struct Started {
    /// Which.
    pub instance: InstanceId,
    /// How to reach it.
    pub child: ChildHandle,
}

/// What is known of an agent's session file from when its last process was gone.
pub(super) struct LastSeen {
    /// The mark, if the look is over.
    pub(super) mark: Option<SessionMark>,
    /// The look that still goes on.
    pub(super) looking: Option<oneshot::Receiver<Option<SessionMark>>>,
}

type Reply1 = oneshot::Sender<Result<Reply, RequestError>>;
/// Pi as it was found for one value of PATH (and HOME); a failure is not remembered.
type Found = HashMap<Vec<Option<Vec<u8>>>, PiFound>;

/// See the module.
pub struct Starter {
    config: Arc<SupervisorConfig>,
    shared: Arc<Shared>,
    events: mpsc::Sender<Event>,
    found: Arc<Mutex<Found>>,
    launching: HashMap<InstanceId, AgentId>,
    /// Children that are not swept yet.
    alive: Arc<AtomicUsize>,
}

/// What the names in a spawn can mean.
#[derive(Default)]
pub(super) struct Names {
    /// What the session knows, if it said so.
    pub(super) known: Known,
    /// The session's own model.
    pub(super) own_model: Option<String>,
}

impl Names {
    /// The model that is meant (R-TOOL-04).
    fn model(&self, wanted: Option<String>) -> Result<Option<String>, RequestError> {
        let known = &self.known.models;
        match wanted {
            Some(wanted) if !known.is_empty() => {
                let meant = model::resolve(&wanted, self.own_model.as_deref(), known);
                meant
                    .map(Some)
                    .map_err(|problem| RequestError::new(ErrorCode::Invalid, problem))
            }
            // Whoever asks does not say what is known: the child is asked before its first prompt.
            other => Ok(other),
        }
    }

    /// The refusal of tools that the session does not know (R-PI-10).
    fn unknown_tools(&self, wanted: &ToolChoice) -> Option<RequestError> {
        let ToolChoice::Only(wanted) = wanted else {
            return None;
        };
        let known = &self.known.tools;
        let unknown: Vec<&str> = wanted
            .iter()
            .filter(|name| !known.is_empty() && !known.contains(name))
            .map(String::as_str)
            .collect();
        let first = unknown.first()?;
        let near = model::near_matches(first, known);
        let hint = if near.is_empty() {
            format!("known here: {}", known.join(", "))
        } else {
            format!("did you mean {}?", near.join(", "))
        };
        let error = RequestError::new(
            ErrorCode::Invalid,
            format!("no such tool: {}", unknown.join(", ")),
        );
        Some(error.with_hint(hint))
    }
}

/// Why a start was refused.
struct Refusal {
    reason: String,
    hint: Option<String>,
}

impl From<String> for Refusal {
    fn from(reason: String) -> Self {
        Self { reason, hint: None }
    }
}

impl Refusal {
    /// What the system refused, with the way out where there is one.
    fn of_system(what: &str, error: &std::io::Error) -> Self {
        Self {
            reason: format!("{what}: {error}"),
            hint: limits::way_out(error).map(str::to_owned),
        }
    }
}

impl Starter {
    pub(super) fn new(
        config: Arc<SupervisorConfig>,
        shared: Arc<Shared>,
        events: mpsc::Sender<Event>,
    ) -> Self {
        Self {
            config,
            shared,
            events,
            found: Arc::default(),
            launching: HashMap::new(),
            alive: Arc::default(),
        }
    }

    /// The agent a process was started for, once.
    pub(super) fn launching(&mut self, instance: InstanceId) -> Option<AgentId> {
        self.launching.remove(&instance)
    }

    /// Checks a spawn on disk and hands it to the machine, or refuses it with nothing done.
    #[allow(clippy::too_many_arguments)]
    pub(super) fn check_spawn(
        &self,
        request: SpawnRequest,
        by: Caller,
        mode: SpawnMode,
        folder: PathBuf,
        names: Names,
        origin: Option<Origin>,
        call: CallId,
        reply: Reply1,
    ) {
        let (config, events, found) = (
            Arc::clone(&self.config),
            self.events.clone(),
            Arc::clone(&self.found),
        );
        let asked = Box::new(asked_for(&request));
        let of_tool = origin.as_ref().map(|o| o.call.clone());
        tokio::spawn(async move {
            let checked = tokio::task::spawn_blocking(move || {
                let env = child_env(&request.env);
                let model = names.model(request.model)?.or_else(|| config.model.clone());
                let cwd = check_cwd(&folder, request.cwd.as_deref())?;
                find(&config, &found, &env.0).map_err(|r| {
                    let mut error = RequestError::new(ErrorCode::StartFailed, r.reason);
                    error.hint = r.hint;
                    error
                })?;
                check_tools(&request.tools)?;
                let unknown = names.unknown_tools(&request.tools);
                let input = Input::Spawn {
                    call,
                    by,
                    mode,
                    agent: AgentId::fresh(),
                    instance: InstanceId::fresh(),
                    message: MessageId::fresh(),
                    spec: AgentSpec {
                        label: label(request.label.as_deref(), &request.prompt),
                        model,
                        thinking: request.thinking,
                        tools: request.tools,
                        cwd,
                        persistent: request.persistent.unwrap_or(true),
                        timeout_ms: request.timeout_ms,
                        call: of_tool,
                    },
                    prompt: request.prompt,
                    env,
                };
                Ok::<_, RequestError>((input, unknown))
            })
            .await
            .unwrap_or_else(|_| {
                Err(RequestError::new(
                    ErrorCode::Internal,
                    "the check of the request failed",
                ))
            });
            match checked {
                Ok((input, unknown)) => {
                    let checked = Box::new(Checked {
                        input,
                        asked,
                        origin,
                        unknown,
                        call,
                        reply,
                    });
                    let _ = events.send(Event::Checked(checked)).await;
                }
                Err(error) => {
                    let _ = reply.send(Err(error));
                }
            }
        });
    }

    /// Starts a process.
    #[allow(clippy::too_many_arguments)]
    pub(super) fn launch(
        &mut self,
        agent: AgentId,
        instance: InstanceId,
        plan: LaunchPlan,
        name: String,
        live: Arc<AgentLive>,
        seen: LastSeen,
        asked: Option<LaunchAnswer>,
    ) {
        self.launching.insert(instance, agent);
        let (config, shared, events, found) = (
            Arc::clone(&self.config),
            Arc::clone(&self.shared),
            self.events.clone(),
            Arc::clone(&self.found),
        );
        let alive = Arc::clone(&self.alive);
        let runtime = tokio::runtime::Handle::current();
        tokio::spawn(async move {
            let events_in = events.clone();
            let mut mark = seen.mark;
            if let Some(looking) = seen.looking {
                mark = looking.await.unwrap_or_default();
            }
            let then = mark.clone();
            let extra = match contributions(asked).await {
                Ok(extra) => extra,
                Err(reason) => {
                    let failed = Input::LaunchFailed {
                        instance,
                        reason,
                        hint: None,
                    };
                    let _ = events.send(Event::Input(failed)).await;
                    return;
                }
            };
            let result = tokio::task::spawn_blocking(move || {
                let _entered = runtime.enter();
                let lock = session_lock(&config.session_locks, &plan.session_id)?;
                let (before, text) = before(&plan, then.as_ref());
                if let Some(text) = text {
                    warn(&live, text);
                }
                let witness = Arc::new(Witness::new(before));
                start(
                    &config, &found, &plan, &extra, &name, instance, live, shared, events_in, lock,
                    alive, witness,
                )
            })
            .await
            .unwrap_or_else(|_| Err(Refusal::from("the start failed inside the core".to_owned())));
            let event = match result {
                Ok(child) => started(Started { instance, child }),
                Err(Refusal { reason, hint }) => {
                    // Nothing wrote the file: what was known of it still holds.
                    let known = Event::Looked {
                        agent,
                        instance,
                        mark,
                    };
                    let _ = events.send(known).await;
                    Event::Input(Input::LaunchFailed {
                        instance,
                        reason,
                        hint,
                    })
                }
            };
            let _ = events.send(event).await;
        });
    }

    /// Looks at a session file after its agent's process is gone, says so if another program wrote it
    /// meanwhile (R-LIFE-10), and hands in the mark to compare with later.
    pub(super) fn look_after(
        &self,
        agent: AgentId,
        instance: InstanceId,
        path: PathBuf,
        witness: Arc<Witness>,
        live: Arc<AgentLive>,
    ) -> oneshot::Receiver<Option<SessionMark>> {
        let (shared, events) = (Arc::clone(&self.shared), self.events.clone());
        let (done, seen) = oneshot::channel();
        tokio::spawn(async move {
            let look = tokio::task::spawn_blocking(move || after(&path, &witness, &live, &shared));
            let mark = look.await.unwrap_or_default();
            // Nobody may wait for it.
            let _ = done.send(mark.clone());
            let looked = Event::Looked {
                agent,
                instance,
                mark,
            };
            let _ = events.send(looked).await;
        });
        seen
    }
}

#[allow(clippy::too_many_arguments)]
fn start(
    config: &SupervisorConfig,
    found: &Mutex<Found>,
    plan: &LaunchPlan,
    extra: &Contributions,
    name: &str,
    instance: InstanceId,
    live: Arc<AgentLive>,
    shared: Arc<Shared>,
    events: mpsc::Sender<Event>,
    lock: FileLock,
    alive: Arc<AtomicUsize>,
    witness: Arc<Witness>,
) -> Result<ChildHandle, Refusal> {
    let pi = find(config, found, &launch::searched(&plan.env.0, extra))?;
    if !plan.spec.cwd.is_dir() {
        return Err(Refusal::from(format!(
            "the folder {} is not there any more",
            plan.spec.cwd.display()
        )));
    }
    std::fs::create_dir_all(&config.sessions).map_err(|e| {
        Refusal::of_system(&format!("cannot create {}", config.sessions.display()), &e)
    })?;
    let mut argv = pi.argv.iter().cloned();
    let program = argv.next().ok_or_else(|| "no Pi to start".to_owned())?;
    let args = argv.chain(launch::arguments(
        plan,
        &config.sessions,
        config.bridge.as_deref(),
        extra,
        name,
    ));
    let token = uuid::Uuid::new_v4().simple().to_string();
    let env = launch::environment(
        &plan.env.0,
        &pi,
        extra,
        &Identity {
            name,
            core: config.core,
            instance,
            depth: plan.depth,
            max_depth: config.machine.max_depth,
            token: config.bridge.is_some().then_some(token.as_str()),
        },
    );
    let mut command = spawn::command(&program, args, env, &plan.spec.cwd);
    // The child has its session for as long as it lives, also when this core and its guard are killed and the
    // sweep of the next core does not get it (R-LIFE-10). Node hands no descriptor of its own on to tools.
    let inherited = lock
        .duplicate()
        .map_err(|e| Refusal::of_system("cannot hand the session's lock on", &e))?;
    spawn::inherit_fd(&mut command, inherited);
    child::start(
        command,
        ChildSetup {
            instance,
            core: config.core,
            record_limit: config.record_limit,
            transcript_limit: config.transcript_limit,
            live,
            shared,
            events,
            witness,
            hidden: Hidden::of(extra, &plan.spec.cwd),
            tools: match &plan.spec.tools {
                ToolChoice::Only(names) => names.clone(),
                ToolChoice::All => Vec::new(),
            },
            bridge: config.bridge.clone(),
            guard: config.guard,
            alive,
            lock: Some(lock),
        },
    )
    .map_err(|e| Refusal::of_system(&format!("cannot start {}", program.to_string_lossy()), &e))
}

/// The answer of a Pi session to the question what its other extensions want a child to have.
pub(super) type LaunchAnswer = oneshot::Receiver<Result<Contributions, String>>;

/// Waits for that answer. What an extension said when it rejected the launch is not repeated
/// (R-PI-04).
pub(super) async fn contributions(asked: Option<LaunchAnswer>) -> Result<Contributions, String> {
    let Some(asked) = asked else {
        return Ok(Contributions::default());
    };
    match tokio::time::timeout(LAUNCH_ANSWER, asked).await {
        Ok(Ok(Ok(extra))) => launch::check(extra),
        Ok(Ok(Err(_))) => Err("another extension of the session rejected the launch".to_owned()),
        Ok(Err(_)) => Err("the session ended before the launch".to_owned()),
        Err(_) => Err(format!(
            "the session did not say within {} s what its extensions add to the launch",
            LAUNCH_ANSWER.as_secs()
        )),
    }
}

/// Finds Pi for this environment; what was found is remembered per PATH.
fn find(
    config: &SupervisorConfig,
    found: &Mutex<Found>,
    env: &EnvPairs,
) -> Result<PiFound, Refusal> {
    let value = |name: &[u8]| {
        env.iter()
            .rev()
            .find(|(n, _)| n == name)
            .map(|(_, v)| v.clone())
    };
    let key = vec![value(b"PATH"), value(b"HOME")];
    if let Some(pi) = found
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .get(&key)
        && pi.argv.first().is_some_and(|p| Path::new(p).exists())
    {
        return Ok(pi.clone());
    }
    let pi = find_pi::find(config.pi.as_deref(), &launch::os_pairs(env)).map_err(refusal)?;
    found
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .insert(key, pi.clone());
    Ok(pi)
}

fn refusal(problem: PiProblem) -> Refusal {
    Refusal {
        reason: problem.title(),
        hint: Some(problem.lines().join("\n")),
    }
}

/// The folder an agent works in: relative ones to the core's folder; it must exist (R-TOOL-16).
fn check_cwd(folder: &Path, cwd: Option<&Path>) -> Result<PathBuf, RequestError> {
    let path = cwd.map_or_else(|| folder.to_owned(), |c| folder.join(c));
    let bad = |why: &str| {
        Err(RequestError::new(
            ErrorCode::Invalid,
            format!("folder {}: {why}", path.display()),
        ))
    };
    match std::fs::canonicalize(&path) {
        Ok(real) if real.is_dir() => Ok(real),
        Ok(_) => bad("it is not a folder"),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => bad("it does not exist"),
        Err(e) => bad(&e.to_string()),
    }
}

/// Tool names as Pi's `--tools` can take them.
fn check_tools(tools: &ToolChoice) -> Result<(), RequestError> {
    let ToolChoice::Only(names) = tools else {
        return Ok(());
    };
    match names
        .iter()
        .find(|n| n.is_empty() || n.contains([',', '\0', ' ', '\n']) || n.starts_with(['+', '-']))
    {
        Some(bad) => Err(RequestError::new(
            ErrorCode::Invalid,
            format!("not a tool name: {bad:?}"),
        )
        .with_hint("name tools one by one, for example read, bash, edit")),
        None => Ok(()),
    }
}

/// The arguments as they came, for `explain` (R-TOOL-16). No environment, no whole task.
fn asked_for(request: &SpawnRequest) -> Asked {
    Asked {
        task: Beginning::of(&request.prompt),
        label: request.label.clone(),
        model: request.model.clone(),
        thinking: request.thinking,
        tools: request.tools.clone(),
        cwd: request.cwd.clone(),
        persistent: request.persistent,
        timeout_ms: request.timeout_ms,
    }
}

/// Something of it can be read: neither blank nor control characters only.
fn shows(text: &str) -> bool {
    text.chars().any(|c| !c.is_whitespace() && !c.is_control())
}

/// Title of a task: what was given, else the task's first line.
#[must_use]
pub fn label(given: Option<&str>, prompt: &str) -> String {
    let text = given
        .filter(|g| shows(g))
        .or_else(|| prompt.lines().find(|l| shows(l)))
        .unwrap_or_default();
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= LABEL {
        return line;
    }
    let mut cut: String = line.chars().take(LABEL - 1).collect();
    cut.push('…');
    cut
}

/// Cores hold a lock per session, so that no two of them write one (R-LIFE-17).
fn session_lock(dir: &Path, session: &str) -> Result<FileLock, Refusal> {
    std::fs::create_dir_all(dir)
        .map_err(|e| Refusal::of_system(&format!("cannot create {}", dir.display()), &e))?;
    let path = dir.join(format!("{session}.lock"));
    match FileLock::try_acquire(&path) {
        Ok(Some(lock)) => Ok(lock),
        Ok(None) => {
            // The file names the core that took it; its child has it for as long as it lives.
            let lives = lock::holder(&path)
                .is_none_or(|pid| process::read(pid).is_some_and(|holder| !holder.is_zombie()));
            let (reason, hint) = if lives {
                (
                    "its session is in use by another pi-agents",
                    "stop the agent there first",
                )
            } else {
                (
                    "a process of an earlier core that was killed still has its session",
                    "it is ended when a core starts; if it does not go, end it by hand, then send the message again",
                )
            };
            Err(Refusal {
                reason: reason.to_owned(),
                hint: Some(hint.to_owned()),
            })
        }
        Err(e) => Err(Refusal::of_system(
            &format!("cannot lock {}", path.display()),
            &e,
        )),
    }
}

/// A foreign Pi takes no lock: a session that changed since it was ours is pointed out (R-LIFE-10).
/// Also gives the file as it is now, before our own process writes it.
fn before(
    plan: &LaunchPlan,
    then: Option<&SessionMark>,
) -> (Option<(PathBuf, SessionMark)>, Option<String>) {
    let Some(path) = plan.resume.as_deref() else {
        return (None, None);
    };
    match session_file::look(path) {
        Ok(Some(now)) => {
            let changed = then.is_some_and(|then| then.differs(&now.mark));
            let text = changed.then(|| {
                format!(
                    "the session was changed by another program since; going on from its present end\n{}",
                    path.display()
                )
            });
            (Some((path.to_owned(), now.mark)), text)
        }
        Ok(None) => {
            let text = then.map(|_| {
                format!(
                    "the session file is gone; starting with an empty conversation\n{}",
                    path.display()
                )
            });
            (None, text)
        }
        // Pi reads it next and says itself what is wrong.
        Err(error) => {
            tracing::warn!(%error, path = %path.display(), "session file not looked at");
            (None, None)
        }
    }
}

/// See [`Starter::look_after`].
fn after(path: &Path, witness: &Witness, live: &AgentLive, shared: &Shared) -> Option<SessionMark> {
    let look = match session_file::look(path) {
        Ok(look) => look?,
        Err(error) => {
            tracing::warn!(%error, path = %path.display(), "session file not looked at");
            return None;
        }
    };
    let foreign = witness.proves_other_writer(path, &look);
    if foreign {
        warn(live, two_writers(path));
        shared.ring();
    }
    Some(SessionMark {
        foreign,
        ..look.mark
    })
}

/// What the person reads when another program wrote a session while our process did.
pub(super) fn two_writers(path: &Path) -> String {
    format!(
        "another program wrote this session while the agent ran: a message goes on from the file's \
         last entry, and what the other wrote may be in its place or hidden in a branch. Quit the \
         other program first; /tree in Pi shows every branch of the file\n{}",
        path.display()
    )
}

fn warn(live: &AgentLive, text: String) {
    let at_ms = jiff::Timestamp::now().as_millisecond();
    live.lock().notice(Level::Warning, text, at_ms);
    live.touch();
}
