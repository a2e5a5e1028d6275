"""Turns the section `semantic_cache` into objects."""

from __future__ import annotations

from collections.abc import Callable

import structlog

from openclaw_cache.embedding.batching import BatchingEmbedder
from openclaw_cache.embedding.embedder import Vector
from openclaw_cache.embedding.shared import Embedders
from openclaw_cache.errors import ConfigError, EmbeddingError
from openclaw_cache.gateway.gateway import Gateway
from openclaw_cache.gateway.semantic.judge import Judge
from openclaw_cache.gateway.semantic.step import SemanticStep
from openclaw_cache.gateway.semantic.verification import Verifier
from openclaw_cache.semantic import guards
from openclaw_cache.semantic.agreement import scale_of
from openclaw_cache.semantic.cache import SemanticCache
from openclaw_cache.semantic.calibration import ANCHORS, Calibration, ceiling, promised
from openclaw_cache.semantic.calibration_file import load, name_of, shipped
from openclaw_cache.semantic.decay import Decay, Volatility
from openclaw_cache.semantic.domains import Domains
from openclaw_cache.semantic.entry_evidence import Curve, EntryBook
from openclaw_cache.semantic.evidence import EvidenceBook
from openclaw_cache.semantic.labelled import DEFAULT_DOMAIN
from openclaw_cache.semantic.learning import DomainRule, Learning
from openclaw_cache.semantic.partitions import Partitions
from openclaw_cache.semantic.sampling import Sampler
from openclaw_cache.semantic.scoring import Scorer
from openclaw_cache.settings import SemanticCacheSettings

_log = structlog.get_logger()


class SemanticBuild:
    """Builds the semantic cache of one gateway, in two steps: what can be wrong first, what takes long later.

    Args:
        settings: Its section.
        api_key: For an embedder behind a URL.
        embedders: Where the embedder is had from.
        say: Told, line by line, what becomes of the embedder, and of an unsafe choice.

    Raises:
        ConfigError: naming the setting.
    """

    def __init__(
        self,
        settings: SemanticCacheSettings,
        api_key: str | None,
        embedders: Embedders,
        say: Callable[[str], None],
    ) -> None:
        self._settings = settings
        self._say = say
        if settings.scope == "last_turn":
            say(
                "semantic_cache.scope: last_turn is unsafe: earlier turns are not compared, "
                'and "cancel it" gets an answer from any conversation'
            )
        self.embedder = embedders.get(
            settings.embedder,
            model=settings.embedder_model,
            api_key=api_key,
            timeout_s=settings.embedder_timeout,
            on_event=lambda line: say(f"embedder: {line}"),
            section="semantic_cache",
        )
        self._calibration = _calibration(settings)
        try:
            self._scorer = Scorer(self._calibration)
        except ValueError as e:
            raise ConfigError(f"semantic_cache.calibration: {e}") from None

    async def domains(self) -> Domains:
        """The domains that the operator gave examples of, once the embedder is there."""
        examples: dict[str, list[Vector]] = {}
        for name, own in self._settings.domains.items():
            try:
                vectors = [vector for text in own.examples for vector in await self.embedder.embed([text])]
            except EmbeddingError as e:
                _log.warning(
                    "a domain's examples have no vectors: it must be named", domain=name, reason=str(e)
                )
                continue
            examples[name] = [vector for vector in vectors if vector is not None]
        return Domains(examples)

    def step(
        self, gateway: Gateway, domains: Domains, kept: bytes, keep: Callable[[bytes], None]
    ) -> SemanticStep:
        """The cache, once the embedder is there.

        Args:
            gateway: What it is a step of.
            domains: How the domain of a question is found.
            kept: What was learnt before.
            keep: Takes what is to outlast a restart.
        """
        settings, embedder = self._settings, self.embedder
        learning = self._learning(kept, keep)
        for name in [DEFAULT_DOMAIN, *settings.domains]:
            why, limit = learning.why_off(name), learning.limit(name)
            scales = {} if limit is None else self._calibration.scales
            if mute := [kind for kind, knots in scales.items() if limit and ceiling(knots) <= limit]:
                why = f"no score of {', '.join(mute)} pairs reaches {limit:.2f}; a higher max_wrong_ratio lowers it"
            if why:
                self._say(f"semantic cache, {name}: {'some' if mute else 'all'} is left to the model: {why}")
        batching = BatchingEmbedder(embedder, timeout_s=settings.embedder_timeout)
        cache = SemanticCache(
            batching,
            embedder.fingerprint,
            embedder.num_dims,
            Partitions(settings.max_entries, settings.max_memory),
            guards.ALL,
            self._scorer,
            learning,
            domains,
        )
        judge = None
        if settings.judge is not None:
            judge = Judge(settings.judge.model, gateway.dispatch, settings.judge.timeout, gateway.metrics)
        return SemanticStep(
            cache=cache,
            results=gateway.cache,
            verifier=self._verifier(gateway, batching, learning),
            scope=settings.scope,
            by_default=not settings.opt_in,
            ignore=gateway.readings.ignore,
            wait_s=settings.wait,
            store_timeout_s=gateway.store_timeout_s,
            metrics=gateway.metrics,
            on_degraded=gateway.on_degraded,
            judge=judge,
            wall=gateway.wall,
        )

    def _verifier(self, gateway: Gateway, embedder: BatchingEmbedder, learning: Learning) -> Verifier:
        verify = self._settings.verify
        if verify.enabled:
            hits = Sampler(
                verify.first_hits, verify.first_ratio, verify.ratio, verify.per_hour, paid=verify.paid
            )
            refused = Sampler(first_ratio=0.5, ratio=0.2, per_hour=600)
        else:
            hits, refused = Sampler(per_hour=0), Sampler(per_hour=0)
        return Verifier(
            embedder, learning, hits, refused, gateway.metrics, scale_of(self.embedder.fingerprint)
        )

    def _learning(self, kept: bytes, keep: Callable[[bytes], None]) -> Learning:
        settings = self._settings
        rules, ages = {}, {}
        for name, own in settings.domains.items():
            is_own = own.max_wrong_ratio is not None
            limit = None if is_own else settings.limit
            rules[name] = _rule(
                own.max_wrong_ratio or settings.max_wrong_ratio, limit, is_enabled=own.enabled
            )
            ages[name] = Volatility(own.half_life, own.max_age)
        return Learning(
            calibration=self._calibration,
            rules=rules,
            default=_rule(settings.max_wrong_ratio, settings.limit),
            decay=Decay(settings.max_age, ages),
            book=EvidenceBook.unpacked(kept, name_of(self._calibration)),
            entries=EntryBook(Curve.through(*ANCHORS[-2:])),
            save=keep,
        )


def _rule(max_wrong_ratio: float, limit: float | None, *, is_enabled: bool = True) -> DomainRule:
    """What is wanted of a domain. A limit given by hand is held to what the scale promises there."""
    return DomainRule(max_wrong_ratio if limit is None else promised(limit), limit, is_enabled)


def _calibration(settings: SemanticCacheSettings) -> Calibration:
    if settings.calibration is not None:
        return load(settings.calibration)
    found = shipped(settings.embedder)
    if found is None:
        raise ConfigError(
            f"semantic_cache.calibration: none is known for the embedder {settings.embedder!r}: make one with "
            "`openclaw-cache calibrate PAIRS --embedder …`, and name its file here"
        )
    return found
