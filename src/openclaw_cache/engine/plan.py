"""What one forward pass computes and which K/V it reads: the packed batch, worked out once for all layers.

The new tokens of all sequences of a step lie in one row, without padding. Each sequence's context lies in blocks
that its table names. A part of the context that several sequences share is read once for all of them (cascade
attention: Hydragen, Juravsky et al., 2024, arXiv:2402.05099; Ye et al., FlashInfer, 2025, arXiv:2501.01005).
Attention over a part gives a partial result; partial results are merged by their logsumexp.
Pure: numpy only.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

# What a kernel call and each row to merge cost, in context tokens read or copied: measured on two cores with a
# 135M model (100-150 µs a call, 1 µs a row, 0.1 µs a token copied).
_CALL_TOKENS: Final = 1024
_ROW_TOKENS: Final = 8

# Rows whose contexts are this short are padded to one length without a thought.
_SHORT_TOKENS: Final = 128


@dataclass(frozen=True, slots=True)
class Segment:
    """New tokens of one sequence in this step.

    `tokens` int32 [n], n ≥ 1, are at positions `start` … `start + n - 1`; `table` int32 names the device blocks
    of positions 0 … `start + n - 1` (longer is allowed). The K/V before `start` are in these blocks already, or
    are computed by another segment of the same step.
    """

    tokens: NDArray[np.int32]
    start: int
    table: NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Own:
    """Rows `begin` … `end - 1` attend causally to one another: a segment's new tokens among themselves."""

    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class Context:
    """Rows that attend to whole pieces of context, without a causal mask.

    Group i, `rows[i]` of int64 [S, R], attends to `num_tokens[i]` tokens: those from slot `first_slot` on if
    that is not None (then S is 1), else the first ones in the blocks `blocks[i]` of int64 [S, n].
    """

    rows: NDArray[np.int64]
    num_tokens: NDArray[np.int64]
    first_slot: int | None = None
    blocks: NDArray[np.int64] | None = None


