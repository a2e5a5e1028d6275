"""The metadata of a GGUF file, read by key and type; what is not understood is refused, not guessed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from openclaw_cache.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

_REMEDY: Final = "give the model's Hugging Face folder (safetensors) instead"


class GgufMeta:
    """Metadata of one GGUF file: scalars, strings and lists by key (ggml-org/ggml, docs/gguf.md).

    Each reading method raises `ConfigError` where the key is absent and there is no default, or its value has
    another type.

    Args:
        source: The file; its path is in every message.
        fields: Value by key, as `gguf.ReaderField.contents()` gives them.
    """

    def __init__(self, source: Path, fields: Mapping[str, Any]) -> None:
        self._source = source
        self._fields = fields
        self.arch = self.text("general.architecture")

    def refusal(self, reason: str, remedy: str = _REMEDY) -> ConfigError:
        """The error to raise: the file, why it cannot be converted, and what to do."""
        return ConfigError(f"cannot convert {self._source}: {reason}; {remedy}")

    def unknown(self, key: str, known: Collection[object]) -> ConfigError:
        """The error to raise for a value that is none of `known`."""
        values = ", ".join(repr(value) for value in known)
        return self.refusal(f"{key} is {self._fields.get(key)!r}, only {values} is known")

    def keys(self, prefix: str) -> list[str]:
        """All keys that begin with `prefix`."""
        return [key for key in self._fields if key.startswith(prefix)]

    def has(self, key: str) -> bool:
        """Whether the file has the key."""
        return key in self._fields

    def text(self, key: str, default: str | None = None) -> str:
        """A string."""
        return str(self._value(key, default, (str,)))

    def whole(self, key: str, default: int | None = None) -> int:
        """A whole number; a list, as models have whose layers differ, is refused."""
        return int(self._value(key, default, (int,)))

    def number(self, key: str, default: float | None = None) -> float:
        """A number."""
        return float(self._value(key, default, (int, float)))

    def flag(self, key: str, default: bool) -> bool:
        """A truth value."""
        return bool(self._value(key, default, (bool,)))

    def texts(self, key: str) -> list[str]:
        """A list of strings, not to be changed."""
        return self._list(key, str)

    def wholes(self, key: str) -> list[int]:
        """A list of whole numbers, not to be changed."""
        return self._list(key, int)

    def numbers(self, key: str) -> list[float]:
        """A list of numbers, not to be changed."""
        return self._list(key, float)

    def _value(self, key: str, default: object, kinds: tuple[type, ...]) -> Any:
        value = self._fields.get(key, default)
        if value is None:
            raise self.refusal(f"it has no {key}")
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            raise self.refusal(f"{key} is {value!r}, which is not {' or '.join(k.__name__ for k in kinds)}")
        return value

    def _list(self, key: str, kind: type) -> list[Any]:
        values: list[Any] = self._value(key, None, (list,))
        if not all(isinstance(value, kind) for value in values):
            raise self.refusal(f"{key} is not a list of {kind.__name__}")
        return values
