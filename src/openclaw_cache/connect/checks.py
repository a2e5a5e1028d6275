"""Why a connection does not work, or saves less than it could: findings, each with its remedy. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from openclaw_cache.connect.server import Listed
from openclaw_cache.connect.wish import (
    ALLOWED,
    COMFORTABLE_WINDOW,
    COMPAT,
    CONTEXT_SLOT,
    ENTRY,
    HOOKS,
    LOAD_PATHS,
    MEMORY_SLOT,
    MIN_WINDOW,
    NAME,
    PLACEHOLDER_KEY,
    PROVIDER,
    default_model,
)
from openclaw_cache.types import Json

AGAIN: Final = "run `openclaw-cache connect openclaw`"


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check. `warn`: it works, and saves less than it could."""

    name: str
    state: Literal["ok", "warn", "fail", "unknown"]
    found: str
    remedy: str = ""


def of_provider(now: Json, url: str, key_env_is_set: Mapping[str, bool]) -> Iterator[Finding]:
    """What the config says about our provider.

    Args:
        now: The config.
        url: Our server's, without /v1.
        key_env_is_set: Whether OpenClaw can read each variable that the config names.
    """
    provider = _at(now, PROVIDER)
    if not isinstance(provider, dict):
        yield Finding("provider", "fail", f"there is no provider {NAME} in the config", AGAIN)
        return
    base = str(provider.get("baseUrl")).rstrip("/")
    wanted = url if provider.get("api") == "anthropic-messages" else f"{url}/v1"
    if base != wanted:
        yield Finding("provider", "fail", f"its baseUrl is {base}, and this server's is {wanted}", AGAIN)
    else:
        yield Finding("provider", "ok", f"{base} ({provider.get('api')})")
    yield _key(provider.get("apiKey"), key_env_is_set)
    ours = f"{NAME}/"
    default = default_model(now) or ""
    if default.startswith(ours):
        yield Finding("default model", "ok", default)
    else:
        yield Finding(
            "default model",
            "warn",
            f"agents use {default or 'what OpenClaw chooses'} unless they are told otherwise",
            "`openclaw-cache connect openclaw --model MODEL --set-default`, or choose a model of ours in a session",
        )


def of_tls(url: str, ca_file: str | None, node_ca_file: str | None) -> Iterator[Finding]:
    """Whether OpenClaw can trust a server with a certificate of its own."""
    if url.startswith("https:") and ca_file is not None and node_ca_file is None:
        what = f"OpenClaw's Node.js has to trust {ca_file}, and NODE_EXTRA_CA_CERTS is not set here"
        yield Finding("TLS", "warn", what, f"NODE_EXTRA_CA_CERTS={ca_file} in the environment of its gateway")


def of_models(now: Json, listed: Sequence[Listed] | None) -> Iterator[Finding]:
    """Whether the configured models are served, large enough, and tell of their session."""
    served = {model.id: model for model in listed or ()}
    models = _at(now, (*PROVIDER, "models"))
    for model in models if isinstance(models, list) else []:
        name = f"model {model.get('id')}"
        known = served.get(str(model.get("id")))
        if listed is not None and not listed:
            yield Finding(
                name, "unknown", "the server's upstream lists no models", "ask it once: connect again"
            )
        elif listed is not None and known is None:
            remedy = f"{AGAIN}, or give the server an upstream that has it"
            yield Finding(name, "fail", "this server does not list it", remedy)
        yield _window(name, model.get("contextWindow"), known.window if known else None)
        compat = model.get("compat")
        missing = [flag for flag in COMPAT if not (isinstance(compat, dict) and compat.get(flag) is True)]
        if missing:
            what = f"OpenClaw does not send its session: compat lacks {', '.join(missing)}"
            yield Finding(name, "warn", what, AGAIN)


