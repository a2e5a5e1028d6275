"""The converted tokenizer against a slow one written here from the GGUF's own vocabulary and merges."""

from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openclaw_cache.engine.source import resolve

pytestmark = pytest.mark.model

tokenizers = pytest.importorskip("tokenizers", reason="the [engine] extra is not installed")
regex = pytest.importorskip("regex", reason="the [engine] extra is not installed")
gguf = pytest.importorskip("gguf", reason="the [engine] extra is not installed")

# llama.cpp, src/llama-vocab.cpp, pre-tokenizer "smollm": every digit alone, then GPT-2's pattern.
DIGIT = regex.compile(r"\p{N}")
GPT2 = regex.compile(r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+")


def byte_letters() -> dict[int, str]:
    """GPT-2's printable letter for each byte (Radford et al. 2019, encoder.py: bytes_to_unicode)."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {byte: chr(byte) for byte in printable} | {byte: chr(256 + i) for i, byte in enumerate(others)}


LETTERS = byte_letters()


@pytest.fixture(scope="module")
def tokenizer(model_data_dir: Path) -> Any:
    (file,) = (model_data_dir / "models").glob("smollm2-135m-????????/tokenizer.json")
    return tokenizers.Tokenizer.from_file(str(file))


@cache
def vocabulary() -> tuple[dict[str, int], dict[tuple[str, str], int]]:
    fields = gguf.GGUFReader(resolve("smollm2-135m").path).fields
    tokens = fields["tokenizer.ggml.tokens"].contents()
    merges = fields["tokenizer.ggml.merges"].contents()
    ranks = {tuple(merge.split(" ")): rank for rank, merge in enumerate(merges)}
    return {token: i for i, token in enumerate(tokens)}, ranks


def words_of(text: str) -> list[str]:
    words: list[str] = []
    start = 0
    for digit in DIGIT.finditer(text):
        words += GPT2.findall(text[start : digit.start()])
        words.append(digit.group())
        start = digit.end()
    return words + GPT2.findall(text[start:])


def encoded_slowly(text: str) -> list[int]:
    ids, ranks = vocabulary()
    out: list[int] = []
    for word in words_of(text):
        parts = [LETTERS[byte] for byte in word.encode() if LETTERS[byte] in ids]
        while len(parts) > 1:
            best = min(pairwise(parts), key=lambda pair: ranks.get(pair, 10**9))
            if best not in ranks:
                break
            merged: list[str] = []
            for part in parts:
                if merged and (merged[-1], part) == best:
                    merged[-1] += part
                else:
                    merged.append(part)
            parts = merged
        out += [ids[part] for part in parts]
    return out


def is_covered(text: str) -> bool:
    """Whether the vocabulary has a token for each byte: 21 bytes that hardly occur have none."""
    return all(LETTERS[byte] in vocabulary()[0] for byte in text.encode())


UNICODE = st.text(st.characters(codec="utf-8"), max_size=40)
CODE_LIKE = st.text("abcdefgh ABC'12 \t\n.,(){}=_中文éñ🎉", max_size=60)
TEXTS = st.one_of(UNICODE, CODE_LIKE)


def test_the_special_tokens_are_those_of_the_model_card(tokenizer: Any) -> None:
    ids = tokenizer.encode("<|im_start|>user\n<|im_end|><|endoftext|>", add_special_tokens=False).ids
    assert (ids[0], ids[-2], ids[-1]) == (1, 2, 0)
    assert tokenizer.get_vocab_size() == 49152


def test_every_digit_is_a_token_of_its_own(tokenizer: Any) -> None:
    assert tokenizer.encode("2024 x10").tokens == ["2", "0", "2", "4", "Ġx", "1", "0"]


# Ids that other runtimes of SmolLM2 publish as their test vectors, made with the publisher's tokenizer.
@pytest.mark.parametrize(
    ("text", "ids"),
    [
        (
            "The quick brown fox jumps over the lazy dog",
            [504, 2365, 6354, 16438, 27003, 690, 260, 23790, 2767],
        ),
        ("Tab\there\nNewline\n\nDouble", [30064, 197, 1531, 198, 5529, 1311, 198, 198, 33743]),
        ("'s 't 're 've 'm 'll 'd", [506, 637, 100, 637, 257, 637, 307, 637, 93, 637, 764, 637, 84]),
        (
            "a,b,c...   ???!!!  <tag>",
            [81, 28, 82, 28, 83, 2026, 256, 9148, 16693, 29646, 216, 2067, 9204, 46],
        ),
        ("Hello, 世界!", [19556, 28, 216, 7906, 240, 178, 239, 230, 17]),
    ],
)
def test_token_ids_are_those_that_the_publishers_tokenizer_gives(
    tokenizer: Any, text: str, ids: list[int]
) -> None:
    assert tokenizer.encode(text).ids == ids


@pytest.mark.parametrize(
    "text",
    [
        "Hello world",
        "def f(x):\n\treturn x ** 2  # naïve\n",
        "I'll say it's 3.14159 or 1,000,000",
        "价格是 128 元，对吗？",
        "emoji 🎉👩‍👩‍👧 and\r\nCRLF   spaces ",
        "Ⅷ ½ ٣ ²",
        '{"name": "add", "arguments": {"a": 1}}',
    ],
)
def test_token_ids_equal_those_of_a_plain_byte_pair_encoding(tokenizer: Any, text: str) -> None:
    assert tokenizer.encode(text).ids == encoded_slowly(text)


@given(text=TEXTS)
@settings(deadline=None)
def test_token_ids_equal_those_of_a_plain_byte_pair_encoding_for_any_text(tokenizer: Any, text: str) -> None:
    assert tokenizer.encode(text).ids == encoded_slowly(text)


@given(text=TEXTS.filter(is_covered))
@settings(deadline=None)
def test_decoding_gives_back_the_text(tokenizer: Any, text: str) -> None:
    assert tokenizer.decode(tokenizer.encode(text).ids, skip_special_tokens=False) == text


@given(text=TEXTS.filter(is_covered))
@settings(deadline=None)
def test_text_that_is_decoded_token_by_token_is_the_same_and_never_shows_half_a_character(
    tokenizer: Any, text: str
) -> None:
    stream = tokenizers.decoders.DecodeStream(skip_special_tokens=True)
    pieces = [stream.step(tokenizer, token) or "" for token in tokenizer.encode(text).ids]
    if "\ufffd" in text:  # a text may have the replacement mark of its own; it may be held back at the end
        assert text.startswith("".join(pieces))
    else:
        assert "".join(pieces) == text
        assert not any("\ufffd" in piece for piece in pieces)
