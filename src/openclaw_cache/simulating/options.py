"""What a simulation is asked for, in words, and what the words mean."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from openclaw_cache.errors import ConfigError
from openclaw_cache.simulation.costs import ROOM_PRICES, RoomPrice, Worth
from openclaw_cache.simulation.kv_sizes import ASSUMED, KV_BYTES
from openclaw_cache.simulation.prompts import Encode
from openclaw_cache.simulation.report import Asked
from openclaw_cache.simulation.study import LRU, NAMES
from openclaw_cache.simulation.tiers import NAMES as TIERS
from openclaw_cache.simulation.tiers import Tier, Write
from openclaw_cache.units import parse_duration, parse_ratio, parse_size

_MILLION = 10**6
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """As they are written on the command line."""

    trace: str
    policies: Sequence[str] = ()
    tiers: Sequence[str] = ()
    write: str = "through"
    sample: str = "auto"
    model: str | None = None
    bytes_per_token: Sequence[str] = ()
    block_tokens: int | None = None
    num_users: int = 40
    max_gap: str = "10m"
    room_prices: Sequence[str] = ()
    token_price: float | None = None
    """Of a million."""
    prefill_speed: float | None = None
    plot: Path | None = None

    def asked(self) -> Asked:
        """What the report is to be about. Raises ConfigError, which names the option."""
        kv_bytes = self._kv_bytes()
        price = None if self.token_price is None else self.token_price / _MILLION
        return Asked(
            policies=self._policies(),
            tiers=self._tiers(kv_bytes),
            write=self._write(),
            bytes_per_token=kv_bytes.get("host", kv_bytes[""]),
            room_prices=self._room_prices(),
            worth=Worth(price, self.prefill_speed),
        )

    def notes(self) -> list[str]:
        """What was assumed."""
        if self.model is not None or any("=" not in text for text in self.bytes_per_token):
            return []
        return [
            f"{ASSUMED:,} bytes of KV a token are assumed (8 billion parameters, fp16); --model or --bytes-per-token "
            "says what they are"
        ]

    def rate(self) -> float | None:
        """Of the sample; None where it is to be found. Raises ConfigError."""
        if self.sample in ("auto", "off"):
            return None
        found = _parsed("--sample", self.sample, parse_ratio)
        if not found:
            raise ConfigError("--sample: 0 leaves nothing; write auto, off, or a share such as 1%")
        return found

    def max_gap_s(self) -> float:
        """Raises ConfigError."""
        return _parsed("--max-gap", self.max_gap, parse_duration)

    def encoder(self) -> Encode | None:
        """The tokenizer of a model that is installed; None for a name that only says how large its KV is.

        Raises:
            ConfigError: there is no such model here, or no library to read it with.
        """
        if self.model is None or self.model.lower() in KV_BYTES:
            return None
        from openclaw_cache.engine.model_files import text_encoder  # noqa: PLC0415 - an extra
        from openclaw_cache.engine.source import require_extras, resolve  # noqa: PLC0415

        require_extras()
        return text_encoder(resolve(self.model))

    def _policies(self) -> list[str]:
        for name in self.policies:
            if name not in NAMES:
                raise ConfigError(f"--policy: there is no {name!r}; there are {', '.join(NAMES)}")
        return list(dict.fromkeys(self.policies)) or [LRU]

    def _tiers(self, kv_bytes: dict[str, float]) -> list[Tier]:
        """Fastest first."""
        found: dict[str, Tier] = {}
        for text in self.tiers:
            name, value = _pair("--tier", text, "8GB")
            if name in found:
                raise ConfigError(f"--tier: {name} is given twice")
            num_bytes = _parsed("--tier", value, parse_size)
            found[name] = Tier(name, num_bytes, kv_bytes.get(name, kv_bytes[""]))
        return [found[name] for name in TIERS if name in found]

    def _write(self) -> Write:
        if self.write == "through":
            return "through"
        if self.write == "back":
            return "back"
        raise ConfigError(f"--write: {self.write!r} is neither through nor back")

    def _kv_bytes(self) -> dict[str, float]:
        """Bytes of KV a token, by tier; under "" those of all others."""
        found: dict[str, float] = {}
        for text in self.bytes_per_token:
            tier, value = _pair("--bytes-per-token", text, "128KiB") if "=" in text else ("", text)
            found[tier] = float(_parsed("--bytes-per-token", value, parse_size))
            if not found[tier]:
                raise ConfigError("--bytes-per-token: it must be more than 0")
        if "" not in found:
            found[""] = float(ASSUMED if self.model is None else _kv_bytes_of(self.model))
        return found

    def _room_prices(self) -> dict[str, RoomPrice]:
        prices = dict(ROOM_PRICES)
        for text in self.room_prices:
            name, value = _pair("--room-price", text, "2.50")
            prices[name] = RoomPrice(_parsed("--room-price", value, _dollars), "as given")
        return prices


def _kv_bytes_of(model: str) -> int:
    if (known := KV_BYTES.get(model.lower())) is not None:
        return known
    from openclaw_cache.engine.source import require_extras, resolve  # noqa: PLC0415 - an extra

    try:
        source = resolve(model)
    except ConfigError as e:
        raise ConfigError(f"--model: {e}; known by name are also {', '.join(KV_BYTES)}") from None
    require_extras()
    from openclaw_cache.engine.model_files import kv_bytes_per_token  # noqa: PLC0415

    return kv_bytes_per_token(source)


def _pair(option: str, text: str, example: str) -> tuple[str, str]:
    name, has_value, value = text.partition("=")
    if not has_value or name not in TIERS:
        raise ConfigError(
            f"{option}: {text!r}: write the tier ({', '.join(TIERS)}), = and a value, such as host={example}"
        )
    return name, value


def _dollars(text: str) -> float:
    try:
        value = float(text.lstrip("$"))
    except ValueError:
        value = -1.0
    if 0 <= value < 1e9:
        return value
    raise ValueError(f"{text!r} is no price: write for example 2.50")


def _parsed(option: str, text: str, parse: Callable[[str], _T]) -> _T:
    try:
        return parse(text)
    except ValueError as e:
        raise ConfigError(f"{option}: {e}") from None
