// Where things lie, and whether they are well: tiers, upstreams, store, memory of agents, semantic quality.

import { shareBar } from "../charts/ranges.js";
import { el } from "../dom.js";
import { alertList } from "./alerts.js";
import { badge, empty, facts, gauge, panel, server, tableBox } from "./parts.js";

export function system(context) {
  const { state, lang } = context;
  const { status } = state;
  if (!status) return [el("p", { class: "muted" }, lang.t("state.loading"))];
  return [
    alertList({ ...context, alerts: context.alerts.filter(({ finding }) => !finding) }),
    el(
      "div",
      { class: "grid grid--narrow" },
      replies(status, lang),
      store(status, lang),
      memory(status.memory, lang),
    ),
    (status.upstreams ?? []).map((upstream) => kv(upstream, lang)),
    semantic(status.semantic_cache, lang),
    upstreams(status, lang),
    process(status, lang),
  ];
}

function used(lang, bytes, capacity) {
  if (!capacity) return lang.bytes(bytes);
  return lang.t("system.of", { used: lang.bytes(bytes), capacity: lang.bytes(capacity), share: lang.percent(bytes / capacity) });
}

function replies({ result_cache: cache }, lang) {
  if (!cache) return null;
  const memory = cache.memory ?? {};
  return panel(
    "result",
    lang.t("system.result"),
    cache.enabled === false ? empty(lang.t("system.result.off")) : null,
    gauge(lang.t("system.memory"), memory.memory_bytes, memory.capacity_bytes, used(lang, memory.memory_bytes, memory.capacity_bytes)),
    facts([
      [lang.t("system.entries"), lang.number(memory.num_entries)],
      [lang.t("system.evicted"), lang.number(memory.num_evictions)],
      [lang.t("system.ttl"), lang.seconds(cache.ttl_s)],
      [lang.t("system.encrypted"), lang.t(cache.is_encrypted ? "word.yes" : "word.no")],
    ]),
  );
}

function store({ store: found }, lang) {
  if (!found) return null;
  const about = found.server ?? {};
  return panel(
    "store",
    lang.t("system.store"),
    el("p", {}, badge(found.up ? "ok" : "bad", lang.t(found.up ? "word.up" : "word.down")), " ", lang.word("store", found.kind)),
    found.reason ? server(found.reason) : null,
    Number.isFinite(about.used_bytes)
      ? gauge(lang.t("system.memory"), about.used_bytes, about.max_bytes, used(lang, about.used_bytes, about.max_bytes))
      : null,
    facts([
      [lang.t("system.keys"), lang.number(about.num_keys)],
      [lang.t("system.evicted"), lang.number(about.num_evictions)],
      [lang.t("system.durable"), "durable" in about ? lang.t(about.durable ? "word.yes" : "word.no") : null],
      [lang.t("system.version"), about.version],
    ]),
  );
}

function kv(upstream, lang) {
  const { kv: found, name } = upstream;
  if (!found) return null;
  const title = lang.t("system.kv", { name });
  if (!found.tiers) return panel(`kv-${name}`, title, empty(lang.t("system.kv.silent"), found.reason ? server(found.reason) : null));
  const tiers = found.tiers.map((tier) => {
    const label = lang.word("tier", tier.tier);
    if (tier.state === "off") {
      return el("div", { class: "tier" }, el("p", {}, el("strong", {}, label), " ", badge("idle", lang.t("word.off"))), server(tier.reason ?? ""));
    }
    const blocks = found.blocks?.[tier.tier];
    return el(
      "div",
      { class: "tier" },
      gauge(label, tier.num_bytes, tier.capacity_bytes, used(lang, tier.num_bytes, tier.capacity_bytes)),
      tier.state === "dead" ? badge("bad", lang.t("word.failed")) : null,
      blocks ? blockBar(label, blocks, lang) : null,
    );
  });
  return panel(
    `kv-${name}`,
    title,
    el("div", { class: "tiers-grid" }, tiers),
    facts([
      [lang.t("system.kv.ratio"), lang.percent(found.hit_ratio)],
      [lang.t("system.kv.saved"), lang.seconds(found.saved_prefill_s)],
      [lang.t("system.kv.running"), `${lang.number(found.running)} / ${lang.number(found.waiting)}`],
      [lang.t("system.kv.pins"), lang.number(found.pins?.length ?? 0)],
      [lang.t("system.kv.policy"), found.eviction?.policy],
    ]),
  );
}

