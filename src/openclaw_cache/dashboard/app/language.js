// Words, numbers and times in the reader's language.

export const LANGUAGES = ["en", "zh"];
const TAGS = { en: "en", zh: "zh-CN" };

/** The first of a browser's languages that we speak. */
export function preferred(tags) {
  for (const tag of tags) {
    const own = String(tag).toLowerCase().split("-")[0];
    if (LANGUAGES.includes(own)) return own;
  }
  return "en";
}

/** One language: `t` for messages, the rest for values. Nothing known is a dash. */
export class Language {
  constructor(name, messages) {
    this.name = name;
    this.tag = TAGS[name];
    this.messages = messages;
    this.formats = new Map();
  }

  /**
   * A message by its key; `key.one` is taken for an `n` of one. `{name}` in it is replaced, a number by the language's
   * rules; `{name:d}` by its bare digits, `{name:.1%}` by a share with so many digits, `{name:group}` by what a word of
   * that group is called.
   */
  t(key, values = {}) {
    const text = (values.n === 1 ? this.messages[`${key}.one`] : undefined) ?? this.messages[key] ?? key;
    return text.replace(/\{(\w+)(?::([^{}]+))?\}/g, (whole, name, form) =>
      name in values ? this.#written(values[name], form) : whole,
    );
  }

  #written(value, form) {
    if (typeof value !== "number") return form ? this.word(form, value) : String(value);
    if (form === "d") return String(value);
    const digits = /^\.(\d)%$/.exec(form ?? "")?.[1];
    if (digits === undefined) return this.number(value);
    return this.#format({ style: "percent", minimumFractionDigits: digits, maximumFractionDigits: digits }).format(value);
  }

  /** What a word of the server is called; the word itself where it is a new one. */
  word(group, word) {
    return this.messages[`${group}.${word}`] ?? String(word ?? "");
  }

  number(value, digits = 0) {
    return isKnown(value) ? this.#format({ maximumFractionDigits: digits }).format(value) : "–";
  }

  /** 1,234 as it is; 12,345,678 as 12.3M. */
  short(value) {
    if (!isKnown(value)) return "–";
    if (Math.abs(value) < 100_000) return this.number(value, Math.abs(value) < 10 ? 1 : 0);
    return this.#format({ notation: "compact", maximumFractionDigits: 1 }).format(value);
  }

  percent(value, digits = 1) {
    return isKnown(value) ? this.#format({ style: "percent", maximumFractionDigits: digits }).format(value) : "–";
  }

  /** Small sums keep two digits that mean something. */
  money(value) {
    if (!isKnown(value)) return "–";
    const size = Math.abs(value);
    const digits = size === 0 || size >= 1 ? 2 : Math.min(8, 1 - Math.floor(Math.log10(size)));
    return this.#format({
      style: "currency", currency: "USD", currencyDisplay: "narrowSymbol",
      minimumFractionDigits: Math.min(digits, 2), maximumFractionDigits: digits,
    }).format(value);
  }

  seconds(value) {
    if (!isKnown(value)) return "–";
    const size = Math.abs(value);
    if (size === 0) return this.#unit("s", 0, 0);
    if (size < 0.001) return this.#unit("us", value * 1e6, size < 0.00001 ? 1 : 0);
    if (size < 1) return this.#unit("ms", value * 1000, size < 0.01 ? 1 : 0);
    if (size < 120) return this.#unit("s", value, size < 10 ? 1 : 0);
    if (size < 7200) return this.#unit("min", value / 60, 0);
    if (size < 172_800) return this.#unit("h", value / 3600, 1);
    return this.#unit("d", value / 86_400, 1);
  }

  bytes(value) {
    if (!isKnown(value)) return "–";
    const units = ["B", "kB", "MB", "GB", "TB"];
    let size = value;
    let at = 0;
    while (Math.abs(size) >= 1000 && at < units.length - 1) {
      size /= 1000;
      at += 1;
    }
    return this.#unit(units[at], size, at > 0 && Math.abs(size) < 100 ? 1 : 0);
  }

  /** A time of day, with the date where the span is longer than a day. `at` is unix seconds. */
  time(at, spanS = 0) {
    if (!isKnown(at)) return "–";
    const date = { month: "short", day: "numeric" };
    const minutes = { hour: "2-digit", minute: "2-digit", hourCycle: "h23" };
    if (spanS > 7 * 86_400) return this.#date(date).format(at * 1000);
    if (spanS > 86_400) return this.#date({ ...date, ...minutes }).format(at * 1000);
    return this.#date(spanS > 0 ? minutes : { ...minutes, second: "2-digit" }).format(at * 1000);
  }

  #unit(unit, value, digits) {
    return this.t(`unit.${unit}`, { value: this.number(value, digits) });
  }

  #format(options) {
    return this.#cached(`n${JSON.stringify(options)}`, () => new Intl.NumberFormat(this.tag, options));
  }

  #date(options) {
    return this.#cached(`d${JSON.stringify(options)}`, () => new Intl.DateTimeFormat(this.tag, options));
  }

  #cached(name, make) {
    let format = this.formats.get(name);
    if (format === undefined) this.formats.set(name, (format = make()));
    return format;
  }
}

function isKnown(value) {
  return typeof value === "number" && Number.isFinite(value);
}
