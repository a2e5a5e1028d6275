// What is wrong, in plain words, with what to do.

import { el } from "../dom.js";
import { advice, headline } from "./finding.js";
import { panel, server } from "./parts.js";

/** The list of alerts; one calm line where there is none. */
export function alertList({ state, alerts, lang }) {
  if (!state.status) return null;
  const title = lang.t("alerts.title");
  if (!alerts.length) {
    return el(
      "section",
      { class: "panel panel--quiet", "data-key": "alerts", "aria-labelledby": "title-alerts" },
      el("h2", { id: "title-alerts", class: "hidden" }, title),
      el("p", { class: "quiet" }, el("span", { class: "sign sign--ok", "aria-hidden": "true" }), lang.t("alerts.none")),
    );
  }
  return panel(
    "alerts",
    title,
    el(
      "ul",
      { class: "alerts" },
      alerts.map((alert) =>
        el(
          "li",
          { class: `alert alert--${alert.severity}`, "data-key": alert.id },
          el("span", { class: `sign sign--${alert.severity}`, "aria-hidden": "true" }),
          alert.finding ? ofFinding(alert, lang) : ofStatus(alert, lang),
        ),
      ),
    ),
  );
}

function ofStatus({ severity, key, values, reason }, lang) {
  const told = named(values, lang);
  return el(
    "div",
    {},
    el("p", {}, el("strong", {}, lang.t(`severity.${severity}`)), " ", lang.t(key, told)),
    reason ? server(reason) : null,
    el("p", { class: "advice" }, lang.t(`${key}.advice`, told)),
  );
}

function ofFinding({ severity, finding, numMore }, lang) {
  return el(
    "div",
    {},
    el("p", {}, el("strong", {}, lang.t(`severity.${severity}`)), " ", headline(finding, lang)),
    advice(finding, lang),
    numMore > 0 ? el("p", { class: "muted" }, el("a", { href: "#prefixes" }, lang.t("alerts.more", { n: numMore }))) : null,
  );
}

function named(values, lang) {
  const told = { ...values };
  if (told.what) told.what = lang.word("degraded", told.what);
  if (told.tier) told.tier = lang.word("tier", told.tier);
  return told;
}
