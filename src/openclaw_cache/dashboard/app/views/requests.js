// The last requests, and one request's way through the layers.

import { OUTCOMES } from "../figures.js";
import { el } from "../dom.js";
import { say } from "../sentences.js";
import { empty, facts, panel, tableBox, why, words } from "./parts.js";

export function requests(context) {
  const { place } = context;
  return [el("div", { class: "split" }, list(context), place.id ? detail(context) : hint(context))];
}

function hint({ lang }) {
  return panel("explain", lang.t("explain.title"), empty(lang.t("explain.choose")));
}

function list(context) {
  const { state, lang, filters, place } = context;
  const title = lang.t("requests.title");
  const found = state.requests?.requests;
  const options = ["", ...OUTCOMES].map((name) =>
    el("option", { value: name, selected: name === filters.outcome }, name ? lang.word("outcome", name) : lang.t("requests.any")),
  );
  const fields = el(
    "form",
    { class: "filters", "data-form": "filters", "aria-label": lang.t("requests.filter") },
    el("label", {}, lang.t("requests.outcome"), el("select", { name: "outcome", "data-filter": "outcome" }, options)),
    ["agent", "model", "session"].map((name) =>
      el(
        "label",
        {},
        lang.t(`requests.${name}`),
        el("input", { name, type: "search", "data-filter": name, autocomplete: "off", spellcheck: "false", maxlength: "200" }),
      ),
    ),
  );
  if (!found) return panel("requests", title, fields, why(state.errors.requests, lang));
  const isFiltered = Object.values(filters).some(Boolean);
  if (!found.length) return panel("requests", title, fields, empty(lang.t(isFiltered ? "requests.none" : "requests.first")));
  return panel(
    "requests",
    title,
    fields,
    state.errors.requests ? why(state.errors.requests, lang) : null,
    el(
      "ol",
      { class: "requests", "aria-label": title },
      found.map((row) => one(row, place.id, lang)),
    ),
  );
}

function one(row, chosen, lang) {
  const isChosen = row.request_id === chosen;
  return el(
    "li",
    { "data-key": `${row.request_id}@${row.at}` },
    el(
      "a",
      {
        href: `#requests/${encodeURIComponent(row.request_id)}`,
        class: `request${isChosen ? " request--chosen" : ""}`,
        "aria-current": isChosen ? "true" : null,
      },
      el("span", { class: `mark outcome-${known(row.outcome)}`, "aria-hidden": "true" }),
      el("span", { class: "request__outcome" }, outcome(row, lang)),
      el("span", { class: "request__time number" }, lang.time(row.at)),
      el("span", { class: "request__who" }, [row.agent, row.model, row.api].filter(Boolean).join(" · ")),
      el("span", { class: "request__took number" }, lang.seconds(row.duration_s)),
      row.prefix_break ? el("span", { class: "request__break" }, lang.t("requests.break", { n: row.prefix_break.lost_tokens ?? 0 })) : null,
    ),
  );
}

function known(outcome) {
  return OUTCOMES.includes(outcome) ? outcome : "miss";
}

function outcome(row, lang) {
  const what = lang.word("outcome", row.outcome);
  const more = reason(row, lang);
  return more ? lang.t("said.aside", { what, more }) : what;
}

function reason(row, lang) {
  if (row.miss) return lang.word("miss", row.miss);
  return row.detail ? lang.word("bypass", row.detail) : row.error;
}

function detail(context) {
  const { state, lang, place } = context;
  const title = lang.t("explain.title");
  const told = state.explain;
  const back = el("a", { href: "#requests", class: "back" }, lang.t("explain.back"));
  if (!told || told.asked !== place.id) return panel("explain", title, back, why(state.errors.explain, lang));
  const row = told.request ?? {};
  return panel(
    "explain",
    title,
    back,
    el(
      "p",
      { class: "explain__head" },
      el("span", { class: `mark outcome-${known(row.outcome)}`, "aria-hidden": "true" }),
      el("strong", {}, outcome({ ...row, outcome: row.outcome ?? told.outcome }, lang)),
      " ",
      el("code", {}, place.id),
    ),
    steps(told.steps ?? [], lang),
    about(row, lang),
    prefixBreak(told.prefix_break ?? row.prefix_break, lang),
    canonical(told.canonical ?? [], told.canonical_saved_tokens, lang),
    checks(told, lang),
  );
}

function steps(found, lang) {
  if (!found.length) return empty(lang.t("explain.noSteps"));
  const most = Math.max(...found.map(({ took_s: s }) => s ?? 0), 1e-9);
  return el(
    "div",
    {},
    el("h3", {}, lang.t("explain.path")),
    el(
      "ol",
      { class: "steps" },
      found.map(({ name, result, took_s: tookS }) =>
        el(
          "li",
          { class: `step step--${kindOf(result)}` },
          el("span", { class: "step__sign", "aria-hidden": "true" }),
          el("span", { class: "step__name" }, lang.word("step", name)),
          el("span", { class: "step__result" }, answer(result, lang)),
          el("span", { class: "step__took number" }, tookS ? lang.seconds(tookS) : ""),
          el(
            "span",
            { class: "step__bar", "aria-hidden": "true" },
            el("span", { style: { width: `${share(tookS, most)}%` } }),
          ),
        ),
      ),
    ),
  );
}

