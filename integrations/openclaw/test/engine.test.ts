import assert from "node:assert/strict";
import { afterEach, beforeEach, test } from "node:test";

import { Standin } from "./standin.ts";

const { Sessions } = await import("../src/agents.ts");
const { Client } = await import("../src/client.ts");
const { createEngine } = await import("../src/engine.ts");
const { LastRecalls } = await import("../src/placing.ts");
const { readSettings } = await import("../src/settings.ts");
const { Turns } = await import("../src/turns.ts");

const SESSION = { sessionId: "s1", sessionKey: "agent:anna:main" };
const history = [
  { role: "user", content: "hi", timestamp: 1 },
  { role: "assistant", content: [{ type: "text", text: "hello" }], timestamp: 2 },
];

let server: Standin;
let clock = 0;
let logged: string[];

beforeEach(async () => {
  server = await new Standin().start();
  clock = 1_000_000;
  logged = [];
});
afterEach(() => server.stop());

function engineOf(config: object = {}) {
  const settings = readSettings({ url: server.url, timeoutMs: 150, ...config }, { MY_KEY: "key-1" });
  const logger = { warn: (text: string) => logged.push(text), info: (text: string) => logged.push(text) };
  const client = new Client(settings, logger, () => clock);
  const turns = new Turns(client, logger);
  const shared = { settings, client, sessions: new Sessions(), recalls: new LastRecalls(), turns };
  return { engine: createEngine(shared), shared };
}

test("assembling sends the history and places what comes back", async () => {
  server.answer = () => ({ body: { insertions: [{ index: 2, text: "<recalled>" }] } });
  const { engine } = engineOf({ apiKeyEnv: "MY_KEY" });
  const assembled = await engine.assemble({
    ...SESSION,
    messages: history,
    prompt: "what?",
    tokenBudget: 1000,
    availableTools: new Set(["memory_search"]),
  });
  assert.deepEqual(assembled.messages, [...history, { role: "user", content: "<recalled>" }]);
  assert.equal(assembled.systemPromptAddition, "memory_search");
  const [asked] = server.seen;
  assert.equal(asked?.url, "/v1/agents/anna/context:assemble");
  assert.equal(asked?.headers.authorization, "Bearer key-1");
  assert.deepEqual(asked?.body, {
    session_id: "s1",
    session_key: "agent:anna:main",
    prompt: "what?",
    messages: history,
    token_budget: 1000,
    is_heartbeat: false,
  });
});

test("a turn that nobody asked for is said to be a heartbeat", async () => {
  const { engine, shared } = engineOf();
  shared.sessions.began({ ...SESSION, agentId: "anna", trigger: "heartbeat" });
  await engine.assemble({ ...SESSION, messages: [], prompt: "poll" });
  shared.sessions.began({ ...SESSION, agentId: "anna", trigger: "user" });
  await engine.assemble({ ...SESSION, messages: [], prompt: "hi" });
  assert.deepEqual(server.bodies("context:assemble").map((body) => body.is_heartbeat), [true, false]);
});

const FAULTS: [string, () => { status?: number; body?: unknown; raw?: string; hang?: boolean }][] = [
  ["a server error", () => ({ status: 500, body: { error: { message: "x" } } })],
  ["a refusal", () => ({ status: 400, body: { error: { message: "x" } } })],
  ["a missing route", () => ({ status: 404, raw: "not found" })],
  ["no JSON", () => ({ raw: "<html>" })],
  ["another JSON", () => ({ body: [1, 2] })],
  ["insertions of another shape", () => ({ body: { insertions: { index: "x" } } })],
  ["no answer in time", () => ({ hang: true })],
];

for (const [name, fault] of FAULTS) {
  test(`no method throws for ${name}, and the history goes on as it is`, async () => {
    server.answer = fault;
    const { engine } = engineOf();
    const assembled = await engine.assemble({ ...SESSION, messages: history, prompt: "x" });
    assert.deepEqual(assembled.messages, history);
    clock += 60_000;
    const turn = { ...SESSION, advancementKey: "k", messages: history };
    assert.ok(["committed", "duplicate"].includes((await engine.commitTurn(turn)).status));
    clock += 60_000;
    assert.equal((await engine.ingest({ ...SESSION, message: history[0]! })).ingested, true);
    clock += 60_000;
    const spawn = await engine.prepareSubagentSpawn({ parentSessionKey: "agent:a:x", childSessionKey: "agent:a:y" });
    clock += 60_000;
    await spawn.rollback();
    await engine.onSubagentEnded({ childSessionKey: "agent:a:y", reason: "completed" });
    await engine.bootstrap(SESSION);
    await engine.maintain(SESSION);
    await engine.dispose();
  });
}

test("while the server is away earlier recalls stay where they were", async () => {
  server.answer = () => ({ body: { insertions: [{ index: 1, text: "kept" }] } });
  const { engine } = engineOf();
  const before = await engine.assemble({ ...SESSION, messages: history, prompt: "one" });
  await server.stop();
  const later = [...history, { role: "user", content: "one", timestamp: 3 }];
  const during = await engine.assemble({ ...SESSION, messages: later, prompt: "two" });
  assert.deepEqual(during.messages, [...before.messages, later[2]]);
});

