// One chat request through the OpenAI Node SDK.
// Reads {"baseURL", "apiKey", "body"} from standard input and prints what the SDK made of the reply as JSON.
import { text } from "node:stream/consumers";
import OpenAI from "openai";

const { baseURL, apiKey, body } = JSON.parse(await text(process.stdin));
const client = new OpenAI({ baseURL, apiKey, maxRetries: 0 });

function seen(response, fields) {
  const header = (name) => response.headers.get(name);
  return { cacheStatus: header("cache-status"), age: header("age"), contentType: header("content-type"), ...fields };
}

async function whole() {
  const { data, response } = await client.chat.completions.create(body).withResponse();
  const [choice] = data.choices;
  return seen(response, { id: data.id, text: choice.message.content, finishReason: choice.finish_reason, usage: data.usage });
}

async function streamed() {
  const { data, response } = await client.chat.completions.create(body).withResponse();
  const fields = { id: null, text: "", finishReason: null, usage: null, numChunks: 0 };
  for await (const chunk of data) {
    fields.id ??= chunk.id;
    fields.numChunks += 1;
    fields.usage = chunk.usage ?? fields.usage;
    for (const choice of chunk.choices) {
      fields.text += choice.delta.content ?? "";
      fields.finishReason = choice.finish_reason ?? fields.finishReason;
    }
  }
  return seen(response, fields);
}

try {
  console.log(JSON.stringify(body.stream ? await streamed() : await whole()));
} catch (error) {
  if (!(error instanceof OpenAI.APIError)) throw error;
  console.log(JSON.stringify({ error: error.constructor.name, status: error.status, code: error.code }));
}
