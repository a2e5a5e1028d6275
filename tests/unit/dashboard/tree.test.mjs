import assert from "node:assert/strict";
import { test } from "node:test";

const { census, grow } = await import(process.env.DASHBOARD + "/app/tree/grown.js");
const { barWidth, layout, linkPath, ROW } = await import(process.env.DASHBOARD + "/app/tree/layout.js");

const row = (id, parent, numTokens, state = "new", more = {}) => ({ id, parent, root: 0, num_tokens: numTokens, state, ...more });
const tree = (...rows) => ({ roots: [{ root: 0, namespace: "default" }], rows });
const placed = (grown, options) => layout(grown.roots, options);
const at = ({ items }, key) => items.find((item) => item.key === key);

test("every row hangs at its parent, and sums are those of all below", () => {
  const { roots, nodes } = grow(tree(row(1, null, 100), row(2, 1, 20), row(3, 1, 30), row(4, 3, 5)));
  assert.equal(nodes.get("n1").numBelow, 3);
  assert.equal(nodes.get("n1").tokensBelow, 155);
  assert.equal(roots[0].numBelow, 4);
  assert.deepEqual(nodes.get("n1").children.map(({ key }) => key), ["n2", "n3"]);
});

test("what was evicted hangs at its parent, at its namespace's root, or at one of its own where that is gone", () => {
  const { roots } = grow(tree(row(1, null, 9), row(7, 1, 1, "evicted"), row(8, 77, 1, "evicted"), { ...row(9, 77, 1, "evicted"), root: null }));
  assert.deepEqual(roots.map(({ root }) => root), ["0", "gone"]);
  assert.deepEqual(roots[0].children.map(({ key }) => key), ["n1", "n8"]);
});

test("rows that go round in a circle are left out and end nothing", () => {
  const { nodes } = grow(tree(row(1, 2, 1), row(2, 1, 1), row(3, null, 1)));
  assert.deepEqual([...nodes.keys()].filter((key) => key.startsWith("n")), ["n3"]);
});

test("a conversation of 10,000 nodes in a row is no problem of the stack", () => {
  const rows = Array.from({ length: 10_000 }, (_, i) => row(i + 1, i || null, 1));
  const { roots } = grow(tree(...rows));
  assert.equal(roots[0].tokensBelow, 10_000);
});

test("states are counted, and evicted tokens are not among those that are there", () => {
  const { nodes } = grow(tree(row(1, null, 10, "hit", { num_pins: 1 }), row(2, 1, 5), row(3, 1, 7, "evicted")));
  assert.deepEqual(census(nodes), { new: 1, hit: 1, evicted: 1, tokens: 15, pinned: 1 });
});

test("a first child stands on its parent's line, the next one below", () => {
  const drawn = placed(grow(tree(row(1, null, 100), row(2, 1, 20), row(3, 1, 30), row(4, 2, 5))));
  assert.equal(at(drawn, "n1").y, 0);
  assert.equal(at(drawn, "n2").y, 0);
  assert.equal(at(drawn, "n4").y, 0);
  assert.equal(at(drawn, "n3").y, ROW);
  assert.ok(at(drawn, "n2").x >= at(drawn, "n1").x + at(drawn, "n1").w);
});

test("more tokens are a longer bar", () => {
  const widths = [0, 1, 16, 500, 8000].map(barWidth);
  assert.deepEqual([...widths].sort((a, b) => a - b), widths);
  assert.equal(new Set(widths).size, widths.length);
});

test("a node that comes moves none that stand before it", () => {
  const rows = [row(1, null, 100), row(2, 1, 20), row(3, 1, 30)];
  const before = placed(grow(tree(...rows)));
  const after = placed(grow(tree(...rows, row(4, 1, 40), row(5, 4, 1))), { shown: before.shown });
  for (const { key, x, y } of before.items) assert.deepEqual([at(after, key).x, at(after, key).y], [x, y], key);
});

test("a node that is split stays on its line", () => {
  const before = placed(grow(tree(row(1, null, 100), row(2, 1, 20), row(3, 1, 30))));
  // 2 is split: its first tokens are a new node, 9, and it has a new sibling, 8.
  const after = placed(grow(tree(row(1, null, 100), row(9, 1, 12), row(2, 9, 8), row(8, 9, 4), row(3, 1, 30))));
  assert.equal(at(after, "n9").y, at(before, "n2").y);
  assert.equal(at(after, "n2").y, at(before, "n2").y);
});

test("of thousands of nodes few are drawn, the rest is in bundles, and none is lost", () => {
  const rows = [row(1, null, 4000)];
  for (let i = 2; i <= 5000; i += 1) rows.push(row(i, i % 20 === 2 ? 1 : i - 1, 10 + (i % 300)));
  const { roots } = grow(tree(...rows));
  const { items, height } = layout(roots, { mostNodes: 240, mostRows: 32 });
  const nodes = items.filter(({ kind }) => kind === "node").length;
  const hidden = items.filter(({ kind }) => kind === "bundle").reduce((sum, { node }) => sum + node.numNodes, 0);
  assert.equal(nodes + hidden, 5000);
  assert.ok(nodes <= 240);
  assert.ok(height <= 33 * ROW);
});

test("opening a bundle shows more of it", () => {
  const rows = [row(1, null, 4000), ...Array.from({ length: 500 }, (_, i) => row(i + 2, 1, 10))];
  const { roots } = grow(tree(...rows));
  const before = layout(roots);
  const after = layout(roots, { shown: before.shown, opened: new Map([["n1", 1]]) });
  assert.equal(after.items.length, before.items.length + 40);
});

test("a link goes from its parent's end to its child", () => {
  const drawn = placed(grow(tree(row(1, null, 100), row(2, 1, 20), row(3, 1, 30))));
  const { from, to } = drawn.links.find((link) => link.to.key === "n2");
  assert.equal(linkPath({ from, to }), `M${from.x + from.w} 7H${to.x}`);
});
