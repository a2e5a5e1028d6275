// What stays on the page whatever is shown: head, controls, connection, key, and what is said aloud.

import { Aloud } from "./aloud.js";
import { LANGUAGES } from "./language.js";
import { RANGES, THEMES } from "./preferences.js";
import { el, morph } from "./dom.js";
import { sum } from "./figures.js";
import { empty, server } from "./views/parts.js";

const SAY_EVERY_MS = 60_000;

export class Frame {
  constructor(page, { prefs, api, onRange, onTheme, onLanguage, onKey }) {
    this.page = page;
    this.prefs = prefs;
    this.api = api;
    this.isAsking = false;
    this.saidAt = -Infinity;
    this.saidAlerts = null;
    this.byId = (id) => page.getElementById(id);
    this.aloud = new Aloud(this.byId("said"));
    this.byId("range").addEventListener("change", (event) => onRange(event.target.value));
    this.byId("theme").addEventListener("change", (event) => onTheme(event.target.value));
    this.byId("language").addEventListener("change", (event) => onLanguage(event.target.value));
    this.byId("forget").addEventListener("click", () => onKey(""));
    page.querySelector(".skip").addEventListener("click", (event) => {
      event.preventDefault(); // the address says which view is shown
      this.byId("main").focus();
    });
    this.byId("key").addEventListener("submit", (event) => {
      event.preventDefault();
      const field = this.byId("key-value");
      const { value } = field;
      field.value = "";
      onKey(value.trim());
    });
  }

  /** Put the page's own words into a language. */
  speak(lang, place) {
    const root = this.page.documentElement;
    root.lang = lang.tag;
    for (const node of this.page.querySelectorAll("[data-text]")) node.textContent = lang.t(node.dataset.text);
    for (const node of this.page.querySelectorAll("[data-label]")) node.setAttribute("aria-label", lang.t(node.dataset.label));
    fill(this.byId("range"), RANGES, (name) => lang.t(`range.${name}`), this.prefs.range);
    fill(this.byId("theme"), THEMES, (name) => lang.t(`theme.${name}`), this.prefs.theme);
    fill(this.byId("language"), LANGUAGES, (name) => lang.t(`language.${name}`), this.prefs.language);
    this.#title(lang, place);
  }

  theme(name) {
    this.page.documentElement.dataset.theme = name;
  }

  /** Show where the reader is; a reader who has gone somewhere else begins at its top. */
  place(lang, place, before) {
    for (const link of this.page.querySelectorAll(".views a")) {
      if (link.getAttribute("href") === `#${place.view}`) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
    this.#title(lang, place);
    if (before && before.view !== place.view) this.byId("main").focus({ preventScroll: true });
  }

  /** The view's content, in place of what was there. */
  main(nodes) {
    const wanted = el("main", { id: "main", tabindex: "-1", "data-key": null }, nodes);
    morph(this.byId("main"), wanted);
  }

  forbidden(lang, error) {
    this.main([el("section", { class: "panel" }, el("h2", {}, lang.t("forbidden.title")), empty(lang.t("forbidden.text"), server(error.message)))]);
  }

  askKey(lang, isWrong) {
    this.isAsking = true;
    this.byId("key").hidden = false;
    this.byId("key-wrong").textContent = isWrong ? lang.t("key.wrong") : "";
    this.api.key = "";
    this.byId("forget").hidden = true;
    this.byId("key-value").focus();
  }

  hideKey() {
    this.isAsking = false;
    this.byId("key").hidden = true;
  }

  /** Whether what is seen is of now, and if not, since when. */
  connection(lang, state, poller) {
    const status = poller.state("status");
    if (!lang || !status) return;
    const error = state.errors.status;
    const node = this.byId("connection");
    const waitS = Math.max(0, Math.round((status.nextAt - performance.now()) / 1000));
    let [kind, text] = ["ok", lang.t("connection.live")];
    if (this.isAsking) [kind, text] = ["idle", lang.t("connection.key")];
    else if (error) {
      const key = error.kind === "unreachable" ? "connection.gone" : "connection.failed";
      const since = status.answeredAt ? lang.seconds(Math.round((performance.now() - status.answeredAt) / 1000)) : "";
      [kind, text] = ["bad", `${lang.t(key)} ${lang.t("connection.again", { wait: lang.seconds(waitS) })}`];
      if (since) text += ` ${lang.t("connection.since", { since })}`;
    } else if (!status.answeredAt) [kind, text] = ["idle", lang.t("state.loading")];
    else if (document.hidden) [kind, text] = ["idle", lang.t("connection.hidden")];
    node.className = `connection connection--${kind}`;
    if (node.textContent !== text) node.textContent = text;
    document.body.classList.toggle("is-stale", kind === "bad");
    if (kind !== this.kind && (kind === "bad" || this.kind === "bad")) {
      this.say("connection", lang.t(kind === "bad" ? "connection.gone" : "connection.back"));
    }
    this.kind = kind;
    this.byId("forget").hidden = this.api.key === "" || this.isAsking;
  }

  /** Now and then, and when alerts change: the state of things in one sentence, for those who do not see it. */
  summary({ state, figures, isComing, alerts, lang }) {
    if (!figures || isComing || this.isAsking) return; // not those since the start, where those of a time are on their way
    const names = alerts.map(({ id }) => id).join();
    const isNews = this.saidAlerts !== null && this.saidAlerts !== names;
    const now = performance.now();
    if (!isNews && now - this.saidAt < SAY_EVERY_MS) return;
    const num = figures.numRequests || sum(state.status?.requests);
    const text = lang.t("said.summary", { n: num, ratio: lang.percent(figures.hitRatio.result), alerts: alerts.length });
    this.saidAlerts = names;
    this.saidAt = now;
    if (text !== this.saidText) this.say("summary", text);
    this.saidText = text;
  }

  say(voice, text) {
    this.aloud.say(voice, text);
  }

  sayReadout(id) {
    this.say("readout", this.page.querySelector(`[data-readout="${CSS.escape(id)}"]`)?.textContent ?? "");
  }

  #title(lang, place) {
    this.page.title = `${lang.t(`view.${place.view}`)} · openclaw-cache`;
  }
}

function fill(select, names, text, chosen) {
  select.replaceChildren(...names.map((name) => el("option", { value: name, selected: name === chosen }, text(name))));
}
