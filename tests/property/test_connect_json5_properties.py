import json

from hypothesis import given
from hypothesis import strategies as st

from openclaw_cache.connect.json5_edit import append, put, remove
from openclaw_cache.connect.json5_text import parse

keys = st.text(max_size=4)
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=12,
)
objects = st.dictionaries(keys, values, max_size=4)
indents = st.sampled_from([None, 0, 2, "\t"])


@given(values, indents, st.booleans())
def test_every_json_text_reads_as_the_standard_library_reads_it(value, indent, ascii_only) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    assert parse(text).value() == json.loads(text)


@given(objects, indents, st.lists(keys, min_size=1, max_size=3), values)
def test_setting_a_key_changes_that_key_and_no_other(whole, indent, path, value) -> None:
    wanted = json.loads(json.dumps(whole))
    above = wanted
    for key in path[:-1]:
        if not isinstance(above.setdefault(key, {}), dict):
            return
        above = above[key]
    above[path[-1]] = value
    assert json.loads(put(json.dumps(whole, indent=indent), path, value)) == wanted


@given(objects, indents, keys)
def test_removing_a_key_leaves_all_others(whole, indent, key) -> None:
    text = remove(json.dumps(whole, indent=indent), [key])
    assert json.loads(text) == {k: v for k, v in whole.items() if k != key}


@given(objects, indents, keys, values)
def test_a_key_that_is_set_and_removed_leaves_what_was_there(whole, indent, key, value) -> None:
    whole.pop(key, None)
    text = json.dumps(whole, indent=indent)
    assert json.loads(remove(put(text, [key], value), [key])) == whole


@given(st.lists(values, max_size=4), indents, values)
def test_an_item_goes_to_the_end_of_its_array(items, indent, value) -> None:
    text = append(json.dumps({"a": items}, indent=indent), ["a"], value)
    assert json.loads(text) == {"a": [*items, value]}
