"""The order in which prompts share most: depth first over the tree of what they begin with.

In this order each prompt follows one that it shares its longest prefix with, so a cache needs room for one path of the
tree only: with that much room, depth first is the best order there is (BatchLLM, Zheng et al. 2024; the same holds for
RadixAttention's schedule, SGLang, Zheng et al., NeurIPS 2024, theorem 3.1).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

STEP_BYTES: Final = 64
"""Sharing is counted in steps of this size, about a block of 16 tokens: less is not worth another order."""


@dataclass(frozen=True, slots=True)
class Place:
    """One prompt in the order."""

    index: int
    """Which of the given prompts."""
    shared_bytes: int
    """What it shares with `leader`, in whole steps."""
    leader: int | None
    """The earlier prompt, by its index, that computes what this one shares; None where it shares nothing."""


@dataclass(slots=True)
class _Group:
    """Prompts that share a beginning: leaves (an index) and groups that share more."""

    shared_bytes: int
    members: list[_Group | int] = field(default_factory=list)
    num_prompts: int = 0
    first: int = -1


def order(prompts: Sequence[bytes], step_bytes: int = STEP_BYTES) -> list[Place]:
    """Order prompts by what they begin with: within each group larger groups first, else as given.

    Equal prompts and such as share less than a step stay in the given order. Cost: O(n log n) comparisons of prompts,
    and O(n) of what neighbours share.
    """
    if not prompts:
        return []
    top = _grouped(prompts, step_bytes)
    _count(top)
    return list(_walk(top))


def _grouped(prompts: Sequence[bytes], step_bytes: int) -> _Group:
    """The tree of shared beginnings, from the sorted prompts: neighbours share what their groups share."""
    by_text = sorted(range(len(prompts)), key=lambda index: (prompts[index], index))
    path = [_Group(0)]
    for here, index in enumerate(by_text):
        after = by_text[here + 1] if here + 1 < len(by_text) else None
        shared = (
            0 if after is None else _num_shared(prompts[index], prompts[after]) // step_bytes * step_bytes
        )
        if shared > path[-1].shared_bytes:
            path.append(_Group(shared, [index]))
            continue
        path[-1].members.append(index)
        while shared < path[-1].shared_bytes:
            ended = path.pop()
            if shared > path[-1].shared_bytes:
                path.append(_Group(shared, [ended]))
            else:
                path[-1].members.append(ended)
    return path[0]


def _num_shared(one: bytes, other: bytes) -> int:
    """Bytes that two texts share from the start. Cost: O(size), at the speed of a comparison of memory."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _count(top: _Group) -> None:
    """Fill in how many prompts each group has and which is the first given; sort its members."""
    groups = [top]
    for group in groups:  # it grows as it is read: parents come before their children
        groups.extend(member for member in group.members if isinstance(member, _Group))
    for group in reversed(groups):
        sizes = [(m.num_prompts, m.first) if isinstance(m, _Group) else (1, m) for m in group.members]
        group.num_prompts = sum(num for num, _ in sizes)
        ranked = sorted(zip(sizes, range(len(sizes)), strict=True), key=lambda one: (-one[0][0], one[0][1]))
        group.members = [group.members[at] for _, at in ranked]
        group.first = min(first for _, first in sizes)


def _walk(top: _Group) -> Iterator[Place]:
    """The prompts depth first, each with the one that computes what it shares."""
    # What is to do: a prompt or group, and the leader of the group around with what it shares. A leader is not known
    # before its group is entered: a list of one is the same for all of its members.
    todo: list[tuple[_Group | int, list[tuple[int, int]]]] = [(top, [])]
    while todo:
        member, leaders = todo.pop()
        if isinstance(member, _Group):
            # Its first prompt leads it, and follows the group around.
            own: list[tuple[int, int]] = []
            entered = [(m, own if i else leaders) for i, m in enumerate(member.members)]
            first = _first_leaf(member)
            own.extend([(first, member.shared_bytes)] if member.shared_bytes else [])
            todo.extend(reversed(entered))
        else:
            leader, shared = leaders[0] if leaders else (None, 0)
            yield Place(member, shared, leader)


def _first_leaf(group: _Group) -> int:
    member: _Group | int = group
    while isinstance(member, _Group):
        member = member.members[0]
    return member
