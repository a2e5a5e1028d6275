/**
 * What this plugin uses of OpenClaw's plugin interface (2026.9), and no more: the host's own types come with 650 MB.
 * Fields that are not named here are not read, so they cannot leave the process.
 */

export interface HostMessage {
  role: string;
  content?: unknown;
  summary?: unknown;
  timestamp?: unknown;
  idempotencyKey?: unknown;
  toolCallId?: unknown;
  toolName?: unknown;
  excludeFromContext?: unknown;
}

export interface SessionIds {
  sessionId: string;
  sessionKey?: string;
}

export interface AssembleParams extends SessionIds {
  messages: HostMessage[];
  tokenBudget?: number;
  availableTools?: Set<string>;
  citationsMode?: string;
  prompt?: string;
}

export interface AssembleResult {
  messages: HostMessage[];
  estimatedTokens: number;
  systemPromptAddition?: string;
}

export interface CommitParams extends SessionIds {
  advancementKey: string;
  messages: HostMessage[];
  sessionTarget?: { agentId?: string };
  isHeartbeat?: boolean;
}

export interface IngestBatchParams extends SessionIds {
  messages: HostMessage[];
  isHeartbeat?: boolean;
}

export interface IngestParams extends SessionIds {
  message: HostMessage;
  isHeartbeat?: boolean;
}

export interface CompactParams {
  abortSignal?: AbortSignal;
}

export interface CompactResult {
  ok: boolean;
  compacted: boolean;
  reason?: string;
}

export interface SpawnParams {
  parentSessionKey: string;
  childSessionKey: string;
  contextMode?: "isolated" | "fork";
  parentSessionId?: string;
  childSessionId?: string;
}

export interface SubagentEndedParams {
  childSessionKey: string;
  reason: string;
}

export interface ContextEngine {
  readonly info: {
    id: string;
    name: string;
    version: string;
    ownsCompaction: boolean;
    turnMaintenanceMode: "background";
    acceptedHostParams: string[];
    transcriptSemantics: {
      currentTurnFence: "before-current-turn-entry-v1";
      turnAdvancementIdempotency: "atomic-idempotent-v1";
    };
  };
  bootstrap(params: SessionIds): Promise<{ bootstrapped: boolean }>;
  ingest(params: IngestParams): Promise<{ ingested: boolean }>;
  ingestBatch(params: IngestBatchParams): Promise<{ ingestedCount: number }>;
  assemble(params: AssembleParams): Promise<AssembleResult>;
  commitTurn(params: CommitParams): Promise<{ status: "committed" | "duplicate" }>;
  compact(params: CompactParams): Promise<CompactResult>;
  maintain(params: SessionIds): Promise<{ changed: boolean; bytesFreed: number; rewrittenEntries: number }>;
  prepareSubagentSpawn(params: SpawnParams): Promise<{ rollback: () => Promise<void> }>;
  onSubagentEnded(params: SubagentEndedParams): Promise<void>;
  dispose(): Promise<void>;
}

/** Where a hook or a tool was called from. */
export interface CallContext {
  agentId?: string;
  sessionId?: string;
  sessionKey?: string;
  trigger?: string;
}

export interface Tool {
  name: string;
  label: string;
  description: string;
  parameters: object;
  execute(id: string, params: Record<string, unknown>): Promise<ToolResult>;
}

export interface ToolResult {
  content: { type: "text"; text: string }[];
  details: object;
}

export interface SearchHit {
  path: string;
  startLine: number;
  endLine: number;
  score: number;
  snippet: string;
  source: "memory" | "sessions";
}

export interface MemoryManager {
  search(query: string, options?: SearchOptions): Promise<SearchHit[]>;
  readFile(params: { relPath: string; from?: number; lines?: number }): Promise<ReadResult>;
  status(): object;
  probeEmbeddingAvailability(): Promise<{ ok: boolean; error?: string }>;
  probeVectorAvailability(): Promise<boolean>;
}

export interface SearchOptions {
  maxResults?: number;
  lexicalOnly?: boolean;
  sources?: string[];
}

export type ReadResult =
  | { status: "ok"; text: string; path: string }
  | { status: "not_found"; text: ""; path: string };

export interface WorkspacePaths {
  workspaceDir: string;
  relativePaths: string[];
  readSources?: readonly { relativePath: string; canonicalRelativePath?: string }[];
}

export interface PathOrigin {
  relativePath: string;
  originClass: "agent" | "untrusted";
}

export interface MemoryCapability {
  promptBuilder(params: { availableTools?: Set<string> }): string[];
  flushPlanResolver(): null;
  runtime: {
    getMemorySearchManager(params: { agentId: string }): Promise<{ manager: MemoryManager }>;
    resolveMemoryBackendConfig(): { backend: "builtin" };
    supportsWorkspaceMemoryReadSources: true;
    classifyWorkspaceMemoryPaths(params: WorkspacePaths): Promise<PathOrigin[]>;
  };
}

export interface Logger {
  info?(text: string): void;
  warn?(text: string): void;
}

export interface PluginApi {
  pluginConfig?: unknown;
  logger?: Logger;
  registerContextEngine(id: string, factory: () => ContextEngine): void;
  registerMemoryCapability(capability: MemoryCapability): void;
  registerTool(factory: (context: CallContext) => Tool, options: { name: string }): void;
  on(hook: string, handler: (event: unknown, context: unknown) => void): void;
}
