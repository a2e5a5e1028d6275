/** Which agent a session belongs to, and what set off its current turn. */

import type { CallContext } from "./host.ts";

const MAX_SESSIONS = 1024;

export class Sessions {
  readonly #turns = new Map<string, CallContext>();

  /** A turn begins; the host says so before it asks for the context. */
  began(context: CallContext): void {
    if (context.sessionId === undefined) return;
    this.#turns.delete(context.sessionId);
    this.#turns.set(context.sessionId, context);
    const oldest = this.#turns.keys().next().value;
    if (this.#turns.size > MAX_SESSIONS && oldest !== undefined) this.#turns.delete(oldest);
  }

  agent(sessionId: string, sessionKey: string | undefined): string {
    return this.#turns.get(sessionId)?.agentId ?? agentOf(sessionKey);
  }

  /** Whether nobody asked for the current turn: a heartbeat, an event, a schedule. */
  isHeartbeat(sessionId: string): boolean {
    return this.#turns.get(sessionId)?.trigger === "heartbeat";
  }
}

/** The agent that a session key (`agent:NAME:…`) names; OpenClaw's default agent is `main`. */
export function agentOf(sessionKey: string | undefined): string {
  return /^agent:([^:]+):/.exec(sessionKey ?? "")?.[1] ?? "main";
}
