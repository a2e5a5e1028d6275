// Says what stands in a JSON on standard input, `{lang, said: [[sentence, …], …]}`, as the dashboard does.

import { readFileSync } from "node:fs";

const { Language } = await import(process.env.DASHBOARD + "/app/language.js");
const { say } = await import(process.env.DASHBOARD + "/app/sentences.js");

const { lang, said } = JSON.parse(readFileSync(0, "utf8"));
const messages = JSON.parse(readFileSync(new URL(process.env.DASHBOARD + `/i18n/${lang}.json`), "utf8"));
const language = new Language(lang, messages);
process.stdout.write(JSON.stringify(said.map((sentences) => say(sentences, language))));
