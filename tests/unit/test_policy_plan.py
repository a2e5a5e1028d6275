import json
from pathlib import Path
from typing import Any

import pytest

from openclaw_cache.dialects.openai import parse
from openclaw_cache.gateway.policy import Bypass, Cacheable, Control, Policy, Reason, body_reason, plan

USER = {"role": "user", "content": "hi"}
TOOLS = [{"type": "function", "function": {"name": "f"}}]
SUMMARY = {"role": "system", "content": "You are a context summarization assistant. Your task …"}


def planned(
    policy: Policy | None = None,
    control: Control | None = None,
    *,
    keyable: bool = True,
    why: str = "",
    **fields: Any,
) -> Cacheable | Bypass:
    body = {"model": "m", "messages": [USER], **fields}
    request = parse(body)
    return plan(
        request,
        body_reason(request, body["messages"], keyable, why, policy or Policy()),
        control or Control(),
    )


def test_plain_request_is_shared() -> None:
    assert planned() == Cacheable(joinable=True)
    assert planned(temperature=0) == Cacheable(joinable=True)
    assert planned(temperature=None, n=1) == Cacheable(joinable=True)


def test_explicit_temperature_without_seed_is_cached_but_never_joined() -> None:
    assert planned(temperature=0.7) == Cacheable(joinable=False)
    assert planned(temperature=0.7, seed=0) == Cacheable(joinable=True)


@pytest.mark.parametrize(
    ("policy", "fields", "reason"),
    [
        (Policy(enabled=False), {}, "disabled"),
        (Policy(), {"keyable": False, "why": "duplicate-key"}, "duplicate-key"),
        (Policy(), {"keyable": False, "why": "number-range"}, "number-range"),
        (Policy(), {"keyable": False, "why": "lone-surrogate"}, "lone-surrogate"),
        (Policy(), {"keyable": False, "why": "something new"}, "unkeyable"),
        (Policy(), {"n": 2}, "n"),
        (Policy(), {"n": "2"}, "n"),
        (Policy(), {"tools": TOOLS}, "tools"),
        (Policy(sampled="bypass"), {"temperature": 0.7}, "sampled"),
        (Policy(), {"messages": [SUMMARY, USER]}, "summariser"),
    ],
)
def test_each_reason_bypasses_without_reading_or_writing(
    policy: Policy, fields: dict[str, Any], reason: str
) -> None:
    assert planned(policy, **fields) == Bypass(Reason(reason), reads=False, writes=False)


def test_operator_may_let_tools_and_samples_in_but_not_summaries() -> None:
    assert planned(Policy(tools="cache"), tools=TOOLS) == Cacheable()
    assert planned(Policy(sampled="bypass"), temperature=0.7, seed=1) == Cacheable()
    assert planned(Policy(tools="cache"), tools=TOOLS, messages=[SUMMARY, USER]) == Bypass(Reason.SUMMARISER)


def test_first_reason_in_the_documented_order_wins() -> None:
    every: dict[str, Any] = {"keyable": False, "why": "number-range", "n": 2, "tools": TOOLS, "temperature": 1,
                             "messages": [SUMMARY, USER], "control": Control(no_store=True, no_cache=True)}  # fmt: skip
    seen = []
    for policy, cured in [
        (Policy(enabled=False, sampled="bypass"), {}),
        (Policy(sampled="bypass"), {"keyable": True}),
        (Policy(sampled="bypass"), {"n": 1}),
        (Policy(sampled="bypass"), {"tools": []}),
        (Policy(sampled="bypass"), {"temperature": 0}),
        (Policy(sampled="bypass"), {"messages": [USER]}),
        (Policy(sampled="bypass"), {"control": Control(no_cache=True)}),
    ]:
        seen.append(planned(policy, **every))
        every |= cured
    reasons = [one.reason for one in seen if isinstance(one, Bypass)]
    assert reasons == ["disabled", "number-range", "n", "tools", "sampled", "summariser", "no-store"]
    order = [reason for reason in Reason if reason in reasons]
    assert order == reasons


def test_no_cache_computes_anew_and_stores() -> None:
    assert planned(control=Control(no_cache=True)) == Bypass(Reason.NO_CACHE, reads=False, writes=True)


def test_no_store_may_be_answered_but_leaves_nothing_behind() -> None:
    assert planned(control=Control(no_store=True)) == Bypass(Reason.NO_STORE, reads=True, writes=False)
    both = Control(no_store=True, no_cache=True)
    assert planned(control=both) == Bypass(Reason.NO_STORE, reads=False, writes=False)
    assert not planned(control=both).joinable


def test_callers_wishes_never_loosen_the_operators_policy() -> None:
    for control in (Control(no_store=True), Control(no_cache=True), Control(max_age_s=5)):
        assert planned(control=control, tools=TOOLS) == Bypass(Reason.TOOLS)


def test_each_reason_is_one_word_with_a_sentence() -> None:
    for reason in Reason:
        assert f"{reason}" == reason.value
        assert " " not in reason
        assert reason.meaning.endswith(".")


def test_captured_openclaw_requests_bypass_as_tools_and_summariser(data_root: Path) -> None:
    told: dict[str, int] = {}
    for path in sorted((data_root / "openclaw").glob("*.json")):
        for captured in json.loads(path.read_bytes())["requests"] if path.name != "index.json" else ():
            body = captured["body"]
            if captured.get("path") != "/v1/chat/completions":
                continue
            request = parse(body)
            with_tools = body_reason(request, body["messages"], True, "", Policy(tools="cache"))
            lenient = plan(request, with_tools, Control())
            outcome = plan(request, body_reason(request, body["messages"], True, "", Policy()), Control())
            assert isinstance(outcome, Bypass)
            told[outcome.reason] = told.get(outcome.reason, 0) + 1
            # with tools let in, everything but the summariser is cacheable and joinable
            assert lenient == (Cacheable() if body.get("tools") else Bypass(Reason.SUMMARISER))
    assert set(told) == {"tools", "summariser"}
    assert told["summariser"] >= 17  # the compaction scenario alone
