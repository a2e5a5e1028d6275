"""What full text search sees of a text."""

from __future__ import annotations

import pytest

from openclaw_cache.memory.terms import MAX_QUERY_TERMS, telling_terms, terms, text_query


def asks(question: str, text: str) -> bool:
    """Whether a question finds a text."""
    return bool(set(text_query(question).terms) & set(terms(text)))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("migrations", "migration"),
        ("decided", "deciding"),
        ("chose", "chosen"),
        ("companies", "company"),
        ("children", "child"),
        ("webhooks", "webhook"),  # in no table of words
        ("Zürich", "ZURICH"),
        ("naïve café", "NAIVE CAFE"),
        ("Straße", "STRASSE"),
        ("Øresund", "oresund"),
        ("資料庫遷移", "资料库迁移"),
        ("ＡＢＣ１２３", "abc123"),
        ("サーバー", "ｻｰﾊﾞｰ"),
        ("don’t", "don't"),
        ("03", "3"),
        ("1,000", "1000"),
    ],
)
def test_two_ways_of_writing_one_thing_have_the_same_terms(one: str, other: str) -> None:
    assert terms(one) == terms(other)


def test_neighbours_and_single_characters_of_a_chinese_run_are_terms() -> None:
    assert terms("数据库") == ["数据", "据库", "数", "据", "库"]


def test_mixed_text_is_parted_where_the_script_changes() -> None:
    found = terms("用Python写的")

    assert found == ["用", "python", "写的", "写", "的"]


@pytest.mark.parametrize("part", ["foo_bar.baz", "foo", "bar", "baz", "foo_bar", "Foo Bar"])
def test_an_identifier_is_found_as_a_whole_and_by_its_parts(part: str) -> None:
    assert asks(part, "call foo_bar.baz() first")


@pytest.mark.parametrize("part", ["getUserName", "user", "getusername"])
def test_capital_letters_part_an_identifier(part: str) -> None:
    assert asks(part, "what getUserName returns")


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("terms.py", "it is in src/openclaw_cache/memory/terms.py"),
        ("openclaw_cache", "it is in src/openclaw_cache/memory/terms.py"),
        ("example.org", "write to anna.mueller@example.org"),
        ("anna.mueller@example.org", "write to anna.mueller@example.org"),
        ("GPT4", "we use GPT-4 for it"),
        ("16 GB", "it needs 16GB"),
        ("C++", "written in C++"),
        ("猫", "我的猫很可爱"),
        ("猫", "我喜欢猫"),
        ("한국어", "저는 한국어를 공부해요"),
        ("再起動", "サーバーを再起動した"),
        ("ไทย", "ประเทศไทย"),
        ("भाषा", "हिन्दी भाषा"),
    ],
)
def test_a_part_finds_the_whole(question: str, text: str) -> None:
    assert asks(question, text)


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("2.3.1", "version 23.1 is out"),
        ("C++", "grade C"),
        ("C#", "written in C++"),
        ("Anna's", "the letter s"),
        ("हिन्दी", "हनद"),
    ],
)
def test_what_is_written_alike_but_is_another_thing_is_not_found(question: str, text: str) -> None:
    whole = terms(question)[0]

    assert whole not in terms(text)


def test_a_question_is_asked_without_the_words_that_tell_nothing() -> None:
    assert text_query("What did we decide about the migration?").terms == ("decide", "migration")


def test_a_chinese_question_is_asked_without_the_words_that_tell_nothing() -> None:
    assert text_query("我们是什么时候决定迁移的？").terms == ("决定", "定迁", "迁移")


def test_a_character_that_stands_alone_in_a_question_is_looked_for() -> None:
    assert text_query("我的猫呢").terms == ("猫",)


@pytest.mark.parametrize("question", ["what is it?", "the", "是什么"])
def test_a_question_of_words_that_tell_nothing_keeps_them(question: str) -> None:
    assert text_query(question).terms
    assert not telling_terms(question)


@pytest.mark.parametrize("greeting", ["hello", "thanks", "ok", "好的", "谢谢", "你好", "？！", "", "🙂"])
def test_a_greeting_tells_nothing(greeting: str) -> None:
    assert telling_terms(greeting) == ()


def test_a_long_question_is_asked_by_its_beginning_and_its_end() -> None:
    words = [f"word{number}x" for number in range(1000)]

    asked = text_query(" ".join(words)).terms

    assert len(asked) == MAX_QUERY_TERMS == 64
    assert asked[0] == "word0x"
    assert asked[-1] == "word999x"
