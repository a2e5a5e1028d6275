/** What the tests put in the place of OpenClaw's SDK and of the server. */

import { once } from "node:events";
import { createServer, type IncomingMessage, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { registerHooks } from "node:module";
import { setTimeout } from "node:timers/promises";

const SDK = `
export const delegateCompactionToRuntime = async (params) => params.delegate();
export const buildMemorySystemPromptAddition = ({ availableTools }) => [...availableTools].join(" ") || undefined;
`;

registerHooks({
  resolve: (specifier, context, next) =>
    specifier === "openclaw/plugin-sdk/core"
      ? { url: `data:text/javascript,${encodeURIComponent(SDK)}`, shortCircuit: true }
      : next(specifier, context),
});

export interface Seen {
  method: string;
  url: string;
  headers: IncomingMessage["headers"];
  body: any;
}

type Answer = { status?: number; body?: unknown; raw?: string; hang?: boolean; afterMs?: number };

/** A server that says what `answer` says, and remembers what it was asked. */
export class Standin {
  seen: Seen[] = [];
  answer: (seen: Seen) => Answer = () => ({ body: {} });
  #server: Server | undefined;
  #port = 0;

  get url(): string {
    return `http://127.0.0.1:${this.#port}`;
  }

  async start(): Promise<this> {
    this.#server = createServer(async (request, response) => {
      let text = "";
      for await (const chunk of request) text += chunk;
      const seen = {
        method: request.method ?? "",
        url: request.url ?? "",
        headers: request.headers,
        body: text ? JSON.parse(text) : undefined,
      };
      this.seen.push(seen);
      const { status = 200, body, raw, hang, afterMs } = this.answer(seen);
      if (hang) return;
      if (afterMs) await setTimeout(afterMs);
      response.writeHead(status, { "content-type": "application/json" });
      response.end(raw ?? JSON.stringify(body));
    });
    this.#server.listen(this.#port, "127.0.0.1");
    await once(this.#server, "listening");
    this.#port = (this.#server.address() as AddressInfo).port;
    return this;
  }

  async stop(): Promise<void> {
    this.#server?.closeAllConnections();
    this.#server?.close();
    if (this.#server) await once(this.#server, "close");
  }

  bodies(operation: string): any[] {
    return this.seen.filter(({ url }) => url.endsWith(`/${operation}`)).map(({ body }) => body);
  }
}
