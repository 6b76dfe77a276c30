//! Tells, without running Pi, that it cannot have any model. Conservative: a warning that is wrong is worse than
//! none, so everything that could bring a model (a key in the environment, cloud credentials, an extension)
//! means "say nothing".

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::problem::PiProblem;
use super::{EnvPairs, agent_dir, var};

/// Files larger than this are surely not empty.
const MAX_BYTES: u64 = 1024 * 1024;

/// Parts of names of variables that may hold a credential or say where one is.
const CREDENTIAL_WORDS: [&str; 6] = ["KEY", "TOKEN", "SECRET", "CREDENTIAL", "AUTH", "LOGIN"];

/// First parts of names of variables that clouds use.
const CLOUD_PREFIXES: [&str; 10] = [
    "AWS_",
    "AZURE_",
    "GOOGLE_",
    "GCLOUD_",
    "GCP_",
    "CLOUDSDK_",
    "CLOUDFLARE_",
    "ANTHROPIC_",
    "OPENAI_",
    "VERTEX",
];

/// A problem if Pi surely has no model: no log-in, no key, nothing that could bring one. `None` = it may have.
///
/// `cwd` is the folder agents would work in: a project may bring its own extensions.
#[must_use]
pub fn no_models(env: &EnvPairs, cwd: &Path) -> Option<PiProblem> {
    let home = var(env, "HOME")
        .filter(|home| !home.is_empty())
        .map(PathBuf::from)?;
    let agent_dir = agent_dir(env)?;
    let hints = env.iter().any(|(name, value)| {
        !value.is_empty() && may_be_credential(&name.to_string_lossy().to_ascii_uppercase())
    });
    let cloud = [".aws", ".azure", ".config/gcloud"]
        .iter()
        .any(|dir| home.join(dir).exists());
    let own_code = ["extensions", "packages", "npm", "git"]
        .iter()
        .any(|dir| not_empty_dir(&agent_dir.join(dir)));
    let from_project = cwd
        .ancestors()
        .any(|dir| dir != home && dir.join(".pi").exists());
    if hints || cloud || own_code || from_project {
        return None;
    }
    let auth = state(&agent_dir.join("auth.json"), |_| false);
    let models = state(&agent_dir.join("models.json"), |value| {
        value
            .get("providers")
            .and_then(Value::as_object)
            .is_some_and(serde_json::Map::is_empty)
    });
    // Settings may name packages and extensions that bring providers.
    let settings = state(&agent_dir.join("settings.json"), |value| {
        value.as_object().is_some_and(|settings| {
            ["packages", "extensions"].iter().all(|key| {
                settings
                    .get(*key)
                    .is_none_or(|list| list.as_array().is_some_and(Vec::is_empty))
            })
        })
    });
    [auth, models, settings]
        .iter()
        .all(|empty| *empty)
        .then_some(PiProblem::NoModels { agent_dir })
}

fn may_be_credential(name: &str) -> bool {
    // Always there and never a model's: a desktop's or an ssh agent's.
    const HARMLESS: [&str; 3] = ["SSH_AUTH_SOCK", "XAUTHORITY", "LOGNAME"];
    !HARMLESS.contains(&name)
        && (CREDENTIAL_WORDS.iter().any(|word| name.contains(word))
            || CLOUD_PREFIXES.iter().any(|start| name.starts_with(start)))
}

fn not_empty_dir(dir: &Path) -> bool {
    fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_some())
}

/// True only if the file surely holds nothing: absent, an empty object, or what `also` calls empty. What cannot be
/// read or understood may hold anything.
fn state(path: &Path, also: impl Fn(&Value) -> bool) -> bool {
    let file = match fs::File::open(path) {
        Ok(file) => file,
        Err(error) => return error.kind() == std::io::ErrorKind::NotFound,
    };
    let mut text = String::new();
    if file.take(MAX_BYTES).read_to_string(&mut text).is_err() {
        return false;
    }
    if text.trim().is_empty() {
        return true;
    }
    serde_json::from_str::<Value>(&text)
        .is_ok_and(|value| value.as_object().is_some_and(serde_json::Map::is_empty) || also(&value))
}
