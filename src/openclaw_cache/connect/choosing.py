"""Which models to offer to OpenClaw, and how large. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from openclaw_cache.connect.checks import too_small
from openclaw_cache.connect.server import Listed
from openclaw_cache.connect.wish import MIN_WINDOW, Model
from openclaw_cache.errors import ConfigError


def choose(
    listed: Sequence[Listed], names: Sequence[str], window: int | None, had: Mapping[str, int]
) -> tuple[tuple[Model, ...], list[str]]:
    """The models for OpenClaw, and what is to be said of the others.

    Args:
        listed: What our server lists.
        names: The models that were asked for; none = all whose window is known and large enough.
        window: The window of those whose upstream does not tell it, and a bound for the others.
        had: The windows of models that OpenClaw has from us already: they stay unless others are asked for.

    Raises:
        ConfigError: a model that was asked for is not there, too small, or of unknown size; or none is left.
    """
    if not listed and not names and not had:
        raise ConfigError(
            "this server lists no models: is its upstream up (`openclaw-cache status`), and does it need a key of "
            "yours (--key-env)? --model and --context-window name one that is not listed"
        )
    known = {model.id: model for model in listed}
    chosen: list[Model] = []
    notes: list[str] = []
    for name in names or dict.fromkeys([*had, *known]):
        model, reason = _sized(known.get(name, Listed(name, None)), window or had.get(name))
        if names and name not in known:
            notes.append(f"{name} is not in the server's list: taken because you named it")
        if model is not None:
            chosen.append(model)
        elif names:
            raise ConfigError(f"{name}: {reason}")
        else:
            notes.append(f"{name} is left out: {reason}")
    if not chosen:
        raise ConfigError("no model of this server is left for OpenClaw:\n  " + "\n  ".join(notes))
    return tuple(chosen), notes


def _sized(listed: Listed, window: int | None) -> tuple[Model | None, str]:
    sizes = [size for size in (listed.window, window) if size is not None]
    if not sizes:
        return None, f"its upstream does not tell its window: --model {listed.id} --context-window TOKENS"
    if min(sizes) < MIN_WINDOW:
        return None, too_small(min(sizes))
    return Model(listed.id, min(sizes)), ""
