"""Two blocks that differ in anything never share a name; equal ones always do."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from openclaw_cache.kv.hashing import ModelIdentity, block_hash, chain, root_hash

# Few and short values, so that concatenations collide easily.
short = st.text("ab", max_size=2)
identities = st.builds(ModelIdentity, short, short, short, short, short)
roots = st.tuples(st.binary(max_size=2), identities, st.sampled_from([2, 4]))
ids = st.lists(st.sampled_from([0, 1, 65, 321, 2**16, 2**31 - 1, -(2**31)]), min_size=2, max_size=4)
contents = st.lists(st.tuples(st.integers(0, 1), st.binary(max_size=2)), max_size=2).map(
    lambda some: sorted(some, key=lambda content: content[0])
)
cases = st.tuples(roots, ids, st.integers(0, 1), contents)


def name(case: tuple) -> bytes:
    root, tokens, variant, held = case
    return block_hash(root_hash(*root), np.array(tokens, np.int32), variant=variant, contents=held)


@given(one=cases, other=cases)
def test_names_are_equal_exactly_where_everything_is(one: tuple, other: tuple) -> None:
    assert (name(one) == name(other)) == (one == other)


@given(case=cases, data=st.data())
def test_one_changed_field_changes_the_name(case: tuple, data: st.DataObject) -> None:
    part = data.draw(st.integers(0, 3))
    changed = (*case[:part], data.draw((roots, ids, st.integers(0, 1), contents)[part]), *case[part + 1 :])
    assert (name(case) == name(changed)) == (case == changed)


@given(
    tokens=st.lists(st.integers(0, 3), max_size=24),
    other=st.lists(st.integers(0, 3), max_size=24),
    block_tokens=st.integers(1, 5),
)
def test_two_prompts_share_as_many_names_as_leading_full_blocks(
    tokens: list[int], other: list[int], block_tokens: int
) -> None:
    identity = ModelIdentity("f", "fp16", "l", "r")
    root = root_hash(b"", identity, block_tokens)
    names = chain(root, np.array(tokens, np.int32), block_tokens)
    others = chain(root, np.array(other, np.int32), block_tokens)
    num_common = 0
    while num_common < min(len(tokens), len(other)) and tokens[num_common] == other[num_common]:
        num_common += 1
    assert len(set(names) & set(others)) == num_common // block_tokens
    assert names[: num_common // block_tokens] == others[: num_common // block_tokens]
