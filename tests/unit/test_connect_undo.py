import stat
from datetime import UTC, datetime
from pathlib import Path

import pytest

from openclaw_cache.connect import record, writing
from openclaw_cache.connect.config_files import read
from openclaw_cache.connect.openclaw_cli import OpenClawCli
from openclaw_cache.connect.plan import plan
from openclaw_cache.connect.wish import Model, Wish, settings
from openclaw_cache.errors import ConfigError
from openclaw_cache.observe.prices import Prices

NOW = datetime(2026, 11, 30, 9, 0, tzinfo=UTC)
PRICES = Prices.load()
MINE = """{
  // mine
  models: {providers: {other: {apiKey: "sk-1", models: []}}},
  plugins: {slots: {memory: "memory-core"}, load: {paths: ["/mine"]}},
  agents: {defaults: {model: "other/x"}}, // the good one
}
"""


class Answering(OpenClawCli):
    """An OpenClaw that accepts every config, or finds the fault that it was given."""

    fault: str | None = None

    def faults_of_config(self) -> list[str]:
        return [] if self.fault is None or "openclaw-cache" not in self.watched.read_text() else [self.fault]

    watched: Path = Path()


def accepting() -> OpenClawCli:
    return Answering("openclaw", {})


def connect(root: Path, cli: OpenClawCli | None = None, window: int = 65_536) -> list[Path]:
    files = read(root, {})
    wish = Wish("http://127.0.0.1:8800", (Model("m", window),), plugin="/p", default="m")
    planned = plan(files, settings(wish, PRICES, files.value))
    return writing.apply(files, planned, cli or accepting(), {}, NOW) if planned.changes else []


def undo(root: Path) -> tuple[list[str], list[str]]:
    kept = record.load(root)
    assert kept is not None
    return writing.undo(read(root, {}), kept, None, {})


@pytest.fixture
def root(tmp_path: Path) -> Path:
    path = tmp_path / "openclaw.json"
    path.write_text(MINE)
    path.chmod(0o640)
    return path


def test_undo_gives_back_the_file_byte_for_byte_and_leaves_nothing_behind(root: Path) -> None:
    connect(root)
    assert root.read_text() != MINE
    undo(root)
    assert root.read_text() == MINE
    assert list(root.parent.iterdir()) == [root]


def test_a_config_that_was_not_there_is_not_there_again(tmp_path: Path) -> None:
    connect(tmp_path / "openclaw.json")
    assert stat.S_IMODE((tmp_path / "openclaw.json").stat().st_mode) == 0o600
    undo(tmp_path / "openclaw.json")
    assert list(tmp_path.iterdir()) == []


def test_what_the_user_changed_since_stays(root: Path) -> None:
    connect(root)
    text = root.read_text()
    text = text.replace('memory: "openclaw-cache"', 'memory: "lancedb"').replace("// mine", "// mine, still")
    root.write_text(text)
    done, notes = undo(root)
    assert read(root, {}).value == {
        "models": {"providers": {"other": {"apiKey": "sk-1", "models": []}}},
        "plugins": {"slots": {"memory": "lancedb"}, "load": {"paths": ["/mine"]}},
        "agents": {"defaults": {"model": "other/x"}},
    }
    assert "// mine, still" in root.read_text()
    assert "// the good one" in root.read_text()
    assert any("plugins.slots.memory was changed since" in note for note in notes)
    assert "plugins.slots.memory" not in "".join(done)


def test_what_the_user_added_to_our_provider_goes_with_it_and_is_said(root: Path) -> None:
    connect(root)
    root.write_text(root.read_text().replace('"apiKey": "openclaw-cache"', '"apiKey": "sk-mine"'))
    _, notes = undo(root)
    assert "openclaw-cache" not in root.read_text()
    assert any("models.providers.openclaw-cache was changed since" in note for note in notes)
    assert "sk-mine" not in "".join(notes)


def test_a_provider_of_our_name_that_was_there_before_comes_back(root: Path) -> None:
    before = "{models: {providers: {'openclaw-cache': {baseUrl: 'http://mine', /* hm */ models: []}}}}"
    root.write_text(before)
    connect(root)
    root.write_text(root.read_text() + "\n// touched\n")
    undo(root)
    assert "'openclaw-cache': {baseUrl: 'http://mine', /* hm */ models: []}" in root.read_text()


def test_undo_after_two_runs_goes_back_to_before_the_first(root: Path) -> None:
    connect(root)
    connect(root, window=32_768)
    undo(root)
    assert root.read_text() == MINE
    assert list(root.parent.iterdir()) == [root]


