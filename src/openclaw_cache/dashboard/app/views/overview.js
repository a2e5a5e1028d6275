// What the cache does: outcomes, ratios, latencies, tokens, money.

import { lineChart } from "../charts/lines.js";
import { rangeChart, shareBar } from "../charts/ranges.js";
import { stackedChart } from "../charts/stacked.js";
import { el } from "../dom.js";
import { LAYERS, OUTCOMES, SAVING_LAYERS, SOURCES, sum } from "../figures.js";
import { alertList } from "./alerts.js";
import { empty, panel, server, tableBox } from "./parts.js";

const TTFT_SOURCES = ["result", "semantic", "flight", "device", "host", "disk", "computed", "upstream"];

export function overview(context) {
  const { figures, lang, state } = context;
  if (!figures) return [alertList(context), el("p", { class: "muted" }, lang.t("state.loading"))];
  const head = [alertList(context), tiles(context)];
  if (figures.numRequests === 0 && sum(state.status?.requests) === 0) return [...head, firstRequest(context)];
  return [
    ...head,
    el("div", { class: "grid" }, outcomes(context), ratios(context), latency(context), tokens(context)),
    lines(context, "agent"),
    lines(context, "model"),
    lines(context, "namespace"),
  ];
}

function tiles({ figures, lang, prefs }) {
  const saved = sum(figures.savedTokens);
  const when = lang.t(`range.${prefs.range}`);
  const { ttft } = figures;
  const own = ttft.result?.p50 ?? ttft.semantic?.p50;
  const theirs = (ttft.computed ?? ttft.upstream ?? ttft.device)?.p50;
  const lookups = figures.lookups.result ?? 0;
  const shown = [
    tile("requests", lang.t("tile.requests"), lang.short(figures.numRequests), when),
    tile(
      "hit-ratio", lang.t("tile.ratio"), lang.percent(figures.hitRatio.result),
      lookups ? lang.t("tile.ratio.note", { hits: figures.hits.result ?? 0, lookups }) : lang.t("tile.ratio.none"),
    ),
    tile("saved-tokens", lang.t("tile.tokens"), lang.short(saved), split(figures, lang)),
    figures.savedS === null ? null : tile("saved-time", lang.t("tile.time"), lang.seconds(figures.savedS), lang.t("tile.time.note")),
    tile(
      "saved-money", lang.t("tile.money"), lang.money(figures.savedUsd),
      figures.spentUsd === null && figures.savedUsd === null
        ? lang.t("tile.money.none")
        : lang.t("tile.money.note", { spent: lang.money(figures.spentUsd) }),
    ),
    own === undefined && theirs === undefined
      ? null
      : tile(
          "first-token", lang.t("tile.ttft"), lang.seconds(own),
          theirs === undefined ? lang.t("tile.ttft.own") : lang.t("tile.ttft.note", { other: lang.seconds(theirs) }),
        ),
  ];
  return el(
    "section",
    { class: "tiles", "aria-label": lang.t("tile.all"), "data-key": "tiles" },
    el("dl", {}, shown),
  );
}

function tile(id, term, value, note) {
  return el(
    "div",
    { class: "tile", "data-key": id, "data-tile": id },
    el("dt", {}, term),
    el("dd", { class: "tile__value" }, value),
    el("dd", { class: "tile__note" }, note),
  );
}

/** Answered here, and reused by engines. */
function split({ savedTokens: { kv = 0, ...replies } }, lang) {
  const answered = sum(replies);
  if (!kv && !answered) return lang.t("tile.tokens.none");
  return lang.t("tile.tokens.note", { replies: lang.short(answered), kv: lang.short(kv) });
}

function firstRequest({ state, lang }) {
  return panel(
    "first",
    lang.t("first.title"),
    el("p", {}, lang.t("first.text")),
    el("pre", { tabindex: "0", role: "group", "aria-label": lang.t("first.command") }, el("code", { lang: "en" }, command(state.status))),
    el("p", { class: "muted" }, lang.t("first.twice")),
  );
}

