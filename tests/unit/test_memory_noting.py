"""What of the relevant hits is put before a prompt unasked."""

from __future__ import annotations

from openclaw_cache.memory.record import Memory, Passage, Provenance
from openclaw_cache.memory.retrieval.noting import noted
from openclaw_cache.memory.retrieval.search import Hit


def hit(number: int, text: str, *, of: str = "message", role: str | None = "user") -> Hit:
    owner = f"mem{number}" if of == "memory" else f"msg{number}"
    passage = Passage(number, of, owner, text, 1000.0 + number, None, None if of == "memory" else role)
    return Hit(passage, 1.0, {})


def memory(number: int, text: str, message: str | None = None) -> Memory:
    where = Provenance(message=message)
    return Memory(f"mem{number}", text, "fact", (), "capture", 1.0, 1.0, 1.0, provenance=where)


def owners(hits: list[Hit], memories: list[Memory] = [], said: dict[str, str] | None = None) -> list[str]:  # noqa: B006
    texts = {h.passage.owner: h.passage.text for h in hits} | (said or {})
    found = noted(
        hits,
        {m.id: m for m in memories},
        texts.__getitem__,
        exclude={"msg99"},
        is_known=lambda m: m.id == "mem98",
    )
    return [note.owner for _, note in found]


def test_memories_stand_before_messages_and_each_kind_keeps_its_order() -> None:
    hits = [hit(1, "a"), hit(2, "b", of="memory"), hit(3, "c"), hit(4, "d", of="memory")]
    assert owners(hits, [memory(2, "b"), memory(4, "d")]) == ["mem2", "mem4", "msg1", "msg3"]


def test_no_more_than_three_messages_are_recalled() -> None:
    assert owners([hit(i, f"statement {i}") for i in range(1, 9)]) == ["msg1", "msg2", "msg3"]


def test_what_a_tool_was_called_with_or_returned_is_not_recalled() -> None:
    call = hit(1, 'exec {"command": "cat notes/01.md"}', role="assistant")
    result = hit(2, "contents of the file", role="toolResult")
    both = hit(3, 'The letters say so.\nexec {"command": "ls"}', role="assistant")
    said = {"msg1": "", "msg2": "contents of the file", "msg3": "The letters say so."}
    found = noted([call, result, both], {}, said.__getitem__, exclude=(), is_known=lambda _: False)
    assert [(note.owner, note.text) for _, note in found] == [("msg3", "The letters say so.")]


def test_a_users_question_is_not_recalled_but_an_answer_that_asks_back_is() -> None:
    hits = [
        hit(1, "What is the codename?"),
        hit(2, "代号是什么？"),
        hit(3, "Bluefin. Shall I go on?", role="assistant"),
    ]
    assert owners(hits) == ["msg3"]


def test_the_message_that_a_memory_was_taken_from_is_not_recalled_beside_it() -> None:
    hits = [
        hit(1, "Please remember: the codename is Bluefin."),
        hit(2, "The codename is Bluefin.", of="memory"),
    ]
    assert owners(hits, [memory(2, "The codename is Bluefin.", message="msg1")]) == ["mem2"]
    assert owners(hits, [memory(2, "the codename is Bluefin.")]) == ["mem2"]


def test_the_same_statement_is_recalled_once() -> None:
    assert owners([hit(1, "We sail at dawn."), hit(2, "We sail at dawn.", role="assistant")]) == ["msg1"]


def test_what_is_in_the_prompt_already_is_left_out() -> None:
    hits = [hit(99, "seen"), hit(98, "known", of="memory"), hit(97, "gone", of="memory"), hit(1, "new")]
    assert owners(hits, [memory(98, "known")]) == ["msg1"]
