"""`/kv/…`: what the gateway asks the engine on behalf of operators."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar
from urllib.parse import parse_qs

import msgspec
import orjson

from openclaw_cache.engine import kv_admin
from openclaw_cache.engine.asgi import parse_salt, read_body, send_json, unless_gone
from openclaw_cache.engine.chat import Prefilled, Reuse, Sampling, Work
from openclaw_cache.engine.request import parse_messages, parse_tools
from openclaw_cache.engine.server import admitted
from openclaw_cache.errors import RequestError
from openclaw_cache.kv.rhythm import Hint

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from openclaw_cache.engine.asgi import Receive, Scope, Send
    from openclaw_cache.engine.engine import Engine
    from openclaw_cache.types import Json

_T = TypeVar("_T", bound=msgspec.Struct)

_MOST_ROWS = 10_000
_MOST_PIN_S = 366 * 86400.0
_PREFILL_ONLY = Sampling(max_tokens=0)


class EvictOrder(msgspec.Struct, forbid_unknown_fields=True):
    """Body of `POST /kv/evict`. Without a salt it means every namespace, without a pattern every prefix."""

    pattern: str | None = None
    salt: str | None = None
    dry_run: bool = False
    pinned: bool = False


class WarmOrder(msgspec.Struct, forbid_unknown_fields=True):
    """Body of `POST /kv/warm`."""

    prompts: Annotated[list[Any], msgspec.Meta(min_length=1, max_length=10_000)]
    pin_s: Annotated[float, msgspec.Meta(gt=0, le=_MOST_PIN_S)] | None = None
    salt: str | None = None


class HintOrder(msgspec.Struct, forbid_unknown_fields=True):
    """Body of `POST /kv/hint`: what is known of the next call of the conversations that begin with `prompt`."""

    prompt: Any
    hint: Literal["tool", "idle", "ended"]
    salt: str | None = None


class KvRoutes:
    """Status, tree, eviction, warm-up and hints of one engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def __call__(self, method: str, path: str, scope: Scope, receive: Receive, send: Send) -> bool:
        """Answer if the path is one of ours. Raises RequestError."""
        match (method, path):
            case ("GET", "/kv/status"):
                answer = await self._call(lambda: kv_admin.status(self._engine))
            case ("GET", "/kv/tree"):
                answer = await self._tree(scope["query_string"].decode("latin-1"))
            case ("POST", "/kv/evict"):
                answer = await self._evict(_order(await read_body(receive), EvictOrder))
            case ("POST", "/kv/hint"):
                answer = await self._hint(_order(await read_body(receive), HintOrder))
            case ("POST", "/kv/warm"):
                await self._warm(_order(await read_body(receive), WarmOrder), receive, send)
                return True
            case _:
                return False
        await send_json(send, 200, answer)
        return True

    async def _call(self, function: object) -> Json:
        return await asyncio.wrap_future(self._engine.call(function))  # type: ignore[arg-type]

    async def _tree(self, query: str) -> Json:
        given = parse_qs(query)
        limit = given.get("limit", ["1000"])[0]
        if not limit.isdecimal() or not 1 <= int(limit) <= _MOST_ROWS:
            raise RequestError(400, f"'limit' must be a number from 1 to {_MOST_ROWS}", param="limit")
        text = given.get("text", ["0"])[0]
        if text not in ("0", "1"):
            raise RequestError(400, "'text' must be 0 or 1", param="text")
        return await self._call(lambda: kv_admin.tree(self._engine, int(limit), with_text=text == "1"))

    async def _evict(self, order: EvictOrder) -> Json:
        salt = None if order.salt is None else parse_salt(order.salt)
        return await self._call(
            lambda: kv_admin.evict(
                self._engine, order.pattern, salt, dry_run=order.dry_run, pinned=order.pinned
            )
        )

    async def _hint(self, order: HintOrder) -> Json:
        tokens = await asyncio.to_thread(self._tokens, order.prompt)
        salt = b"" if order.salt is None else parse_salt(order.salt)
        known = Hint[order.hint.upper()]
        return await self._call(lambda: kv_admin.hint(self._engine, tokens, salt, known))

    async def _warm(self, order: WarmOrder, receive: Receive, send: Send) -> None:
        if not self._engine.settings.enabled:
            raise RequestError(409, "prefix caching is off (kv_cache.enabled): nothing would be kept")
        salt = b"" if order.salt is None else parse_salt(order.salt)
        await unless_gone(receive, self._send_lines(self._progress(order.prompts, order.pin_s, salt), send))

    async def _send_lines(self, lines: AsyncIterator[Json], send: Send) -> None:
        headers = [(b"content-type", b"application/x-ndjson")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        async for line in lines:
            await send({"type": "http.response.body", "body": orjson.dumps(line) + b"\n", "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _progress(self, prompts: list[Json], pin_s: float | None, salt: bytes) -> AsyncIterator[Json]:
        """Compute each prompt in turn, and tell what each took."""
        for index, prompt in enumerate(prompts):
            try:
                tokens = await asyncio.to_thread(self._tokens, prompt)
                reuse = await self._prefill(Work(tokens, _PREFILL_ONLY, salt=salt, pin_s=pin_s))
            except RequestError as error:
                yield {"index": index, "error": error.message}
                continue
            yield {
                "index": index,
                "num_tokens": len(tokens),
                "num_cached_tokens": len(tokens) - reuse.computed,
                "num_computed_tokens": reuse.computed,
            }
        status = await self._call(lambda: kv_admin.status(self._engine))
        yield {"done": True, "pins": status["pins"]}

    async def _prefill(self, work: Work) -> Reuse:
        ticket = admitted(self._engine, work)
        reuse: Reuse | None = None
        try:
            async for event in ticket:
                if isinstance(event, Prefilled):
                    reuse = event.reuse
        finally:
            ticket.close()
        if reuse is None:
            raise RequestError(
                503, "the engine is stopping", kind="server_error", code="engine_stopping", retry_after_s=5
            )
        return reuse

    def _tokens(self, prompt: Json) -> list[int]:
        """The tokens of one prompt, or of what all its continuations begin with.

        Raises:
            RequestError: it is none, or does not fit.
        """
        if not isinstance(prompt, dict):
            raise RequestError(400, "a prompt must be an object with 'messages' or 'text'")
        if isinstance(text := prompt.get("text"), str):
            tokens = self._engine.model.encode_text(text)
        else:
            messages, tools = parse_messages(prompt.get("messages")), parse_tools(prompt.get("tools"))
            tokens = self._engine.prefix_tokens(messages, tools)
        if not tokens:
            raise RequestError(400, "the prompt is empty")
        if len(tokens) > self._engine.window:
            raise RequestError(
                400,
                f"the prompt has {len(tokens)} tokens, more than the {self._engine.window} of this model's window: "
                "no request with it could be served; use a model with a larger window",
            )
        return tokens


def _order(body: bytes, kind: type[_T]) -> _T:
    try:
        return msgspec.json.decode(body or b"{}", type=kind)
    except msgspec.DecodeError as exc:
        raise RequestError(400, str(exc)) from None
    except RecursionError:
        raise RequestError(400, "JSON is nested too deeply") from None