/** A request that this server can answer, as a shell takes it. It is short, so that a small model is done with it soon. */
function command(status) {
  const upstreams = status?.upstreams ?? [];
  const found = upstreams.find(({ models }) => models?.some(isName)) ?? upstreams[0];
  const model = found?.models?.find(isName) ?? "MODEL";
  const path = found?.kind === "anthropic" ? "messages" : "chat/completions";
  const body = { model, max_tokens: 32, temperature: 0, messages: [{ role: "user", content: "What is a radix tree?" }] };
  const lines = [`curl ${location.origin}/v1/${path}`, "-H 'content-type: application/json'"];
  if (status?.keys?.keyed) lines.push("-H \"authorization: Bearer $OPENCLAW_CACHE_KEY\"");
  // A name with a quote in it must not end the argument.
  lines.push(`-d '${JSON.stringify(body).replaceAll("'", "'\\''")}'`);
  return lines.join(" \\\n  ");
}

/** Whether a model is one that can be asked for, and no pattern. */
function isName(model) {
  return !/[*?[]/.test(model);
}

function noHistory({ state, lang, prefs }) {
  if (prefs.range === "start") return empty(lang.t("history.range"));
  const error = state.errors.history;
  if (!error) return el("p", { class: "muted" }, lang.t("state.loading"));
  return empty(lang.t("history.missing"), error.message ? server(error.message) : null);
}

function outcomes(context) {
  const { figures, state, lang } = context;
  const title = lang.t("outcomes.title");
  const names = [...OUTCOMES];
  const series = names.map((name) => ({ name, label: lang.word("outcome", name), mark: `outcome-${name}` }));
  if (!context.history) {
    const parts = series.map(({ name, label, mark }) => ({ label, mark, value: figures.requests[name] ?? 0 }));
    return panel("outcomes", title, shareBar({ title, parts, format: (n) => lang.number(n), lang }), noHistory(context));
  }
  const points = context.history.points.map(({ at, requests }) => ({ at, values: requests ?? {} }));
  return panel(
    "outcomes",
    title,
    stackedChart({ id: "chart-outcomes", title, points, series, spanS: spanOf(context.history), lang }),
    reasons(figures, lang),
    state.errors.history ? noHistory(context) : null,
  );
}

/** Why requests missed or passed by, most frequent first. */
function reasons(figures, lang) {
  const told = [
    ["misses.title", figures.misses, "miss"],
    ["bypasses.title", figures.bypasses, "bypass"],
  ].filter(([, counts]) => sum(counts) > 0);
  if (!told.length) return null;
  return el(
    "div",
    { class: "reasons" },
    told.map(([key, counts, group]) =>
      el(
        "div",
        {},
        el("h3", {}, lang.t(key)),
        el(
          "ul",
          { class: "chips" },
          Object.entries(counts)
            .filter(([, num]) => num > 0)
            .sort((a, b) => b[1] - a[1])
            .map(([name, num]) => el("li", {}, lang.word(group, name), " ", el("strong", {}, lang.number(num)))),
        ),
      ),
    ),
  );
}

function ratios(context) {
  const { figures, lang } = context;
  const title = lang.t("ratios.title");
  const layers = LAYERS.filter((layer) => (figures.lookups[layer] ?? 0) > 0 || Number.isFinite(figures.hitRatio[layer]));
  const series = (layers.length ? layers : ["result"]).map((name) => ({
    name,
    label: lang.word("layer", name),
    mark: `layer-${name}`,
    value: lang.percent(figures.hitRatio[name]),
  }));
  if (!context.history) {
    const rows = series.map(({ name, label, value }) => [
      label, value, lang.number(figures.hits[name]), lang.number(figures.lookups[name]),
    ]);
    const head = [lang.t("column.layer"), lang.t("column.ratio"), lang.t("column.hits"), lang.t("column.lookups")];
    return panel("ratios", title, tableBox(title, head, rows), noHistory(context));
  }
  const points = context.history.points.map(({ at, hit_ratio: ratio }) => ({ at, values: ratio ?? {} }));
  return panel(
    "ratios",
    title,
    lineChart({
      id: "chart-ratios", title, points, series, spanS: spanOf(context.history), top: 1,
      format: (value) => lang.percent(value, 0), lang,
    }),
    el("p", { class: "muted" }, lang.t("ratios.note")),
  );
}

function latency(context) {
  const { figures, lang } = context;
  const title = lang.t("latency.title");
  const rows = [...new Set([...TTFT_SOURCES, ...Object.keys(figures.ttft)])]
    .filter((source) => figures.ttft[source]?.num)
    .map((source) => ({
      label: lang.word("source", source),
      mark: ["result", "semantic", "flight"].includes(source) ? "source-own" : "source-upstream",
      ...figures.ttft[source],
    }));
  if (figures.itl?.num) rows.push({ label: lang.t("latency.itl"), mark: "source-itl", ...figures.itl });
  const content = rows.length
    ? [rangeChart({ title, rows, lang }), el("p", { class: "muted" }, lang.t("latency.note"))]
    : [context.history ? empty(lang.t("latency.none")) : noHistory(context)];
  return panel("latency", title, ...content);
}

function tokens({ figures, lang }) {
  const title = lang.t("tokens.title");
  const prompt = figures.promptTokens;
  const parts = [...new Set([...SOURCES, ...Object.keys(prompt)])].map((source) => ({
    label: lang.word("source", source),
    value: prompt[source] ?? 0,
    mark: `token-${SOURCES.includes(source) ? source : "other"}`,
  })).filter(({ value }, i) => value > 0 || i === 0);
  const answered = SAVING_LAYERS.filter((layer) => layer !== "kv").map((layer) => ({
    label: lang.word("layer", layer),
    value: figures.savedTokens[layer] ?? 0,
    mark: `layer-${layer}`,
  }));
  const format = (value) => lang.number(value);
  return panel(
    "tokens",
    title,
    el("h3", {}, lang.t("tokens.forwarded")),
    shareBar({ title: lang.t("tokens.forwarded"), parts, format, lang }),
    el("h3", {}, lang.t("tokens.answered")),
    shareBar({ title: lang.t("tokens.answered"), parts: answered, format, lang }),
    el("p", { class: "muted" }, lang.t("tokens.note")),
  );
}

function lines({ figures, lang }, kind) {
  const found = figures.lines[kind];
  if (!found.length) return null;
  const title = lang.t(`lines.${kind}`);
  const head = ["name", "requests", "computed", "cached", "saved", "spent", "savedMoney"].map((c) =>
    lang.t(c === "name" ? `lines.${kind}.name` : `lines.${c}`),
  );
  const rows = [...found]
    .sort((a, b) => (b.saved_tokens ?? 0) - (a.saved_tokens ?? 0) || (b.num_requests ?? 0) - (a.num_requests ?? 0))
    .slice(0, 50)
    .map((line) => [
      ["unknown", "other", ""].includes(line.name) ? lang.t(`name.${line.name || "unknown"}`) : line.name,
      lang.number(line.num_requests),
      lang.number(line.computed_tokens),
      lang.number(line.upstream_cached_tokens),
      lang.number(line.saved_tokens),
      lang.money(line.spent_usd),
      lang.money(line.saved_usd),
    ]);
  return panel(
    `by-${kind}`,
    title,
    tableBox(title, head, rows),
    found.length > rows.length ? el("p", { class: "muted" }, lang.t("lines.more", { n: found.length - rows.length })) : null,
  );
}

function spanOf(history) {
  return history.time_range.end_at - history.time_range.start_at;
}
