//! News as lines that fit the limit. What is too long is sent in parts that lead to the same
//! state: a change may go from a number to the same number (see `fleet/delta`).

use super::protocol;
use crate::client::Update;
use crate::fleet::roster::{AgentView, FleetDelta, FleetSnapshot};
use crate::fleet::transcript::{Entry, EntryChange, EntryKind, TranscriptPatch};

/// Longest text of a part that cannot be sent in parts, in bytes.
const CUT: usize = 64 * 1024;

/// The lines of one piece of news, each at most `limit` bytes long without its LF.
#[must_use]
pub fn lines(update: Update, limit: usize) -> Vec<Vec<u8>> {
    let mut out = Vec::new();
    // Newest part last; a part that is too long is replaced by smaller ones.
    let mut todo = vec![(update, false)];
    while let Some((update, cut)) = todo.pop() {
        match protocol::line_of(&update) {
            Ok(line) if line.len() <= limit.saturating_add(1) => out.push(line),
            Ok(line) if cut => {
                tracing::warn!(bytes = line.len(), "news too long for a line left out");
                out.extend(without(update).and_then(|u| protocol::line_of(&u).ok()));
            }
            Ok(_) => todo.extend(parts(update).into_iter().rev()),
            Err(error) => tracing::warn!(%error, "news that cannot be written left out"),
        }
    }
    out
}

/// Two smaller parts, or one that is cut (`true`).
fn parts(update: Update) -> Vec<(Update, bool)> {
    match update {
        Update::Snapshot(fleet) => {
            let FleetSnapshot { rev, core, agents } = *fleet;
            let head = FleetSnapshot {
                rev,
                core,
                agents: Vec::new(),
            };
            vec![
                (Update::Snapshot(Box::new(head)), true),
                (
                    Update::Delta(FleetDelta {
                        since: rev,
                        rev,
                        core: None,
                        agents,
                    }),
                    false,
                ),
            ]
        }
        Update::Delta(mut delta) if delta.agents.len() > 1 => {
            let rest = delta.agents.split_off(delta.agents.len() / 2);
            let rest = FleetDelta {
                since: delta.rev,
                rev: delta.rev,
                core: None,
                agents: rest,
            };
            vec![(Update::Delta(delta), false), (Update::Delta(rest), false)]
        }
        Update::Delta(mut delta) => {
            delta.agents.iter_mut().for_each(cut_agent);
            vec![(Update::Delta(delta), true)]
        }
        Update::Transcript { agent, mut patch } => {
            if patch.changes.len() > 1 {
                let rest = patch.changes.split_off(patch.changes.len() / 2);
                let rest = follow(&patch, rest);
                return vec![
                    (Update::Transcript { agent, patch }, false),
                    (Update::Transcript { agent, patch: rest }, false),
                ];
            }
            match patch.changes.pop().map(halves) {
                Some((first, Some(second))) => {
                    patch.changes.push(first);
                    let rest = follow(&patch, vec![second]);
                    vec![
                        (Update::Transcript { agent, patch }, false),
                        (Update::Transcript { agent, patch: rest }, false),
                    ]
                }
                Some((cut, None)) => {
                    patch.changes.push(cut);
                    vec![(Update::Transcript { agent, patch }, true)]
                }
                None => vec![(Update::Transcript { agent, patch }, true)],
            }
        }
    }
}

/// A patch behind another one, with the same outcome.
fn follow(first: &TranscriptPatch, changes: Vec<EntryChange>) -> TranscriptPatch {
    TranscriptPatch {
        since: first.rev,
        rev: first.rev,
        reset: false,
        first_seq: first.first_seq,
        changes,
    }
}

/// A change in two, where its text can be appended later; else the change with its text cut.
fn halves(change: EntryChange) -> (EntryChange, Option<EntryChange>) {
    match change {
        EntryChange::Append { seq, from, text } if text.len() > CUT => {
            let (head, tail) = split(&text);
            let second = EntryChange::Append {
                seq,
                from: from + head.len(),
                text: tail.to_owned(),
            };
            let first = EntryChange::Append {
                seq,
                from,
                text: head.to_owned(),
            };
            (first, Some(second))
        }
        EntryChange::Append { .. } => (change, None),
        EntryChange::Put { mut entry } => {
            if let EntryKind::Text { text, .. } | EntryKind::Thinking { text, .. } = &mut entry.kind
                && text.len() > CUT
            {
                let (head, tail) = split(text);
                let second = EntryChange::Append {
                    seq: entry.seq,
                    from: head.len(),
                    text: tail.to_owned(),
                };
                *text = head.to_owned();
                return (EntryChange::Put { entry }, Some(second));
            }
            cut_entry(&mut entry);
            (EntryChange::Put { entry }, None)
        }
    }
}

fn split(text: &str) -> (&str, &str) {
    let mut at = text.len() / 2;
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    text.split_at(at)
}

fn cut_entry(entry: &mut Entry) {
    match &mut entry.kind {
        EntryKind::User { text, .. }
        | EntryKind::Thinking { text, .. }
        | EntryKind::Text { text, .. }
        | EntryKind::Notice { text, .. } => cut(text),
        EntryKind::Custom { custom_type, text } => {
            cut(custom_type);
            cut(text);
        }
        EntryKind::Tool(tool) => {
            cut(&mut tool.call_id);
            cut(&mut tool.name);
            cut(&mut tool.args);
            cut(&mut tool.output);
        }
        EntryKind::RunEnd { .. } => {}
    }
}

fn cut_agent(agent: &mut AgentView) {
    const FEW: usize = 32;
    cut(&mut agent.spec.label);
    agent.activity.iter_mut().for_each(cut);
    agent.pending.truncate(FEW);
    agent.pending.iter_mut().for_each(|m| cut(&mut m.text));
    agent.dialogs.truncate(FEW);
    agent.dialogs.iter_mut().for_each(|d| cut(&mut d.title));
    agent.statuses.truncate(FEW);
    for (key, value) in &mut agent.statuses {
        cut(key);
        cut(value);
    }
}

fn cut(text: &mut String) {
    if text.len() > CUT {
        let mut at = CUT;
        while !text.is_char_boundary(at) {
            at -= 1;
        }
        text.truncate(at);
        text.push_str(" … (cut: too long to be sent)");
    }
}

/// The same change without its content, so that the numbers go on.
fn without(update: Update) -> Option<Update> {
    match update {
        Update::Snapshot(_) => None,
        Update::Delta(mut delta) => {
            delta.agents.clear();
            Some(Update::Delta(delta))
        }
        Update::Transcript { agent, mut patch } => {
            patch.changes.clear();
            Some(Update::Transcript { agent, patch })
        }
    }
}
