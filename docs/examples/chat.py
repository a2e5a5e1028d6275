"""A chat client that notes how much of each prompt the server had computed before. Standard library only."""

from __future__ import annotations

import argparse
import json
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Row:
    """One request: `num_choices` replies to one prompt, of which `num_cached` tokens came from the cache."""

    what: str
    num_prompt: int
    num_cached: int
    num_choices: int

    @property
    def num_needed(self) -> int:
        """Prompt tokens of all choices: what independent requests would have sent."""
        return self.num_prompt * self.num_choices

    @property
    def num_reused(self) -> int:
        """Those that were not computed for this request: cached ones, and all but the first choice's."""
        return self.num_needed - (self.num_prompt - self.num_cached)


@dataclass
class Chat:
    """One model of one server, and the requests made so far."""

    url: str
    model: str
    rows: list[Row] = field(default_factory=list)

    def ask(self, what: str, messages: list[dict[str, str]], **options: Any) -> list[dict[str, Any]]:
        """Send one request; returns its choices. `what` names it in the table.

        Ends the program with one line and exit code 1 where the server is not there or refuses.
        """
        body = {"model": self.model, "messages": messages, **options}
        # Without this a second run would be answered with the stored replies and compute nothing at all.
        headers = {"content-type": "application/json", "cache-control": "no-cache"}
        request = urllib.request.Request(
            f"{self.url}/v1/chat/completions", json.dumps(body).encode(), headers
        )
        try:
            with urllib.request.urlopen(request, timeout=300) as reply:
                answer = json.load(reply)
        except urllib.error.HTTPError as refused:
            raise SystemExit(
                f"{self.url} refused: {_reason(refused)} (its models: {self.url}/v1/models)"
            ) from None
        except (OSError, ValueError) as fault:
            reason = getattr(fault, "reason", fault)
            raise SystemExit(
                f"no openclaw-cache answers at {self.url} ({reason}): start it with `make serve`, or name it with --url"
            ) from None
        usage = answer["usage"]
        cached = usage["prompt_tokens_details"]["cached_tokens"]
        self.rows.append(Row(what, usage["prompt_tokens"], cached, len(answer["choices"])))
        choices: list[dict[str, Any]] = answer["choices"]
        return choices

    def report(self, *, as_json: bool) -> None:
        """Print every request and the share of all prompt tokens that was reused."""
        needed = sum(row.num_needed for row in self.rows)
        reused = sum(row.num_reused for row in self.rows)
        if as_json:
            rows = [vars(row) | {"num_reused": row.num_reused} for row in self.rows]
            print(json.dumps({"requests": rows, "reuse_ratio": reused / needed}))
            return
        print(f"\n{'request':28} {'choices':>7} {'prompt':>7} {'cached':>7} {'reused':>7}")
        for row in self.rows:
            print(
                f"{row.what:28} {row.num_choices:7} {row.num_prompt:7} {row.num_cached:7} {row.num_reused:7}"
            )
        print(f"{reused} of {needed} prompt tokens reused: {reused / needed:.0%}")


def _reason(refused: urllib.error.HTTPError) -> str:
    """What the server says is wrong, else its status."""
    try:
        message: str = json.load(refused)["error"]["message"]
    except (OSError, ValueError, KeyError, TypeError):
        return str(refused)
    return message


def parse_options(description: str | None) -> argparse.Namespace:
    """The options that all examples have: `--url`, `--model`, `--json`."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--url", default="http://127.0.0.1:8800", help="of a running openclaw-cache")
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--json", action="store_true", help="print figures only, as JSON")
    return parser.parse_args()