def of_plugin(now: Json, plugin: str, is_current: bool) -> Iterator[Finding]:
    """What the config says about our plugin. `is_current`: whether its files are those of this version."""
    found = {
        f"plugins.load.paths lacks {plugin}": plugin in (_at(now, LOAD_PATHS) or ()),
        "its entry is not enabled": _at(now, (*ENTRY, "enabled")) is True,
        "plugins.enabled is false": _at(now, ("plugins", "enabled")) is not False,
        "plugins.deny names it": NAME not in (_at(now, ("plugins", "deny")) or ()),
        "plugins.allow does not name it": NAME in (_at(now, ALLOWED) or (NAME,)),
        f"plugins.slots.memory is {_at(now, MEMORY_SLOT)}": _at(now, MEMORY_SLOT) == NAME,
        f"plugins.slots.contextEngine is {_at(now, CONTEXT_SLOT)}": _at(now, CONTEXT_SLOT) == NAME,
        **{f"hooks.{h} is not true": _at(now, (*ENTRY, "hooks", h)) is True for h in HOOKS},
    }
    wrong = [what for what, holds in found.items() if not holds]
    if wrong:
        yield Finding("plugin", "fail", "; ".join(wrong), AGAIN)
    else:
        yield Finding("plugin", "ok", "enabled, chosen for memory and Context Engine, its hooks allowed")
    if not is_current:
        remedy = f"{AGAIN}; a running gateway needs `openclaw plugins reload {NAME}` then"
        yield Finding("plugin files", "warn", "they are not those of this version of openclaw-cache", remedy)


def of_runtime(inspected: Json, health: Json) -> Iterator[Finding]:
    """What `plugins inspect --runtime --json` and `health --json` say; None = they could not be asked."""
    plugin = _at(inspected, ("plugin",))
    diagnostics = _at(inspected, ("diagnostics",))
    errors = [
        str(d.get("message")) for d in diagnostics or () if isinstance(d, dict) and d.get("level") == "error"
    ]
    status = _at(plugin, ("status",))
    engines = _at(plugin, ("contextEngineIds",)) or ()
    if inspected is None:
        yield Finding(
            "plugin loads", "unknown", "OpenClaw did not show it", f"openclaw plugins inspect {NAME}"
        )
    elif status != "loaded" or errors:
        what = "; ".join([str(_at(plugin, ("error",)) or status), *errors])
        yield Finding("plugin loads", "fail", what[:500], f"openclaw plugins inspect {NAME} --runtime")
    elif NAME not in engines:
        yield Finding("plugin loads", "fail", "it loads, but registers no Context Engine", AGAIN)
    else:
        yield Finding(
            "plugin loads", "ok", f"version {_at(plugin, ('version',))}, loaded with its Context Engine"
        )
    if health is None:
        yield Finding("OpenClaw's gateway", "unknown", "it is not running", "openclaw gateway run")
        return
    quarantined = _at(health, ("contextEngines", "quarantined")) or ()
    ours = [q for q in quarantined if isinstance(q, dict) and NAME in (q.get("engineId"), q.get("owner"))]
    if ours or any(q == NAME for q in quarantined):
        why = f"{ours[0].get('operation')}: {ours[0].get('reason')}" if ours else "no reason given"
        what = f"it put our Context Engine aside and uses its own instead ({why})"
        yield Finding("OpenClaw's gateway", "fail", what[:500], "openclaw gateway restart")
        return
    yield Finding("OpenClaw's gateway", "ok", "it runs, and has put no Context Engine of ours aside")


def of_calls(num_turns: int | None, newest_at: float | None, now: float) -> Iterator[Finding]:
    """Whether the server has ever seen the plugin, and when; `now` and `newest_at` are Unix times."""
    if num_turns is None:
        yield Finding("plugin calls", "unknown", "the server did not say", "does its key include this agent?")
    elif num_turns == 0:
        yield Finding(
            "plugin calls", "warn", "the server has got no turn of this agent yet",
            "`openclaw-cache connect openclaw` asks two questions to see it; if it stays so, OpenClaw has fallen "
            "back to its own engine: look for `context engine` in `openclaw logs`",
        )  # fmt: skip
    else:
        last = "" if newest_at is None else f", the last {_span(max(0.0, now - newest_at))} ago"
        yield Finding("plugin calls", "ok", f"the server has {num_turns:,} turns of this agent{last}")


