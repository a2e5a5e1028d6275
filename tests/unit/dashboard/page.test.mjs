import assert from "node:assert/strict";
import { test } from "node:test";

const app = process.env.DASHBOARD + "/app";
const { Degraded, alerts } = await import(`${app}/alerts.js`);
const { Api, ApiError } = await import(`${app}/api.js`);
const { logAxis, labelPlaces, niceCeiling } = await import(`${app}/charts/scale.js`);
const { path } = await import(`${app}/charts/lines.js`);
const { ofHistory, ofStatus, sum } = await import(`${app}/figures.js`);
const { placeOf } = await import(`${app}/place.js`);
const { Preferences } = await import(`${app}/preferences.js`);

test("an axis ends at a round number that is not below the greatest value", () => {
  for (const [value, end] of [[0, 1], [0.3, 0.3], [0.31, 0.4], [1, 1], [17, 20], [21, 30], [41, 60], [99, 100]]) {
    assert.equal(niceCeiling(value), end);
  }
});

test("a logarithmic axis has whole decades, and puts a value where its logarithm is", () => {
  const axis = logAxis([0.002, 3]);
  assert.equal(axis.low, 0.001);
  assert.equal(axis.high, 10);
  assert.equal(axis.at(0.001), 0);
  assert.equal(axis.at(0.1), 0.5);
  assert.equal(axis.at(0), 0);
});

test("labels do not crowd", () => {
  assert.deepEqual(labelPlaces(60, 6), [0, 10, 20, 30, 40, 50]);
  assert.deepEqual(labelPlaces(0, 6), []);
});

test("a line has a gap where nothing is known, and a lone value is a dash", () => {
  assert.equal(path([0, 1, null, 1], 1), "M12.5 100L37.5 0M87.1 0L87.9 0");
});

test("addresses name a view and a request, whatever its id is", () => {
  assert.deepEqual(placeOf("#requests/a%2Fb"), { view: "requests", id: "a/b" });
  assert.deepEqual(placeOf("#requests/%"), { view: "requests", id: null });
  assert.deepEqual(placeOf("#constructor"), { view: "overview", id: null });
  assert.deepEqual(placeOf(""), { view: "overview", id: null });
});

test("what is broken comes first, and each alert has its advice", () => {
  const status = {
    store: { up: false, reason: "refused" },
    upstreams: [
      { name: "a", kind: "openai", is_up: true, pods: [{ url: "u1", state: "up" }, { url: "u2", state: "ejected" }] },
      { name: "b", kind: "openai", is_up: false, pods: [{ url: "u3", state: "ejected", last_error: "503" }] },
      { name: "c", kind: "embedded", state: "ready", kv: { tiers: [{ tier: "disk", state: "dead" }, { tier: "host", state: "off" }] } },
    ],
    inflight: { held_bytes: 95, limit_bytes: 100 },
    semantic_cache: { enabled: true, state: "ready", domains: [{ domain: "law", off_because: "wrong" }] },
  };
  const found = alerts(status, { kv_disk: 3 });
  assert.deepEqual(found.map(({ id, severity }) => `${severity} ${id}`), [
    "bad store", "bad upstream-b", "warn pod-a-u2", "warn tier-c-disk", "warn degraded-kv_disk", "warn domain-law", "warn inflight",
  ]);
});

test("all is well: no alert", () => {
  assert.deepEqual(alerts({ store: { up: true }, upstreams: [{ name: "a", kind: "embedded", state: "ready" }] }, {}), []);
  assert.deepEqual(alerts(undefined, {}), []);
});

test("the first finding of the look back comes after what is broken now, with how many there are; none is told twice", () => {
  const findings = ["store_down", "degraded", "prefix_break", "missed", "bypassed", "faq"].map((id) => ({ id, severity: "warn" }));
  const found = alerts({ store: { up: false } }, {}, [...findings, { id: "x", severity: "info" }]);
  assert.deepEqual(found.map(({ id }) => id), ["store", "finding-prefix_break-"]);
  assert.equal(found[1].numMore, 3);
});

