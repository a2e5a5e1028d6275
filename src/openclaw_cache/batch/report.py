"""What a batch would reuse, and did."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from openclaw_cache.admin_client import WholeReply
from openclaw_cache.batch.batch_file import BatchRequest
from openclaw_cache.batch.no_reply import NoReply
from openclaw_cache.batch.results import is_success
from openclaw_cache.prefix.ordering import Place
from openclaw_cache.prefix.outline import outline
from openclaw_cache.prefix.reuse import Reuse, predicted
from openclaw_cache.prefix.tokens import ASCII_BYTES_PER_TOKEN
from openclaw_cache.request_logs.api import api_of_path, usage_of
from openclaw_cache.request_logs.logged_request import decoded
from openclaw_cache.types import Json

ASSUMED_TOKENS: Final = 65_536
"""What a server that does not tell is taken to have room for."""
_BLOCK_TOKENS: Final = 16


def prompt_bytes(request: BatchRequest) -> bytes:
    """A prompt in the order in which a model reads it, behind its model's name: nothing is shared between models."""
    seen = outline(request.body)
    text = "\0".join((seen.model, *(part.text for part in seen.parts)))
    return text.encode("utf-8", "surrogatepass")


@dataclass(frozen=True, slots=True)
class Prediction:
    """By a cache of so many tokens."""

    capacity_tokens: int
    is_assumed: bool
    bytes_per_token: float
    given: Reuse
    ordered: Reuse

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        return {
            "capacity_tokens": self.capacity_tokens,
            "is_assumed": self.is_assumed,
            "bytes_per_token": round(self.bytes_per_token, 3),
            "prompt_tokens": round(self.given.num_bytes / self.bytes_per_token),
            "given_order_ratio": round(self.given.ratio, 4),
            "our_order_ratio": round(self.ordered.ratio, 4),
        }


def prediction(
    prompts: Sequence[bytes],
    places: Sequence[Place],
    capacity_tokens: int | None,
    bytes_per_token: float = ASCII_BYTES_PER_TOKEN,
) -> Prediction:
    """What would be reused in the given order, and in ours. Cost: O(size).

    Args:
        prompts: in the given order.
        places: our order.
        capacity_tokens: the cache's room; None where nobody tells.
        bytes_per_token: measured, or an estimate.
    """
    tokens = ASSUMED_TOKENS if capacity_tokens is None else capacity_tokens
    block_bytes = max(1, round(_BLOCK_TOKENS * bytes_per_token))
    blocks = tokens // _BLOCK_TOKENS
    return Prediction(
        capacity_tokens=tokens,
        is_assumed=capacity_tokens is None,
        bytes_per_token=bytes_per_token,
        given=predicted(prompts, blocks, block_bytes),
        ordered=predicted([prompts[place.index] for place in places], blocks, block_bytes),
    )


def groups_at_once(prompts: Sequence[bytes], capacity_tokens: int, num_at_once: int) -> int:
    """How many groups of prompts have room side by side: each for two of the longest prompts, as one is replaced."""
    longest = max(map(len, prompts), default=0)
    # Two bytes a token: no model needs more tokens for plain text, and too few groups cost less than too many.
    room = 2 * capacity_tokens // (2 * longest) if longest else num_at_once
    return max(1, min(room, num_at_once))


def capacity_tokens(status: Json) -> int | None:
    """Room of the largest tier of a server's KV caches, in tokens; None where it has none or does not tell.

    Args:
        status: what it says of itself, which may be anything: not every server is one of ours.
    """
    found: list[int] = []
    for upstream in _listed(status, "upstreams"):
        match upstream:
            case {"kv": {"enabled": True, "block_tokens": int(tokens)} as kv} if tokens > 0:
                blocks = [
                    tier.get("capacity_blocks") for tier in _listed(kv, "tiers") if isinstance(tier, dict)
                ]
                found += [num * tokens for num in blocks if isinstance(num, int) and num > 0]
    return max(found, default=None)


def _listed(value: Json, name: str) -> list[Json]:
    """A list by its name; empty where there is none."""
    found = value.get(name) if isinstance(value, dict) else None
    return found if isinstance(found, list) else []


@dataclass(slots=True)
class Measured:
    """What the replies of this run say."""

    num_done: int = 0
    num_answered: int = 0
    """From the result cache: no model was asked."""
    failed: Counter[int] = field(default_factory=Counter)
    """Replies by status that were none."""
    num_no_reply: int = 0
    """Requests that broke their connection each time, or timed out."""
    prompt_bytes: int = 0
    """Of those whose tokens were told."""
    prompt_tokens: int = 0
    cached_tokens: int = 0
    num_untold: int = 0
    """Replies that do not say how many tokens they had."""

    @property
    def num_failed(self) -> int:
        """How many have no reply."""
        return self.failed.total() + self.num_no_reply

    @property
    def bytes_per_token(self) -> float | None:
        """As the replies told it."""
        return self.prompt_bytes / self.prompt_tokens if self.prompt_tokens else None

    def count(self, request: BatchRequest, num_bytes: int, reply: WholeReply | NoReply) -> None:
        """Take in what came of a prompt of so many bytes."""
        if isinstance(reply, NoReply):
            self.num_no_reply += 1
            return
        if not is_success(reply.status):
            self.failed[reply.status] += 1
            return
        self.num_done += 1
        if reply.headers.get("cache-status", "").startswith("openclaw-cache; hit"):
            self.num_answered += 1
            return
        try:
            usage = usage_of(api_of_path(request.path) or "chat", decoded(reply.body))
        except ValueError:
            usage = None
        if usage is None or usage.prompt_tokens is None:
            self.num_untold += 1
            return
        self.prompt_bytes += num_bytes
        self.prompt_tokens += usage.prompt_tokens
        self.cached_tokens += usage.cached_tokens

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        ratio = round(self.cached_tokens / self.prompt_tokens, 4) if self.prompt_tokens else None
        return {
            "num_done": self.num_done,
            "num_answered": self.num_answered,
            "num_failed": self.num_failed,
            "num_no_reply": self.num_no_reply,
            "prompt_tokens": self.prompt_tokens,
            "cached_tokens": self.cached_tokens,
            "cached_ratio": ratio,
        }
