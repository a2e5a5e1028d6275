"""The examples of docs/examples where nothing answers them: one line that says what to do."""

from __future__ import annotations

import asyncio
import socket
import sys
from pathlib import Path

import pytest

from support.scripted_upstream import ScriptedUpstream
from support.served import served

EXAMPLES = Path(__file__).resolve().parents[2] / "docs" / "examples"


async def run(name: str, *args: str) -> tuple[int | None, str]:
    """Run an example; its exit code and stderr."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(EXAMPLES / f"{name}.py"), *args, stderr=asyncio.subprocess.PIPE
    )
    _, err = await process.communicate()
    return process.returncode, err.decode()


@pytest.mark.parametrize("name", ["few_shot", "self_consistency", "tree_of_thought"])
async def test_an_example_without_a_server_names_the_command_that_starts_one(name: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        url = f"http://127.0.0.1:{probe.getsockname()[1]}"
    code, err = await run(name, "--url", url)
    assert (code, err.count("\n")) == (1, 1)
    assert f"{url} (" in err
    assert "`make serve`" in err


async def test_an_example_with_a_wrong_model_names_where_the_right_ones_are(tmp_path: Path) -> None:
    async with (
        ScriptedUpstream() as upstream,
        served(tmp_path, [upstream.url], upstream={"models": ["m"]}) as gateway,
    ):
        code, err = await run("few_shot", "--url", gateway.url, "--model", "nope")
    assert (code, err.count("\n")) == (1, 1)
    assert "nope" in err
    assert f"{gateway.url}/v1/models" in err
