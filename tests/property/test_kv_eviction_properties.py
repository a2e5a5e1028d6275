"""What holds of every order of eviction, for any prompts, calls and times; and of the index, for any chances."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openclaw_cache.kv.block import Tier
from openclaw_cache.kv.eviction import POLICIES
from openclaw_cache.kv.radix import RadixTree
from openclaw_cache.kv.rhythm import Hint, index

prompts = st.lists(
    st.tuples(st.lists(st.integers(0, 2), min_size=1, max_size=6), st.floats(0, 500)), min_size=1, max_size=25
)
CHANCES = st.lists(st.floats(1e-7, 1.0), min_size=40, max_size=40)


def tree_of(asked: list[tuple[list[int], float]], hint: Hint) -> tuple[RadixTree, float]:
    tree, now, slots = RadixTree(1), 1.0, itertools.count()
    for tokens, pause_s in asked:
        now += pause_s
        prompt = np.array(tokens, np.int32)
        match = tree.match(b"", prompt)
        tree.touch(match, now)
        blocks = np.array([next(slots) for _ in tokens], np.int32)
        tree.rhythm.hint(tree.insert(b"", prompt, blocks, now=now).node, hint)
    return tree, now


@pytest.mark.parametrize("name", sorted(POLICIES))
@given(asked=prompts, hint=st.sampled_from(Hint), later=st.floats(0, 1e6))
@settings(deadline=None, max_examples=60)
def test_every_node_goes_once_and_children_before_parents(
    name: str, asked: list[tuple[list[int], float]], hint: Hint, later: float
) -> None:
    tree, now = tree_of(asked, hint)
    nodes = list(tree.nodes())
    order = [v.node for v in tree.victims(Tier.DEVICE, 10_000, POLICIES[name](), now=now + later)]
    assert len(order) == len(nodes) == len({id(node) for node in order})
    for node in order:
        if node.parent is not None and node.parent.parent is not None:
            assert order.index(node) < order.index(node.parent)


@given(asked=prompts, hint=st.sampled_from([Hint.NONE, Hint.TOOL, Hint.IDLE]), later=st.floats(0, 1e7))
@settings(deadline=None, max_examples=60)
def test_a_value_is_a_finite_positive_number_at_any_time(
    asked: list[tuple[list[int], float]], hint: Hint, later: float
) -> None:
    tree, now = tree_of(asked, hint)
    tree.rhythm.refresh(list(tree.nodes()), now + later)
    for node in tree.nodes():
        value = tree.rhythm.value(node, now + later)
        assert 0 < value < np.inf


@given(chances=CHANCES)
def test_the_index_is_at_least_the_chance_now_and_at_most_the_best_ahead(chances: list[float]) -> None:
    per_s = np.array(chances)
    found = index(per_s)
    best_ahead = np.maximum.accumulate(per_s[::-1])[::-1]
    assert (found >= per_s * (1 - 1e-6)).all()
    assert (found <= best_ahead * (1 + 1e-6)).all()
