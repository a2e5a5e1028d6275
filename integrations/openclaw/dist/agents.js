/** Which agent a session belongs to, and what set off its current turn. */
const MAX_SESSIONS = 1024;
export class Sessions {
    #turns = new Map();
    /** A turn begins; the host says so before it asks for the context. */
    began(context) {
        if (context.sessionId === undefined)
            return;
        this.#turns.delete(context.sessionId);
        this.#turns.set(context.sessionId, context);
        const oldest = this.#turns.keys().next().value;
        if (this.#turns.size > MAX_SESSIONS && oldest !== undefined)
            this.#turns.delete(oldest);
    }
    agent(sessionId, sessionKey) {
        return this.#turns.get(sessionId)?.agentId ?? agentOf(sessionKey);
    }
    /** Whether nobody asked for the current turn: a heartbeat, an event, a schedule. */
    isHeartbeat(sessionId) {
        return this.#turns.get(sessionId)?.trigger === "heartbeat";
    }
}
/** The agent that a session key (`agent:NAME:…`) names; OpenClaw's default agent is `main`. */
export function agentOf(sessionKey) {
    return /^agent:([^:]+):/.exec(sessionKey ?? "")?.[1] ?? "main";
}