def test_undo_after_a_change_between_two_runs_keeps_that_change(root: Path) -> None:
    connect(root)
    root.write_text(root.read_text().replace("// mine", "// mine, new"))
    connect(root, window=32_768)
    undo(root)
    assert root.read_text().startswith("{\n  // mine, new\n")
    assert read(root, {}).value == {
        "models": {"providers": {"other": {"apiKey": "sk-1", "models": []}}},
        "plugins": {"slots": {"memory": "memory-core"}, "load": {"paths": ["/mine"]}},
        "agents": {"defaults": {"model": "other/x"}},
    }


def test_models_of_ours_that_others_still_name_are_pointed_out(root: Path) -> None:
    connect(root)
    text = root.read_text().replace("agents: {", "agents: {entries: {bob: {model: 'openclaw-cache/m'}}, ", 1)
    root.write_text(text)
    _, notes = undo(root)
    assert "agents.entries.bob.model still names a model of ours" in notes


def test_a_config_that_openclaw_refuses_is_put_back_as_it_was(root: Path) -> None:
    cli = Answering("openclaw", {})
    object.__setattr__(cli, "fault", "models: no")
    object.__setattr__(cli, "watched", root)
    with pytest.raises(writing.RefusedConfigError, match="models: no"):
        connect(root, cli)
    assert root.read_text() == MINE
    assert list(root.parent.iterdir()) == [root]


def test_backup_and_record_are_for_their_owner_only_and_the_config_keeps_its_mode(root: Path) -> None:
    (backup,) = connect(root)
    assert backup.read_text() == MINE
    modes = {stat.S_IMODE(path.stat().st_mode) for path in (backup, record.path_for(root))}
    assert modes == {0o600}
    assert stat.S_IMODE(root.stat().st_mode) == 0o640


def test_the_record_holds_no_key(root: Path) -> None:
    connect(root)
    assert "sk-1" not in record.path_for(root).read_text()


def test_a_link_stays_a_link(root: Path, tmp_path: Path) -> None:
    real = tmp_path / "elsewhere" / "real.json"
    real.parent.mkdir()
    root.rename(real)
    root.symlink_to(real)
    connect(root)
    assert root.is_symlink()
    assert "openclaw-cache" in real.read_text()
    undo(root)
    assert (root.is_symlink(), real.read_text()) == (True, MINE)


def test_included_files_get_what_belongs_to_them_and_give_it_back(root: Path) -> None:
    plugins = root.with_name("plugins.json5")
    plugins.write_text("{slots: {memory: 'x'}} // p\n")
    text = "{plugins: {$include: './plugins.json5'}}\n"
    root.write_text(text)
    connect(root)
    assert "openclaw-cache" in plugins.read_text()
    assert "slots" not in root.read_text()
    plugins.write_text(plugins.read_text() + "// later\n")
    undo(root)
    assert read(root, {}).value == {"plugins": {"slots": {"memory": "x"}}}
    assert "// later" in plugins.read_text()


def test_a_file_that_somebody_else_changed_meanwhile_is_not_overwritten(root: Path) -> None:
    files = read(root, {})
    planned = plan(files, settings(Wish("http://x", (Model("m", 65_536),)), PRICES, files.value))
    root.write_text("{other: 1}")
    with pytest.raises(ConfigError, match="changed by somebody else"):
        writing.apply(files, planned, accepting(), {}, NOW)
    assert root.read_text() == "{other: 1}"


def test_a_record_that_cannot_be_read_is_said(root: Path) -> None:
    record.path_for(root).write_text("{")
    with pytest.raises(ConfigError, match=record.FILE_NAME):
        record.load(root)


def ending(how: type[BaseException]) -> OpenClawCli:
    """An OpenClaw at whose second look the command ends: the config is written by then."""
    looks: list[None] = []

    class Ending(OpenClawCli):
        def faults_of_config(self) -> list[str]:
            looks.append(None)
            if len(looks) == 2:
                raise how
            return []

    return Ending("openclaw", {})


def test_what_is_interrupted_while_openclaw_looks_at_it_is_put_back(root: Path) -> None:
    before = root.read_bytes()
    with pytest.raises(KeyboardInterrupt):
        connect(root, ending(KeyboardInterrupt))
    assert root.read_bytes() == before
    assert list(root.parent.iterdir()) == [root]


def test_what_was_killed_while_openclaw_looked_at_it_can_be_taken_back(root: Path) -> None:
    class Killed(BaseException):
        """Nothing of ours runs after it, as after SIGKILL."""

    before = root.read_bytes()
    with pytest.raises(Killed):
        connect(root, ending(Killed))
    assert root.read_bytes() != before
    undo(root)
    assert root.read_bytes() == before
