// Calls of the official Node SDKs, one after the other.
// Reads {"vendor", "baseURL", "apiKey", "maxRetries", "calls": [{"method", "args", "mode"}]} from standard input and
// prints a JSON array: what the SDK made of each reply, or the error that it threw.
//   whole: the object; list: all items of a page; stream: the events; final: what the SDK's own accumulator makes of
//   a stream; cancel: reads one event of a stream and leaves.
import { text } from "node:stream/consumers";

const { vendor, baseURL, apiKey, maxRetries, calls } = JSON.parse(await text(process.stdin));
const { default: SDK } = await import(vendor === "openai" ? "openai" : "@anthropic-ai/sdk");
const client = new SDK({ baseURL, apiKey, maxRetries });

const modes = {
  async whole(target, name, args) {
    const { data, response } = await target[name](...args).withResponse();
    return { value: data, cacheStatus: response.headers.get("cache-status") };
  },
  async list(target, name, args) {
    const items = [];
    for await (const item of target[name](...args)) items.push(item);
    return { value: items };
  },
  async stream(target, name, args) {
    const { data, response } = await target[name](...args).withResponse();
    const events = [];
    for await (const event of data) events.push(event);
    return { value: events, cacheStatus: response.headers.get("cache-status") };
  },
  async final(target, name, args) {
    const stream = target[name](...args);
    const finals = ["finalMessage", "finalResponse", "finalChatCompletion"];
    return { value: await stream[finals.find((final) => final in stream)]() };
  },
  async cancel(target, name, args) {
    const stream = await target[name](...args);
    for await (const event of stream) return { value: event };  // leaving the loop aborts the request
  },
};

async function made({ method, args, mode }) {
  const path = method.split(".");
  const name = path.pop();
  const target = path.reduce((found, part) => found[part], client);
  try {
    return await modes[mode](target, name, args);
  } catch (error) {
    if (!(error instanceof SDK.APIError)) throw error;
    return {
      error: error.constructor.name,
      status: error.status ?? null,
      code: error.code ?? null,
      type: error.type ?? null,
      retryAfter: error.headers?.get("retry-after") ?? null,
      requestId: error.requestID ?? null,
    };
  }
}

const seen = [];
for (const call of calls) seen.push(await made(call));
console.log(JSON.stringify(seen));
