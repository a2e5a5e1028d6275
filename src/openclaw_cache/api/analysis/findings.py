"""What is worth doing, in order of money. Pure: reads the sections of an analysis, and a status."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from openclaw_cache.api import break_labels
from openclaw_cache.api.analysis.english import ENGLISH
from openclaw_cache.api.analysis.worth import Worth
from openclaw_cache.api.sentences import Sentence, all_shown, all_spoken, said
from openclaw_cache.history.lines import Line
from openclaw_cache.history.table import OTHER
from openclaw_cache.observe.degraded import HARMLESS
from openclaw_cache.prefix.causes import CAUSES
from openclaw_cache.types import Json

Severity = Literal["bad", "warn", "info"]

_LEAST_TOKENS: Final = 64
_MOST_BREAKS: Final = 5
_MANY: Final = 3
_ERROR_SHARE: Final = 0.05
_LOW_CACHED_SHARE: Final = 0.2
_LEAST_PROVIDER_TOKENS: Final = 10_000

_WASTE: Final = frozenset({"corrupt", "evicted", "expired", "headers", "store"})
"""Misses of what had been computed before."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something to do, and what it would bring."""

    id: str
    """One word; with `about` it is unique."""
    about: str
    severity: Severity
    told: Sequence[Sentence]
    """What was found."""
    advised: Sequence[Sentence]
    """What to do."""
    num_tokens: float = 0.0
    """Computed in this time, and needlessly."""
    usd: float | None = None
    """What they cost; None where nothing of it has a price."""

    def shown(self, worth: Worth) -> Json:
        """As JSON, in English and as data, with what it is worth."""
        return {
            "id": self.id,
            "about": self.about,
            "severity": self.severity,
            "text": all_spoken(self.told, ENGLISH),
            "advice": all_spoken(self.advised, ENGLISH),
            "said": all_shown(self.told),
            "advised": all_shown(self.advised),
            **worth.of(self.num_tokens, self.usd),
        }


def findings(
    sections: Mapping[str, Json], status: Mapping[str, Json], worth: Worth, prices_known: bool
) -> list[Json]:
    """All findings, what fails first, then by money, and by tokens where it is the same or not known.

    Args:
        sections: `requests`, `misses`, `prefixes`, `top_prompts`, `waste`, `semantic`, `lines` of an analysis.
        status: What `/admin/status` says.
        worth: What a token is worth.
        prices_known: Whether any model has a price.
    """
    found = [
        *_failing(sections, status),
        *_broken_prefixes(sections["prefixes"]),
        *_missed(sections["misses"]),
        *_asked_again(sections["top_prompts"], worth),
        *_bypassed(sections["requests"]),
        *_for_the_faq(sections.get("semantic") or {}, worth),
        *_unhinted(status, sections["lines"], prices_known),
    ]
    order = sorted(found, key=lambda f: (f.severity != "bad", -(f.usd or 0.0), -f.num_tokens, f.id, f.about))
    return [finding.shown(worth) for finding in order]


def _failing(sections: Mapping[str, Json], status: Mapping[str, Json]) -> Iterator[Finding]:
    store = status.get("store") or {}
    if store and not store.get("up", True):
        reason = store.get("reason")
        advice = said("advice.store_reason", reason=str(reason)) if reason else said("advice.store_down")
        yield Finding("store_down", "store", "bad", [said("finding.store_down")], [advice])
    elif fault := store.get("fault"):
        told, advice = said("finding.store_unused", fault=str(fault)), said("advice.store_unused")
        yield Finding("store_down", "store", "bad", [told], [advice])
    for what, num in sections["waste"]["degraded"].items():
        effect = f"effect.{what}"
        told = said("finding.degraded", what=what, n=num)
        meant = said(effect if effect in ENGLISH else "effect.other")
        severity: Severity = "info" if what in HARMLESS else "bad"
        yield Finding("degraded", what, severity, [told, meant], [said("advice.degraded")])
    for upstream in status.get("upstreams") or ():
        name = str(upstream["name"])
        if not upstream.get("is_up", upstream.get("state") == "ready"):
            yield Finding(
                "upstream_down", name, "bad", [_down(name, upstream)], [said("advice.upstream_down")]
            )
    yield from _errors(sections["requests"])


def _down(name: str, upstream: Mapping[str, Json]) -> Sentence:
    if reason := upstream.get("reason"):
        return said("finding.upstream_down", name=name, reason=str(reason))
    if state := upstream.get("state"):
        return said("finding.upstream_state", name=name, state=str(state))
    return said("finding.upstream_fails", name=name)


