"""What is drawn for a memory's template: people, projects, things and numbers."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.memory import words

Fields = dict[str, str]
Draw = Callable[[random.Random, str], Fields]


@dataclass(frozen=True, slots=True)
class Wording:
    """In one language."""

    memories: tuple[str, ...]
    direct: tuple[str, ...]
    other: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of memory."""

    name: str
    key: tuple[str, ...]
    draw: Draw
    en: Wording
    zh: Wording
    is_exact: bool = False
    """Whether its questions name a number or an identifier."""

    def wording(self, language: str) -> Wording:
        return self.en if language == "en" else self.zh


def person(rng: random.Random, language: str) -> str:
    if language == "en":
        return f"{rng.choice(words.FIRST)} {rng.choice(words.LAST)}"
    return rng.choice(words.SURNAMES) + "".join(rng.sample(words.GIVEN, rng.choice((1, 2, 2))))


def project(rng: random.Random) -> str:
    return f"{rng.choice(words.PROJECT_FIRST)} {rng.choice(words.PROJECT_LAST)}"


def pair(rng: random.Random, name: str, pairs: tuple[tuple[str, str], ...]) -> Fields:
    """A thing under its names in both languages: `name` is filled by the language's own."""
    english, chinese = rng.choice(pairs)
    return {f"{name}_en": english, f"{name}_zh": chinese}


def day(rng: random.Random) -> Fields:
    month, number = rng.randrange(12), rng.randrange(1, 29)
    return {"date_en": f"{number} {words.MONTHS[month]}", "date_zh": f"{month + 1}月{number}日"}


def birthday(rng: random.Random, language: str) -> Fields:
    return {"p": person(rng, language)} | day(rng)


def allergy(rng: random.Random, language: str) -> Fields:
    return {"p": person(rng, language)} | pair(rng, "food", words.FOODS)


def home(rng: random.Random, language: str) -> Fields:
    return {"p": person(rng, language)} | pair(rng, "city", words.CITIES)


def role(rng: random.Random, language: str) -> Fields:
    return {"p": person(rng, language), "j": project(rng)} | pair(rng, "role", words.ROLES)


def database(rng: random.Random, language: str) -> Fields:
    return {"j": project(rng), "db": rng.choice(words.DATABASES)} | pair(rng, "why", words.REASONS)


def deadline(rng: random.Random, language: str) -> Fields:
    return {"j": project(rng)} | day(rng)


def budget(rng: random.Random, language: str) -> Fields:
    return {"j": project(rng), "n": f"{rng.randrange(11, 990)},000"}


def server(rng: random.Random, language: str) -> Fields:
    host = f"{rng.choice(words.NOUNS)}-{rng.choice(words.VERBS)}-{rng.randrange(100, 9999)}.example.net"
    return {"j": project(rng), "host": host, "port": str(rng.randrange(2000, 9999))}


def outage(rng: random.Random, language: str) -> Fields:
    return {"j": project(rng), "n": str(rng.randrange(5, 300))} | pair(rng, "cause", words.CAUSES)


def pin(rng: random.Random, language: str) -> Fields:
    version = f"{rng.randrange(1, 9)}.{rng.randrange(0, 30)}.{rng.randrange(0, 10)}"
    return {"j": project(rng), "lib": rng.choice(words.LIBRARIES), "v": version}


def function(rng: random.Random, language: str) -> Fields:
    name = (
        f"{rng.choice(words.VERBS)}_{rng.choice(words.NOUNS)}_{rng.choice(words.NOUNS)}{rng.randrange(2, 40)}"
    )
    file = f"src/{rng.choice(words.NOUNS)}/{rng.choice(words.VERBS)}er.py"
    return {"f": name, "file": file} | pair(rng, "does", words.PURPOSES)


def ticket(rng: random.Random, language: str) -> Fields:
    return {"t": f"{rng.choice(('OPS', 'WEB', 'APP', 'DATA'))}-{rng.randrange(1000, 99999)}"} | pair(
        rng, "cause", words.CAUSES
    )


def pet(rng: random.Random, language: str) -> Fields:
    return {"p": person(rng, language), "name": rng.choice(words.PET_NAMES)} | pair(rng, "pet", words.PETS)


def tool(rng: random.Random, language: str) -> Fields:
    english, chinese, tools = rng.choice(words.TOOLS)
    one, other = rng.sample(tools, 2)
    found = {"tool_en": english, "tool_zh": chinese, "a": one, "b": other, "p": person(rng, language)}
    return found | pair(rng, "work", words.WORKS)


def decision(rng: random.Random, language: str) -> Fields:
    return {"j": project(rng)} | pair(rng, "topic", words.TOPICS) | pair(rng, "outcome", words.OUTCOMES)


def meeting(rng: random.Random, language: str) -> Fields:
    return {"p": person(rng, language)} | pair(rng, "city", words.CITIES) | pair(rng, "topic", words.TOPICS)


def chore(rng: random.Random, language: str) -> Fields:
    thing, city, chore = rng.choice(words.THINGS), rng.choice(words.CITIES), rng.choice(words.CHORES)
    return {
        "p": person(rng, language),
        "did_en": chore[0].format(thing[0], city[0]),
        "did_zh": chore[1].format(thing[1], city[1]),
        "thing_en": thing[0],
        "thing_zh": thing[1],
    }
