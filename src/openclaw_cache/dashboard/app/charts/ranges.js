// Percentiles of several sources beside each other on one logarithmic axis.

import { el } from "../dom.js";
import { table } from "./figure.js";
import { logAxis } from "./scale.js";

/** `rows`: `{label, p50, p95, num, mark}` in seconds. Its table stands in the open: the drawing is a column of it. */
export function rangeChart({ title, rows, lang }) {
  const axis = logAxis(rows.flatMap(({ p50, p95 }) => [p50, p95]));
  const drawn = rows.map(({ label, p50, p95, num, mark }) => [
    label,
    lang.seconds(p50),
    lang.seconds(p95),
    lang.number(num),
    el(
      "div",
      { class: "range", "aria-hidden": "true" },
      axis.ticks.map((tick) => el("span", { class: "range__tick", style: { left: `${axis.at(tick) * 100}%` } })),
      el("span", {
        class: `range__bar ${mark}`,
        style: { left: `${axis.at(p50) * 100}%`, width: `${(axis.at(p95) - axis.at(p50)) * 100}%` },
      }),
      el("span", { class: `range__p50 ${mark}`, style: { left: `${axis.at(p50) * 100}%` } }),
      el("span", { class: `range__p95 ${mark}`, style: { left: `${axis.at(p95) * 100}%` } }),
    ),
  ]);
  const ends = `${lang.seconds(axis.low)} – ${lang.seconds(axis.high)}`;
  const head = [lang.t("latency.source"), lang.t("latency.p50"), lang.t("latency.p95"), lang.t("latency.num"), ends];
  return el("div", { class: "scroll ranges", tabindex: "0", role: "group", "aria-label": title }, table(title, head, drawn, [4]));
}

/** One bar that is the whole, divided; with its legend, which has every number. `parts`: `{label, value, mark}`. */
export function shareBar({ title, parts, format, lang }) {
  const total = parts.reduce((sum, { value }) => sum + value, 0);
  const said = parts.map(({ label, value }) => `${label} ${format(value)}`).join(", ");
  return el(
    "div",
    { class: "share" },
    el(
      "div",
      { class: "share__bar", role: "img", "aria-label": `${title}: ${said}` },
      parts.map(({ value, mark }) =>
        value ? el("span", { class: `part ${mark}`, style: { "flex-grow": value / (total || 1) } }) : null,
      ),
    ),
    el(
      "ul",
      { class: "legend legend--wide" },
      parts.map(({ label, value, mark }) =>
        el(
          "li",
          {},
          el("span", { class: `mark ${mark}`, "aria-hidden": "true" }),
          el("span", {}, label),
          el("strong", { class: "legend__value" }, format(value)),
          el("span", { class: "legend__share" }, total ? lang.percent(value / total) : "–"),
        ),
      ),
    ),
  );
}
