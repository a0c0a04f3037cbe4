// A client on the official TypeScript SDK: it says its prompts to an agent, and prints what came of them as JSON.
import { spawn } from "node:child_process";
import { Readable, Writable } from "node:stream";
import * as acp from "@agentclientprotocol/sdk";

const { command, args, cwd, load, resume, prompts } = JSON.parse(process.argv[2]);
const agent = spawn(command, args, { stdio: ["pipe", "pipe", "inherit"] });
const seen = [];
const app = acp.client().onNotification(acp.methods.client.session.update, ({ params }) => {
  const { update } = params;
  if (update.content?.type === "text") seen.push([update.sessionUpdate, update.content.text]);
});
const stream = acp.ndJsonStream(Writable.toWeb(agent.stdin), Readable.toWeb(agent.stdout));
const found = await app.connectWith(stream, async (context) => {
  const methods = acp.methods.agent;
  await context.request(methods.initialize, { protocolVersion: acp.PROTOCOL_VERSION, clientCapabilities: {} });
  let sessionId = load ?? resume;
  if (load) await context.request(methods.session.load, { sessionId, cwd, mcpServers: [] });
  else if (resume) await context.request(methods.session.resume, { sessionId, cwd, mcpServers: [] });
  else ({ sessionId } = await context.request(methods.session.new, { cwd, mcpServers: [] }));
  const history = seen.splice(0);
  const ends = [];
  for (const text of prompts) {
    const { stopReason } = await context.request(methods.session.prompt, {
      sessionId,
      prompt: [{ type: "text", text }],
    });
    ends.push([stopReason, seen.splice(0).filter(([kind]) => kind === "agent_message_chunk").map(([, said]) => said).join("")]);
  }
  const { sessions } = await context.request(methods.session.list, {});
  return { sessionId, history, ends, sessions: sessions.map((session) => session.sessionId) };
});
console.log(JSON.stringify(found));
agent.stdin.end();
