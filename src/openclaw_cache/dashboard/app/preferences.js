// What a reader has chosen. Kept in the browser; nothing of it is secret.

import { LANGUAGES, preferred } from "./language.js";

const PREFIX = "openclaw-cache.";
export const THEMES = ["auto", "light", "dark"];
export const RANGES = ["last 15m", "last 1h", "last 24h", "last 7d", "last 30d", "start"];

export class Preferences {
  constructor(storage, languages) {
    this.storage = storage;
    this.languages = languages;
    this.chosen = new Map(); // a browser may forbid storage: then a choice holds for this visit
  }

  get theme() {
    return this.#one("theme", THEMES, "auto");
  }

  set theme(value) {
    this.#keep("theme", value);
  }

  get language() {
    return this.#one("language", LANGUAGES, preferred(this.languages));
  }

  set language(value) {
    this.#keep("language", value);
  }

  get range() {
    return this.#one("range", RANGES, "last 1h");
  }

  set range(value) {
    this.#keep("range", value);
  }

  #one(name, known, otherwise) {
    let found = this.chosen.get(name) ?? null;
    try {
      found ??= this.storage.getItem(PREFIX + name);
    } catch {
      // Forbidden: the default.
    }
    return known.includes(found) ? found : otherwise;
  }

  #keep(name, value) {
    this.chosen.set(name, value);
    try {
      this.storage.setItem(PREFIX + name, value);
    } catch {
      // Forbidden: for this visit only.
    }
  }
}
