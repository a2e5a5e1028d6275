/** The two functions of OpenClaw's SDK that are used; the host resolves the import. */
declare module "openclaw/plugin-sdk/core" {
  export function delegateCompactionToRuntime(
    params: object,
  ): Promise<{ ok: boolean; compacted: boolean; reason?: string }>;
  export function buildMemorySystemPromptAddition(params: {
    availableTools: Set<string>;
    citationsMode?: string;
    agentSessionKey?: string;
  }): string | undefined;
}
