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
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

import yaml
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from openclaw_cache.errors import ConfigError
from openclaw_cache.units import human_duration, human_size, parse_duration, parse_size

ENV_PREFIX = "OPENCLAW_CACHE_"
# Variables with our prefix that are not settings: the CLI's own and those of the test suite.
ENV_RESERVED = ("OPENCLAW_CACHE_URL", "OPENCLAW_CACHE_ADMIN_KEY", "OPENCLAW_CACHE_CONFIG")
ENV_RESERVED_PREFIXES = ("OPENCLAW_CACHE_TEST_",)

Size = Annotated[int, BeforeValidator(parse_size)]
Duration = Annotated[float, BeforeValidator(parse_duration)]
NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._:@/-]{0,127}$"


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True)


class ApiKey(_Section):
    """One client key and what it may use. Exactly one of `key`, `key_sha256`, `key_env` is set."""

    key: str | None = Field(None, repr=False, min_length=1)
    key_sha256: str | None = Field(None, repr=False, pattern=r"^[0-9a-fA-F]{64}$")
    key_env: str | None = None
    namespace: str = Field("default", pattern=NAME_PATTERN)
    agents: list[str] = ["*"]
    models: list[str] = ["*"]

    @model_validator(mode="after")
    def _exactly_one_source(self) -> ApiKey:
        if sum(v is not None for v in (self.key, self.key_sha256, self.key_env)) != 1:
            raise ValueError("give exactly one of key, key_sha256, key_env")
        return self


class Server(_Section):
    """Where the gateway listens, whom it serves, and its limits."""

    host: str = "127.0.0.1"
    port: int = Field(8800, ge=0, le=65535)
    data_dir: Path = Path("~/.openclaw-cache")
    secret_file: Path | None = None
    admin_key_env: str | None = None
    keys: list[ApiKey] = []
    max_body: Size = Field(64 * 10**6, gt=0)
    body_timeout: Duration = Field(30.0, gt=0)
    request_timeout: Duration = Field(1800.0, gt=0)
    ping_interval: Duration = Field(1.0, gt=0)
    drain_timeout: Duration = 60.0

    @field_validator("data_dir", "secret_file")
    @classmethod
    def _expand_home(cls, value: Path | None) -> Path | None:
        try:
            return value.expanduser().absolute() if value is not None else None
        except RuntimeError:  # a user without an entry in passwd, as in many containers, and HOME unset
            raise ValueError("there is no home directory here: set HOME, or write an absolute path") from None


class StoreSettings(_Section):
    """The shared byte store behind the memory tier."""

    url: str = Field("embedded", repr=False)  # it may have a password
    timeout: Duration = Field(0.05, gt=0)
    max_memory: Size = Field(10**9, gt=0)


class UpstreamSettings(_Section):
    """One upstream: a pod that we start (`embedded`), or any OpenAI-compatible endpoint (`openai`)."""

    name: str = Field(pattern=NAME_PATTERN)
    kind: Literal["embedded", "openai"]
    model: str | None = Field(None, min_length=1)
    threads: int | None = Field(None, ge=1)
    max_waiting: int = Field(32, ge=0)
    urls: list[str] = []
    models: list[str] = ["*"]
    api_key_env: str | None = None
    connect_timeout: Duration = Field(5.0, gt=0)
    idle_timeout: Duration = Field(600.0, gt=0)
    retries: int = Field(1, ge=0, le=5)
    ask_usage: bool = True

    @model_validator(mode="after")
    def _fits_its_kind(self) -> UpstreamSettings:
        if self.kind == "embedded":
            if self.model is None:
                raise ValueError("kind: embedded needs `model`, for example smollm2-135m")
            if self.urls:
                raise ValueError("kind: embedded takes no `urls`: we start that pod ourselves")
        elif not self.urls:
            raise ValueError("kind: openai needs `urls`, for example [http://10.0.0.11:8000]")
        for i, url in enumerate(self.urls):
            # Not repeated: what does not belong into a URL is most often a key.
            if not re.fullmatch(r"https?://[^\s/?#@]+(/[^\s?#]*)?", url):
                raise ValueError(f"urls.{i}: write http(s)://host:port/path, without user, query or fragment")
            try:
                port = urlsplit(url).port
            except ValueError:
                port = 0
            if port == 0:
                raise ValueError(
                    f"urls.{i}: its host or port is none: write for example http://10.0.0.11:8000"
                )
        return self


class ResultCacheSettings(_Section):
    """The exact result cache and what may enter it."""

    enabled: bool = True
    max_memory: Size = Field(256 * 10**6, ge=0)
    ttl: Duration = Field(86400.0, gt=0)
    sampled: Literal["cache", "bypass"] = "cache"
    tools: Literal["bypass", "cache"] = "bypass"
    ignore: list[Literal["user", "metadata"]] = []


