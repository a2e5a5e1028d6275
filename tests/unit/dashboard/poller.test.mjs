import assert from "node:assert/strict";
import { test } from "node:test";

const { Poller } = await import(process.env.DASHBOARD + "/app/poller.js");

/** A clock that a test moves, and a feed whose answers it gives. */
function scene({ isHidden = () => false, everyMs = 2000 } = {}) {
  const timers = new Map();
  let id = 0;
  const clock = {
    at: 0,
    now: () => clock.at,
    set: (f, ms) => (timers.set((id += 1), { f, at: clock.at + ms }), id),
    clear: (one) => timers.delete(one),
  };
  const asked = [];
  const seen = [];
  const poller = new Poller({
    clock,
    isHidden,
    onAnswer: (name, value) => seen.push(value),
    onFailure: (name, error) => seen.push(error),
    onChange: () => {},
  });
  const feed = {
    name: "status",
    everyMs: () => everyMs,
    isWanted: () => true,
    ask: () => new Promise((answer, fail) => asked.push({ answer, fail, at: clock.at })),
  };
  /** Let time go by; what is due is done in its order. */
  async function pass(ms) {
    const end = clock.at + ms;
    for (;;) {
      await new Promise(setImmediate);
      const due = [...timers].filter(([, timer]) => timer.at <= end).sort((a, b) => a[1].at - b[1].at)[0];
      if (!due) break;
      timers.delete(due[0]);
      clock.at = Math.max(clock.at, due[1].at);
      due[1].f();
    }
    clock.at = end;
    await new Promise(setImmediate);
  }
  return { poller, feed, asked, seen, clock, pass };
}

test("a server that does not answer has one question of a kind at most, however long it takes", async () => {
  const { poller, feed, asked, pass } = scene();
  poller.add(feed);
  await pass(60_000);
  poller.wake();
  poller.wake("status");
  await pass(60_000);
  assert.equal(asked.length, 1);
});

test("it is asked every two seconds", async () => {
  const { poller, feed, asked, pass } = scene();
  poller.add(feed);
  await pass(0);
  for (const at of [0, 2000, 4000]) {
    assert.equal(asked.at(-1).at, at);
    asked.at(-1).answer({});
    await pass(2000);
  }
});

test("a slow server is left in peace three times as long as it took", async () => {
  const { poller, feed, asked, pass } = scene();
  poller.add(feed);
  await pass(5000);
  asked[0].answer({});
  await pass(14_999);
  assert.equal(asked.length, 1);
  await pass(1);
  assert.equal(asked.length, 2);
});

test("a server that fails is asked less and less often, at last every 30 seconds, and it is known when", async () => {
  const { poller, feed, asked, pass, clock } = scene();
  poller.add(feed);
  await pass(0);
  const waits = [];
  for (let i = 0; i < 6; i += 1) {
    asked.at(-1).fail(new Error("gone"));
    await pass(0);
    const { nextAt } = poller.state("status");
    waits.push(nextAt - clock.now());
    await pass(nextAt - clock.now());
  }
  assert.deepEqual(waits, [4000, 8000, 16_000, 30_000, 30_000, 30_000]);
});

test("one that comes back is asked every two seconds again", async () => {
  const { poller, feed, asked, pass } = scene();
  poller.add(feed);
  await pass(0);
  asked[0].fail(new Error("gone"));
  await pass(4000);
  asked[1].answer({});
  await pass(2000);
  assert.equal(asked.length, 3);
});

test("nobody looks: a minute between questions; when somebody looks again it is asked at once", async () => {
  let hidden = true;
  const { poller, feed, asked, pass } = scene({ isHidden: () => hidden });
  poller.add(feed);
  await pass(0);
  asked[0].answer({});
  await pass(59_999);
  assert.equal(asked.length, 1);
  hidden = false;
  poller.wake();
  await pass(0);
  assert.equal(asked.length, 2);
});

test("an answer to what is no longer asked is not shown, and it is asked anew", async () => {
  const { poller, feed, asked, seen, pass } = scene();
  poller.add(feed);
  await pass(0);
  poller.renew("status");
  asked[0].answer("old");
  await pass(0);
  assert.deepEqual(seen, []);
  asked[1].answer("new");
  await pass(0);
  assert.deepEqual(seen, ["new"]);
});

test("what was stopped asks nothing until it is resumed", async () => {
  const { poller, feed, asked, pass } = scene();
  poller.add(feed);
  await pass(0);
  poller.stop();
  asked[0].fail(new Error("no key"));
  await pass(100_000);
  assert.equal(asked.length, 1);
  poller.resume();
  await pass(0);
  assert.equal(asked.length, 2);
});
