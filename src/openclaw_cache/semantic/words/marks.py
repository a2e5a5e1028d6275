"""Marks of what a question asks: its kind, whether it denies, how much it takes in, where it goes from and to."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from openclaw_cache.semantic.words.function_words import OPENERS
from openclaw_cache.semantic.words.listed import listed


@dataclass(frozen=True, slots=True)
class Marks:
    """What a question asks, apart from its matter."""

    asks: frozenset[str]
    """Kinds of question: why, how, when, where, who, price, duration, number, whether."""
    num_negations: int
    lacks: frozenset[str]
    """Words that say without a "not" that something is not so: lost, unable, failed."""
    days: frozenset[str]
    """Days of the week and such, in one spelling."""
    quantifiers: frozenset[str]
    sources: frozenset[str]
    targets: frozenset[str]
    """Words after "from" and after "to"."""
    links: frozenset[tuple[str, str]]
    """What stands before and after a word that leads from one to the other: "USD to EUR"."""


_NEGATIONS: Final = frozenset(
    listed(
        """
            not no never none nothing nobody nowhere neither nor without cannot dont doesnt didnt isnt arent
            wasnt werent wont wouldnt couldnt shouldnt havent hasnt hadnt cant non except excluding 不 没 没有
            无 未 别 非 勿 莫 不能 不可以 无法 不会 不要 不用 不需要 不是 不得 不准 不允许 未能 从不 并非 不必
            除了
        """
    )
)
_LACKS: Final = frozenset(
    listed(
        """
            lose lost miss missing unable fail failed failure refuse forget forgot lack deny stop broken prevent
            avoid impossible wrong reject decline error unavailable unlock unsubscribe cancel mute block
            waterproof 退订 取消 静音 屏蔽 拒收 关闭 漏 丢 丢失 丢了 遗失 忘 忘记 忘了 失败 拒绝 缺 缺少 停止
            禁止 避免 防止 不见了 连不上 打不开 坏 坏了 过期 到期
        """
    )
)
_DAYS: Final = {
    word: name
    for name, words in {
        "mon": "monday 星期一 周一 礼拜一",
        "tue": "tuesday 星期二 周二 礼拜二",
        "wed": "wednesday 星期三 周三 礼拜三",
        "thu": "thursday 星期四 周四 礼拜四",
        "fri": "friday 星期五 周五 礼拜五",
        "sat": "saturday 星期六 周六 礼拜六",
        "sun": "sunday 星期日 星期天 周日 礼拜天 礼拜日",
        "weekend": "weekend 周末",
        "weekday": "weekday 工作日",
        "today": "today 今天 今日",
        "tonight": "tonight 今晚",
        "tomorrow": "tomorrow 明天 明日",
        "yesterday": "yesterday 昨天 昨日",
        "spring": "spring 春天 春季",
        "summer": "summer 夏天 夏季",
        "autumn": "autumn fall 秋天 秋季",
        "winter": "winter 冬天 冬季",
    }.items()
    for word in words.split()
}
_QUANTIFIERS: Final = {
    word: name
    for name, words in {
        "all": "all every everyone everything each whole entire 所有 全部 每个 每 一切 全",
        "some": "some several part partly partial 一些 有些 部分 某些",
        "only": "only solely exclusively 只能 仅 只有 仅仅 仅限 只限 只",
        "most": "most mostly 大多数 大部分 多数",
        "both": "both 两者 都",
        "least": "least minimum min fewest 至少 最少 最低",
        "at most": "maximum max 至多 最多 最高",
    }.items()
    for word in words.split()
}
_ASKS: Final = {
    "why": "why",
    "when": "when",
    "where": "where",
    "who": "who",
    "whom": "who",
    "whose": "who",
    "which": "which",
    "为什么": "why",
    "为何": "why",
    "为啥": "why",
    "什么时候": "when",
    "何时": "when",
    "几点": "when",
    "哪里": "where",
    "哪儿": "where",
    "谁": "who",
    "多少钱": "price",
    "多久": "duration",
    "多长时间": "duration",
    "怎么": "how",
    "如何": "how",
    "怎样": "how",
    "怎么办": "how",
    "咋": "how",
    "吗": "whether",
    "是否": "whether",
    "能不能": "whether",
    "可不可以": "whether",
    "能否": "whether",
    "可否": "whether",
    "是不是": "whether",
    "有没有": "whether",
    "会不会": "whether",
    "要不要": "whether",
    "需不需要": "whether",
    "行不行": "whether",
    "好不好": "whether",
    "可不可": "whether",
}
_HOW, _HOW_MUCH, _WHAT = "how", "how much", "what"
_ONLY_FIRST: Final = frozenset(("when", "where", "which", "who", "whose"))
"""Words that ask at the start of a clause, and elsewhere join two."""
_OFFERS: Final = frozenset(listed("help explain tell way show know guide instruction"))
"""Words with which "can you" asks for no yes or no."""
_AFTER_HOW: Final = {
    "many": "number",
    "long": "duration",
    "often": "often",
    "far": "distance",
    "old": "age",
    "come": "why",
}
_AUXILIARIES: Final = frozenset(
    listed("is are am was were can could do does did will would should may might must has have had shall")
)
_PRICES: Final = frozenset(listed("cost price fee charge pay"))
_BEFORE_PRICE: Final = frozenset(listed("is are was were do does did would will should to for a an the"))
_MATTERS: Final = {
    word: kind
    for kind, words in {
        "how": "process procedure step method way instruction 流程 步骤 方法 办法 手续",
        "when": "deadline 截止日期 截止时间",
        "price": "price cost fee 价格 费用 收费 价钱",
        "why": "reason 原因",
        "duration": "how long 多久 多长时间 期限",
        "where": "location address",
    }.items()
    for word in words.split()
}
"""Words that say what kind of answer a "what" asks for."""


def marks_of(order: Sequence[str], clauses: Sequence[int], deeds: Collection[int]) -> Marks:
    """Read the marks from the tokens of a question. Linear; tens of µs for a short one.

    Args:
        order: The tokens.
        clauses: The clause of each.
        deeds: Places of those that tell what is done.
    """
    tokens = set(order)
    return Marks(
        asks=_asks(order, clauses),
        num_negations=sum(token in _NEGATIONS for token in order),
        lacks=frozenset(tokens & _LACKS),
        days=frozenset(_DAYS[token] for token in tokens if token in _DAYS),
        quantifiers=frozenset(_QUANTIFIERS[token] for token in tokens if token in _QUANTIFIERS),
        sources=frozenset(_after(order, _FROM, deeds)),
        targets=frozenset(_after(order, _TO, deeds)),
        links=frozenset(
            (left, right)
            for left, middle, right in zip(order, order[1:], order[2:], strict=False)
            if middle in _LEADS and left != right
        ),
    )


_FROM: Final = frozenset(("from", "从", "自"))
_TO: Final = frozenset(("to", "into", "到", "往", "去", "飞往", "至", "for"))
_LEADS: Final = frozenset(
    listed("to into than versus over 到 至 换 换成 兑 兑换 转 转成 转换成 比 给 飞往 变成")
)
_SKIP: Final = frozenset(listed("a an the my your our his her their"))


def _after(order: Sequence[str], prepositions: frozenset[str], deeds: Collection[int]) -> list[str]:
    found = []
    for at, token in enumerate(order[:-1]):
        if token in prepositions:
            place = at + 2 if order[at + 1] in _SKIP and at + 2 < len(order) else at + 1
            if place not in deeds:
                found.append(order[place])
    return found


def _asks(order: Sequence[str], clauses: Sequence[int]) -> frozenset[str]:
    found: set[str] = set()
    opens = True
    for at, word in enumerate(order):
        opens = opens or clauses[at] != clauses[at - 1]
        is_first = opens and word not in OPENERS
        opens = opens and not is_first
        kind = _ask_at(order, at, is_first=is_first)
        if kind:
            found.add(kind)
    if "whether" in found and (len(found) > 1 or not _OFFERS.isdisjoint(order)):
        found.discard("whether")
    return frozenset(found or {_MATTERS[word] for word in order if word in _MATTERS})


def _ask_at(order: Sequence[str], at: int, *, is_first: bool) -> str:
    """The kind of question that a token asks; empty where it asks none."""
    word = order[at]
    following = order[at + 1] if at + 1 < len(order) else ""
    if word == _HOW_MUCH:
        return _amount(order, at, following)
    if word == _HOW:
        return _AFTER_HOW.get(following, "how")
    if word == _WHAT and following in {"time", "date", "day"}:
        return "when"
    if word in _AUXILIARIES and is_first:
        return "whether"
    if word in _ONLY_FIRST and not is_first and at > 2:
        return ""
    return _ASKS.get(word, "")


def _amount(order: Sequence[str], at: int, following: str) -> str:
    """What "how much" asks for: a price, or a number of something."""
    if following == "money":
        return ""  # "how much money do I need" asks for a price, "… can I send" for a limit
    is_price = not following or following in _BEFORE_PRICE or not _PRICES.isdisjoint(order[at + 1 : at + 7])
    return "price" if is_price else "number"


HAN_WORDS: Final = frozenset(
    word
    for word in (*_NEGATIONS, *_LACKS, *_DAYS, *_QUANTIFIERS, *_ASKS, *_MATTERS)
    if len(word) > 1 and not word.isascii()
)
"""Chinese words that are marks, to be cut out whole."""
