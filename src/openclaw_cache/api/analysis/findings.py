"""What is worth doing, in order of money. Pure: reads the sections of an analysis, and a status."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from openclaw_cache.api.analysis.worth import Worth
from openclaw_cache.history.lines import Line
from openclaw_cache.history.table import OTHER
from openclaw_cache.observe.degraded import HARMLESS, effect
from openclaw_cache.types import Json

Severity = Literal["bad", "warn", "info"]

_LEAST_TOKENS: Final = 64
_MOST_BREAKS: Final = 5
_MANY: Final = 3
_ERROR_SHARE: Final = 0.05
_LOW_CACHED_SHARE: Final = 0.2
_LEAST_PROVIDER_TOKENS: Final = 10_000

_WASTE: Final = frozenset({"evicted", "expired", "headers", "store"})
"""Misses of what had been computed before."""

_MISS_ADVICE: Final = {
    "evicted": "give replies more room: result_cache.max_memory, store.max_memory",
    "expired": "keep replies longer, if they stay right so long: result_cache.ttl",
    "headers": "send the same headers with the same request: those that can change a reply are part of its key",
    "unstored": "see the requests: replies that are cut off (max_tokens), refused or filtered are never kept",
    "control": "the clients' own Cache-Control (max-age) refuses what is stored",
    "store": "see why the store does not answer: openclaw-cache status",
}
_BYPASS_ADVICE: Final = {
    "tools": "a stored tool call is dangerous where the world has changed; where it is not, result_cache.tools: cache",
    "sampled": "result_cache.sampled: cache gives repeated questions the same text",
    "disabled": "switch result_cache.enabled on",
    "no-cache": "the clients ask for new replies (Cache-Control: no-cache)",
    "no-store": "the clients forbid storing (Cache-Control: no-store)",
    "degraded": "see why the store does not answer: openclaw-cache status",
    "key-rights": "the clients' keys may not use the cache: the field cache of the key",
    "duplicate-key": "the client writes a JSON key twice: mend it there",
    "number-range": "the client writes numbers beyond 64 bits: mend it there",
}


@dataclass(frozen=True, slots=True)
class Finding:
    """Something to do, and what it would bring."""

    id: str
    """One word; with `about` it is unique."""
    about: str
    severity: Severity
    text: str
    advice: str
    num_tokens: float = 0.0
    """Computed in this time, and needlessly."""
    usd: float | None = None
    """What they cost; None where nothing of it has a price."""

    def shown(self, worth: Worth) -> Json:
        """As JSON, with what it is worth."""
        return {
            "id": self.id,
            "about": self.about,
            "severity": self.severity,
            "text": self.text,
            "advice": self.advice,
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
        text = "the store does not answer: nothing is shared or kept"
        yield Finding("store_down", "store", "bad", text, str(store.get("reason") or "see that it runs"))
    elif fault := store.get("fault"):
        advice = "all gateways of a fleet need the same server.secret_file, and another fleet another store"
        yield Finding("store_down", "store", "bad", f"the store is not used: {fault}", advice)
    for what, num in sections["waste"]["degraded"].items():
        text = f"{what}: failed {_times(num)}; {effect(what)}"
        advice = "the server's log says what failed, docs/observability.md what each word means"
        yield Finding("degraded", what, "info" if what in HARMLESS else "bad", text, advice)
    for upstream in status.get("upstreams") or ():
        name = str(upstream["name"])
        if not upstream.get("is_up", upstream.get("state") == "ready"):
            reason = upstream.get("reason") or upstream.get("state") or "it fails"
            advice = "requests for its models fail, or go to another one"
            yield Finding("upstream_down", name, "bad", f"upstream {name} is not up: {reason}", advice)
    requests = sections["requests"]
    num_errors, num = requests["outcomes"].get("error", 0), requests["num"]
    if num_errors >= _MANY and num_errors > _ERROR_SHARE * num:
        failed = requests["failed_with"]
        what = ", ".join(f"{num:,} with {status}" for status, num in failed.items())
        named = "".join(f"; {word}: {num:,}" for word, num in requests["errors"].items())
        text = f"{num_errors:,} of {num:,} requests failed: {what}{named}"
        most = next(iter(failed), "unknown")
        yield Finding("errors", most, "bad", text, "GET /admin/requests?outcome=error lists them")


def _broken_prefixes(prefixes: Mapping[str, Json]) -> Iterator[Finding]:
    for row in prefixes["causes"][:_MOST_BREAKS]:
        lost = row["lost_tokens"]
        if lost >= _LEAST_TOKENS:
            what = "other places" if row["label"] == OTHER else row["label"]
            text = f"prompts broke: {what}; {_times(row['num'])}, {lost:,} tokens computed again"
            advice = row["advice"] or "openclaw-cache doctor --live names the last places"
            yield Finding("prefix_break", row["cause"], "warn", text, advice, lost, row["lost_usd"])


def _missed(misses: Sequence[Mapping[str, Json]]) -> Iterator[Finding]:
    for row in misses:
        reason, num = row["reason"], row["num"]
        advice = _MISS_ADVICE.get(reason)
        if advice is not None and num >= _MANY:
            text = f"{num:,} look-ups missed: {reason}"
            cost = (row["computed_tokens"], row["spent_usd"]) if reason in _WASTE else (0, None)
            yield Finding("missed", reason, "warn", text, advice, *cost)


def _asked_again(prompts: Sequence[Mapping[str, Json]], worth: Worth) -> Iterator[Finding]:
    """The prompt that was computed again most often."""
    for row in prompts:
        name, num = row["prompt_id"], row["num_computed"]
        if num >= _MANY:
            asked = f"asked {_times(row['num_asked'])}, and {num:,} times a model computed the answer"
            advice = "GET /admin/requests tells whose it is, and GET /admin/explain/ID why"
            num_tokens = row["tokens"] / row["num_asked_most"] * (num - 1)
            usd = worth.usd(num_tokens, row["model"])
            text = f"prompt {name} of {row['model']} was {asked}"
            yield Finding("asked_again", name, "info", text, advice, num_tokens, usd)
            return


def _bypassed(requests: Mapping[str, Json]) -> Iterator[Finding]:
    for reason, num in requests["bypasses"].items():
        if num >= _MANY and (advice := _BYPASS_ADVICE.get(reason)) is not None:
            yield Finding(
                "bypassed", reason, "info", f"{num:,} requests bypassed the cache: {reason}", advice
            )


def _for_the_faq(semantic: Mapping[str, Json], worth: Worth) -> Iterator[Finding]:
    suggestions = semantic.get("suggestions") or []
    if suggestions:
        num_tokens = sum(row.get("saved_tokens_estimate") or 0 for row in suggestions)
        text = f"{len(suggestions):,} questions are asked again and again without a stored answer"
        advice = "write answers, and load them with: openclaw-cache warm --type semantic FILE"
        yield Finding("faq", "semantic", "info", text, advice, num_tokens, worth.usd(num_tokens))


def _unhinted(status: Mapping[str, Json], lines: Mapping[str, Line], prices_known: bool) -> Iterator[Finding]:
    """Providers whose own cache reads little of what they are sent."""
    for upstream in status.get("upstreams") or ():
        name, row = str(upstream["name"]), lines.get(upstream["name"])
        if row is None or upstream.get("kind") == "embedded" or not prices_known:
            continue
        cached = row.upstream_cached_tokens
        prompt = row.computed_tokens + cached
        if prompt >= _LEAST_PROVIDER_TOKENS and cached < _LOW_CACHED_SHARE * prompt:
            text = f"upstream {name} reads {cached / prompt:.0%} of its prompts from its own cache"
            advice = f"upstreams, {name}: cache_hints: auto; the causes of broken prefixes say what else"
            yield Finding("provider_cache", name, "info", text, advice)


def _times(num: int) -> str:
    return "once" if num == 1 else f"{num:,} times"
