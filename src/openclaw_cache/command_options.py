"""Options that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

UrlOption = Annotated[
    str | None,
    typer.Option("--url", envvar="OPENCLAW_CACHE_URL", help="The server. Default: the one of the data dir."),
]
DataDirOption = Annotated[
    Path | None,
    typer.Option("--data-dir", help="Where to look for a running server. Default: ~/.openclaw-cache"),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
