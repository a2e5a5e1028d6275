// Where prompts left the ones before them, and what the look back has found.

import { el } from "../dom.js";
import { sum } from "../figures.js";
import { say } from "../sentences.js";
import { advice, headline, worth } from "./finding.js";
import { badge, empty, facts, panel, tableBox, why, words } from "./parts.js";

const VERDICTS = { ok: "ok", warn: "warn", bad: "bad", unknown: "idle" };

export function prefixes(context) {
  return [el("div", { class: "grid" }, findings(context), diagnosis(context)), kept(context), breaks(context), suggestions(context)];
}

function findings({ state, lang }) {
  const title = lang.t("findings.title");
  if (!state.analysis) return panel("findings", title, why(state.errors.analysis, lang));
  const found = state.analysis.findings ?? [];
  if (!found.length) return panel("findings", title, empty(lang.t("findings.none")));
  return panel(
    "findings",
    title,
    el(
      "ol",
      { class: "findings" },
      found.map((finding, i) =>
        el(
          "li",
          { "data-key": `finding-${finding.id ?? i}-${finding.about ?? ""}` },
          el("p", {}, el("strong", {}, headline(finding, lang))),
          advice(finding, lang),
          worth(finding, lang),
        ),
      ),
    ),
  );
}

function diagnosis({ state, lang }) {
  const steps = state.analysis?.diagnosis ?? [];
  if (!steps.length) return null;
  return panel(
    "diagnosis",
    lang.t("diagnosis.title"),
    el(
      "ol",
      { class: "diagnosis" },
      steps.map(({ step, question, verdict, text, said }, i) => {
        const key = `diagnosis.${step}`;
        return el(
          "li",
          { "data-key": `step-${i}` },
          el("p", {}, el("strong", {}, key in lang.messages ? lang.t(key) : el("span", { lang: "en" }, question ?? "")), " ",
            badge(VERDICTS[verdict] ?? "idle", lang.word("verdict", verdict))),
          text ? el("p", { class: "server" }, words(say(said, lang), text)) : null,
        );
      }),
    ),
  );
}

function kept({ state, lang }) {
  const found = state.prefixes;
  const title = lang.t("prefixes.title");
  if (!found) return panel("prefixes", title, why(state.errors.prefixes, lang));
  if (!found.num_compared) return panel("prefixes", title, empty(lang.t("prefixes.first")));
  const causes = Object.entries(found.causes ?? {}).sort((a, b) => b[1].lost_tokens - a[1].lost_tokens);
  const rows = causes.map(([cause, { num, lost_tokens: lost }]) => [
    lang.word("cause", cause),
    lang.number(num),
    lang.number(lost),
    lang.percent(found.reachable_tokens ? lost / found.reachable_tokens : null),
    `fix.${cause}` in lang.messages ? el("span", { class: "wrap" }, lang.t(`fix.${cause}`)) : "–",
  ]);
  const head = ["cause", "num", "lost", "share", "fix"].map((column) => lang.t(`causes.${column}`));
  return panel(
    "prefixes",
    title,
    facts([
      [lang.t("prefixes.compared"), lang.number(found.num_compared)],
      [lang.t("prefixes.kept"), `${lang.percent(found.reachable_tokens ? found.kept_tokens / found.reachable_tokens : null)}`],
      [lang.t("prefixes.lost"), lang.number(sum(causes.map(([, { lost_tokens: lost }]) => lost)))],
      [lang.t("prefixes.since"), lang.time(found.since_at)],
    ]),
    rows.length ? tableBox(lang.t("causes.title"), head, rows, [4]) : el("p", {}, lang.t("prefixes.whole")),
    el("p", { class: "muted" }, lang.t("prefixes.note")),
  );
}

function breaks({ state, lang }) {
  const found = state.prefixes?.breaks ?? [];
  if (!found.length) return null;
  const title = lang.t("breaks.title");
  const head = ["time", "cause", "what", "agent", "byte", "kept", "lost"].map((column) => lang.t(`breaks.${column}`));
  const rows = found.slice(0, 50).map((one) => [
    el("a", { href: `#requests/${encodeURIComponent(one.request_id ?? "")}` }, lang.time(one.at)),
    lang.word("cause", one.cause),
    words(say(one.said, lang), one.label, { class: "wrap" }),
    one.agent ?? "–",
    lang.number(one.at_byte),
    lang.number(one.kept_tokens),
    el("strong", {}, lang.number(one.lost_tokens)),
  ]);
  return panel("breaks", title, tableBox(title, head, rows, [1, 2, 3]));
}

function suggestions({ state, lang }) {
  const found = state.analysis?.semantic?.suggestions ?? [];
  if (!found.length) return null;
  const title = lang.t("suggestions.title");
  const head = ["asked", "domain", "cosine", "tokens"].map((column) => lang.t(`suggestions.${column}`));
  const rows = found.map((one) => [
    lang.number(one.num_asked),
    one.domain === "default" ? lang.t("name.default") : one.domain,
    lang.number(one.best_cosine, 2),
    lang.number(one.saved_tokens_estimate),
  ]);
  return panel("suggestions", title, el("p", { class: "muted" }, lang.t("suggestions.note")), tableBox(title, head, rows, [1]));
}
