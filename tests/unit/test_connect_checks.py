import pytest

from openclaw_cache.connect import checks
from openclaw_cache.connect.proof import NoProofError, answer_of
from openclaw_cache.connect.server import Listed

URL = "http://127.0.0.1:8800"
COMPAT = {"supportsPromptCacheKey": True, "sendSessionIdHeader": True, "sendSessionAffinityHeaders": True}


def good() -> dict:
    return {
        "models": {
            "providers": {
                "openclaw-cache": {
                    "baseUrl": f"{URL}/v1",
                    "api": "openai-completions",
                    "apiKey": "openclaw-cache",
                    "models": [{"id": "m", "contextWindow": 131_072, "compat": COMPAT}],
                }
            }
        },
        "plugins": {
            "load": {"paths": ["/p"]},
            "slots": {"memory": "openclaw-cache", "contextEngine": "openclaw-cache"},
            "entries": {
                "openclaw-cache": {
                    "enabled": True,
                    "hooks": {"allowConversationAccess": True, "allowPromptInjection": True},
                }
            },
        },
        "agents": {"defaults": {"model": {"primary": "openclaw-cache/m"}, "heartbeat": {"every": "0m"}}},
    }


def found(config: dict, listed: list[Listed] | None = None) -> list[checks.Finding]:
    served = [Listed("m", 131_072)] if listed is None else listed
    return [
        *checks.of_provider(config, URL, {"K": True, "GONE": False}),
        *checks.of_models(config, served),
        *checks.of_plugin(config, "/p", is_current=True),
        *checks.of_habits(config),
    ]


def changed(path: str, value: object) -> dict:
    config = good()
    *above, last = path.split("/")
    node = config
    for key in above:
        node = node.setdefault(key, {}) if isinstance(node, dict) else node[int(key)]
    node[last] = value
    return config


def test_a_good_config_has_nothing_to_say() -> None:
    assert {finding.state for finding in found(good())} == {"ok"}


PROVIDER = "models/providers/openclaw-cache"
ENTRY = "plugins/entries/openclaw-cache"


@pytest.mark.parametrize(
    ("path", "value", "name", "state", "says"),
    [
        (PROVIDER, None, "provider", "fail", "no provider"),
        (f"{PROVIDER}/baseUrl", "http://127.0.0.1:1/v1", "provider", "fail", ":1/v1"),
        (
            f"{PROVIDER}/api",
            "anthropic-messages",
            "provider",
            "fail",
            "this server's is http://127.0.0.1:8800",
        ),
        (f"{PROVIDER}/apiKey", "${K}", "key", "ok", "K"),
        (f"{PROVIDER}/apiKey", "${GONE}", "key", "fail", "GONE is not set"),
        (f"{PROVIDER}/apiKey", "sk-secret", "key", "warn", "in the config"),
        (f"{PROVIDER}/models/0/id", "other", "model other", "fail", "does not list"),
        (f"{PROVIDER}/models/0/contextWindow", 8192, "model m", "fail", "8,192 tokens are too few"),
        (f"{PROVIDER}/models/0/contextWindow", 20_000, "model m", "warn", "compact"),
        (f"{PROVIDER}/models/0/contextWindow", 200_000, "model m", "fail", "the model has 131,072"),
        (f"{PROVIDER}/models/0/compat", {}, "model m", "warn", "supportsPromptCacheKey"),
        (f"{ENTRY}/enabled", False, "plugin", "fail", "not enabled"),
        (f"{ENTRY}/hooks", {}, "plugin", "fail", "allowConversationAccess"),
        ("plugins/slots/contextEngine", "legacy", "plugin", "fail", "contextEngine is legacy"),
        ("plugins/slots/memory", "memory-core", "plugin", "fail", "memory is memory-core"),
        ("plugins/load/paths", [], "plugin", "fail", "lacks /p"),
        ("plugins/allow", ["x"], "plugin", "fail", "plugins.allow"),
        ("plugins/deny", ["openclaw-cache"], "plugin", "fail", "plugins.deny"),
        ("plugins/enabled", False, "plugin", "fail", "plugins.enabled"),
        ("agents/defaults/model/primary", "other/x", "default model", "warn", "other/x"),
        ("agents/defaults/heartbeat", {}, "heartbeat", "warn", "30m"),
        ("agents/defaults/heartbeat/every", "10m", "heartbeat", "warn", "10m"),
        ("agents/defaults/contextPruning", {"mode": "cache-ttl"}, "contextPruning", "warn", "anew"),
        ("agents/defaults/params", {"cacheRetention": "none"}, "cacheRetention", "warn", "cache key"),
        ("tools/toolSearch", False, "toolSearch", "warn", "27,000"),
    ],
)
def test_each_fault_is_found_with_a_remedy(
    path: str, value: object, name: str, state: str, says: str
) -> None:
    (finding,) = [f for f in found(changed(path, value)) if f.name == name and f.state == state]
    assert says in finding.found
    assert finding.remedy or state == "ok"
    assert "sk-secret" not in str(finding)


