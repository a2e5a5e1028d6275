import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { Standin } from "./standin.ts";

const { default: plugin } = await import("../src/index.ts");
const manifest = JSON.parse(readFileSync(new URL("../openclaw.plugin.json", import.meta.url), "utf8"));

function registered(config: object) {
  const tools = new Map<string, any>();
  const hooks = new Map<string, (event: unknown, context: unknown) => void>();
  let memory: any;
  let engine: any;
  plugin.register({
    pluginConfig: config,
    registerContextEngine: (_id, factory) => (engine = factory()),
    registerMemoryCapability: (capability) => (memory = capability),
    registerTool: (factory, { name }) => tools.set(name, factory),
    on: (name, handler) => hooks.set(name, handler),
  });
  return { tools, hooks, memory, engine };
}

test("what is registered is what the manifest declares", () => {
  const { tools, engine } = registered({});
  assert.deepEqual([...tools.keys()], manifest.contracts.tools);
  assert.deepEqual([...tools.keys()].sort(), Object.keys(manifest.toolMetadata).sort());
  assert.equal(engine.info.id, manifest.id);
  assert.equal(engine.info.version, manifest.version);
  assert.equal(plugin.id, manifest.id);
});

test("the memory lines are the same bytes at every turn, and no flush turn is wanted", () => {
  const { memory } = registered({});
  const lines = memory.promptBuilder({ availableTools: new Set(["memory_search"]) });
  assert.deepEqual(memory.promptBuilder({ availableTools: new Set(["exec", "memory_search"]) }), lines);
  assert.deepEqual(memory.promptBuilder({ availableTools: new Set() }), []);
  assert.equal(memory.flushPlanResolver(), null);
});

const ORDERS: [string, object, string, string, object | undefined][] = [
  ["memory_search", { query: "q", limit: 3 }, "POST", "memories:search", { query: "q", limit: 3 }],
  ["memory_get", { id: "memory/m 1" }, "GET", "memories/m%201", undefined],
  ["memory_store", { text: "t", tags: ["a"], x: 1 }, "POST", "memories", { text: "t", tags: ["a"], source: "openclaw" }],
  ["memory_update", { id: "m1", text: "t" }, "PATCH", "memories/m1", { text: "t" }],
  ["memory_forget", { id: "m1" }, "DELETE", "memories/m1", undefined],
  ["context_search", { query: "q" }, "POST", "turns:search", { query: "q", session_id: "s1" }],
  ["context_search", { query: "q", all_sessions: true }, "POST", "turns:search", { query: "q" }],
  ["context_expand", { id: "t1", before: 1 }, "POST", "turns:expand", { id: "t1", before: 1 }],
];

for (const [name, params, method, path, body] of ORDERS) {
  test(`${name} is one request to the agent of the session: ${method} ${path}`, async () => {
    const server = await new Standin().start();
    try {
      server.answer = () => ({ body: { said: "so" } });
      const { tools } = registered({ url: server.url });
      const tool = tools.get(name)({ agentId: "anna", sessionId: "s1", sessionKey: "agent:other:x" });
      const result = await tool.execute("call", params);
      assert.equal(result.content[0].text, '{"said":"so"}');
      assert.equal(server.seen.length, 1);
      assert.deepEqual([server.seen[0]?.method, server.seen[0]?.url], [method, `/v1/agents/anna/${path}`]);
      assert.deepEqual(server.seen[0]?.body, body);
    } finally {
      await server.stop();
    }
  });
}

test("a tool says what the server refuses, and that it cannot be reached", async () => {
  const server = await new Standin().start();
  server.answer = () => ({ status: 404, body: { error: { message: "no such memory" } } });
  const { tools } = registered({ url: server.url });
  const get = () => tools.get("memory_get")({ sessionKey: "agent:anna:x" }).execute("call", { id: "m1" });
  assert.equal((await get()).content[0].text, "Not done: no such memory");
  await server.stop();
  assert.match((await get()).content[0].text, /cannot be reached/);
});

test("a memory is shown without its book-keeping, an earlier message as it is", async () => {
  const server = await new Standin().start();
  try {
    const { tools } = registered({ url: server.url });
    const run = async (name: string, params: object) =>
      (await tools.get(name)({ sessionKey: "agent:anna:x" }).execute("call", params)).content[0].text;
    server.answer = () => ({ body: { memory: { id: "m1", text: "t", version: 2, provenance: { turn: "t1" } } } });
    assert.equal(await run("memory_get", { id: "m1" }), '{"memory":{"id":"m1","text":"t"}}');
    const body = { messages: [{ content: [{ type: "toolCall", arguments: { version: 2 } }] }] };
    server.answer = () => ({ body });
    assert.equal(await run("context_expand", { id: "t1" }), JSON.stringify(body));
  } finally {
    await server.stop();
  }
});

test("hooks tell what a session does; one that goes on is not ended", async () => {
  const server = await new Standin().start();
  try {
    const { hooks } = registered({ url: server.url, capture: false });
    const context = { agentId: "anna", sessionId: "s1", sessionKey: "agent:anna:x", config: { apiKey: "sk" } };
    hooks.get("before_tool_call")?.({ params: { a: 1 } }, context);
    hooks.get("agent_end")?.({ messages: [] }, context);
    hooks.get("session_end")?.({ reason: "restart" }, context);
    hooks.get("session_end")?.({ reason: "compaction" }, context);
    hooks.get("before_reset")?.({ messages: [{ role: "user", content: "last words", config: "sk" }] }, context);
    hooks.get("session_end")?.({ reason: "reset" }, context);
    for (const odd of [undefined, null, 7, {}]) for (const hook of hooks.values()) hook(odd, odd);
    while (server.seen.length < 4) await new Promise((resolve) => setTimeout(resolve, 5));
    const ids = { session_id: "s1", session_key: "agent:anna:x" };
    const told = server.seen.map(({ url, body }) => [url.replace("/v1/agents/anna/", ""), body]);
    told.sort(([one], [other]) => String(one).localeCompare(String(other)));
    assert.deepEqual(told, [
      ["context:assemble", { ...ids, messages: [{ role: "user", content: "last words" }], capture: false }],
      ["hints", { ...ids, state: "tool" }],
      ["hints", { ...ids, state: "idle" }],
      ["sessions:end", { ...ids, reason: "reset" }],
    ]);
  } finally {
    await server.stop();
  }
});

test("OpenClaw's own search finds memories and reads them by their path", async () => {
  const server = await new Standin().start();
  try {
    const memory = { id: "m1", text: "a\nb" };
    server.answer = ({ method }) => ({ body: method === "POST" ? { results: [{ memory, score: 0.5 }, {}] } : memory });
    const { memory: capability } = registered({ url: server.url });
    const { manager } = await capability.runtime.getMemorySearchManager({ agentId: "anna" });
    const hits = await manager.search("q", { maxResults: 2, lexicalOnly: true });
    assert.deepEqual(hits, [
      { path: "memory/m1", startLine: 1, endLine: 2, score: 0.5, snippet: "a\nb", source: "memory" },
    ]);
    assert.deepEqual(server.bodies("memories:search"), [{ query: "q", limit: 2, mode: "text" }]);
    assert.deepEqual(await manager.readFile({ relPath: "memory/m1" }), {
      status: "ok",
      text: "a\nb",
      path: "memory/m1",
    });
    assert.deepEqual(await manager.search("q", { sources: ["sessions"] }), []);
    assert.deepEqual(await manager.probeEmbeddingAvailability(), { ok: true });
  } finally {
    await server.stop();
  }
});
