/** The one way to the server: a JSON request with a time limit, which says what came of it and never throws. */
/** After a failed connection nothing is tried for this long, so that one turn waits for an absent server once. */
const REST_MS = 5000;
export class Client {
    #settings;
    #logger;
    #now;
    #restsUntil = 0;
    #isAway = false;
    constructor(settings, logger, now = Date.now) {
        this.#settings = settings;
        this.#logger = logger;
        this.#now = now;
    }
    /** Requests `path` below the agent's address; waits `timeoutMs` at most. */
    async call(agent, method, path, body) {
        if (this.#now() < this.#restsUntil)
            return { kind: "away" };
        const { url, apiKey, timeoutMs } = this.#settings;
        try {
            const response = await fetch(`${url}/v1/agents/${encodeURIComponent(agent)}/${path}`, {
                method,
                headers: {
                    ...(body ? { "content-type": "application/json" } : {}),
                    ...(apiKey ? { authorization: `Bearer ${apiKey}` } : {}),
                },
                ...(body ? { body: JSON.stringify(body) } : {}),
                redirect: "error",
                signal: AbortSignal.timeout(timeoutMs),
            });
            return this.#read(response.status, await response.text(), path);
        }
        catch (error) {
            this.#restsUntil = this.#now() + REST_MS;
            this.#away(path, reason(error));
            return { kind: "away" };
        }
    }
    #read(status, text, path) {
        const body = parsed(text);
        if (status >= 200 && status < 300 && body) {
            if (this.#isAway)
                this.#logger.info?.(`openclaw-cache: ${this.#settings.url} answers again`);
            this.#isAway = false;
            return { kind: "ok", body };
        }
        const isFinal = [400, 404, 405, 409, 413, 415, 422].includes(status);
        if (!isFinal) {
            this.#away(path, `status ${status}`);
            return { kind: "away" };
        }
        this.#logger.warn?.(`openclaw-cache: ${operation(path)}: refused with status ${status}`);
        return { kind: "refused", status, message: errorMessage(body) };
    }
    /** Says once that the server is away, not at every call. */
    #away(path, why) {
        if (this.#isAway)
            return;
        this.#isAway = true;
        this.#logger.warn?.(`openclaw-cache: ${operation(path)}: no answer from ${this.#settings.url} (${why}); going on without it`);
    }
}
function parsed(text) {
    try {
        const value = JSON.parse(text);
        return typeof value === "object" && value !== null ? { ...value } : undefined;
    }
    catch {
        return undefined;
    }
}
function errorMessage(body) {
    const error = body?.["error"];
    const message = typeof error === "object" && error !== null && "message" in error ? error.message : undefined;
    return typeof message === "string" ? message : "refused";
}
/** The code of a connection's fault (ECONNREFUSED), or what kind it is (TimeoutError). */
function reason(error) {
    if (!(error instanceof Error))
        return "error";
    const { cause } = error;
    return typeof cause === "object" && cause !== null && "code" in cause ? String(cause.code) : error.name;
}
/** The path without ids and query, for a log line. */
function operation(path) {
    return path.split(/[/?]/, 1)[0] ?? "";
}
