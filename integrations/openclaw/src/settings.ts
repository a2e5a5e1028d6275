/** The plugin's own configuration, `plugins.entries.openclaw-cache.config`. */

export interface Settings {
  url: string;
  apiKey: string | undefined;
  timeoutMs: number;
  recall: boolean;
  capture: boolean;
}

const DEFAULT_URL = "http://127.0.0.1:8800";
const DEFAULT_TIMEOUT_MS = 3000;

/** The settings, with a default for whatever is absent or of another type. */
export function readSettings(config: unknown, environment: NodeJS.ProcessEnv = process.env): Settings {
  const given: Record<string, unknown> = typeof config === "object" && config !== null ? { ...config } : {};
  const key = text(given["apiKey"]) ?? environment[text(given["apiKeyEnv"]) ?? ""];
  const timeout = given["timeoutMs"];
  return {
    url: (text(given["url"]) ?? DEFAULT_URL).replace(/\/+$/, ""),
    apiKey: key || undefined,
    timeoutMs: typeof timeout === "number" && timeout >= 100 ? timeout : DEFAULT_TIMEOUT_MS,
    recall: given["recall"] !== false,
    capture: given["capture"] !== false,
  };
}

function text(value: unknown): string | undefined {
  return typeof value === "string" && value !== "" ? value : undefined;
}
