/** The context engine: assembles with recall, hands finished turns over, leaves compaction to OpenClaw. */

import { buildMemorySystemPromptAddition, delegateCompactionToRuntime } from "openclaw/plugin-sdk/core";

import { agentOf, type Sessions } from "./agents.ts";
import type { Client } from "./client.ts";
import type {
  AssembleParams,
  AssembleResult,
  CommitParams,
  CompactParams,
  CompactResult,
  ContextEngine,
  IngestBatchParams,
  IngestParams,
  SpawnParams,
  SubagentEndedParams,
} from "./host.ts";
import { pickAll } from "./pick.ts";
import { type Insertion, LastRecalls, place, readInsertions } from "./placing.ts";
import type { Settings } from "./settings.ts";
import type { Turns } from "./turns.ts";

export const ENGINE_ID = "openclaw-cache";

const INFO: ContextEngine["info"] = {
  id: ENGINE_ID,
  name: "openclaw-cache",
  version: "0.1.0",
  ownsCompaction: false,
  turnMaintenanceMode: "background",
  // runtimeContext holds the whole configuration, keys included. It is asked for because OpenClaw's own compaction
  // takes its model from there, and goes back to it as it came; nothing else here reads it.
  acceptedHostParams: ["sessionKey", "prompt", "sessionTarget", "runtimeContext", "abortSignal"],
  transcriptSemantics: {
    currentTurnFence: "before-current-turn-entry-v1",
    turnAdvancementIdempotency: "atomic-idempotent-v1",
  },
};

/** What all engine instances of a process share: the host makes a new instance for every turn. */
export interface Shared {
  settings: Settings;
  client: Client;
  sessions: Sessions;
  recalls: LastRecalls;
  turns: Turns;
}

/** No method throws: for OpenClaw a throw means that the engine is broken, and it goes on without it. */
export function createEngine(shared: Shared): ContextEngine {
  return {
    info: INFO,
    bootstrap: async () => ({ bootstrapped: true }),
    ingest: async (params) => ({ ingested: (await ingestBatch(shared, batchOf(params))) > 0 }),
    ingestBatch: async (params) => ({ ingestedCount: await ingestBatch(shared, params) }),
    assemble: (params) => assemble(shared, params),
    commitTurn: (params) => commitTurn(shared, params),
    compact,
    maintain: async () => ({ changed: false, bytesFreed: 0, rewrittenEntries: 0 }),
    prepareSubagentSpawn: (params) => prepareSubagentSpawn(shared, params),
    onSubagentEnded: (params) => onSubagentEnded(shared, params),
    dispose: async () => undefined,
  };
}

async function assemble(shared: Shared, params: AssembleParams): Promise<AssembleResult> {
  const insertions = await insertionsFor(shared, params);
  const messages = place(params.messages, insertions);
  const addition = memoryLines(params);
  return {
    messages,
    estimatedTokens: Math.ceil(JSON.stringify(pickAll(messages)).length / 4),
    ...(addition ? { systemPromptAddition: addition } : {}),
  };
}

async function insertionsFor(shared: Shared, params: AssembleParams): Promise<Insertion[]> {
  const { sessionId, sessionKey, messages, prompt, tokenBudget } = params;
  await shared.turns.flushWithin(shared.settings.timeoutMs);
  const reply = await shared.client.call(shared.sessions.agent(sessionId, sessionKey), "POST", "context:assemble", {
    session_id: sessionId,
    session_key: sessionKey,
    prompt: shared.settings.recall ? prompt : undefined,
    messages: pickAll(messages),
    token_budget: tokenBudget,
    is_heartbeat: shared.sessions.isHeartbeat(sessionId),
    capture: shared.settings.capture ? undefined : false,
  });
  if (reply.kind !== "ok" || hasNoStore(reply.body)) return shared.recalls.recall(sessionId, messages);
  const insertions = readInsertions(reply.body["insertions"]);
  shared.recalls.remember(sessionId, messages, insertions);
  return insertions;
}

function hasNoStore({ degraded }: Record<string, unknown>): boolean {
  return Array.isArray(degraded) && degraded.includes("store");
}

/** The sections of all memory plugins, as the host prepared them for this run. */
function memoryLines(params: AssembleParams): string | undefined {
  try {
    return buildMemorySystemPromptAddition({
      availableTools: params.availableTools ?? new Set(),
      ...(params.citationsMode === undefined ? {} : { citationsMode: params.citationsMode }),
      ...(params.sessionKey === undefined ? {} : { agentSessionKey: params.sessionKey }),
    });
  } catch {
    return undefined; // a host that prepares no sections
  }
}

async function commitTurn(shared: Shared, params: CommitParams): Promise<{ status: "committed" | "duplicate" }> {
  const { sessionId, sessionKey, advancementKey, messages, isHeartbeat } = params;
  const outcome = await shared.turns.commit({
    agent: params.sessionTarget?.agentId ?? shared.sessions.agent(sessionId, sessionKey),
    body: {
      key: advancementKey,
      session_id: sessionId,
      session_key: sessionKey,
      messages: pickAll(messages),
      is_heartbeat: isHeartbeat === true,
      capture: shared.settings.capture ? undefined : false,
    },
  });
  return { status: outcome === "duplicate" ? "duplicate" : "committed" };
}

/** A host without finished turns gives messages as they come; the same messages get the same key again. */
async function ingestBatch(shared: Shared, params: IngestBatchParams): Promise<number> {
  const { sessionId, sessionKey, messages, isHeartbeat } = params;
  const [first] = messages;
  if (first === undefined) return 0;
  await commitTurn(shared, {
    sessionId,
    ...(sessionKey === undefined ? {} : { sessionKey }),
    ...(isHeartbeat === undefined ? {} : { isHeartbeat }),
    advancementKey: `ingest ${sessionId} ${String(first.timestamp)} ${first.role} ${messages.length}`,
    messages,
  });
  return messages.length;
}

function batchOf({ message, ...rest }: IngestParams): IngestBatchParams {
  return { ...rest, messages: [message] };
}

async function compact(params: CompactParams): Promise<CompactResult> {
  try {
    return await delegateCompactionToRuntime(params);
  } catch (error) {
    if (params.abortSignal?.aborted) throw error; // the host's own wish, which it does not count as a fault
    return { ok: false, compacted: false, reason: error instanceof Error ? error.message : String(error) };
  }
}

async function prepareSubagentSpawn(
  shared: Shared,
  params: SpawnParams,
): Promise<{ rollback: () => Promise<void> }> {
  const agent = agentOf(params.parentSessionKey);
  const child = { child_session_key: params.childSessionKey, child_session_id: params.childSessionId };
  await shared.client.call(agent, "POST", "sessions:fork", {
    parent_session_id: params.parentSessionId,
    parent_session_key: params.parentSessionKey,
    ...child,
    mode: params.contextMode ?? "isolated",
  });
  return {
    rollback: async () => {
      await shared.client.call(agent, "POST", "sessions:rollback", child);
    },
  };
}

async function onSubagentEnded(shared: Shared, params: SubagentEndedParams): Promise<void> {
  await shared.client.call(agentOf(params.childSessionKey), "POST", "sessions:end", {
    session_key: params.childSessionKey,
    reason: params.reason,
  });
}
