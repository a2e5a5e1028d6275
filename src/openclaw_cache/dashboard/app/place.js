// Where a reader is, as the address says it. Pure.

export const VIEWS = ["overview", "tree", "requests", "prefixes", "system"];

/** `#requests/ID` → `{view: "requests", id: "ID"}`; anything else is the overview. */
export function placeOf(hash) {
  const [view, ...rest] = hash.replace(/^#/, "").split("/");
  if (!VIEWS.includes(view)) return { view: "overview", id: null };
  if (view !== "requests" || !rest.length) return { view, id: null };
  try {
    return { view, id: decodeURIComponent(rest.join("/")) || null };
  } catch {
    return { view, id: null };
  }
}
