"""What only looks on fails for itself alone."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from openclaw_cache.observe.aside import Aside


def test_a_failure_is_counted_each_time_logged_once_and_its_message_is_not() -> None:
    counted: list[str] = []
    aside = Aside("history", counted.append)
    with capture_logs() as lines:
        for _ in range(2):
            with aside:
                raise ValueError("the text of a prompt")
    assert counted == ["history", "history"]
    assert [(line["what"], line["error"]) for line in lines] == [("history", "ValueError")]
    assert "prompt" not in str(lines)


def test_what_ends_a_task_or_the_process_goes_through() -> None:
    with pytest.raises(KeyboardInterrupt), Aside("history"):
        raise KeyboardInterrupt


def test_what_does_not_fail_is_not_counted() -> None:
    counted: list[str] = []
    with Aside("history", counted.append):
        pass
    assert not counted
