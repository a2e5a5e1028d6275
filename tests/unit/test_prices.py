"""The table of prices: what is in ours, what an operator's own does to it, and which entry counts."""

from __future__ import annotations

import json
import re
from importlib.resources import files
from pathlib import Path

import pytest

from openclaw_cache.errors import ConfigError
from openclaw_cache.observe.prices import Price, Prices, Rates


def _dollars(rates: Rates) -> tuple[float, float, float, float]:
    """Input, output, cached input, cache write: dollars for a million tokens, as vendors write them."""
    numbers = (rates.input, rates.output, rates.cached_input, rates.cache_write)
    return tuple(n / 10**6 for n in numbers)  # type: ignore[return-value]


def _input(price: Price | None) -> float | None:
    return None if price is None else price.rates.input / 10**6


@pytest.mark.parametrize(
    ("model", "dollars"),
    [
        # platform.claude.com/docs/en/about-claude/pricing
        ("claude-opus-4-5", (5, 25, 0.5, 6.25)),
        ("claude-fable-5-1", (10, 50, 0.25, 12.5)),
        # developers.openai.com/api/docs/pricing; writes are free before GPT-5.6: they cost what input does
        ("gpt-5", (1.25, 10, 0.125, 1.25)),
        ("gpt-5.6-sol", (4, 20, 0.4, 5)),
        # api-docs.deepseek.com/quick_start/pricing, off-peak
        ("deepseek-flash", (0.15, 0.6, 0.003, 0.15)),
        ("deepseek-v4-pro", (0.66, 1.98, 0.022, 0.66)),
        # ai.google.dev/gemini-api/docs/pricing
        ("gemini-2.5-flash", (0.3, 2.5, 0.03, 0.3)),
        # platform.kimi.ai/docs/pricing/chat-k3
        ("kimi-k3", (3, 15, 0.3, 3)),
        # a model without a discount for cached input
        ("gpt-5-pro", (15, 120, 15, 15)),
    ],
)
def test_our_prices_are_those_of_the_vendors_pages(model: str, dollars: tuple[float, ...]) -> None:
    price = Prices.load().of(model)
    assert price is not None
    assert _dollars(price.rates) == dollars


def test_a_long_prompt_has_the_price_of_long_prompts_throughout() -> None:
    # ai.google.dev/gemini-api/docs/pricing: $1.25, $10 and $0.125 up to 200k tokens; $2.50, $15, $0.25 above.
    price = Prices.load().of("gemini-2.5-pro")
    assert price is not None
    assert _dollars(price.for_prompt(200_000)) == (1.25, 10, 0.125, 1.25)
    assert _dollars(price.for_prompt(200_001)) == (2.5, 15, 0.25, 2.5)


def test_every_entry_of_ours_says_where_it_is_from_and_is_plausible() -> None:
    table = json.loads(files("openclaw_cache.observe").joinpath("prices.json").read_bytes())
    assert table["currency"] == "USD"
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", table["as_of"])
    assert len(table["prices"]) >= 60
    for model, entry in table["prices"].items():
        assert table["sources"][entry["source"]].startswith("https://"), model
        for rates in (entry, entry.get("long", entry)):
            assert 0 < rates.get("cached_input", rates["input"]) <= rates["input"], model
            assert rates["input"] <= rates.get("cache_write", rates["input"]) <= 2 * rates["input"], model
            assert rates["output"] == 0 or rates["output"] >= rates["input"], model
        assert all(entry["long"][name] >= entry[name] for name in ("input", "output") if "long" in entry), (
            model
        )
    assert Prices.load().as_of == table["as_of"]


def test_a_model_that_is_not_in_the_table_has_no_price() -> None:
    prices = Prices.load()
    # A longer name is another model, and the name of open weights is no vendor's offer.
    for model in (
        "",
        "smollm2-135m",
        "gpt-5-imaginary",
        "gpt-5.4-mini-search",
        "openai/gpt-oss-120b",
        "Qwen/Qwen3-32B",
    ):
        assert prices.of(model) is None, model


@pytest.mark.parametrize(
    "model",
    ["gpt-5-2025-08-07", "claude-opus-4-5-20251101", "claude-haiku-4-5-20251001", "gpt-5.4-2026-03-05"],
)
def test_a_dated_snapshot_costs_what_its_model_costs(model: str) -> None:
    prices = Prices.load()
    undated = re.sub(r"-20[\d-]+$", "", model)
    assert prices.of(model) == prices.of(undated) is not None


def _load(tmp_path: Path, text: str, name: str = "prices.yaml") -> Prices:
    file = tmp_path / name
    file.write_text(text)
    return Prices.load(file)


