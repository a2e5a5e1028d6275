"""Views of the radix tree for people, and the check of its rules."""

from __future__ import annotations

import heapq
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from openclaw_cache.kv.block import NOWHERE, IntegrityError, Tier
from openclaw_cache.kv.node import Node

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


@dataclass(frozen=True, slots=True)
class Grave:
    """What is remembered of a removed node."""

    root: bytes
    id: int
    parent_id: int | None
    num_tokens: int
    removed_at: float


def describe(
    roots: Mapping[bytes, Node], graves: Iterable[Grave], limit: int, root: bytes | None
) -> list[dict[str, object]]:
    """At most `limit` rows: nodes, parents before children, the recent last; then those that were removed last.

    The most recently used nodes are chosen; an ancestor is never used less recently, so every parent that
    is named has its own row, unless it is a root (None). `root` counts the roots; of a removed node it is None if
    its root is gone. Cost: O(nodes · log limit).
    """
    indices = {key: index for index, key in enumerate(roots)}
    tops = [(index, roots[key]) for key, index in indices.items() if root in (None, key)]
    found = ((index, node) for index, top in tops for node in top.subtree() if node is not top)
    chosen = heapq.nsmallest(
        limit, found, key=lambda pair: (-pair[1].last_used_at, pair[1].start, pair[1].id)
    )
    chosen.sort(key=lambda pair: (pair[1].start, pair[1].last_used_at, pair[1].id))
    rows = [_row(index, node) for index, node in chosen]
    removed = [grave for grave in graves if root in (None, grave.root)]
    return rows + [
        {
            "id": grave.id,
            "parent": grave.parent_id,
            "root": indices.get(grave.root),
            "num_tokens": grave.num_tokens,
            "removed_at": grave.removed_at,
            "state": "evicted",
        }
        for grave in removed[max(0, len(removed) - (limit - len(rows))) :]
    ]


def _row(index: int, node: Node) -> dict[str, object]:
    parent = node.parent
    return {
        "id": node.id,
        "parent": parent.id if parent is not None and parent.parent is not None else None,
        "root": index,
        "start": node.start,
        "num_tokens": len(node.tokens),
        "num_blocks": node.num_blocks,
        "tiers": {tier.name.lower(): node.num_held(tier) for tier in Tier},
        "state": node.state,
        "num_hits": node.num_hits,
        "last_used_at": node.last_used_at,
        "num_pins": node.num_pins,
        "cost_s": node.cost_s,
    }


def counts(nodes: Iterable[Node]) -> dict[Tier, dict[str, int]]:
    """Per tier the blocks, tails included, of nodes in state new and hit; `pinned` is how many of both are pinned."""
    found = {tier: {"new": 0, "hit": 0, "pinned": 0} for tier in Tier}
    for node in nodes:
        for tier in Tier:
            num = node.num_held(tier)
            found[tier][node.state] += num
            found[tier]["pinned"] += num if node.num_pins else 0
    return found


def check(roots: Mapping[bytes, Node], block_tokens: int, leaves: Mapping[Tier, Iterable[Node]]) -> None:
    """Raise IntegrityError, naming the fault, unless every rule of the tree holds. Cost: O(tokens)."""
    holders: dict[Tier, list[Node]] = {tier: [] for tier in Tier}
    for root, top in roots.items():
        _require(not len(top.tokens) and not top.start and top.parent is None, top, "is no root")
        _require(top.root == root, top, "is filed under another namespace")
        _require(bool(top.children or top.num_pins), top, "is kept although nothing hangs below")
        for node in top.subtree():
            _check_place(node)
            _check_arrays(node, block_tokens)
            if node is not top:
                _check_rest(node, block_tokens)
            for tier in Tier:
                _check_holding(node, tier)
                if node.num_held(tier):
                    holders[tier].append(node)
    for tier in Tier:
        _check_slots(tier, holders[tier])
        expected = {node for node in holders[tier] if not node.num_holding[tier]}
        if expected != set(leaves[tier]):
            raise IntegrityError(f"the leaves of {tier.name} are not those that the tree has")


def _check_place(node: Node) -> None:
    for token, child in node.children.items():
        _require(child.parent is node and child.root == node.root, child, "does not know its parent")
        _require(child.start == node.end, child, "does not begin where its parent ends")
        _require(len(child.tokens) > 0, child, "has no tokens")
        _require(int(child.tokens[0]) == token, child, "is filed under another token")
        _require(child.last_used_at <= node.last_used_at, child, "was used later than its parent")
    num_pins = node.num_own_pins + sum(child.num_pins for child in node.children.values())
    _require(node.num_own_pins >= 0 and node.num_pins == num_pins, node, "counts other pins than there are")
    _require(node.state != "evicted", node, "is in the tree although evicted")


def _check_arrays(node: Node, block_tokens: int) -> None:
    _require(node.end == node.start + len(node.tokens), node, "does not end where its tokens do")
    num_blocks = node.end // block_tokens - node.start // block_tokens
    for name, array, dtype, shape in (
        ("slots", node.slots, np.int32, (len(Tier), num_blocks)),
        ("flags", node.flags, np.uint8, (num_blocks,)),
    ):
        _require(array.dtype == dtype and array.shape == shape, node, f"has {name} of a wrong shape")
        _require(array.base is None, node, f"shares the memory of its {name}")


def _check_rest(node: Node, block_tokens: int) -> None:
    _require(bool((node.slots != NOWHERE).any(axis=0).all()), node, "has a block that is in no tier")
    if node.tail != NOWHERE:
        _require(node.is_leaf and node.end % block_tokens > 0, node, "has a tail that holds nothing of it")
    elif node.is_leaf and not node.num_pins:
        _require(node.end % block_tokens == 0, node, "keeps tokens that no block holds")


def _check_holding(node: Node, tier: Tier) -> None:
    num = sum(child.holds >> tier & 1 for child in node.children.values())
    _require(node.num_holding[tier] == num, node, f"miscounts its children in {tier.name}")
    holds = num > 0 or node.num_held(tier) > 0
    _require(node.holds >> tier & 1 == holds, node, f"is wrong about holding blocks in {tier.name}")


def _check_slots(tier: Tier, holders: Iterable[Node]) -> None:
    held = Counter[int]()
    for node in holders:
        held.update(node.slots[tier].tolist())
        held.update([node.tail] if tier is Tier.DEVICE else [])
    del held[NOWHERE]
    for slot, num in held.items():
        if slot < 0 or num > 1:
            raise IntegrityError(f"slot {slot} of {tier.name} is held {num} times")


def _require(is_right: bool, node: Node, fault: str) -> None:
    if not is_right:
        raise IntegrityError(f"{node} {fault}")
