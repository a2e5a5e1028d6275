"""A second opinion on the order of what was found, from a model that reads question and text together.

It is asked over HTTP in the form that Jina, Cohere and vLLM (`POST /v1/rerank`) share.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import aiohttp
import msgspec

_MOST_BYTES: Final = 1 << 20


class _Result(msgspec.Struct):
    index: int
    relevance_score: float


class _Reply(msgspec.Struct):
    results: list[_Result]


_DECODER: Final = msgspec.json.Decoder(_Reply)


class Reranker:
    """Asks an endpoint. Connects at the first question; `aclose` ends it.

    Args:
        url: Up to and with `/v1`.
        model: The model's name there.
        api_key: Sent as a bearer token where it is given.
        timeout_s: Longest wait for one answer.
    """

    def __init__(self, url: str, model: str, *, api_key: str | None = None, timeout_s: float = 1.0) -> None:
        self._url = url.rstrip("/") + "/rerank"
        self._model = model
        self._headers = {"content-type": "application/json"}
        if api_key is not None:
            self._headers["authorization"] = f"Bearer {api_key}"
        self._timeout = aiohttp.ClientTimeout(total=timeout_s)
        self._session: aiohttp.ClientSession | None = None

    async def rerank(self, query: str, texts: Sequence[str]) -> list[float] | None:
        """How well each text answers the query, more is better; -inf for one that the endpoint leaves out.

        None where the endpoint fails, is too slow, or says nothing of use: then the order stays as it is.
        """
        if not texts:
            return []
        order = {"model": self._model, "query": query, "documents": list(texts), "top_n": len(texts)}
        try:
            body = await self._post(msgspec.json.encode(order))
            results = [] if body is None else _DECODER.decode(body).results
        except (aiohttp.ClientError, TimeoutError, msgspec.DecodeError, UnicodeEncodeError, OSError):
            return None
        scores = [float("-inf")] * len(texts)
        known = [result for result in results if 0 <= result.index < len(texts)]
        for result in known:
            scores[result.index] = result.relevance_score
        return scores if known else None

    async def aclose(self) -> None:
        """Close the connections. Idempotent."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _post(self, body: bytes) -> bytes | None:
        if self._session is None:
            self._session = aiohttp.ClientSession(timeout=self._timeout, headers=self._headers)
        async with self._session.post(self._url, data=body, allow_redirects=False) as reply:
            return await _read(reply) if reply.status == 200 else None


async def _read(reply: aiohttp.ClientResponse) -> bytes:
    """The body, up to the most that such a reply can be."""
    body = b""
    async for part in reply.content.iter_any():
        body += part
        if len(body) > _MOST_BYTES:
            raise aiohttp.ClientPayloadError("a rerank reply is too long")
    return body
