"""What it costs to compute a token once more: money by what was paid, or seconds of an engine of our own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from openclaw_cache.history.lines import Line
from openclaw_cache.history.rollup import Rollup
from openclaw_cache.observe.prices import PICODOLLARS
from openclaw_cache.types import Json


@dataclass(frozen=True, slots=True)
class Worth:
    """Means over what was computed in a time."""

    usd_per_token: float | None
    """What was paid for each token of prompt and reply; None where no model that was asked has a price."""
    usd_by_model: Mapping[str, float]
    """The same by model, without those that have no price."""
    s_per_token: float | None
    """Of prompts, on engines of our own; None where there are none."""

    def usd(self, num_tokens: float, model: str | None = None) -> float | None:
        """What so many tokens cost, of one model or of any; None where that has no price."""
        per_token = self.usd_per_token if model is None else self.usd_by_model.get(model)
        return None if per_token is None else num_tokens * per_token

    def of(self, num_tokens: float, usd: float | None) -> dict[str, Json]:
        """A number of tokens in every measure that is known."""
        return {
            "tokens": round(num_tokens),
            "usd": None if usd is None else round(usd, 6),
            "seconds": None if self.s_per_token is None else round(num_tokens * self.s_per_token, 3),
        }


def worth(rollup: Rollup, engine_s: Mapping[str, float]) -> Worth:
    """What tokens of this time are worth.

    Args:
        rollup: The time.
        engine_s: Seconds of prefill for a token, by the names of upstreams that are engines of our own.
    """
    seconds = 0.0
    num_timed = 0
    for (_namespace, _agent, _model, upstream), line in rollup.lines.items():
        if upstream in engine_s:
            seconds += line.computed_tokens * engine_s[upstream]
            num_timed += line.computed_tokens
    models = {model: _paid(line) for model, line in rollup.lines_by(2).items()}
    paid = {model: each for model, each in models.items() if each[1]}
    spent, tokens = (sum(column) for column in zip(*paid.values(), strict=True)) if paid else (0.0, 0)
    return Worth(
        spent / tokens if tokens else None,
        {model: usd / num for model, (usd, num) in paid.items()},
        seconds / num_timed if num_timed else None,
    )


def _paid(line: Line) -> tuple[float, int]:
    """Dollars, and the tokens that they were for; of a model without a price there are none."""
    num_tokens = line.forwarded_prompt_tokens + line.completion_tokens
    return line.spent / PICODOLLARS, num_tokens if line.num_priced else 0


def engine_seconds(status: Mapping[str, Json]) -> dict[str, float]:
    """Seconds of prefill for a token, by upstream, out of `/admin/status`."""
    found = {}
    for upstream in status.get("upstreams", ()):
        per_token = (upstream.get("kv") or {}).get("prefill_s_per_token")
        if isinstance(per_token, int | float) and per_token > 0:
            found[upstream["name"]] = float(per_token)
    return found
