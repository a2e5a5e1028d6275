"""What a prompt is known by to operators."""

from __future__ import annotations

from blake3 import blake3


class PromptIds:
    """Names prompts under a secret: equal on every node that has it, and telling nothing of them to who has it not."""

    __slots__ = ("_key",)

    def __init__(self, secret: bytes = b"") -> None:
        self._key = blake3(secret, derive_key_context="openclaw-cache prompt id v1").digest()

    def of(self, api: str, body_hash: bytes) -> str:
        """The name of a prompt, 16 hex digits; empty where its body has no hash. 1 µs.

        Args:
            api: the dialect's name.
            body_hash: the hash of its canonical body.
        """
        return blake3(api.encode() + body_hash, key=self._key).hexdigest(8) if body_hash else ""
