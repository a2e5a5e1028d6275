"""What `warm --type semantic` reads from a file, and what it says where it cannot."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from openclaw_cache.errors import ConfigError
from openclaw_cache.faq_file import Faq, read_faq, read_request


def read(folder: Path, name: str, content: str | bytes) -> list[Faq]:
    file = folder / name
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_faq(file)


def pair(question: str, answer: str | None = None, domain: str | None = None) -> Faq:
    fields = {"question": question, "answer": answer, "domain": domain}
    return {name: value for name, value in fields.items() if value is not None}


# Tables.


@pytest.mark.parametrize(
    "content",
    [
        "question,answer\nHow?,So.\n",
        "\ufeffquestion,answer\r\nHow?,So.\r\n",
        "Answer, Question \nSo.,How?\n",
        "id,question,tags,answer\n7,How?,x,So.\n",
        "question;answer\nHow?;So.\n",
        "问题,答案\nHow?,So.\n",
        "question,answer,\nHow?,So.,\n\n,,\n",
        'question,answer\n"How?","So."',
    ],
    ids=["plain", "bom-crlf", "order", "others", "semicolons", "chinese", "blank", "quotes"],
)
def test_a_table_is_read_by_its_headings(tmp_path: Path, content: str) -> None:
    assert read(tmp_path, "faq.csv", content) == [pair("How?", "So.")]


def test_tabs_are_for_tsv(tmp_path: Path) -> None:
    assert read(tmp_path, "faq.tsv", "question\tanswer\nHow, then?\tSo.\n") == [pair("How, then?", "So.")]


def test_quoted_cells_keep_their_commas_quotes_and_lines(tmp_path: Path) -> None:
    rows = [["question", "answer"], ['Is it "new", or not?', "First this,\nthen that.\n\n- and more"]]
    with (tmp_path / "faq.csv").open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    assert read_faq(tmp_path / "faq.csv") == [pair(*rows[1])]


def test_an_empty_answer_is_none_so_that_the_model_is_asked(tmp_path: Path) -> None:
    assert read(tmp_path, "faq.csv", "question,answer,domain\nHow?,  ,\nWhen?\nWhy?,,billing\n") == [
        pair("How?"), pair("When?"), pair("Why?", None, "billing"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "line 1: no column is named question"),
        ("a,b\n1,2\n", "line 1: no column is named question"),
        ("question,anwser\nHow?,So.\n", "line 1: column 'anwser': did you mean 'answer'?"),
        ("qestion,answer\nHow?,So.\n", "line 1: column 'qestion': did you mean 'question'?"),
        ("question,answer,domains\nHow?,So.,x\n", "line 1: column 'domains': did you mean 'domain'?"),
        ("question,q\nHow?,So.\n", "line 1: two columns are for question"),
        ("question,answer\n", "there is no question in it"),
        ('question,answer\n"a\nb",c\n,So.\n', "line 4: there is no question"),
        ("question,answer\nHow?,One, two.\n", "line 2: 3 cells, but 2 columns"),
        ('question,answer\n"How"?,So.\n', "line 2: not valid CSV"),
        ('question,answer\n"How?,So.\n', "not valid CSV"),
        ("question,answer\nHow?,So.\nHow?,Else.\n", "line 3: the same question came before, with another"),
        ("question,domain\nHow?,Refunds!\n", "line 2: domain 'Refunds!'"),
        ("question\n" + "x" * 200_000, "line 2: not valid CSV: field larger"),
    ],
)
def test_a_wrong_table_is_refused_with_file_and_line(tmp_path: Path, content: str, said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        read(tmp_path, "faq.csv", content)
    assert str(refused.value).startswith(str(tmp_path / "faq.csv"))
    assert said in str(refused.value)


def test_equal_pairs_are_one_and_of_two_the_one_with_an_answer_stays(tmp_path: Path) -> None:
    content = "question,answer\nHow?,\nWhen?,Now.\nHow?,So.\nWhen?,Now.\nWhen?,\n"
    assert read(tmp_path, "faq.csv", content) == [pair("How?", "So."), pair("When?", "Now.")]


def test_one_question_may_have_an_answer_in_each_domain(tmp_path: Path) -> None:
    content = "question,answer,domain\nHow do I cancel?,Call.,hotels\nHow do I cancel?,Click.,flights\n"
    assert read(tmp_path, "faq.csv", content) == [
        pair("How do I cancel?", "Call.", "hotels"), pair("How do I cancel?", "Click.", "flights"),
    ]  # fmt: skip


# JSON.


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("faq.jsonl", '{"question": "How?", "answer": "So."}\n\n{"q": "When?", "a": null, "id": 7}\n'),
        ("faq.json", '[{"question": "How?", "answer": "So."},\n {"问题": " When? ", "答案": " "}]'),
        ("faq.json", '{"question": "How?", "answer": "So."}\n{"question": "When?"}\n'),
    ],
)
def test_objects_stand_in_lines_or_in_a_list(tmp_path: Path, name: str, content: str) -> None:
    assert read(tmp_path, name, content) == [pair("How?", "So."), pair("When?")]


def test_one_object_may_fill_a_file_and_keeps_the_lines_of_its_answer(tmp_path: Path) -> None:
    content = json.dumps(pair("怎么退款？", "先登录，\n再申请。"), ensure_ascii=False, indent=2)
    assert read(tmp_path, "faq.json", content) == [pair("怎么退款？", "先登录，\n再申请。")]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("faq.jsonl", '{"question": "a"}\n{"question": }\n', "line 2: not valid JSON"),
        ("faq.json", '[\n{"question": "a"},\n]', "line 3: not valid JSON"),
        ("faq.jsonl", '{"question": "a"}\n["a", "b"]\n', "line 2: expected"),
        ("faq.json", '["a"]', "entry 1: expected"),
        ("faq.jsonl", '{"question": "a"}\n{"question": 7}\n', "line 2: question must be a text"),
        ("faq.jsonl", '{"question": "a", "answer": ["b"]}\n', "answer must be a text"),
        ("faq.jsonl", '{"question": "a", "anwser": "b"}\n', "field 'anwser': did you mean 'answer'?"),
        ("faq.jsonl", '{"question": "a", "q": "b"}\n', "two fields are for question"),
        ("faq.jsonl", '{"answer": "b"}\n', "there is no question"),
        ("faq.jsonl", '{"question": "\\ud83d"}\n', "question has half of a UTF-16 pair"),
        ("faq.json", "[" * 200_000, "nested too deeply"),
        ("faq.jsonl", "\n", "not valid JSON"),
    ],
)
def test_wrong_json_is_refused_with_file_and_place(
    tmp_path: Path, name: str, content: str, said: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        read(tmp_path, name, content)
    assert str(refused.value).startswith(str(tmp_path / name))
    assert said in str(refused.value)


# Markdown.

SECTIONS = """\
---
title: Help
---
# Frequently asked questions

