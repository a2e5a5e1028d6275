"""Few-shot: the same worked examples go before every question, and are computed once."""

from __future__ import annotations

from chat import Chat, parse_options

SHOTS = [
    ("The battery lasts two days and charges in minutes.", "positive"),
    ("It broke on the first morning and nobody answers my letters.", "negative"),
    ("The parcel came on Tuesday.", "neutral"),
    ("I have never slept so well, thank you!", "positive"),
    ("The colour is not the one in the picture, and it smells of paint.", "negative"),
    ("It weighs three hundred grams.", "neutral"),
    ("My daughter laughed all evening; we will buy another one.", "positive"),
    ("Half of the screws were missing.", "negative"),
    ("The manual has forty pages.", "neutral"),
]
QUESTIONS = [
    "The zip tore on the second day.",
    "A wonderful gift, everybody asked where I had found it.",
    "The box is made of cardboard.",
    "I would give it no star at all if I could.",
]


def main() -> None:
    """Ask every question behind the same examples."""
    options = parse_options(__doc__)
    chat = Chat(options.url, options.model)
    examples = [{"role": "system", "content": "Say whether a review is positive, negative or neutral."}]
    for review, label in SHOTS:
        examples += [{"role": "user", "content": review}, {"role": "assistant", "content": label}]
    for number, review in enumerate(QUESTIONS, 1):
        (choice,) = chat.ask(
            f"review {number}", [*examples, {"role": "user", "content": review}], max_tokens=4
        )
        if not options.json:
            print(f"{review} -> {choice['message']['content'].strip()}")
    chat.report(as_json=options.json)


if __name__ == "__main__":
    main()
