"""Tools in an order that does not depend on the request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from openclaw_cache.canonical.rule import Rule, ToolOrder
from openclaw_cache.types import Json

_MARK: Final = "cache_control"


def ordered(
    tools: Json, system: str, rules: Sequence[Rule]
) -> tuple[ToolOrder, list[Json], list[Json]] | None:
    """The rule for these tools, all of them in its order, and those that changed places; None where none did.

    A mark for a provider's cache on the last tool means all, and stays on whichever is last. Left alone: tools with
    a mark elsewhere, and those that one cannot tell apart by name.

    Args:
        tools: The member of the body.
        system: How the system prompt begins.
        rules: Those that may be applied.
    """
    rule = next((r for r in rules if isinstance(r, ToolOrder) and system.startswith(r.prompt_begins)), None)
    if rule is None or not isinstance(tools, list) or len(tools) < 2:
        return None
    tools, mark = _unmarked(tools)
    names = [_name(tool) for tool in tools]
    if "" in names or len(set(names)) != len(names):
        return None
    order = sorted(range(len(tools)), key=lambda i: (rule.ranks.get(names[i], rule.rank_of_others), names[i]))
    moved = [tools[i] for place, i in enumerate(order) if place != i]
    if not moved:
        return None
    *others, last = (tools[i] for i in order)
    return rule, [*others, {**last, **mark}], moved


def _unmarked(tools: list[Json]) -> tuple[list[Json], dict[str, Json]]:
    """The tools without a mark on the last one, and that mark as a member, if it has one."""
    last = tools[-1]
    if not isinstance(last, dict) or _MARK not in last:
        return tools, {}
    return [*tools[:-1], {name: last[name] for name in last if name != _MARK}], {_MARK: last[_MARK]}


def _name(tool: Json) -> str:
    """Empty where it has none, or must stay where it is."""
    if not isinstance(tool, dict) or _MARK in tool:
        return ""
    function: Any = tool.get("function")
    if isinstance(function, dict):
        tool = function if _MARK not in function else {}
    name = tool.get("name") or tool.get("type")
    return name if isinstance(name, str) else ""
