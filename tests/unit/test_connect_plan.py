import json
from pathlib import Path

import pytest

from openclaw_cache.connect import shown
from openclaw_cache.connect.choosing import choose
from openclaw_cache.connect.config_files import read
from openclaw_cache.connect.plan import plan
from openclaw_cache.connect.server import Listed, window_of
from openclaw_cache.connect.wish import Model, Wish, settings
from openclaw_cache.errors import ConfigError
from openclaw_cache.observe.prices import Prices

URL = "http://127.0.0.1:8800"
PRICES = Prices.load()


def planned(folder: Path, text: str, **wish: object):
    (folder / "openclaw.json").write_text(text)
    files = read(folder / "openclaw.json", {})
    wanted = settings(Wish(url=URL, models=(Model("m", 65_536),), **wish), PRICES, files.value)  # type: ignore[arg-type]
    return files, plan(files, wanted)


def after(folder: Path, text: str, **wish: object) -> dict:
    _, plan_ = planned(folder, text, **wish)
    for file, new in plan_.texts.items():
        file.write_text(new)
    return read(folder / "openclaw.json", {}).value


def test_the_provider_is_written_as_openclaw_documents_it(tmp_path: Path) -> None:
    # docs/gateway/config-tools/custom-providers.md: baseUrl with /v1, dollars for a million tokens.
    whole = after(tmp_path, "{}")
    assert whole == {
        "models": {
            "providers": {
                "openclaw-cache": {
                    "baseUrl": "http://127.0.0.1:8800/v1",
                    "api": "openai-completions",
                    "apiKey": "openclaw-cache",
                    "models": [
                        {
                            "id": "m",
                            "name": "m",
                            "input": ["text"],
                            "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0},
                            "contextWindow": 65536,
                            "maxTokens": 8192,
                            "compat": {
                                "supportsPromptCacheKey": True,
                                "sendSessionIdHeader": True,
                                "sendSessionAffinityHeaders": True,
                            },
                        }
                    ],
                }
            }
        }
    }


def test_anthropics_api_is_addressed_without_v1(tmp_path: Path) -> None:
    whole = after(tmp_path, "{}", api="anthropic-messages")
    assert whole["models"]["providers"]["openclaw-cache"]["baseUrl"] == URL


def test_a_known_model_has_its_makers_price() -> None:
    # gpt-4.1: 2 and 8 dollars for a million tokens, 0.5 for cached ones (prices.json, OpenAI's page)
    wish = Wish(url=URL, models=(Model("gpt-4.1", 1_000_000),))
    models = next(s.value for s in settings(wish, PRICES, {}) if s.path[-1] == "models")
    assert models[0]["cost"] == {"input": 2, "output": 8, "cacheRead": 0.5, "cacheWrite": 2}


def test_a_reply_takes_no_more_than_a_quarter_of_a_small_window() -> None:
    assert (Model("m", 16_384).max_tokens, Model("m", 200_000).max_tokens) == (4096, 8192)


def test_the_plugin_gets_both_slots_its_hooks_and_our_address(tmp_path: Path) -> None:
    whole = after(
        tmp_path, "{plugins: {allow: ['x'], load: {paths: ['/y']}}}", plugin="/p", key_env="OCC_KEY"
    )
    assert whole["plugins"] == {
        "allow": ["x", "openclaw-cache"],
        "load": {"paths": ["/y", "/p"]},
        "entries": {
            "openclaw-cache": {
                "enabled": True,
                "hooks": {"allowConversationAccess": True, "allowPromptInjection": True},
                "config": {"url": URL, "apiKeyEnv": "OCC_KEY"},
            }
        },
        "slots": {"memory": "openclaw-cache", "contextEngine": "openclaw-cache"},
    }
    assert whole["models"]["providers"]["openclaw-cache"]["apiKey"] == "${OCC_KEY}"


def test_a_missing_or_empty_list_of_allowed_plugins_allows_all_and_stays(tmp_path: Path) -> None:
    assert "allow" not in after(tmp_path, "{}", plugin="/p")["plugins"]
    assert after(tmp_path, "{plugins: {allow: []}}", plugin="/p")["plugins"]["allow"] == []


@pytest.mark.parametrize("text", ["{plugins: {enabled: false}}", "{plugins: {deny: ['openclaw-cache']}}"])
def test_a_config_that_forbids_the_plugin_is_not_overruled(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError, match=r"plugins\.(enabled|deny)"):
        planned(tmp_path, text, plugin="/p")
    planned(tmp_path, text)  # the provider alone may be had


@pytest.mark.parametrize(
    ("text", "model"),
    [
        ("{}", {"primary": "openclaw-cache/m"}),
        ("{agents: {defaults: {model: 'a/b'}}}", "openclaw-cache/m"),
        (
            "{agents: {defaults: {model: {primary: 'a/b', fallbacks: ['c/d']}}}}",
            {"primary": "openclaw-cache/m", "fallbacks": ["c/d"]},
        ),
    ],
)
def test_the_default_model_changes_in_the_form_that_it_has(tmp_path: Path, text: str, model: object) -> None:
    assert after(tmp_path, text, default="m")["agents"]["defaults"]["model"] == model


