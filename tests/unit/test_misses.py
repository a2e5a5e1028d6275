"""Why a reply was not there: what is nearest counts, and what is remembered is bounded."""

from __future__ import annotations

import sys

import pytest

from openclaw_cache.gateway.misses import MOST_BODIES, Misses, Way
from openclaw_cache.types import Namespace

HERE = Namespace("here")
VERSION = (b"pods", b"", b"epoch 1")
BODY = "00112233445566aa"
NOW = 1000.0


def way(misses: Misses, *, namespace: str = "here", epoch: bytes = b"1", header: bytes = b"") -> Way:
    headers = [(b"x-mode", header)] if header else []
    return misses.way(Namespace(namespace), (b"pods", b"", epoch), headers)


def test_a_prompt_that_nobody_asked_is_new_and_so_is_one_whose_first_reply_is_on_its_way() -> None:
    misses = Misses()
    here = way(misses)
    assert misses.why(BODY, here, NOW) == "new"
    misses.asked(BODY, here)
    assert misses.why(BODY, here, NOW) == "new"


def test_what_was_stored_has_expired_from_its_time_on_and_before_that_has_been_evicted() -> None:
    misses = Misses()
    here = way(misses)
    misses.asked(BODY, here)
    misses.stored(BODY, here, expires_at=NOW + 10)
    assert misses.why(BODY, here, NOW + 9.9) == "evicted"
    assert misses.why(BODY, here, NOW + 10) == "expired"


def test_what_was_not_stored_is_unstored_unless_another_reply_was_stored_meanwhile() -> None:
    misses = Misses()
    here = way(misses)
    misses.asked(BODY, here)
    misses.unstored(BODY, here)
    assert misses.why(BODY, here, NOW) == "unstored"
    misses.stored(BODY, here, NOW + 10)
    misses.unstored(BODY, here)
    assert misses.why(BODY, here, NOW) == "evicted"


@pytest.mark.parametrize(
    ("earlier", "reason"),
    [
        ({"namespace": "there"}, "namespace"),
        ({"header": b"b"}, "headers"),
        ({"epoch": b"0"}, "version"),
        ({"namespace": "there", "epoch": b"0"}, "namespace"),
        ({"header": b"b", "epoch": b"0"}, "headers"),
    ],
)
def test_what_was_asked_in_another_way_tells_which(earlier: dict[str, bytes], reason: str) -> None:
    misses = Misses()
    misses.stored(BODY, way(misses, **earlier), NOW + 10)  # type: ignore[arg-type] # both kinds of arguments
    assert misses.why(BODY, way(misses), NOW) == reason


def test_of_several_ways_the_nearest_counts() -> None:
    misses = Misses()
    here = way(misses)
    expected = ["namespace", "headers", "version", "evicted"]
    ways = [way(misses, namespace="there"), way(misses, header=b"b"), way(misses, epoch=b"0"), here]
    for one, reason in zip(ways, expected, strict=True):
        misses.stored(BODY, one, NOW + 10)
        assert misses.why(BODY, here, NOW) == reason


def test_a_reply_of_an_older_version_that_was_never_stored_is_no_reply_of_another_version() -> None:
    misses = Misses()
    misses.unstored(BODY, way(misses, epoch=b"0"))
    assert misses.why(BODY, way(misses), NOW) == "unstored"


def test_equal_headers_are_one_way_and_other_queries_another() -> None:
    misses = Misses()
    one = misses.way(HERE, VERSION, [(b"a", b"1")])
    assert misses.way(HERE, VERSION, [(b"a", b"1")]) == one
    assert misses.way(HERE, VERSION, [(b"a", b"1")], b"x=1").headers != one.headers
    assert misses.way(HERE, VERSION, [(b"a1", b"")]).headers != one.headers  # not run together


def test_two_memories_name_the_same_way_differently() -> None:
    assert Misses().way(HERE, VERSION, []) != Misses().way(HERE, VERSION, [])


def test_no_more_than_so_many_prompts_are_remembered_and_the_newest_are() -> None:
    misses = Misses(most=100)
    here = way(misses)
    for i in range(1000):
        misses.stored(f"{i:016x}", here, NOW + 10)
        assert len(misses) <= 100
    assert misses.why(f"{999:016x}", here, NOW) == "evicted"
    assert misses.why(f"{0:016x}", here, NOW) == "new"


def test_what_was_forgotten_of_ones_own_prompt_is_new_and_no_other_namespaces() -> None:
    misses = Misses(most=8)
    here, there = way(misses), way(misses, namespace="there")
    misses.asked(BODY, here)
    for number in range(4):  # twice as many ways as prompts: BODY's is forgotten, that it was asked is not
        for other in (there, here):
            misses.asked(f"{number:016x}", other)
    assert misses.why(BODY, here, NOW) == "new"
    assert misses.why(BODY, there, NOW) == "namespace"


def test_a_prompt_that_comes_in_more_and_more_ways_takes_bounded_room() -> None:
    misses = Misses()
    for i in range(100):
        misses.stored(BODY, way(misses, header=b"%d" % i), NOW + 10)
    assert [len(ways) for ways in misses._ways._young.values()] == [4 * 16]
    assert misses.why(BODY, way(misses, header=b"99"), NOW) == "evicted"
    assert misses.why(BODY, way(misses, header=b"0"), NOW) == "headers"  # forgotten, but not the others


def test_all_that_may_be_remembered_takes_less_than_25_megabytes() -> None:
    misses = Misses()
    here = way(misses)
    for i in range(MOST_BODIES + MOST_BODIES // 2 - 1):
        misses.stored(f"{i:016x}", here, NOW + i)
    tables = [table for one in (misses._ways, misses._askers) for table in (one._young, one._old)]
    num_bytes = sum(map(sys.getsizeof, tables))
    seen: set[int] = set()
    for table in tables:
        for each in (*table.keys(), *table.values()):
            if id(each) not in seen:
                seen.add(id(each))
                num_bytes += sys.getsizeof(each)
    assert len(misses) == MOST_BODIES - 1
    assert num_bytes < 25e6
