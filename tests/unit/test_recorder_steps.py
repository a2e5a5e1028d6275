"""What a recorder tells of an embedded engine's prompt: where its KV came from, once, by the reply's head."""

from __future__ import annotations

from openclaw_cache.dialects.openai import ChatDialect
from openclaw_cache.dialects.request import Request
from openclaw_cache.gateway.prompt_tokens import HEADER, PromptTokens
from openclaw_cache.gateway.recorder import Recorder
from openclaw_cache.observe.metrics import Metrics
from openclaw_cache.types import Headers, Namespace


class Head:
    """The head of a reply (`flight.Source`)."""

    status, is_ok, is_event_stream, is_encoded = 200, True, True, False

    def __init__(self, headers: Headers) -> None:
        self.headers = headers

    async def read(self) -> bytes:
        return b""

    def finish(self) -> None: ...

    def close(self) -> None: ...


def recorder(steps: list[tuple[str, str]], *, own_engine: bool) -> Recorder:
    return Recorder(
        cache=None,
        key=None,
        namespace=Namespace("default"),
        upstream="local",
        dialect=ChatDialect(),
        request=Request("m"),
        prompt=str,
        ttl_s=1.0,
        wall=lambda: 0.0,
        metrics=Metrics(),
        has_usage_event=False,
        request_bytes=400,
        own_engine=own_engine,
        outdated_at={},
        is_same_model=lambda: True,
        asked_at=0.0,
        note=lambda name, result, _took_s: steps.append((name, result)),
    )


def test_an_engines_reply_tells_what_it_had_of_the_prompt_in_which_tier() -> None:
    steps: list[tuple[str, str]] = []
    one = recorder(steps, own_engine=True)
    one.begin(Head([(HEADER, b"computed=5, device=48, host=16, disk=0")]))
    assert steps == [("kv", "64 of 69 tokens")]
    assert one.prompt_tokens == PromptTokens(computed=5, device=48, host=16, disk=0)


def test_the_same_header_of_another_upstream_tells_nothing() -> None:
    steps: list[tuple[str, str]] = []
    one = recorder(steps, own_engine=False)
    one.begin(Head([(HEADER, b"computed=5, device=64, host=0, disk=0")]))
    assert (steps, one.prompt_tokens) == ([], None)