def _errors(requests: Mapping[str, Json]) -> Iterator[Finding]:
    num_errors, num = requests["outcomes"].get("error", 0), requests["num"]
    if num_errors >= _MANY and num_errors > _ERROR_SHARE * num:
        failed = requests["failed_with"]
        statuses = [said("finding.errors_with", num=num, status=status) for status, num in failed.items()]
        told = said("finding.errors", num_errors=num_errors, n=num, statuses=statuses)
        named = [said("finding.errors_named", word=word, num=num) for word, num in requests["errors"].items()]
        most = next(iter(failed), "unknown")
        yield Finding("errors", most, "bad", [told, *named], [said("advice.errors")])


def _broken_prefixes(prefixes: Mapping[str, Json]) -> Iterator[Finding]:
    for row in prefixes["causes"][:_MOST_BREAKS]:
        cause, lost = row["cause"], row["lost_tokens"]
        if lost >= _LEAST_TOKENS:
            cost = said("finding.prefix_break_cost", n=row["num"], lost_tokens=lost)
            advice = said(f"fix.{cause}" if cause in CAUSES else "advice.prefix_break")
            told = [_place(row["label"], cause), cost]
            yield Finding("prefix_break", cause, "warn", told, [advice], lost, row["lost_usd"])


def _place(label: str, cause: str) -> Sentence:
    if label == OTHER:
        return said("finding.prefix_break_elsewhere")
    what = break_labels.read(label)
    if what is None:
        return said("finding.prefix_break_at", label=label, cause=cause)
    return said("finding.prefix_break", what=what)


def _missed(misses: Sequence[Mapping[str, Json]]) -> Iterator[Finding]:
    for row in misses:
        reason, num = row["reason"], row["num"]
        advice = f"advice.missed.{reason}"
        if advice in ENGLISH and num >= _MANY:
            told = said("finding.missed", n=num, reason=reason)
            cost = (row["computed_tokens"], row["spent_usd"]) if reason in _WASTE else (0, None)
            yield Finding("missed", reason, "warn", [told], [said(advice)], *cost)


def _asked_again(prompts: Sequence[Mapping[str, Json]], worth: Worth) -> Iterator[Finding]:
    """The prompt that was computed again most often."""
    for row in prompts:
        name, model, num = row["prompt_id"], row["model"], row["num_computed"]
        if num >= _MANY:
            told = said("finding.asked_again", prompt=name, model=model, n=row["num_asked"], num_computed=num)
            num_tokens = row["tokens"] / row["num_asked_most"] * (num - 1)
            usd = worth.usd(num_tokens, model)
            yield Finding("asked_again", name, "info", [told], [said("advice.asked_again")], num_tokens, usd)
            return


def _bypassed(requests: Mapping[str, Json]) -> Iterator[Finding]:
    for reason, num in requests["bypasses"].items():
        advice = f"advice.bypassed.{reason}"
        if num >= _MANY and advice in ENGLISH:
            told = said("finding.bypassed", n=num, reason=reason)
            yield Finding("bypassed", reason, "info", [told], [said(advice)])


def _for_the_faq(semantic: Mapping[str, Json], worth: Worth) -> Iterator[Finding]:
    suggestions = semantic.get("suggestions") or []
    if suggestions:
        num_tokens = sum(row.get("saved_tokens_estimate") or 0 for row in suggestions)
        told, usd = said("finding.faq", n=len(suggestions)), worth.usd(num_tokens)
        yield Finding("faq", "semantic", "info", [told], [said("advice.faq")], num_tokens, usd)


def _unhinted(status: Mapping[str, Json], lines: Mapping[str, Line], prices_known: bool) -> Iterator[Finding]:
    """Providers whose own cache reads little of what they are sent."""
    for upstream in status.get("upstreams") or ():
        name, row = str(upstream["name"]), lines.get(upstream["name"])
        if row is None or upstream.get("kind") == "embedded" or not prices_known:
            continue
        cached = row.upstream_cached_tokens
        prompt = row.computed_tokens + cached
        if prompt >= _LEAST_PROVIDER_TOKENS and cached < _LOW_CACHED_SHARE * prompt:
            told = said("finding.provider_cache", name=name, cached_ratio=round(cached / prompt, 2))
            yield Finding("provider_cache", name, "info", [told], [said("advice.provider_cache", name=name)])
