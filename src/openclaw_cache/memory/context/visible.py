"""What a prompt shows already, so that it is not recalled into it again."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from openclaw_cache.memory.context.host import HostMessage, text_of
from openclaw_cache.memory.record import Memory


class Visible:
    """What is visible: messages by their ids, memories by where they were said or by their text.

    Args:
        ids: Of the history's messages.
        messages: The history's messages.
        prompt: The turn's own message.
        recalled: Ids of what stands in recalls that are shown.
    """

    def __init__(
        self, ids: Iterable[str], messages: Iterable[HostMessage], prompt: str, recalled: Collection[str]
    ) -> None:
        self._messages = frozenset(ids)
        self.owners: Collection[str] = self._messages.union(recalled)
        """Ids of messages and memories that need not be found."""
        self._text = _bare("\n".join([*map(text_of, messages), prompt]))

    def shows(self, memory: Memory) -> bool:
        """Whether what a memory says is visible. Cost: a search in the prompt's text."""
        return memory.provenance.message in self._messages or _bare(memory.text) in self._text


def _bare(text: str) -> str:
    return " ".join(text.split()).casefold()
