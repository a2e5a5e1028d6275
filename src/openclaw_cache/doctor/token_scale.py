"""Bytes of a prompt as tokens of its model."""

from __future__ import annotations

from openclaw_cache.prefix.outline import Outline
from openclaw_cache.prefix.tokens import bytes_per_token
from openclaw_cache.request_logs.logged_request import LoggedRequest


class TokenScale:
    """Bytes per token: by what a request's own reply told, else as in its model's other requests, else an estimate."""

    def __init__(self) -> None:
        self._by_model: dict[str, tuple[int, int]] = {}
        self.num_estimated = 0
        """Requests of which nobody told."""

    def of(self, request: LoggedRequest, prompt: Outline) -> float:
        """The scale of one prompt."""
        told = request.usage.prompt_tokens if request.usage is not None and request.is_whole else None
        seen_bytes, seen_tokens = self._by_model.get(request.model, (0, 0))
        if told:
            self._by_model[request.model] = (seen_bytes + prompt.num_bytes, seen_tokens + told)
            return bytes_per_token(prompt, told)
        if seen_tokens and seen_bytes:
            return seen_bytes / seen_tokens
        self.num_estimated += 1
        return bytes_per_token(prompt)
