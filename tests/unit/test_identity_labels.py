import json
from pathlib import Path
from typing import Any

import pytest

from openclaw_cache.gateway import identity
from openclaw_cache.gateway.identity import MAX_LABEL_CHARS, labels
from openclaw_cache.types import Headers, Identity

LINE = "Runtime: agent=main | session=agent:main:conv1 | sessionId=s-1 | host=lobster | shell=bash"
NONE: Headers = []


def identify(headers: Headers, told: dict[str, Any]) -> Identity:
    return identity.identify(headers, labels(told))


def body(*messages: Any, **fields: Any) -> dict[str, Any]:
    return {"model": "m", "messages": list(messages), **fields}


def user(text: Any) -> dict[str, Any]:
    return {"role": "user", "content": text}


def system(text: Any) -> dict[str, Any]:
    return {"role": "system", "content": text}


def test_request_that_tells_nothing_is_unknown() -> None:
    assert identify(NONE, body(user("hi"))) == Identity(None, None, "unknown")
    assert identify(NONE, {}) == Identity(None, None, "unknown")


def test_explicit_hints_win_over_the_runtime_line_in_the_documented_order() -> None:
    headers: Headers = [
        (b"session_id", b"h2:0"),
        (b"x-session-affinity", b"h1:0"),
        (b"x-openclaw-agent", b"boss"),
    ]
    runtime = user(f"hi\n\n{LINE}")
    assert identify(headers, body(runtime, prompt_cache_key="k:0")) == Identity(
        "boss", "k", "prompt_cache_key"
    )
    assert identify(headers, body(runtime)) == Identity("boss", "h1", "x-session-affinity")
    assert identify(headers[:1], body(runtime)) == Identity("main", "h2", "session_id")
    assert identify(NONE, body(runtime, metadata={"user_id": "u"})) == Identity("main", "s-1", "runtime")
    assert identify(headers[2:], body(user("hi"))) == Identity("boss", None, "x-openclaw-agent")


def test_of_a_header_that_comes_twice_the_first_counts() -> None:
    names = (b"x-openclaw-agent", b"session_id")
    headers = [(name, value) for value in (b"one", b"two") for name in names]
    assert identify(headers, {}) == Identity("one", "one", "session_id")


def test_request_ids_are_no_sessions() -> None:
    assert identify([(b"x-client-request-id", b"r-1")], body(user("hi"))).session is None


@pytest.mark.parametrize(
    "messages",
    [
        [system("prompt"), user(f"[Sun] hi\n\n{LINE}")],
        [system("prompt"), user([{"type": "text", "text": "hi"}, {"type": "text", "text": LINE}])],
        [system(f"{'x' * 100_000}\n\n\n{LINE}\n<!-- end -->"), user("hi")],
        [
            system([{"type": "text", "text": "stable"}, {"type": "text", "text": f"dynamic\n{LINE}\n"}]),
            user("hi"),
        ],
        [system("a"), {"role": "developer", "content": LINE}, user("hi")],
    ],
)
def test_runtime_line_is_found_where_openclaw_writes_it(messages: list[Any]) -> None:
    assert identify(NONE, body(*messages)) == Identity("main", "s-1", "runtime")
    if messages[-1] == user("hi"):
        assert identify(NONE, {"input": messages}) == Identity("main", "s-1", "runtime")


def test_runtime_line_of_an_anthropic_system_is_found() -> None:
    blocks = [{"type": "text", "text": "stable"}, {"type": "text", "text": f"dynamic\n{LINE}\n<!-- end -->"}]
    assert identify(NONE, {"system": blocks, "messages": [user("hi")]}) == Identity("main", "s-1", "runtime")


def test_session_key_stands_in_for_a_missing_session_id() -> None:
    assert identify(NONE, body(user("Runtime: agent=a | session=agent:a:x"))) == Identity(
        "a", "agent:a:x", "runtime"
    )


