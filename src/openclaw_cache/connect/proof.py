"""Two questions asked through OpenClaw, and what our server saw of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Final

from openclaw_cache.connect.openclaw_cli import TURN_S, OpenClawCli, OpenClawError
from openclaw_cache.connect.server import Server
from openclaw_cache.connect.wish import NAME
from openclaw_cache.errors import OpenClawCacheError
from openclaw_cache.types import Json

QUESTIONS: Final = (
    "This is a test of the connection. Answer with the word: connected.",
    "And once more: answer with the word: connected.",
)
SESSION: Final = "openclaw-cache-check"


class NoProofError(OpenClawCacheError):
    """OpenClaw did not answer through us; the message says what happened instead."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer, with the prompt tokens that OpenClaw read in its usage; 0 = it was told none."""

    text: str
    num_prompt_tokens: int
    num_cached_tokens: int


@dataclass(frozen=True, slots=True)
class Proof:
    """What was asked, and what became known of it on either side."""

    answers: tuple[Answer, ...]
    how: str
    """`gateway`, or `local` where OpenClaw's gateway is not running."""
    num_requests: int | None
    """That our server saw meanwhile, whoever sent them; None = it did not say."""
    num_turns: int | None
    """That the plugin committed meanwhile; None = the server keeps no turns, or did not say."""

    def as_json(self) -> dict[str, Json]:
        """For --json."""
        return asdict(self)


def prove(
    cli: OpenClawCli,
    server: Server,
    agent: str,
    model: str,
    *,
    is_gateway_up: bool,
    say: Callable[[str], None],
) -> Proof:
    """Ask both questions in a session of their own. Costs two real requests, of some 12,000 tokens each.

    Raises:
        NoProofError: OpenClaw gave no answer, or our server saw no request.
        UnreachableError: our server went away.
    """
    before = server.seen(agent)
    answers = []
    for question in QUESTIONS:
        say(f"asking through OpenClaw: {question}")
        answers.append(_ask(cli, agent, model, question, is_local=not is_gateway_up))
    after = server.seen(agent)
    requests = _grown(before.num_requests, after.num_requests)
    if requests == 0:
        raise NoProofError(
            "OpenClaw answered, but not through this server: something else listens at the provider's baseUrl, "
            "or OpenClaw's gateway still runs with its old config: restart it with `openclaw gateway restart`"
        )
    turns = _grown(0 if before.num_turns is None else before.num_turns, after.num_turns)
    return Proof(tuple(answers), "gateway" if is_gateway_up else "local", requests, turns)


def is_gateway_up(cli: OpenClawCli) -> bool:
    """Whether OpenClaw's gateway answers."""
    try:
        shown = cli.json(["health", "--json", "--timeout", "5000"])
    except OpenClawError:
        return False
    return isinstance(shown, dict) and shown.get("ok") is True


def answer_of(shown: Json) -> Answer:
    """An answer as `openclaw agent --json` prints it, from its gateway or on its own. Raises NoProofError."""
    result = shown.get("result", shown) if isinstance(shown, dict) else {}
    result = result if isinstance(result, dict) else {}
    payloads = [p for p in result.get("payloads") or [] if isinstance(p, dict)]
    meta = result.get("meta")
    meta = meta if isinstance(meta, dict) else {}
    if meta.get("error") or any(p.get("isError") for p in payloads) or not payloads:
        raise NoProofError("OpenClaw's agent failed: " + _said(meta.get("error"), payloads))
    agent = meta.get("agentMeta")
    usage = agent.get("lastCallUsage") or agent.get("usage") if isinstance(agent, dict) else None
    usage = usage if isinstance(usage, dict) else {}
    fresh, read, written = (int(usage.get(name) or 0) for name in ("input", "cacheRead", "cacheWrite"))
    provider = agent.get("provider") if isinstance(agent, dict) else None
    if provider not in (None, NAME):
        raise NoProofError(f"OpenClaw asked another provider ({provider}), a fallback perhaps: ours failed")
    return Answer(str(payloads[-1].get("text") or ""), fresh + read + written, read)


def _ask(cli: OpenClawCli, agent: str, model: str, question: str, *, is_local: bool) -> Answer:
    args = ["agent", "--agent", agent, "--session-key", f"agent:{agent}:{SESSION}"]
    args += [
        "--model",
        f"{NAME}/{model}",
        "--message",
        question,
        "--json",
        *(["--local"] if is_local else []),
    ]
    try:
        return answer_of(cli.json(args, timeout_s=TURN_S))
    except OpenClawError as e:
        raise NoProofError(str(e)) from None


def _said(error: Json, payloads: list[dict[str, Json]]) -> str:
    text = error.get("message") if isinstance(error, dict) else error
    text = text or next((p.get("text") for p in payloads if p.get("text")), "no answer came")
    return str(text)[:500]


def _grown(before: int | None, after: int | None) -> int | None:
    return None if before is None or after is None else max(0, after - before)
