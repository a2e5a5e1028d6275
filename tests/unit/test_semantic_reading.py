"""What is read in a question: numbers with units, names, negations, the kind of question; and odd input."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openclaw_cache.semantic.reading import MAX_READ, read
from openclaw_cache.semantic.words.forms import basic_form
from openclaw_cache.semantic.words.numerals import english_number, han_number
from openclaw_cache.semantic.words.spelling import plain


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("八千", 8000),
        ("一万八", 18_000),
        ("三千五", 3500),
        ("两百零五", 205),
        ("十五", 15),
        ("一亿两千万", 120_000_000),
        ("二〇二四", 2024),
        ("一百二十三", 123),
        ("半", 0.5),
    ],
)
def test_chinese_numbers_have_the_value_that_they_are_read_with(text: str, value: float) -> None:
    assert han_number(text) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [("twenty one", 21), ("two hundred five", 205), ("twenty one thousand", 21_000), ("three million", 3e6)],
)
def test_english_numbers_have_the_value_that_they_are_read_with(text: str, value: float) -> None:
    assert english_number(text.split()) == value


@pytest.mark.parametrize(
    "texts",
    [
        ("two weeks", "14 days", "14天", "两周", "十四天", "2 weeks", "１４天"),
        ("£50", "fifty pounds", "50 GBP", "50英镑"),
        ("15%", "fifteen percent", "15 per cent", "15 percent", "百分之十五"),
        ("18000元", "一万八千元", "¥18,000", "18k yuan", "1.8万元"),
        ("7pm", "7 pm", "19:00", "下午7点", "晚上七点"),
        ("30 minutes", "0.5 hours", "半小时"),
        ("2 years", "24 months", "两年"),
        ("10GB", "10 gigabytes", "10000 MB"),
    ],
)
def test_one_amount_is_one_quantity_however_it_is_written(texts: tuple[str, ...]) -> None:
    assert {read(text).quantities for text in texts} == {read(texts[0]).quantities}
    assert len(read(texts[0]).quantities) == 1


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("30 days", "30 months"),
        ("30天", "90天"),
        ("$50", "£50"),
        ("2pm", "2am"),
        ("9:15", "9:45"),
        ("version 3.8", "version 3.9"),
        ("第二季度", "第三季度"),
        ("5 miles", "5 km"),
        ("a month", "a year"),
        ("3月", "3个月"),
    ],
)
def test_other_amounts_are_other_quantities(one: str, other: str) -> None:
    assert read(one).quantities != read(other).quantities


@pytest.mark.parametrize(
    "text", ["一般多久到账", "一起吃", "四川在哪里", "one of my tablets", "周一营业吗", "统一登录"]
)
def test_a_numeral_that_counts_nothing_is_no_quantity(text: str) -> None:
    assert read(text).quantities == ()


@pytest.mark.parametrize(
    ("form", "word"),
    [
        ("deliveries", "delivery"),
        ("cancelled", "cancel"),
        ("fees", "fee"),
        ("wages", "wage"),
        ("bought", "buy"),
        ("children", "child"),
        ("filing", "file"),
        ("news", "news"),
        ("colour", "color"),
    ],
)
def test_forms_lead_to_their_word(form: str, word: str) -> None:
    assert basic_form(form) == word


@pytest.mark.parametrize(
    ("text", "num_negations"),
    [
        ("I don't know", 1),
        ("I can't pay", 1),
        ("dont pay", 1),
        ("能不能退货", 0),
        ("是不是免费", 0),
        ("不能退货", 1),
        ("特别慢", 0),
        ("无人机", 0),
        ("没有发票", 1),
        ("Can it get wet wihtout damage", 1),
    ],
)
def test_negations_are_counted_and_questions_by_a_negation_are_none(text: str, num_negations: int) -> None:
    assert read(text).marks.num_negations == num_negations


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("How do I pay?", "how"),
        ("how come it failed", "why"),
        ("Why did it fail?", "why"),
        ("What time do you open?", "when"),
        ("How much does it cost?", "price"),
        ("How much luggage may I take?", "number"),
        ("How long does it take?", "duration"),
        ("Do you ship to Japan?", "whether"),
        ("um, can I pay later", "whether"),
        ("为什么失败", "why"),
        ("怎么付款", "how"),
        ("多少钱", "price"),
        ("可以退货吗", "whether"),
    ],
)
def test_the_kind_of_a_question_is_read(text: str, kind: str) -> None:
    assert read(text).marks.asks == {kind}


def test_names_are_told_from_words_by_their_capitals_where_these_tell() -> None:
    def names(text: str) -> set[str]:
        return {word.key for word in read(text).words if word.is_name}

    assert names("Does the Kindle work with Klarna?") == {"kindle", "klarna"}
    assert names("WHAT ARE YOUR DELIVERY OPTIONS?") == set()
    assert names("ok What's the price?") == set()
    assert names("怎么用 Trello 看板") == {"trello"}


def test_identifiers_are_codes() -> None:
    assert read("what does foo_bar in os.path do").codes == {"foo_bar", "os.path"}


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("免費版能導出資料嗎？", "免费版能导出资料吗?"),
        ("ｐａｙＰａｌ １２３％", "payPal 123%"),
        ("p\u0430yp\u0430l", "paypal"),
        ("pay\u200bpal", "paypal"),
        ("don\u2019t", "don't"),
        ("раура", "раура"),
    ],
)
def test_what_looks_the_same_is_spelled_the_same(text: str, same: str) -> None:
    assert plain(text) == same


@given(st.text(max_size=60))
@settings(max_examples=300, deadline=None)
def test_any_text_can_be_read(text: str) -> None:
    reading = read(text)
    assert reading.text == text
    assert len(reading.words) <= len(reading.order)


@pytest.mark.parametrize(
    "text", ["", " ", "?!", "😀", "שלום עולם", "مرحبا بك", "\u202e\u200b", "¿?", "٣ أيام"]
)
def test_odd_texts_are_read_without_a_fault(text: str) -> None:
    assert read(text).weight >= 0


def test_a_text_longer_than_is_read_says_so() -> None:
    assert not read("a " * MAX_READ).is_whole
    assert read("a " * 100).is_whole
