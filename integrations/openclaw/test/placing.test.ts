import assert from "node:assert/strict";
import { test } from "node:test";

import { LastRecalls, place, readInsertions } from "../src/placing.ts";

const said = (role: string, timestamp: number, content = ""): { role: string; timestamp: number; content: string } => ({
  role,
  timestamp,
  content,
});

test("an insertion stands before its message, without a timestamp", () => {
  const history = [said("user", 1), said("assistant", 2)];
  const placed = place(history, [
    { index: 0, text: "first" },
    { index: 2, text: "last" },
  ]);
  assert.deepEqual(placed, [{ role: "user", content: "first" }, ...history, { role: "user", content: "last" }]);
});

test("an insertion beyond the end stands at the end", () => {
  assert.deepEqual(place([], [{ index: 7, text: "x" }]), [{ role: "user", content: "x" }]);
});

test("an insertion does not part a tool call from its results", () => {
  const history = [said("assistant", 1), said("toolResult", 2), said("toolResult", 3), said("assistant", 4)];
  const roles = place(history, [{ index: 1, text: "x" }]).map(({ role }) => role);
  assert.deepEqual(roles, ["assistant", "toolResult", "toolResult", "user", "assistant"]);
});

test("the history itself is not changed", () => {
  const history = Object.freeze([Object.freeze(said("user", 1))]);
  place(history, [{ index: 0, text: "x" }]);
  assert.equal(history.length, 1);
});

test("what is not an insertion is not placed", () => {
  for (const odd of [undefined, null, "x", { index: 0 }, [null], [{ index: -1, text: "x" }], [{ index: 0.5, text: "x" }],
    [{ index: 0, text: "" }], [{ index: "0", text: "x" }], [{ index: 0, text: 7 }]]) {
    assert.deepEqual(readInsertions(odd), []);
  }
});

test("the last recalls stand after the same messages, when the history has grown or lost its head", () => {
  const recalls = new LastRecalls();
  const history = [said("user", 1), said("assistant", 2), said("user", 3), said("assistant", 4)];
  recalls.remember("s", history, [
    { index: 0, text: "a" },
    { index: 2, text: "b" },
    { index: 4, text: "c" },
  ]);
  const grown = [...history, said("user", 5)];
  assert.deepEqual(recalls.recall("s", grown), [
    { index: 0, text: "a" },
    { index: 2, text: "b" },
    { index: 4, text: "c" },
  ]);
  const cut = [said("compactionSummary", 9), ...history.slice(2)];
  assert.deepEqual(recalls.recall("s", cut), [
    { index: 0, text: "a" },
    { index: 3, text: "c" },
  ]);
});

test("recalls of one session do not stand in another, nor after they were forgotten", () => {
  const recalls = new LastRecalls();
  recalls.remember("s", [], [{ index: 0, text: "a" }]);
  assert.deepEqual(recalls.recall("other", []), []);
  recalls.forgetAll();
  assert.deepEqual(recalls.recall("s", []), []);
});