test("without a store behind the server earlier recalls stay, with one they are what it says", async () => {
  const { engine } = engineOf();
  server.answer = () => ({ body: { insertions: [{ index: 0, text: "kept" }] } });
  await engine.assemble({ ...SESSION, messages: history, prompt: "one" });
  server.answer = () => ({ body: { insertions: [], degraded: ["store"] } });
  assert.equal((await engine.assemble({ ...SESSION, messages: history })).messages.length, 3);
  server.answer = () => ({ body: { insertions: [], degraded: ["no_embedder"] } });
  assert.equal((await engine.assemble({ ...SESSION, messages: history })).messages.length, 2);
});

test("turns that could not be sent go before the next one, in order and under their keys", async () => {
  const { engine, shared } = engineOf();
  const commit = (key: string) => engine.commitTurn({ ...SESSION, advancementKey: key, messages: history });
  server.answer = () => ({ status: 503, body: {} });
  await commit("k1");
  await commit("k2");
  assert.equal(shared.turns.numWaiting, 2);
  server.seen = [];
  server.answer = ({ body }) => ({ body: { status: body.key === "k1" ? "duplicate" : "committed" } });
  assert.deepEqual(await commit("k3"), { status: "committed" });
  assert.deepEqual(server.bodies("turns").map(({ key }) => key), ["k1", "k2", "k3"]);
  assert.equal(shared.turns.numWaiting, 0);
  assert.deepEqual(await commit("k1"), { status: "duplicate" });
});

test("a reply does not wait until a long queue has been sent", async () => {
  const { engine, shared } = engineOf();
  server.answer = () => ({ status: 503, body: {} });
  for (let turn = 0; turn < 5; turn += 1) {
    await engine.commitTurn({ ...SESSION, advancementKey: `k${turn}`, messages: history });
  }
  server.answer = ({ url }) => (url.endsWith("/turns") ? { body: { status: "committed" }, afterMs: 100 } : { body: {} });
  await engine.assemble({ ...SESSION, messages: history, prompt: "what?" });
  assert.ok(shared.turns.numWaiting > 0);
  await shared.turns.flush();
  assert.equal(shared.turns.numWaiting, 0);
});

test("a turn that the server refuses for good does not block the next ones", async () => {
  const { engine, shared } = engineOf();
  server.answer = ({ body }) => (body.key === "bad" ? { status: 400, body: {} } : { body: { status: "committed" } });
  for (const key of ["bad", "good"]) await engine.commitTurn({ ...SESSION, advancementKey: key, messages: history });
  assert.equal(shared.turns.numWaiting, 0);
  assert.deepEqual(server.bodies("turns").map(({ key }) => key), ["bad", "good"]);
});

test("turns wait in bounded number", async () => {
  const { engine, shared } = engineOf();
  await server.stop();
  for (let turn = 0; turn < 300; turn += 1) {
    await engine.commitTurn({ ...SESSION, advancementKey: `k${turn}`, messages: history });
  }
  assert.equal(shared.turns.numWaiting, 256);
});

test("after a failed connection nothing is tried for a while", async () => {
  const { engine } = engineOf();
  server.answer = () => ({ hang: true });
  await engine.assemble({ ...SESSION, messages: [], prompt: "one" });
  await engine.assemble({ ...SESSION, messages: [], prompt: "two" });
  assert.equal(server.seen.length, 1);
  clock += 5001;
  server.answer = () => ({ body: {} });
  await engine.assemble({ ...SESSION, messages: [], prompt: "three" });
  assert.equal(server.seen.length, 2);
});

test("the log names the server's absence once, and never what was said or a key", async () => {
  const { engine } = engineOf({ apiKeyEnv: "MY_KEY" });
  await server.stop();
  for (const key of ["k1", "k2"]) {
    clock += 60_000;
    await engine.commitTurn({ ...SESSION, advancementKey: key, messages: [{ role: "user", content: "my secret" }] });
  }
  assert.equal(logged.length, 1);
  assert.doesNotMatch(logged.join(), /secret|key-1|k1/);
});

test("compaction is OpenClaw's own; its fault is told, its end on request passed on", async () => {
  const { engine } = engineOf();
  const done = { ok: true, compacted: true };
  const delegate = (run: () => unknown, signal?: AbortSignal) =>
    engine.compact({ delegate: run, ...(signal ? { abortSignal: signal } : {}) } as object);
  assert.deepEqual(await delegate(() => done), done);
  const fault = () => {
    throw new Error("too large");
  };
  assert.deepEqual(await delegate(fault), { ok: false, compacted: false, reason: "too large" });
  await assert.rejects(delegate(fault, AbortSignal.abort()));
});

test("with recall off no prompt is sent, with capture off the server is told to derive nothing", async () => {
  const { engine } = engineOf({ recall: false, capture: false });
  await engine.assemble({ ...SESSION, messages: [], prompt: "hi" });
  await engine.commitTurn({ ...SESSION, advancementKey: "k", messages: history });
  const [assembled] = server.bodies("context:assemble");
  const [turn] = server.bodies("turns");
  assert.equal("prompt" in assembled, false);
  assert.equal(assembled.capture, false);
  assert.equal(turn.capture, false);
});
