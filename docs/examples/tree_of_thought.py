"""Tree of thought: every kept path branches into several next steps; what paths share is computed once.

The model's own mean log probability stands for the judge here.

Source: Yao et al., "Tree of Thoughts: Deliberate Problem Solving with Large Language Models", NeurIPS 2023
(arXiv 2305.10601).
"""

from __future__ import annotations

from statistics import fmean
from typing import Any

from chat import Chat, parse_options

TASK = (
    "Let us write a story together, one sentence at a time. It is about a lighthouse keeper who finds a letter "
    "in a bottle. Write only the next sentence each time: short, concrete, and following from the ones before. "
    "Write the first sentence."
)
NEXT = "Write the next sentence."
DEPTH = 3
NUM_BRANCHES = 3
NUM_KEPT = 2
REPEATED = -10.0

Path = list[dict[str, str]]


def score(choice: dict[str, Any], path: Path) -> float:
    """Mean log probability of a reply's tokens, less for saying what was said before."""
    is_repeated = any(step["content"] == choice["message"]["content"] for step in path)
    return REPEATED * is_repeated + fmean(
        [token["logprob"] for token in choice["logprobs"]["content"]] or [0.0]
    )


def main() -> None:
    """Search the tree level by level, keeping the likeliest paths."""
    options = parse_options(__doc__)
    chat = Chat(options.url, options.model)
    kept: list[tuple[float, Path]] = [(0.0, [{"role": "user", "content": TASK}])]
    for level in range(1, DEPTH + 1):
        found: list[tuple[float, Path]] = []
        for number, (total, path) in enumerate(kept, 1):
            choices = chat.ask(
                f"level {level}, path {number}", path, n=NUM_BRANCHES, temperature=0.8, seed=level,
                max_tokens=40, logprobs=True,
            )  # fmt: skip
            for choice in choices:
                step = {"role": "assistant", "content": choice["message"]["content"]}
                found.append((total + score(choice, path), [*path, step, {"role": "user", "content": NEXT}]))
        kept = sorted(found, key=lambda one: one[0], reverse=True)[:NUM_KEPT]
    if not options.json:
        print("\n".join(step["content"] for step in kept[0][1] if step["role"] == "assistant"))
    chat.report(as_json=options.json)


if __name__ == "__main__":
    main()
