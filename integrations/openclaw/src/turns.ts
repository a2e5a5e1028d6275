/**
 * Finished turns on their way to the server. A turn that it could not take waits here and goes before the next one,
 * under the same key. The host's own queue is not used for this: while a turn waits there, the session's later turns
 * run without this engine and with another system prompt.
 */

import type { Client } from "./client.ts";
import type { Logger } from "./host.ts";

export interface Turn {
  agent: string;
  /** The body of `POST turns`; its key names the turn, however often it is sent. */
  body: { key: string; [field: string]: unknown };
}

export type Outcome = "committed" | "duplicate" | "waiting";

const MAX_TURNS = 256;
const MAX_BYTES = 16_000_000;
const RETRY_MS = 10_000;

export class Turns {
  readonly #client: Client;
  readonly #logger: Logger;
  readonly #waiting = new Map<string, Turn & { size: number }>();
  #numBytes = 0;
  #sending: Promise<void> = Promise.resolve();
  #timer: NodeJS.Timeout | undefined;

  constructor(client: Client, logger: Logger) {
    this.#client = client;
    this.#logger = logger;
  }

  get numWaiting(): number {
    return this.#waiting.size;
  }

  /** Sends what waits, then this turn; what became of this turn. */
  async commit(turn: Turn): Promise<Outcome> {
    const key = `${turn.agent} ${turn.body.key}`;
    this.#add(key, turn);
    let outcome: Outcome = "waiting";
    await this.#send((sent, status) => {
      if (sent === key) outcome = status;
    });
    return outcome;
  }

  /** Sends what waits, oldest first, until the server does not answer. */
  async flush(): Promise<void> {
    if (this.#waiting.size > 0) await this.#send(() => undefined);
  }

  /** The same, but waits no longer than `mostMs`; the sending goes on. A reply must not wait for a long queue. */
  async flushWithin(mostMs: number): Promise<void> {
    if (this.#waiting.size === 0) return;
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise((resolve) => (timer = setTimeout(resolve, mostMs)));
    await Promise.race([this.flush(), late]);
    clearTimeout(timer);
  }

  #add(key: string, turn: Turn): void {
    this.#remove(key);
    const size = JSON.stringify(turn.body).length;
    this.#waiting.set(key, { ...turn, size });
    this.#numBytes += size;
    while (this.#waiting.size > MAX_TURNS || (this.#numBytes > MAX_BYTES && this.#waiting.size > 1)) {
      const [oldest] = this.#waiting.keys();
      if (oldest === undefined) break;
      this.#remove(oldest);
      this.#logger.warn?.("openclaw-cache: too many turns wait; the oldest is left to be read from the history");
    }
  }

  #remove(key: string): void {
    this.#numBytes -= this.#waiting.get(key)?.size ?? 0;
    this.#waiting.delete(key);
  }

  /** One sender at a time, so that turns arrive in the order in which they were said. */
  #send(told: (key: string, status: "committed" | "duplicate") => void): Promise<void> {
    this.#sending = this.#sending.then(async () => {
      for (const [key, { agent, body }] of [...this.#waiting]) {
        const reply = await this.#client.call(agent, "POST", "turns", body);
        if (reply.kind === "away") break;
        this.#remove(key);
        told(key, reply.kind === "ok" && reply.body["status"] === "duplicate" ? "duplicate" : "committed");
      }
      this.#retryLater();
    });
    return this.#sending;
  }

  #retryLater(): void {
    clearTimeout(this.#timer);
    if (this.#waiting.size === 0) return;
    this.#timer = setTimeout(() => void this.flush(), RETRY_MS);
    this.#timer.unref();
  }
}
