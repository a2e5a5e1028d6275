"""The dashboard's files: nothing from elsewhere, nothing inline, both languages whole, colours that can be seen."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import openclaw_cache
from openclaw_cache.api import dashboard
from openclaw_cache.api.analysis.english import ENGLISH
from openclaw_cache.gateway.policy import Reason
from openclaw_cache.observe.metrics import DEGRADED, LAYERS, OUTCOMES, TTFT_SOURCES
from openclaw_cache.observe.record import MISSES
from openclaw_cache.prefix.causes import CAUSES

ROOT = Path(openclaw_cache.__file__).parent / "dashboard"
MODULES = {file: file.read_text() for file in sorted(ROOT.rglob("*.js"))}
STYLES = {file: file.read_text() for file in sorted(ROOT.rglob("*.css"))}
PAGE = (ROOT / "index.html").read_text()
LANGUAGES = {name: json.loads((ROOT / "i18n" / f"{name}.json").read_text()) for name in ("en", "zh")}

SAME_IN_BOTH = frozenset({"language.en", "language.zh"})
"""A language is called what its speakers call it, so that they find it."""

CHINESE = re.compile(r"[一-鿿]")
WORDS_OF_THE_TRADE = re.compile(
    r"^(?:no-store|no-cache|P\d\d|Token|token|\{value\} [kMGT]?B|\{value\} KB|(?:[^A-Za-z{}]|\{\w+\})*)$"
)
"""Texts that a Chinese operator reads as they are; signs and values are in no language."""
MORE_IN_CHINESE = {"finding.prefix_break_at": {"cause"}}
"""A place whose label cannot be read, which is English: its cause can."""


def test_no_file_names_another_host() -> None:
    for name, text in [*MODULES.items(), *STYLES.items(), ("index.html", PAGE)]:
        found = [
            url for url in re.findall(r"(?:https?:)?//[\w.-]+\.\w+[^\s'\"]*", text) if "www.w3.org" not in url
        ]
        assert found == [], name


def test_the_page_has_nothing_inline_that_its_policy_would_stop() -> None:
    assert re.findall(r"<script(?![^>]*\bsrc=)", PAGE) == []
    assert re.findall(r"<style|\sstyle=|\son\w+=", PAGE) == []


def test_no_module_makes_markup_out_of_text() -> None:
    forbidden = (
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|\beval\(|new Function|"
        r"createContextualFragment|srcdoc"
    )
    assert {str(file) for file, text in MODULES.items() if re.search(forbidden, text)} == set()


def test_the_admin_key_is_kept_nowhere_but_in_the_tab() -> None:
    assert "localStorage" not in MODULES[ROOT / "app" / "api.js"]
    assert [file.name for file, text in MODULES.items() if "sessionStorage" in text] == ["main.js"]
    assert not any("document.cookie" in text for text in MODULES.values())


def test_every_file_is_served_and_nothing_else() -> None:
    names = {f"/dashboard/{file.relative_to(ROOT)}" for file in [*MODULES, *STYLES]}
    names |= {"/dashboard", "/dashboard/i18n/en.json", "/dashboard/i18n/zh.json"}
    assert set(dashboard.files()) == names


def test_every_module_that_is_imported_is_there() -> None:
    for file, text in MODULES.items():
        for path in re.findall(r"from \"([^\"]+)\"", text):
            assert path.startswith("."), file
            assert (file.parent / path).resolve() in MODULES, f"{file}: {path}"


def test_both_languages_have_the_same_messages() -> None:
    en, zh = LANGUAGES["en"], LANGUAGES["zh"]
    assert en.keys() == zh.keys()
    assert [key for key in en if not en[key].strip() or not zh[key].strip()] == []


def test_nothing_is_left_untranslated() -> None:
    zh = LANGUAGES["zh"]
    untouched = [
        key
        for key, text in zh.items()
        if key not in SAME_IN_BOTH and not CHINESE.search(text) and not WORDS_OF_THE_TRADE.match(text)
    ]
    assert untouched == []


def test_a_translation_says_the_same_values() -> None:
    def values(text: str) -> set[str]:
        return set(re.findall(r"\{(\w+)(?::[^{}]+)?\}", text))

    en, zh = LANGUAGES["en"], LANGUAGES["zh"]
    # In the form for one, the number may be a word.
    different = {key for key in en if values(en[key]) - {"n"} != values(zh[key]) - {"n"}}
    assert different == MORE_IN_CHINESE.keys()
    more = {key: values(zh[key]) ^ values(en[key]) for key in en if not key.endswith(".one")}
    assert {key: names for key, names in more.items() if names} == MORE_IN_CHINESE


def used_keys() -> tuple[set[str], list[re.Pattern[str]]]:
    """The keys that modules and page name, and patterns of those that are put together."""
    text = "\n".join(MODULES.values())
    whole = set(re.findall(r"(?:\bt\(|lang\.t\()\s*\"([\w. -]+)\"", text)) | set(
        re.findall(r"data-(?:text|label)=\"([\w.]+)\"", PAGE)
    )
    whole |= set(re.findall(r"\"([a-z]+\.[\w.]+)\"", text))
    whole |= set(ENGLISH)  # what the server says as data
    groups = set(re.findall(r"\bword\(\s*\"(\w+)\"", text))
    groups |= set(re.findall(r"\{\w+:([a-z]{2,})\}", "\n".join(LANGUAGES["zh"].values())))
    made = [re.compile(rf"{group}\..+") for group in groups | {"check"}]
    made += [re.compile(re.escape(start) + ".+") for start in re.findall(r"`((?:\w+\.)+)\$\{[^`]*`", text)]
    return whole, made


def test_every_message_that_is_asked_for_is_there() -> None:
    whole, _ = used_keys()
    groups = {key.split(".")[0] for key in LANGUAGES["en"]}
    files = re.compile(r"\.(?:js|css|json)$")
    missing = {
        key
        for key in whole
        if key.split(".")[0] in groups and not files.search(key) and key not in LANGUAGES["en"]
    }
    assert missing == set()


def test_no_message_is_left_that_nobody_asks_for() -> None:
    whole, made = used_keys()
    unused = [
        key
        for key in LANGUAGES["en"]
        if key.removesuffix(".one").removesuffix(".advice") not in whole
        and key not in whole
        and not any(pattern.fullmatch(key) for pattern in made)
    ]
    assert unused == []


@pytest.mark.parametrize(
    ("group", "words"),
    [
        ("outcome", OUTCOMES),
        ("layer", LAYERS),
        ("miss", MISSES),
        ("bypass", [str(reason) for reason in Reason]),
        ("degraded", DEGRADED),
        ("source", TTFT_SOURCES),
        ("cause", list(CAUSES)),
        ("fix", list(CAUSES)),
        (
            "step",
            ["door", "read", "plan", "result", "semantic", "flight", "canonical", "upstream", "kv", "store"],
        ),
    ],
)
def test_every_word_of_the_server_has_a_name_here(group: str, words: list[str]) -> None:
    assert [word for word in words if f"{group}.{word}" not in LANGUAGES["en"]] == []


# -- colours: WCAG 2.1, 1.4.3 (text 4.5 : 1) and 1.4.11 (what is no text 3 : 1)


def palettes() -> dict[str, dict[str, str]]:
    text = (ROOT / "style" / "theme.css").read_text()
    found = {}
    for selector, body in re.findall(r"(:root\[data-theme=\"\w+\"\])\s*\{([^}]*)\}", text):
        found[selector] = dict(re.findall(r"--([\w-]+):\s*(#[0-9a-f]{6})", body))
    return found


def luminance(colour: str) -> float:
    """Relative luminance as WCAG 2.1 defines it."""
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    r, g, b = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


def contrast(a: str, b: str) -> float:
    light, dark = sorted((luminance(a), luminance(b)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_the_contrast_of_black_on_white_is_the_21_of_the_standard() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.005)


def test_there_are_three_palettes_and_the_system_s_dark_is_the_chosen_one() -> None:
    found = palettes()
    assert set(found) == {f':root[data-theme="{name}"]' for name in ("light", "dark", "auto")}
    assert found[':root[data-theme="auto"]'] == found[':root[data-theme="dark"]']
    assert found[':root[data-theme="light"]'].keys() == found[':root[data-theme="dark"]'].keys()


TEXTS = [
    (text, ground)
    for text in ("text", "muted", "accent", "ok", "warn", "bad")
    for ground in ("page", "panel", "sunk")
] + [
    ("text", "bad-wash"), ("text", "warn-wash"), ("muted", "bad-wash"), ("muted", "warn-wash"),
    ("bad", "bad-wash"), ("warn", "warn-wash"), ("on-accent", "accent"),
]  # fmt: skip
SHAPES = [
    (shape, "panel")
    for shape in ("edge", "exact", "semantic", "flight", "miss", "bypass", "error", "host", "disk", "new", "hit")
] + [(shape, "page") for shape in ("edge", "new", "hit", "evicted")]  # fmt: skip


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_text_can_be_read(theme: str) -> None:
    palette = palettes()[f':root[data-theme="{theme}"]']
    weak = {pair: contrast(palette[pair[0]], palette[pair[1]]) for pair in TEXTS}
    assert {pair: ratio for pair, ratio in weak.items() if ratio < 4.5} == {}


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_shape_can_be_seen(theme: str) -> None:
    palette = palettes()[f':root[data-theme="{theme}"]']
    weak = {pair: contrast(palette[pair[0]], palette[pair[1]]) for pair in SHAPES}
    assert {pair: ratio for pair, ratio in weak.items() if ratio < 3} == {}


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_tree_has_the_colours_of_the_paper(theme: str) -> None:
    palette = palettes()[f':root[data-theme="{theme}"]']
    channels = {
        name: [int(palette[name][i : i + 2], 16) for i in (1, 3, 5)] for name in ("new", "hit", "evicted")
    }
    strongest = {name: values.index(max(values)) for name, values in channels.items()}
    assert strongest == {"new": 1, "hit": 2, "evicted": 0}  # green, blue, red


def test_colours_come_from_the_palette_alone() -> None:
    own = re.compile(r"#[0-9a-f]{3,8}\b|rgba?\(|hsla?\(")
    assert {file.name for file, text in STYLES.items() if own.search(text)} == {"theme.css"}