@dataclass(frozen=True, slots=True)
class Merge:
    """Where the partial results of each row are.

    Row t is made from the partial results `index[t]` of int64 [T, K], counted over the pieces' rows in order,
    without those that `is_padding` bool [T, K] marks.
    """

    index: NDArray[np.int64]
    is_padding: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Plan:
    """One step's work. T: new tokens of all segments, in order.

    `tokens`, `positions` and `slots` (where each token's K/V go) are int64 [T]; `last_rows` int64 is the row of each
    segment's last token. `merge` is None where the pieces' rows are all rows in order.
    """

    tokens: NDArray[np.int64]
    positions: NDArray[np.int64]
    slots: NDArray[np.int64]
    last_rows: NDArray[np.int64]
    pieces: tuple[Own | Context, ...]
    merge: Merge | None

    @classmethod
    def of(cls, segments: Sequence[Segment], block_tokens: int) -> Plan:
        """Plan a step. Linear in the number of new tokens and of blocks in all tables.

        Raises:
            ValueError: A segment has no tokens or too short a table, or two tokens have the same slot.
        """
        for number, segment in enumerate(segments):
            if not 0 < segment.start + len(segment.tokens) <= len(segment.table) * block_tokens:
                raise ValueError(f"the table of segment {number} does not cover its tokens")
            if not len(segment.tokens):
                raise ValueError(f"segment {number} has no tokens")
        ends = np.cumsum([len(segment.tokens) for segment in segments])
        begins = ends - [len(segment.tokens) for segment in segments]
        positions = np.concatenate([np.arange(s.start, s.start + len(s.tokens)) for s in segments])
        tables = [segment.table.astype(np.int64) for segment in segments]
        slots = np.concatenate(
            [
                table[positions[begin:end] // block_tokens] * block_tokens
                + positions[begin:end] % block_tokens
                for table, begin, end in zip(tables, begins, ends, strict=True)
            ]
        )
        if len(np.unique(slots)) < len(slots):
            raise ValueError("two tokens of a step would be written to the same slot")
        rows = [np.arange(begin, end) for begin, end in zip(begins, ends, strict=True)]
        pieces = _pieces(segments, tables, rows, block_tokens)
        return cls(
            tokens=np.concatenate([segment.tokens for segment in segments]).astype(np.int64),
            positions=positions,
            slots=slots,
            last_rows=ends - 1,
            pieces=pieces,
            merge=_merge(pieces, len(positions)),
        )


def _pieces(
    segments: Sequence[Segment],
    tables: list[NDArray[np.int64]],
    rows: list[NDArray[np.int64]],
    block_tokens: int,
) -> tuple[Own | Context, ...]:
    # A lone new token is simply the last one of its context.
    num_context = [s.start + 1 if len(s.tokens) == 1 else s.start for s in segments]
    own = [Own(int(r[0]), int(r[-1]) + 1) for r in rows if len(r) > 1]
    readers = [number for number, num in enumerate(num_context) if num]
    contexts: list[Context] = []
    for members, begin, end in _shared(tables, rows, num_context, block_tokens, readers):
        first = members[0]
        num_tokens = min(end * block_tokens, num_context[first]) - begin * block_tokens
        group = np.concatenate([rows[member] for member in members])
        contexts += _placed(tables[first][begin:end], num_tokens, group, block_tokens)
    return (*own, *_side_by_side(contexts, block_tokens))


def _pays(saved_tokens: int, num_rows: int) -> bool:
    """Whether a piece of its own, with its call and its rows to merge, is cheaper than reading `saved_tokens`."""
    return saved_tokens >= _CALL_TOKENS + _ROW_TOKENS * num_rows


def _shared(
    tables: list[NDArray[np.int64]],
    rows: list[NDArray[np.int64]],
    num_context: list[int],
    block_tokens: int,
    readers: list[int],
) -> Iterator[tuple[list[int], int, int]]:
    """Cut the context of each reader into ranges of blocks, and yield each range with all who read it.

    A range is (members, begin, end) in block numbers of their tables, which are equal there.
    """
    num_full = [num // block_tokens for num in num_context]
    # Members, first block not yielded yet, blocks known to be equal.
    todo = [(readers, 0, 0)] if readers else []
    while todo:
        members, begin, depth = todo.pop()
        if len(members) == 1:
            end = -(-num_context[members[0]] // block_tokens)
            if end > begin:
                yield members, begin, end
            continue
        depth = _common(tables, members, depth, min(num_full[member] for member in members))
        saved = (len(members) - 1) * (depth - begin) * block_tokens
        if depth > begin and _pays(saved, sum(len(rows[member]) for member in members)):
            yield members, begin, depth
            begin = depth
        branches: dict[int, list[int]] = {}
        for member in members:
            # Who has no full block here goes on alone.
            branch = int(tables[member][depth]) if num_full[member] > depth else -1 - member
            branches.setdefault(branch, []).append(member)
        todo += [(branch, begin, depth) for branch in reversed(branches.values())]


def _common(tables: list[NDArray[np.int64]], members: list[int], depth: int, limit: int) -> int:
    """Number of leading blocks, at most `limit`, that all members share; `depth` are known to be."""
    first = tables[members[0]]
    for member in members[1:]:
        differs = first[depth:limit] != tables[member][depth:limit]
        if differs.any():
            limit = depth + int(differs.argmax())
    return limit


def _placed(
    blocks: NDArray[np.int64], num_tokens: int, rows: NDArray[np.int64], block_tokens: int
) -> Iterator[Context]:
    """Context pieces for one range of blocks: long physical runs in place, what is left gathered into one."""
    cuts = np.flatnonzero(np.diff(blocks) != 1) + 1
    bounds = [0, *cuts.tolist(), len(blocks)]
    left: list[NDArray[np.int64]] = []
    num_left = 0
    for begin, end in pairwise(bounds):
        num = min(end * block_tokens, num_tokens) - begin * block_tokens
        if len(bounds) == 2 or _pays(num, len(rows)):
            yield Context(rows[None], np.array([num]), first_slot=int(blocks[begin]) * block_tokens)
        else:
            left.append(blocks[begin:end])
            num_left += num
    if left:
        yield Context(rows[None], np.array([num_left]), blocks=np.concatenate(left)[None])


def _side_by_side(contexts: list[Context], block_tokens: int) -> Iterator[Context]:
    """Join short pieces of single rows into padded ones: copying them costs less than a call for each.

    Joined are those of like length, so that less than half is padding.
    """
    alike: dict[int, list[Context]] = {}
    for piece in contexts:
        num = int(piece.num_tokens[0])
        if piece.rows.size == 1 and num <= _CALL_TOKENS:
            alike.setdefault(max(num - 1, _SHORT_TOKENS - 1).bit_length(), []).append(piece)
        else:
            yield piece
    for pieces in alike.values():
        yield pieces[0] if len(pieces) == 1 else _joined(pieces, block_tokens)


def _joined(pieces: list[Context], block_tokens: int) -> Context:
    num_tokens = np.concatenate([piece.num_tokens for piece in pieces])
    blocks = np.zeros((len(pieces), -(-int(num_tokens.max()) // block_tokens)), np.int64)
    for padded, piece, num in zip(blocks, pieces, num_tokens, strict=True):
        num_blocks = -(-int(num) // block_tokens)
        if piece.first_slot is not None:
            padded[:num_blocks] = piece.first_slot // block_tokens + np.arange(num_blocks)
        elif piece.blocks is not None:
            padded[:num_blocks] = piece.blocks[0]
    return Context(np.concatenate([piece.rows for piece in pieces]), num_tokens, blocks=blocks)


def _merge(pieces: Sequence[Own | Context], num_rows: int) -> Merge | None:
    rows = np.concatenate(
        [np.arange(p.begin, p.end) if isinstance(p, Own) else p.rows.reshape(-1) for p in pieces]
    )
    if np.array_equal(rows, np.arange(num_rows)):
        return None
    order = np.argsort(rows, kind="stable")
    counts = np.bincount(rows, minlength=num_rows)
    nth = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
    index = np.zeros((num_rows, counts.max()), np.int64)
    index[rows[order], nth] = order
    return Merge(index, np.arange(counts.max()) >= counts[:, None])
