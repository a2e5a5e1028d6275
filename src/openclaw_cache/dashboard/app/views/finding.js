// One finding of the look back: what was found, what to do, what it costs.

import { el } from "../dom.js";
import { say } from "../sentences.js";
import { words } from "./parts.js";

/** What was found. */
export function headline(finding, lang) {
  return words(say(finding.said, lang), finding.text ?? finding.id ?? "");
}

/** What to do. */
export function advice(finding, lang) {
  const text = words(say(finding.advised, lang), finding.advice ?? "");
  return finding.advice ? el("p", { class: "advice" }, text) : null;
}

/** What it costs. */
export function worth({ usd, tokens, seconds }, lang) {
  const parts = [
    usd ? lang.money(usd) : null,
    tokens ? lang.t("findings.tokens", { n: tokens }) : null,
    seconds ? lang.seconds(seconds) : null,
  ].filter(Boolean);
  return parts.length ? el("p", { class: "muted" }, lang.t("findings.worth", { what: parts.join(lang.t("said.comma")) })) : null;
}
