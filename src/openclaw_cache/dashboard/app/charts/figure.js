// What all charts have in common: a title, a legend, a cursor that mouse and keys move, and a table that says the same.

import { el } from "../dom.js";

/** Where the cursor of each chart stands: a point's index. */
const cursors = new Map();

export function cursorOf(id, num) {
  const index = cursors.get(id);
  return index === undefined || index >= num ? null : index;
}

/**
 * A chart over points in time. `plot` is its drawing, `readout(index)` says one point in words, `head` and `rows` are
 * the table of all of it.
 */
export function timeFigure({ id, title, summary, legend, plot, labels, numPoints, readout, head, rows, lang }) {
  const index = cursorOf(id, numPoints);
  const said = index === null ? lang.t("chart.hint") : readout(index);
  return el(
    "figure",
    { class: "figure", "data-key": id },
    el(
      "div",
      {
        class: "plot",
        tabindex: "0",
        role: "img",
        "data-chart": id,
        "data-points": numPoints,
        "aria-label": `${title}. ${summary} ${lang.t("chart.keys")}`,
      },
      el(
        "div",
        { class: "plot__area" },
        labels.y.map(({ at, text }) => el("span", { class: "plot__y", style: { bottom: `${at * 100}%` } }, text)),
        plot,
        index === null
          ? null
          : el("div", { class: "plot__cursor", style: { left: `${((index + 0.5) / numPoints) * 100}%` } }),
      ),
      el(
        "div",
        { class: "plot__x" },
        labels.x.map(({ at, text }) => el("span", { style: { left: `${at * 100}%` } }, text)),
      ),
    ),
    el("p", { class: "readout", "data-readout": id }, said),
    legend,
    alternative(id, title, head, rows, lang),
  );
}

/** The table behind a chart, closed until somebody opens it. */
export function alternative(id, title, head, rows, lang, texts = []) {
  return el(
    "details",
    { class: "alternative", "data-key": `${id}-table` },
    el("summary", {}, lang.t("chart.table"), el("span", { class: "hidden" }, ` – ${title}`)),
    el("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": title }, table(title, head, rows, texts)),
  );
}

/** A table whose first column names its rows. Columns hold numbers, but for those whose index is in `texts`. */
export function table(caption, head, rows, texts = []) {
  const side = (i) => (i === 0 || texts.includes(i) ? null : "number");
  return el(
    "table",
    {},
    el("caption", { class: "hidden" }, caption),
    el(
      "thead",
      {},
      el("tr", {}, head.map((text, i) => el("th", { scope: "col", class: side(i) }, text))),
    ),
    el(
      "tbody",
      {},
      rows.map(([name, ...cells]) =>
        el(
          "tr",
          {},
          el("th", { scope: "row" }, name),
          cells.map((text, i) => el("td", { class: side(i + 1) }, text)),
        ),
      ),
    ),
  );
}

export function legend(entries) {
  return el(
    "ul",
    { class: "legend" },
    entries.map(({ mark, text, value }) =>
      el(
        "li",
        {},
        el("span", { class: `mark ${mark}`, "aria-hidden": "true" }),
        el("span", {}, text),
        value === undefined ? null : el("strong", { class: "legend__value" }, value),
      ),
    ),
  );
}

/** Move cursors by mouse, touch and keys, for all charts there are and will be. `onKey(id)`: say where it is now. */
export function listen(root, onMove, onKey) {
  const set = (id, index) => {
    if (cursors.get(id) === index) return;
    if (index === undefined) cursors.delete(id);
    else cursors.set(id, index);
    onMove();
  };
  root.addEventListener("pointermove", (event) => {
    const plot = event.target.closest?.("[data-chart]");
    for (const id of [...cursors.keys()]) {
      if (plot?.dataset.chart !== id && document.activeElement?.dataset.chart !== id) set(id, undefined);
    }
    if (!plot) return;
    const area = plot.querySelector(".plot__area").getBoundingClientRect();
    const num = Number(plot.dataset.points);
    const index = Math.floor(((event.clientX - area.left) / area.width) * num);
    set(plot.dataset.chart, Math.max(0, Math.min(num - 1, index)));
  });
  root.addEventListener("pointerleave", () => [...cursors.keys()].forEach((id) => set(id, undefined)));
  root.addEventListener("focusout", (event) => {
    if (event.target.dataset?.chart) set(event.target.dataset.chart, undefined);
  });
  root.addEventListener("keydown", (event) => {
    const id = event.target.dataset?.chart;
    if (!id) return;
    const last = Number(event.target.dataset.points) - 1;
    const at = cursors.get(id) ?? last + 1;
    const places = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: last };
    if (event.key in places) {
      event.preventDefault();
      set(id, Math.max(0, Math.min(last, places[event.key])));
      onKey(id);
    } else if (event.key === "Escape") set(id, undefined);
  });
}
