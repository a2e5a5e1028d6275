# ruff: noqa: SIM905
"""Memories with the questions that ask for some of them. The same seed makes the same ones."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Literal

from benchmarks.memory.drawing import Fields, Kind
from benchmarks.memory.kinds import DATED, KINDS
from benchmarks.memory.plain import PLAIN

Language = Literal["en", "zh"]
LANGUAGES: Final[tuple[Language, ...]] = ("en", "zh")
NOW: Final = datetime(2026, 11, 30, 10, 0, tzinfo=UTC).timestamp()
DAY: Final = 86_400.0
COUNTS: Final = {"direct": 45, "other words": 60, "exact": 35, "time": 60, "other language": 40}
"""Questions of a language by category; those of `plain` come to them as "no names"."""
NUM_NEWEST: Final = 30
"""Questions of a language that name no time where there are several answers: the newest is right."""
_NUM_SIBLINGS: Final = 3
_NEAR_MISSES: Final = 0.3
"""Share of the distractors that are about a person or project that a question names."""


@dataclass(frozen=True, slots=True)
class Written:
    """A memory as it is stored."""

    id: str
    text: str
    at: float
    language: Language


@dataclass(frozen=True, slots=True)
class Asked:
    """A question, and the one memory that answers it."""

    text: str
    language: Language
    category: str
    answer: str


def _at(year: int, month: int, day: int) -> float:
    return datetime(year, month, day, tzinfo=UTC).timestamp()


@dataclass(frozen=True, slots=True)
class When:
    """Words for a time, and the days that they mean on Monday, 30 November 2026; `until` is not one of them."""

    en: str
    zh: str
    since: float
    until: float


WHENS: Final = (
    When("last week", "上周", _at(2026, 11, 23), _at(2026, 11, 30)),
    When("yesterday", "昨天", _at(2026, 11, 29), _at(2026, 11, 30)),
    When("three days ago", "三天前", _at(2026, 11, 27), _at(2026, 11, 28)),
    When("two weeks ago", "两周前", _at(2026, 11, 16), _at(2026, 11, 23)),
    When("last Tuesday", "上周二", _at(2026, 11, 24), _at(2026, 11, 25)),
    When("last month", "上个月", _at(2026, 10, 1), _at(2026, 11, 1)),
    When("in March", "三月份", _at(2026, 3, 1), _at(2026, 4, 1)),
    When("on 3 November", "11月3日", _at(2026, 11, 3), _at(2026, 11, 4)),
    When("last year", "去年", _at(2025, 1, 1), _at(2026, 1, 1)),
    When("in the first quarter of 2026", "2026年第一季度", _at(2026, 1, 1), _at(2026, 4, 1)),
    When("between 5 and 9 October", "10月5日到9日", _at(2026, 10, 5), _at(2026, 10, 10)),
    When("the day before yesterday", "前天", _at(2026, 11, 28), _at(2026, 11, 29)),
)


class World:
    """Memories that answer questions first, then distractors, as many as are asked for.

    Args:
        seed: Decides everything.
    """

    def __init__(self, seed: int = 1) -> None:
        self._rng = random.Random(seed)
        self._keys: set[tuple[str, ...]] = set()
        self._texts: set[str] = set()
        self._newest: dict[Language, list[Asked]] = {"en": [], "zh": []}
        self._people: dict[Language, list[str]] = {"en": [], "zh": []}
        self._projects: list[str] = []
        self.memories: list[Written] = []
        self.questions: list[Asked] = []
        for language in LANGUAGES:
            self._ask(language)
            self.questions += self._newest[language]
        for number, (english, asked, chinese, asked_in_chinese) in enumerate(PLAIN):
            # half of them in each language, so that the same thing does not stand there twice
            memory = self._put(
                *((english, self._any_time(), "en") if number % 2 else (chinese, self._any_time(), "zh"))
            )
            for text, language in ((asked, "en"), (asked_in_chinese, "zh")):
                category = "no names" if language == memory.language else "no names, other language"
                self.questions.append(Asked(text, language, category, memory.id))

    def grow(self, num_memories: int) -> list[Written]:
        """So many memories; the first ones are the same however many."""
        while len(self.memories) < num_memories:
            self._add_distractor()
        return self.memories[:num_memories]

    def _ask(self, language: Language) -> None:
        for category, count in COUNTS.items():
            for number in range(count):
                if category == "time":
                    self._ask_by_time(language, DATED[number % len(DATED)], WHENS[number % len(WHENS)])
                    continue
                kinds = [kind for kind in KINDS if kind.is_exact == (category == "exact")]
                written_in: Language = language
                if category == "other language":
                    kinds, written_in = list(KINDS), "zh" if language == "en" else "en"
                kind = kinds[number % len(kinds)]
                fields = self._new_fields(kind, written_in)
                memory = self._write(kind, written_in, fields, self._any_time())
                wording = kind.wording(language)
                asked = wording.direct if category == "direct" else wording.other
                if category not in ("direct", "other words"):
                    asked = wording.direct + wording.other
                text = self._rng.choice(asked).format(**fields)
                self.questions.append(Asked(text, language, category, memory.id))

    def _ask_by_time(self, language: Language, kind: Kind, when: When) -> None:
        """One memory of that time, and others like it of other times."""
        fields = self._new_fields(kind, language)
        moments = [self._rng.uniform(when.since, when.until)]
        while len(moments) <= _NUM_SIBLINGS:
            moment = self._any_time()
            if not when.since <= moment < when.until:
                moments.append(moment)
        written = []
        for moment in moments:
            varied = kind.draw(self._rng, language) | {
                name: fields[name] for name in fields if _is_kept(kind, name)
            }
            written.append(self._write(kind, language, varied, moment))
        words = when.en if language == "en" else when.zh
        text = self._rng.choice(kind.wording(language).direct).format(**fields, when=words)
        self.questions.append(Asked(text[0].upper() + text[1:], language, "time", written[0].id))
        if len(self._newest[language]) < NUM_NEWEST:
            newest = max(written, key=lambda memory: memory.at)
            asked = kind.wording(language).other[0].format(**fields)
            self._newest[language].append(Asked(asked, language, "newest", newest.id))

    def _add_distractor(self) -> None:
        language = self._rng.choice(LANGUAGES)
        kind = self._rng.choice((*KINDS, *DATED))
        fields = kind.draw(self._rng, language)
        if self._rng.random() < _NEAR_MISSES:
            fields |= self._of_a_question(fields, language)
        key = _key(kind, fields)
        if key in self._keys:
            return
        if kind not in DATED:
            self._keys.add(key)
        text = self._rng.choice(kind.wording(language).memories).format(**fields)
        if text not in self._texts:
            self._put(text, self._any_time(), language)

    def _of_a_question(self, fields: Fields, language: Language) -> Fields:
        found = {}
        if "p" in fields:
            found["p"] = self._rng.choice(self._people[language])
        if "j" in fields:
            found["j"] = self._rng.choice(self._projects)
        return found

    def _new_fields(self, kind: Kind, language: Language) -> Fields:
        while True:
            fields = kind.draw(self._rng, language)
            key = _key(kind, fields)
            if key not in self._keys:
                break
        self._keys.add(key)
        if "p" in fields:
            self._people[language].append(fields["p"])
        if "j" in fields:
            self._projects.append(fields["j"])
        return fields

    def _write(self, kind: Kind, language: Language, fields: Fields, at: float) -> Written:
        while True:
            text = self._rng.choice(kind.wording(language).memories).format(**fields)
            if text not in self._texts:
                return self._put(text, at, language)
            fields = kind.draw(self._rng, language) | {
                name: fields[name] for name in fields if _is_kept(kind, name)
            }

    def _put(self, text: str, at: float, language: Language) -> Written:
        self._texts.add(text)
        written = Written(f"mem_{len(self.memories):06d}", text, at, language)
        self.memories.append(written)
        return written

    def _any_time(self) -> float:
        """Some time of the last 700 days, more often of the last ones."""
        return NOW - DAY * 700 * self._rng.random() ** 2 - 60


def _key(kind: Kind, fields: Fields) -> tuple[str, ...]:
    return (kind.name, *(fields[name] for name in kind.key))


def _is_kept(kind: Kind, name: str) -> bool:
    """Whether memories that differ in time only have this field in common."""
    return name in kind.key or name.removesuffix("_zh") + "_en" in kind.key


def smaller(
    memories: Sequence[Written], questions: Sequence[Asked], num_memories: int, seed: int = 3
) -> tuple[list[Written], list[Asked]]:
    """So many of the memories, drawn by chance, and the questions whose answer is among them."""
    drawn = random.Random(seed).sample(range(len(memories)), num_memories)
    kept = [memories[number] for number in sorted(drawn)]
    ids = {written.id for written in kept}
    return kept, [asked for asked in questions if asked.answer in ids]


def chatter(language: Language, seed: int = 2) -> list[str]:
    """Prompts that no memory bears on: small talk, and orders that need none."""
    return list(_chatter(language, random.Random(seed)))


def _chatter(language: Language, rng: random.Random) -> Iterator[str]:
    if language == "en":
        yield from (
            "hello|hi there|thanks!|thank you so much|ok|okay, go on|great|good morning|yes please|no|sounds good|bye|"
            "lol|how are you?|what can you do?|who are you?|continue|try again|shorter please|why?|nice work|"
            "what time is it?|good night|I'm bored|tell me a joke|please explain"
        ).split("|")
        for thing in (
            "the sea",
            "autumn",
            "a lost glove",
            "robots",
            "tea",
            "an old clock",
            "rain",
            "mountains",
        ):
            yield f"Write a haiku about {thing}."
        for place in ("Mongolia", "Peru", "Iceland", "Ghana", "Nepal", "Chile", "Fiji", "Oman"):
            yield f"What is the capital of {place}?"
        for text in (
            "Explain how a bubble sort works.",
            "How do I reverse a linked list in Java?",
            "Translate 'good luck' into Finnish.",
            "What is the boiling point of ethanol?",
            "Why is the sky blue?",
            "Who painted Guernica?",
            "Sum up the plot of Hamlet.",
            "How many moons does Saturn have?",
            "Give me a recipe for pancakes.",
            "What does HTTP status 418 mean?",
            "Write a regex that matches IPv4 addresses.",
            "What is the difference between TCP and UDP?",
            "Fix the grammar: he go home.",
            "List five synonyms of happy.",
            "How far is the moon?",
            "What is a monad?",
            "When did the Berlin wall fall?",
            "Convert 15 miles to kilometres.",
            "Write a unit test for a stack class.",
            "How do vaccines work?",
            "What causes tides?",
            "Is a tomato a fruit?",
            "Draw a cat in ASCII.",
            "Make this sentence more formal: gimme that.",
            "What rhymes with orange?",
            "Explain photosynthesis to a child.",
            "How do I exit vim?",
            "What is the square root of 1764?",
            "Define entropy.",
            "How does a heat pump work?",
            "Which is larger, a crocodile or an alligator?",
            "Write a limerick about cheese.",
            "What is the plural of octopus?",
            "How long do elephants live?",
            "Suggest a name for a bakery.",
            "What is the chemical symbol of tungsten?",
            "Compare Python and Ruby.",
            "How do I sharpen a kitchen knife?",
        ):
            yield text
        for _ in range(20):
            yield f"What is {rng.randrange(12, 99)} times {rng.randrange(12, 99)}?"
        return
    yield from (
        "你好|您好|谢谢|谢谢你|好的|好的，继续|嗯|早上好|可以|不用了|没问题|再见|哈哈|你是谁？|你会做什么？|继续|再试一次|短一点|为什么？|做得好|"
        "现在几点了？|晚安|好无聊啊|讲个笑话|请解释一下|收到"
    ).split("|")
    for thing in ("大海", "秋天", "手套", "机器人", "茶", "老钟", "下雨", "高山"):
        yield f"写一首关于{thing}的诗。"
    for place in ("蒙古", "秘鲁", "冰岛", "加纳", "尼泊尔", "智利", "斐济", "阿曼"):
        yield f"{place}的首都是哪里？"
    for text in (
        "解释一下冒泡排序。",
        "用 Java 怎么反转链表？",
        "把“祝你好运”翻译成芬兰语。",
        "乙醇的沸点是多少？",
        "天空为什么是蓝色的？",
        "《格尔尼卡》是谁画的？",
        "概括一下哈姆雷特的情节。",
        "土星有多少颗卫星？",
        "教我做松饼。",
        "HTTP 418 是什么意思？",
        "写一个匹配 IPv4 的正则表达式。",
        "TCP 和 UDP 有什么区别？",
        "改一下病句：他去回家了。",
        "列出五个高兴的近义词。",
        "月球离地球多远？",
        "什么是单子？",
        "柏林墙是哪年倒的？",
        "15 英里是多少公里？",
        "给栈类写一个单元测试。",
        "疫苗是怎么起作用的？",
        "潮汐是怎么形成的？",
        "番茄是水果吗？",
        "用字符画一只猫头鹰。",
        "把这句话写得正式一点：给我那个。",
        "给小朋友讲讲光合作用。",
        "怎么退出 vim？",
        "1764 的平方根是多少？",
        "熵的定义是什么？",
        "热泵的原理是什么？",
        "鳄鱼和短吻鳄哪个大？",
        "大象能活多少年？",
        "给面包店起个名字。",
        "钨的化学符号是什么？",
        "比较一下 Python 和 Ruby。",
        "菜刀怎么磨？",
        "成语“画蛇添足”是什么意思？",
        "黑洞是怎么被发现的？",
        "写一副春联。",
    ):
        yield text
    for _ in range(20):
        yield f"{rng.randrange(12, 99)}乘以{rng.randrange(12, 99)}等于多少？"
