/**
 * What of a host message may leave the process. Only fields that are named here are copied, from objects that are
 * named here; whatever else the host adds (its configuration, keys, image data, reasoning) stays.
 */

import type { HostMessage } from "./host.ts";

export interface SentMessage {
  role: string;
  content: string | SentPart[];
  timestamp?: number;
  idempotencyKey?: string;
  toolCallId?: string;
  toolName?: string;
  excludeFromContext?: true;
}

export type SentPart =
  | { type: "text"; text: string }
  | { type: "toolCall"; id: string; name: string; arguments: unknown }
  | { type: "image"; mimeType?: string };

const ROLES = new Set(["user", "assistant", "toolResult", "custom", "compactionSummary", "branchSummary"]);

/** The messages as they are sent; one entry for each, so that positions stay. */
export function pickAll(messages: readonly HostMessage[]): SentMessage[] {
  return messages.map(pick);
}

export function pick(message: HostMessage): SentMessage {
  const { role, timestamp, idempotencyKey, toolCallId, toolName } = message;
  const sent: SentMessage = {
    role: ROLES.has(role) ? role : "custom",
    content: pickContent(message.content ?? message.summary),
  };
  if (typeof timestamp === "number" && Number.isFinite(timestamp)) sent.timestamp = timestamp;
  if (typeof idempotencyKey === "string") sent.idempotencyKey = idempotencyKey;
  if (typeof toolCallId === "string") sent.toolCallId = toolCallId;
  if (typeof toolName === "string") sent.toolName = toolName;
  if (message.excludeFromContext === true || !ROLES.has(role)) sent.excludeFromContext = true;
  return sent;
}

function pickContent(content: unknown): string | SentPart[] {
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return "";
  return content.flatMap(pickPart);
}

function pickPart(part: unknown): SentPart[] {
  if (typeof part !== "object" || part === null || !("type" in part)) return [];
  if (part.type === "text" && "text" in part && typeof part.text === "string") return [{ type: "text", text: part.text }];
  if (part.type === "image") {
    const mimeType = "mimeType" in part ? part.mimeType : undefined;
    return [typeof mimeType === "string" ? { type: "image", mimeType } : { type: "image" }];
  }
  if (part.type !== "toolCall") return [];
  const { id, name, arguments: given } = part as { id?: unknown; name?: unknown; arguments?: unknown };
  return [{ type: "toolCall", id: String(id ?? ""), name: String(name ?? ""), arguments: given ?? {} }];
}
