"""Vectors from an endpoint that speaks OpenAI's `POST /v1/embeddings`."""

from __future__ import annotations

import base64
import binascii
import hashlib
from typing import TYPE_CHECKING, Final

import aiohttp
import msgspec
import numpy as np

from openclaw_cache.embedding.files import FIELD
from openclaw_cache.embedding.text import prepared
from openclaw_cache.embedding.unit import unit
from openclaw_cache.errors import ConfigError, EmbeddingError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from openclaw_cache.embedding.embedder import Vector

PROBE: Final = "Where can I see which plan I am on?"
_REPLY_BYTES: Final = 64 * 1024
_REPLY_BYTES_PER_TEXT: Final = 256 * 1024
"""Room for 8,000 dimensions in decimal digits."""
_MOST_MARKS: Final = 16
_REFUSED: Final = (400, 413, 422)
"""The endpoint does not take this body: one text in it may be at fault."""
_MISTAKEN: Final = (301, 302, 307, 308, 401, 403, 404, 405)
"""What is asked for is not here, or not for us."""


class _Item(msgspec.Struct, frozen=True):
    index: int
    embedding: list[float] | str


class _Reply(msgspec.Struct, frozen=True):
    data: list[_Item]


class _RefusedError(EmbeddingError):
    """The endpoint says that the texts are wrong."""


class _MistakenError(EmbeddingError):
    """The endpoint says that URL, key or model are wrong."""


_REPLY: Final = msgspec.json.Decoder(_Reply)


