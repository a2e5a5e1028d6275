"""Tokenizers made of GGUF metadata, against transformers' own and against slow ones written here."""

import json
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openclaw_cache.engine.gguf_meta import GgufMeta
from openclaw_cache.engine.gguf_tokenizer import (
    SpecialTokens,
    build_tokenizer,
    special_tokens,
    write_tokenizer,
)
from openclaw_cache.errors import ConfigError

for library in ("gguf", "torch", "transformers"):
    pytest.importorskip(library, reason="the [engine] extra is not installed")

from tokenizers import Tokenizer, models, pre_tokenizers, trainers  # noqa: E402
from tokenizers.decoders import DecodeStream  # noqa: E402
from transformers import AutoTokenizer, LlamaTokenizer, Qwen2Tokenizer  # noqa: E402
from transformers.convert_slow_tokenizer import TikTokenConverter  # noqa: E402

from support.tiny_gguf import TEMPLATE, fields  # noqa: E402

CORPUS = [
    "The quick brown fox jumps over the lazy dog. I'll say it's 2024-01-15, isn't it? DON'T!",
    "def add(first, second):\n\treturn first + second  # naïve café\n\n\nclass Adder:\n    pass\n",
    "价格是 128 元，对吗？你好，世界！今天天气怎么样？你好你好世界世界。こんにちは 한국어",
    "emoji 🎉🎉 and\r\nCRLF   spaces 1,000,000 3.14159 x10 camelCase HTTPServer",
]
TEXTS = st.one_of(
    st.text(st.characters(codec="utf-8"), max_size=30),
    st.text("abcdehint ABC'12 \t\r\n.,(){}=_中文你好é\u0301ñ🎉３٣", max_size=50),
)
CONTROLS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]


@cache
def byte_level_fields() -> dict[str, Any]:
    """A vocabulary of all bytes and 200 merges, learned from the corpus."""
    trained = Tokenizer(models.BPE())
    trained.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trained.train_from_iterator(
        CORPUS, trainers.BpeTrainer(vocab_size=456, initial_alphabet=alphabet, show_progress=False)
    )
    ids = trained.get_vocab()
    merges = json.loads(trained.to_str())["model"]["merges"]
    tokens = [*CONTROLS, "<tool_call>", *sorted(ids, key=ids.__getitem__)]
    return {
        "tokenizer__tokens": tokens,
        "tokenizer__token_type": [3, 3, 3, 4] + [1] * (len(tokens) - 4),
        "tokenizer__merges": [" ".join(merge) for merge in merges],
    }


def meta_of(arch: str = "llama", **changes: Any) -> GgufMeta:
    return GgufMeta(Path("x.gguf"), {"general.architecture": arch} | fields(arch, **changes))


def byte_level(pre: str, **changes: Any) -> Any:
    meta = meta_of(**byte_level_fields() | {"tokenizer__pre": pre} | changes)
    return build_tokenizer(meta, special_tokens(meta))


def reference_vocabulary() -> tuple[dict[str, int], list[tuple[str, ...]]]:
    known = byte_level_fields()
    merges = [tuple(merge.split(" ")) for merge in known["tokenizer__merges"]]
    return {token: i for i, token in enumerate(known["tokenizer__tokens"])}, merges


@cache
def qwen2_pair() -> tuple[Any, Any]:
    vocab, merges = reference_vocabulary()
    return byte_level("qwen2"), Qwen2Tokenizer(vocab=vocab, merges=merges)


@given(text=TEXTS)
@settings(deadline=None)
def test_qwen2_ids_are_those_of_transformers_own_tokenizer(text: str) -> None:
    ours, theirs = qwen2_pair()
    assert ours.encode(text).ids == theirs.encode(text, add_special_tokens=False)