An introduction that answers nothing.

## Orders

All about orders.

### 1. How do I cancel an order?

Open it, then:

```sh
# this is no heading
cancel 7
```

#### On the phone

Call us.

### **Can I get a refund?** ###
Yes.

## Empty

### What is open?
"""


def test_headings_are_questions_on_the_level_that_has_most_question_marks(tmp_path: Path) -> None:
    assert read(tmp_path, "faq.md", SECTIONS) == [
        pair(
            "How do I cancel an order?",
            "Open it, then:\n\n```sh\n# this is no heading\ncancel 7\n```\n\n#### On the phone\n\nCall us.",
        ),
        pair("Can I get a refund?", "Yes."),
        pair("What is open?"),
    ]


def test_without_question_marks_the_level_with_most_headings_has_the_questions(tmp_path: Path) -> None:
    content = "# 常见问题\n说明\n## 怎么退款\n登录后申请。\n## 运费多少 {#fee}\n十元。\n"
    assert read(tmp_path, "faq.md", content) == [
        pair("怎么退款", "登录后申请。"), pair("运费多少", "十元。"),
    ]  # fmt: skip


def test_a_number_that_belongs_to_the_question_stays(tmp_path: Path) -> None:
    assert read(tmp_path, "faq.md", "## 2.5 GHz or 5 GHz?\nBoth.\n") == [pair("2.5 GHz or 5 GHz?", "Both.")]


@pytest.mark.parametrize(
    "content",
    [
        "Q: How?\nA: So.\nMore.\n\nQ: When?\nA: Now.\n",
        "**Q: How?**\n\n**A:** So.\nMore.\n\n**Q:** When?\n\nA: Now.",
        "- Q1: How?\n- A1: So.\nMore.\n\n2. Q: When?\n  A: Now.",
        "# Help\n\n## One\n\nq：How?\na：So.\nMore.\n\n## Two\n\nq：When?\na：Now.\n",
        "### Q: How?\nA: So.\nMore.\n### Q: When?\nA: Now.\n",
        "问：How?\n答：So.\nMore.\n问题 2：When?\n回答：Now.\n",
        "Q:\nHow?\nA:\nSo.\nMore.\n\nQ: When?\n\nNow.",
    ],
)
def test_paragraphs_that_begin_with_q_and_a_are_pairs(tmp_path: Path, content: str) -> None:
    found = read(tmp_path, "faq.txt", content)
    assert [(p["question"], p["answer"].split()) for p in found] == [
        ("How?", ["So.", "More."]),
        ("When?", ["Now."]),
    ]


def test_a_question_of_several_lines_is_one(tmp_path: Path) -> None:
    assert read(tmp_path, "faq.md", "Q: I did this,\nand then that. Why?\nA: So.\nA: is a letter.\n") == [
        pair("I did this, and then that. Why?", "So.\nA: is a letter.")
    ]


def test_a_word_in_an_answer_that_looks_like_a_mark_does_not_hide_the_headings(tmp_path: Path) -> None:
    content = "## 无法登录怎么办？\n问题：密码错误。\n答：重置密码。\n## 如何注册？\n点注册。\n"
    assert read(tmp_path, "faq.md", content) == [
        pair("无法登录怎么办？", "问题：密码错误。\n答：重置密码。"), pair("如何注册？", "点注册。"),
    ]  # fmt: skip


def test_marks_in_code_are_code(tmp_path: Path) -> None:
    content = "Q: How?\nA: So:\n~~~~\nQ: no\n```\n~~~\n~~~~\n"
    assert read(tmp_path, "faq.md", content) == [pair("How?", "So:\n~~~~\nQ: no\n```\n~~~\n~~~~")]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", ": there is no question in it"),
        ("Just text.\n", ": there is no question in it"),
        ("## How?\n\n```\ncode\n\n## When?\n", ", line 3: the code block that begins here has no end"),
        ("## How?\nSo.\n\n## How?\nElse.\n", ", line 4: the same question came before, with another answer"),
        ("Q: How?\nA: So.\nQ:\nA: Else.\n", ", line 3: there is no question"),
    ],
)
def test_wrong_markdown_is_refused_with_file_and_line(tmp_path: Path, content: str, said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        read(tmp_path, "faq.md", content)
    assert str(refused.value) == f"{tmp_path / 'faq.md'}{said}"


# Files.


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("faq.csv", "问题,答案\n怎么退款,登录\n".encode("gbk"), "is not UTF-8 text: save it as UTF-8"),
        ("faq.xlsx", b"", "name it .csv, .tsv, .jsonl, .json or .md"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, name: str, content: bytes, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        read(tmp_path, name, content)


def test_an_absent_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot read .*absent\.csv: No such file"):
        read_faq(tmp_path / "absent.csv")


def test_ten_thousand_rows_are_all_there_in_their_order(tmp_path: Path) -> None:
    rows = [pair(f"What is {n}?", f"A number,\nand {n}.") for n in range(10_000)]
    with (tmp_path / "faq.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, ["question", "answer"])
        writer.writeheader()
        writer.writerows(rows)
    assert read_faq(tmp_path / "faq.csv") == rows
    assert read(tmp_path, "faq.jsonl", "\n".join(json.dumps(row) for row in rows)) == rows
    prose = "\n".join(f"## {row['question']}\n{row['answer']}" for row in rows)
    assert read(tmp_path, "faq.md", prose) == rows


# A request.


@pytest.mark.parametrize(
    ("content", "said"),
    [("{", "line 1: not valid JSON"), ("[1]", "a JSON object"), ("[" * 200_000, "nested too deeply")],
)
def test_a_request_that_is_none_is_refused_with_its_file(tmp_path: Path, content: str, said: str) -> None:
    file = tmp_path / "request.json"
    file.write_text(content)
    with pytest.raises(ConfigError) as refused:
        read_request(file)
    assert str(refused.value).startswith(str(file))
    assert said in str(refused.value)


def test_a_request_is_read_as_it_stands(tmp_path: Path) -> None:
    file = tmp_path / "request.json"
    file.write_text('\ufeff{"model": "m", "temperature": 0, "messages": []}')
    assert read_request(file) == {"model": "m", "temperature": 0, "messages": []}
