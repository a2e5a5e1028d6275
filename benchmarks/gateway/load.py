"""Load by wrk, and what it cost: CPU time of process trees, read from /proc."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")

_SCRIPT = """\
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
%(setup)s
function done(summary, latency, requests)
  local e = summary.errors
  io.write(string.format('\\nRESULT {"requests": %%d, "seconds": %%f, "p50_us": %%d, "errors": %%d}\\n',
    summary.requests, summary.duration / 1e6, latency:percentile(50),
    e.connect + e.read + e.write + e.status + e.timeout))
end
"""


@dataclass(frozen=True, slots=True)
class Load:
    """What wrk saw."""

    requests: int
    seconds: float
    p50_us: float
    errors: int


def script(file: Path, setup: str, headers: dict[str, str]) -> Path:
    """Write a wrk script: `setup` is Lua that makes the requests."""
    lines = [f"wrk.headers[{json.dumps(name)}] = {json.dumps(value)}" for name, value in headers.items()]
    file.write_text(_SCRIPT % {"setup": "\n".join([*lines, setup])})
    return file


def one_body(body: Path) -> str:
    """Lua: the same request again and again."""
    return f"local f = io.open({json.dumps(str(body))}, 'rb'); wrk.body = f:read('*a'); f:close()"


def numbered_bodies(body: Path, run: int) -> str:
    """Lua: every request another one: `@N@` in the body becomes a number that no other run uses."""
    return f"""
local f = io.open({json.dumps(str(body))}, 'rb'); local text = f:read('*a'); f:close()
local at, till = text:find('@N@', 1, true)
local before, after = text:sub(1, at - 1), text:sub(till + 1)
local count = {run} * 10000000
request = function()
  count = count + 1
  return wrk.format(nil, nil, nil, before .. count .. after)
end"""


def mixed_bodies(plain: Path, stream: Path, run: int) -> str:
    """Lua: of ten requests seven hits, two misses, and one stream that is a miss."""
    return f"""
local f = io.open({json.dumps(str(plain))}, 'rb'); local text = f:read('*a'); f:close()
local g = io.open({json.dumps(str(stream))}, 'rb'); local stream = g:read('*a'); g:close()
local count = {run} * 10000000
request = function()
  count = count + 1
  local turn = count % 10
  local body = turn == 9 and stream or text
  return wrk.format(nil, nil, nil, (body:gsub('@N@', turn < 7 and turn or count)))
end"""


def drive(url: str, lua: Path, *, core: int, connections: int, seconds: int) -> Load:
    """Load a server from one core. Raises RuntimeError where wrk fails."""
    command = ["taskset", "-c", str(core), "wrk", "-t1", f"-c{connections}", f"-d{seconds}s"]
    shown = subprocess.run(
        [*command, "--timeout", "30s", "-s", str(lua), url], capture_output=True, text=True, check=False
    )
    line = next((x for x in shown.stdout.splitlines() if x.startswith("RESULT ")), None)
    if line is None:
        raise RuntimeError(f"wrk failed: {shown.stdout}{shown.stderr}")
    return Load(**json.loads(line.removeprefix("RESULT ")))


def tree(pid: int) -> list[int]:
    """A process and all its descendants."""
    found, todo = [], [pid]
    while todo:
        found.append(current := todo.pop())
        for children in Path(f"/proc/{current}/task").glob("*/children"):
            todo += map(int, children.read_text().split())
    return found


def cpu_s(pids: list[int]) -> float:
    """User and system time that processes have used so far."""
    ticks = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / _TICKS_PER_S


def precise_cpu_s(pids: list[int]) -> float:
    """The same to the nanosecond, of the threads that live now: for runs of which 10 ms are a large share."""
    nanoseconds = 0
    for pid in pids:
        for task in Path(f"/proc/{pid}/task").iterdir():
            try:
                nanoseconds += int((task / "schedstat").read_text().split()[0])
            except (FileNotFoundError, ProcessLookupError):  # ended since
                continue
    return nanoseconds / 1e9


def rss_bytes(pid: int) -> int:
    """Resident memory of one process."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