def of_saving(num_cached_tokens: int | None) -> Iterator[Finding]:
    """Whether an upstream has ever said that it had a part of a prompt in its cache."""
    if not num_cached_tokens:
        remedy = "ask two questions in one session; an upstream that never reports any saves nothing that can be seen"
        yield Finding("cached tokens", "warn", "no upstream has reported any yet", remedy)
    else:
        yield Finding(
            "cached tokens", "ok", f"upstreams had {num_cached_tokens:,} prompt tokens in their caches"
        )


def of_habits(now: Json) -> Iterator[Finding]:
    """Settings that make OpenClaw send other prompts than the cached ones."""
    defaults = _at(now, ("agents", "defaults")) or {}
    every = _at(defaults, ("heartbeat", "every"))
    if every is None or (isinstance(every, str) and every[:-1].strip("0")):
        yield Finding(
            "heartbeat", "warn", f"every {every or '30m (the default)'}: its prompts share about 3 % with others",
            "agents.defaults.heartbeat.every: \"0m\" switches it off, if you do not need it",
        )  # fmt: skip
    if _at(defaults, ("contextPruning", "mode")) not in (None, "off"):
        yield Finding(
            "contextPruning", "warn", "old tool results are cut out, and everything behind them is computed anew",
            "agents.defaults.contextPruning.mode: \"off\"",
        )  # fmt: skip
    if "none" in _retentions(defaults):
        yield Finding(
            "cacheRetention", "warn", "\"none\" keeps OpenClaw from sending its session's cache key",
            "take cacheRetention: \"none\" out of agents.defaults",
        )  # fmt: skip
    if _at(now, ("tools", "toolSearch")) is False:
        yield Finding(
            "toolSearch", "warn", "every prompt carries all tools: about 27,000 tokens instead of 2,600",
            "take tools.toolSearch: false out",
        )  # fmt: skip


def _key(key: Json, is_set: Mapping[str, bool]) -> Finding:
    if isinstance(key, dict):
        return Finding("key", "ok", "a reference to a secret")
    if not isinstance(key, str) or key == PLACEHOLDER_KEY:
        return Finding("key", "ok", "none: this server asks for none")
    if key.startswith("${"):
        name = key[2:].rstrip("}")
        if is_set.get(name, False):
            return Finding("key", "ok", f"from the variable {name}")
        remedy = f"write {name}=KEY into the file .env of OpenClaw's state directory"
        return Finding("key", "fail", f"the variable {name} is not set where OpenClaw looks", remedy)
    remedy = (
        "connect again with --key-env NAME, and keep the key in the file .env of OpenClaw's state directory"
    )
    return Finding("key", "warn", "it stands in the config itself", remedy)


def _window(name: str, configured: Json, real: int | None) -> Finding:
    if not isinstance(configured, (int, float)):
        return Finding(
            name, "warn", "no contextWindow: OpenClaw takes 200,000 tokens", f"{AGAIN} --context-window N"
        )
    if real is not None and configured > real:
        return Finding(name, "fail", f"contextWindow is {configured:,}, the model has {real:,}", AGAIN)
    if configured < MIN_WINDOW:
        return Finding(
            name, "fail", too_small(int(configured)), f"a model with {COMFORTABLE_WINDOW:,} or more"
        )
    if configured < COMFORTABLE_WINDOW:
        what = f"{configured:,} tokens: OpenClaw will compact the conversation after few turns"
        return Finding(name, "warn", what, f"a model with {COMFORTABLE_WINDOW:,} or more")
    return Finding(name, "ok", f"its window is {configured:,} tokens")


def too_small(window: int) -> str:
    """Why a window is refused."""
    return f"its {window:,} tokens are too few: OpenClaw's first prompt alone has 9,000 to 15,000"


def _span(seconds: float) -> str:
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{round(minutes / 60)} h"


def _retentions(value: Json) -> set[str]:
    if not isinstance(value, dict):
        return set()
    found = {str(value["cacheRetention"])} if "cacheRetention" in value else set()
    return found.union(*(_retentions(item) for item in value.values()))


def _at(value: Json, path: Sequence[str]) -> Json:
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value
