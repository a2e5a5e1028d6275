"""Which questions have no answer that could be kept, and that general ones are not taken for such."""

from __future__ import annotations

import csv
import json
from collections import Counter
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openclaw_cache.semantic.dependence import depends_on


@pytest.mark.parametrize(
    ("what", "text"),
    [
        ("time", "What's the weather in Paris tomorrow?"),
        ("time", "What time does the post office close today?"),
        ("time", "what time is it"),
        ("time", "Who is the current president of France?"),
        ("time", "What are the latest headlines?"),
        ("time", "今天天气怎么样"),
        ("time", "现在几点"),
        ("time", "最新的新闻"),
        ("time", "刚才发生了什么"),
        ("user", "Where is my order?"),
        ("user", "What is my account balance?"),
        ("user", "what did I spend at restaurants"),
        ("user", "Transfer £50 from my savings to my current account"),
        ("user", "Track order 48213"),
        ("user", "我的订单到哪了"),
        ("user", "我还有多少年假"),
        ("user", "帮我取消订单"),
        ("place", "Is there a pharmacy near me?"),
        ("place", "What can I visit around here?"),
        ("place", "附近有什么餐厅"),
        ("place", "这里有停车场吗"),
        ("conversation", "cancel it"),
        ("conversation", "how old is he"),
        ("conversation", "What about the second one?"),
        ("conversation", "tell me more"),
        ("conversation", "why?"),
        ("conversation", "那个呢"),
        ("conversation", "继续"),
        ("conversation", "那北京呢？"),
        ("conversation", "What did you say earlier about Rome? You mentioned a museum"),
    ],
)
def test_a_question_that_depends_on_something_is_told_by_it(what: str, text: str) -> None:
    assert depends_on(text) == what
    assert depends_on(text, strict=True) == what


@pytest.mark.parametrize(
    "text",
    [
        "How do I reset my password?",
        "How can I check my data usage?",
        "Can I change my delivery address?",
        "Where do I send my meter reading?",
        "What should I do if I miss a dose of my antibiotics?",
        "Do I need a gas safety certificate for my home?",
        "What happens if I don't pay my bill on time?",
        "How do I open a current account?",
        "How do I start the engine in cold weather?",
        "What is the nearest star to the Sun?",
        "Click here does nothing, what can I do?",
        "Can I return it after 14 days?",
        "How long does it take to get a visa?",
        "怎么修改我的密码",
        "如何查询我的订单",
        "快递一般几天能到？",
        "当前目录怎么查看",
        "怎么办理护照",
        "什么是机器学习？",
        "",
    ],
)
def test_a_general_question_depends_on_nothing(text: str) -> None:
    assert depends_on(text) == ""


@pytest.mark.parametrize(
    "text", ["How do I reset my password?", "Can I return it after 14 days?", "怎么修改我的密码"]
)
def test_strictly_every_mention_counts(text: str) -> None:
    assert depends_on(text, strict=True)


def test_false_alarms_are_few_on_questions_to_a_help_desk(data_root: Path) -> None:
    lines = (data_root / "semantic" / "fow_pairs.jsonl").read_text("utf-8").splitlines()
    rows = [row for row in map(json.loads, lines) if int(sha256(row["id"].encode()).hexdigest(), 16) % 2 == 0]
    texts = [text for row in rows for text in (row["a"], row["b"])]
    assert sum(bool(depends_on(text)) for text in texts) <= 0.05 * len(texts)
    with (data_root / "semantic" / "banking77_test.csv").open(encoding="utf-8", newline="") as file:
        texts = [row["text"] for row in csv.DictReader(file)]
    assert sum(bool(depends_on(text)) for text in texts) <= 0.12 * len(texts)


def test_most_questions_of_personal_intents_are_caught_and_few_of_general_ones(data_root: Path) -> None:
    rows = json.loads((data_root / "semantic" / "clinc150_data_full.json").read_text("utf-8"))["test"]
    asked, caught = (
        Counter(intent for _, intent in rows),
        Counter(intent for text, intent in rows if depends_on(text)),
    )
    personal = (
        "weather",
        "traffic",
        "spending_history",
        "shopping_list",
        "todo_list",
        "pto_balance",
        "flight_status",
    )
    general = ("definition", "recipe", "translate", "spelling", "oil_change_how", "ingredient_substitution")
    assert sum(caught[intent] for intent in personal) >= 0.75 * sum(asked[intent] for intent in personal)
    assert sum(caught[intent] for intent in general) <= 0.05 * sum(asked[intent] for intent in general)


@given(st.text(max_size=80), st.booleans())
@settings(max_examples=300, deadline=None)
def test_any_text_can_be_judged(text: str, strict: bool) -> None:
    assert depends_on(text, strict=strict) in {"", "time", "user", "place", "conversation"}


@pytest.mark.parametrize(
    ("what", "text"),
    [
        ("time", "What is the price of bitcoin?"),
        ("time", "bitcoin price"),
        ("time", "What's the exchange rate from euros to dollars?"),
        ("time", "When is the next bus to the airport?"),
        ("time", "Is the store open?"),
        ("time", "美元汇率是多少？"),
        ("time", "店开门了吗？"),
        ("time", "这款有货吗？"),
        ("user", "How much do I owe?"),
        ("user", "发货了吗？"),
        ("user", "退款到哪了？"),
        ("user", "余额多少？"),
        ("conversation", "Make it shorter."),
        ("conversation", "Try again"),
        ("conversation", "Translate the above into French."),
        ("conversation", "重写一下"),
        ("conversation", "再短一点"),
        ("", "How are exchange rates calculated?"),
        ("", "怎么打开自动续费呢？"),
        ("", "发货需要几天？"),
        ("", "How do I make my password stronger?"),
    ],
)
def test_what_changes_by_itself_needs_no_word_of_time_or_self(what: str, text: str) -> None:
    assert depends_on(text) == what
