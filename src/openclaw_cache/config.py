"""Configuration: command line > environment > YAML file > defaults, and where each value came from.

Every key is checked: an unknown one is an error that names it and the nearest right one.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import yaml
from pydantic import BaseModel, BeforeValidator, ValidationError
from pydantic.fields import FieldInfo

from openclaw_cache.errors import ConfigError
from openclaw_cache.settings import ApiKey, Settings, UpstreamSettings
from openclaw_cache.units import (
    human_duration,
    human_ratio,
    human_size,
    parse_duration,
    parse_ratio,
    parse_size,
    parse_size_or_auto,
)
from openclaw_cache.yaml_text import load_yaml

ENV_PREFIX = "OPENCLAW_CACHE_"
# Variables with our prefix that are not settings: the CLI's own and those of the test suite.
ENV_RESERVED = (
    "OPENCLAW_CACHE_URL",
    "OPENCLAW_CACHE_CA_FILE",
    "OPENCLAW_CACHE_ADMIN_KEY",
    "OPENCLAW_CACHE_CONFIG",
    "OPENCLAW_CACHE_KEY",
    "OPENCLAW_CACHE_AGENT",
)
ENV_RESERVED_PREFIXES = ("OPENCLAW_CACHE_TEST_",)

ALIASES = {
    "kv_cache.block_size": "kv_cache.block_tokens",
    "kv_cache.enable_prefix_caching": "kv_cache.enabled",
}
"""Other spellings of a setting, as vLLM has them → its own name."""


@dataclass(frozen=True, slots=True)
class Provenance:
    """A loaded configuration and, per dotted field, where its value came from."""

    settings: Settings
    sources: dict[str, str]


def load(
    file: Path | None = None,
    *,
    env: Mapping[str, str] | None = None,
    overrides: Mapping[str, object] | None = None,
) -> Provenance:
    """Merge all layers and validate.

    Args:
        file: YAML file; None means none.
        env: Environment; defaults to the process's.
        overrides: Dotted field → value, from the command line.

    Raises:
        ConfigError: names the field, where the value came from, and what to write instead.
    """
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}
    if file is not None:
        _merge(values, sources, [_Given(f, v, f"file {file}") for f, v in _read_yaml(file).items()])
    _merge(values, sources, _read_env(os.environ if env is None else env))
    for field in overrides or {}:
        _check_known(field, "command line")
    _merge(values, sources, [_Given(f, v, "command line") for f, v in (overrides or {}).items()])
    try:
        settings = Settings.model_validate(values)
    except ValidationError as e:
        raise ConfigError(_explain(e, sources)) from None
    return Provenance(settings, sources)


def describe(loaded: Provenance) -> list[tuple[str, str, str]]:
    """Rows of (dotted field, value in plain text, source) for every setting; key material is masked."""
    rows: list[tuple[str, str, str]] = []
    for section in Settings.model_fields:
        value = getattr(loaded.settings, section)
        if isinstance(value, BaseModel):
            for field in type(value).model_fields:
                dotted = f"{section}.{field}"
                shown = _plain(getattr(value, field), _metadata(type(value).model_fields[field]))
                if dotted == "store.url":
                    shown = _without_password(shown)
                rows.append((dotted, shown, loaded.sources.get(dotted, "default")))
        else:
            rows.append((section, _plain(value), loaded.sources.get(section, "default")))
    return rows


def values(loaded: Provenance) -> dict[str, Any]:
    """Every setting by dotted field, as JSON values: sizes in bytes, durations in seconds; keys are masked."""
    dumped = loaded.settings.model_dump(mode="json")
    for key in dumped["server"]["keys"]:
        key |= {secret: "***" for secret in ("key", "key_sha256") if key[secret]}
    found: dict[str, Any] = {}
    for field in known_fields():
        section, _, name = field.partition(".")
        found[field] = dumped[section][name] if name else dumped[section]
    found["store.url"] = _without_password(found["store.url"])
    return found


def _metadata(field: FieldInfo) -> list[object]:
    """How a field's value is read; that of an optional one stands within its type."""
    parts = get_args(field.annotation)
    return [*field.metadata, *(one for part in parts for one in getattr(part, "__metadata__", ()))]


def _without_password(url: str) -> str:
    return re.sub(r"://.*@", "://***@", url)


def _plain(value: object, metadata: Sequence[object] = ()) -> str:
    parsers = [m.func for m in metadata if isinstance(m, BeforeValidator)]
    if (parse_size in parsers or parse_size_or_auto in parsers) and isinstance(value, int):
        return human_size(value)
    if parse_ratio in parsers and isinstance(value, float):
        return human_ratio(value)
    if parse_duration in parsers and isinstance(value, float):
        return human_duration(value)
    if isinstance(value, BaseModel):
        shown = value.model_dump(exclude_defaults=True, mode="json")
        for secret in ("key", "key_sha256"):
            if shown.get(secret):
                shown[secret] = "***"
        return yaml.safe_dump(shown, default_flow_style=True, sort_keys=False, width=10**6).strip()
    if isinstance(value, list):
        return "[" + ", ".join(_plain(v) for v in value) + "]"
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


@dataclass(frozen=True, slots=True)
class _Given:
    """One setting as somebody has spelled it."""

    field: str
    value: object
    source: str

    @property
    def name(self) -> str:
        """Its own name, whichever spelling was used."""
        return ALIASES.get(self.field, self.field)

    def is_same(self, other: _Given) -> bool:
        """Whether both give the same value, as a person reads it."""
        return str(self.value).strip().lower() == str(other.value).strip().lower()


