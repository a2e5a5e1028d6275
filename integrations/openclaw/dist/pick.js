/**
 * What of a host message may leave the process. Only fields that are named here are copied, from objects that are
 * named here; whatever else the host adds (its configuration, keys, image data, reasoning) stays.
 */
const ROLES = new Set(["user", "assistant", "toolResult", "custom", "compactionSummary", "branchSummary"]);
/** The messages as they are sent; one entry for each, so that positions stay. */
export function pickAll(messages) {
    return messages.map(pick);
}
export function pick(message) {
    const { role, timestamp, idempotencyKey, toolCallId, toolName } = message;
    const sent = {
        role: ROLES.has(role) ? role : "custom",
        content: pickContent(message.content ?? message.summary),
    };
    if (typeof timestamp === "number" && Number.isFinite(timestamp))
        sent.timestamp = timestamp;
    if (typeof idempotencyKey === "string")
        sent.idempotencyKey = idempotencyKey;
    if (typeof toolCallId === "string")
        sent.toolCallId = toolCallId;
    if (typeof toolName === "string")
        sent.toolName = toolName;
    if (message.excludeFromContext === true || !ROLES.has(role))
        sent.excludeFromContext = true;
    return sent;
}
function pickContent(content) {
    if (typeof content === "string")
        return content;
    if (!Array.isArray(content))
        return "";
    return content.flatMap(pickPart);
}
function pickPart(part) {
    if (typeof part !== "object" || part === null || !("type" in part))
        return [];
    if (part.type === "text" && "text" in part && typeof part.text === "string")
        return [{ type: "text", text: part.text }];
    if (part.type === "image") {
        const mimeType = "mimeType" in part ? part.mimeType : undefined;
        return [typeof mimeType === "string" ? { type: "image", mimeType } : { type: "image" }];
    }
    if (part.type !== "toolCall")
        return [];
    const { id, name, arguments: given } = part;
    return [{ type: "toolCall", id: String(id ?? ""), name: String(name ?? ""), arguments: given ?? {} }];
}
