"""Values made anew for each request that say nothing to a model. They are dropped."""

from __future__ import annotations

import re
from typing import Final

from openclaw_cache.canonical.rule import Example, HeadLine

NONCES: Final = (
    HeadLine(
        id="claude-code-billing",
        level="safe",
        what="Claude Code's billing line, the first line or block of its system prompt.",
        why="`cch` is a hash of the request, and the end of `cc_version` is made from its content, so the first forty "
        "tokens of every prompt differ and nothing behind them is found in a prefix cache. One report: 50 s for a "
        "request of 60,000 tokens, 3.65 s without the line. Only Anthropic's own API reads it.",
        source=(
            "https://github.com/anthropics/claude-code/issues/68900",
            "https://github.com/anthropics/claude-code/issues/24168",
            "https://github.com/vllm-project/vllm/pull/36829",
            "https://github.com/ollama/ollama/pull/14918",
            "https://github.com/musistudio/claude-code-router/issues/1372",
            "https://github.com/waybarrios/vllm-mlx/pull/277",
        ),
        pattern=re.compile(
            r"x-anthropic-billing-header: ?cc_version=[\w.+-]{1,40};(?: ?[a-z][a-z_]{0,30}=[\w.+-]{0,80};){1,8}[ \r]?",
            re.ASCII,
        ),
        example=Example(
            before="x-anthropic-billing-header: cc_version=2.1.177.01c; cc_entrypoint=cli; cch=36ee5;\n"
            "You are Claude Code, Anthropic's official CLI for Claude.",
            after="You are Claude Code, Anthropic's official CLI for Claude.",
        ),
    ),
)
