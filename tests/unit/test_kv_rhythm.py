"""What is learnt of calls, by hand: gaps, kinds, the index, and the order that follows from it."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from openclaw_cache.kv.agent import AgentAware
from openclaw_cache.kv.block import Tier
from openclaw_cache.kv.eviction import LFU
from openclaw_cache.kv.radix import RadixTree
from openclaw_cache.kv.rhythm import Call, Hint, Rhythm, index, kind_of

ROOT = b""
START = 1000.0
SLOTS = itertools.count()
BINS = 2.0 ** (np.arange(41) / 2) - 1


def ask(tree: RadixTree, *tokens: int, now: float) -> None:
    """A prompt of one-token blocks: hit what is there, insert the rest."""
    prompt = np.array(tokens, np.int32)
    match = tree.match(ROOT, prompt)
    if match.num_blocks:
        tree.touch(match, now + START)
    tree.insert(ROOT, prompt, np.array([next(SLOTS) for _ in tokens], np.int32), now=now + START)


def evict(tree: RadixTree, num: int, policy: AgentAware | LFU, *, now: float) -> list[int]:
    """The first tokens of the nodes that go, in order."""
    names = []
    for victim in tree.victims(Tier.DEVICE, num, policy, now=now + START):
        names.append(int(victim.node.tokens[0]))
        policy.taken(victim.node, Tier.DEVICE, now + START, tree.rhythm)
        tree.drop(victim.node, Tier.DEVICE, victim.first, victim.last)
    tree.check_integrity()
    return names


def test_a_steady_chance_is_worth_the_same_at_every_age() -> None:
    assert index(np.full(40, 0.02)) == pytest.approx(np.full(40, 0.02), rel=1e-9)


def test_a_falling_chance_is_worth_what_it_is_now() -> None:
    per_s = 1 / (1 + BINS[:-1])
    assert index(per_s) == pytest.approx(per_s, rel=1e-9)


def test_a_chance_that_is_still_to_rise_is_worth_more_the_nearer_it_is() -> None:
    per_s = np.full(40, 1e-6)
    per_s[10:12] = 0.5  # calls come 31 to 63 s after the last one
    found = index(per_s)
    assert (np.diff(found[:11]) > 0).all()
    # From the start: nothing for 31 s, then a call after 2 s on average; by 63 s it has come (1 - e^-16).
    assert found[0] == pytest.approx(1 / (31 + 2), rel=0.01)
    assert found[13] < 1e-5


def tell(rhythm: Rhythm, num: int, call: Call) -> None:
    for _ in range(num):
        rhythm.recent.append(call)
        rhythm.num_noted += 1


def test_the_gap_of_a_path_is_the_geometric_mean_of_its_idle_times() -> None:
    tree = RadixTree(1)
    for now in (0.0, 9.0, 18.0):
        ask(tree, 1, now=now)
    node = tree.match(ROOT, np.array([1], np.int32)).node
    assert (node.gap_s, node.num_calls) == (pytest.approx(9.0), 2)
    ask(tree, 1, now=18.0 + 99.0)  # (1 + 9)^.6 (1 + 99)^.4 - 1 = 10^1.4 - 1
    assert node.gap_s == pytest.approx(10**1.4 - 1)
    assert node.last_gap_s == 99.0
    assert kind_of(node)[2:] == (2, 4, 6)  # calls; 2^4 ≤ 1 + 24.1 < 2^5; 2^6 ≤ 1 + 99 < 2^7


def test_a_conversation_that_grows_keeps_its_rhythm() -> None:
    tree = RadixTree(1)
    ask(tree, 1, 2, now=0.0)
    ask(tree, 1, 2, 3, now=10.0)
    ask(tree, 1, 2, 3, 4, now=20.0)
    node = tree.match(ROOT, np.array([1, 2, 3, 4], np.int32)).node
    assert (node.gap_s, node.num_calls, node.start) == (pytest.approx(10.0), 2, 0)


def test_a_branch_of_a_conversation_takes_over_its_rhythm_and_what_was_left_is_known_as_left() -> None:
    tree = RadixTree(1)
    ask(tree, 1, 2, 3, now=0.0)
    ask(tree, 1, 2, 9, now=10.0)
    left = tree.match(ROOT, np.array([1, 2, 3], np.int32)).node
    branch = tree.match(ROOT, np.array([1, 2, 9], np.int32)).node
    assert (branch.gap_s, branch.num_calls) == (pytest.approx(10.0), 1)
    assert (kind_of(left).place, kind_of(branch).place) == (1, 0)


def test_a_path_that_comes_back_after_its_eviction_is_remembered() -> None:
    tree = RadixTree(1)
    for now in (0.0, 10.0):
        ask(tree, 1, now=now)
    assert evict(tree, 1, AgentAware(), now=12.0) == [1]
    ask(tree, 1, now=20.0)
    node = tree.match(ROOT, np.array([1], np.int32)).node
    assert (node.num_calls, node.gap_s, tree.rhythm.num_returns) == (2, pytest.approx(10.0), 1)


def test_an_ended_conversation_goes_first_until_it_is_called_again() -> None:
    tree = RadixTree(1)
    for name, now in ((1, 0.0), (2, 1.0), (3, 2.0)):
        ask(tree, name, now=now)
    node = tree.match(ROOT, np.array([3], np.int32)).node
    tree.rhythm.hint(node, Hint.ENDED)
    assert tree.rhythm.value(node, START + 3) == 0.0
    assert evict(tree, 1, AgentAware(), now=3.0) == [3]
    again = tree.match(ROOT, np.array([2], np.int32)).node
    tree.rhythm.hint(again, Hint.ENDED)
    ask(tree, 2, now=4.0)
    assert again.hint == Hint.NONE
    assert tree.rhythm.value(again, START + 5) > 0


def test_an_ended_conversation_goes_first_however_many_there_are_and_whichever_side_leads() -> None:
    for side in ("rhythm", "recency"):
        policy, tree = AgentAware(), RadixTree(1)
        for name in range(1000):
            ask(tree, name, now=float(name))
        tree.rhythm.hint(tree.match(ROOT, np.array([777], np.int32)).node, Hint.ENDED)
        if side == "recency":
            tell(tree.rhythm, 50, Call(0.0, 0.0))
        assert evict(tree, 1, policy, now=2000.0) == [777]
        assert policy.duels[Tier.DEVICE].side == side
        assert policy.duels[Tier.DEVICE].num_gone == {"rhythm": 0, "recency": 0, "ended": 1}


def test_a_path_that_comes_back_has_the_last_gap_that_it_had() -> None:
    tree = RadixTree(1)
    for now in (0.0, 10.0, 13.0):
        ask(tree, 1, now=now)
    evict(tree, 1, AgentAware(), now=14.0)
    (ghost,) = tree.rhythm._ghosts.values()
    assert ghost.kind()[3:] == (2, 2)  # 11^.6 4^.4 = 7.3; 1 + 3 = 4
    ask(tree, 1, now=45.0)
    assert tree.match(ROOT, np.array([1], np.int32)).node.last_gap_s == 32.0


def test_with_nothing_learnt_the_longest_idle_is_worth_the_least() -> None:
    tree = RadixTree(1)
    for name, now in ((1, 0.0), (2, 50.0), (3, 90.0)):
        ask(tree, name, now=now)
    assert evict(tree, 2, AgentAware(), now=100.0) == [1, 2]


def test_a_quick_loop_is_kept_over_a_slow_one_of_the_same_age() -> None:
    tree = RadixTree(1)
    for i in range(2000):  # 1 is called every 8 s, 2 every 120 s
        now = 8.0 * i
        ask(tree, 1, now=now)
        if i % 15 == 0:
            ask(tree, 2, now=now)
    ask(tree, 2, now=16_000.0)
    ask(tree, 1, now=16_000.0)
    tree.rhythm.refresh([], START + 16_000)
    quick, slow = (tree.match(ROOT, np.array([name], np.int32)).node for name in (1, 2))
    assert tree.rhythm.value(quick, START + 16_004) > 2 * tree.rhythm.value(slow, START + 16_004)


def test_recency_takes_over_where_it_foretells_the_calls_and_rhythm_does_not() -> None:
    policy, tree = AgentAware(), RadixTree(1)
    for name in range(20):
        ask(tree, name, now=float(name))
    leaves = [tree.match(ROOT, np.array([name], np.int32)).node for name in range(20)]
    tell(tree.rhythm, 50, Call(0.0, 0.0))  # just after the last use, and worth nothing in the eyes of rhythm
    for node in policy.victims(leaves, lambda _: None, START + 30, tree.rhythm, Tier.DEVICE):
        policy.taken(node, Tier.DEVICE, START + 30, tree.rhythm)
    duel = policy.duels[Tier.DEVICE]
    assert duel.side == "recency"
    assert duel.score["recency"] == pytest.approx(1 - 0.5 * 0.99**50)
    assert duel.score["rhythm"] == pytest.approx(0.5 * 0.99**50)
    assert duel.num_gone == {"rhythm": 0, "recency": 20, "ended": 0}


def test_every_tier_hears_every_call_once_and_has_its_own_leader() -> None:
    policy, tree = AgentAware(), RadixTree(1)
    for name in range(2):
        ask(tree, name, now=float(name))
    leaves = list(tree.nodes())
    tell(tree.rhythm, 3, Call(0.0, 0.0))
    for tier in (Tier.DEVICE, Tier.DEVICE, Tier.HOST):
        next(policy.victims(list(leaves), lambda _: None, START + 30, tree.rhythm, tier))
    # Idle for longer than all, and of great worth: only rhythm would have kept it.
    tell(tree.rhythm, 100, Call(1e9, 1e9))
    next(policy.victims(list(leaves), lambda _: None, START + 30, tree.rhythm, Tier.HOST))
    device, host = policy.duels[Tier.DEVICE], policy.duels[Tier.HOST]
    assert device.score["recency"] == pytest.approx(1 - 0.5 * 0.99**3)
    assert (device.side, host.side) == ("recency", "rhythm")


def test_what_was_only_asked_for_has_not_gone() -> None:
    policy, tree = AgentAware(), RadixTree(1)
    for name in range(3):
        ask(tree, name, now=float(name))
    assert len(tree.victims(Tier.DEVICE, 5, policy, now=START + 9)) == 3
    told = policy.describe()
    assert told["tiers"]["device"]["num_gone"] == {"rhythm": 0, "recency": 0, "ended": 0}  # type: ignore[index]
    assert told["went"] == []


def test_what_outlived_a_restart_does_not_count_as_waiting() -> None:
    learnt = []
    for num_restored in (0, 200):
        tree = RadixTree(1)
        for turn in range(40):
            ask(tree, 1, now=10.0 * turn)
        for name in range(num_restored):
            tree.insert(ROOT, np.array([1000 + name], np.int32), np.array([name], np.int32), now=0.0)
        tree.rhythm._num_fresh = 64  # enough to take it in
        tree.rhythm.refresh(list(tree.nodes()), START + 400)
        learnt.append(tree.rhythm.value(tree.match(ROOT, np.array([1], np.int32)).node, START + 400))
    assert learnt[0] == learnt[1]


@pytest.mark.parametrize("now", [-math.inf, -5.0, math.nan, 1e18, math.inf])
def test_no_time_that_a_clock_may_show_spoils_what_is_learnt(now: float) -> None:
    tree, policy = RadixTree(1), AgentAware()
    for name in range(3):
        ask(tree, name, now=float(name))
    match = tree.match(ROOT, np.array([1], np.int32))
    for _ in range(70):
        tree.rhythm.called(match.node, now)
    match.node.last_used_at = START + 2
    tree.rhythm.evicted(match.node, now)
    assert len(list(policy.victims(list(tree.nodes()), lambda _: None, now, tree.rhythm, Tier.DEVICE))) == 3
    for node in tree.nodes():
        for at in (now, START + 10):
            assert 0 < tree.rhythm.value(node, at) < math.inf


def test_lfu_lets_the_fewest_hits_go_first_and_of_equals_the_older_use() -> None:
    tree = RadixTree(1)
    for name, now in ((1, 0.0), (2, 1.0), (3, 2.0), (1, 3.0), (1, 4.0), (3, 5.0)):
        ask(tree, name, now=now)
    assert evict(tree, 3, LFU(), now=6.0) == [2, 3, 1]


def test_what_is_remembered_of_evicted_paths_is_bounded() -> None:
    tree, policy = RadixTree(1), AgentAware()
    for name in range(4200):
        ask(tree, name, now=float(name))
        if name >= 10:
            evict(tree, 1, policy, now=float(name))
    assert len(tree.rhythm._ghosts) == 4096
    assert len(tree.rhythm.recent) <= 64


def test_an_empty_rhythm_is_the_prior() -> None:
    # .15 calls per half octave: by hand for the first bin, [0, sqrt 2 - 1) s.
    width = math.sqrt(2) - 1
    tree = RadixTree(1)
    ask(tree, 1, now=0.0)
    node = tree.match(ROOT, np.array([1], np.int32)).node
    assert Rhythm().value(node, START) == pytest.approx(0.15 / (width / 2 + 1), rel=1e-6)


def test_the_policy_says_why_a_node_went() -> None:
    policy, tree = AgentAware(), RadixTree(1)
    for now in (0.0, 10.0):
        ask(tree, 1, now=now)
    evict(tree, 1, policy, now=25.0)
    told = policy.describe()
    (went,) = told["went"]  # type: ignore[misc]
    assert told["tiers"] == {
        "device": {
            "side": "rhythm",
            "score": {"rhythm": 0.505, "recency": 0.505},  # of idle times 10 and 15 both let the 15 go
            "num_gone": {"rhythm": 1, "recency": 0, "ended": 0},
        }
    }
    assert (went["tier"], went["reason"]) == ("device", "rhythm")
    assert (went["idle_s"], went["gap_s"], went["num_calls"], went["hint"]) == (15.0, 10.0, 1, "none")


def test_what_outlived_a_restart_teaches_nothing_with_its_first_call() -> None:
    tree = RadixTree(1)
    prompt = np.array([1], np.int32)
    tree.insert(ROOT, prompt, np.array([next(SLOTS)], np.int32), now=0.0, tier=Tier.DISK)
    tree.touch(tree.match(ROOT, prompt), 90_000.0)
    node = tree.match(ROOT, prompt).node
    assert (node.num_calls, node.gap_s, node.num_hits) == (0, 0.0, 1)
    tree.touch(tree.match(ROOT, prompt), 90_010.0)
    assert (node.num_calls, node.gap_s) == (1, 10.0)
