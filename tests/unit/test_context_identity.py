"""A message has one name, whenever and however its host shows it; different ones have different names."""

from __future__ import annotations

import msgspec
import pytest

from openclaw_cache.memory.context.host import HostMessage
from openclaw_cache.memory.context.identity import message_ids, part_id, recall_id, turn_id
from support import openclaw_turns

USER = HostMessage("user", "hello", 1_796_031_780_005.0, "run:user")
CALL = {"type": "toolCall", "id": "call_2_0", "name": "exec", "arguments": {"command": "ls", "cwd": "/"}}
BARE_CALL = {"type": "toolCall", "id": "call20", "name": "exec", "arguments": {"cwd": "/", "command": "ls"}}


def one(message: HostMessage, lineage: str = "s") -> str:
    return message_ids(lineage, [message])[0]


@pytest.mark.parametrize("name", ["conv1", "r1", "sub2", "main", "sm2"])
def test_each_message_that_openclaw_committed_has_the_same_id_in_its_later_histories(name: str) -> None:
    committed: dict[float, str] = {}
    num_met = 0
    for call in openclaw_turns.calls(name):
        shown = openclaw_turns.messages(call)
        ids = message_ids(call["session_id"], shown)
        assert len(set(ids)) == len(ids)
        for message, found in zip(shown, ids, strict=True):
            assert message.timestamp is not None
            if call["call"] == "commit":
                committed[message.timestamp] = found
            elif message.timestamp in committed:
                assert found == committed[message.timestamp]
                num_met += 1
    assert num_met > 3


@pytest.mark.parametrize(
    "change",
    [
        {"content": "[OpenClaw heartbeat poll]"},
        {"content": [{"type": "text", "text": "hello"}, {"type": "text", "text": "added later"}]},
        {"idempotency_key": None},
        {"timestamp": 1_796_031_780_005},
    ],
)
def test_what_a_host_rewrites_changes_no_id(change: dict[str, object]) -> None:
    assert one(msgspec.structs.replace(USER, **change)) == one(USER)


def test_a_tools_result_keeps_its_id_when_it_is_cleared_and_its_call_renamed() -> None:
    full = HostMessage(
        "toolResult", [{"type": "text", "text": "x" * 9000}], 5.0, None, "call_2_0|fc_1", "exec"
    )
    assert one(msgspec.structs.replace(full, content="[cleared]", tool_call_id="call20")) == one(full)


@pytest.mark.parametrize(
    "other",
    [
        msgspec.structs.replace(USER, role="assistant"),
        msgspec.structs.replace(USER, timestamp=1_796_031_780_006.0),
        msgspec.structs.replace(USER, timestamp=None),
    ],
)
def test_another_role_or_time_is_another_message(other: HostMessage) -> None:
    assert one(other) != one(USER)


def test_the_same_in_another_session_is_another_message() -> None:
    assert one(USER, "s1") != one(USER, "s2")


def test_two_results_of_one_millisecond_are_told_apart_by_their_order() -> None:
    results = [HostMessage("toolResult", text, 5.0, None, f"call{text}", "exec") for text in "ab"]
    first = message_ids("s", results)
    assert first[0] != first[1]
    assert message_ids("s", [msgspec.structs.replace(r, tool_call_id=None) for r in results]) == first


def test_a_beginning_that_goes_changes_no_other_id() -> None:
    history = [HostMessage("user", str(n), float(n)) for n in range(5)]
    assert message_ids("s", history)[2:] == message_ids("s", history[2:])


def test_without_a_time_what_is_said_names_a_message_and_not_the_ids_of_its_calls() -> None:
    assert one(HostMessage("assistant", [CALL])) == one(HostMessage("assistant", [BARE_CALL]))
    assert one(HostMessage("user", "a")) != one(HostMessage("user", "b"))
    assert one(HostMessage("toolResult", "a", tool_call_id="call_1_0")) == one(
        HostMessage("toolResult", "[cleared]", tool_call_id="call10")
    )


def test_the_same_words_in_two_turns_are_two_messages_though_neither_has_a_time() -> None:
    yes = [HostMessage("user", "yes")]
    assert message_ids("s", yes, turn="1") != message_ids("s", yes, turn="2")
    assert message_ids("s", [USER], turn="1") == message_ids("s", [USER], turn="2")


def test_fields_cannot_run_into_each_other() -> None:
    assert turn_id("a", "bc") != turn_id("ab", "c")
    assert recall_id("a", "b", "c") != recall_id("a", "bc", "")
    assert part_id("msg_1", 11) != part_id("msg_11", 1)
    assert len({turn_id("a", "b"), recall_id("a", "b", ""), part_id("a", 1)}) == 3