@cache
def llama3_pair(tmp_path: Path) -> tuple[Any, Any]:
    """Llama 3's tokenizer is one of tiktoken's kind; its ranks are ids, so the merges are in their order."""
    letters = {letter: byte for byte, letter in byte_letters().items()}
    tokens = byte_level_fields()["tokenizer__tokens"][len(CONTROLS) + 1 :]
    ranked = [bytes(letters[letter] for letter in token) for token in tokens]

    class Ranks(TikTokenConverter):  # type: ignore[misc]
        @staticmethod
        def load_tiktoken_bpe(_url: str) -> dict[bytes, int]:
            return {token: rank for rank, token in enumerate(ranked)}

    theirs = Ranks(vocab_file=str(tmp_path)).converted()
    return byte_level("llama-bpe", tokenizer__add_bos_token=False), theirs


@given(text=TEXTS)
@settings(deadline=None)
def test_llama3_ids_are_those_of_transformers_own_tokenizer(text: str) -> None:
    ours, theirs = llama3_pair(Path())
    num_before = len(CONTROLS) + 1
    assert ours.encode(text).ids == [i + num_before for i in theirs.encode(text).ids]


# Cut by hand after the patterns of the models' tokenizer.json.
@pytest.mark.parametrize(
    ("pre", "text", "words"),
    [
        ("gpt-2", "I'll pay 1234 you'LL", ["I", "'ll", " pay", " 1234", " you", "'", "LL"]),
        ("smollm", "pay 1234\n\n x", ["pay", " ", "1", "2", "3", "4", "\n\n", " x"]),
        ("starcoder", "x10 (a)", ["x", "1", "0", " (", "a", ")"]),
        ("qwen2", "you'LL pay 1234!?\n\n x", ["you", "'LL", " pay", " ", "1", "2", "3", "4", "!?\n\n", " x"]),
        ("qwen2", "f(x)\n\n\n  y", ["f", "(x", ")\n\n\n", " ", " y"]),
        ("llama-bpe", "you'LL pay 12345", ["you", "'LL", " pay", " ", "123", "45"]),
        ("tekken", "camelCase HTTPServer 12", ["camel", "Case", " HTTPServer", " ", "1", "2"]),
        ("tekken", "a/b //\n\nx", ["a", "/b", " //\n\n", "x"]),
        (
            "deepseek-coder",
            "x = 12;\n\ny 你好ab",
            ["x", " = ", "1", "2", ";", "\n", "\n", "y", " ", "你好", "ab"],
        ),
    ],
)
def test_a_text_is_cut_into_words_as_the_model_learned_it(pre: str, text: str, words: list[str]) -> None:
    letters = {letter: byte for byte, letter in byte_letters().items()}
    cut = byte_level(pre).pre_tokenizer.pre_tokenize_str(text)
    assert [bytes(letters[letter] for letter in word).decode() for word, _ in cut] == words


