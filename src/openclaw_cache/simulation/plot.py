"""A picture of curves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from openclaw_cache.errors import ConfigError

SUFFIXES: Final = (".png", ".svg")
# Told apart without colours: by their dashes and marks. Dark enough on white, and apart in grey (Okabe and Ito's).
_STYLES: Final = (
    {"color": "#000000", "linestyle": "-", "marker": ""},
    {"color": "#0072B2", "linestyle": "--", "marker": "o"},
    {"color": "#D55E00", "linestyle": "-.", "marker": "s"},
    {"color": "#009E73", "linestyle": ":", "marker": "^"},
    {"color": "#CC79A7", "linestyle": (0, (5, 1)), "marker": "D"},
    {"color": "#56B4E9", "linestyle": (0, (1, 1)), "marker": "v"},
    {"color": "#777777", "linestyle": (0, (3, 1, 1, 1)), "marker": "x"},
)


def check(file: Path) -> None:
    """Before minutes of work. Raises ConfigError where the picture cannot be drawn there."""
    if file.suffix.lower() not in SUFFIXES:
        raise ConfigError(f"--plot: {file.name} must end in {' or '.join(SUFFIXES)}")
    if not file.parent.is_dir():
        raise ConfigError(f"--plot: there is no folder {file.parent}")
    try:
        import matplotlib as _  # noqa: F401, PLC0415 - an extra
    except ImportError:
        raise ConfigError("--plot: it needs matplotlib: pip install 'openclaw-cache[plot]'") from None


def draw(
    file: Path,
    title: str,
    curves: Mapping[str, Sequence[tuple[float, float]]],
    best_ratio: float,
    tiers: Sequence[tuple[str, float]],
) -> None:
    """Draw hit ratios over bytes, and write the file.

    Args:
        file: `.png` or `.svg`.
        title: above it.
        curves: by name, points (bytes, hit ratio) in order.
        best_ratio: what room for everything finds.
        tiers: names, and the bytes up to which they and those above them reach.
    """
    import matplotlib  # noqa: PLC0415 - an extra, and slow to import
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415
    from matplotlib.figure import Figure  # noqa: PLC0415
    from matplotlib.ticker import FuncFormatter  # noqa: PLC0415

    with matplotlib.rc_context({"svg.hashsalt": "openclaw-cache", "svg.fonttype": "none", "font.size": 10}):
        figure = Figure(figsize=(8, 4.8), layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.add_subplot()
        for number, (name, points) in enumerate(curves.items()):
            style = _STYLES[number % len(_STYLES)]
            xs, ys = zip(*points, strict=True)
            axes.plot(xs, ys, label=name, linewidth=1.6, markersize=5, **style)
        axes.axhline(best_ratio, color="#555555", linewidth=1, linestyle=(0, (1, 3)))
        axes.annotate(
            f"room for everything: {best_ratio:.3f}",
            (0.01, best_ratio),
            xycoords=("axes fraction", "data"),
            xytext=(0, 3),
            textcoords="offset points",
            fontsize=9,
        )
        for name, num_bytes in tiers:
            axes.axvline(num_bytes, color="#999999", linewidth=1)
            axes.annotate(
                name,
                (num_bytes, 0.02),
                xycoords=("data", "axes fraction"),
                xytext=(3, 0),
                textcoords="offset points",
                rotation=90,
                fontsize=9,
            )
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(FuncFormatter(_size))
        axes.set_ylim(0, min(1.02, best_ratio * 1.15 + 0.01))
        axes.set_xlabel("capacity")
        axes.set_ylabel("hit ratio: prompt tokens found / all")
        axes.set_title(title, fontsize=11)
        axes.grid(visible=True, which="major", color="#dddddd", linewidth=0.6)
        figure.legend(loc="outside right upper", frameon=False)
        metadata = {"Date": None} if file.suffix.lower() == ".svg" else None
        figure.savefig(file, dpi=150, metadata=metadata)


def _size(num_bytes: float, _: object) -> str:
    units = ["B", "kB", "MB", "GB", "TB", "PB"]
    while num_bytes >= 1000 and len(units) > 1:
        num_bytes /= 1000
        del units[0]
    return f"{num_bytes:g} {units[0]}"
