// The numbers of a time, in one form, whether they come from history or (since the start) from status. Pure.

export const OUTCOMES = ["exact", "semantic", "collapsed", "miss", "bypass", "error"];
export const LAYERS = ["result", "semantic", "kv"];
export const SAVING_LAYERS = ["result", "semantic", "flight", "kv"];
export const SOURCES = ["computed", "device", "host", "disk"];

/** Of a time range: what `GET /admin/history` has. */
export function ofHistory(history) {
  const total = history.total ?? {};
  return {
    requests: total.requests ?? {},
    numRequests: sum(total.requests),
    hitRatio: total.hit_ratio ?? {},
    hits: total.hits ?? {},
    lookups: total.lookups ?? {},
    promptTokens: total.prompt_tokens ?? {},
    savedTokens: total.saved_tokens ?? {},
    spentUsd: total.spent_usd ?? null,
    savedUsd: total.saved_usd ?? null,
    savedS: total.saved_s ?? null,
    ttft: total.ttft_s ?? {},
    itl: total.itl_s ?? null,
    misses: total.misses ?? {},
    bypasses: total.bypasses ?? {},
    breaks: total.breaks ?? {},
    canonical: total.canonical ?? {},
    evictions: total.evictions ?? {},
    lines: {
      agent: history.by_agent ?? [],
      model: history.by_model ?? [],
      namespace: history.by_namespace ?? [],
    },
  };
}

/** Since the start: what `GET /admin/status` has. Latencies are not part of it. */
export function ofStatus(status) {
  const savings = status.savings ?? {};
  const total = savings.total ?? {};
  const engines = (status.upstreams ?? []).map((upstream) => upstream.kv).filter((kv) => kv?.tiers);
  const promptTokens = { computed: total.computed_tokens ?? 0 };
  for (const { tier, num_hits_tokens: num } of engines.flatMap((kv) => kv.tiers)) {
    promptTokens[tier] = (promptTokens[tier] ?? 0) + (num ?? 0);
  }
  const result = status.hit_ratio ?? {};
  const kvLookups = sum(engines.map((kv) => kv.num_lookups_tokens));
  const kvHits = sum(engines.map((kv) => kv.num_hits_tokens));
  return {
    requests: status.requests ?? {},
    numRequests: sum(status.requests),
    hitRatio: { result: result.ratio ?? null, kv: kvLookups ? kvHits / kvLookups : null },
    hits: { result: result.num_hits, kv: kvHits },
    lookups: { result: result.num_lookups, kv: kvLookups },
    promptTokens,
    savedTokens: status.saved_tokens ?? {},
    spentUsd: total.num_priced ? total.spent_usd : null,
    savedUsd: total.num_priced ? total.saved_usd : null,
    savedS: null,
    ttft: {},
    itl: null,
    misses: {},
    bypasses: {},
    breaks: {},
    canonical: {},
    evictions: {},
    lines: { agent: lines(savings.agents), model: lines(savings.models), namespace: [] },
  };
}

function lines(byName) {
  return Object.entries(byName ?? {}).map(([name, line]) => ({
    name,
    num_requests: line.num_requests ?? 0,
    computed_tokens: line.computed_tokens ?? 0,
    upstream_cached_tokens: line.upstream_cached_tokens ?? 0,
    saved_tokens:
      (line.answered_prompt_tokens ?? 0) -
      (line.would_be_cached_tokens ?? 0) +
      (line.answered_completion_tokens ?? 0),
    spent_usd: line.num_priced ? line.spent_usd : null,
    saved_usd: line.num_priced ? line.saved_usd : null,
  }));
}

/** The sum of the values of an object or list; what is no number counts as 0. */
export function sum(values) {
  return Object.values(values ?? {}).reduce((total, value) => total + (Number.isFinite(value) ? value : 0), 0);
}