/** What a step said: words that are known in the reader's language, anything else as it came. */
function answer(result, lang) {
  const text = String(result ?? "");
  const tokens = /^(\d+) of (\d+) tokens$/.exec(text);
  if (tokens) return lang.t("answer.tokens", { cached: Number(tokens[1]), n: Number(tokens[2]) });
  const [, word, about] = /^([^()]*?)(?: \((.*)\))?$/.exec(text) ?? [null, text, undefined];
  const key = `check.${word}` in lang.messages ? `check.${word}` : `answer.${word}`;
  if (!(key in lang.messages)) return /^\d*$/.test(text) ? text : el("span", { lang: "en" }, text);
  if (about === undefined) return lang.t(key);
  const group = ["miss", "bypass", "check"].find((name) => `${name}.${about}` in lang.messages && (name === word || name === "check"));
  return [lang.t(key), " (", group ? lang.word(group, about) : el("span", { lang: "en" }, about), ")"];
}

/** Of the longest step, in percent; what cannot be seen is left out. */
function share(tookS, most) {
  const percent = ((tookS ?? 0) / most) * 100;
  return percent < 1 ? 0 : percent;
}

/** A step that answered, that found nothing, that failed, or that passed the request on. */
function kindOf(result) {
  const text = String(result ?? "");
  const word = text.split(" ")[0];
  if (word === "hit" || word === "joined" || /^[1-9]\d* of \d+ tokens$/.test(text)) return "hit";
  if (word === "miss" || word === "bypass" || word === "none") return "miss";
  return /^[45]\d\d$|^error|^refused|^failed/.test(word) ? "bad" : "pass";
}

function about(row, lang) {
  const from = Object.entries(row.tokens_from ?? {})
    .filter(([, num]) => num)
    .map(([source, num]) => `${lang.word("source", source)} ${lang.number(num)}`)
    .join(lang.t("said.comma"));
  return facts([
    [lang.t("explain.at"), row.at ? lang.time(row.at) : null],
    [lang.t("requests.api"), row.api],
    [lang.t("explain.status"), row.status ? String(row.status) : null],
    [lang.t("requests.model"), row.model],
    [lang.t("explain.upstream"), row.upstream],
    [lang.t("explain.namespace"), row.namespace],
    [lang.t("requests.agent"), row.agent],
    [lang.t("requests.session"), row.session],
    [lang.t("explain.stream"), "stream" in row ? lang.t(row.stream ? "word.yes" : "word.no") : null],
    [lang.t("explain.prompt"), Number.isFinite(row.prompt_tokens) ? lang.number(row.prompt_tokens) : null],
    [lang.t("explain.completion"), Number.isFinite(row.completion_tokens) ? lang.number(row.completion_tokens) : null],
    [lang.t("explain.from"), from],
    [lang.t("explain.ttft"), Number.isFinite(row.ttft_s) ? lang.seconds(row.ttft_s) : null],
    [lang.t("explain.duration"), Number.isFinite(row.duration_s) ? lang.seconds(row.duration_s) : null],
    [lang.t("explain.spent"), row.spent_usd ? lang.money(row.spent_usd) : null],
    [lang.t("explain.saved"), row.saved_usd ? lang.money(row.saved_usd) : null],
  ]);
}

function prefixBreak(found, lang) {
  if (!found) return null;
  return el(
    "div",
    {},
    el("h3", {}, lang.t("explain.break")),
    el("p", {}, el("strong", {}, lang.word("cause", found.cause)), lang.t("said.colon"), words(say(found.said, lang), found.label)),
    facts([
      [lang.t("breaks.pointer"), found.pointer ? el("code", {}, found.pointer) : null],
      [lang.t("breaks.byte"), lang.number(found.at_byte)],
      [lang.t("breaks.kept"), lang.number(found.kept_tokens)],
      [lang.t("breaks.lost"), lang.number(found.lost_tokens)],
    ]),
  );
}

function canonical(effects, saved, lang) {
  if (!effects.length) return null;
  const title = lang.t("explain.canonical");
  const rows = effects.map((effect) => [
    el("code", {}, effect.rule),
    lang.number(effect.num_places),
    lang.bytes(effect.num_bytes),
    lang.t(effect.applied ? "canonical.applied" : "canonical.reported"),
  ]);
  const head = ["rule", "places", "bytes", "effect"].map((column) => lang.t(`canonical.${column}`));
  const sum = saved == null ? null : facts([[lang.t("canonical.saved"), lang.number(saved)]]);
  return el("div", {}, el("h3", {}, title), tableBox(title, head, rows, [3]), sum);
}

/** What a word of the server is called; the word itself, which is English, where it is a new one. */
function word(group, own, lang) {
  return words(`${group}.${own}` in lang.messages ? lang.word(group, own) : null, own);
}

/** What was found out, and by whom: `agree, by the model`. */
function learned(text, lang) {
  return text.split(", ").map((part, i) => [i ? lang.t("said.comma") : null, word("learned", part, lang)]);
}

/** What the semantic cache looked at, where it did. */
function checks(told, lang) {
  if (!told.checks?.length) return null;
  const title = lang.t("explain.checks");
  const rows = told.checks.map(({ check, passes, reason: why_, value, limit }) => [
    lang.word("check", check),
    `${passes ? "✓" : "✗"} ${lang.t(passes ? "word.passes" : "word.refuses")}`,
    why_ ? word("reason", why_, lang) : "–",
    lang.number(value, 3),
    lang.number(limit, 3),
  ]);
  const head = ["check", "verdict", "reason", "value", "limit"].map((column) => lang.t(`checks.${column}`));
  return el(
    "div",
    {},
    el("h3", {}, title),
    facts([
      [lang.t("checks.cosine"), lang.number(told.cosine, 3)],
      [lang.t("checks.score"), lang.number(told.score, 3)],
      [lang.t("checks.domain"), told.domain === "default" ? lang.t("name.default") : told.domain],
      [lang.t("checks.learned"), told.learned ? learned(told.learned, lang) : null],
    ]),
    tableBox(title, head, rows, [1, 2]),
  );
}

