"""Writing a plan into OpenClaw's config: with a backup, and checked by OpenClaw itself."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from openclaw_cache.connect.config_files import ConfigFiles, read
from openclaw_cache.connect.openclaw_cli import OpenClawCli, OpenClawError
from openclaw_cache.connect.plan import Plan
from openclaw_cache.connect.record import Record, load, path_for, recorded, text_digest, write, write_private
from openclaw_cache.connect.taking_back import take_back
from openclaw_cache.errors import ConfigError, OpenClawCacheError


class RefusedConfigError(OpenClawCacheError):
    """OpenClaw does not accept the changed config; the files are as they were."""


def apply(
    files: ConfigFiles, plan: Plan, cli: OpenClawCli, env: Mapping[str, str], now: datetime
) -> list[Path]:
    """Write a plan, have OpenClaw check it, and keep the record. Returns the backups.

    Raises:
        ConfigError: a file cannot be written, or was changed meanwhile; nothing is changed then.
        RefusedConfigError: OpenClaw finds faults in the result that were not there before; nothing is changed then.
    """
    old = load(files.root)
    faults_before = _faults(cli) if files.root in files.texts else []
    _require_unchanged(files, plan.texts)
    backups = _backups(files, plan.texts, old, now)
    try:
        _write_all(plan.texts)
        # Before OpenClaw is asked, which takes seconds: whatever ends us meanwhile, it can be taken back.
        write(files.root, recorded(files, plan, read(files.root, env), backups, old))
        new = [fault for fault in _faults(cli) if fault not in faults_before]
        if new:
            raise RefusedConfigError("OpenClaw does not accept it: " + "; ".join(new[:5]))
    except OSError as e:
        _restore(files, plan.texts, backups, old)
        raise ConfigError(f"OpenClaw's config cannot be written: {e.filename}: {e.strerror}") from None
    except (OpenClawCacheError, KeyboardInterrupt):
        _restore(files, plan.texts, backups, old)
        raise
    return [backup for backup in backups.values() if backup is not None]


def undo(
    files: ConfigFiles, record: Record, cli: OpenClawCli | None, env: Mapping[str, str]
) -> tuple[list[str], list[str]]:
    """Take back what the record names; returns what was done, and what there is to say.

    Files that nobody changed since become what they were, byte for byte.

    Raises:
        ConfigError: a file cannot be written, or was changed meanwhile.
    """
    exact = _as_they_were(files, record)
    if exact is not None:
        texts, done, notes = exact, [f"{file}: as it was" for file in exact], list[str]()
    else:
        taken = take_back(files, record)
        texts, done, notes = dict[Path, str | None](taken.texts), taken.done, taken.notes
    _require_unchanged(files, texts)
    try:
        _write_all(texts)
        for kept in record.files if exact is not None else []:
            if kept.backup is not None:
                Path(kept.backup).unlink(missing_ok=True)
        path_for(files.root).unlink(missing_ok=True)
    except OSError as e:
        raise ConfigError(f"{e.filename} cannot be written: {e.strerror}") from None
    if exact is None:
        notes += [f"what was there before is still in {f.backup}" for f in record.files if f.backup]
    try:
        now = read(files.root, env)
        notes += [f"{place} still names a model of ours" for place in _mentions(now.value)]
        notes += [
            f"OpenClaw says: {fault}"
            for fault in (cli.faults_of_config() if cli and files.root.exists() else [])
        ]
    except OpenClawError as e:
        notes.append(str(e))
    return done, notes


def _as_they_were(files: ConfigFiles, record: Record) -> dict[Path, str | None] | None:
    """The content before of every file that we wrote; None where one was changed since, or a backup is gone."""
    texts: dict[Path, str | None] = {}
    for kept in record.files:
        path = Path(kept.path)
        if text_digest(files.texts.get(path)) != kept.after_sha256:
            return None
        texts[path] = None
        if kept.backup is not None:
            try:
                text = Path(kept.backup).read_bytes().decode("utf-8")
            except (OSError, UnicodeDecodeError):
                return None
            if text_digest(text) != kept.before_sha256:
                return None
            texts[path] = text
    return texts


def _faults(cli: OpenClawCli) -> list[str]:
    try:
        return cli.faults_of_config()
    except OpenClawError as e:
        raise ConfigError(str(e)) from None


def _backups(
    files: ConfigFiles, texts: Mapping[Path, str], old: Record | None, now: datetime
) -> dict[Path, Path | None]:
    """Copies of the files as they are, beside them and for their owner only."""
    backups: dict[Path, Path | None] = {}
    as_left = {Path(f.path): f.after_sha256 for f in old.files} if old is not None else {}
    for file in texts:
        content = files.texts.get(file)
        if content is None or as_left.get(file) == text_digest(content):
            backups[file] = None  # nothing to keep, or kept by the run before
            continue
        backup = _real(file).with_name(f"{file.name}.before-openclaw-cache.{now:%Y%m%d-%H%M%S}")
        try:
            write_private(backup, content.encode())
        except OSError as e:
            raise ConfigError(f"no backup can be written beside {file}: {e.strerror}") from None
        backups[file] = backup
    return backups


def _require_unchanged(files: ConfigFiles, texts: Mapping[Path, str | None]) -> None:
    for file in texts:
        try:
            now: str | None = file.read_bytes().decode("utf-8")
        except (OSError, UnicodeDecodeError):
            now = None
        if now != files.texts.get(file):
            raise ConfigError(f"{file} was changed by somebody else meanwhile: run the command again")


def _write_all(texts: Mapping[Path, str | None]) -> None:
    for file, text in texts.items():
        if text is None:
            file.unlink(missing_ok=True)
        else:
            _write(file, text)


def _write(file: Path, text: str) -> None:
    """Replace a file at once; its mode stays, and a link to it too."""
    file = _real(file)
    mode = file.stat().st_mode & 0o777 if file.exists() else 0o600
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if file.exists() and not os.access(file, os.W_OK):
        raise PermissionError(13, "it is read-only", str(file))
    write_private(file, text.encode())
    file.chmod(mode)


def _restore(
    files: ConfigFiles, texts: Mapping[Path, str], backups: Mapping[Path, Path | None], old: Record | None
) -> None:
    for file in texts:
        if (before := files.texts.get(file)) is None:
            file.unlink(missing_ok=True)
        elif file.read_bytes().decode("utf-8", "replace") != before:
            _write(file, before)
    if old is None:
        path_for(files.root).unlink(missing_ok=True)
    else:
        write(files.root, old)
    for backup in backups.values():
        if backup is not None:
            backup.unlink(missing_ok=True)


def _real(file: Path) -> Path:
    return Path(os.path.realpath(file))


def _mentions(value: object, path: str = "") -> list[str]:
    if isinstance(value, dict):
        return [m for key, item in value.items() for m in _mentions(item, f"{path}.{key}" if path else key)]
    if isinstance(value, list):
        return [m for i, item in enumerate(value) for m in _mentions(item, f"{path}[{i}]")]
    return [path] if isinstance(value, str) and value.startswith("openclaw-cache/") else []
