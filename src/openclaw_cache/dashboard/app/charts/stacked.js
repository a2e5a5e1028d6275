// Columns over time, each divided by kind. Drawn with plain boxes: patterns keep their angle at any width.

import { el } from "../dom.js";
import { legend, timeFigure } from "./figure.js";
import { labelPlaces, niceCeiling } from "./scale.js";

/** `series`: `{name, label, mark}`, the lowest first; `points`: `{at, values: {name: number}}`. */
export function stackedChart({ id, title, points, series, spanS, lang }) {
  const totals = points.map((point) => series.reduce((sum, { name }) => sum + (point.values[name] ?? 0), 0));
  const top = Math.max(4, niceCeiling(Math.max(...totals, 0))); // half of it is a whole number too
  const sums = series.map(({ name }) => points.reduce((sum, point) => sum + (point.values[name] ?? 0), 0));
  const all = totals.reduce((a, b) => a + b, 0);
  const shares = series
    .map(({ label }, i) => (sums[i] ? `${label} ${lang.number(sums[i])}` : null))
    .filter(Boolean)
    .join(", ");
  const columns = points.map((point, i) =>
    el(
      "div",
      { class: "column" },
      totals[i] === 0
        ? null
        : [...series].reverse().map(({ name, mark }) => {
            const value = point.values[name] ?? 0;
            return value ? el("div", { class: `part ${mark}`, style: { height: `${(value / top) * 100}%` } }) : null;
          }),
    ),
  );
  return timeFigure({
    id,
    title,
    lang,
    numPoints: points.length,
    summary: all ? `${lang.t("chart.total", { n: all })} ${shares}` : lang.t("chart.nothing"),
    plot: el("div", { class: "columns" }, columns),
    labels: { y: levels(top, (value) => lang.short(value)), x: times(points, spanS, lang) },
    readout: (i) => {
      const parts = series
        .filter(({ name }) => points[i].values[name])
        .map(({ name, label }) => `${label} ${lang.number(points[i].values[name])}`);
      return `${lang.time(points[i].at, spanS)}: ${parts.join(", ") || lang.t("chart.none")}`;
    },
    legend: legend(series.map(({ label, mark }, i) => ({ mark, text: label, value: lang.number(sums[i]) }))),
    head: [lang.t("chart.time"), ...series.map(({ label }) => label)],
    rows: points
      .map((point) => [
        lang.time(point.at, spanS),
        ...series.map(({ name }) => lang.number(point.values[name] ?? 0)),
      ])
      .reverse(),
  });
}

export function levels(top, format) {
  return [0, 0.5, 1].map((at) => ({ at, text: format(top * at) }));
}

export function times(points, spanS, lang) {
  return labelPlaces(points.length, 6).map((i) => ({
    at: (i + 0.5) / points.length,
    text: lang.time(points[i].at, spanS),
  }));
}
