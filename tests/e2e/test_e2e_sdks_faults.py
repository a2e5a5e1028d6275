"""What the official Python SDKs make of errors, refusals and broken streams that come through the gateway, and what
the upstream sees of a client that leaves.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from dataclasses import replace
from typing import Any

import anthropic
import openai
import pytest

from support import anthropic_upstream, openai_upstream
from support.vendor_site import HIT, STORED, VendorSite, vendor_site
from support.vendor_upstream import VendorReply, VendorUpstream

GONE_S = 30.0
"""A held stream stays open four times as long: only its client can have ended it."""

NEGATIVE = "openclaw-cache; hit; detail=negative"
ANEW = {"cache-control": "no-cache"}
ASKED_ANEW = "openclaw-cache; fwd=bypass; detail=no-cache; stored"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VendorSite]:
    with vendor_site(tmp_path_factory.mktemp("faults")) as running:
        yield running


@pytest.fixture
def chat(request: pytest.FixtureRequest) -> dict[str, Any]:
    """A chat request that no other test sends."""
    return {"model": "gpt-5-mini", "messages": [{"role": "user", "content": request.node.name}]}


@pytest.fixture
def message(chat: dict[str, Any]) -> dict[str, Any]:
    """The same as a message."""
    return chat | {"model": "claude-haiku-5", "max_tokens": 100}


def openai_sdk(site: VendorSite, key: str = "sk-mine", max_retries: int = 0) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{site.gateway.url}/v1", api_key=key, max_retries=max_retries)


def anthropic_sdk(site: VendorSite, key: str = "sk-ant-mine", max_retries: int = 0) -> anthropic.Anthropic:
    return anthropic.Anthropic(base_url=site.gateway.url, api_key=key, max_retries=max_retries)


def cut(reply: VendorReply) -> VendorReply:
    """The same stream without its last two events."""
    return replace(reply, frames=reply.frames[:-2])


async def leaves(upstream: VendorUpstream, asking: Coroutine[Any, Any, Any]) -> None:
    """A client goes away while it waits for the head of its reply; the upstream must see it go."""
    with upstream.holding("head"):
        task = asyncio.create_task(asking)
        assert await asyncio.to_thread(upstream.held.wait, GONE_S)
        task.cancel()
        assert await asyncio.to_thread(upstream.gone.wait, GONE_S)
        with pytest.raises(asyncio.CancelledError):
            await task


class TestOpenai:
    """As OpenAI's SDK sees it."""

    def test_a_wrong_key_is_the_upstreams_401(self, site: VendorSite, chat: dict[str, Any]) -> None:
        with (
            openai_sdk(site, openai_upstream.WRONG_KEY) as client,
            pytest.raises(openai.AuthenticationError) as caught,
        ):
            client.chat.completions.create(**chat)
        assert (caught.value.status_code, caught.value.code) == (401, "invalid_api_key")
        assert caught.value.request_id
        assert "sk-wrong" not in site.gateway.log()

    @pytest.mark.parametrize("model", ["gpt-none", "llama-none"])
    def test_an_unknown_model_is_a_404_whoever_says_so(
        self, model: str, site: VendorSite, chat: dict[str, Any]
    ) -> None:
        with openai_sdk(site) as client, pytest.raises(openai.NotFoundError) as caught:
            client.chat.completions.create(**chat | {"model": model})
        assert caught.value.code == "model_not_found"

    def test_a_model_of_the_other_api_is_a_clear_400(self, site: VendorSite, chat: dict[str, Any]) -> None:
        with openai_sdk(site) as client, pytest.raises(openai.BadRequestError) as caught:
            client.chat.completions.create(**chat | {"model": "claude-haiku-5"})
        assert caught.value.code == "wrong_dialect"
        assert "/v1/messages" in caught.value.message

    @pytest.mark.parametrize("stream", [False, True])
    def test_a_429_keeps_its_headers_holds_as_long_as_it_says_and_is_no_reply(
        self, stream: bool, site: VendorSite, chat: dict[str, Any]
    ) -> None:
        slow = openai_upstream.failure(
            429,
            "Rate limit reached",
            code="rate_limit_exceeded",
            retry_after="30",
            x_ratelimit_reset_requests="30s",
        )
        site.openai.answer_next(slow)
        num_before = len(site.openai.calls)
        with openai_sdk(site) as client:
            with pytest.raises(openai.RateLimitError) as caught:
                client.chat.completions.create(**chat, stream=stream)
            headers = caught.value.response.headers
            assert (headers["retry-after"], headers["x-ratelimit-reset-requests"]) == ("30", "30s")
            assert caught.value.code == "rate_limit_exceeded"
            with pytest.raises(openai.RateLimitError) as again:
                client.chat.completions.create(**chat)
            assert again.value.response.headers["cache-status"] == NEGATIVE
            assert again.value.code == "rate_limit_exceeded"
            assert 0 < int(again.value.response.headers["retry-after"]) <= 30
            assert len(site.openai.calls) == num_before + 1
            raw = client.chat.completions.with_raw_response.create(**chat, extra_headers=ANEW)
            assert raw.headers["cache-status"] == ASKED_ANEW
            assert client.chat.completions.with_raw_response.create(**chat).headers["cache-status"] == HIT

    def test_a_429_that_may_be_repeated_soon_is_repeated_by_the_gateway_then_by_the_sdk(
        self, site: VendorSite, chat: dict[str, Any]
    ) -> None:
        soon = openai_upstream.failure(429, "Rate limit reached", retry_after="0.01")
        site.openai.answer_next(soon, soon)
        num_before = len(site.openai.calls)
        with openai_sdk(site, max_retries=1) as client:
            reply = client.chat.completions.create(**chat)
        assert reply.choices[0].message.content == openai_upstream.text_for(chat)
        # One repetition is the gateway's own (`retries: 1`); the second refusal reaches the SDK, which asks again.
        assert [call.header("x-stainless-retry-count") for call in site.openai.calls[num_before:]] == [
            "0",
            "0",
            "1",
        ]

    def test_a_server_error_is_repeated_by_the_sdk(self, site: VendorSite, chat: dict[str, Any]) -> None:
        site.openai.answer_next(openai_upstream.failure(500, "The server had an error", retry_after="0.01"))
        with openai_sdk(site, max_retries=2) as client:
            raw = client.chat.completions.with_raw_response.create(**chat)
        assert raw.headers["cache-status"] == STORED
        assert raw.retries_taken == 1

    def test_the_upstreams_word_that_it_must_not_be_asked_again_reaches_the_sdk(
        self, site: VendorSite, chat: dict[str, Any]
    ) -> None:
        site.openai.answer_next(openai_upstream.failure(500, "No.", x_should_retry="false"))
        num_before = len(site.openai.calls)
        with openai_sdk(site, max_retries=2) as client, pytest.raises(openai.InternalServerError):
            client.chat.completions.create(**chat)
        assert len(site.openai.calls) == num_before + 1

    @pytest.mark.parametrize("api", ["chat", "responses"])
    def test_a_stream_that_stops_short_is_an_error_and_stored_nowhere(
        self, api: str, site: VendorSite, chat: dict[str, Any]
    ) -> None:
        with openai_sdk(site) as client:
            create: Any = client.chat.completions.create if api == "chat" else client.responses.create
            asked = chat if api == "chat" else {"model": "gpt-5-mini", "input": "stops short", "store": False}
            site.openai.answer_next(cut(openai_upstream.streamed(asked)))
            with pytest.raises(openai.APIError):
                list(create(**asked, stream=True))
            num_before = len(site.openai.calls)
            list(create(**asked, stream=True))
            assert len(site.openai.calls) == num_before + 1

    @pytest.mark.parametrize("api", ["chat", "responses"])
    def test_closing_a_stream_frees_the_upstream(
        self, api: str, site: VendorSite, chat: dict[str, Any]
    ) -> None:
        with openai_sdk(site) as client, site.openai.holding("middle"):
            stream: Any
            if api == "chat":
                stream = client.chat.completions.create(**chat, stream=True)
            else:
                stream = client.responses.create(model="gpt-5-mini", input="held", store=False, stream=True)
            next(iter(stream))
            stream.close()
            assert site.openai.gone.wait(GONE_S)

    @pytest.mark.parametrize("stream", [False, True])
    async def test_leaving_before_the_reply_begins_frees_the_upstream(
        self, stream: bool, site: VendorSite, chat: dict[str, Any]
    ) -> None:
        url = f"{site.gateway.url}/v1"
        async with openai.AsyncOpenAI(base_url=url, api_key="sk-mine", max_retries=0) as client:
            await leaves(site.openai, client.chat.completions.create(**chat, stream=stream))


