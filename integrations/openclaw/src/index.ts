/** OpenClaw loads this file: one plugin for the memory slot and the context-engine slot. */

import { Sessions } from "./agents.ts";
import { Client } from "./client.ts";
import { createEngine, ENGINE_ID, type Shared } from "./engine.ts";
import { registerHints } from "./hints.ts";
import type { Logger, PluginApi } from "./host.ts";
import { memoryCapability } from "./memory.ts";
import { LastRecalls } from "./placing.ts";
import { readSettings, type Settings } from "./settings.ts";
import { registerTools } from "./tools.ts";
import { Turns } from "./turns.ts";

const HELD = Symbol.for("openclaw-cache.shared");
const inProcess = globalThis as { [HELD]?: Shared };

/**
 * One state for the process. The host may load and register a plugin several times, and take its hooks from one time
 * and its engine from another.
 */
function sharedFor(settings: Settings, logger: Logger): Shared {
  const held = inProcess[HELD];
  if (held && JSON.stringify(held.settings) === JSON.stringify(settings)) return held;
  const client = new Client(settings, logger);
  const turns = new Turns(client, logger);
  return (inProcess[HELD] = { settings, client, sessions: new Sessions(), recalls: new LastRecalls(), turns });
}

export default {
  id: ENGINE_ID,
  name: "openclaw-cache",
  description: "Context engine and memory per agent, kept by an openclaw-cache server.",
  register(api: PluginApi): void {
    const state = sharedFor(readSettings(api.pluginConfig), api.logger ?? {});
    api.registerContextEngine(ENGINE_ID, () => createEngine(state));
    api.registerMemoryCapability(memoryCapability(state.client, state.settings));
    registerTools(api, state.client, state.recalls);
    registerHints(api, state);
  },
};
