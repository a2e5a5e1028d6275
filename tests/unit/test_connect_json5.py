import math

import pytest

from openclaw_cache.connect.json5_edit import append, put, put_raw, remove, remove_item
from openclaw_cache.connect.json5_text import Json5Error, parse

# The example on the first page of https://spec.json5.org.
SPEC_EXAMPLE = r"""{
  // comments
  unquoted: 'and you can quote me on that',
  singleQuotes: 'I can use "double quotes" here',
  lineBreaks: "Look, Mom! \
No \\n's!",
  hexadecimal: 0xdecaf,
  leadingDecimalPoint: .8675309, andTrailing: 8675309.,
  positiveSign: +1,
  trailingComma: 'in objects', andIn: ['arrays',],
  "backwardsCompatible": "with JSON",
}
"""


def test_the_example_of_the_specification_reads_as_it_says() -> None:
    assert parse(SPEC_EXAMPLE).value() == {
        "unquoted": "and you can quote me on that",
        "singleQuotes": 'I can use "double quotes" here',
        "lineBreaks": "Look, Mom! No \\n's!",
        "hexadecimal": 912559,
        "leadingDecimalPoint": 0.8675309,
        "andTrailing": 8675309.0,
        "positiveSign": 1,
        "trailingComma": "in objects",
        "andIn": ["arrays"],
        "backwardsCompatible": "with JSON",
    }


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (r"'\x41\u00e9\v\0\q'", "Aé\v\0q"),
        (r'"\ud83d\ude00"', "😀"),
        ("-Infinity", -math.inf),
        ("-0x10", -16),
        ("1e3", 1000.0),
        ("{ü: 1, $a: 2, \\u0061b: 3}", {"ü": 1, "$a": 2, "ab": 3}),
        ("\ufeff/* a */ [] // b", []),
        ("{a: 1, 'a': 2}", {"a": 2}),
        ("[null, true, false]", [None, True, False]),
    ],
)
def test_each_form_of_the_grammar_is_read(text: str, value: object) -> None:
    assert parse(text).value() == value


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("", "line 1, column 1"),
        ("{\n  a: 1\n  b: 2\n}", "line 3, column 3"),
        ("{a 1}", "line 1, column 4"),
        ("[1,,2]", "line 1, column 4"),
        ("{a: 'x}", "line 1, column 5"),
        ("01", "line 1, column 2"),
        ("nul", "line 1, column 1"),
        ("{} {}", "line 1, column 4"),
        ('"\\u12"', "line 1, column 2"),
        ("'a\nb'", "line 1, column 1"),
        ("/* open", "line 1, column 1"),
        ("[" * 500, "nested too deeply"),
    ],
)
def test_what_is_no_json5_is_refused_with_its_place(text: str, where: str) -> None:
    with pytest.raises(Json5Error, match=where):
        parse(text)


def test_an_error_does_not_repeat_the_text() -> None:
    with pytest.raises(Json5Error) as caught:
        parse("{apiKey: sk-secret}")
    assert "sk-secret" not in str(caught.value)


def test_a_new_key_stands_behind_the_last_one_and_its_comment() -> None:
    text = "{\n  // mine\n  a: 1, // first\n  b: 2 // last\n}\n"
    assert put(text, ["c"], 3) == '{\n  // mine\n  a: 1, // first\n  b: 2, // last\n  "c": 3\n}\n'


def test_a_trailing_comma_stays_the_habit_of_the_file() -> None:
    assert put("{\n\ta: 1,\n}", ["b"], True) == '{\n\ta: 1,\n\t"b": true,\n}'


def test_missing_objects_are_made_on_the_way() -> None:
    assert parse(put("{a: {}}", ["a", "b", "c"], [1])).value() == {"a": {"b": {"c": [1]}}}


def test_a_value_is_replaced_where_it_stands() -> None:
    assert put("{a: 1, /* x */ b: 'old' /* y */, c: 3}", ["b"], "new") == (
        '{a: 1, /* x */ b: "new" /* y */, c: 3}'
    )


def test_the_last_of_two_equal_keys_is_the_one_that_is_changed() -> None:
    assert put("{a: 1, a: 2}", ["a"], 3) == "{a: 1, a: 3}"


def test_a_key_below_something_else_than_an_object_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^a is no object"):
        put("{a: 5}", ["a", "b"], 1)
    with pytest.raises(ValueError, match=r"^a is no array"):
        append("{a: {}}", ["a"], 1)


@pytest.mark.parametrize(
    ("text", "path", "left"),
    [
        ("{\n  a: 1,\n  b: 2\n}", ["b"], "{\n  a: 1\n}"),
        ("{\n  a: 1,\n  b: 2,\n}", ["a"], "{\n  b: 2,\n}"),
        ("{a: 1, b: 2, c: 3}", ["b"], "{a: 1, c: 3}"),
        ("{a: 1, b: 2}", ["b"], "{a: 1 }"),
        ("{a: 1}", ["a"], "{}"),
        ("{a: 1, b: 2, a: 3}", ["a"], "{b: 2 }"),
        ("{a: 1}", ["b"], "{a: 1}"),
        ("{\n  a: {\n    x: 1\n  },\n  // of b\n  b: 2\n}", ["a"], "{\n  // of b\n  b: 2\n}"),
    ],
)
def test_a_removed_key_leaves_the_rest_as_it_was(text: str, path: list[str], left: str) -> None:
    assert remove(text, path) == left


def test_an_item_is_added_and_removed_again() -> None:
    text = '{p: [\n  "a", // one\n]}'
    more = append(text, ["p"], "b")
    assert parse(more).value() == {"p": ["a", "b"]}
    assert "// one" in more
    assert parse(remove_item(more, ["p"], "b")).value() == {"p": ["a"]}
    assert remove_item(text, ["p"], "c") == text


def test_a_piece_of_text_is_put_back_as_it_was_written() -> None:
    assert put_raw("{a: 1}", ["a"], "{x: 'y', /* z */}") == "{a: {x: 'y', /* z */}}"