class RemoteEmbedder:
    """Embeds with an OpenAI-compatible endpoint.

    How much of a text it reads is not known, so that `max_chars` stands for its window; a character outside ASCII
    counts as four, as it does in tokens at worst.

    Its fingerprint is made of URL, model, dimensions, and the largest components of the vector of a fixed text. So
    another model behind the same name is seen at the next start (that of the same model does not change by the
    noise of other hardware), but not while we run.

    Args:
        url: With its `/v1`, as OpenAI's own clients take it.
        model: Sent as it is.
        api_key: Sent as a bearer token.
        num_dims: Asked for as `dimensions`, where the model can be shortened.
        timeout_s: Longest wait for one request.
        max_chars: A text with more gets None.
    """

    max_batch: Final = 32

    def __init__(
        self,
        url: str,
        model: str,
        *,
        api_key: str | None = None,
        num_dims: int | None = None,
        timeout_s: float = 2.0,
        max_chars: int = 2000,
    ) -> None:
        self._url = url.rstrip("/") + "/embeddings"
        self._model = model
        self._api_key = api_key
        self._wanted_dims = num_dims
        self._timeout_s = timeout_s
        self._max_chars = max_chars
        self._session: aiohttp.ClientSession | None = None
        self.fingerprint = ""
        self.num_dims = 0

    async def start(self) -> None:
        """Ask for a fixed text's vector twice, to learn what the endpoint gives. Does nothing when it has.

        Raises:
            ConfigError: It refuses the key, does not know the model or the path, or gives vectors of another length.
            EmbeddingError: It cannot be reached or failed; `start` may be called again.
        """
        if self.fingerprint:
            return
        if self._session is None:
            headers = {} if self._api_key is None else {"Authorization": f"Bearer {self._api_key}"}
            self._session = aiohttp.ClientSession(
                headers=headers, timeout=aiohttp.ClientTimeout(total=self._timeout_s)
            )
        try:
            (first,), (second,) = await self._ask([PROBE]), await self._ask([PROBE])
        except (_RefusedError, _MistakenError) as exc:
            raise ConfigError(f"{FIELD}: {exc}: see to its URL (with /v1), model and key") from None
        if self._wanted_dims not in (None, len(first)):
            raise ConfigError(
                f"{FIELD}: {self._model} gives {len(first)} dimensions, not {self._wanted_dims}"
            )
        mark, again = _mark(first), _mark(second)
        named = hashlib.sha256(f"{self._url}\n{mark if mark == again else ''}".encode()).hexdigest()[:24]
        self.num_dims = len(first)
        self.fingerprint = f"remote:{self._model}:{self.num_dims}:{named}"

    async def embed(self, texts: Sequence[str]) -> list[Vector | None]:
        """One vector per text, in order; None for one that is too long or has nothing to read.

        A batch that the endpoint refuses is asked again in parts, so that one text cannot fail another: that one
        gets None, as long as any gets a vector.

        Raises:
            EmbeddingError: The endpoint was not reached, failed, was too slow, or answered something else.
        """
        if not self.fingerprint:
            raise EmbeddingError("the embedding endpoint has not answered yet")
        fitting = [self._fitting(text) for text in texts]
        sent = [text for text in fitting if text is not None]
        vectors: list[Vector | None] = []
        for begin in range(0, len(sent), self.max_batch):
            vectors += await self._ask_apart(sent[begin : begin + self.max_batch])
        given = iter(vectors)
        return [None if text is None else next(given) for text in fitting]

    async def aclose(self) -> None:
        """Close the connections."""
        session, self._session = self._session, None
        self.fingerprint = ""
        if session is not None:
            await session.close()

    def _fitting(self, text: str) -> str | None:
        """The text as it is sent; None where it is too long."""
        readable = prepared(text, self._max_chars)
        if readable is None or len(readable) + 3 * sum(char > "\x7f" for char in readable) > self._max_chars:
            return None
        return readable

    async def _ask_apart(self, texts: list[str]) -> list[Vector | None]:
        """Vectors of a batch; where it is refused, of its halves, down to the text at fault, which gets None."""
        found: list[Vector | None] = []
        try:
            found += await self._ask(texts)
        except _RefusedError:
            if len(texts) == 1:
                raise
            for half in (texts[: len(texts) // 2], texts[len(texts) // 2 :]):
                try:
                    found += await self._ask_apart(half)
                except _RefusedError:
                    found += [None] * len(half)
            if not any(vector is not None for vector in found):
                raise
        if any(vector is not None and len(vector) != self.num_dims for vector in found):
            raise EmbeddingError("the embedding endpoint gives vectors of another length than at the start")
        return found

    async def _ask(self, texts: list[str]) -> list[Vector]:
        body: dict[str, object] = {"model": self._model, "input": texts, "encoding_format": "float"}
        if self._wanted_dims is not None:
            body["dimensions"] = self._wanted_dims
        content = msgspec.json.encode(body)
        room = _REPLY_BYTES + _REPLY_BYTES_PER_TEXT * len(texts)
        try:
            try:
                raw = await self._post(content, room)
            except (
                aiohttp.ServerDisconnectedError
            ):  # a kept connection that it had closed; twice does no harm
                raw = await self._post(content, room)
        except TimeoutError:
            raise EmbeddingError(
                f"the embedding endpoint gave no answer within {self._timeout_s:g} s"
            ) from None
        except (aiohttp.ClientError, OSError) as exc:
            raise EmbeddingError(f"the embedding endpoint was not reached: {type(exc).__name__}") from None
        return _vectors(raw, len(texts))

    async def _post(self, content: bytes, room: int) -> bytes:
        session = self._session
        if session is None:
            raise EmbeddingError("the embedding endpoint was closed")
        headers = {"Content-Type": "application/json"}
        # A redirect is not followed: the key is for this host.
        async with session.post(self._url, data=content, headers=headers, allow_redirects=False) as reply:
            if reply.status in _REFUSED:
                raise _RefusedError(f"the embedding endpoint answers {reply.status}")
            if reply.status in _MISTAKEN:
                raise _MistakenError(f"the embedding endpoint answers {reply.status}")
            if reply.status != 200:
                raise EmbeddingError(f"the embedding endpoint answers {reply.status}")
            raw = bytearray()
            async for part in reply.content.iter_any():
                raw += part
                if len(raw) > room:
                    raise EmbeddingError("the embedding endpoint answers with more bytes than vectors take")
            return bytes(raw)


def _vectors(raw: bytes, num_texts: int) -> list[Vector]:
    """The vectors of a reply, in the order of the texts.

    Raises:
        EmbeddingError: it is not such a reply, or not of so many vectors, or one has no direction.
    """
    try:
        items = sorted(_REPLY.decode(raw).data, key=lambda item: item.index)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise EmbeddingError("the embedding endpoint's answer is not a list of embeddings") from None
    if [item.index for item in items] != list(range(num_texts)):
        raise EmbeddingError(f"the embedding endpoint gave {len(items)} vectors for {num_texts} texts")
    vectors = [unit(_numbers(item.embedding)) for item in items]
    if len({len(vector) for vector in vectors}) != 1:
        raise EmbeddingError("the embedding endpoint gave vectors of different lengths")
    return vectors


def _numbers(embedding: list[float] | str) -> npt.NDArray[np.float32]:
    if not isinstance(embedding, str):
        with np.errstate(over="ignore"):  # what is too large for float32 has no direction, which `unit` says
            return np.array(embedding, np.float32)
    try:
        return np.frombuffer(base64.b64decode(embedding, validate=True), np.dtype("<f4"))
    except (binascii.Error, ValueError):
        raise EmbeddingError("the embedding endpoint gave a vector that is not base64 of float32") from None


def _mark(vector: Vector) -> str:
    """Where a vector's largest components stand, and their signs: what noise does not change, and another model does.

    It is cut at the widest gap between the sizes of two that follow each other, far from a change of places.
    """
    order = np.argsort(-np.abs(vector), kind="stable")[: _MOST_MARKS + 1]
    gaps = -np.diff(np.abs(vector[order]))
    num_marks = int(np.argmax(gaps)) + 1 if len(gaps) else 1
    return ",".join(str(int(np.copysign(place + 1, vector[place]))) for place in sorted(order[:num_marks]))
