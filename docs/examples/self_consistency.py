"""Self-consistency: several sampled answers to one prompt, which is computed once; the most frequent answer wins.

Source: Wang et al., "Self-Consistency Improves Chain of Thought Reasoning in Language Models", ICLR 2023
(arXiv 2203.11171).
"""

from __future__ import annotations

import re
from collections import Counter

from chat import Chat, parse_options

INSTRUCTION = (
    "You solve small arithmetic problems. Think step by step in at most three short sentences, write down every "
    "intermediate result, and end with one line that says 'Answer:' and a number. Do not use any other words "
    "after the number, and do not repeat the problem."
)
PROBLEMS = [
    "A shelf has 3 rows of 4 books. 5 books are lent. How many are left?",
    "A train has 6 wagons with 20 seats each. 30 seats are taken. How many are free?",
]
NUM_ANSWERS = 5


def answer(text: str) -> str:
    """The last number of a reply."""
    numbers = re.findall(r"\d+", text)
    return numbers[-1] if numbers else "none"


def main() -> None:
    """Ask for several answers to each problem at once, and count them."""
    options = parse_options(__doc__)
    chat = Chat(options.url, options.model)
    for number, problem in enumerate(PROBLEMS, 1):
        messages = [{"role": "system", "content": INSTRUCTION}, {"role": "user", "content": problem}]
        choices = chat.ask(
            f"problem {number}", messages, n=NUM_ANSWERS, temperature=0.7, seed=1, max_tokens=60
        )
        votes = Counter(answer(choice["message"]["content"]) for choice in choices)
        if not options.json:
            shown = ", ".join(f"{what} ({num} of {NUM_ANSWERS})" for what, num in votes.most_common())
            print(f"{problem} -> {shown}")
    chat.report(as_json=options.json)


if __name__ == "__main__":
    main()
