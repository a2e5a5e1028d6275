import assert from "node:assert/strict";
import { test } from "node:test";

const { Language, preferred } = await import(process.env.DASHBOARD + "/app/language.js");

const messages = {
  "n": "{n} tokens", "n.one": "one token", "who": "by {name}", "outcome.miss": "miss",
  "unit.us": "{value} µs", "unit.ms": "{value} ms", "unit.s": "{value} s", "unit.min": "{value} min",
  "unit.h": "{value} h", "unit.d": "{value} d", "unit.B": "{value} B", "unit.kB": "{value} kB",
  "unit.MB": "{value} MB", "unit.GB": "{value} GB", "unit.TB": "{value} TB",
};
const en = new Language("en", messages);

test("the first language of the browser that is spoken here is taken, else English", () => {
  assert.equal(preferred(["de-DE", "zh-TW", "en"]), "zh");
  assert.equal(preferred(["fr", "de"]), "en");
  assert.equal(preferred([]), "en");
});

test("numbers in messages are written by the language's rules, and one is one", () => {
  assert.equal(en.t("n", { n: 1234 }), "1,234 tokens");
  assert.equal(en.t("n", { n: 1 }), "one token");
});

test("a message says how a value is written: bare digits, a share, a word of a group", () => {
  const told = { line: "line {at:d}", full: "{used:.0%} full", exactly: "{ratio:.1%}", why: "it was a {reason:outcome}" };
  const lang = new Language("en", { ...messages, ...told });
  assert.equal(lang.t("line", { at: 1204 }), "line 1204");
  assert.equal(lang.t("full", { used: 0.97 }), "97% full");
  assert.equal(lang.t("exactly", { ratio: 0.5 }), "50.0%");
  assert.equal(lang.t("why", { reason: "miss" }), "it was a miss");
  assert.equal(lang.t("why", { reason: "new-word" }), "it was a new-word");
});

test("a value is put in as it is: braces in it are not looked up", () => {
  assert.equal(en.t("who", { name: "{n}<b>" }), "by {n}<b>");
});

test("a message that is not there shows its key, a word that is not known shows itself", () => {
  assert.equal(en.t("no.such"), "no.such");
  assert.equal(en.word("outcome", "miss"), "miss");
  assert.equal(en.word("outcome", "new-word"), "new-word");
});

test("nothing known is a dash, never a zero", () => {
  for (const write of ["number", "short", "percent", "money", "seconds", "bytes", "time"]) {
    assert.equal(en[write](null), "–", write);
    assert.equal(en[write](undefined), "–", write);
    assert.equal(en[write](Number.NaN), "–", write);
  }
});

test("seconds have the unit that people would take", () => {
  const cases = [
    [0, "0 s"], [0.0000042, "4.2 µs"], [0.00031, "310 µs"], [0.0042, "4.2 ms"], [0.34, "340 ms"], [1.91, "1.9 s"],
    [75, "75 s"], [840, "14 min"], [9000, "2.5 h"], [200_000, "2.3 d"],
  ];
  for (const [seconds, text] of cases) assert.equal(en.seconds(seconds), text);
});

test("bytes are decimal, as the settings are", () => {
  const cases = [[0, "0 B"], [999, "999 B"], [8874, "8.9 kB"], [256_000_000, "256 MB"], [19_974_758_400, "20 GB"]];
  for (const [bytes, text] of cases) assert.equal(en.bytes(bytes), text);
});

test("money keeps two digits that mean something", () => {
  assert.equal(en.money(0), "$0.00");
  assert.equal(en.money(3.814), "$3.81");
  assert.equal(en.money(0.00214), "$0.0021");
});

test("large numbers are shortened by the language's own words", () => {
  assert.equal(en.short(99_999), "99,999");
  assert.equal(en.short(2_856_000), "2.9M");
  assert.equal(new Language("zh", messages).short(2_856_000), "285.6万");
});
