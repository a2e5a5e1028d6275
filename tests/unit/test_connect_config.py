import os
from pathlib import Path

import pytest

from openclaw_cache.connect import place
from openclaw_cache.connect.config_files import Owned, read
from openclaw_cache.errors import ConfigError


def written(folder: Path, **texts: str) -> Path:
    for name, text in texts.items():
        (folder / f"{name}.json5").write_text(text)
    return folder / "root.json5"


def test_an_included_file_takes_the_place_of_its_object(tmp_path: Path) -> None:
    root = written(tmp_path, root="{models: {$include: './m.json5'}, x: 1}", m="{mode: 'merge'}")
    files = read(root, {})
    assert files.value == {"models": {"mode": "merge"}, "x": 1}
    assert files.owner(("models", "providers", "a")) == Owned(tmp_path / "m.json5", ("providers", "a"))
    assert files.owner(("x",)) == Owned(root, ("x",))


def test_several_included_files_and_what_stands_beside_them_are_joined_in_order(tmp_path: Path) -> None:
    # docs/gateway/configuration/common-tasks.md: later wins, siblings override, and arrays are concatenated.
    root = written(
        tmp_path,
        root="{p: {$include: ['a.json5', 'b.json5'], list: [3], own: {z: 1}}}",
        a="{list: [1], x: 'a', own: {y: 0}}",
        b="{list: [2], x: 'b'}",
    )
    files = read(root, {})
    assert files.value == {"p": {"list": [1, 2, 3], "x": "b", "own": {"y": 0, "z": 1}}}
    assert files.owner(("p", "new")) == Owned(root, ("p", "new"))


def test_a_root_that_includes_keeps_our_keys_beside_the_include(tmp_path: Path) -> None:
    root = written(tmp_path, root="{$include: 'a.json5'}", a="{models: {}}")
    assert read(root, {}).owner(("models", "mode")) == Owned(root, ("models", "mode"))


def test_a_file_that_belongs_to_another_directory_is_read_and_not_written(tmp_path: Path) -> None:
    shared, home = tmp_path / "shared", tmp_path / "home"
    shared.mkdir()
    home.mkdir()
    written(shared, m="{mode: 'merge'}")
    root = written(home, root=f"{{models: {{$include: '{shared}/m.json5'}}}}")
    files = read(root, {"OPENCLAW_INCLUDE_ROOTS": str(shared)})
    assert files.value == {"models": {"mode": "merge"}}
    assert files.owner(("models", "mode")).file == root


@pytest.mark.parametrize(
    ("root", "other", "says"),
    [
        ("{a: {$include: 'm.json5'}}", "{b: {$include: 'root.json5'}}", "circle"),
        ("{a: {$include: '../x.json5'}}", "{}", "leads out"),
        ("{a: {$include: 'gone.json5'}}", "{}", "cannot be read"),
        ("{a: {$include: 'm.json5'}}", "{b: }", "m.json5 is no JSON5: line 1, column 5"),
        ("{a: {$include: 5}}", "{}", "must name a file"),
        ("{a: {$include: 'm.json5', x: 1}}", "[]", "no other keys"),
        ("[]", "{}", "one object"),
        ("{a: 'sk-secret}", "{}", "does not end"),
    ],
)
def test_a_config_that_openclaw_could_not_read_is_refused(
    tmp_path: Path, root: str, other: str, says: str
) -> None:
    with pytest.raises(ConfigError, match=says) as caught:
        read(written(tmp_path, root=root, m=other), {})
    assert "sk-secret" not in str(caught.value)


def test_a_link_out_of_the_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    written(tmp_path, m="{}")
    (tmp_path / "home" / "m.json5").symlink_to(tmp_path / "m.json5")
    with pytest.raises(ConfigError, match="leads out"):
        read(written(tmp_path / "home", root="{a: {$include: 'm.json5'}}"), {})


def test_a_config_that_is_not_there_is_empty_but_a_dangling_link_is_refused(tmp_path: Path) -> None:
    assert read(tmp_path / "openclaw.json", {}).value == {}
    (tmp_path / "link.json").symlink_to(tmp_path / "gone.json")
    with pytest.raises(ConfigError, match=r"gone\.json, which is not there"):
        read(tmp_path / "link.json", {})


def test_text_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    (tmp_path / "openclaw.json").write_bytes(b"{a: '\xff'}")
    with pytest.raises(ConfigError, match="UTF-8"):
        read(tmp_path / "openclaw.json", {})


def test_the_config_is_where_openclaw_says_it_looks(tmp_path: Path) -> None:
    # docs/gateway/configuration/environment-variables.md and src/config/paths.ts of OpenClaw 2026.9.6
    home = {"HOME": str(tmp_path)}
    assert place.config_path(home) == tmp_path / ".openclaw" / "openclaw.json"
    assert place.config_path({**home, "OPENCLAW_HOME": "/elsewhere"}) == Path(
        "/elsewhere/.openclaw/openclaw.json"
    )
    assert place.config_path({**home, "OPENCLAW_STATE_DIR": "~/s"}) == tmp_path / "s" / "openclaw.json"
    both = {**home, "OPENCLAW_STATE_DIR": "/s", "OPENCLAW_CONFIG_PATH": "~/c.json"}
    assert place.config_path(both) == tmp_path / "c.json"
    (tmp_path / ".clawdbot").mkdir()
    assert place.state_dir(home) == tmp_path / ".clawdbot"


@pytest.mark.parametrize("name", ["OPENCLAW_CONFIG_READONLY", "OPENCLAW_NIX_MODE"])
def test_a_config_that_others_manage_is_not_written(name: str) -> None:
    place.require_writable({name: "0"})
    with pytest.raises(ConfigError, match=name):
        place.require_writable({name: "1"})


def test_the_order_of_directories_does_not_depend_on_the_working_directory(tmp_path: Path) -> None:
    root = written(tmp_path, root="{a: {$include: './m.json5'}}", m="{x: 1}")
    assert read(Path(os.path.relpath(root)).absolute(), {}).value == {"a": {"x": 1}}