def _merge(values: dict[str, Any], sources: dict[str, str], layer: Sequence[_Given]) -> None:
    """Lay one layer over those below it. Raises ConfigError where it gives one setting two values."""
    seen: dict[str, _Given] = {}
    for given in layer:
        first = seen.setdefault(given.name, given)
        if not given.is_same(first):
            raise ConfigError(
                f"{given.source}: {first.field} ({first.value}) and {given.field} ({given.value}) are one setting "
                "with two values: keep one of them"
            )
        section, _, name = given.name.partition(".")
        if name:
            values.setdefault(section, {})[name] = given.value
        else:
            values[section] = given.value
        sources[given.name] = given.source


def known_fields() -> list[str]:
    """Every dotted field that can be set, in order."""
    fields: list[str] = []
    for section, info in Settings.model_fields.items():
        annotation = info.annotation
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            fields += [f"{section}.{name}" for name in annotation.model_fields]
        else:
            fields.append(section)
    return fields


def _check_known(field: str, source: str) -> None:
    known = {name: ALIASES.get(name, name) for name in [*known_fields(), *ALIASES]}
    if field not in known:
        raise ConfigError(f"{source}: unknown setting {field!r}: {_hint(field, known)}")


def _hint(wrong: str, known: Mapping[str, str]) -> str:
    """What to write instead: a setting's own name where another spelling of it is the nearest.

    Args:
        wrong: What was written.
        known: Every spelling → the own name of its setting.
    """
    near = difflib.get_close_matches(wrong, list(known), n=1, cutoff=0.5)
    if not near:
        return f"known are {', '.join(known)}"
    own = known[near[0]]
    return f"did you mean {own!r}" + (f" (also called {near[0]!r})?" if near[0] != own else "?")


def _read_yaml(file: Path) -> dict[str, object]:
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as e:
        raise ConfigError(
            f"cannot read the configuration file {file}: {e.strerror if isinstance(e, OSError) else e}"
        ) from None
    data = load_yaml(text, str(file))
    if data is None:
        return {}
    if not isinstance(data, dict):
        raise ConfigError(f"{file}: the top level must be a mapping of sections, not {type(data).__name__}")
    fields: dict[str, object] = {}
    for section, value in data.items():
        info = Settings.model_fields.get(str(section))
        annotation = info.annotation if info else None
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            if value is None:
                continue
            if not isinstance(value, dict):
                raise ConfigError(
                    f"{file}: section {section!r} must be a mapping, not {type(value).__name__}"
                )
            for name, inner in value.items():
                _check_known(f"{section}.{name}", str(file))
                fields[f"{section}.{name}"] = inner
        else:
            _check_known_section(str(section), file)
            fields[str(section)] = value
    return fields


def _check_known_section(section: str, file: Path) -> None:
    if section in Settings.model_fields:
        return
    homes = [field for field in known_fields() if field.partition(".")[2] == section]
    near = homes or difflib.get_close_matches(section, list(Settings.model_fields), n=1, cutoff=0.5)
    hint = (
        f"did you mean {' or '.join(map(repr, near))}?"
        if near
        else f"known are {', '.join(Settings.model_fields)}"
    )
    raise ConfigError(f"{file}: unknown section {section!r}: {hint}")


def _read_env(env: Mapping[str, str]) -> list[_Given]:
    known = {_variable(field): field for field in [*known_fields(), *ALIASES]}
    found: list[_Given] = []
    for name, text in env.items():
        if not name.startswith(ENV_PREFIX) or name in ENV_RESERVED or name.startswith(ENV_RESERVED_PREFIXES):
            continue
        field = known.get(name)
        if field is None:
            own = {variable: _variable(ALIASES.get(known[variable], known[variable])) for variable in known}
            raise ConfigError(f"environment: unknown variable {name}: {_hint(name, own)}")
        found.append(_Given(field, value_from_text(text, f"environment: {name}"), f"env {name}"))
    return found


def _variable(field: str) -> str:
    """The environment variable of a dotted field."""
    return ENV_PREFIX + field.replace(".", "__").upper()


def value_from_text(text: str, source: str) -> object:
    """A setting's value from the environment or the command line.

    Lists, mappings and null are written in YAML; all else stays text for the field's own parser.

    Raises:
        ConfigError: it begins as YAML and is none.
    """
    if text[:1] in "[{" or text.strip() in ("null", "~"):
        return load_yaml(text, source)
    return text


def _explain(error: ValidationError, sources: Mapping[str, str]) -> str:
    lines = []
    for problem in error.errors(include_url=False):
        path = [str(p) for p in problem["loc"]]
        dotted = ".".join(path)
        source = _source_of(path, sources)
        message = problem["msg"].removeprefix("Value error, ")
        if problem["type"] == "extra_forbidden":
            names = _sibling_names(path)
            near = difflib.get_close_matches(path[-1], names, n=1, cutoff=0.5)
            message = "unknown setting: " + (
                f"did you mean {near[0]!r}?" if near else f"known are {', '.join(names)}"
            )
        lines.append(f"{source}: {dotted}: {message}" if dotted else f"{source}: {message}")
    return "\n".join(lines)


def _source_of(path: list[str], sources: Mapping[str, str]) -> str:
    """Where a wrong value came from; for a default that does not fit, where its section was set."""
    section = path[0] if path else ""
    found = sources.get(".".join(path[:2])) or sources.get(section)
    return found or next((s for f, s in sources.items() if f.startswith(f"{section}.")), "configuration")


def _sibling_names(path: list[str]) -> list[str]:
    owners: dict[str, type[BaseModel]] = {"upstreams": UpstreamSettings, "server": ApiKey}
    owner = owners.get(path[0], Settings)
    return list(owner.model_fields)
