"""Which prompts were asked most, by name only, in bounded memory.

Space-Saving (Metwally, Agrawal, El Abbadi: Efficient Computation of Frequent and Top-k Elements in Data Streams,
ICDT 2005), added up as in Agarwal et al.: Mergeable Summaries, PODS 2012.
"""

from __future__ import annotations

from typing import Final

import msgspec

from openclaw_cache.observe.record import RequestRecord

NUM_PROMPTS: Final = 64
_MAX_CHARS: Final = 32


Last = tuple[float, str, str, str, str, str]
"""When it ended, namespace, agent, model, outcome, miss."""


class Prompt(msgspec.Struct, array_like=True):
    """What is known of one prompt: it was asked `count - error` to `count` times."""

    count: int
    error: int
    tokens: int
    """Of prompt and reply, of all times since it is followed."""
    last: Last
    """Of the last time. The greater of two is the later."""
    computed: int = 0
    """How often a model was asked, since it is followed."""


class TopPrompts(msgspec.Struct, array_like=True):
    """The prompts that were asked most often, by `RequestRecord.prompt_id`."""

    rows: dict[str, Prompt] = {}
    floor: int = 0
    """A prompt without a row was asked at most so often."""

    def add(self, record: RequestRecord, ended_at: float) -> None:
        """Count a request. Cost: O(1); O(`NUM_PROMPTS`), some µs, for a new prompt where there is no room."""
        tokens = (record.prompt_tokens or 0) + (record.completion_tokens or 0)
        row = self.rows.get(record.prompt_id)
        if row is not None:
            row.count += 1
            row.tokens += tokens
            row.computed += _num_computed(record)
            if ended_at >= row.last[0]:
                row.last = max(row.last, _last(record, ended_at))
            return
        if len(self.rows) >= NUM_PROMPTS:
            least = min(self.rows, key=lambda prompt_id: self.rows[prompt_id].count)
            self.floor = max(self.floor, self.rows.pop(least).count)
        last, computed = _last(record, ended_at), _num_computed(record)
        self.rows[record.prompt_id] = Prompt(self.floor + 1, self.floor, tokens, last, computed)

    def absorb(self, other: TopPrompts) -> None:
        """Add another's rows to these, without a bound. Cost: O(rows of both)."""
        if other.floor:
            for prompt_id in self.rows.keys() - other.rows.keys():
                row = self.rows[prompt_id]
                row.count += other.floor
                row.error += other.floor
        for prompt_id, theirs in other.rows.items():
            ours = self.rows.get(prompt_id)
            if ours is None:
                count, error = theirs.count + self.floor, theirs.error + self.floor
                self.rows[prompt_id] = Prompt(count, error, theirs.tokens, theirs.last, theirs.computed)
                continue
            ours.count += theirs.count
            ours.error += theirs.error
            ours.tokens += theirs.tokens
            ours.computed += theirs.computed
            ours.last = max(ours.last, theirs.last)
        self.floor += other.floor

    def trim(self, max_rows: int = NUM_PROMPTS) -> None:
        """Keep the `max_rows` most frequent."""
        if len(self.rows) <= max_rows:
            return
        order = sorted(self.rows, key=lambda prompt_id: (-self.rows[prompt_id].count, prompt_id))
        self.floor = max(self.floor, self.rows[order[max_rows]].count)
        for prompt_id in order[max_rows:]:
            del self.rows[prompt_id]


def _num_computed(record: RequestRecord) -> int:
    return int(record.outcome in ("miss", "bypass"))


def _last(record: RequestRecord, ended_at: float) -> Last:
    return (
        ended_at,
        record.namespace[:_MAX_CHARS],
        record.agent[:_MAX_CHARS] if record.agent else "",
        record.model[:_MAX_CHARS],
        record.outcome,
        record.miss,
    )