def byte_letters() -> dict[int, str]:
    """GPT-2's printable letter for each byte (Radford et al. 2019, encoder.py: bytes_to_unicode)."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {byte: chr(byte) for byte in printable} | {byte: chr(256 + i) for i, byte in enumerate(others)}


@pytest.mark.parametrize("pre", ["smollm", "gpt-2", "llama-bpe", "tekken", "deepseek-coder"])
@given(text=TEXTS)
@settings(deadline=None, max_examples=40)
def test_decoding_gives_back_the_text(pre: str, text: str) -> None:
    tokenizer = cached_byte_level(pre)
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    assert tokenizer.decode(ids, skip_special_tokens=False) == text


@cache
def cached_byte_level(pre: str) -> Any:
    return byte_level(pre)


def test_special_tokens_are_found_in_a_text_and_only_control_tokens_are_hidden() -> None:
    tokenizer = byte_level("qwen2")
    ids = tokenizer.encode("<|im_start|>a<tool_call>b<|im_end|>").ids
    assert (ids[0], ids[2], ids[-1]) == (1, 3, 2)
    assert tokenizer.decode(ids) == "a<tool_call>b"


def test_a_word_that_is_a_token_is_not_merged_where_the_model_learned_it_so() -> None:
    # "abc" cannot be reached by the merges: b and c come first.
    changes = {
        "tokenizer__tokens": ["<s>", "</s>", "a", "b", "c", "bc", "abc"],
        "tokenizer__token_type": [3, 3, 1, 1, 1, 1, 1],
        "tokenizer__merges": ["b c"],
        "tokenizer__bos_token_id": 0,
        "tokenizer__eos_token_id": 1,
    }
    merged = byte_level("qwen2", **changes).encode("abc").tokens
    kept = byte_level("llama-bpe", **changes).encode("abc", add_special_tokens=False).tokens
    assert (merged, kept) == (["a", "bc"], ["abc"])


def sentencepiece_fields(*normal: str, controls: tuple[str, ...] = ()) -> dict[str, Any]:
    """Pieces in the order of their scores, after unknown, begin, end and all bytes."""
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *controls, *normal]
    types = [2, 3, 3] + [6] * 256 + [3] * len(controls) + [1] * len(normal)
    num_others = len(tokens) - len(normal)
    return {
        "tokenizer__model": "llama",
        "tokenizer__pre": "default",
        "tokenizer__merges": None,
        "tokenizer__tokens": tokens,
        "tokenizer__token_type": types,
        "tokenizer__scores": [0.0] * num_others + [-float(i) for i in range(len(normal))],
        "tokenizer__bos_token_id": 1,
        "tokenizer__eos_token_id": 2,
    }


PIECES = (
    *("▁▁", "▁t", "he", "▁a", "▁▁▁▁", "▁the", "in", "er", "lo", "▁he", "llo", "▁hello", "re", "th", "▁in"),
    *("你好", "▁th", "ing", "▁▁▁", "there"),
    *"▁etaoinshrldcu你好世,.",
)


def sentencepiece(**changes: Any) -> Any:
    meta = meta_of(**sentencepiece_fields(*PIECES) | changes)
    return build_tokenizer(meta, special_tokens(meta))


def pieces_slowly(text: str) -> list[str]:
    """Merge the neighbours whose piece has the highest score, leftmost first, until none is left."""
    rank = {piece: i for i, piece in enumerate(PIECES)}
    parts = list(("▁" + text).replace(" ", "▁")) if text else []
    while True:
        found = [(rank[a + b], i) for i, (a, b) in enumerate(pairwise(parts)) if a + b in rank]
        if not found:
            break
        _, i = min(found)
        parts[i : i + 2] = [parts[i] + parts[i + 1]]
    out: list[str] = []
    for part in parts:
        out += [part] if part in rank else [f"<0x{byte:02X}>" for byte in part.encode()]
    return out


@cache
def cached_sentencepiece() -> Any:
    return sentencepiece()


@given(text=st.text("helo thein rs你好世界é🎉\n", max_size=40))
@settings(deadline=None)
def test_sentencepiece_merges_the_best_pair_first_and_falls_back_to_bytes(text: str) -> None:
    assert cached_sentencepiece().encode(text, add_special_tokens=False).tokens == pieces_slowly(text)


@given(text=st.text("helo thein rs你好世界é🎉\n", max_size=40))
@settings(deadline=None)
def test_sentencepiece_decoding_gives_back_the_text(text: str) -> None:
    tokenizer = cached_sentencepiece()
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    assert tokenizer.decode(ids, skip_special_tokens=False) == text


@given(text=st.text("helo thein rs你好世界é🎉\n", max_size=40))
@settings(deadline=None)
def test_sentencepiece_text_that_is_decoded_token_by_token_is_the_same(text: str) -> None:
    tokenizer = cached_sentencepiece()
    stream = DecodeStream(skip_special_tokens=True)
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    assert "".join(stream.step(tokenizer, token) or "" for token in ids) == text


def test_what_follows_a_special_token_begins_with_a_space_as_in_llama_2() -> None:
    tokenizer = sentencepiece()
    assert tokenizer.encode("<s>the</s>the", add_special_tokens=False).tokens == [
        "<s>",
        "▁the",
        "</s>",
        "▁the",
    ]
    bare = sentencepiece(tokenizer__add_space_prefix=False)
    assert bare.encode("the", add_special_tokens=False).tokens == ["t", "he"]


def test_only_the_beginning_of_a_text_does_where_inst_is_a_token_as_in_mistral_v3() -> None:
    meta = meta_of(**sentencepiece_fields(*PIECES, controls=("[INST]", "[/INST]")))
    tokenizer = build_tokenizer(meta, special_tokens(meta))
    # mistralai/mistral-common, issue 3: <s>[INST]▁Hello[/INST]▁Hi
    ids = tokenizer.encode("<s>[INST] hello[/INST] there", add_special_tokens=False)
    assert ids.tokens == ["<s>", "[INST]", "▁hello", "[/INST]", "▁the", "re"]
    assert tokenizer.encode("hello", add_special_tokens=False).tokens == ["▁hello"]
    # transformers' own tokenizer for these models
    vocab = {token: i for i, token in enumerate(sentencepiece_fields(*PIECES)["tokenizer__tokens"])}
    merges = [("h", "e"), ("l", "o"), ("l", "lo"), ("▁", "he"), ("▁he", "llo")]
    theirs = LlamaTokenizer(vocab=vocab, merges=merges, legacy=False)
    assert theirs.tokenize("hello") == ["▁hello"]


@pytest.mark.parametrize(
    ("changes", "around"),
    [
        ({}, ["<s>"]),
        ({"tokenizer__add_bos_token": False}, []),
        ({"tokenizer__add_eos_token": True}, ["<s>", "</s>"]),
    ],
)
def test_the_folders_tokenizer_puts_around_a_text_what_the_file_says(
    tmp_path: Path, changes: dict[str, Any], around: list[str]
) -> None:
    meta = meta_of(**sentencepiece_fields(*PIECES) | changes)
    write_tokenizer(meta, special_tokens(meta), tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    tokens = tokenizer.convert_ids_to_tokens(tokenizer("the").input_ids)
    assert [token for token in tokens if token != "▁the"] == around
    assert (tokenizer.bos_token, tokenizer.eos_token, tokenizer.unk_token) == ("<s>", "</s>", "<unk>")


def ends(template: str = TEMPLATE, **changes: Any) -> set[str]:
    tokens = ["<|begin_of_text|>", "<|end_of_text|>", "<|eom_id|>", "<|eot_id|>", "<|im_end|>", "a"]
    known = {
        "tokenizer__tokens": tokens,
        "tokenizer__token_type": [3, 3, 3, 3, 1, 1],
        "tokenizer__merges": [],
        "tokenizer__bos_token_id": 0,
        "tokenizer__eos_token_id": 1,
        "tokenizer__chat_template": template,
    }
    return {tokens[i] for i in special_tokens(meta_of(**known | changes)).ends}


def test_a_reply_ends_with_the_end_of_a_text_of_a_message_and_with_what_closes_a_turn() -> None:
    assert ends() == {"<|end_of_text|>", "<|eom_id|>"}
    assert ends("{{ x }}<|eot_id|>") == {"<|end_of_text|>", "<|eom_id|>", "<|eot_id|>"}
    assert ends("{{ x }}<|im_end|>") == {"<|end_of_text|>", "<|eom_id|>", "<|im_end|>"}
    assert ends(tokenizer__eot_token_id=3) == {"<|end_of_text|>", "<|eom_id|>", "<|eot_id|>"}
    assert ends(tokenizer__token_type=[3, 1, 1, 1, 1, 1]) == {"<|end_of_text|>"}


def test_a_token_that_closes_a_turn_is_special_whatever_its_type() -> None:
    meta = meta_of(
        tokenizer__token_type=[1] * 10,
        tokenizer__chat_template="{{ m }}<|im_end|>",
        tokenizer__eos_token_id=0,
    )
    special = special_tokens(meta)
    assert special.ends == (0, 2)
    assert build_tokenizer(meta, special).encode("a<|im_end|>").ids == [3, 2]


@pytest.mark.parametrize(
    ("changes", "begins"),
    [
        ({"tokenizer__pre": "llama-bpe"}, True),
        ({"tokenizer__pre": "llama-bpe", "tokenizer__add_bos_token": False}, False),
        ({"tokenizer__pre": "qwen2"}, False),
        ({"tokenizer__pre": "qwen2", "tokenizer__bos_token_id": None}, False),
        (sentencepiece_fields(*PIECES) | {"tokenizer__bos_token_id": None}, True),
    ],
)
def test_whether_a_text_has_a_beginning_is_llama_cpps_default_where_the_file_does_not_say(
    changes: dict[str, Any], begins: bool
) -> None:
    assert special_tokens(meta_of(**changes)).adds_bos == begins


def built(meta: GgufMeta) -> SpecialTokens:
    special = special_tokens(meta)
    build_tokenizer(meta, special)
    return special


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"tokenizer__model": "t5"}, "tokenizer.ggml.model is 't5', only 'gpt2', 'llama' is known"),
        ({"tokenizer__pre": "falcon"}, "tokenizer.ggml.pre is 'falcon'"),
        ({"tokenizer__pre": "default"}, "tokenizer.ggml.pre is 'default'"),
        ({"tokenizer__pre": None}, "it has no tokenizer.ggml.pre"),
        ({"tokenizer__chat_template": None}, "no chat template"),
        ({"tokenizer__token_type": None}, "it has no tokenizer.ggml.token_type"),
        ({"tokenizer__token_type": [3, 3]}, "not one of each, each with a type"),
        ({"tokenizer__tokens": ["a"] * 10}, "not one of each, each with a type"),
        ({"tokenizer__merges": ["a b", "a 2"]}, "'a 2', which does not make a token of two"),
        ({"tokenizer__merges": None}, "it has no tokenizer.ggml.merges"),
        ({"tokenizer__add_space_prefix": True}, "add_space_prefix is True, only False"),
        ({"tokenizer__eos_token_id": 10}, "eos_token_id is 10, but there are 10 tokens"),
        ({"tokenizer__eos_token_id": None}, "it has no tokenizer.ggml.eos_token_id"),
        ({"tokenizer__bos_token_id": None, "tokenizer__add_bos_token": True}, "begins with a token"),
        (sentencepiece_fields(*PIECES) | {"tokenizer__scores": None}, "it has no tokenizer.ggml.scores"),
        (sentencepiece_fields(*PIECES) | {"tokenizer__scores": [1.0]}, "not one score for each token"),
        (
            sentencepiece_fields("a", "b", "ab") | {"tokenizer__scores": [-1000.0] * 262},
            "scores are all equal",
        ),
        (sentencepiece_fields(*PIECES) | {"tokenizer__remove_extra_whitespaces": True}, "extra_whitespaces"),
        (sentencepiece_fields(*PIECES) | {"tokenizer__precompiled_charsmap": [1]}, "precompiled_charsmap"),
        (
            sentencepiece_fields(*PIECES) | {"tokenizer__token_type": [2] + [3] * 258 + [1] * len(PIECES)},
            "no token for each byte",
        ),
    ],
)
def test_a_tokenizer_that_would_cut_texts_wrongly_is_refused_with_the_reason(
    changes: dict[str, Any], reason: str
) -> None:
    with pytest.raises(ConfigError, match=reason) as refused:
        built(meta_of(**changes))
    assert "x.gguf" in str(refused.value)
    assert "give the model's Hugging Face folder" in str(refused.value)
