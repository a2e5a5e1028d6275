// The rows of `GET /admin/tree` as a tree. Pure.

/** Rows whose namespace is gone hang here. */
export const GONE = "gone";

/** An answer is drawn by several at once, and again whenever something else changes. */
const known = new WeakMap();

/**
 * `{roots, nodes}`: each node has `key, id, row, root, children, numBelow, numTokens` (its own), `tokensBelow` (with its
 * own), `usedAt` and `order`. Children stand in the order in which their oldest node was made, so that what is new comes
 * last, and a node that is split stays where it was.
 */
export function grow(tree) {
  let found = known.get(tree);
  if (found === undefined) known.set(tree, (found = grown(tree)));
  return found;
}

function grown(tree) {
  const nodes = new Map();
  const roots = new Map();
  for (const { root, namespace } of tree.roots ?? []) roots.set(String(root), rootOf(String(root), namespace));
  for (const row of tree.rows ?? []) nodes.set(String(row.id), nodeOf(row));
  for (const node of nodes.values()) {
    const parent = node.row.parent === null || node.row.parent === undefined ? null : nodes.get(String(node.row.parent));
    if (parent && parent !== node) parent.children.push(node);
    else top(roots, node.row.root).children.push(node);
  }
  const found = [...roots.values()];
  found.forEach(measure);
  // A parent that is its own descendant would be a fault of the server; such rows have no way to a root and are left out.
  const reached = new Map();
  for (const root of found) visit(root, (node) => reached.set(node.key, node));
  return { roots: found, nodes: reached };
}

function rootOf(root, namespace) {
  return { key: `root-${root}`, id: null, root, namespace, row: null, children: [], order: Infinity };
}

function nodeOf(row) {
  return { key: `n${row.id}`, id: row.id, row, children: [], order: Number(row.id) || 0 };
}

function top(roots, root) {
  const name = root === null || root === undefined ? GONE : String(root);
  if (!roots.has(name)) roots.set(name, rootOf(name, null));
  return roots.get(name);
}

/** Fill in the sums, children before parents, without recursion: a conversation may be thousands of nodes deep. */
function measure(root) {
  const order = [];
  visit(root, (node, parent) => {
    node.parent = parent;
    order.push(node);
  });
  for (const node of order.reverse()) {
    node.numTokens = node.row?.num_tokens ?? 0;
    node.numBelow = 0;
    node.tokensBelow = node.numTokens;
    node.usedAt = node.row?.last_used_at ?? node.row?.removed_at ?? 0;
    for (const child of node.children) {
      node.numBelow += 1 + child.numBelow;
      node.tokensBelow += child.tokensBelow;
      node.usedAt = Math.max(node.usedAt, child.usedAt);
      node.order = Math.min(node.order, child.order);
    }
    node.children.sort((a, b) => a.order - b.order);
  }
}

/** Call `seen(node, parent)` for a node and all below, parents first. */
export function visit(top_, seen) {
  const stack = [[top_, null]];
  const known = new Set();
  while (stack.length) {
    const [node, parent] = stack.pop();
    if (known.has(node)) continue;
    known.add(node);
    seen(node, parent);
    for (let i = node.children.length - 1; i >= 0; i -= 1) stack.push([node.children[i], node]);
  }
}

/** How many nodes and tokens are in which state. */
export function census(nodes) {
  const counts = { new: 0, hit: 0, evicted: 0 };
  let tokens = 0;
  let pinned = 0;
  for (const { row } of nodes.values()) {
    if (!row) continue;
    if (row.state in counts) counts[row.state] += 1;
    if (row.state !== "evicted") tokens += row.num_tokens ?? 0;
    if (row.num_pins > 0) pinned += 1;
  }
  return { ...counts, tokens, pinned };
}
