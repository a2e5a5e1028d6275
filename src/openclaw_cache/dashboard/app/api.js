// What the server is asked, and what can come of it.

const TIMEOUT_MS = 15_000;
const KEY = "openclaw-cache.admin-key";

/** Why there is no answer: `auth`, `forbidden`, `missing` (not part of this server), `failed` or `unreachable`. */
export class ApiError extends Error {
  constructor(kind, message, status = 0) {
    super(message);
    this.kind = kind;
    this.status = status;
  }
}

const KINDS = { 401: "auth", 403: "forbidden", 404: "missing", 405: "missing", 409: "missing", 501: "missing" };

/** Asks `/admin/…` of the server that the page came from, with the admin key where there is one. */
export class Api {
  constructor(base, session, fetcher = globalThis.fetch.bind(globalThis)) {
    this.base = base;
    this.session = session;
    this.fetcher = fetcher;
  }

  /** Kept for this tab only, and gone with it. */
  get key() {
    return this.session.getItem(KEY) ?? "";
  }

  set key(value) {
    if (value) this.session.setItem(KEY, value);
    else this.session.removeItem(KEY);
  }

  /** The decoded answer. Throws ApiError. */
  async get(path, parameters = {}) {
    const url = new URL(path, this.base);
    for (const [name, value] of Object.entries(parameters)) {
      if (value !== "" && value !== null && value !== undefined) url.searchParams.set(name, value);
    }
    const headers = this.key ? { authorization: `Bearer ${this.key}` } : {};
    let response;
    try {
      response = await this.fetcher(url, {
        headers,
        cache: "no-store",
        credentials: "omit",
        redirect: "error",
        signal: AbortSignal.timeout(TIMEOUT_MS),
      });
    } catch (error) {
      throw new ApiError("unreachable", String(error?.message ?? error));
    }
    let body = null;
    try {
      body = await response.json();
    } catch {
      throw new ApiError(response.ok ? "unreachable" : (KINDS[response.status] ?? "failed"), "", response.status);
    }
    if (response.ok) return body;
    const message = typeof body?.error?.message === "string" ? body.error.message : "";
    const isOff = String(body?.error?.code ?? "").endsWith("_off");
    throw new ApiError(isOff ? "missing" : (KINDS[response.status] ?? "failed"), message, response.status);
  }
}
