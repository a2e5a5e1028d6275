"""The files of `deploy/`, as tests read them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

Json = Any
REPO = Path(__file__).parents[2]
PROMETHEUS = REPO / "deploy" / "prometheus"
GRAFANA = REPO / "deploy" / "grafana"
DASHBOARD: Json = json.loads((GRAFANA / "openclaw-cache.json").read_text())
_METRIC = re.compile(r"\b(?:openclaw_cache|process)_[a-z0-9_]+\b")
_RECORDED = re.compile(r"\b[a-z_]+:[a-z0-9_]+:[a-z0-9_]+\b")
_VARIABLES = {"$job": ".*", "$instance": ".*", "$__rate_interval": "10s", "$__range": "1m"}


@dataclass(frozen=True, slots=True)
class Asked:
    """An expression, and where it stands."""

    where: str
    expr: str

    @property
    def metrics(self) -> set[str]:
        """The names of the metrics that it reads, without those that are recorded."""
        return set(_METRIC.findall(_RECORDED.sub("", self.expr)))

    @property
    def recorded(self) -> set[str]:
        """The recorded series that it reads."""
        return set(_RECORDED.findall(self.expr))

    @property
    def plain(self) -> str:
        """As Prometheus takes it: with values in the place of Grafana's variables."""
        expr = self.expr
        for name, value in _VARIABLES.items():
            expr = expr.replace(name, value)
        assert "$" not in expr, f"{self.where}: an unknown variable in {expr}"
        return expr


def panels() -> list[Json]:
    """Every panel of the dashboard that shows something."""
    return [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]


def of_dashboard() -> Iterator[Asked]:
    """Every expression of the dashboard."""
    for panel in panels():
        for target in panel["targets"]:
            yield Asked(f"{panel['title']} {target['refId']}", target["expr"])
    for annotation in DASHBOARD["annotations"]["list"]:
        if "expr" in annotation:
            yield Asked(f"annotation {annotation['name']}", annotation["expr"])


def rules(file: str) -> list[Json]:
    """The rules of a file."""
    groups = yaml.safe_load((PROMETHEUS / file).read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def of_rules(file: str) -> Iterator[Asked]:
    """Every expression of a file of rules."""
    for rule in rules(file):
        yield Asked(rule.get("alert") or rule["record"], rule["expr"])


def base_name(name: str) -> str:
    """A metric's name without what a histogram's parts add to it."""
    return re.sub(r"_(?:bucket|count|sum)$", "", name)
