"""What an operator may see and do with the engine's KV cache. Everything here runs on the engine's thread."""

from __future__ import annotations

import fnmatch
import re
import time
from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from openclaw_cache.engine.timed_cache import TimedCache
from openclaw_cache.kv.agent import AgentAware
from openclaw_cache.kv.block import NOWHERE, Tier

if TYPE_CHECKING:
    from collections.abc import Mapping

    from openclaw_cache.engine.engine import Engine
    from openclaw_cache.kv.lease import Lease
    from openclaw_cache.kv.node import Node
    from openclaw_cache.kv.rhythm import Hint
    from openclaw_cache.types import Json

_MOST_TEXT = 2000
"""Characters of a node's text that are shown."""


def status(engine: Engine) -> Json:
    """Tiers, blocks, hits and pins. Cost: O(nodes)."""
    cache, loop = engine.loop.cache, engine.loop
    cache.poll(time.monotonic())
    looked_up = cache.num_looked_up_tokens
    return {
        "enabled": cache.is_enabled,
        "block_tokens": cache.tree.block_tokens,
        "window": engine.window,
        "tiers": [_tier(engine, tier) for tier in Tier],
        "blocks": _blocks(engine),
        "num_lookups_tokens": looked_up,
        "num_hits_tokens": sum(cache.num_hit_tokens.values()),
        "hit_ratio": sum(cache.num_hit_tokens.values()) / looked_up if looked_up else None,
        "saved_prefill_s": round(cache.saved_prefill_s, 3),
        "prefill_s_per_token": cache.prefill_s_per_token,
        **(cache.figures() if isinstance(cache, TimedCache) else {}),
        "num_evicted_blocks": {
            tier.name.lower(): num for tier, num in cache.lower.num_evicted_blocks.items()
        },
        "eviction": {"policy": engine.settings.eviction, **_judgement(engine)},
        "num_failures": {tier.name.lower(): num for tier, num in cache.movement.num_failures.items()},
        "pins": [
            {"id": lease.id, "num_tokens": lease.num_tokens, "expires_at": _unix(lease.expires_at)}
            for lease in cache.leases
        ],
        "num_pins_given_way": cache.leases.num_given_way,
        "running": loop.num_running,
        "waiting": loop.num_waiting,
        # A fault ends the process, so what was checked was right.
        "integrity": {"checked_at": _unix(loop.checked_at), "ok": loop.checked_at is not None or None},
    }


def tree(engine: Engine, limit: int, *, with_text: bool) -> Json:
    """The radix tree as at most `limit` rows, parents first, then what was evicted last."""
    cache = engine.loop.cache
    rows = cache.tree.describe(limit)
    for row in rows:
        for name in ("last_used_at", "removed_at"):
            if name in row:
                row[name] = _unix(row[name])
    if with_text:
        nodes = {node.id: node for node in cache.tree.nodes()}
        for row in rows:
            node = nodes.get(int(str(row["id"])))
            if node is not None and row["state"] != "evicted":
                row["text"] = engine.model.decode(node.tokens.tolist())[:_MOST_TEXT]
    num_nodes = sum(1 for _ in cache.tree.nodes())
    return {
        "enabled": cache.is_enabled,
        "roots": [{"root": index, "salt": salt.hex()} for index, salt in enumerate(cache.tree.roots())],
        "rows": rows,
        "is_cut": num_nodes > limit,
        "num_nodes": num_nodes,
    }


def evict(
    engine: Engine, pattern: str | None, salt: bytes | None, *, dry_run: bool, pinned: bool = False
) -> Json:
    """Remove cached prefixes from all tiers, now and for later processes.

    A prefix goes with all that hangs on it where its text, from its very beginning, matches the pattern (shell
    rules, case counts). What running requests use stays and is counted, and so does what a pin keeps, unless
    `pinned` ends the pins too. Cost: O(tokens of the tree), decoded, if there is a pattern.
    """
    cache = engine.loop.cache
    report = {"num_blocks": 0, "num_tokens": 0, "num_pinned_blocks": 0}
    for root, top in cache.tree.roots().items():
        if salt is not None and salt != root:
            continue
        for node in _matching(engine, top, pattern):
            leases = _leases_below(engine, node) if pinned else []
            would_end = Counter(above for lease in leases for above in lease.node.path())
            if not dry_run:
                would_end.clear()
                for lease in leases:
                    cache.leases.end(lease)
            _evict_below(engine, node, report, would_end, dry_run=dry_run)
    return {"dry_run": dry_run, **report}


