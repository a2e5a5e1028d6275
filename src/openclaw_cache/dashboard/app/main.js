// The page: what is asked, what is shown, and what its reader does.

import { Degraded, alerts } from "./alerts.js";
import { Api } from "./api.js";
import { listen } from "./charts/figure.js";
import { feedsOf } from "./feeds.js";
import { ofHistory, ofStatus } from "./figures.js";
import { Frame } from "./frame.js";
import { Language } from "./language.js";
import { Poller } from "./poller.js";
import { Preferences } from "./preferences.js";
import { placeOf } from "./place.js";
import { TreePane } from "./tree/pane.js";
import { overview } from "./views/overview.js";
import { prefixes } from "./views/prefixes.js";
import { requests } from "./views/requests.js";
import { system } from "./views/system.js";
import { tree } from "./views/tree.js";

const VIEWS = { overview, tree, requests, prefixes, system };
const base = new URL("./", document.baseURI);
const api = new Api(base, sessionStorage);
const prefs = new Preferences(localStorage, navigator.languages);
const state = { errors: {} };
const degraded = new Degraded();
const asked = { filters: { outcome: "", agent: "", model: "", session: "" }, tree: { limit: 1000, upstream: null } };
let lang = null;
let place = placeOf(location.hash);
let isPainting = false;

const frame = new Frame(document, { prefs, api, onRange, onTheme, onLanguage, onKey });
const poller = new Poller({
  clock: { now: () => performance.now(), set: (f, ms) => setTimeout(f, ms), clear: (id) => clearTimeout(id) },
  isHidden: () => document.hidden,
  onAnswer,
  onFailure,
  onChange: paint,
});
const pane = new TreePane({ api, asked: asked.tree, say: (text) => frame.say("tree", text), onChange: paint });

function onAnswer(name, value) {
  state[name] = value;
  delete state.errors[name];
  if (name === "status") {
    if (state.startedAt !== undefined && state.startedAt !== value.started_at) poller.wake();
    state.startedAt = value.started_at;
    degraded.add(Date.now() / 1000, value.degraded);
  }
}

function onFailure(name, error) {
  state.errors[name] = error;
  if (error.kind === "auth") {
    if (frame.isAsking) return;
    poller.stop();
    forget();
    frame.askKey(lang, api.key !== "");
  } else if (error.kind === "missing" || error.kind === "forbidden") delete state[name];
}

/** What was told to somebody with the key is not shown to somebody without. */
function forget() {
  for (const name of Object.keys(state)) if (name !== "errors") delete state[name];
  pane.close();
}

function onKey(key) {
  api.key = key;
  if (key === "") {
    poller.stop();
    forget();
    frame.askKey(lang, false);
    paint();
    return;
  }
  frame.hideKey();
  state.errors = {};
  poller.resume();
}

function onRange(range) {
  prefs.range = range;
  delete state.history;
  delete state.analysis;
  poller.renew("history");
  poller.renew("analysis");
  paint();
}

function onTheme(theme) {
  prefs.theme = theme;
  frame.theme(theme);
}

async function onLanguage(name) {
  prefs.language = name;
  await speak();
}

async function speak() {
  const response = await fetch(new URL(`dashboard/i18n/${prefs.language}.json`, base), { credentials: "omit" });
  lang = new Language(prefs.language, await response.json());
  frame.speak(lang, place);
  pane.speak(lang);
  paint();
}

function context() {
  const { range } = prefs;
  const history = range !== "start" && state.history?.points?.length ? state.history : null;
  return {
    state,
    lang,
    prefs,
    place,
    history,
    filters: asked.filters,
    isComing: place.view === "overview" && range !== "start" && !state.history && !state.errors.history,
    figures: history ? ofHistory(history) : state.status ? ofStatus(state.status) : null,
    alerts: alerts(state.status, degraded.risen(), state.analysis?.findings),
    treeQuery: asked.tree,
    treeChoice: pane.choice,
    treeText: pane.text,
  };
}

/** Draw once for all that has changed since the last frame. */
function paint() {
  if (isPainting) return;
  isPainting = true;
  requestAnimationFrame(() => {
    isPainting = false;
    if (lang === null) return;
    const told = context();
    frame.connection(lang, state, poller);
    if (frame.isAsking) frame.main([]);
    else if (state.errors.status?.kind === "forbidden") frame.forbidden(lang, state.errors.status);
    else frame.main([VIEWS[place.view](told)].flat());
    pane.draw(state.tree, lang);
    frame.summary(told);
  });
}

function onPlace() {
  const before = place;
  place = placeOf(location.hash);
  if (before.id !== place.id) {
    delete state.explain;
    delete state.errors.explain;
    poller.renew("explain");
  }
  if (before.view !== place.view) {
    pane.close();
    poller.wake();
    scrollTo(0, 0);
  }
  frame.place(lang, place, before);
  paint();
}

function onField({ target }) {
  if (target.dataset.filter) {
    asked.filters[target.dataset.filter] = target.value.trim();
    delete state.requests;
    poller.renew("requests");
    paint();
  } else if (target.dataset.tree) {
    asked.tree[target.dataset.tree] = target.dataset.tree === "limit" ? Number(target.value) : target.value;
    poller.renew("tree");
  }
}

function onClick(event) {
  const button = event.target.closest("[data-action]");
  if (button) pane.act(button.dataset.action, button.dataset.id);
}

addEventListener("hashchange", onPlace);
document.addEventListener("visibilitychange", () => {
  if (document.hidden) paint();
  else poller.wake();
});
document.addEventListener("change", onField);
document.addEventListener("submit", (event) => event.preventDefault());
document.addEventListener("click", onClick);
addEventListener("online", () => poller.wake());
listen(document, paint, (id) => requestAnimationFrame(() => requestAnimationFrame(() => frame.sayReadout(id))));
frame.theme(prefs.theme);
await speak();
frame.place(lang, place, null);
feedsOf({ api, prefs, asked, place: () => place, state }).forEach((feed) => poller.add(feed));
setInterval(() => frame.connection(lang, state, poller), 1000);
