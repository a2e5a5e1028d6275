"""Readers of logs: whatever the bytes, nothing but a usage error is raised; cutting a file anywhere loses nothing."""

from __future__ import annotations

import gzip
import io
import json
from pathlib import Path
from typing import Any
from unittest import mock

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from openclaw_cache.errors import ConfigError
from openclaw_cache.request_logs import elements as scanning
from openclaw_cache.request_logs.elements import elements
from openclaw_cache.request_logs.log import RequestLog
from openclaw_cache.request_logs.logged_request import decoded, encoded
from openclaw_cache.request_logs.records import NoRequestError, request_in

anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=())),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=12,
)
NAMES = (
    "request", "response", "body", "messages", "model", "input", "prompt", "headers", "url", "path", "method", "usage",
    "timestamp", "t", "type", "message", "id", "parentId", "session_id", "role", "content", "tools", "system", "log",
    "entries", "requests", "postData", "text", "encoding", "firstKeptEntryId", "version", "custom_id", "output",
)  # fmt: skip
WORDS = (
    "POST", "user", "assistant", "toolResult", "session", "message", "compaction", "base64", "/v1/chat/completions",
    "https://x/v1/messages", "1796032800", "2026-11-30", "data: {}\n\n", "{", "[]",
)  # fmt: skip
likely = st.recursive(
    st.sampled_from(WORDS) | anything,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=5),
    max_leaves=16,
)


def read(tmp: Path, raw: bytes) -> list[Any]:
    file = tmp / "log"
    file.write_bytes(raw)
    try:
        return list(RequestLog([str(file)]).requests())
    except ConfigError:
        return []


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(raw=st.binary(max_size=300) | st.text().map(str.encode) | st.binary(max_size=50).map(gzip.compress))
def test_no_bytes_raise_anything_but_a_usage_error(tmp_path: Path, raw: bytes) -> None:
    read(tmp_path, raw)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=300)
@given(values=st.lists(likely, max_size=5), indent=st.sampled_from([None, 1]))
def test_no_json_raises_anything_but_a_usage_error(
    tmp_path: Path, values: list[Any], indent: int | None
) -> None:
    for request in read(tmp_path, "\n".join(json.dumps(value, indent=indent) for value in values).encode()):
        assert isinstance(request.body, dict)
        assert request.session
        assert decoded(request.raw) == request.body


@given(value=likely)
def test_a_value_is_a_request_or_says_why_it_is_none(value: Any) -> None:
    try:
        request = request_in(value, "x", 1)
    except NoRequestError:
        return
    assert request.api in ("chat", "completions", "responses", "messages", "text")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.data())
def test_a_file_that_is_cut_off_anywhere_gives_a_beginning_of_its_requests(
    tmp_path: Path, data: st.DataObject
) -> None:
    rows = [
        {"label": f"r{i}", "body": {"model": "m", "messages": [{"role": "user", "content": "x" * i}]}}
        for i in range(4)
    ]
    whole = json.dumps({"requests": rows}) if data.draw(st.booleans()) else "\n".join(map(json.dumps, rows))
    cut = data.draw(st.integers(0, len(whole)))
    labels = [request.label for request in read(tmp_path, whole[:cut].encode())]
    assert labels == [f"r{i}" for i in range(len(labels))]
    if cut == len(whole):
        assert len(labels) == 4


@settings(deadline=None, max_examples=300)
@given(
    objects=st.lists(st.dictionaries(st.text(), anything, max_size=4), max_size=6),
    before=anything,
    after=anything,
    indent=st.sampled_from([None, 2]),
    block=st.integers(1, 40),
    has_ascii=st.booleans(),
)
def test_elements_are_what_a_parser_of_the_whole_document_finds(
    objects: list[dict[str, Any]], before: Any, after: Any, indent: int | None, block: int, has_ascii: bool
) -> None:
    decoy = {"requests": [{"not": "these"}], "log": {"entries": [1]}}
    documents = [
        (("requests",), {"first": before, "decoy": {"inner": decoy}, "requests": objects, "last": after}),
        (("log", "entries"), {"log": {"pages": [{"requests": before}], "entries": objects, "z": after}}),
        ((), objects),
    ]
    for path, document in documents:
        text = json.dumps(document, indent=indent, ensure_ascii=has_ascii)
        raw = text.encode("utf-8", "surrogatepass")
        with mock.patch.object(scanning, "_BLOCK_BYTES", block):
            found = list(elements(io.BytesIO(raw), [path]))
        assert [
            json.loads(one.decode("utf-8", "surrogatepass")) for one in found if one is not None
        ] == objects


@given(value=anything)
def test_what_is_encoded_is_decoded_to_the_same(value: Any) -> None:
    assert decoded(encoded(value)) == value
