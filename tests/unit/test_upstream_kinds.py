"""What an upstream is told to be, and what it says of itself."""

from __future__ import annotations

import pytest

from openclaw_cache.gateway.upstream import Upstream


class ReadyPod:
    """An embedded engine that runs."""

    url = "http://127.0.0.1:1"
    model_ids = ["own-model", "alias"]  # noqa: RUF012 - a protocol's plain attribute
    fingerprint = "f" * 64
    is_ready = True

    async def wait_ready(self, timeout_s: float) -> None:
        """It is."""


@pytest.mark.parametrize(
    ("kind", "dialect", "vendor", "expected"),
    [
        ("openai", "chat", "openai", True),
        ("openai", "responses", "openai", True),
        ("openai", "messages", "anthropic", False),
        ("anthropic", "messages", "anthropic", True),
        ("anthropic", "count_tokens", "anthropic", True),
        ("anthropic", "chat", "openai", False),
    ],
)
def test_an_api_speaks_the_dialects_of_its_vendor(
    kind: str, dialect: str, vendor: str, expected: bool
) -> None:
    upstream = Upstream(name="api", kind=kind, urls=["http://a"])  # type: ignore[arg-type]
    assert upstream.speaks(dialect, vendor) is expected


@pytest.mark.parametrize(
    ("dialect", "expected"), [("chat", True), ("responses", False), ("embeddings", False)]
)
def test_an_embedded_engine_speaks_chat_only(dialect: str, expected: bool) -> None:
    assert Upstream(name="own", kind="embedded", pod=ReadyPod()).speaks(dialect, "openai") is expected


def test_an_embedded_engine_counts_as_up_and_has_no_urls_to_report() -> None:
    upstream = Upstream(name="own", kind="embedded", pod=ReadyPod())
    assert (upstream.is_up, upstream.status()) == (True, [])


def test_urls_without_weights_weigh_the_same() -> None:
    upstream = Upstream(name="pods", urls=["http://a/v1", "http://b/"])
    assert [(pod["url"], pod["weight"]) for pod in upstream.status()] == [("http://a", 1), ("http://b", 1)]


def test_weights_must_be_as_many_as_urls() -> None:
    with pytest.raises(ValueError, match="shorter"):
        Upstream(name="pods", urls=["http://a", "http://b"], weights=[1])
