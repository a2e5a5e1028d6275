// The prefix tree: its picture, what it means, one node of it, and the same as a table.

import { alternative } from "../charts/figure.js";
import { el, svg } from "../dom.js";
import { BAR } from "../tree/layout.js";
import { drawItem } from "../tree/item.js";
import { census, grow } from "../tree/grown.js";
import { empty, facts, panel, server, why } from "./parts.js";

export const LIMITS = [200, 1000, 5000, 10_000];
const NUM_ROWS = 100;

export function tree(context) {
  const { state, lang, treeChoice } = context;
  const title = lang.t("tree.title");
  const found = state.tree;
  if (!found) return panel("tree", title, choices(context), why(state.errors.tree, lang));
  if (found.enabled === false) return panel("tree", title, choices(context), empty(lang.t("tree.off")));
  if (!found.rows.length) return panel("tree", title, choices(context), empty(lang.t("tree.empty")));
  const { nodes } = grow(found);
  const counts = census(nodes);
  const said = lang.t("tree.summary", {
    n: counts.new + counts.hit + counts.evicted, tokens: lang.short(counts.tokens), new: counts.new, hit: counts.hit, evicted: counts.evicted,
  });
  return panel(
    "tree",
    title,
    el("div", { class: "tree__head" }, choices(context), tools(lang)),
    el("p", { class: "tree__summary" }, said, found.is_cut ? ` ${lang.t("tree.cut")}` : ""),
    state.errors.tree ? why(state.errors.tree, lang) : null,
    el(
      "div",
      { class: `tree__body${treeChoice ? " tree__body--open" : ""}` },
      el("div", {
        id: "tree-host", class: "tree__host", role: "tree", tabindex: "0", "data-opaque": true, "data-key": "tree-host",
        "aria-label": `${title}. ${said}`, "aria-describedby": "tree-keys",
      }),
      treeChoice ? node(context, nodes.get(treeChoice)) : null,
    ),
    legend(lang),
    el("p", { id: "tree-keys", class: "muted" }, lang.t("tree.keys")),
    alternative("tree", title, head(lang), rows(nodes, lang), lang, [1, 5]),
  );
}

function choices({ state, lang, treeQuery }) {
  const engines = (state.status?.upstreams ?? []).filter((upstream) => upstream.kind === "embedded");
  const engine =
    engines.length < 2
      ? null
      : el(
          "label",
          {},
          lang.t("tree.upstream"),
          el(
            "select",
            { "data-tree": "upstream" },
            engines.map(({ name }) => el("option", { value: name, selected: name === treeQuery.upstream }, name)),
          ),
        );
  return el(
    "form",
    { class: "filters", "data-form": "tree", "aria-label": lang.t("tree.which") },
    engine,
    el(
      "label",
      {},
      lang.t("tree.limit"),
      el(
        "select",
        { "data-tree": "limit" },
        LIMITS.map((limit) => el("option", { value: limit, selected: limit === treeQuery.limit }, lang.number(limit))),
      ),
    ),
  );
}

function tools(lang) {
  const button = (action, text, label) =>
    el("button", { type: "button", class: "button", "data-action": action, "aria-label": label, title: label }, text);
  return el(
    "div",
    { class: "tools", role: "group", "aria-label": lang.t("tree.zoom") },
    button("zoom-out", "−", lang.t("tree.zoomOut")),
    button("zoom-in", "+", lang.t("tree.zoomIn")),
    button("zoom-fit", lang.t("tree.fit"), lang.t("tree.fit")),
  );
}

