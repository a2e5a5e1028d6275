/** The model's tools: each is one request, and its answer is what the server said. */
import { agentOf } from "./agents.js";
const string = (description) => ({ type: "string", description });
const whole = (description) => ({ type: "integer", minimum: 1, description });
const strings = (description) => ({ type: "array", items: { type: "string" }, description });
const SINCE = string("Only from this time on: ISO 8601, or words like \"last week\" or \"上周\".");
const UNTIL = string("Only before this time: ISO 8601.");
const ID = string("The id of a memory, as memory_search shows it.");
const only = (params, ...names) => Object.fromEntries(names.filter((name) => params[name] !== undefined).map((name) => [name, params[name]]));
const memoryPath = (params) => `memories/${encodeURIComponent(String(params["id"] ?? "").replace(/^memory\//, ""))}`;
const DEFINITIONS = [
    {
        name: "memory_search",
        label: "Search memory",
        description: "Search your durable memory by meaning, words and time. Use it before answering about earlier work.",
        properties: {
            query: string("What to look for."),
            since: SINCE,
            until: UNTIL,
            tags: strings("Only memories with all of these tags."),
            limit: whole("How many at most; 10 when absent."),
        },
        required: ["query"],
        order: (params) => ({
            method: "POST",
            path: "memories:search",
            body: only(params, "query", "since", "until", "tags", "limit"),
        }),
    },
    {
        name: "memory_get",
        label: "Read a memory",
        description: "Read one memory in full, by its id.",
        properties: { id: ID },
        required: ["id"],
        order: (params) => ({ method: "GET", path: memoryPath(params) }),
    },
    {
        name: "memory_store",
        label: "Store a memory",
        description: "Keep one lasting fact, decision or preference for later conversations. One fact per call.",
        properties: {
            text: string("The fact, as a sentence that is understood without this conversation."),
            kind: string("For example fact, decision, preference, task; fact when absent."),
            tags: strings("Words to find it by."),
            time: string("When it happened, ISO 8601; now when absent."),
            slot: string("What it answers (\"user.email\"): a newer memory with the same slot supersedes it."),
        },
        required: ["text"],
        order: (params) => ({
            method: "POST",
            path: "memories",
            body: { ...only(params, "text", "kind", "tags", "time", "slot"), source: "openclaw" },
        }),
    },
    {
        name: "memory_update",
        label: "Correct a memory",
        description: "Correct or re-tag one memory, by its id. The earlier version is kept.",
        properties: { id: ID, text: string("The new text."), kind: string("The new kind."), tags: strings("The new tags.") },
        required: ["id"],
        order: (params) => ({ method: "PATCH", path: memoryPath(params), body: only(params, "text", "kind", "tags") }),
    },
    {
        name: "memory_forget",
        label: "Forget a memory",
        description: "Remove one memory for good, by its id, from all places where it was recalled.",
        properties: { id: ID },
        required: ["id"],
        order: (params) => ({ method: "DELETE", path: memoryPath(params) }),
    },
    {
        name: "context_search",
        label: "Search earlier messages",
        description: "Search all earlier messages word for word, also those that were compacted away.",
        properties: {
            query: string("What to look for."),
            all_sessions: { type: "boolean", description: "Look in your other sessions too; only in this one when absent." },
            since: SINCE,
            until: UNTIL,
            limit: whole("How many at most; 10 when absent."),
        },
        required: ["query"],
        order: (params, { sessionId }) => ({
            method: "POST",
            path: "turns:search",
            body: {
                ...only(params, "query", "since", "until", "limit"),
                session_id: params["all_sessions"] === true ? undefined : sessionId,
            },
        }),
    },
    {
        name: "context_expand",
        label: "Read earlier messages",
        description: "Read the messages around one that context_search has found.",
        properties: {
            id: string("The message or turn id that context_search shows."),
            before: whole("How many messages before it; 2 when absent."),
            after: whole("How many messages after it; 2 when absent."),
        },
        required: ["id"],
        order: (params) => ({ method: "POST", path: "turns:expand", body: only(params, "id", "before", "after") }),
    },
];
export function registerTools(api, client, recalls) {
    for (const definition of DEFINITIONS) {
        const { name, label, description, properties, required } = definition;
        api.registerTool((context) => ({
            name,
            label,
            description,
            parameters: { type: "object", additionalProperties: false, properties, required },
            execute: async (_id, params) => {
                const { method, path, body } = definition.order(params ?? {}, context);
                if (method === "PATCH" || method === "DELETE")
                    recalls.forgetAll();
                const agent = context.agentId ?? agentOf(context.sessionKey);
                return shown(await client.call(agent, method, path, body), name.startsWith("memory_"));
            },
        }), { name });
    }
}
/** Of a memory the model needs neither its book-keeping nor where it came from: the tokens are better spent. */
const BOOK_KEEPING = new Set(["created_at", "updated_at", "version", "source", "supersedes", "provenance", "slot"]);
function shown(reply, isMemory) {
    if (reply.kind === "ok") {
        const kept = (key, value) => (isMemory && BOOK_KEEPING.has(key) ? undefined : value);
        return result(JSON.stringify(reply.body, kept), { ok: true });
    }
    if (reply.kind === "refused")
        return result(`Not done: ${reply.message}`, { ok: false, status: reply.status });
    return result("Memory cannot be reached at the moment. Go on without it.", { ok: false });
}
function result(text, details) {
    return { content: [{ type: "text", text }], details };
}
