// What all views are made of.

import { el } from "../dom.js";
import { table } from "../charts/figure.js";

/** A panel: a region with a heading. */
export function panel(id, title, ...content) {
  return el(
    "section",
    { class: `panel panel--${id}`, "data-key": id, "aria-labelledby": `title-${id}` },
    el("h2", { id: `title-${id}` }, title),
    ...content,
  );
}

/** What stands where there is nothing yet, and what to do about it. */
export function empty(text, ...more) {
  return el("div", { class: "empty" }, el("p", {}, text), ...more);
}

/** Why an answer of the server is not there; null where it is only on its way. */
export function why(error, lang) {
  if (!error) return el("p", { class: "muted" }, lang.t("state.loading"));
  if (error.kind === "missing") {
    return empty(lang.t("state.missing"), error.message ? server(error.message) : null);
  }
  return empty(lang.t("state.failed"), error.message ? server(error.message) : null);
}

/** The server's own words, which are English. */
export function server(text) {
  return el("p", { class: "server", lang: "en" }, text);
}

/** What the server said in the reader's language; its own words where it said something that is not known here. */
export function words(text, own, attributes = {}) {
  return text === null ? el("span", { ...attributes, lang: "en" }, own) : el("span", attributes, text);
}

/** A table in a box that scrolls where it is too wide. */
export function tableBox(caption, head, rows, texts = []) {
  return el(
    "div",
    { class: "scroll", tabindex: "0", role: "group", "aria-label": caption },
    table(caption, head, rows, texts),
  );
}

/** Terms and their values, side by side. */
export function facts(pairs) {
  return el(
    "dl",
    { class: "facts" },
    pairs
      .filter(([, value]) => value !== null && value !== undefined && value !== "")
      .map(([term, value]) => el("div", {}, el("dt", {}, term), el("dd", {}, value))),
  );
}

/** A word with its sign: `ok`, `warn`, `bad` or `idle`. */
export function badge(kind, text) {
  return el("span", { class: `badge badge--${kind}` }, text);
}

/** How much of a capacity is used. */
export function gauge(label, used, capacity, text) {
  const ratio = capacity ? Math.min(1, used / capacity) : 0;
  return el(
    "div",
    { class: "gauge" },
    el("div", { class: "gauge__text" }, el("span", {}, label), el("span", { class: "number" }, text)),
    el(
      "div",
      {
        class: "gauge__bar",
        role: "meter",
        "aria-label": label,
        "aria-valuenow": Math.round(ratio * 100),
        "aria-valuemin": "0",
        "aria-valuemax": "100",
        "aria-valuetext": text,
      },
      el("span", { style: { width: `${ratio * 100}%` } }),
    ),
  );
}
