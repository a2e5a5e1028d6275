"""JSON objects of the OpenAI chat completions API, as this engine writes them. Pure.

Source: OpenAI API reference, "The chat completion object" and "The chat completion chunk object".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from openclaw_cache.engine.chat import Finished, Piece, Prefilled, Reuse

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from openclaw_cache.engine.chat import Event, TokenLogprob
    from openclaw_cache.errors import RequestError
    from openclaw_cache.types import Json


@dataclass(slots=True)
class Tally:
    """What a reply has come to so far."""

    num_prompt_tokens: int
    n: int
    num_completion_tokens: int = 0
    reuse: Reuse = field(default_factory=Reuse)
    texts: dict[int, list[str]] = field(default_factory=dict)
    logprobs: dict[int, list[TokenLogprob]] = field(default_factory=dict)
    reasons: dict[int, str] = field(default_factory=dict)

    @property
    def is_complete(self) -> bool:
        """Whether every choice has finished."""
        return len(self.reasons) == self.n

    def add(self, event: Event) -> None:
        """Count one event in."""
        match event:
            case Prefilled(_, reuse):
                self.reuse = reuse
            case Piece(index, text, logprobs):
                self.texts.setdefault(index, []).append(text)
                self.logprobs.setdefault(index, []).extend(logprobs)
            case Finished(index, reason, num_tokens):
                self.reasons[index] = reason
                self.num_completion_tokens += num_tokens

    def usage(self) -> Json:
        """The `usage` object. The end-of-turn token is not counted."""
        return {
            "prompt_tokens": self.num_prompt_tokens,
            "completion_tokens": self.num_completion_tokens,
            "total_tokens": self.num_prompt_tokens + self.num_completion_tokens,
            "prompt_tokens_details": {
                "cached_tokens": self.reuse.num_cached,
                "cache_write_tokens": self.reuse.written,
            },
        }


@dataclass(frozen=True, slots=True)
class Reply:
    """What all objects of one reply have in common."""

    id: str
    model: str
    created_at: int
    fingerprint: str
    wants_logprobs: bool
    wants_usage: bool

    def completion(self, tally: Tally) -> Json:
        """The whole reply as one object."""
        choices = [
            {
                "index": index,
                "message": {"role": "assistant", "content": "".join(tally.texts[index]), "refusal": None},
                "logprobs": self._logprobs(tally.logprobs[index]),
                "finish_reason": tally.reasons[index],
            }
            for index in sorted(tally.reasons)
        ]
        return self._object("chat.completion", choices) | {"usage": tally.usage()}

    def chunk(
        self, index: int, delta: Json, *, logprobs: Sequence[TokenLogprob] = (), reason: str | None = None
    ) -> Json:
        """One event of a stream."""
        shown = self._logprobs(logprobs) if logprobs else None
        choice = {"index": index, "delta": delta, "logprobs": shown, "finish_reason": reason}
        chunk = self._object("chat.completion.chunk", [choice])
        return chunk | {"usage": None} if self.wants_usage else chunk

    def usage_chunk(self, tally: Tally) -> Json:
        """The last event of a stream that asked for `include_usage`."""
        return self._object("chat.completion.chunk", []) | {"usage": tally.usage()}

    def _object(self, kind: str, choices: list[Json]) -> dict[str, Json]:
        return {
            "id": self.id,
            "object": kind,
            "created": self.created_at,
            "model": self.model,
            "system_fingerprint": f"fp_{self.fingerprint[:16]}",
            "choices": choices,
        }

    def _logprobs(self, logprobs: Iterable[TokenLogprob]) -> Json:
        return (
            {"content": [_logprob(one) for one in logprobs], "refusal": None} if self.wants_logprobs else None
        )


def _logprob(one: TokenLogprob) -> Json:
    return _token(one) | {"top_logprobs": [_token(other) for other in one.top]}


def _token(one: TokenLogprob) -> dict[str, Json]:
    # A token may hold part of a character: then its text is a replacement mark, not its bytes.
    is_whole = "\ufffd" not in one.text
    return {"token": one.text, "logprob": one.logprob, "bytes": list(one.text.encode()) if is_whole else None}


def model_list(model_id: str, created_at: int, fingerprint: str | None, window: int | None) -> Json:
    """`GET /v1/models`, with vLLM's `max_model_len` and our `fingerprint` of the weights."""
    entry = {
        "id": model_id,
        "object": "model",
        "created": created_at,
        "owned_by": "openclaw-cache",
        "max_model_len": window,
        "fingerprint": fingerprint,
    }
    return {"object": "list", "data": [entry]}


def error_object(error: RequestError) -> Json:
    """OpenAI's error object."""
    fields = {"message": error.message, "type": error.kind, "param": error.param, "code": error.code}
    return {"error": fields}


def reuse_header(reuse: Reuse) -> tuple[bytes, bytes]:
    """Where the prompt's KV came from, in tokens, for the gateway's metrics."""
    counts = ("computed", "device", "host", "disk", "copied")
    shown = ", ".join(f"{name}={getattr(reuse, name)}" for name in counts)
    return b"x-openclaw-kv", shown.encode()