class TestAnthropic:
    """As Anthropic's SDK sees it."""

    def test_a_wrong_key_is_the_upstreams_401(self, site: VendorSite, message: dict[str, Any]) -> None:
        with (
            anthropic_sdk(site, anthropic_upstream.WRONG_KEY) as client,
            pytest.raises(anthropic.AuthenticationError) as caught,
        ):
            client.messages.create(**message)
        assert caught.value.body == anthropic_upstream.failure(401, "invalid x-api-key").whole
        assert caught.value.request_id == "req_011CSHoEeqs5C35K2UUqR7Fy"
        assert anthropic_upstream.WRONG_KEY not in site.gateway.log()

    @pytest.mark.parametrize("model", ["claude-none", "llama-none"])
    def test_an_unknown_model_is_a_404_whoever_says_so(
        self, model: str, site: VendorSite, message: dict[str, Any]
    ) -> None:
        with anthropic_sdk(site) as client, pytest.raises(anthropic.NotFoundError) as caught:
            client.messages.create(**message | {"model": model})
        assert isinstance(caught.value.body, dict)
        assert caught.value.body["error"]["type"] == "not_found_error"

    def test_a_model_of_the_other_api_is_a_clear_400(self, site: VendorSite, message: dict[str, Any]) -> None:
        with anthropic_sdk(site) as client, pytest.raises(anthropic.BadRequestError) as caught:
            client.messages.create(**message | {"model": "gpt-5-mini"})
        assert isinstance(caught.value.body, dict)
        assert caught.value.body["error"]["type"] == "invalid_request_error"
        assert "/v1/chat/completions" in caught.value.message

    @pytest.mark.parametrize("stream", [False, True])
    @pytest.mark.parametrize(
        ("status", "kind"), [(429, anthropic.RateLimitError), (529, anthropic.APIStatusError)]
    )
    def test_a_refusal_keeps_its_headers_holds_as_long_as_it_says_and_is_no_reply(
        self,
        status: int,
        kind: type[anthropic.APIStatusError],
        stream: bool,
        site: VendorSite,
        message: dict[str, Any],
    ) -> None:
        site.anthropic.answer_next(anthropic_upstream.failure(status, "Busy", retry_after="30"))
        num_before = len(site.anthropic.calls)
        with anthropic_sdk(site) as client:
            with pytest.raises(kind) as caught:
                client.messages.create(**message, stream=stream)
            assert caught.value.status_code == status
            assert caught.value.response.headers["retry-after"] == "30"
            with pytest.raises(kind) as again:
                client.messages.create(**message)
            assert again.value.response.headers["cache-status"] == NEGATIVE
            assert len(site.anthropic.calls) == num_before + 1
            raw = client.messages.with_raw_response.create(**message, extra_headers=ANEW)
            assert raw.headers["cache-status"] == ASKED_ANEW
            assert client.messages.with_raw_response.create(**message).headers["cache-status"] == HIT

    def test_an_overload_is_repeated_by_the_sdk(self, site: VendorSite, message: dict[str, Any]) -> None:
        site.anthropic.answer_next(anthropic_upstream.failure(529, "Overloaded", retry_after="0.01"))
        with anthropic_sdk(site, max_retries=2) as client:
            raw = client.messages.with_raw_response.create(**message)
        assert raw.headers["cache-status"] == STORED
        assert raw.retries_taken == 1

    def test_an_error_event_in_a_stream_is_the_sdks_error_and_stored_nowhere(
        self, site: VendorSite, message: dict[str, Any]
    ) -> None:
        site.anthropic.answer_next(anthropic_upstream.overloaded_stream(message))
        with anthropic_sdk(site) as client:
            with pytest.raises(anthropic.APIStatusError) as caught:
                list(client.messages.create(**message, stream=True))
            assert isinstance(caught.value.body, dict)
            assert caught.value.body["error"]["type"] == "overloaded_error"
            raw = client.messages.with_raw_response.create(**message)
            assert raw.headers["cache-status"] == STORED

    def test_a_stream_that_stops_short_is_an_error_and_stored_nowhere(
        self, site: VendorSite, message: dict[str, Any]
    ) -> None:
        site.anthropic.answer_next(cut(anthropic_upstream.streamed(message)))
        with anthropic_sdk(site) as client:
            with pytest.raises(anthropic.APIError):
                list(client.messages.create(**message, stream=True))
            raw = client.messages.with_raw_response.create(**message)
            assert raw.headers["cache-status"] == STORED

    def test_closing_a_stream_frees_the_upstream(self, site: VendorSite, message: dict[str, Any]) -> None:
        with anthropic_sdk(site) as client, site.anthropic.holding("middle"):
            with client.messages.stream(**message) as stream:
                next(iter(stream))
            assert site.anthropic.gone.wait(GONE_S)

    @pytest.mark.parametrize("stream", [False, True])
    async def test_leaving_before_the_reply_begins_frees_the_upstream(
        self, stream: bool, site: VendorSite, message: dict[str, Any]
    ) -> None:
        url = site.gateway.url
        async with anthropic.AsyncAnthropic(base_url=url, api_key="sk-mine", max_retries=0) as client:
            await leaves(site.anthropic, client.messages.create(**message, stream=stream))
