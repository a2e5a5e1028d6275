// What an operator should know at once, and what to do about it. Pure.

export const RISE_WINDOW_S = 600;
const FULL_RATIO = 0.9;
const MOST_FINDINGS = 1;
/** Findings of what is told here at once, by the status itself. */
const SEEN_HERE = ["store_down", "upstream_down", "degraded"];

/** Counts of failed parts over the last minutes, so that a rise can be told from an old failure. */
export class Degraded {
  constructor() {
    this.seen = [];
  }

  add(at, counts) {
    const last = this.seen.at(-1);
    // Counts that fall are those of a new process.
    if (last && Object.entries(last.counts).some(([name, num]) => (counts?.[name] ?? 0) < num)) this.seen = [];
    this.seen.push({ at, counts: counts ?? {} });
    while (this.seen.length > 1 && this.seen[0].at < at - RISE_WINDOW_S) this.seen.shift();
  }

  /** `{name: how many more than at the beginning of the window}`, only what rose. */
  risen() {
    const first = this.seen[0]?.counts ?? {};
    const last = this.seen.at(-1)?.counts ?? {};
    const risen = {};
    for (const [name, num] of Object.entries(last)) {
      const more = num - (first[name] ?? 0);
      if (more > 0) risen[name] = more;
    }
    return risen;
  }
}

/**
 * All alerts, the worst first: `{id, severity, key, values, reason}`. `key` names a message and, with `.advice`, what
 * to do; `reason` is what the server says. The first of what the look back has found comes last, as
 * `{id, severity, finding, numMore}`: it is to be looked at in peace, where all of it stands.
 */
export function alerts(status, risen, findings = []) {
  if (!status) return [];
  const found = [...ofStore(status.store), ...(status.upstreams ?? []).flatMap(ofUpstream)];
  for (const [name, num] of Object.entries(risen)) {
    found.push(alert(`degraded-${name}`, "warn", "alert.degraded", { what: name, n: num }));
  }
  found.push(...ofSemantic(status.semantic_cache), ...ofMemory(status.memory));
  const { held_bytes: held = 0, limit_bytes: limit = 0 } = status.inflight ?? {};
  if (limit && held / limit > FULL_RATIO) found.push(alert("inflight", "warn", "alert.inflight", {}));
  const order = { bad: 0, warn: 1 };
  const worth = (findings ?? []).filter(({ id, severity }) => severity in order && !SEEN_HERE.includes(id));
  const looked = worth.slice(0, MOST_FINDINGS).map((finding) => ({
    id: `finding-${finding.id ?? ""}-${finding.about ?? ""}`,
    severity: finding.severity,
    finding,
    numMore: worth.length - MOST_FINDINGS,
  }));
  return [...found, ...looked].sort((a, b) => order[a.severity] - order[b.severity]);
}

function alert(id, severity, key, values, reason = "") {
  return { id, severity, key, values, reason: reason ?? "" };
}

function ofStore(store) {
  return store && !store.up ? [alert("store", "bad", "alert.store", {}, store.reason)] : [];
}

function ofUpstream(upstream) {
  const { name } = upstream;
  if (upstream.kind !== "embedded") {
    const pods = upstream.pods ?? [];
    const out = pods.filter((pod) => pod.state !== "up");
    if (!upstream.is_up) return [alert(`upstream-${name}`, "bad", "alert.upstream", { name }, out[0]?.last_error)];
    return out.map((pod) =>
      alert(`pod-${name}-${pod.url}`, "warn", "alert.pod", { name, url: pod.url }, pod.last_error),
    );
  }
  if (upstream.state !== "ready") {
    const isStarting = ["starting", "restarting"].includes(upstream.state);
    const key = isStarting ? "alert.starting" : "alert.upstream";
    return [alert(`upstream-${name}`, isStarting ? "warn" : "bad", key, { name }, upstream.reason)];
  }
  return (upstream.kv?.tiers ?? [])
    .filter((tier) => tier.state === "dead")
    .map((tier) => alert(`tier-${name}-${tier.tier}`, "warn", "alert.tier", { name, tier: tier.tier }, tier.reason));
}

function ofSemantic(semantic) {
  if (!semantic?.enabled) return [];
  if (semantic.state === "failed") return [alert("semantic", "warn", "alert.semantic", {}, semantic.reason)];
  return (semantic.domains ?? [])
    .filter((domain) => domain.off_because)
    .map((domain) =>
      alert(`domain-${domain.domain}`, "warn", "alert.domain", { domain: domain.domain }, domain.off_because),
    );
}

function ofMemory(memory) {
  const { state, reason } = memory?.embedder ?? {};
  return state === "failed" ? [alert("memory", "warn", "alert.memory", {}, reason)] : [];
}
