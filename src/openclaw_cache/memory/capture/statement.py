"""What a sentence states, and the rules that say so."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Statement:
    """What a sentence states.

    `slot` is set where only one such statement is true at a time; `value` is what fills it, in a form to compare.
    An instruction holds from now on, so an `if` in it is a condition and no doubt.
    """

    kind: str
    slot: str | None
    value: str
    is_instruction: bool = False


@dataclass(frozen=True, slots=True)
class Rule:
    """A form of sentence that states something worth remembering.

    `pattern` matches from the sentence's first word; its group `value` is what is stated, and its groups `attribute`
    and `thing` stand in braces in `slot`. `check` says what the value must be like: `any`thing, a `name`, `proper`
    (something with a capital, a digit, or in quotation marks), or a `time`.
    """

    kind: str
    check: str
    slot: str | None
    pattern: re.Pattern[str]
    is_instruction: bool