def test_an_operators_entry_takes_the_place_of_ours_and_the_others_stay(tmp_path: Path) -> None:
    prices = _load(tmp_path, "prices:\n  gpt-5: {input: 1, output: 8, cached_input: 0.1}\n")
    price = prices.of("gpt-5")
    assert price is not None
    assert _dollars(price.rates) == (1, 8, 0.1, 1)
    assert _input(prices.of("gpt-5-mini")) == 0.25


def test_json_and_yaml_mean_the_same(tmp_path: Path) -> None:
    entry = {"input": 2, "output": 3.5, "long": {"above_tokens": 10, "input": 4, "output": 7}}
    as_json = _load(
        tmp_path, json.dumps({"currency": "USD", "prices": {"m": entry}}, indent="\t"), "p.json"
    ).of("m")
    as_yaml = _load(
        tmp_path,
        "as_of: 2026-11-30\nprices: {m: {input: 2, output: 3.5, long: {above_tokens: 10, input: 4, output: 7}}}",
    ).of("m")
    assert as_json == as_yaml
    assert as_json is not None
    assert _dollars(as_json.for_prompt(11)) == (4, 7, 4, 4)


def test_the_most_specific_entry_counts(tmp_path: Path) -> None:
    text = """
prices:
  "*": {input: 1, output: 1}
  "acme-*": {input: 2, output: 2}
  "acme-*-pro": {input: 3, output: 3}
  "acme-*-extra-pro": {input: 7, output: 7}
  "acme-large*": {input: 4, output: 4}
  "acme-large-?": {input: 5, output: 5}
  acme-large: {input: 6, output: 6}
"""
    prices = _load(tmp_path, text)
    expected = {
        "acme-large": 6,  # exact
        "acme-large-2026-01-02": 6,  # its snapshot
        "acme-large-2": 5,  # the longest beginning
        "acme-large-extra-pro": 4,  # a longer beginning before more characters in all
        "acme-small-extra-pro": 7,
        "acme-small-pro": 3,  # of equal beginnings, the one with more characters
        "acme-small": 2,
        "else": 1,
        "gpt-5": 1.25,  # exact, though ours
    }
    assert {model: _input(prices.of(model)) for model in expected} == expected


def test_prices_of_an_upstream_go_before_all_others_and_hold_for_it_only(tmp_path: Path) -> None:
    text = 'upstreams: {pods: {"*": {input: 0, output: 0}}}'
    prices = _load(tmp_path, text)
    assert _input(prices.of("glm-5.2", "pods")) == 0
    assert _input(prices.of("glm-5.2", "zai")) == 1.4
    assert _input(prices.of("glm-5.2")) == 1.4


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("prices: {gpt-5: {input: 1}}", ["gpt-5", "output", "required"]),
        ("prices: {gpt-5: {input: -1, output: 1}}", ["gpt-5", "input"]),
        ("prices: {gpt-5: {input: .inf, output: 1}}", ["gpt-5", "input"]),
        ("prices: {gpt-5: {input: '1', output: 1}}", ["gpt-5", "input"]),
        ("prices: {gpt-5: {input: true, output: 1}}", ["gpt-5", "input"]),
        ("prices: {gpt-5: {input: 1, output: 1, cache: 1}}", ["gpt-5", "cache"]),
        (
            "prices: {gpt-5: {input: 1, output: 1, long: {input: 1, output: 1}}}",
            ["gpt-5", "long", "above_tokens"],
        ),
        ("upstreams: {pods: {m: {input: 1}}}", ["pods", "m", "output"]),
        ("prices: {5: {input: 1, output: 1}}", ["prices", "5"]),
        ("currency: EUR", ["currency", "USD"]),
        ("price: {}", ["price"]),
        ("- 1", ["prices"]),
        ("prices: {", ["YAML", "line "]),
        ("\x00", ["YAML"]),
    ],
)
def test_a_wrong_file_is_refused_naming_the_setting_the_entry_and_the_field(
    tmp_path: Path, text: str, words: list[str]
) -> None:
    with pytest.raises(ConfigError) as refused:
        _load(tmp_path, text)
    message = str(refused.value)
    assert message.startswith("savings.prices_file: ")
    assert all(word in message for word in [*words, "prices.yaml"])


def test_a_file_that_is_not_there_or_no_json_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"savings\.prices_file: .*none\.yaml cannot be read: No such file"):
        Prices.load(tmp_path / "none.yaml")
    with pytest.raises(ConfigError, match=r"p\.json is no JSON"):
        _load(tmp_path, "prices: {}", "p.json")
    (tmp_path / "latin.yaml").write_bytes(b"\xff")
    with pytest.raises(ConfigError, match=r"latin\.yaml is no YAML"):
        Prices.load(tmp_path / "latin.yaml")
