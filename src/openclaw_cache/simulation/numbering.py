"""Numbers in place of block ids."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from openclaw_cache.simulation.request import Ids

UNKNOWN: Final = -1
_MOST_DIRECT: Final = 1 << 25


class Numbering:
    """Gives each id that is added the next number.

    Memory: 4 bytes for each id up to the largest where ids count up from 0, as those of most traces do; about 130
    bytes for each that was added where they are hashes.
    """

    __slots__ = ("_by_id", "_direct", "num")

    def __init__(self) -> None:
        self._direct: NDArray[np.int32] | None = np.full(1024, UNKNOWN, np.int32)
        self._by_id: dict[int, int] = {}
        self.num = 0

    def find(self, ids: Ids) -> NDArray[np.int32]:
        """The number of each id, `UNKNOWN` where it has none."""
        if len(ids) and not self._fits(int(ids.min()), int(ids.max())):
            self._give_up()
        if self._direct is not None:
            return self._direct[ids]
        get = self._by_id.get
        return np.fromiter((get(one, UNKNOWN) for one in ids.tolist()), np.int32, len(ids))

    def add(self, ids: Ids) -> bool:
        """Number ids that `find` has not found. False if one of them is there twice: what follows is then undefined."""
        num, self.num = self.num, self.num + len(ids)
        if self._direct is not None:
            numbers = np.arange(num, self.num, dtype=np.int32)
            self._direct[ids] = numbers
            return bool((self._direct[ids] == numbers).all())
        self._by_id.update(zip(ids.tolist(), range(num, self.num), strict=True))
        return len(self._by_id) == self.num

    def _fits(self, least: int, most: int) -> bool:
        """Whether the ids can be places of an array, which is lengthened where needed."""
        direct = self._direct
        if direct is None:
            return True
        if least < 0 or most >= _MOST_DIRECT:
            return False
        if most >= len(direct):
            longer = np.full(max(most + 1, min(2 * len(direct), _MOST_DIRECT)), UNKNOWN, np.int32)
            longer[: len(direct)] = direct
            self._direct = longer
        return True

    def _give_up(self) -> None:
        direct = self._direct
        if direct is not None:
            known = np.flatnonzero(direct != UNKNOWN)
            self._by_id = dict(zip(known.tolist(), direct[known].tolist(), strict=True))
            self._direct = None
