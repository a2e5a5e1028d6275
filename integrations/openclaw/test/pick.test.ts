import assert from "node:assert/strict";
import { test } from "node:test";

import { pick, pickAll } from "../src/pick.ts";

const SECRET = "sk-never-leaves";

test("only named fields of a message are sent", () => {
  const message = {
    role: "assistant",
    content: [
      { type: "text", text: "hello", [SECRET]: SECRET },
      { type: "thinking", thinking: SECRET },
      { type: "image", data: SECRET, mimeType: "image/png" },
      { type: "toolCall", id: "c1", name: "exec", arguments: { command: "ls" }, extra: SECRET },
      SECRET,
      null,
    ],
    timestamp: 12,
    idempotencyKey: "run:user",
    usage: { key: SECRET },
    __openclaw: { key: SECRET },
    config: { apiKey: SECRET },
    details: { env: SECRET },
  };
  const sent = pick(message);
  assert.deepEqual(sent, {
    role: "assistant",
    content: [
      { type: "text", text: "hello" },
      { type: "image", mimeType: "image/png" },
      { type: "toolCall", id: "c1", name: "exec", arguments: { command: "ls" } },
    ],
    timestamp: 12,
    idempotencyKey: "run:user",
  });
});

test("a field of another type than expected is not sent", () => {
  const odd = { role: "user", content: { secret: SECRET }, timestamp: SECRET, idempotencyKey: { key: SECRET } };
  assert.deepEqual(pick(odd), { role: "user", content: "" });
});

test("a role that is not known keeps its place and says nothing to the model", () => {
  assert.deepEqual(pick({ role: "bashExecution", content: "x" }), {
    role: "custom",
    content: "x",
    excludeFromContext: true,
  });
});

test("a compaction's summary is sent as its content", () => {
  const summary = { role: "compactionSummary", summary: "so far", timestamp: 3, tokensBefore: 9 };
  assert.deepEqual(pick(summary), { role: "compactionSummary", content: "so far", timestamp: 3 });
});

test("every message keeps its position", () => {
  assert.equal(pickAll([{ role: "a" }, { role: "user" }, { role: "toolResult", toolCallId: "1" }]).length, 3);
});
