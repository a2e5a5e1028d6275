"""Questions about a text: what is quoted, or to be spelled, corrected or counted, must stand there letter by letter."""

from __future__ import annotations

import re
from typing import Final

from openclaw_cache.semantic.validity import Pair, Verdict
from openclaw_cache.semantic.words.listed import listed

_ABOUT: Final = re.compile(
    r"\b(?:spell(?:ed|ing|s|t)?|misspelled|pronounced?|pronunciation|grammar|grammatical(?:ly)?|proofread|repeat after"
    r"|(?:count|how many) (?:of )?(?:the )?(?:words|letters|characters|vowels|syllables)|uppercase|lowercase"
    r"|capitali[sz]e|rhymes?|anagram|palindrome|plural of)\b|^say\b"
    r"|\b(?:translate|rewrite|paraphrase)\b[^:]{0,80}(?::|\"|\b(?:to|into|in) [a-z]+[?.! ]*$)"
    r"|拼写|拼音|错别字|病句|语法|跟我(?:读|说)|多少个?字|几个字|字数|笔画|押韵|(?:翻译|改写|润色|复述)[^:]{0,80}[:\"“「成为]"
)
_QUOTED: Final = re.compile(r"(?<!\w)['\"“「]([^'\"“”「」\n]{1,20})['\"”」](?!\w)")
_WORD: Final = re.compile(r"[\u3400-\u9fff]|[^\W_\u3400-\u9fff]+")
_AROUND: Final = frozenset(
    listed(
        """
            please can could you would me my i do does how what whats is are the a an to into in for of word this that
            it tell give want need 请 帮 我 你 把 一 下 个 成 为 吗 的 是 怎 么 什 如 何 能 给 文 这 句
            话 呢 啊 写 读 词
        """
    )
)


class Wording:
    """Objects where a question is about words as such and the other has other words, or both quote other ones."""

    name = "wording"

    def verdict(self, pair: Pair) -> Verdict:
        """Judge a pair."""
        asked, stored = pair.asked.normal, pair.stored.normal
        quoted, others = ({*_QUOTED.findall(text)} for text in (asked, stored))
        if quoted and others and quoted != others:
            return Verdict(self.name, False, "quoted")
        if not _ABOUT.search(asked) and not _ABOUT.search(stored):
            return Verdict(self.name, True)
        apart = frozenset(_WORD.findall(asked)) ^ frozenset(_WORD.findall(stored))
        return Verdict(self.name, True) if apart <= _AROUND else Verdict(self.name, False, "wording")
