// One node of the drawn tree. Its state is told by colour, by sign and by outline; its tiers by three small boxes.

import { svg } from "../dom.js";
import { BAR } from "./layout.js";

const TIERS = ["device", "host", "disk"];
const SIGNS = { new: "M-3.5 0H3.5M0 -3.5V3.5", hit: "M-3.5 0.3L-1 2.8L3.6 -2.6", evicted: "M-3 -3L3 3M-3 3L3 -3" };

/** The short text below an item. */
export function labelOf(item, lang) {
  const { node, kind } = item;
  if (kind === "root") return node.root === "gone" ? lang.t("tree.gone") : (node.namespace ?? lang.t("tree.unnamed"));
  if (kind === "bundle") return lang.t("tree.bundle", { n: node.numNodes, tokens: lang.short(node.numTokens) });
  const hits = node.row.num_hits ? ` ×${lang.short(node.row.num_hits)}` : "";
  return `${lang.short(node.row.num_tokens)}${hits}`;
}

/** The whole of an item in words, for those who do not see it. */
export function spoken(item, lang) {
  const { node, kind } = item;
  if (kind === "root") return lang.t("tree.root", { name: labelOf(item, lang), n: node.numBelow });
  if (kind === "bundle") return lang.t("tree.bundle.spoken", { n: node.numNodes, tokens: node.numTokens });
  const { row } = node;
  const held = TIERS.filter((tier) => row.tiers?.[tier]).map((tier) => lang.word("tier", tier));
  return [
    lang.word("state", row.state),
    lang.t("tree.tokens", { n: row.num_tokens ?? 0 }),
    row.num_hits ? lang.t("tree.hits", { n: row.num_hits }) : null,
    held.length ? held.join(", ") : null,
    row.num_pins ? lang.t("tree.pinned") : null,
  ]
    .filter(Boolean)
    .join(", ");
}

/** The item as SVG. */
export function drawItem(item, label, lang) {
  const { kind, node, key } = item;
  const state = kind === "node" ? node.row.state : kind;
  return svg(
    "g",
    {
      id: `tree-${key}`, class: `node node--${state}`, role: "treeitem", "data-node": key, "data-state": state,
      "aria-label": spoken(item, lang), "aria-level": item.level + 1, "aria-selected": "false",
    },
    svg("rect", { class: "node__hit", x: -4, y: -5, width: Math.max(item.w, 40) + 8, height: BAR + 20 }),
    kind === "root" ? svg("circle", { class: "node__bar", cx: BAR / 2, cy: BAR / 2, r: BAR / 2 - 2 }) : null,
    kind === "bundle" ? bundle(item) : null,
    kind === "node" ? bar(item) : null,
    kind === "node" && node.row.num_pins ? pin(item) : null,
    kind === "node" && node.row.state !== "evicted" ? tiers(node.row) : null,
    svg(
      "text",
      { class: "node__label", x: kind === "node" && node.row.state !== "evicted" ? 22 : 0, y: BAR + 11 },
      kind === "root" && label.length > 24 ? `${label.slice(0, 23)}…` : label,
    ),
  );
}

function bar({ node, w }) {
  const { state } = node.row;
  return svg(
    "g",
    {},
    svg("rect", { class: "node__bar", width: w, height: BAR, rx: state === "new" ? 2 : BAR / 2 }),
    SIGNS[state] ? svg("path", { class: "node__sign", d: SIGNS[state], transform: `translate(9 ${BAR / 2})` }) : null,
  );
}

/** Three bars on top of each other, in the colours of what they hold most. */
function bundle({ node, w }) {
  const main = Object.entries(node.counts).sort((a, b) => b[1] - a[1])[0][0];
  return svg(
    "g",
    { class: `bundle bundle--${main}` },
    [0, 1, 2].map((i) => svg("rect", { class: "node__bar", x: i * 3, y: i * 3 - 2, width: w - 6, height: BAR - 4, rx: 3 })),
  );
}

function pin({ w }) {
  return svg("path", { class: "node__pin", d: `M${w - 6} -6h8v5l2 3h-12l2 -3zM${w - 2} 2v5` });
}

/** Filled: the tier holds all blocks of the node; half: some. */
function tiers(row) {
  const all = Math.max(1, row.num_blocks ?? 0);
  return svg(
    "g",
    { class: "tiers" },
    TIERS.map((tier, i) => {
      const held = Math.min(1, (row.tiers?.[tier] ?? 0) / all);
      return [
        svg("rect", { class: "tiers__box", x: i * 7 + 0.5, y: BAR + 4.5, width: 5, height: 6 }),
        held ? svg("rect", { class: "tiers__held", x: i * 7 + 0.5, y: BAR + 4.5 + 6 * (1 - held), width: 5, height: 6 * held }) : null,
      ];
    }),
  );
}
