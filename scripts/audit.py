"""What we depend on, looked through: pins, licences, known vulnerabilities. `make check` runs it.

    python scripts/audit.py

Exit code 1 where something is wrong. Advisories need a network that reaches PyPI's own API; where it does not,
one line says so, and the code is 0 unless AUDIT=strict is set. What may pass is in audit-allow.toml.
"""

# ruff: noqa: T201 - this is a command, and what it prints is what it is for

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from dataclasses import dataclass, field
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from email.message import Message

ROOT: Final = Path(__file__).resolve().parent.parent

FREE_LICENCES: Final = frozenset(
    [
        "0BSD",
        "Apache-2.0",
        "BSD-2-Clause",
        "BSD-3-Clause",
        "BSL-1.0",
        "CC0-1.0",
        "CNRI-Python",
        "ISC",
        "MIT",
        "MIT-0",
        "MIT-CMU",
        "MPL-2.0",
        "PSF-2.0",
        "Python-2.0",
        "Unlicense",
        "Zlib",
    ]
)
"""Licences under which we may use, change and distribute what we install, beside our own Apache-2.0."""

_BY_OLDER_NAME: Final = {
    "apache 2.0": "Apache-2.0",
    "apache 2.0 license": "Apache-2.0",
    "apache license 2.0": "Apache-2.0",
    "apache software license": "Apache-2.0",
    "bsd license": "BSD-3-Clause",
    "3-clause bsd license": "BSD-3-Clause",
    "isc license (iscl)": "ISC",
    "mit license": "MIT",
    "mit no attribution license (mit-0)": "MIT-0",
    "mozilla public license 2.0 (mpl 2.0)": "MPL-2.0",
    "python software foundation license": "PSF-2.0",
    "the unlicense (unlicense)": "Unlicense",
    "zlib/libpng license": "Zlib",
}
"""SPDX names of what classifiers and older metadata say, in lower case."""

_CLASSIFIER: Final = "License :: OSI Approved :: "


@dataclass(slots=True)
class Advisories:
    """What the advisory service said: `problems` to print, and which packages it knew nothing about."""

    num_audited: int = 0
    problems: list[str] = field(default_factory=list)
    not_audited: list[str] = field(default_factory=list)

    def gap(self) -> str:
        """What was left out, in one line; empty where nothing was."""
        if not self.num_audited:
            return "PyPI's advisory service cannot be reached from here, or knows none of these packages"
        return f"it does not know {', '.join(self.not_audited)}" if self.not_audited else ""


def pins(constraints: str) -> dict[str, str]:
    """The version that each line of a constraints file pins, by canonical name.

    Raises:
        ValueError: a line is no exact pin.
    """
    found: dict[str, str] = {}
    for line in constraints.splitlines():
        text = line.partition("#")[0].strip()
        if not text:
            continue
        name, is_pinned, version = text.partition("==")
        if (
            not is_pinned
            or not re.fullmatch(r"[A-Za-z0-9._-]+", name)
            or not re.fullmatch(r"[\w.!+-]+", version)
        ):
            raise ValueError(f"constraints.txt: {text!r} is no exact pin: write name==version")
        found[canonicalize_name(name)] = version
    return found


def requirements(pyproject: Mapping[str, Any]) -> list[Requirement]:
    """Everything that a pyproject.toml names: to build, to run, and in every extra."""
    project = pyproject["project"]
    texts = [*pyproject["build-system"]["requires"], *project["dependencies"]]
    for extra in project.get("optional-dependencies", {}).values():
        texts += extra
    return [Requirement(text) for text in texts]


def pin_problems(
    required: Iterable[Requirement], pinned: Mapping[str, str], installed: Mapping[str, Distribution]
) -> list[str]:
    """What is required, directly or by something installed, and not pinned to a version that fits."""
    problems: list[str] = []
    waiting = [(requirement, "pyproject.toml") for requirement in required]
    seen: set[tuple[str, frozenset[str]]] = set()
    while waiting:
        requirement, wanted_by = waiting.pop(0)
        name = canonicalize_name(requirement.name)
        version = pinned.get(name)
        if version is None and name != "pip":  # pip comes with the virtual environment, in its own version
            problems.append(f"{name}, which {wanted_by} requires, is not pinned in constraints.txt")
        elif version and not requirement.specifier.contains(version, prereleases=True):
            problems.append(f"constraints.txt pins {name}=={version}, but {wanted_by} requires {requirement}")
        extras = frozenset(requirement.extras)
        if name in installed and (name, extras) not in seen:
            waiting += [(further, name) for further in _requirements_of(installed[name], extras)]
        seen.add((name, extras))
    return sorted(set(problems))


def licence_problems(installed: Mapping[str, Distribution], allowed: Mapping[str, str]) -> list[str]:
    """Which of the installed distributions have a licence that is not on our list, or none."""
    problems = []
    for name, distribution in sorted(installed.items()):
        licence = licence_of(distribution.metadata)  # type: ignore[arg-type]
        if name not in allowed and not is_free(licence):
            problems.append(f"{name} {distribution.version}: its licence is {licence or 'not said'}")
    return problems


