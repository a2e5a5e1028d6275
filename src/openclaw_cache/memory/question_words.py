"""Words of a question that no memory is found by, in English and Chinese."""

from __future__ import annotations

from typing import Final

from openclaw_cache.semantic.words import function_words
from openclaw_cache.semantic.words.listed import listed

ENGLISH: Final = function_words.ENGLISH | frozenset(
    listed("""
        remember recall remind tell told know let say said mention mentioned talk talked ask asked again give show
        find look check want need get got go going continue
    """)
)

HAN_WORDS: Final = frozenset(word for word in function_words.HAN if 2 <= len(word) <= 4) | frozenset(
    listed("""
        记得 还记得 记不记得 提醒 提到 提过 说过 聊过 讲过 告诉过 哪天 哪一天 哪位 哪家 哪款 哪种 哪一个
        哪个人 当时 之前
        以前 之后 时间 到底 究竟 关于 有关 我们 咱们 你们 他们 一下 什么时候 是什么 叫什么 做了 说了 好的
        好吧 行吧 没事 收到 明白 辛苦 继续
    """)
)

HAN_PARTICLES: Final = frozenset(
    "的了着过吗呢吧啊呀嘛么哦嗯是在有和与及就都也还很我你您他她它这那哪谁几把被让请"
)
"""Single characters that are seldom a part of a word that tells something."""
