/** OpenClaw loads this file: one plugin for the memory slot and the context-engine slot. */
import { Sessions } from "./agents.js";
import { Client } from "./client.js";
import { createEngine, ENGINE_ID } from "./engine.js";
import { registerHints } from "./hints.js";
import { memoryCapability } from "./memory.js";
import { LastRecalls } from "./placing.js";
import { readSettings } from "./settings.js";
import { registerTools } from "./tools.js";
import { Turns } from "./turns.js";
const HELD = Symbol.for("openclaw-cache.shared");
const inProcess = globalThis;
/**
 * One state for the process. The host may load and register a plugin several times, and take its hooks from one time
 * and its engine from another.
 */
function sharedFor(settings, logger) {
    const held = inProcess[HELD];
    if (held && JSON.stringify(held.settings) === JSON.stringify(settings))
        return held;
    const client = new Client(settings, logger);
    const turns = new Turns(client, logger);
    return (inProcess[HELD] = { settings, client, sessions: new Sessions(), recalls: new LastRecalls(), turns });
}
export default {
    id: ENGINE_ID,
    name: "openclaw-cache",
    description: "Context engine and memory per agent, kept by an openclaw-cache server.",
    register(api) {
        const state = sharedFor(readSettings(api.pluginConfig), api.logger ?? {});
        api.registerContextEngine(ENGINE_ID, () => createEngine(state));
        api.registerMemoryCapability(memoryCapability(state.client, state.settings));
        registerTools(api, state.client, state.recalls);
        registerHints(api, state);
    },
};
