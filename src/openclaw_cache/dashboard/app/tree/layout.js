// Where each node of a tree is drawn. Pure.

import { visit } from "./grown.js";

export const ROW = 34;
export const BAR = 14;
const GAP = 26;
const LEAST_STEP = 66;
const ROOT_WIDTH = 14;
const CHARACTER = 6;
const MOST_NAME = 24;
const BUNDLE_WIDTH = 30;
const MORE = 40;

/** The width of a node's bar: its area grows slower than its tokens, or one prompt would fill the screen. */
export function barWidth(numTokens) {
  return Math.round(18 + 3.2 * Math.sqrt(Math.max(0, numTokens)));
}

/**
 * Choose what is shown and place it.
 *
 * At most `mostNodes` nodes in `mostRows` lines are shown: the largest prefixes first, those that were shown before
 * (`shown`, keys) rather than others, so that the picture keeps still. What is left out below a node is one bundle.
 * `opened` has, by key, how often a reader asked to see more of a node.
 *
 * Returns `{items, links, width, height, shown}`; an item is `{key, kind: "root" | "node" | "bundle", node, x, y, w, level}`,
 * in reading order.
 */
export function layout(roots, { mostNodes = 240, mostRows = 32, shown = new Set(), opened = new Map() } = {}) {
  const chosen = choose(roots, { mostNodes, mostRows, shown, opened });
  const items = [];
  const links = [];
  let row = 0;
  let width = 0;
  const stack = roots.map((root) => [root, 0, 0, null]).reverse();
  while (stack.length) {
    const [node, x, level, parent] = stack.pop();
    // A first child stands on its parent's line, so what grows moves only what is below it.
    if (items.length && parent?.next !== 0) row += 1;
    const w = node.isBundle ? BUNDLE_WIDTH : node.row ? barWidth(node.numTokens) : ROOT_WIDTH;
    const kind = node.isBundle ? "bundle" : node.row ? "node" : "root";
    const item = { key: node.key, kind, node, x, y: row * ROW, w, level, next: 0 };
    items.push(item);
    width = Math.max(width, x + Math.max(w, LEAST_STEP));
    if (parent) {
      parent.next += 1;
      links.push({ key: `l${node.key}`, from: parent, to: item });
    }
    const below = node.isBundle ? [] : childrenOf(node, chosen);
    const step = x + (node.row ? Math.max(w + GAP, LEAST_STEP) : nameWidth(node) + GAP);
    for (const child of below.reverse()) stack.push([child, step, level + 1, item]);
  }
  return { items, links, width, height: (row + 1) * ROW, shown: chosen };
}

/** Room for a namespace's name. */
function nameWidth({ namespace }) {
  return CHARACTER * Math.min(MOST_NAME, Math.max(8, namespace?.length ?? MOST_NAME));
}

function childrenOf(node, chosen) {
  const visible = node.children.filter((child) => chosen.has(child.key));
  const hidden = node.children.filter((child) => !chosen.has(child.key));
  return hidden.length ? [...visible, bundleOf(node, hidden)] : visible;
}

function bundleOf(node, hidden) {
  const counts = { new: 0, hit: 0, evicted: 0 };
  for (const { row } of hidden) if (row?.state in counts) counts[row.state] += 1;
  return {
    key: `b${node.key}`,
    isBundle: true,
    of: node,
    children: [],
    row: null,
    counts,
    numNodes: hidden.reduce((sum, child) => sum + 1 + child.numBelow, 0),
    numBranches: hidden.length,
    numTokens: hidden.reduce((sum, child) => sum + child.tokensBelow, 0),
  };
}

function choose(roots, { mostNodes, mostRows, shown, opened }) {
  const chosen = new Set(roots.map((root) => root.key));
  const weight = (node) => node.tokensBelow * (shown.has(node.key) ? 4 : 1) + (node.row?.state === "evicted" ? 0 : 1);
  take(roots, mostNodes, mostRows - roots.length, chosen, weight);
  if (opened.size) {
    for (const root of roots) {
      visit(root, (node) => {
        const more = chosen.has(node.key) ? (opened.get(node.key) ?? 0) * MORE : 0;
        if (more) take([node], more, more, chosen, weight);
      });
    }
  }
  return chosen;
}

/**
 * Choose `num` more nodes below some, and as many as fit into `numRows` more lines: those of the greatest weight first,
 * parents before children.
 */
function take(tops, num, numRows, chosen, weight) {
  const heap = new Heap((a, b) => b.weight - a.weight || a.node.order - b.node.order);
  const numShown = new Map();
  const offer = (node) => {
    let shown = 0;
    for (const child of node.children) {
      if (chosen.has(child.key)) shown += 1;
      else heap.push({ node: child, parent: node, weight: weight(child) });
    }
    numShown.set(node, shown);
  };
  tops.forEach(offer);
  let [left, rows] = [num, numRows];
  while (left > 0 && heap.size) {
    const { node, parent } = heap.pop();
    const before = numShown.get(parent);
    // The last hidden child takes the line of the bundle that it was; a first child stands on its parent's line.
    const isLast = before + 1 === parent.children.length;
    const more = isLast ? 0 : 1;
    if (more > rows) continue;
    rows -= more;
    left -= 1;
    numShown.set(parent, before + 1);
    chosen.add(node.key);
    offer(node);
  }
}

/** A binary heap: the least by `compare` first. */
class Heap {
  constructor(compare) {
    this.compare = compare;
    this.items = [];
  }

  get size() {
    return this.items.length;
  }

  push(item) {
    const { items } = this;
    let i = items.push(item) - 1;
    while (i > 0) {
      const up = (i - 1) >> 1;
      if (this.compare(items[up], items[i]) <= 0) break;
      [items[up], items[i]] = [items[i], items[up]];
      i = up;
    }
  }

  pop() {
    const { items } = this;
    const first = items[0];
    const last = items.pop();
    if (!items.length) return first;
    items[0] = last;
    let i = 0;
    for (;;) {
      let least = i;
      for (const child of [2 * i + 1, 2 * i + 2]) {
        if (child < items.length && this.compare(items[child], items[least]) < 0) least = child;
      }
      if (least === i) return first;
      [items[least], items[i]] = [items[i], items[least]];
      i = least;
    }
  }
}

/** The path of a link: out of its parent's end, down, and into its child. */
export function linkPath({ from, to }) {
  const x1 = from.x + from.w;
  const y1 = from.y + BAR / 2;
  const y2 = to.y + BAR / 2;
  if (y1 === y2) return `M${x1} ${y1}H${to.x}`;
  const bend = to.x - 12;
  return `M${x1} ${y1}H${bend - 6}Q${bend} ${y1} ${bend} ${y1 + 6}V${y2 - 6}Q${bend} ${y2} ${to.x} ${y2}`;
}
