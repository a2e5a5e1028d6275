// When each answer is asked for again. One question of a kind is in the air at most, whatever happens.

const MOST_WAIT_MS = 30_000;
const HIDDEN_WAIT_MS = 60_000;

/**
 * Asks feeds again and again. A feed is `{name, everyMs(), isWanted(), ask()}`; `ask` may throw an ApiError.
 *
 * `clock` gives `now()`, `set(f, ms)` and `clear(id)`; `isHidden` tells whether anybody looks; `onAnswer(name, value)`,
 * `onFailure(name, error)` and `onChange()` tell what happened.
 */
export class Poller {
  constructor({ clock, isHidden, onAnswer, onFailure, onChange }) {
    this.clock = clock;
    this.isHidden = isHidden;
    this.onAnswer = onAnswer;
    this.onFailure = onFailure;
    this.onChange = onChange;
    this.feeds = new Map();
    this.isStopped = false;
  }

  add(feed) {
    this.feeds.set(feed.name, {
      feed, timer: null, isAsking: false, isStale: false, numFailures: 0, nextAt: 0, answeredAt: 0, version: 0,
    });
    this.wake(feed.name);
  }

  /** Ask now, all feeds or one. One that is being asked is asked once more when it has its answer. */
  wake(name = null) {
    for (const [its, state] of this.feeds) {
      if (name !== null && its !== name) continue;
      if (state.isAsking) {
        state.isStale = true;
        continue;
      }
      this.#schedule(state, 0);
    }
  }

  /** What a feed asks for has changed: an answer that is still on its way is of no use. */
  renew(name) {
    const state = this.feeds.get(name);
    state.version += 1;
    this.wake(name);
  }

  stop() {
    this.isStopped = true;
    for (const state of this.feeds.values()) this.clock.clear(state.timer);
  }

  resume() {
    this.isStopped = false;
    this.wake();
  }

  /** Of a feed: `{numFailures, nextAt, answeredAt}`. */
  state(name) {
    return this.feeds.get(name);
  }

  #schedule(state, waitMs) {
    this.clock.clear(state.timer);
    state.nextAt = this.clock.now() + waitMs;
    state.timer = this.isStopped ? null : this.clock.set(() => this.#ask(state), waitMs);
  }

  async #ask(state) {
    const { feed } = state;
    if (this.isStopped || state.isAsking) return;
    if (!feed.isWanted()) {
      this.#schedule(state, feed.everyMs());
      return;
    }
    const startedAt = this.clock.now();
    const { version } = state;
    state.isAsking = true;
    state.isStale = false;
    try {
      const value = await feed.ask();
      state.numFailures = 0;
      state.answeredAt = this.clock.now();
      if (version === state.version) this.onAnswer(feed.name, value);
    } catch (error) {
      state.numFailures += 1;
      if (version === state.version) this.onFailure(feed.name, error);
    } finally {
      state.isAsking = false;
    }
    const tookMs = this.clock.now() - startedAt;
    this.#schedule(state, state.isStale ? 0 : this.#waitMs(state, tookMs));
    this.onChange();
  }

  #waitMs(state, tookMs) {
    if (this.isHidden()) return HIDDEN_WAIT_MS;
    const everyMs = state.feed.everyMs();
    if (state.numFailures > 0) return Math.min(MOST_WAIT_MS, everyMs * 2 ** Math.min(state.numFailures, 10));
    // A server that needs long for an answer is not asked for most of the time.
    return Math.max(everyMs, 3 * tookMs);
  }
}
