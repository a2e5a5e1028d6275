"""Full text search of SqliteStore with any characters: what is stored is found, and no query is an error."""

from __future__ import annotations

import json

from hypothesis import example, given, settings
from hypothesis import strategies as st

from openclaw_cache.memory.record import Filter
from openclaw_cache.memory.sqlite.packing import pack_content, unpack_content
from openclaw_cache.memory.sqlite.store import SqliteStore
from openclaw_cache.memory.terms import TextQuery, terms
from openclaw_cache.testing.memory_samples import memory, message, turn

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=[])),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=60, deadline=None)
@given(texts=st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=1, max_size=4))
@example(texts=["a\0b c"])
@example(texts=["İstanbul ǅ ß ẞ ﬃ ͅ", "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 ①②③"])
def test_each_term_of_a_text_finds_it(texts: list[str]) -> None:
    """Alone, and among terms that no text has; forgetting takes every term out of the index."""
    store = SqliteStore.open(None, key=None)
    store.put([memory(f"m{number}", text) for number, text in enumerate(texts)])
    for number, text in enumerate(texts):
        mine = set(store.numbers_of([f"m{number}"]))
        for term in set(terms(text)):
            for query in ((term,), ("qqqqq", term, "zzzzz")):
                assert mine & {found for found, _ in store.match(TextQuery(query), 100, Filter())}
    store.forget([f"m{number}" for number in range(len(texts))])
    store._db.run("CREATE VIRTUAL TABLE temp.left_over USING fts5vocab(main, full_text, row)")
    assert store._db.rows("SELECT term FROM left_over") == []
    store.close()


@settings(max_examples=200, deadline=None)
@given(query=st.lists(st.text(st.characters(exclude_categories=[])), max_size=64))
@example(query=['"', '""', "NEAR(", "a AND", "*", "^", "-", "terms :", "\0", "\ud800", "{", "'", "+"])
def test_no_query_is_an_error(query: list[str]) -> None:
    """Whatever characters a term has, halves of surrogate pairs included."""
    store = SqliteStore.open(None, key=None)
    store.put([memory("m", "zebra")])
    assert len(store.match(TextQuery((*query, "zebra")), 10, Filter())) == 1
    store.match(TextQuery(tuple(query)), 10, Filter())
    store.close()


@settings(max_examples=200, deadline=None)
@given(content=JSON)
def test_any_content_is_kept_as_it_is(content: object) -> None:
    """Down to the order of keys and the kind of a number."""
    assert json.dumps(unpack_content(pack_content(content))) == json.dumps(content)


@settings(max_examples=60, deadline=None)
@given(
    before=st.text(max_size=10),
    said=st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=10),
    after=st.text(max_size=10),
)
def test_what_is_redacted_is_nowhere(before: str, said: str, after: str) -> None:
    """Whatever stands around it; the rest stays, character for character."""
    store = SqliteStore.open(None, key=None)
    content = [{"type": "text", "text": before + said + after}, {"arguments": json.dumps({"x": said})}]
    store.append(turn("t", message("g", content)))
    assert store.redact([said], "") == 1
    (found,) = store.around("g", 0, 0)
    assert found.content[0]["text"] == (before + said + after).replace(said, "")
    store.close()
