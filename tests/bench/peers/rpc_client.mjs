// Pi's own RpcClient takes in a recorded stream. Prints nanoseconds of CPU per byte of this
// process: from the start of the child to the last record, module loading left out.
//
//   node rpc_client.mjs PI_PACKAGE STREAM     measures
//   node rpc_client.mjs --mode rpc            plays the child: writes $STREAM to stdout
import { createReadStream, statSync } from "node:fs";
import { fileURLToPath } from "node:url";

const [first, second] = process.argv.slice(2);
if (first === "--mode") {
  createReadStream(process.env.STREAM).pipe(process.stdout);
} else {
  const { RpcClient } = await import(`${first}/dist/index.js`);
  const bytes = statSync(second).size;
  process.env.STREAM = second;
  const client = new RpcClient({
    cliPath: fileURLToPath(import.meta.url),
    args: [],
  });
  let seen = 0;
  let end = () => {};
  const ended = new Promise((resolve) => (end = resolve));
  client.onEvent((event) => {
    seen += 1;
    if (event.type === "bench_end") end();
  });
  const before = process.cpuUsage();
  await client.start();
  await ended;
  const used = process.cpuUsage(before);
  console.log(JSON.stringify({ seen, ns: ((used.user + used.system) * 1000) / bytes }));
  process.exit(0);
}
