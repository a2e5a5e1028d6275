"""Block hashes: equal everywhere, different wherever anything that matters differs."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from dataclasses import replace
from hashlib import sha256

import numpy as np
import pytest
from blake3 import blake3

from openclaw_cache.kv.hashing import ModelIdentity, block_hash, chain, root_hash

IDENTITY = ModelIdentity(fingerprint="f" * 64, kv_dtype="fp16", layout="30x3x64", rope="default:10000")
ROOT = root_hash(b"salt", IDENTITY, 4)


def tokens(*ids: int) -> np.ndarray:
    return np.array(ids, np.int32)


def by_hand(*fields: bytes) -> bytes:
    framed = b"".join(struct.pack("<Q", len(field)) + field for field in fields)
    return blake3(framed, derive_key_context="openclaw-cache 2026-11 kv block").digest()


def header(num_token_bytes: int, variant: int, num_contents: int) -> bytes:
    context = b"openclaw-cache 2026-12 kv block" + bytes(17)
    assert len(context) == 48
    return context + struct.pack("<IIII", 32, num_token_bytes, variant, num_contents)


def test_hashes_are_the_bytes_that_the_format_says() -> None:
    model = by_hand(
        b"model",
        *(b"fingerprint", b"f" * 64, b"kv_dtype", b"fp16", b"layout", b"30x3x64"),
        *(b"rope", b"default:10000", b"adapter", b""),
    )
    assert IDENTITY.digest() == model
    root = by_hand(b"root", b"salt", model, b"\x04\x00\x00\x00")
    assert root == ROOT
    ids = b"\x41\x00\x00\x00\x41\x01\x00\x00\xff\xff\xff\x7f\xff\xff\xff\xff"
    plain = sha256(header(16, 0, 0) + root + ids).digest()
    assert block_hash(root, tokens(65, 321, 2**31 - 1, -1)) == plain
    held = b"\x02\x00\x00\x00" + b"\x05\x00\x00\x00" + b"image"
    image = sha256(header(16, 1, 1) + plain + ids + held).digest()
    assert block_hash(plain, tokens(65, 321, 2**31 - 1, -1), variant=1, contents=[(2, b"image")]) == image


def test_processes_with_other_hash_seeds_give_the_same_names() -> None:
    program = (
        "import numpy as np\n"
        "from openclaw_cache.kv.hashing import *\n"
        "identity = ModelIdentity('f' * 64, 'fp16', '30x3x64', 'default:10000')\n"
        "root = root_hash(b'salt', identity, 4)\n"
        "names = chain(root, np.arange(12, dtype=np.int32), 4, [0, 0, 1], [(5, b'image')])\n"
        "print(b''.join(names).hex())"
    )
    here = chain(ROOT, np.arange(12, dtype=np.int32), 4, [0, 0, 1], [(5, b"image")])
    for seed in ("0", "1", "4711"):
        process = subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        )
        assert process.stdout.strip() == b"".join(here).hex()


def test_no_field_slides_into_the_next() -> None:
    # Of the shape "org_1" + "2345" and "org_12345" + "".
    one = replace(IDENTITY, layout="org_1", rope="2345")
    other = replace(IDENTITY, layout="org_12345", rope="")
    assert one.digest() != other.digest()
    contents = [(1, b"ab"), (2, b"c")], [(1, b"a"), (2, b"bc")], [(1, b"abc")]
    assert len({block_hash(ROOT, tokens(1, 2, 3, 4), contents=some) for some in contents}) == 3


def test_an_adapter_named_like_the_salt_is_not_the_salt() -> None:
    names = {
        root_hash(salt, replace(IDENTITY, adapter=adapter), 16)
        for salt, adapter in [(b"x", ""), (b"", "x"), (b"x", "x"), (b"", "")]
    }
    assert len(names) == 4


@pytest.mark.parametrize("field", ["fingerprint", "kv_dtype", "layout", "rope", "adapter"])
def test_every_field_of_the_model_counts(field: str) -> None:
    assert replace(IDENTITY, **{field: "other"}).digest() != IDENTITY.digest()


def test_the_block_size_counts() -> None:
    assert root_hash(b"salt", IDENTITY, 16) != root_hash(b"salt", IDENTITY, 32)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ((65, 2), (321, 2)),  # equal in their lowest byte
        ((65, 2), (65 + 2**16, 2)),
        ((65, 2), (65 + 2**24, 2)),
        ((1, 2), (2, 1)),
        ((0, 0), (0,)),
        ((31, 0), (0, 1)),  # equal under h * 31 + token
    ],
)
def test_other_tokens_have_another_name(one: tuple[int, ...], other: tuple[int, ...]) -> None:
    assert block_hash(ROOT, tokens(*one)) != block_hash(ROOT, tokens(*other))


def test_namespaces_differ_at_every_block() -> None:
    ids = np.arange(40, dtype=np.int32)
    one = chain(root_hash(b"a", IDENTITY, 4), ids, 4)
    other = chain(root_hash(b"b", IDENTITY, 4), ids, 4)
    assert len(set(one + other)) == 20


def test_a_changed_token_renames_its_block_and_all_after_it() -> None:
    ids = np.arange(20, dtype=np.int32)
    changed = ids.copy()
    changed[9] = 999
    equal = [a == b for a, b in zip(chain(ROOT, ids, 4), chain(ROOT, changed, 4), strict=True)]
    assert equal == [True, True, False, False, False]


def test_a_lossy_prefix_renames_from_the_block_that_was_computed_on_it() -> None:
    ids = np.arange(12, dtype=np.int32)
    exact, lossy = chain(ROOT, ids, 4), chain(ROOT, ids, 4, variants=[0, 1, 1])
    assert [a == b for a, b in zip(exact, lossy, strict=True)] == [True, False, False]


def test_the_chain_names_each_full_block_after_the_one_before() -> None:
    ids = np.arange(11, dtype=np.int32)
    first = block_hash(ROOT, ids[:4], contents=[(3, b"image")])
    second = block_hash(first, ids[4:8], variant=1, contents=[(0, b"sound"), (2, b"film")])
    contents = [(3, b"image"), (4, b"sound"), (6, b"film"), (9, b"in the remainder")]
    assert chain(ROOT, ids, 4, [0, 1], contents) == [first, second]
    assert chain(first, ids[4:], 4, [1], [(0, b"sound"), (2, b"film")]) == [second]
    assert chain(ROOT, ids[:3], 4) == []


def test_equal_placeholders_of_other_images_have_other_names() -> None:
    placeholders = tokens(7, 7, 7, 7)
    contents = [[], [(0, b"cat")], [(0, b"dog")], [(1, b"cat")], [(0, b"cat"), (1, b"dog")]]
    assert len({block_hash(ROOT, placeholders, contents=some) for some in contents}) == 5


def test_a_strided_view_has_the_name_of_its_tokens() -> None:
    wide = np.arange(16, dtype=np.int32)
    assert block_hash(ROOT, wide[::4]) == block_hash(ROOT, tokens(0, 4, 8, 12))


def test_tokens_that_could_lose_bits_are_refused() -> None:
    with pytest.raises(ValueError, match="int64"):
        block_hash(ROOT, np.array([2**32 + 1]))
    with pytest.raises(ValueError, match="int32"):
        chain(ROOT, np.zeros((2, 4), np.int32), 4)


def test_arguments_outside_the_rules_are_refused() -> None:
    ids = tokens(1, 2, 3, 4)
    with pytest.raises(ValueError, match="32 bytes, not 5"):
        block_hash(b"short", ids)
    with pytest.raises(OverflowError):
        block_hash(ROOT, ids, variant=256)
    for contents in ([(4, b"x")], [(-1, b"x")], [(2, b"x"), (1, b"y")]):
        with pytest.raises(ValueError, match="not in order"):
            block_hash(ROOT, ids, contents=contents)
    with pytest.raises(ValueError, match="2 variants for 1 blocks"):
        chain(ROOT, ids, 4, variants=[0, 0])