def test_an_upstream_that_lists_nothing_says_nothing_about_a_model() -> None:
    assert [f.state for f in checks.of_models(good(), [])] == ["unknown", "ok"]


def test_plugin_files_of_another_version_are_noticed() -> None:
    states = {f.name: f.state for f in checks.of_plugin(good(), "/p", is_current=False)}
    assert states == {"plugin": "ok", "plugin files": "warn"}


def runtime(inspected: object, health: object = None) -> list[tuple[str, str]]:
    return [(f.name, f.state) for f in checks.of_runtime(inspected, health)]


LOADED = {
    "plugin": {"status": "loaded", "version": "0.1.0", "contextEngineIds": ["openclaw-cache"]},
    "diagnostics": [],
}
UP = {"ok": True, "contextEngines": {"quarantined": []}}


def test_a_loaded_plugin_in_a_running_gateway_is_well() -> None:
    assert runtime(LOADED, UP) == [("plugin loads", "ok"), ("OpenClaw's gateway", "ok")]


def test_a_plugin_that_loads_without_its_engine_is_a_fault() -> None:
    assert runtime({"plugin": {"status": "loaded", "contextEngineIds": []}})[0] == ("plugin loads", "fail")


def test_a_plugin_that_openclaw_cannot_load_is_a_fault_with_its_reason() -> None:
    inspected = {
        "plugin": {"status": "error"},
        "diagnostics": [{"level": "error", "message": "no register export"}],
    }
    finding = next(checks.of_runtime(inspected, None))
    assert (finding.state, "no register export" in finding.found) == ("fail", True)


def test_an_engine_that_the_gateway_put_aside_is_a_fault_with_its_reason() -> None:
    # The shape of `openclaw health --json` 2026.9.6.
    aside = {"engineId": "openclaw-cache", "operation": "compact", "reason": "boom", "failedAtMs": 1}
    health = {"ok": True, "contextEngines": {"quarantined": [aside]}}
    finding = list(checks.of_runtime(LOADED, health))[1]
    assert (finding.state, "compact: boom" in finding.found) == ("fail", True)
    assert (
        runtime(LOADED, {"ok": True, "contextEngines": {"quarantined": [{**aside, "engineId": "x"}]}})[1][1]
        == "ok"
    )


def test_what_could_not_be_asked_is_unknown_not_well() -> None:
    assert runtime(None) == [("plugin loads", "unknown"), ("OpenClaw's gateway", "unknown")]
    assert [f.state for f in checks.of_calls(None, None, 0)] == ["unknown"]


def test_an_agent_whose_turns_never_came_is_noticed() -> None:
    assert [f.state for f in checks.of_calls(0, None, 0)] == ["warn"]
    (finding,) = checks.of_calls(3, 1000.0, 1000.0 + 600)
    assert finding.found == "the server has 3 turns of this agent, the last 10 min ago"


def test_an_upstream_that_reports_no_cached_tokens_is_noticed() -> None:
    assert [next(checks.of_saving(n)).state for n in (None, 0, 5)] == ["warn", "warn", "ok"]


def test_a_certificate_that_node_does_not_know_is_noticed() -> None:
    assert [f.state for f in checks.of_tls("https://x", "/ca.pem", None)] == ["warn"]
    assert list(checks.of_tls("https://x", "/ca.pem", "/ca.pem")) == []
    assert list(checks.of_tls("http://x", None, None)) == []


ANSWER = {
    "payloads": [{"text": "connected"}],
    "meta": {
        "agentMeta": {
            "provider": "openclaw-cache",
            "usage": {"input": 99, "cacheRead": 99},
            "lastCallUsage": {"input": 7341, "output": 8, "cacheRead": 7340, "cacheWrite": 4, "total": 14693},
        }
    },
}  # as `openclaw agent --local --json` prints it, cut


@pytest.mark.parametrize("shown", [ANSWER, {"runId": "r", "status": "ok", "result": ANSWER}])
def test_an_answer_is_read_from_the_gateway_and_from_a_local_run(shown: dict) -> None:
    answer = answer_of(shown)
    assert (answer.text, answer.num_prompt_tokens, answer.num_cached_tokens) == ("connected", 14_685, 7340)


@pytest.mark.parametrize(
    ("shown", "says"),
    [
        ({"payloads": [], "meta": {"error": {"message": "no model"}}}, "no model"),
        ({"payloads": [{"text": "401 bad key", "isError": True}], "meta": {}}, "401 bad key"),
        ({}, "no answer"),
        ({"payloads": [{"text": "x"}], "meta": {"agentMeta": {"provider": "other"}}}, "another provider"),
    ],
)
def test_what_is_no_answer_of_ours_is_no_proof(shown: dict, says: str) -> None:
    with pytest.raises(NoProofError, match=says):
        answer_of(shown)
