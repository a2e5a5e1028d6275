"""Which statements speak of one and the same thing, and which of them holds."""

import pytest

from openclaw_cache.memory.capture.candidates import Candidate
from openclaw_cache.memory.capture.reading import slot_of
from openclaw_cache.memory.capture.sameness import is_same
from openclaw_cache.memory.capture.superseding import Decision, superseding
from openclaw_cache.memory.record import Memory


def memory(text: str, at: float = 10.0, memory_id: str = "mem_1") -> Memory:
    return Memory(memory_id, text, "fact", (), "capture", at, at, at, slot=slot_of(text))


def said(text: str, at: float = 20.0) -> Candidate:
    return Candidate(text, "fact", slot_of(text), (), at, "msg_1")


@pytest.mark.parametrize(
    ("text", "slot"),
    [
        ("My name is Ada", "user.name"),
        ("my full name is Ada Byron", "user.name"),
        ("User's name is Ada", "user.name"),
        ("The user is called Ada", "user.name"),
        ("我叫李雷", "user.name"),
        ("用户的名字是李雷", "user.name"),
        ("I live in Lisbon", "user.city"),
        ("I've moved to Utrecht", "user.city"),
        ("The user lives in Lisbon", "user.city"),
        ("我住在上海", "user.city"),
        ("I work at Siemens", "user.employer"),
        ("我在华为工作", "user.employer"),
        ("My favourite editor is Vim", "user.editor"),
        ("My favorite editor is Helix now", "user.editor"),
        ("My editor has changed to Zed", "user.editor"),
        ("我最喜欢的编辑器是Vim", "user.editor"),
        ("My favourite colour is green", "user.color"),
        ("我最喜欢的颜色是绿色", "user.color"),
        ("The codename is Bluebird", "project.codename"),
        ("Our project code name is Bluebird", "project.codename"),
        ("项目代号是蓝鸟", "project.codename"),
        ("The codename of project Atlas is Kestrel", "codename of atlas"),
        ("Atlas's codename is Kestrel", "codename of atlas"),
        ("阿特拉斯的负责人是小李", "owner of 阿特拉斯"),
        ("The deadline for the tax report is Friday", "deadline of tax report"),
        ("The tax report is due on Friday", "deadline of tax report"),
        ("The deadline is Friday", "project.deadline"),
        ("截止日期是3月3日", "project.deadline"),
        ("The staging server runs on Debian 12", "staging server runs"),
    ],
)
def test_statements_about_one_thing_share_a_slot_in_whatever_words(text: str, slot: str) -> None:
    assert slot_of(text) == slot


@pytest.mark.parametrize(
    "text",
    [
        "I like tea",
        "I like coffee",
        "我喜欢喝茶",
        "I'm allergic to peanuts",
        "We decided to use Rust",
        "My dog is called Biscuit",
        "I have two kids",
        "Always answer in French",
        "The meeting with Bob is on Tuesday",
        "I prefer tabs over spaces",
        "My first employer was Nokia",
        "My name is not important",
        "The sky is blue",
        "",
        "My name is Ada. I have two dogs and a cat.",
    ],
)
def test_what_may_stand_beside_others_has_no_slot(text: str) -> None:
    assert slot_of(text) is None


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("My favourite editor is Vim", "My favourite editor is Helix now"),
        ("My favourite editor is Vim", "我最喜欢的编辑器是Helix"),
        ("I live in Berlin", "I've just moved to Utrecht"),
        ("The deadline is Monday", "The deadline has been moved to Friday"),
        ("The codename of project Atlas is Kestrel", "Atlas's codename is Heron"),
        ("我住在上海", "我搬到杭州了"),
    ],
)
def test_another_value_takes_the_place_of_the_older_one(old: str, new: str) -> None:
    assert superseding(said(new), [memory(old)]) == Decision("supersede", ("mem_1",))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("My favourite editor is Vim", "my favorite editor is vim now!"),
        ("I live in Berlin", "By the way, I live in Berlin these days"),
        ("I live in Berlin", "I've moved to Berlin"),
        ("我住在上海", "我现在住在上海了"),
        ("The deadline is on Friday", "The deadline is Friday, because the client asked for it"),
    ],
)
def test_the_same_value_is_known_already(old: str, new: str) -> None:
    assert superseding(said(new), [memory(old)]) == Decision("skip", ("mem_1",))


def test_what_was_said_later_holds_whenever_it_comes() -> None:
    holder = memory("I live in Utrecht", at=30.0)
    assert superseding(said("I live in Berlin", at=20.0), [holder]) == Decision("outdated", ("mem_1",))


def test_all_holders_of_a_slot_give_way_at_once() -> None:
    holders = [memory("I live in Berlin", 1.0, "mem_a"), memory("I live in Rome", 2.0, "mem_b")]
    assert superseding(said("I live in Utrecht"), holders) == Decision("supersede", ("mem_a", "mem_b"))


def test_memories_of_other_slots_and_superseded_ones_do_not_count() -> None:
    gone = Memory(
        "mem_1", "I live in Berlin", "fact", (), "api", 1, 1, 1, slot="user.city", superseded_by="mem_2"
    )
    assert superseding(said("I live in Utrecht"), [gone, memory("My name is Ada")]) == Decision("store")


def test_two_likings_stand_side_by_side() -> None:
    assert superseding(said("I like coffee"), [memory("I like tea")]) == Decision("store")
    assert superseding(said("I like tea!"), [memory("I like tea")]) == Decision("skip", ("mem_1",))


@pytest.mark.parametrize(
    ("a", "b", "same"),
    [
        ("I like tea.", "i  like tea", True),
        ("Ｉ ｌｉｋｅ　ｔｅａ", "I like tea", True),
        ("我喜欢茶。", "我喜欢茶", True),
        ("I like tea", "I like teas", False),
        ("!!!", "???", False),
        ("a b", "ab", False),
    ],
)
def test_texts_are_the_same_but_for_case_width_spaces_and_punctuation(a: str, b: str, same: bool) -> None:
    assert is_same(a, b) is same