def hint(engine: Engine, tokens: list[int], salt: bytes, known: Hint) -> Json:
    """Say what is known of the next call of every conversation that begins with these tokens, until it comes.

    One that is cached to its end may lack less than a block of them, such as the mark after a reply; one that
    goes another way before they end is left alone. Cost: O(nodes below).
    """
    tree, size = engine.loop.cache.tree, engine.loop.cache.tree.block_tokens
    match = tree.match(salt, np.array(tokens, np.int32))
    nodes: list[Node] = []
    if match.num_tokens == len(tokens):
        nodes = list(match.node.subtree())
    elif match.node.is_leaf and match.num_tokens == match.node.end > max(0, len(tokens) - size):
        nodes = [match.node]
    for node in nodes:
        tree.rhythm.hint(node, known)
    return {"num_nodes": len(nodes)}


def _matching(engine: Engine, top: Node, pattern: str | None) -> list[Node]:
    """The shallowest nodes whose text from the root on matches."""
    if pattern in (None, "*"):
        return list(top.children.values())
    found: list[Node] = []
    matches = re.compile(fnmatch.translate(pattern or "")).match
    stack = [(node, "") for node in top.children.values()]
    while stack:
        node, before = stack.pop()
        # Edge by edge: a character whose tokens an edge divides is lost, but each token is decoded once.
        text = before + engine.model.decode(node.tokens.tolist())
        if matches(text):
            found.append(node)
        else:
            stack += [(child, text) for child in node.children.values()]
    return found


def _leases_below(engine: Engine, top: Node) -> list[Lease]:
    below = set(top.subtree())
    return [lease for lease in engine.loop.cache.leases if lease.node in below]


def _evict_below(
    engine: Engine, top: Node, report: dict[str, int], unpinned: Mapping[Node, int], *, dry_run: bool
) -> None:
    """Remove what no pins but the `unpinned` ones keep."""
    cache = engine.loop.cache
    for node in reversed(list(top.subtree())):  # leaves first
        if node.num_pins > unpinned.get(node, 0):
            report["num_pinned_blocks"] += node.num_blocks
            continue
        report["num_blocks"] += node.num_blocks + (node.tail != NOWHERE)
        report["num_tokens"] += len(node.tokens)
        if not dry_run:
            cache.forget(node)


def _judgement(engine: Engine) -> dict[str, object]:
    """Which side of the adaptive policy leads in each tier, and what went and why."""
    return engine.policy.describe() if isinstance(engine.policy, AgentAware) else {}


def _tier(engine: Engine, tier: Tier) -> Json:
    cache, settings = engine.loop.cache, engine.settings
    name = tier.name.lower()
    row: dict[str, Json] = {"tier": name, "num_hits_tokens": cache.num_hit_tokens[tier], "reason": None}
    if tier is Tier.DEVICE:
        pool, block_bytes, state = cache.device, engine.device_block_bytes, "ok"
    elif tier in cache.lower.pools:
        pool, block_bytes = cache.lower.pools[tier], engine.codec.block_bytes
        state = "ok" if cache.movement.is_alive(tier) else "dead"
        row["seconds_per_byte"] = cache.movement.seconds_per_byte(tier)
    else:
        reason = engine.tier_reasons.get(tier) or f"kv_cache.{name} has no room for a block"
        return row | {"state": "off", "reason": reason, "num_blocks": 0, "capacity_blocks": 0,
                      "num_bytes": 0, "capacity_bytes": 0}  # fmt: skip
    num_used = pool.num_blocks - pool.num_free
    ratio = cache.num_hit_tokens[tier] / cache.num_looked_up_tokens if cache.num_looked_up_tokens else None
    return row | {
        "state": state,
        "reason": "it failed or hangs; it is tried again after a pause" if state == "dead" else None,
        "num_blocks": num_used,
        "capacity_blocks": pool.num_blocks,
        "num_bytes": num_used * block_bytes,
        "capacity_bytes": pool.num_blocks * block_bytes,
        "hit_ratio": ratio,
        "encoding": str(engine.model.dtype).removeprefix("torch.")
        if tier is Tier.DEVICE
        else settings.compression,
    }


def _blocks(engine: Engine) -> dict[str, Json]:
    cache = engine.loop.cache
    counts = cache.tree.counts()
    shown: dict[str, Json] = {}
    for tier in Tier:
        pool = cache.device if tier is Tier.DEVICE else cache.lower.pools.get(tier)
        if pool is not None:
            states = counts[tier]
            running = pool.num_blocks - pool.num_free - states["new"] - states["hit"]
            shown[tier.name.lower()] = {"free": pool.num_free, "running": running, **states}
    return shown


def _unix(at: object) -> float | None:
    """A time of the engine's clock as unix time; None where it is not known, as for what outlived a restart."""
    return time.time() + at - time.monotonic() if isinstance(at, float) and at > 0 else None