function node({ lang, treeText }, found) {
  if (!found?.row) {
    return el("div", { class: "tree__node", role: "group", "data-key": "node", "aria-label": lang.t("node.title") }, close(lang), el("p", {}, lang.t("node.gone")));
  }
  const { row } = found;
  const tiers = ["device", "host", "disk"]
    .filter((tier) => row.tiers?.[tier])
    .map((tier) => `${lang.word("tier", tier)} ${lang.number(row.tiers[tier])}`);
  return el(
    "div",
    { class: "tree__node", role: "group", "data-key": "node", "aria-label": lang.t("node.title") },
    close(lang),
    el("h3", { tabindex: "-1", id: "node-title" }, lang.t("node.name", { id: String(row.id) })),
    facts([
      [lang.t("node.state"), lang.word("state", row.state)],
      [lang.t("node.tokens"), lang.number(row.num_tokens)],
      [lang.t("node.start"), lang.number(row.start)],
      [lang.t("node.below"), lang.t("node.below.value", { n: found.numBelow, tokens: found.tokensBelow - found.numTokens })],
      [lang.t("node.tiers"), row.state === "evicted" ? null : tiers.join(", ") || lang.t("node.nowhere")],
      [lang.t("node.hits"), lang.number(row.num_hits)],
      [lang.t("node.used"), row.last_used_at ? lang.time(row.last_used_at) : null],
      [lang.t("node.removed"), row.removed_at ? lang.time(row.removed_at) : null],
      [lang.t("node.pins"), row.num_pins ? lang.number(row.num_pins) : null],
      [lang.t("node.cost"), Number.isFinite(row.cost_s) ? lang.seconds(row.cost_s) : null],
    ]),
    row.state === "evicted" ? null : text(lang, row, treeText),
  );
}

function close(lang) {
  return el("button", { type: "button", class: "button close", "data-action": "node-close" }, lang.t("node.close"));
}

/** A prefix's text is shown when somebody asks for it, and not kept. */
function text(lang, row, told) {
  if (told?.id !== row.id) {
    return el("button", { type: "button", class: "button", "data-action": "node-text", "data-id": row.id }, lang.t("node.text"));
  }
  if (told.error) return el("div", {}, el("p", {}, lang.t("state.failed")), told.error.message ? server(told.error.message) : null);
  if (told.text === null) return el("p", { class: "muted" }, lang.t("state.loading"));
  return el("pre", { class: "node-text", tabindex: "0", "aria-label": lang.t("node.textOf") }, told.text);
}

function legend(lang) {
  const sample = (state, label) => {
    const row = { state, num_tokens: 0, tiers: {}, num_pins: 0 };
    const drawn = drawItem({ kind: "node", key: `legend-${state}`, x: 0, y: 0, w: 30, level: 0, node: { row } }, "", lang);
    for (const name of ["id", "role", "data-node", "aria-label", "aria-level", "aria-selected"]) drawn.removeAttribute(name);
    return el("li", {}, svg("svg", { width: 32, height: BAR + 2, viewBox: `-1 -1 32 ${BAR + 2}`, "aria-hidden": "true" }, drawn), label);
  };
  const boxes = svg(
    "svg",
    { width: 22, height: 10, viewBox: "0 0 22 10", class: "tiers", "aria-hidden": "true" },
    [0, 7, 14].map((x, i) => [
      svg("rect", { class: "tiers__box", x: x + 0.5, y: 1.5, width: 5, height: 6 }),
      i < 2 ? svg("rect", { class: "tiers__held", x: x + 0.5, y: i ? 4.5 : 1.5, width: 5, height: i ? 3 : 6 }) : null,
    ]),
  );
  const pin = svg("svg", { width: 14, height: 14, viewBox: "0 0 14 14", "aria-hidden": "true" }, svg("path", { class: "node__pin", d: "M3 1h8v5l2 3h-12l2 -3zM7 9v5" }));
  return el(
    "ul",
    { class: "legend tree__legend", "aria-label": lang.t("tree.legend") },
    sample("new", lang.t("legend.new")),
    sample("hit", lang.t("legend.hit")),
    sample("evicted", lang.t("legend.evicted")),
    el("li", {}, boxes, lang.t("legend.tiers")),
    el("li", {}, pin, lang.t("legend.pin")),
    el("li", {}, lang.t("legend.size")),
  );
}

function head(lang) {
  return ["id", "state", "tokens", "start", "hits", "tiers", "pins"].map((column) => lang.t(`node.${column}`));
}

/** The largest prefixes of all, with what hangs on them. */
function rows(nodes, lang) {
  return [...nodes.values()]
    .filter(({ row }) => row)
    .sort((a, b) => b.tokensBelow - a.tokensBelow)
    .slice(0, NUM_ROWS)
    .map(({ row }) => [
      String(row.id),
      lang.word("state", row.state),
      lang.number(row.num_tokens),
      lang.number(row.start),
      lang.number(row.num_hits),
      ["device", "host", "disk"].filter((tier) => row.tiers?.[tier]).map((tier) => lang.word("tier", tier)).join(", ") || "–",
      lang.number(row.num_pins),
    ]);
}
