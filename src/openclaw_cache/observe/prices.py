"""What a model's tokens cost: a table shipped with the package (`prices.json`), and an operator's own over it.

A table gives for each model US dollars for a million tokens. A model's name is itself, or a glob. Of two that fit,
the more specific counts: the exact name; the name without the date of a snapshot at its end; then the glob with
more characters before its first wildcard, then the one with more characters that are no wildcard. An operator's
entry takes the place of ours of the same name. Entries below `upstreams` hold for that upstream only, and go
before all others: a model that one runs oneself costs nothing, whatever its maker asks for it.

A model that no table knows has no price: no guess is made.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from fnmatch import fnmatchcase
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from openclaw_cache.errors import ConfigError
from openclaw_cache.yaml_text import load_yaml

PICODOLLARS: Final = 10**12
"""In one dollar. The unit of all sums: the cheapest token is a few thousand of them, so sums stay whole numbers."""

_SNAPSHOT: Final = re.compile(r"-20\d\d-?\d\d-?\d\d$")
_WILDCARD: Final = re.compile(r"[*?[]")


@dataclass(frozen=True, slots=True)
class Rates:
    """Picodollars for one token."""

    input: int
    output: int
    cached_input: int
    cache_write: int


@dataclass(frozen=True, slots=True)
class Price:
    """What a model costs, by the length of the prompt."""

    rates: Rates
    long: Rates | None = None
    above_tokens: int = 0

    def for_prompt(self, num_tokens: int) -> Rates:
        """The rates of a whole request whose prompt has so many tokens, its cached ones included."""
        return self.rates if self.long is None or num_tokens <= self.above_tokens else self.long


class Prices:
    """A table of prices. Made by `load`."""

    def __init__(
        self, prices: Mapping[str, Price], upstreams: Mapping[str, Mapping[str, Price]], as_of: str
    ) -> None:
        self._table = _Table(prices)
        self._upstreams = {name: _Table(own) for name, own in upstreams.items()}
        self.as_of = as_of
        """The date of the shipped table."""

    @classmethod
    def load(cls, override: Path | None = None) -> Prices:
        """Read the shipped table, and an operator's own over it.

        Args:
            override: JSON (`.json`) or YAML of the same form as ours; None means none.

        Raises:
            ConfigError: names `savings.prices_file`, and the entry and field that are wrong.
        """
        shipped = _File.model_validate(json.loads(files(__package__).joinpath("prices.json").read_bytes()))
        own = _File() if override is None else _read(override)
        prices = shipped.prices | own.prices
        return cls(
            {name: entry.price() for name, entry in prices.items()},
            {
                name: {model: entry.price() for model, entry in entries.items()}
                for name, entries in own.upstreams.items()
            },
            str(shipped.as_of),
        )

    def check_upstreams(self, names: Iterable[str]) -> None:
        """Raises ConfigError where prices stand for an upstream that there is not."""
        if unknown := self._upstreams.keys() - set(names):
            raise ConfigError(
                f"savings.prices_file: upstreams.{min(unknown)}: there is no upstream of this name; "
                f"there are {', '.join(names)}"
            )

    def of(self, model: str, upstream: str | None = None) -> Price | None:
        """The price of a model at an upstream; None where there is none. Cost: O(number of globs) at worst."""
        table = self._upstreams.get(upstream) if upstream is not None else None
        found = table.find(model) if table is not None else None
        return found if found is not None else self._table.find(model)


class _Table:
    def __init__(self, prices: Mapping[str, Price]) -> None:
        globs = [name for name in prices if _WILDCARD.search(name)]
        self._globs = [(glob, prices[glob]) for glob in sorted(globs, key=_generality)]
        self._exact = {name: price for name, price in prices.items() if not _WILDCARD.search(name)}

    def find(self, model: str) -> Price | None:
        found = self._exact.get(model) or self._exact.get(_SNAPSHOT.sub("", model))
        if found is not None:
            return found
        return next((price for glob, price in self._globs if fnmatchcase(model, glob)), None)


def _generality(glob: str) -> tuple[int, int, str]:
    wildcards = list(_WILDCARD.finditer(glob))
    return -wildcards[0].start(), len(wildcards) - len(glob), glob


Dollars = Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class _Rates(_Strict):
    input: Dollars
    output: Dollars
    cached_input: Dollars | None = None
    cache_write: Dollars | None = None

    def rates(self) -> Rates:
        def picodollars(dollars: float | None) -> int:
            # Dollars for a million tokens are millionths of a dollar for one.
            return round((self.input if dollars is None else dollars) * (PICODOLLARS // 10**6))

        return Rates(*map(picodollars, (self.input, self.output, self.cached_input, self.cache_write)))


class _Long(_Rates):
    above_tokens: int = Field(gt=0)


class _Entry(_Rates):
    long: _Long | None = None
    source: str = ""
    note: str = ""

    def price(self) -> Price:
        if self.long is None:
            return Price(self.rates())
        return Price(self.rates(), self.long.rates(), self.long.above_tokens)


class _File(_Strict):
    currency: Literal["USD"] = "USD"
    as_of: str | date = ""
    notes: list[str] = []
    sources: dict[str, str] = {}
    prices: dict[str, _Entry] = {}
    upstreams: dict[str, dict[str, _Entry]] = {}


class _TwiceError(ValueError):
    """A JSON object has a member twice: the parser would silently keep the last."""


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise _TwiceError(f"the key {name!r} is given twice")
        found[name] = value
    return found


def _read(file: Path) -> _File:
    where, is_json = f"savings.prices_file: {file}", file.suffix == ".json"
    try:
        text = file.read_text("utf-8")
        value: Any = json.loads(text, object_pairs_hook=_members) if is_json else load_yaml(text, where)
    except OSError as e:
        raise ConfigError(f"{where} cannot be read: {e.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{where} is no {'JSON' if is_json else 'YAML'}: it is not UTF-8 text") from None
    except (ValueError, RecursionError) as e:
        why = f": {e}" if isinstance(e, (json.JSONDecodeError, _TwiceError)) else ""
        raise ConfigError(f"{where} is no JSON{why}") from None
    if not isinstance(value, dict):
        raise ConfigError(f"{where} must be a table with `prices`")
    try:
        return _File.model_validate(value)
    except ValidationError as e:
        wrong = e.errors()[0]
        field = " → ".join(map(str, wrong["loc"]))
        raise ConfigError(f"{where}: {field}: {wrong['msg']}") from None
