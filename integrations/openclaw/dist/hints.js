/** Tells the server what a session is doing, so that its cache keeps or releases the session's prompt. */
import { agentOf } from "./agents.js";
import { pickAll } from "./pick.js";
/** A session goes on after these. */
const GOES_ON = new Set(["compaction", "shutdown", "restart"]);
/** Nothing here is awaited: a hook must not delay a reply. */
export function registerHints(api, shared) {
    const { client, sessions, recalls, settings } = shared;
    const tell = (context, path, body) => {
        if (context.sessionId === undefined)
            return;
        void client.call(context.agentId ?? agentOf(context.sessionKey), "POST", path, {
            session_id: context.sessionId,
            session_key: context.sessionKey,
            ...body,
        });
    };
    api.on("before_model_resolve", (_event, context) => sessions.began(called(context)));
    api.on("before_tool_call", (_event, context) => tell(called(context), "hints", { state: "tool" }));
    api.on("agent_end", (_event, context) => tell(called(context), "hints", { state: "idle" }));
    api.on("before_reset", (event, context) => {
        const messages = field(event, "messages");
        if (!Array.isArray(messages))
            return;
        tell(called(context), "context:assemble", {
            messages: pickAll(messages),
            capture: settings.capture ? undefined : false,
        });
    });
    api.on("session_end", (event, context) => {
        const session = called(context);
        const reason = field(event, "reason");
        if (session.sessionId === undefined || GOES_ON.has(String(reason)))
            return;
        recalls.forget(session.sessionId);
        tell(session, "sessions:end", { reason: typeof reason === "string" ? reason : "unknown" });
    });
}
function called(context) {
    const found = {};
    for (const name of ["agentId", "sessionId", "sessionKey", "trigger"]) {
        const value = field(context, name);
        if (typeof value === "string")
            found[name] = value;
    }
    return found;
}
function field(value, name) {
    return typeof value === "object" && value !== null ? value[name] : undefined;
}
