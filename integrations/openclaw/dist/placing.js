/** Puts the server's recalls into the history, and keeps the last ones for when it does not answer. */
/** What the server said, without what is not an insertion. */
export function readInsertions(value) {
    if (!Array.isArray(value))
        return [];
    return value.filter((item) => typeof item === "object" && item !== null && Number.isInteger(item.index) && item.index >= 0 &&
        typeof item.text === "string" && item.text !== "");
}
/**
 * The messages with the insertions among them; the messages themselves are not changed. An inserted message has no
 * timestamp: the host would put it before the text, and the text must stay the same bytes in every later turn. It
 * never parts a tool call from its result, which providers refuse.
 */
export function place(messages, insertions) {
    const texts = new Map();
    for (const { index, text } of insertions) {
        let at = Math.min(index, messages.length);
        while (messages[at]?.role === "toolResult")
            at += 1;
        texts.set(at, [...(texts.get(at) ?? []), text]);
    }
    const inserted = (at) => (texts.get(at) ?? []).map((content) => ({ role: "user", content }));
    return [...messages.flatMap((message, at) => [...inserted(at), message]), ...inserted(messages.length)];
}
const MAX_SESSIONS = 256;
/**
 * The last recalls of each session, by the message that they stand after. While the server is away they are placed
 * again, so that an outage does not change the prompt's prefix.
 */
export class LastRecalls {
    #sessions = new Map();
    remember(session, messages, insertions) {
        this.#sessions.delete(session);
        if (insertions.length === 0)
            return;
        this.#sessions.set(session, insertions.map(({ index, text }) => ({ after: mark(messages[index - 1]), text })));
        const oldest = this.#sessions.keys().next().value;
        if (this.#sessions.size > MAX_SESSIONS && oldest !== undefined)
            this.#sessions.delete(oldest);
    }
    /** Those whose place is still in the history. */
    recall(session, messages) {
        const known = this.#sessions.get(session) ?? [];
        if (known.length === 0)
            return [];
        const places = new Map([[mark(undefined), 0]]);
        messages.forEach((message, at) => places.set(mark(message), at + 1));
        return known.flatMap(({ after, text }) => {
            const index = places.get(after);
            return index === undefined ? [] : [{ index, text }];
        });
    }
    forget(session) {
        this.#sessions.delete(session);
    }
    /** A memory was changed or removed: nothing that was recalled before counts any more. */
    forgetAll() {
        this.#sessions.clear();
    }
}
/** Names a message across turns: the host may rewrite its content, but not when it was said and by whom. */
function mark(message) {
    return message === undefined ? "start" : `${message.role} ${String(message.timestamp)}`;
}