function blockBar(label, blocks, lang) {
  const parts = ["new", "hit", "running"].map((state) => ({
    label: lang.word("block", state),
    value: blocks[state] ?? 0,
    mark: `state-${state}`,
  }));
  const pinned = blocks.pinned ? ` · ${lang.word("block", "pinned")} ${lang.number(blocks.pinned)}` : "";
  return el(
    "div",
    {},
    shareBar({ title: lang.t("system.blocks", { tier: label }), parts, format: (n) => lang.number(n), lang }),
    el("p", { class: "muted" }, `${lang.word("block", "free")} ${lang.number(blocks.free)}${pinned}`),
  );
}

function semantic(found, lang) {
  if (!found) return null;
  const title = lang.t("semantic.title");
  if (!found.enabled) return panel("semantic", title, empty(lang.t("semantic.off")));
  if (found.state !== "ready") {
    return panel("semantic", title, empty(lang.t(`semantic.${found.state}`), found.reason ? server(found.reason) : null));
  }
  const interval = (estimate) =>
    estimate
      ? lang.t("semantic.interval", {
          mean: lang.percent(estimate.mean), low: lang.percent(estimate.low), high: lang.percent(estimate.high), n: estimate.num_seen ?? 0,
        })
      : "–";
  const rows = (found.domains ?? []).map((domain) => [
    domain.domain === "default" ? lang.t("name.default") : domain.domain,
    lang.number(domain.num_hits),
    interval(domain.wrong_ratio),
    lang.percent(domain.max_wrong_ratio),
    interval(domain.recall),
    domain.limit === null ? lang.t("word.off") : lang.number(domain.limit, 3),
  ]);
  const head = ["domain", "hits", "wrong", "max", "recall", "limit"].map((column) => lang.t(`semantic.${column}`));
  return panel(
    "semantic",
    title,
    tableBox(title, head, rows, [2, 4]),
    facts([
      [lang.t("semantic.questions"), lang.number(found.num_questions)],
      [lang.t("system.memory"), lang.bytes(found.memory_bytes)],
      [lang.t("semantic.embedder"), found.embedder],
    ]),
    el("p", { class: "muted" }, lang.t("semantic.note")),
  );
}

function memory(found, lang) {
  if (!found) return null;
  const title = lang.t("memory.title");
  if (!found.enabled) return panel("memory", title, empty(lang.t("memory.off")));
  const { embedder = {}, indexing = {} } = found;
  return panel(
    "memory",
    title,
    facts([
      [lang.t("memory.open"), lang.number(found.num_open)],
      [lang.t("system.memory"), lang.bytes(found.memory_bytes)],
      [lang.t("memory.waiting"), lang.number(indexing.num_agents_waiting)],
      [lang.t("memory.embedded"), lang.number(indexing.num_embedded)],
      [lang.t("memory.embedder"), lang.word("embedder", embedder.state)],
    ]),
    embedder.reason ? server(embedder.reason) : null,
    found.num_open ? null : el("p", { class: "muted" }, lang.t("memory.none")),
  );
}

function upstreams(status, lang) {
  const title = lang.t("upstreams.title");
  const rows = (status.upstreams ?? []).flatMap((upstream) => {
    const models = (upstream.models ?? []).slice(0, 3).join(", ");
    if (upstream.kind === "embedded") {
      const kind = upstream.state === "ready" ? "ok" : upstream.state === "failed" ? "bad" : "warn";
      return [[upstream.name, lang.word("kind", upstream.kind), upstream.url ?? "–", badge(kind, lang.word("pod", upstream.state)), "–", models]];
    }
    return (upstream.pods ?? []).map((pod) => [
      upstream.name,
      lang.word("kind", upstream.kind),
      pod.url,
      badge(pod.state === "up" ? "ok" : pod.state === "ejected" ? "bad" : "warn", podState(pod, lang)),
      lang.number(pod.num_failures),
      models,
    ]);
  });
  const head = ["name", "kind", "url", "state", "failures", "models"].map((column) => lang.t(`upstreams.${column}`));
  return panel("upstreams", title, rows.length ? tableBox(title, head, rows, [1, 2, 3, 5]) : empty(lang.t("upstreams.none")));
}

function podState(pod, lang) {
  const word = lang.word("pod", pod.state);
  return pod.ejected_for_s ? lang.t("said.aside", { what: word, more: lang.seconds(pod.ejected_for_s) }) : word;
}

function process(status, lang) {
  const held = status.inflight ?? {};
  return panel(
    "server",
    lang.t("server.title"),
    facts([
      [lang.t("server.version"), status.version],
      [lang.t("server.uptime"), lang.seconds(status.uptime_s)],
      [lang.t("server.keys"), status.keys?.keyed ? lang.number(status.keys.num_keys) : lang.t("server.keyless")],
      [lang.t("server.inflight"), used(lang, held.held_bytes, held.limit_bytes)],
      [lang.t("server.flights"), lang.number(status.flights)],
    ]),
  );
}
