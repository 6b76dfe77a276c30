//! What other extensions add to the launch of a child.

use serde_json::json;

use super::world::Plan;
use crate::support::versions::Version;

/// Does to the event what a file in the work folder says, and goes on after the event is over.
const LISTENER: &str = r#"
import { readFileSync } from "node:fs";
let emissions = 0;
export default function (pi) {
    pi.events.on("pi-subagents:child-launch:v1", (launch) => {
        emissions += 1;
        const fresh = Object.keys(launch.env).length === 0 && launch.extensions.length === 0 && !("error" in launch);
        const what = readFileSync(`${process.cwd()}/what`, "utf8");
        new Function("launch", "emissions", "fresh", what)(launch, emissions, fresh);
    });
}
"#;

// R-PI-04: fresh for every launch, copied at once, checked strictly, rejected without a word of
// what was in it.
#[test]
fn contributions_are_collected_checked_and_copied() {
    for version in Version::ALL {
        let world = Plan::new(version).source("listener.ts", LISTENER).start();
        let core = world.core.joined(0);
        let what = world.pi.work().join("what");
        let mut id = 100;
        let mut emit = |code: &str| {
            std::fs::write(&what, code).unwrap();
            id += 1;
            core.ask(id, "host/launch_event", json!({}))
        };
        let none = json!({"env": {}, "extensions": []});
        assert_eq!(emit("")["result"], none);
        let answer = emit(
            "launch.env.TEAM = 'blue'; launch.env.EMPTY = ''; launch.env.COUNT = `${emissions} ${fresh}`;
             launch.extensions.push('/a.ts', './b.ts', '/a.ts');
             setTimeout(() => { launch.env.LATE = 'x'; }, 0);
             Promise.resolve().then(() => { launch.env.LATER = 'x'; launch.extensions.push('/late.ts'); });",
        );
        assert_eq!(
            answer["result"],
            json!({"env": {"TEAM": "blue", "EMPTY": "", "COUNT": "2 true"}, "extensions": ["/a.ts", "./b.ts"]})
        );
        let answer = emit("launch.env = Object.assign(Object.create(null), { A: String(fresh) });");
        assert_eq!(answer["result"]["env"], json!({"A": "true"}));
        // A listener that throws is not ours to see; what it did before counts.
        let answer = emit("launch.env.A = '1'; throw new Error('sesame');");
        assert_eq!(answer["result"]["env"], json!({"A": "1"}));
        for bad in [
            "launch.error = 'sesame';",
            "launch.error = '';",
            "launch.error = { sesame: 1 };",
            "launch.error = null;",
            "Object.defineProperty(launch, 'error', { get() { throw new Error('sesame'); } });",
            "launch.env.SESAME = 1;",
            "launch.env.SESAME = undefined;",
            "launch.env.SESAME = Promise.resolve('sesame');",
            "launch.env['SES=AME'] = 'x';",
            "launch.env[''] = 'x';",
            "launch.env['1SESAME'] = 'x';",
            "launch.env.SESAME = 'a\\0b';",
            "launch.env = Promise.resolve({});",
            "launch.env = ['sesame'];",
            "launch.env = null;",
            "launch.env = 'sesame';",
            "launch.env = new Map([['SESAME', 'x']]);",
            "launch.env = new (class Sesame {})();",
            "launch.env[Symbol('sesame')] = 'x';",
            "launch.extensions = 'sesame';",
            "launch.extensions = new Set(['/sesame']);",
            "launch.extensions = { 0: '/sesame', length: 1 };",
            "launch.extensions.push('');",
            "launch.extensions.push('  ');",
            "launch.extensions.push(7);",
            "launch.extensions.push('/ses\\0ame');",
            "launch.extensions[2] = '/sesame';",
            "launch.extensions.push(Promise.resolve('/sesame'));",
            "delete launch.env;",
            "delete launch.extensions;",
        ] {
            let answer = emit(bad);
            assert_eq!(answer["error"]["code"], -32012, "{bad}: {answer}");
            let said = answer.to_string().to_lowercase();
            assert!(!said.contains("sesame"), "{bad}: {said}");
        }
        // One bad launch spoils no other.
        assert_eq!(emit("")["result"], none);
    }
}
