// Lines over time. Each has a dash and an end mark of its own, not only a colour. Where nothing is known there is a gap.

import { el, svg } from "../dom.js";
import { legend, timeFigure } from "./figure.js";
import { niceCeiling } from "./scale.js";
import { levels, times } from "./stacked.js";

/** `series`: `{name, label, mark, value}`, `value` for the legend; `points`: `{at, values: {name: number | null}}`. */
export function lineChart({ id, title, points, series, spanS, format, top = null, lang }) {
  const known = points.flatMap(({ values }) => series.map(({ name }) => values[name])).filter(Number.isFinite);
  const high = top ?? niceCeiling(Math.max(...known, 0));
  const drawn = series.map(({ name, mark }) =>
    svg("path", { class: `line ${mark}`, d: path(points.map(({ values }) => values[name]), high) }),
  );
  const ends = series.map(({ name, mark }) => {
    const at = points.findLastIndex(({ values }) => Number.isFinite(values[name]));
    if (at < 0) return null;
    const style = {
      left: `${((at + 0.5) / points.length) * 100}%`,
      bottom: `${Math.min(1, points[at].values[name] / high) * 100}%`,
    };
    return el("span", { class: `end ${mark}`, style });
  });
  const last = series.map(({ label, value }) => `${label} ${value}`).join(", ");
  return timeFigure({
    id,
    title,
    lang,
    numPoints: points.length,
    summary: known.length ? last : lang.t("chart.nothing"),
    plot: [
      svg("svg", { class: "lines", viewBox: "0 0 100 100", preserveAspectRatio: "none", "aria-hidden": "true" }, drawn),
      ends,
    ],
    labels: { y: levels(high, format), x: times(points, spanS, lang) },
    readout: (i) => {
      const parts = series
        .filter(({ name }) => Number.isFinite(points[i].values[name]))
        .map(({ name, label }) => `${label} ${format(points[i].values[name])}`);
      return `${lang.time(points[i].at, spanS)}: ${parts.join(", ") || lang.t("chart.none")}`;
    },
    legend: legend(series.map(({ label, mark, value }) => ({ mark, text: label, value }))),
    head: [lang.t("chart.time"), ...series.map(({ label }) => label)],
    rows: points
      .map(({ at, values }) => [
        lang.time(at, spanS),
        ...series.map(({ name }) => (Number.isFinite(values[name]) ? format(values[name]) : "–")),
      ])
      .reverse(),
  });
}

/** A path over the values in a box of 100 × 100; a value without neighbours becomes a dash. */
export function path(values, top) {
  const x = (i) => round(((i + 0.5) / values.length) * 100);
  const y = (value) => round(100 - Math.min(1, value / top) * 100);
  let drawn = "";
  values.forEach((value, i) => {
    if (!Number.isFinite(value)) return;
    const before = Number.isFinite(values[i - 1]);
    const after = Number.isFinite(values[i + 1]);
    if (before) drawn += `L${x(i)} ${y(value)}`;
    else if (after) drawn += `M${x(i)} ${y(value)}`;
    else drawn += `M${round(x(i) - 0.4)} ${y(value)}L${round(x(i) + 0.4)} ${y(value)}`;
  });
  return drawn;
}

function round(value) {
  return Math.round(value * 100) / 100;
}