def test_without_the_wish_the_default_model_stays(tmp_path: Path) -> None:
    assert "agents" not in after(tmp_path, "{}")


def test_other_providers_and_all_comments_stay_byte_for_byte(tmp_path: Path) -> None:
    mine = "{ // of mine\n  models: {providers: {other: {apiKey: 'sk-1', /* x */ models: []}}},\n}\n"
    _, plan_ = planned(tmp_path, mine, plugin="/p")
    (text,) = plan_.texts.values()
    for piece in ("{ // of mine\n", "other: {apiKey: 'sk-1', /* x */ models: []}"):
        assert piece in text


def test_a_second_plan_changes_nothing(tmp_path: Path) -> None:
    after(tmp_path, "{a: 1}", plugin="/p", default="m")
    text = (tmp_path / "openclaw.json").read_text()
    assert planned(tmp_path, text, plugin="/p", default="m")[1].changes == ()


def test_what_stands_in_our_way_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"models\.providers\.openclaw-cache\.baseUrl cannot be set"):
        planned(tmp_path, "{models: {providers: 'none'}}")


def test_a_variable_that_openclaw_would_not_read_is_refused() -> None:
    with pytest.raises(ConfigError, match="capitals"):
        settings(Wish(url=URL, models=(), key_env="my-key"), PRICES, {})


def test_secrets_are_masked_in_what_is_shown(tmp_path: Path) -> None:
    text = "{models: {providers: {'openclaw-cache': {apiKey: 'sk-very-secret'}}}}"
    _, plan_ = planned(tmp_path, text)
    lines = "\n".join(shown.lines(plan_.changes))
    assert 'apiKey: "***" -> "openclaw-cache"' in lines
    assert "sk-very" not in lines
    masked = shown.masked(
        {
            "headers": {"Authorization": "Bearer x"},
            "token": "t",
            "maxTokens": 5,
            "apiKey": "${K}",
            "apiKeyEnv": "K",
        }
    )
    assert masked == {
        "headers": {"Authorization": "***"},
        "token": "***",
        "maxTokens": 5,
        "apiKey": "${K}",
        "apiKeyEnv": "K",
    }


def test_a_key_is_never_part_of_the_patch() -> None:
    patch = shown.patch(
        settings(Wish(url=URL, models=(Model("m", 65_536),), key_env="K", plugin="/p"), PRICES, {})
    )
    assert patch["plugins"]["load"] == {"paths": ["/p"]}
    assert json.dumps(patch).count("${K}") == 1


def test_models_that_are_too_small_or_of_unknown_size_are_left_out_with_the_reason() -> None:
    listed = [Listed("smollm2-135m", 8192), Listed("gpt", None), Listed("big", 131_072)]
    models, notes = choose(listed, (), None, {})
    assert models == (Model("big", 131_072),)
    assert "8,192 tokens are too few" in notes[0]
    assert "--model gpt --context-window" in notes[1]


def test_a_model_that_was_asked_for_is_taken_or_refused() -> None:
    listed = [Listed("small", 8192), Listed("gpt", None), Listed("big", 131_072)]
    assert choose(listed, ["gpt"], 400_000, {})[0] == (Model("gpt", 400_000),)
    assert choose(listed, ["big"], 50_000, {})[0] == (Model("big", 50_000),)
    assert choose(listed, ["new"], 50_000, {})[0] == (Model("new", 50_000),)
    for name in ("small", "gpt"):
        with pytest.raises(ConfigError, match=name):
            choose(listed, [name], None, {})
    with pytest.raises(ConfigError, match="no model"):
        choose(listed[:2], (), None, {})
    with pytest.raises(ConfigError, match="lists no models"):
        choose([], (), None, {})


def test_what_openclaw_has_from_us_already_stays() -> None:
    listed = [Listed("gpt", None), Listed("big", 131_072), Listed("new", 65_536)]
    models, _ = choose(listed, (), None, {"gpt": 400_000, "big": 50_000})
    assert models == (Model("gpt", 400_000), Model("big", 50_000), Model("new", 65_536))


@pytest.mark.parametrize(
    ("entry", "window"),
    [
        ({"max_model_len": 4096}, 4096),  # vLLM
        ({"context_length": 128000}, 128000),  # OpenRouter
        ({"context_window": 131072}, 131072),  # Groq
        ({"max_context_length": 32768, "loaded_context_length": 8192}, 8192),  # LM Studio
        ({"max_input_tokens": 200000}, 200000),  # Anthropic
        ({"meta": {"n_ctx_train": 131072}}, 131072),  # llama.cpp
        ({"max_model_len": None}, None),
        ({"context_length": "many"}, None),
        ({}, None),
    ],
)
def test_a_window_is_found_by_the_name_that_each_server_gives_it(entry: dict, window: int | None) -> None:
    assert window_of(entry) == window
