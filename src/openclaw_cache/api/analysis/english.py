"""What an analysis says, in English: the templates of all its sentences, by code.

The dashboard has each code in its languages (`dashboard/i18n`), and tests hold its English to this.
"""

from __future__ import annotations

from typing import Final

from openclaw_cache.api.break_labels import LABELS
from openclaw_cache.observe.degraded import effect
from openclaw_cache.observe.metrics import DEGRADED
from openclaw_cache.prefix.causes import CAUSES

_FINDINGS: Final = {
    "finding.store_down": "the store does not answer: nothing is shared or kept",
    "finding.store_unused": "the store is not used: {fault}",
    "finding.degraded": "{what}: failed {n:,} times",
    "finding.degraded.one": "{what}: failed once",
    "finding.upstream_down": "upstream {name} is not up: {reason}",
    "finding.upstream_state": "upstream {name} is not up: {state}",
    "finding.upstream_fails": "upstream {name} is not up: it fails",
    "finding.errors": "{num_errors:,} of {n:,} requests failed: {statuses}",
    "finding.errors_with": "{num:,} with {status}",
    "finding.errors_named": "{word}: {num:,}",
    "finding.prefix_break": "prompts broke: {what}",
    "finding.prefix_break_at": "prompts broke: {label}",
    "finding.prefix_break_elsewhere": "prompts broke: other places",
    "finding.prefix_break_cost": "{n:,} times, {lost_tokens:,} tokens computed again",
    "finding.prefix_break_cost.one": "once, {lost_tokens:,} tokens computed again",
    "finding.missed": "{n:,} look-ups missed: {reason}",
    "finding.asked_again": "prompt {prompt} of {model} was asked {n:,} times, and {num_computed:,} times a model "
    "computed the answer",
    "finding.asked_again.one": "prompt {prompt} of {model} was asked once, and {num_computed:,} times a model "
    "computed the answer",
    "finding.bypassed": "{n:,} requests bypassed the cache: {reason}",
    "finding.faq": "{n:,} questions are asked again and again without a stored answer",
    "finding.provider_cache": "upstream {name} reads {cached_ratio:.0%} of its prompts from its own cache",
}

_ADVICE: Final = {
    "advice.store_down": "see that it runs",
    "advice.store_reason": "{reason}",
    "advice.store_unused": "all gateways of a fleet need the same server.secret_file, and another fleet another store",
    "advice.degraded": "the server's log says what failed, docs/observability.md what each word means",
    "advice.upstream_down": "requests for its models fail, or go to another one",
    "advice.errors": "GET /admin/requests?outcome=error lists them",
    "advice.prefix_break": "openclaw-cache doctor --live names the last places",
    "advice.missed.evicted": "give replies more room: result_cache.max_memory, store.max_memory",
    "advice.missed.expired": "keep replies longer, if they stay right so long: result_cache.ttl",
    "advice.missed.headers": "send the same headers with the same request: those that can change a reply are part of "
    "its key",
    "advice.missed.unstored": "see the requests: replies that are cut off (max_tokens), refused or filtered are never "
    "kept",
    "advice.missed.control": "the clients' own Cache-Control (max-age) refuses what is stored",
    "advice.missed.corrupt": "a stored reply was damaged, or written with another key: see the store's disk and log",
    "advice.missed.store": "see why the store does not answer: openclaw-cache status",
    "advice.asked_again": "GET /admin/requests tells whose it is, and GET /admin/explain/ID why",
    "advice.bypassed.tools": "a stored tool call is dangerous where the world has changed; where it is not, "
    "result_cache.tools: cache",
    "advice.bypassed.sampled": "result_cache.sampled: cache gives repeated questions the same text",
    "advice.bypassed.disabled": "switch result_cache.enabled on",
    "advice.bypassed.no-cache": "the clients ask for new replies (Cache-Control: no-cache)",
    "advice.bypassed.no-store": "the clients forbid storing (Cache-Control: no-store)",
    "advice.bypassed.degraded": "see why the store does not answer: openclaw-cache status",
    "advice.bypassed.key-rights": "the clients' keys may not use the cache: the field cache of the key",
    "advice.bypassed.duplicate-key": "the client writes a JSON key twice: mend it there",
    "advice.bypassed.number-range": "the client writes numbers beyond 64 bits: mend it there",
    "advice.faq": "write answers, and load them with: openclaw-cache warm --type semantic FILE",
    "advice.provider_cache": "upstreams, {name}: cache_hints: auto; the causes of broken prefixes say what else",
}

_DIAGNOSIS: Final = {
    "diagnosis.1": "Has the hit ratio fallen abnormally?",
    "diagnosis.2": "How is the cache's memory used?",
    "diagnosis.3": "Is what is cached right?",
    "diagnosis.4": "Do versions fit together?",
    "diagnosis.5": "Has the load changed?",
    "seen.ratio_alone": "{layer} {ratio:.1%}, nothing to compare with",
    "seen.ratio": "{layer} {ratio:.1%}, before {before_ratio:.1%}",
    "seen.ratio_fallen": "{layer} {ratio:.1%}, before {before_ratio:.1%}: fallen",
    "seen.no_lookup": "nothing was looked up",
    "seen.no_figures": "no figures of this time",
    "seen.used": "{layer} {tier} {used_ratio:.0%} full",
    "seen.evicted_asked_again": "{num_evicted:,} of {n:,} misses had been evicted",
    "seen.full_tiers_evict": "full tiers evict, which costs little until evicted prompts are asked again",
    "seen.no_bound": "no tier has a bound",
    "seen.unreadable": "{n:,} stored replies could not be read ({word}); each was a miss",
    "seen.wrong_ratio": "by meaning, {domain}: {wrong_ratio:.1%} wrong, promised {max_wrong_ratio:.1%}",
    "seen.books": "the KV cache's books add up",
    "seen.checksums": "every stored reply that was read had its checksum",
    "seen.store_fault": "{fault}",
    "seen.version_alone": "{n:,} misses because the model's identity or epoch changed, and nobody invalidated it",
    "seen.version": "{n:,} misses after {num_invalidations:,} invalidations: they heal as replies come in",
    "seen.no_version": "no miss is due to a version",
    "seen.too_few": "{n:,} requests, {num_before:,} in the time before: too few to compare",
    "seen.requests": "{n:,} requests, before {num_before:,}",
    "seen.moved": "{moved_ratio:.0%} of them of another agent or model",
    "seen.moved_new": "{moved_ratio:.0%} of them of another agent or model (new: {kinds})",
    "seen.kind": "{agent} with {model}",
    "seen.prompts": "prompts of {n:,} tokens, before {before_tokens:,}",
}

ENGLISH: Final = {
    **_FINDINGS,
    **_ADVICE,
    **_DIAGNOSIS,
    **{f"effect.{what}": effect(what) for what in (*DEGRADED, "other")},
    **{f"fix.{word}": cause.fix for word, cause in CAUSES.items()},
    **LABELS,
}
"""All templates, by their code."""
