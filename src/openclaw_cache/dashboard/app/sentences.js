// What the server says as data, `{code, values}`, in the reader's language. Pure.

/** Sentences as one text; null where one of them is not known here, so that the server's own words are to be shown. */
export function say(said, lang) {
  if (!Array.isArray(said) || !said.length) return null;
  return joined(said.map((one) => sentence(one, lang)), lang.t("said.between"));
}

/** One of them; null also where it lacks a value that its message has a place for. */
function sentence(one, lang) {
  const { code, values } = one ?? {};
  if (!Object.hasOwn(lang.messages, code)) return null;
  const told = {};
  for (const [name, value] of Object.entries(values ?? {})) {
    told[name] = written(value, lang);
    if (told[name] === null) return null;
  }
  const places = lang.messages[code].matchAll(/\{(\w+)/g);
  return [...places].every(([, name]) => Object.hasOwn(told, name)) ? lang.t(code, told) : null;
}

/** Names and numbers as they are, a sentence said, a list in one text. */
function written(value, lang) {
  if (Array.isArray(value)) {
    const parts = value.map((one) => (typeof one === "string" ? lang.t("said.name", { name: one }) : sentence(one, lang)));
    return joined(parts, lang.t("said.comma"));
  }
  return value !== null && typeof value === "object" ? sentence(value, lang) : value;
}

function joined(parts, between) {
  return parts.includes(null) ? null : parts.join(between);
}