def licence_of(metadata: Message) -> str:
    """The licence as an SPDX expression where the metadata lets us tell, else as it is written there.

    Several classifiers count as all of them: whether one may choose is not said.
    """
    if expression := metadata.get("License-Expression"):
        return str(expression)
    classifiers = [c for c in metadata.get_all("Classifier") or [] if c.startswith(_CLASSIFIER)]
    names = [c.removeprefix(_CLASSIFIER) for c in classifiers] or [metadata.get("License") or ""]
    return " AND ".join(_BY_OLDER_NAME.get(name.strip().lower(), name.strip()) for name in names)


def is_free(expression: str) -> bool:
    """Whether an SPDX expression lets us choose a licence of `FREE_LICENCES`. False for anything else."""
    tokens = re.findall(r"[()]|[^\s()]+", expression)
    try:
        return _either(tokens) and not tokens
    except IndexError:
        return False


def _either(tokens: list[str]) -> bool:
    result = _both(tokens)
    while tokens and tokens[0] == "OR":
        tokens.pop(0)
        result = _both(tokens) or result
    return result


def _both(tokens: list[str]) -> bool:
    result = _one(tokens)
    while tokens and tokens[0] == "AND":
        tokens.pop(0)
        result = _one(tokens) and result
    return result


def _one(tokens: list[str]) -> bool:
    name = tokens.pop(0)
    if name == "(":
        result = _either(tokens)
        return tokens.pop(0) == ")" and result
    if tokens and tokens[0] == "WITH":  # an exception only ever permits more
        del tokens[:2]
    return name in FREE_LICENCES


def advisories(report: Mapping[str, Any], allowed: Mapping[str, str]) -> Advisories:
    """Read a JSON report of pip-audit.

    It calls what the service does not know skipped, and says "no known vulnerabilities" of the rest even where
    nothing is left: on an index without PyPI's API that is every package.
    """
    result = Advisories()
    for package in report["dependencies"]:
        if "skip_reason" in package:
            result.not_audited.append(package["name"])
            continue
        result.num_audited += 1
        for found in package["vulns"]:
            if not allowed.keys() & {found["id"], *found.get("aliases", ())}:
                fixed = ", ".join(found["fix_versions"]) or "no version yet"
                result.problems.append(
                    f"{package['name']} {package['version']}: {found['id']}, fixed in {fixed}"
                )
    return result


def allow_list(text: str) -> dict[str, dict[str, str]]:
    """Read audit-allow.toml: reasons by section and name.

    Raises:
        ValueError: an unknown section, or an entry without a reason.
    """
    sections = tomllib.loads(text)
    if unknown := sections.keys() - {"vulnerabilities", "licences"}:
        raise ValueError(f"audit-allow.toml: there is no section {min(unknown)!r}")
    for section in sections.values():
        for name, reason in section.items():
            if not isinstance(reason, str) or not reason.strip():
                raise ValueError(f"audit-allow.toml: {name} has no reason")
    return {"vulnerabilities": {}, "licences": {}} | sections


def _requirements_of(distribution: Distribution, extras: frozenset[str]) -> list[Requirement]:
    found = []
    for text in distribution.requires or []:
        try:
            requirement = Requirement(text)
        except InvalidRequirement:  # some old metadata; what it needs is then seen when it is installed
            continue
        marker = requirement.marker
        if marker is None or any(marker.evaluate({"extra": extra}) for extra in extras | {""}):
            found.append(requirement)
    return found


def _ask_pip_audit(constraints: Path) -> Mapping[str, Any] | str:
    """The report of pip-audit, or why it could not make one."""
    command = [
        sys.executable,
        "-m",
        "pip_audit",
        "--requirement",
        str(constraints),
        "--no-deps",
        "--disable-pip",
    ]
    options = ["--format", "json", "--progress-spinner", "off", "--timeout", "15"]
    ended = subprocess.run([*command, *options], capture_output=True, text=True, check=False)  # noqa: S603
    try:
        report: Mapping[str, Any] = json.loads(ended.stdout)
    except ValueError:
        return (ended.stderr.strip().splitlines() or ["pip-audit said nothing"])[-1][:300]
    return report


def main() -> int:
    """Run every check, print what is wrong, and return the exit code."""
    constraints = ROOT / "constraints.txt"
    try:
        pinned = pins(constraints.read_text())
        allowed = allow_list((ROOT / "scripts" / "audit-allow.toml").read_text())
    except ValueError as error:
        print(f"audit: {error}")
        return 1
    installed: dict[str, Distribution] = {canonicalize_name(found.name): found for found in distributions()}
    required = requirements(tomllib.loads((ROOT / "pyproject.toml").read_text()))
    problems = pin_problems(required, pinned, installed)
    problems += licence_problems(installed, allowed["licences"])

    report = _ask_pip_audit(constraints)
    found = Advisories() if isinstance(report, str) else advisories(report, allowed["vulnerabilities"])
    problems += found.problems
    gap = report if isinstance(report, str) else found.gap()
    if gap and os.environ.get("AUDIT") == "strict":
        problems.append(f"advisories: {gap}")
    for problem in problems:
        print(f"audit: {problem}")
    if gap and os.environ.get("AUDIT") != "strict":
        print(f"audit: advisories not checked: {gap} (AUDIT=strict makes this an error)")
    print(
        f"audit: {len(pinned)} pins, {len(installed)} licences, advisories on {found.num_audited} packages: "
        f"{len(problems) or 'no'} problem{'' if len(problems) == 1 else 's'}"
    )
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
