// What the server is asked, how often, and when somebody wants to know.

const EVERY_MS = 2000;
const SLOWEST_MS = 60_000;

export function feedsOf({ api, prefs, asked, place, state }) {
  const isOn = (...views) => views.includes(place().view);
  const isRange = () => prefs.range !== "start";
  return [
    { name: "status", everyMs: () => EVERY_MS, isWanted: () => true, ask: () => api.get("admin/status") },
    {
      name: "history",
      // A chart of a month does not change every two seconds, and costs more to tell.
      everyMs: () => Math.min(SLOWEST_MS, Math.max(EVERY_MS, ((state.history?.step_s ?? 0) * 1000) / 30)),
      isWanted: () => isRange() && isOn("overview"),
      ask: () => api.get("admin/history", { time_range: prefs.range, points: 60 }),
    },
    {
      name: "analysis",
      everyMs: () => 5 * EVERY_MS,
      isWanted: () => isOn("overview", "prefixes"),
      ask: () => api.get("admin/analyze", isRange() ? { time_range: prefs.range } : { time_range: "last 30d" }),
    },
    {
      name: "tree",
      everyMs: () => EVERY_MS,
      isWanted: () => isOn("tree"),
      ask: () => api.get("admin/tree", { limit: asked.tree.limit, upstream: asked.tree.upstream ?? firstEngine(state) }),
    },
    {
      name: "requests",
      everyMs: () => EVERY_MS,
      isWanted: () => isOn("requests"),
      ask: () => api.get("admin/requests", { limit: 50, ...asked.filters }),
    },
    {
      name: "explain",
      everyMs: () => 2 * EVERY_MS,
      isWanted: () => isOn("requests") && place().id !== null,
      async ask() {
        const { id } = place();
        return { ...(await api.get(`admin/explain/${encodeURIComponent(id)}`)), asked: id };
      },
    },
    {
      name: "prefixes",
      everyMs: () => EVERY_MS,
      isWanted: () => isOn("prefixes"),
      ask: () => api.get("admin/prefixes", { limit: 100 }),
    },
  ];
}

function firstEngine(state) {
  return (state.status?.upstreams ?? []).find((upstream) => upstream.kind === "embedded")?.name ?? null;
}
