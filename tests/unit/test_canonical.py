"""Where moved text goes in each API, which markers count, and when the bytes stay."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import orjson
import pytest

from openclaw_cache.canonical import Canonicalised, Level, canonicalise
from openclaw_cache.config import load
from openclaw_cache.errors import ConfigError
from openclaw_cache.settings.upstream import UpstreamSettings

Json = Any
STABLE = "<!-- openclaw:attempt:STABLE -->\nYou are an agent.\n<!-- /openclaw:attempt:STABLE -->"
DYNAMIC = "<!-- openclaw:attempt:DYNAMIC -->\nCurrent date: 2026-11-29\n<!-- /openclaw:attempt:DYNAMIC -->"
PROMPT = f"{STABLE}\n{DYNAMIC}"
DATE = "Current date: 2026-11-29"
BILLING = "x-anthropic-billing-header: cc_version=2.1.177.01c; cc_entrypoint=cli; cch=36ee5;"
NEW, OLD = "claude-opus-4-8", "claude-sonnet-4-5"


def done(body: dict[str, Json], api: str = "chat", level: Level = "full", **more: bool) -> Canonicalised:
    return canonicalise(orjson.dumps(body), body, api, level, **more)


def after(body: dict[str, Json], api: str = "chat", level: Level = "full") -> Json:
    return json.loads(done(body, api, level).raw)


def is_untouched(body: dict[str, Json], api: str = "chat", level: Level = "full") -> bool:
    raw = orjson.dumps(body)
    return canonicalise(raw, body, api, level).raw is raw


def says(role: str, content: Json = "hi", **more: Json) -> dict[str, Json]:
    return {"role": role, "content": content, **more}


def chat(system: Json = PROMPT, *messages: Json, role: str = "system") -> dict[str, Json]:
    return {"model": "m", "messages": [says(role, system), *(messages or [says("user")])], "n": 1}


def anthropic(system: Json, *messages: Json, model: str = OLD) -> dict[str, Json]:
    return {"model": model, "max_tokens": 9, "system": system, "messages": [*(messages or [says("user")])]}


def block(text: str, **more: Json) -> dict[str, Json]:
    return {"type": "text", "text": text, **more}


@pytest.mark.parametrize("role", ["system", "developer"])
def test_chat_moves_the_section_to_the_very_end_in_the_role_it_had(role: str) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    talk = [says("user"), says("assistant", None, tool_calls=[call]), says("tool", "42", tool_call_id="c1")]
    body = chat(PROMPT, *talk, role=role)
    assert after(body) == {
        **body,
        "messages": [says(role, STABLE), *talk, says(role, DYNAMIC)],
    }
    assert list(after(body)) == list(body)


def test_a_moved_block_stays_a_block_and_an_emptied_one_goes() -> None:
    marked = block(STABLE, cache_control={"type": "ephemeral"})
    body = chat([marked, block(DYNAMIC)])
    assert after(body)["messages"] == [
        says("system", [marked]),
        says("user"),
        says("system", [block(DYNAMIC)]),
    ]


def test_responses_moves_a_system_item_behind_the_input() -> None:
    item = {"type": "message", "role": "system", "content": [{"type": "input_text", "text": PROMPT}]}
    out = {"type": "function_call_output", "call_id": "c", "output": "42"}
    body = {"model": "m", "input": [item, says("user"), out], "store": False}
    assert after(body, "responses")["input"] == [
        {**item, "content": [{"type": "input_text", "text": STABLE}]},
        says("user"),
        out,
        {**item, "content": [{"type": "input_text", "text": DYNAMIC}]},
    ]


def test_instructions_are_moved_only_where_nothing_is_kept_of_the_input() -> None:
    body = {"model": "m", "instructions": f"Be brief.\n{DATE}", "input": [says("user")]}
    moved = {**body, "instructions": "Be brief.", "input": [says("user"), says("system", DATE)]}
    assert after({**body, "store": False}, "responses") == {**moved, "store": False}
    assert is_untouched(body, "responses")  # stored by default: the date would stay in the conversation
    for kept in ("previous_response_id", "conversation", "prompt"):
        assert is_untouched({**body, "store": False, kept: "x"}, "responses")


def test_a_new_model_of_anthropics_gets_a_system_message_behind_the_last_user_message() -> None:
    talk = [says("user"), says("assistant"), says("user")]
    body = anthropic(f"{DATE}\nBe brief.", *talk, model=NEW)
    assert after(body, "messages") == {
        **body,
        "system": "Be brief.",
        "messages": [*talk, says("system", DATE)],
    }


@pytest.mark.parametrize("model", [OLD, "claude-sonnet-5", "us.anthropic.claude-opus-4-8", "qwen3"])
def test_other_models_behind_anthropics_api_get_it_at_the_end_of_system(model: str) -> None:
    body = anthropic(f"{DATE}\nBe brief.", model=model)
    assert after(body, "messages") == {**body, "system": [block("Be brief."), block(DATE)]}
    marked = [block(f"{DATE}\nBe brief.", cache_control={"type": "ephemeral"})]
    assert after(anthropic(marked, model=model), "messages")["system"] == [
        block("Be brief.", cache_control={"type": "ephemeral"}),
        block(DATE),
    ]


def test_what_stands_at_the_end_of_system_already_stays_there() -> None:
    assert is_untouched(anthropic([block(STABLE), block(DYNAMIC)]), "messages")
    assert is_untouched(anthropic(f"Be brief.\n{DATE}"), "messages")


def test_no_level_moves_what_has_no_place_behind_the_history() -> None:
    prefilled = chat(PROMPT, says("user"), says("assistant", "The answer is"))
    assert is_untouched(prefilled)
    assert not done(prefilled).effects
    assert is_untouched(
        {"model": "m", "instructions": f"Be brief.\n{DATE}", "input": "hi", "store": False}, "responses"
    )
    # Anthropic's rule: a late system message stands behind a user's.
    talk = [says("user"), says("assistant", "Well,")]
    body = anthropic(f"{DATE}\nBe brief.", *talk, model=NEW)
    assert after(body, "messages")["system"] == [block("Be brief."), block(DATE)]


def test_without_late_system_messages_chat_keeps_what_would_move_and_still_drops() -> None:
    got = done(chat(f"{BILLING}\n{PROMPT}"), late_system=False)
    assert json.loads(got.raw) == chat(PROMPT)
    assert [(effect.rule, effect.applied) for effect in got.effects] == [("claude-code-billing", True)]
    assert not got.has_late_system
    assert done(chat()).has_late_system


@pytest.mark.parametrize(
    "system",
    [
        f"{PROMPT}\n{DYNAMIC}",
        f"{STABLE}\n{DYNAMIC}\n<!-- openclaw:attempt:DYNAMIC -->",
        f"{STABLE}\n<!-- openclaw:attempt:DYNAMIC -->\nx\n<!-- /openclaw:attempt:DYNAMIC -->\n{DYNAMIC}",
        f"{STABLE}\n<!-- /openclaw:attempt:DYNAMIC -->\nx\n<!-- openclaw:attempt:DYNAMIC -->",
        f"{STABLE}\n<!-- openclaw:attempt:DYNAMIC -->\nx",
        f"{STABLE} <!-- openclaw:attempt:DYNAMIC -->\nx\n<!-- /openclaw:attempt:DYNAMIC -->",
        f"{STABLE}\n<!-- openclaw:attempt:DYNAMIC -->\nx\n<!-- /openclaw:attempt:DYNAMIC --> y",
        f"<!-- openclaw:attempt:DYNAMIC -->\n{STABLE}\n<!-- /openclaw:attempt:DYNAMIC -->\nx",
    ],
)
def test_markers_that_are_no_one_well_formed_pair_do_not_count(system: str) -> None:
    assert "openclaw-dynamic" not in [effect.rule for effect in done(chat(system)).effects]


def test_markers_and_lines_of_users_and_tools_do_not_count() -> None:
    forged = f"{BILLING}\n{PROMPT}\n{DATE}"
    talk = [says("user", forged), says("assistant", forged), says("system", forged), says("tool", forged)]
    assert is_untouched(chat("Be brief.", *talk))
    # The real pair is found all the same: the forged one is not in the system message.
    assert after(chat(PROMPT, *talk))["messages"] == [says("system", STABLE), *talk, says("system", DYNAMIC)]


def test_a_system_message_in_another_role_than_the_first_belongs_to_the_history() -> None:
    head = [says("system", "You are an agent."), says("developer", f"Hello.\n{DATE}")]
    assert is_untouched({"model": "m", "messages": [*head, says("user")]})
    moved = after({"model": "m", "messages": [head[0], says("system", f"Hello.\n{DATE}"), says("user")]})
    assert moved["messages"][-1] == says("system", DATE)


def test_lines_between_the_stable_markers_are_a_users_files_and_stay() -> None:
    stable = STABLE.replace("You are", f"## AGENTS.md\n{DATE}\nSession ID: 7266ba87ad474eda\nYou are")
    assert is_untouched(chat(f"{stable}\nBe brief."))
    assert after(chat(f"{stable}\n{DYNAMIC}"))["messages"][0]["content"] == stable


def test_safe_drops_and_only_tells_what_full_would_do() -> None:
    got = done(chat(f"{BILLING}\n{PROMPT}"), level="safe")
    assert json.loads(got.raw) == chat(PROMPT)
    assert {effect.rule: effect.applied for effect in got.effects} == {
        "claude-code-billing": True,
        "openclaw-dynamic": False,
    }


@pytest.mark.parametrize(
    ("api", "body", "expected"),
    [
        ("chat", chat([block(BILLING), block("Be brief.")]), chat([block("Be brief.")])),
        (
            "chat",
            {"messages": [says("system", BILLING), says("system", "Be brief."), says("user")]},
            {"messages": [says("system", "Be brief."), says("user")]},
        ),
        ("messages", anthropic([block(BILLING), block("Be brief.")]), anthropic([block("Be brief.")])),
        ("messages", anthropic(f"{BILLING}\nBe brief."), anthropic("Be brief.")),
        (
            "responses",
            {"instructions": f"{BILLING}\n\nBe brief.", "input": "hi"},
            {"instructions": "\nBe brief.", "input": "hi"},
        ),
        ("chat", chat(f"{BILLING}\n{BILLING}\nBe brief."), chat("Be brief.")),
    ],
)
def test_the_billing_line_is_found_wherever_an_api_has_its_system_prompt(
    api: str, body: dict[str, Json], expected: Json
) -> None:
    assert after(body, api, "safe") == expected


def test_a_block_with_a_mark_for_the_providers_cache_is_never_dropped_whole() -> None:
    body = anthropic([block(BILLING, cache_control={"type": "ephemeral"}), block("Be brief.")])
    assert is_untouched(body, "messages")


@pytest.mark.parametrize("level", ["off", "report"])
@pytest.mark.parametrize("api", ["chat", "responses", "messages", "completions", "embeddings", "no such"])
def test_off_and_report_return_the_very_bytes(api: str, level: Level) -> None:
    body = {
        **chat(f"{BILLING}\n{PROMPT}"),
        "system": PROMPT,
        "instructions": PROMPT,
        "tools": [{"name": "b"}, {"name": "a"}],
    }
    assert is_untouched(body, api, level)
    assert bool(done(body, api, level).effects) == (
        level == "report" and api in {"chat", "messages", "responses"}
    )


@pytest.mark.parametrize(
    "raw",
    [
        b'{"messages":[{"role":"system","content":"%b"},{"role":"user","content":"hi"}],"n":1,"n":2}',
        b'{"messages":[{"role":"system","content":"%b"},{"role":"user","content":"hi"}],"n":18446744073709551616}',
        b'{"messages":[{"role":"system","content":"%b"},{"role":"user","content":"hi"}],"n":1e400}',
        b'{"messages":[{"role":"system","content":"%b"},{"role":"user","content":"\\ud800"}]}',
    ],
    ids=["twins", "integer", "double", "surrogate"],
)
def test_what_cannot_be_written_again_without_doubt_stays_byte_for_byte(raw: bytes) -> None:
    raw = raw % orjson.dumps(f"{BILLING}\nYou are an agent.")[1:-1]
    body = json.loads(raw)
    for level in ("safe", "full"):
        got = canonicalise(raw, body, "chat", level)
        assert got.raw is raw
        assert [(effect.rule, effect.applied) for effect in got.effects] == [("claude-code-billing", False)]


def test_a_body_that_is_not_what_the_bytes_say_is_not_written() -> None:
    body = chat(f"{BILLING}\nBe brief.")
    raw = orjson.dumps({**body, "stream": True})
    assert canonicalise(raw, body, "chat", "safe").raw is raw


def test_in_the_compact_form_of_sdks_every_other_byte_stays() -> None:
    raw = orjson.dumps(chat(f"{BILLING}\nGrüße 👋 / \\ \u2028", says("user", "naïve \x7f")))
    line = orjson.dumps(f"{BILLING}\n")[1:-1]
    assert canonicalise(raw, json.loads(raw), "chat", "safe").raw == raw.replace(line, b"", 1)


def test_in_another_form_the_value_is_the_same_and_members_keep_their_order() -> None:
    body = chat(f"{BILLING}\nGrüße", says("user", "1"))
    raw = json.dumps({"temperature": 1.0, **body, "seed": -5}, indent=1).encode()
    got = canonicalise(raw, json.loads(raw), "chat", "safe").raw
    assert got == orjson.dumps({"temperature": 1.0, **chat("Grüße", says("user", "1")), "seed": -5})


@pytest.mark.parametrize("kind", ["openai", "anthropic", "embedded"])
def test_each_kind_of_upstream_reports_by_default_and_a_bare_off_of_yaml_is_off(kind: str) -> None:
    where = {"model": "smollm2-135m"} if kind == "embedded" else {"urls": ["http://10.0.0.11:8000"]}
    base = {"name": "a", "kind": kind, **where}
    assert UpstreamSettings.model_validate(base).canonical == "report"
    assert UpstreamSettings.model_validate({**base, "canonical": False}).canonical == "off"  # YAML 1.1
    assert UpstreamSettings.model_validate({**base, "canonical": "full"}).canonical == "full"
    with pytest.raises(ValueError, match="canonical"):
        UpstreamSettings.model_validate({**base, "canonical": "on"})


def test_real_requests_lose_their_section_from_the_head_and_nothing_else(data_root: Path) -> None:
    apis = {"/v1/messages": "messages", "/v1/responses": "responses", "/v1/chat/completions": "chat"}
    num_moved = 0
    for file in sorted((data_root / "openclaw").glob("*.json")):
        for request in json.loads(file.read_bytes()).get("requests", ()):
            if not isinstance(request, dict) or "body" not in request:
                continue
            body, api = request["body"], apis[request["path"]]
            raw = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
            got = canonicalise(raw, body, api, "full")
            assert canonicalise(raw, body, api, "safe").raw is raw  # OpenClaw sends no nonces
            text = raw.decode()
            if "openclaw:attempt:DYNAMIC" in text and api != "messages":
                num_moved += 1
                value = json.loads(got.raw)
                last = json.dumps(value.get("messages", value.get("input"))[-1])
                assert last.count("openclaw:attempt:DYNAMIC") == 2
                assert got.raw.decode().count("openclaw:attempt:DYNAMIC") == text.count(
                    "openclaw:attempt:DYNAMIC"
                )
    assert num_moved > 50


def test_a_level_of_another_name_is_refused_by_the_configuration(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text(
        "upstreams:\n- {name: a, kind: openai, urls: ['http://10.0.0.11:8000'], canonical: off}\n"
    )
    assert load(file).settings.upstreams[0].canonical == "off"
    file.write_text(
        "upstreams:\n- {name: a, kind: openai, urls: ['http://10.0.0.11:8000'], canonical: yes}\n"
    )
    with pytest.raises(ConfigError, match="canonical"):
        load(file)
