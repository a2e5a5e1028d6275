"""How many tokens a text may take, by a rule that knows no tokenizer."""

from __future__ import annotations

import re
from typing import Final

_BIT: Final = re.compile(r"[A-Za-z]+|[^\x00-\x7f]+|\s+|.", re.DOTALL)
_LETTERS_A_TOKEN: Final = 4


def estimated_tokens(text: str) -> int:
    """Tokens of a text, seldom too few: for every four letters of a word one, for every digit and sign one.

    Of other scripts two for three bytes in UTF-8, so that a Chinese character is two: what a vocabulary for English
    makes of them. White space belongs to what follows it; a line break is one.
    """
    total = 0.0
    for match in _BIT.finditer(text):
        bit = match[0]
        if bit.isspace():
            total += bit.count("\n")
        elif not bit.isascii():
            total += len(bit.encode("utf-8", "replace")) * 2 / 3
        else:
            total += -(-len(bit) // _LETTERS_A_TOKEN)
    return int(total) + (total > int(total))
