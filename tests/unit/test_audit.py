"""The audit of dependencies: what it takes for a problem, and what for none."""

from __future__ import annotations

import importlib.util
import sys
from email.message import Message
from importlib.metadata import Distribution, distribution
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from packaging.requirements import Requirement

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "audit.py"


def _loaded() -> ModuleType:
    spec = importlib.util.spec_from_file_location("audit", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


audit = _loaded()


class _Installed(Distribution):
    """A distribution that requires these."""

    def __init__(self, *requires: str) -> None:
        self._requires = requires

    @property
    def requires(self) -> list[str]:
        return list(self._requires)

    def read_text(self, filename: str) -> None:
        return None

    def locate_file(self, path: Any) -> Any:
        raise NotImplementedError


def test_pins_are_read_by_their_canonical_names() -> None:
    assert audit.pins("# why\n\nPyYAML==6.0.4  # why\ntyping_extensions==4.16.0\ntorch==2.13.0+cpu\n") == {
        "pyyaml": "6.0.4",
        "typing-extensions": "4.16.0",
        "torch": "2.13.0+cpu",
    }


@pytest.mark.parametrize(
    "line", ["requests", "requests>=2", "requests==2.*", "-r other.txt", "a @ https://host/a"]
)
def test_a_line_that_pins_nothing_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match="is no exact pin"):
        audit.pins(f"pytest==9.2.0\n{line}\n")


def test_everything_a_pyproject_names_is_required() -> None:
    project = {"dependencies": ["a>=1"], "optional-dependencies": {"x": ["b"], "y": ["c[d]>2"]}}
    found = audit.requirements({"build-system": {"requires": ["hatchling"]}, "project": project})
    assert [str(requirement) for requirement in found] == ["hatchling", "a>=1", "b", "c[d]>2"]


@pytest.mark.parametrize(
    ("required", "pinned", "problems"),
    [
        (["a>=1"], {"a": "1.0"}, []),
        (["A_b>=1"], {"a-b": "1.0"}, []),
        (["a>=2"], {"a": "1.0"}, ["constraints.txt pins a==1.0, but pyproject.toml requires a>=2"]),
        (["a>=1"], {"a": "2.0rc1"}, []),
        (["a"], {}, ["a, which pyproject.toml requires, is not pinned in constraints.txt"]),
        (["has"], {"has": "1"}, ["further, which has requires, is not pinned in constraints.txt"]),
        (["has"], {"has": "1", "further": "1"}, []),
        (
            ["has[more]"],
            {"has": "1", "further": "1"},
            ["extra, which has requires, is not pinned in constraints.txt"],
        ),
        (["loop"], {"loop": "1"}, []),
        (["pip"], {}, []),
    ],
)
def test_what_is_required_is_pinned_to_a_version_that_fits(
    required: list[str], pinned: dict[str, str], problems: list[str]
) -> None:
    installed = {
        "has": _Installed("further", "extra; extra == 'more'", "winonly; sys_platform == 'nowhere'"),
        "loop": _Installed("loop"),
    }
    assert audit.pin_problems(map(Requirement, required), pinned, installed) == problems


@pytest.mark.parametrize(
    ("expression", "free"),
    [
        ("MIT", True),
        ("MIT OR GPL-3.0-only", True),
        ("MIT AND GPL-3.0-only", False),
        ("MPL-2.0 AND (Apache-2.0 OR MIT)", True),
        ("MPL-2.0 AND (GPL-2.0-only OR AGPL-3.0-only)", False),
        ("(GPL-2.0-only AND MIT) OR ISC", True),
        ("Apache-2.0 WITH LLVM-exception AND MIT", True),
        ("GPL-3.0-only WITH GCC-exception-3.1", False),
        ("LGPL-2.1-or-later", False),
        ("", False),
        ("UNKNOWN", False),
        ("MIT OR", False),
        ("(MIT", False),
        ("MIT GPL-3.0-only", False),
        ("Proprietary, ask us", False),
    ],
)
def test_a_licence_is_free_if_the_expression_lets_us_choose_a_free_one(expression: str, free: bool) -> None:
    assert audit.is_free(expression) is free


