"""Questions that are asked again and again without an answer come together; others stay apart."""

from __future__ import annotations

import numpy as np
import pytest

from openclaw_cache.embedding.embedder import Vector
from openclaw_cache.semantic.cache import Asked
from openclaw_cache.semantic.reading import read
from openclaw_cache.semantic.suggestions import (
    MOST_CHARACTERS,
    UNRELATED,
    Suggestion,
    Suggestions,
    clusters,
    likeness,
)
from openclaw_cache.types import CacheKey

AT_45_DEGREES = 0.7071


def towards(degrees: float) -> Vector:
    """A vector in the plane: the cosine of two is that of the angle between them."""
    return np.array([np.cos(np.radians(degrees)), np.sin(np.radians(degrees))], np.float32)


def asked(text: str, degrees: float, domain: str = "default") -> Asked:
    return Asked(read(text), towards(degrees), domain, CacheKey(b"k" * 32), b"partition")


def note(kept: Suggestions, text: str, degrees: float, times: int = 1, **fields: object) -> None:
    domain, namespace = str(fields.get("domain", "default")), str(fields.get("namespace", "n"))
    outcome, cosine = str(fields.get("outcome", "similarity")), fields.get("cosine", 0.9)
    assert cosine is None or isinstance(cosine, float)
    for _ in range(times):
        kept.note(asked(text, degrees, domain), outcome, cosine, float(fields.get("at", 1.0)), namespace)  # type: ignore[arg-type]


def found(kept: Suggestions, limit: float = np.cos(np.radians(10)), most: int = 20) -> list[Suggestion]:
    return clusters(kept.between(0.0, 10.0), limit, most)


def test_what_is_near_comes_together_most_frequent_first() -> None:
    kept = Suggestions()
    note(kept, "how do I return it", 0, outcome="none", cosine=None)
    note(kept, "can I send it back", 8, times=2, cosine=0.8)
    note(kept, "return an order?", 16, cosine=0.85, outcome="kind")
    note(kept, "when do you open", 90, times=5)
    note(kept, "only once", 180)
    open_, back = found(kept)
    assert (open_.num_asked, list(open_.questions)) == (5, ["when do you open"])
    assert (back.num_asked, back.best_cosine, back.refusal) == (4, 0.85, "similarity")
    assert list(back.questions) == ["can I send it back", "how do I return it", "return an order?"]


def test_who_has_most_around_him_takes_them_and_nobody_is_counted_twice() -> None:
    kept = Suggestions()
    for degrees in (0, 9, 18, 27, 36):  # a chain: each is near to its neighbours only
        note(kept, f"question at {degrees}", degrees, times=2 if degrees == 9 else 1)
    assert [s.num_asked for s in found(kept)] == [4, 2]


def test_a_question_that_was_asked_once_is_none_and_the_same_one_twice_is() -> None:
    kept = Suggestions()
    note(kept, "Where is Lima?", 0)
    assert found(kept) == []
    note(kept, "where is  LIMA?", 0)
    (one,) = found(kept, limit=1.5)  # equal ones need no cosine
    assert (one.num_asked, list(one.questions)) == (2, ["where is  LIMA?"])


def test_namespaces_and_domains_do_not_come_together() -> None:
    kept = Suggestions()
    note(kept, "how?", 0, times=2, namespace="a")
    note(kept, "how?", 0, times=3, namespace="b")
    note(kept, "how?", 0, times=4, namespace="b", domain="billing")
    assert [(s.namespace, s.domain, s.num_asked) for s in found(kept)] == [
        ("b", "billing", 4), ("b", "default", 3), ("a", "default", 2),
    ]  # fmt: skip
    assert [s.num_asked for s in found(kept, most=1)] == [4]


def test_only_the_last_ones_are_kept_and_only_a_stretch_of_time_is_shown() -> None:
    kept = Suggestions(most=3)
    for second in range(5):
        note(kept, f"q{second}", 0, at=float(second))
    assert (len(kept), [miss.text for miss in kept.between(3.0, 10.0)]) == (3, ["q3", "q4"])
    kept.clear()
    assert len(kept) == 0


def test_texts_are_cut_and_never_part_of_a_repr() -> None:
    kept = Suggestions()
    note(kept, "secret " + "x" * 1000, 0, times=2)
    (miss, _) = kept.between(0.0, 10.0)
    assert len(miss.text) == MOST_CHARACTERS
    assert miss.vector.nbytes == 4  # two halves
    assert "secret" not in repr(miss)
    assert "secret" not in repr(found(kept))


def test_many_different_questions_have_no_suggestion_and_many_equal_ones_have_one() -> None:
    kept = Suggestions()
    for number in range(1500):  # more than one block of rows
        note(kept, f"q{number}", 360 * number / 1500)
    assert found(kept, limit=1.5) == []
    (whole,) = found(kept, limit=-1.5)
    assert whole.num_asked == 1500


@pytest.mark.parametrize("most", [1, 3])
def test_no_more_than_asked_for(most: int) -> None:
    kept = Suggestions()
    for number in range(5):
        note(kept, f"q{number}", 45 * number, times=2)
    assert len(found(kept, limit=0.99, most=most)) == most


def test_the_cosine_is_seven_tenths_of_the_way_from_unrelated_ones_to_one() -> None:
    half = len(UNRELATED) // 2
    corners = np.eye(half, dtype=np.float32)  # all at right angles: a cosine of 0
    assert likeness([*corners, *corners]) == pytest.approx(0.7)
    tilted = (corners + 1) / np.linalg.norm(corners + 1, axis=1, keepdims=True)
    cosine = float(tilted[0] @ tilted[1])
    assert likeness([*tilted, *tilted]) == pytest.approx(cosine + 0.7 * (1 - cosine))