class Settings(_Section):
    """Everything that can be set."""

    server: Server = Field(default_factory=Server)  # not before it is needed: its default asks for HOME
    store: StoreSettings = StoreSettings()
    upstreams: list[UpstreamSettings] = [
        UpstreamSettings(name="local", kind="embedded", model="smollm2-135m")
    ]
    result_cache: ResultCacheSettings = ResultCacheSettings()

    @field_validator("upstreams")
    @classmethod
    def _upstream_names_differ(cls, value: list[UpstreamSettings]) -> list[UpstreamSettings]:
        names = [u.name for u in value]
        if not names:
            raise ValueError("name at least one upstream")
        if twice := {n for n in names if names.count(n) > 1}:
            raise ValueError(f"the name {min(twice)!r} is used twice")
        return value


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
        for field, value in _read_yaml(file).items():
            _set(values, sources, field, value, f"file {file}")
    for field, (name, value) in _read_env(os.environ if env is None else env).items():
        _set(values, sources, field, value, f"env {name}")
    for field, value in (overrides or {}).items():
        _check_known(field, "command line")
        _set(values, sources, field, value, "command line")
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
                shown = _plain(getattr(value, field), type(value).model_fields[field].metadata)
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


def _without_password(url: str) -> str:
    return re.sub(r"://.*@", "://***@", url)


def _plain(value: object, metadata: Sequence[object] = ()) -> str:
    parsers = [m.func for m in metadata if isinstance(m, BeforeValidator)]
    if parse_size in parsers and isinstance(value, int):
        return human_size(value)
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


def _set(values: dict[str, Any], sources: dict[str, str], field: str, value: object, source: str) -> None:
    section, _, name = field.partition(".")
    if name:
        values.setdefault(section, {})[name] = value
    else:
        values[section] = value
    sources[field] = source


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
    known = known_fields()
    if field in known:
        return
    near = difflib.get_close_matches(field, known, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(known)}"
    raise ConfigError(f"{source}: unknown setting {field!r}: {hint}")


def _read_yaml(file: Path) -> dict[str, object]:
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as e:
        raise ConfigError(
            f"cannot read the configuration file {file}: {e.strerror if isinstance(e, OSError) else e}"
        ) from None
    try:
        data = yaml.load(text, Loader=_UniqueKeyLoader)  # noqa: S506 - a SafeLoader that also refuses twins
    except yaml.YAMLError as e:
        raise ConfigError(f"{file} is not valid YAML: {_yaml_fault(e)}") from None
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
    near = difflib.get_close_matches(section, list(Settings.model_fields), n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(Settings.model_fields)}"
    raise ConfigError(f"{file}: unknown section {section!r}: {hint}")


class _UniqueKeyLoader(yaml.SafeLoader):
    """A SafeLoader that refuses a key given twice: PyYAML would silently keep the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key_node, _ in node.value:
            key = str(key_node.value)
            if key in seen and key != "<<":
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key!r} is given twice", key_node.start_mark
                )
            seen.add(key)
        return super().construct_mapping(node, deep=deep)


def _read_env(env: Mapping[str, str]) -> dict[str, tuple[str, object]]:
    known = {ENV_PREFIX + field.replace(".", "__").upper(): field for field in known_fields()}
    found: dict[str, tuple[str, object]] = {}
    for name, text in env.items():
        if not name.startswith(ENV_PREFIX) or name in ENV_RESERVED or name.startswith(ENV_RESERVED_PREFIXES):
            continue
        field = known.get(name)
        if field is None:
            near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
            hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(known)}"
            raise ConfigError(f"environment: unknown variable {name}: {hint}")
        found[field] = (name, value_from_text(text, f"environment: {name}"))
    return found


def value_from_text(text: str, source: str) -> object:
    """A setting's value from the environment or the command line.

    Lists, mappings and null are written in YAML; all else stays text for the field's own parser.

    Raises:
        ConfigError: it begins as YAML and is none.
    """
    if text[:1] in "[{" or text.strip() in ("null", "~"):
        try:
            return yaml.load(text, Loader=_UniqueKeyLoader)  # noqa: S506 - see _UniqueKeyLoader
        except yaml.YAMLError as e:
            raise ConfigError(f"{source} is not valid YAML: {_yaml_fault(e)}") from None
    return text


def _yaml_fault(error: yaml.YAMLError) -> str:
    """What is wrong and where. Not the library's own text: it quotes the line, and perhaps a key in it."""
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem_mark is None:
        return "it has characters that YAML does not allow"
    problem = re.sub(r"\b(alias|anchor|tag|handle|character) .*", r"\1", error.problem or "syntax error")
    return f"line {error.problem_mark.line + 1}, column {error.problem_mark.column + 1}: {problem}"


def _explain(error: ValidationError, sources: Mapping[str, str]) -> str:
    lines = []
    for problem in error.errors(include_url=False):
        path = [str(p) for p in problem["loc"]]
        dotted = ".".join(path)
        source = sources.get(".".join(path[:2])) or sources.get(path[0] if path else "") or "configuration"
        message = problem["msg"].removeprefix("Value error, ")
        if problem["type"] == "extra_forbidden":
            names = _sibling_names(path)
            near = difflib.get_close_matches(path[-1], names, n=1, cutoff=0.5)
            message = "unknown setting: " + (
                f"did you mean {near[0]!r}?" if near else f"known are {', '.join(names)}"
            )
        lines.append(f"{source}: {dotted}: {message}" if dotted else f"{source}: {message}")
    return "\n".join(lines)


def _sibling_names(path: list[str]) -> list[str]:
    owners: dict[str, type[BaseModel]] = {"upstreams": UpstreamSettings, "server": ApiKey}
    owner = owners.get(path[0], Settings)
    return list(owner.model_fields)
