// One finding of the look back. The server speaks English; what it says of kinds that are known here is translated.

import { el } from "../dom.js";
import { server } from "./parts.js";

/** The server's sentence, in its English; where the reader has another language its own words come after ours. */
export function headline(finding, lang) {
  const key = `finding.${finding.id}`;
  if (lang.name === "en" || !(key in lang.messages)) return el("span", { lang: "en" }, finding.text ?? finding.id ?? "");
  return lang.t(key, { about: aboutOf(finding, lang) });
}

function aboutOf({ id, about }, lang) {
  const groups = { missed: "miss", bypassed: "bypass", prefix_break: "cause", degraded: "degraded" };
  return id in groups ? lang.word(groups[id], about) : (about ?? "");
}

/** What else is to be said of it: what to do, above all. */
export function said(finding, lang) {
  const own = finding.id === "prefix_break" ? `fix.${finding.about}` : `finding.${finding.id}.advice`;
  const isOwn = lang.name !== "en" && own in lang.messages;
  return [
    lang.name !== "en" && finding.text ? server(finding.text) : null,
    isOwn ? el("p", { class: "advice" }, lang.t(own)) : finding.advice ? el("p", { class: "advice", lang: "en" }, finding.advice) : null,
  ];
}

/** What it costs. */
export function worth({ usd, tokens, seconds }, lang) {
  const parts = [
    usd ? lang.money(usd) : null,
    tokens ? lang.t("findings.tokens", { n: tokens }) : null,
    seconds ? lang.seconds(seconds) : null,
  ].filter(Boolean);
  return parts.length ? el("p", { class: "muted" }, lang.t("findings.worth", { what: parts.join(", ") })) : null;
}