test("a failure of yesterday is no alert, a new one is, and a restart is none", () => {
  const degraded = new Degraded();
  degraded.add(0, { kv_disk: 7 });
  assert.deepEqual(degraded.risen(), {});
  degraded.add(10, { kv_disk: 9 });
  assert.deepEqual(degraded.risen(), { kv_disk: 2 });
  degraded.add(700, { kv_disk: 9 });
  assert.deepEqual(degraded.risen(), {});
  degraded.add(710, { kv_disk: 0 });
  assert.deepEqual(degraded.risen(), {});
});

test("figures since the start are those of the status", () => {
  const figures = ofStatus({
    requests: { exact: 2, miss: 4 },
    hit_ratio: { num_hits: 2, num_lookups: 6, ratio: 0.3333 },
    saved_tokens: { result: 38, kv: 384 },
    savings: { total: { computed_tokens: 175, num_priced: 0, spent_usd: 0, saved_usd: 0 }, agents: { main: { num_requests: 6, answered_prompt_tokens: 278, would_be_cached_tokens: 256, answered_completion_tokens: 16 } } },
    upstreams: [{ kv: { tiers: [{ tier: "device", num_hits_tokens: 384 }], num_lookups_tokens: 559, num_hits_tokens: 384 } }],
  });
  assert.equal(figures.numRequests, 6);
  assert.deepEqual(figures.promptTokens, { computed: 175, device: 384 });
  assert.equal(figures.hitRatio.kv, 384 / 559);
  assert.equal(figures.savedUsd, null); // no price known: not "$0.00"
  assert.equal(figures.lines.agent[0].saved_tokens, 38);
});

test("an empty history has no figures, and no zeros for what nobody measured", () => {
  const figures = ofHistory({ points: [] });
  assert.equal(figures.numRequests, 0);
  assert.equal(figures.savedUsd, null);
  assert.equal(sum({ a: 1, b: null, c: 2 }), 3);
});

const answering = (status, body) => async () => new Response(body, { status });
const api = (fetcher, session = new Map()) => {
  const storage = { getItem: (k) => session.get(k) ?? null, setItem: (k, v) => session.set(k, v), removeItem: (k) => session.delete(k) };
  return new Api("http://127.0.0.1:8800/", storage, fetcher);
};

test("what the server says tells apart: no key, not here, not part of it, failing, gone", async () => {
  const error = (code) => JSON.stringify({ error: { message: "why", code } });
  const cases = [
    [answering(401, error("invalid_admin_key")), "auth"], [answering(403, error("keyless_loopback_only")), "forbidden"],
    [answering(404, error("not_found")), "missing"], [answering(409, error("history_off")), "missing"],
    [answering(400, error("prefixes_off")), "missing"], [answering(400, error("bad")), "failed"],
    [answering(503, error("x")), "failed"], [answering(500, "Internal Server Error"), "failed"],
    [answering(200, "<html>"), "unreachable"], [() => Promise.reject(new TypeError("Failed to fetch")), "unreachable"],
  ];
  for (const [fetcher, kind] of cases) {
    await assert.rejects(api(fetcher).get("admin/status"), (found) => found instanceof ApiError && found.kind === kind);
  }
});

test("the key goes with each question to the server that the page came from, and no cookie does", async () => {
  const seen = [];
  const found = api(async (url, options) => (seen.push([String(url), options]), new Response("{}")));
  found.key = "sesame";
  await found.get("admin/requests", { outcome: "", agent: "a&b=c", limit: 50 });
  assert.equal(seen[0][0], "http://127.0.0.1:8800/admin/requests?agent=a%26b%3Dc&limit=50");
  assert.equal(seen[0][1].headers.authorization, "Bearer sesame");
  assert.equal(seen[0][1].credentials, "omit");
  assert.equal(seen[0][1].redirect, "error");
  found.key = "";
  await found.get("admin/status");
  assert.deepEqual(seen[1][1].headers, {});
});

test("a choice that the browser does not keep holds for the visit; one that is unknown is none", () => {
  const broken = { getItem: () => { throw new Error("denied"); }, setItem: () => { throw new Error("denied"); } };
  const prefs = new Preferences(broken, ["zh-CN"]);
  assert.equal(prefs.language, "zh");
  prefs.theme = "dark";
  assert.equal(prefs.theme, "dark");
  assert.equal(new Preferences({ getItem: () => "purple" }, ["en"]).theme, "auto");
});