@pytest.mark.parametrize(
    ("headers", "licence"),
    [
        ([("License-Expression", "MIT"), ("License", "see file")], "MIT"),
        (
            [("Classifier", "License :: OSI Approved :: Apache Software License"), ("License", "x")],
            "Apache-2.0",
        ),
        (
            [
                ("Classifier", "License :: OSI Approved :: MIT License"),
                ("Classifier", "License :: DFSG approved"),
                ("Classifier", "License :: OSI Approved :: GNU General Public License v3 (GPLv3)"),
            ],
            "MIT AND GNU General Public License v3 (GPLv3)",
        ),
        ([("License", "Apache 2.0 License")], "Apache-2.0"),
        ([("License", "BSD-2-Clause")], "BSD-2-Clause"),
        ([], ""),
    ],
)
def test_the_licence_is_read_from_the_most_exact_statement(
    headers: list[tuple[str, str]], licence: str
) -> None:
    metadata = Message()
    for name, value in headers:
        metadata[name] = value
    assert audit.licence_of(metadata) == licence


def test_real_metadata_of_both_kinds_is_judged() -> None:
    installed = {name: distribution(name) for name in ("pytest", "orjson", "packaging")}
    assert audit.licence_problems(installed, {}) == []


# Cut from reports of pip-audit 2.10.1: one about an old version, one from an index without advisories.
VULNERABLE = {
    "name": "jinja2",
    "version": "2.4.1",
    "vulns": [
        {
            "id": "PYSEC-2019-217",
            "fix_versions": ["2.10.1"],
            "aliases": ["CVE-2019-10906"],
            "description": "…",
        },
        {"id": "PYSEC-2021-66", "fix_versions": [], "aliases": ["CVE-2020-28493"], "description": "…"},
    ],
}
SKIPPED = {
    "name": "aiohttp",
    "skip_reason": "Dependency not found on PyPI and could not be audited: aiohttp (3.14.5)",
}


def test_a_known_vulnerability_is_a_problem_with_its_id_and_the_version_that_fixes_it() -> None:
    found = audit.advisories({"dependencies": [VULNERABLE], "fixes": []}, {})
    assert found.problems == [
        "jinja2 2.4.1: PYSEC-2019-217, fixed in 2.10.1",
        "jinja2 2.4.1: PYSEC-2021-66, fixed in no version yet",
    ]
    assert found.gap() == ""


def test_a_vulnerability_may_be_let_pass_by_any_of_its_names() -> None:
    allowed = {"CVE-2019-10906": "no sandbox here", "PYSEC-2021-66": "no urlize here"}
    assert audit.advisories({"dependencies": [VULNERABLE], "fixes": []}, allowed).problems == []


def test_packages_that_the_service_does_not_know_are_not_taken_for_sound() -> None:
    some = audit.advisories({"dependencies": [VULNERABLE, SKIPPED], "fixes": []}, {})
    assert some.num_audited == 1
    assert some.gap() == "it does not know aiohttp"
    none = audit.advisories({"dependencies": [SKIPPED], "fixes": []}, {})
    assert none.num_audited == 0
    assert "cannot be reached" in none.gap()


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[vulnerabilities]\nGHSA-1 = ''", "GHSA-1 has no reason"),
        ("[licences]\na = '  '", "a has no reason"),
        ("[licences]\na = 1", "a has no reason"),
        ("[licenses]\na = 'why'", "no section 'licenses'"),
    ],
)
def test_nothing_is_let_pass_without_a_reason(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        audit.allow_list(text)


def test_our_own_allow_list_is_well_formed() -> None:
    allowed = audit.allow_list((SCRIPT.parent / "audit-allow.toml").read_text())
    assert set(allowed) == {"vulnerabilities", "licences"}
