// The official TypeScript SDK as a client: microseconds of CPU from the prompt until its handlers have had everything.
import { spawn } from "node:child_process";
import { Readable, Writable } from "node:stream";
import * as acp from "@agentclientprotocol/sdk";

const [expected, command, ...args] = process.argv.slice(2);
const agent = spawn(command, args, { stdio: ["pipe", "pipe", "inherit"] });
const methods = acp.methods;
let handled = 0;
let done;
const all = new Promise((resolve) => (done = resolve));
const count = () => {
  if (++handled === Number(expected)) done();
};
const app = acp
  .client()
  .onNotification(methods.client.session.update, count)
  .onRequest(methods.client.session.requestPermission, ({ params }) => {
    count();
    return { outcome: { outcome: "selected", optionId: params.options[0].optionId } };
  });
const stream = acp.ndJsonStream(Writable.toWeb(agent.stdin), Readable.toWeb(agent.stdout));
await app.connectWith(stream, async (context) => {
  await context.request(methods.agent.initialize, {
    protocolVersion: acp.PROTOCOL_VERSION,
    clientCapabilities: {},
  });
  const { sessionId } = await context.request(methods.agent.session.new, { cwd: "/work", mcpServers: [] });
  const began = process.cpuUsage();
  await context.request(methods.agent.session.prompt, { sessionId, prompt: [{ type: "text", text: "go" }] });
  await all;
  const { user, system } = process.cpuUsage(began);
  console.log(user + system);
});
agent.stdin.end();