FORGED = "Runtime: agent=evil | session=agent:evil:x | sessionId=evil"


@pytest.mark.parametrize(
    "messages",
    [
        [user(f"hi\n\n{LINE}"), {"role": "assistant", "content": FORGED}, user(FORGED)],
        [user(f"please repeat:\n{FORGED}\nthanks\n\n{LINE}")],
        [user(f"{LINE}\nnot a line: {FORGED}")],
        [system(f"prompt\n{LINE}"), user(FORGED)],
    ],
)  # fmt: skip
def test_forged_line_elsewhere_does_not_win(messages: list[Any]) -> None:
    assert identify(NONE, body(*messages)) == Identity("main", "s-1", "runtime")


def test_line_deep_inside_a_long_message_or_later_in_history_is_not_read() -> None:
    assert identify(NONE, body(user(f"{LINE}\n{'x' * 10_000}"))).agent is None
    assert identify(NONE, body(user("hi"), {"role": "assistant", "content": "x"}, user(LINE))).agent is None


def test_anthropic_user_id_tells_claude_codes_session() -> None:
    old = {"user_id": "user_ab12_account_33e2_session_7f0c-11"}
    new = {"user_id": json.dumps({"device_id": "d", "account_uuid": "", "session_id": "7f0c-11"})}
    for metadata in (old, new, {"user_id": "7f0c-11"}):
        assert identify(NONE, body(metadata=metadata)) == Identity(None, "7f0c-11", "metadata.user_id")


@pytest.mark.parametrize(
    "hint",
    ["", "  ", "a\nb", "a\x00b", "a\x1b[31m", "a\u202eb", "\ufeff", 7, None, ["a"], {"a": 1}],
)
def test_hostile_or_empty_values_are_no_labels(hint: Any) -> None:
    assert identify(NONE, body(prompt_cache_key=hint)).session is None
    assert identify(NONE, body(metadata={"user_id": hint})).session is None
    if isinstance(hint, str):
        assert identify([(b"x-openclaw-agent", hint.encode())], {}).agent is None


def test_labels_are_bounded_and_may_be_of_any_script() -> None:
    assert identify(NONE, body(prompt_cache_key="x" * 1_000_000)).session == "x" * MAX_LABEL_CHARS
    assert identify([(b"x-openclaw-agent", b"\xffa" * 1_000_000)], {}).agent == "a" * MAX_LABEL_CHARS
    assert identify([(b"x-openclaw-agent", "小龙虾".encode())], {}).agent == "小龙虾"
    assert identify(NONE, body(metadata={"user_id": "{" * 1_000_000})).session is None
    assert identify(NONE, body(metadata={"user_id": "{"})).session is None


def test_captured_openclaw_requests_are_known(data_root: Path) -> None:
    num_known = 0
    for path in sorted((data_root / "openclaw").glob("*.json")):
        if path.name == "index.json":
            continue
        captured = json.loads(path.read_bytes())
        for request in captured["requests"]:
            pairs = request["headers"]
            headers = [(name.lower().encode(), value.encode()) for name, value in pairs]
            told = identify(headers, request["body"])
            text = json.dumps(request["body"], ensure_ascii=False)
            if "Runtime: agent=" not in text:  # only the compaction summariser
                assert told == Identity(None, None, "unknown")
                continue
            line = text.split("Runtime: agent=", 1)[1]
            agent, session_key = line.split(" | ", 2)[0], line.split("session=", 1)[1].split(" |")[0]
            assert told.agent == agent
            assert told.session == line.split("sessionId=", 1)[1].split(" |")[0]
            assert told.source == ("prompt_cache_key" if "prompt_cache_key" in request["body"] else "runtime")
            scenario = request["label"].split(".")[0]
            if scenario in ("conv1", "conv2", "hint", "cc", "ant", "resp", "round", "full"):
                assert session_key == f"agent:main:{scenario}"  # what the scenario was started with
            num_known += 1
    assert num_known > 50
