"""From the vectors of a text's tokens to one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy.typing as npt

    from openclaw_cache.embedding.recipe import Pooling


def pooled(tokens: npt.NDArray[Any], how: Pooling) -> npt.NDArray[Any]:
    """One vector from those of one text's tokens, [num_tokens, num_dims], none of them padding."""
    match how:
        case "mean":
            pooled_one: npt.NDArray[Any] = tokens.mean(axis=0)
        case "max":
            pooled_one = tokens.max(axis=0)
        case "cls":
            pooled_one = tokens[0]
        case "lasttoken":
            pooled_one = tokens[-1]
    return pooled_one
