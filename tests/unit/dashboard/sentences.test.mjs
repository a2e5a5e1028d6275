import assert from "node:assert/strict";
import { test } from "node:test";

const { Language } = await import(process.env.DASHBOARD + "/app/language.js");
const { say } = await import(process.env.DASHBOARD + "/app/sentences.js");

const lang = new Language("en", {
  "said.between": "; ", "said.comma": ", ", "said.name": "“{name}”",
  "gone": "{n} tools are gone: {names}", "gone.one": "{names} is gone", "where": "{what} in {place}", "place": "a place",
});

test("a sentence is said with its values, a sentence in it said, a list as one text", () => {
  const gone = { code: "gone", values: { n: 2, names: ["a", "b"] } };
  assert.equal(say([gone, { code: "place" }], lang), "2 tools are gone: “a”, “b”; a place");
  assert.equal(say([{ code: "where", values: { what: gone, place: { code: "place" } } }], lang), "2 tools are gone: “a”, “b” in a place");
});

test("names are only names, whatever stands in them", () => {
  const name = "{n} $& <img src=x> {constructor}";
  assert.equal(say([{ code: "gone", values: { n: 1, names: [name] } }], lang), `“${name}” is gone`);
});

test("what is not wholly understood is left to the server's own words", () => {
  for (const one of [
    null, 5, "gone", {}, { code: "new" }, { code: "constructor" }, { code: "__proto__" }, { code: "gone", values: null },
    { code: "gone", values: { n: 2 } }, { code: "gone", values: { n: 2, names: null } }, { code: "gone", values: { n: 2, names: [null] } },
    { code: "where", values: { what: { code: "new" }, place: { code: "place" } } }, { code: "where", values: { what: "x", place: [{}] } },
  ]) {
    assert.equal(say([one], lang), null, JSON.stringify(one));
    assert.equal(say([{ code: "place" }, one], lang), null, JSON.stringify(one));
  }
});
