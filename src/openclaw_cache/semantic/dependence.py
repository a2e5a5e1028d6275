"""Whether the answer to a question depends on when, where or by whom it is asked, or on what was said before. Pure.

Such a question has no answer that could be kept for another. Most questions to a help desk say "my" and "I" and have
one answer for all ("How do I reset my password?"); so it takes more than a pronoun: the question must ask for
something that only the state of the one who asks can tell ("Where is my order?", 我的订单到哪了).
"""

from __future__ import annotations

import re
from typing import Final

from openclaw_cache.semantic.words.listed import listed
from openclaw_cache.semantic.words.spelling import plain

MAX_READ: Final = 20_000
"""Characters that are looked at."""


def depends_on(text: str, *, strict: bool = False) -> str:
    """Return what the answer depends on: "time", "user", "place", "conversation", or "" where it is the same for all.

    Linear in the length of the text, 20 µs for a short one; takes any text.

    Args:
        text: The question.
        strict: Let every mention of time, place or oneself count, whatever is asked.
    """
    read = plain(text[:MAX_READ]).casefold().strip()
    if _TIME.search(read) or _HAN_TIME.search(read) or _LIVE.search(read):
        return "time"
    if _PLACE.search(read) or _HAN_PLACE.search(read):
        return "place"
    if _asks_for_ones_own(read):
        return "user"
    if _leans_on_what_was_said(read):
        return "conversation"
    if strict:
        return next((what for what, pattern in _STRICT if pattern.search(read)), "")
    return ""


# --- time

_SPANS: Final = (
    "morning|afternoon|evening|night|week|weekend|month|year|quarter|season|spring|summer|autumn|fall|winter|semester|term"
    "|monday|tuesday|wednesday|thursday|friday|saturday|sunday|time"
)
_TIME: Final = re.compile(
    r"\b(?:today|todays|tonight|tomorrow|tomorrows|yesterday|yesterdays|nowadays|recently|these days"
    r"|just now|so far"
    r"|currently|right now|at the moment|at present|as of now|by now|up to date)\b"
    rf"|\b(?:this|next|last|past|coming) (?:{_SPANS})s?\b"
    rf"|\bthis (?:very |coming )?(?:{_SPANS})\b"
    r"|(?<!what )(?<!from )(?<!by )\bnow\b(?! that\b)(?! on\b)"
    r"|\bcurrent\b(?! (?:account|accounts|directory|folder|password|page|line|row|branch|working))"
    r"(?<!electric current)(?<!direct current)(?<!alternating current)"
    r"|(?<!at the )\blatest\b(?! (?:version|release))"
    r"|\bwhat(?:'s| is|s)? (?:the )?(?:time|date|day)(?: is it| it is|\?|$| in\b| of the week| right)"
    r"|(?<!cold )(?<!hot )(?<!bad )(?<!wet )(?<!severe )(?<!winter )(?<!summer )\b(?:weather|forecast"
    r"|breaking news|news|headlines|live score|stock price|share price|traffic)\b"
    r"|\b(?:exact |the )time (?:in|is it|please|now|there)\b|\btime (?:is it )?in [a-z]+[?.]?$"
    r"|\bdate will it be\b|\bday will it be\b"
    r"|\bis it (?:going to |gonna )?(?:rain|snow|raining|snowing|cold|hot|sunny)\b|\bwill it (?:rain|snow)\b"
    r"|\bhow (?:many|much) (?:days|weeks|months) (?:until|till|to go|left)\b"
)
_HAN_TIME: Final = re.compile(
    "今天|今日|今晚|今早|今年|今儿|明天|明日|明早|明晚|明年|后天|昨天|昨日|昨晚|前天|去年|前年"
    "|刚才|刚刚|此刻|眼下|目前|实时|最新(?!版)|近期|近来|这几天|这两天|现在(?!进行时)"
    "|当前(?!目录|行|页|用户|路径|文件夹|分支|密码|位置)"
    "|(?:这|上|下|本)(?:一)?(?:个)?(?:周|月|星期|礼拜|季度|学期|年度)(?![有内])"
    "|天气(?:怎|如何|预报|好|情况|热|冷)|的天气|气温多少|路况|新闻|股价|最近(?!的|一次)"
)

_LIVE: Final = re.compile(
    r"\b(?:what(?:'s|s| is| are)|how much (?:is|are|does)|tell me|show me|check)\b[^.?!]{0,40}"
    r"\b(?:exchange rates?|price of (?:bitcoin|btc|eth|ethereum|gold|silver|oil|gas|crude)"
    r"|(?:bitcoin|btc|eth|ethereum|gold|silver|oil|gas|stock|share) prices?)\b"
    r"|^(?:bitcoin|btc|ethereum|gold|silver|oil|gas|stock) prices?\b"
    r"|\b(?:when(?:'s|s| is)|what time (?:is|does)) the next\b"
    r"|^(?:is|are) (?:the |your |that )?(?:[\w'-]+ ){0,3}(?:open|closed|in stock|sold out|down|offline)[ ?]*$"
    r"|汇率(?:是|现)?多少|(?:比特币|黄金|金价|油价|房价)[^，。？?]{0,4}多少|(?:开门|营业|关门|打烊|开张)了[吗没]|有(?:现)?货[吗么]|有库存[吗么]|下一班"
)
"""What changes by itself, though no word says when."""

# --- place

_PLACE: Final = re.compile(
    r"(?<!click )(?<!stated )(?<!deal )(?<!going on )\bhere\b(?! (?:is|are|s)\b)(?!')"
    r"|\bnear(?:by| me| us| here)\b|\bclose to me\b|\b(?:closest|nearest)\b(?![^.?!,]{0,40}\bto (?!me\b))"
    r"|\b(?:in|around|for) (?:my|this|our) (?:area|city|town|region|country|neighbou?rhood|zip|postcode)\b"
    r"|\bwhere (?:am i|are we)\b|\b(?:what(?:'s|s| is)|where(?:'s|s| is)) my (?:current )?(?:location"
    r"|whereabouts)\b|\bthis (?:place|area|city|town)\b"
)
_HAN_PLACE: Final = re.compile(
    "这里(?!是)|这儿|这边|(?:^|我|这|的|在)附近|周边有|我在哪|离我|我这|我们这|我的位置在|最近的[^，。？!?]{0,8}(?:在哪|哪里|怎么走)"
)

# --- user

_OWN: Final = (
    "balance|balances|order|orders|package|parcel|delivery|shipment|refund|appointment|appointments|booking|reservation"
    "|reservations|schedule|calendar|agenda|meeting|meetings|paycheck|payslip|salary|statement|transaction|transactions"
    "|score|points|rewards|usage|bill|bills|inbox|email|emails|message|messages|list|reminders|reminder|alarm|alarms|flight"
    "|location|number|name|nickname|birthday|age|address|status|application|request|claim|case|ticket|limit|rate|income"
    "|spending|vacation|pto|leave|w2|taxes|luggage|bags|phone|car|mileage|tank|tires|oil|account|accounts|history|plan"
)
_MY: Final = rf"\b(?:my|our)(?: [\w'-]+){{0,3}}? (?:{_OWN})\b"
_GENERAL: Final = re.compile(
    r"\b(?:how (?:do|can|should|could|would|might|to|does|long|often|am i (?:able|supposed|meant))"
    r"|where (?:do|can|should|could|would) (?:i|we|you)"
    r"|what (?:do|should|can|must|would) (?:i|we) (?:need |have )?(?:to )?do|what (?:documents|paperwork)"
    r"|(?:way|ways|process|steps?|procedure) (?:to|for|of)"
    r"|(?:can|could|may|must|should) (?:i|we)|am i (?:able|allowed|permitted|supposed)|is it (?:possible"
    r"|ok|okay|safe|legal)"
    r"|do (?:i|we) (?:need|have to)|what (?:happens|if)|why)\b"
)
_STATE: Final = re.compile(
    rf"\b(?:where(?:'s| is|s| are)?|track|trace|locate|status of|has|have|did|is|are|was|were)(?: the)? {_MY}"
    rf"|\b(?:what(?:'s|s| is| are| was| were)|when(?:'s|s| is| was| will| does| do| are)|how (?:much|many"
    rf"|high|big|low|full|old))"
    rf"(?: [\w'-]+){{0,4}}? {_MY}"
    r"|\bwho(?:'s|s| is) my\b|\bwhat(?:'s|s| is) my (?!best\b|options?\b|rights?\b|chances?\b)"
    rf"|\b(?:show|tell|give|read|list|check|display|find|see|look up|pull up)(?: [\w'-]+){{0,5}}? {_MY}"
    r"|\bmy account balance\b|\bbalance (?:of|on|in|for) my\b"
    r"|\b(?:what|how much|how many|when|where|which)(?: [\w'-]+){0,4}? (?:did|have) i\b(?! (?:to|need)\b)"
    r"|\b(?:did|was) i\b|\bhave i (?:been|got|paid|used|ordered|received|spent|missed|any|already|made|taken)\b"
    r"|\b(?:who am i|what am i|how old am i|where do i (?:live|work)|(?:what|how much) do i (?:have|owe|look)"
    r"|do i (?:have|owe) (?:any|a|an|enough)\b)"
    r"|\bam i (?:approved|scheduled|booked|registered|enrolled|due|late|free|overdrawn|logged|verified)\b"
    r"|\bdo i (?:still )?(?:have|owe) (?:left|money|anything)\b|\b(?:days?|hours|money"
    r"|credit) (?:do )?i have(?: left)?\b"
    r"|\b(?:order|parcel|ticket|booking|case|tracking|reference|flight)(?: (?:number|no|id"
    r"|nr))?\.? #?[a-z]{0,4}-?\d{3,}"
)
_HELD: Final = re.compile(
    r"\b(?:balances?|limit|amount|total|points|rewards?|transactions?|purchases|charges|pto|days off"
    r"|vacation|list|money|funds"
    r"|bills?|status|due|score)\b"
)
"""What one has an amount or a state of."""
_ASKS: Final = re.compile(
    r"\b(?:what(?:'s|s)?|how (?:much|many|high|big|low)|is|are|does|did|do|has|have|show|tell|let me know"
    r"|look up|bring up|list|read"
    r"|repeat|i (?:want|need|would like|'d like|wanna) (?:to )?(?:know|see|hear|check)|give|check|find out)\b"
)
_HELD_BY_ME: Final = re.compile(
    r"\b(?:my|i have|i've|ive|i owe|do i|to i have|did i|i used|i spent|left for me|available to me"
    r"|remaining|on me)\b|^order status"
)
_DO: Final = re.compile(
    r"^(?:(?:please|hey|hi|ok|okay|now|so|and|pls|just)[, ]+)*"
    r"(?:(?:can|could|would|will) you (?:please |just )?|i(?:'d like| would like| need| want) you to "
    r"|you need to )?(?:please )?"
    r"(?:transfer|move|send|pay|call|text|phone|dial|email|book|reserve|cancel|set|remind|add|remove"
    r"|delete|order|buy"
    r"|schedule|wake|play|freeze|block|lock|unlock|turn|switch|update|change|put|take|make|file|report|confirm"
    r"|track|refill|rename|share|start|stop|pause|resume|skip|roll over|redeem)\b[^.?!]{0,120}?\b(?:my|me"
    r"|mine|our)\b"
)
_TELL_ME: Final = re.compile(
    r"\b(?:tell|show|give|teach) me (?:how|about|the (?:way|process|steps|difference|meaning)|what|why|a|an)\b"
)
_HAN_STATE: Final = re.compile(
    "我(?:们)?的[^，。？!?]{0,10}(?:到哪|在哪|到了|发货了|还没|有多少|还有多少|还剩|剩多少|是多少|多少钱|余额|进度|状态|怎么样了|通过了|批了|什么时候到|叫什么)"
    "|我(?:还)?(?:有多少|还有|剩|欠|花了|买了|下的|叫什么|是谁|住哪|多大|几岁|上次|之前(?:说|问|买))|我(?:昨天|今天|刚)"
    "|我账(?:户|号)(?:里)?(?:还)?(?:有多少|余额)|(?:查|看)(?:一下|下|查)?我的"
    "|帮我(?:转账|转|订|预订|取消|打电话|设(?:个|置)?闹钟|定(?:个)?闹钟|提醒|买|退)|提醒我|叫我起床|给我(?:打电话|转|订)"
    "|(?:订单|单号|快递|运单)(?:号)?[:：]?\\s?[a-z]{0,4}[0-9]{5,}"
)
_HAN_OWN_STATE: Final = re.compile(
    "(?:发货|到账|寄出|签收|扣款|审核|通过|退款)了[吗没]|(?:退款|快递|订单|包裹|物流)到哪|^余额[^，。？?]{0,3}多少"
)
"""What only one's own case tells, though nobody says "my"."""
_HAN_GENERAL: Final = re.compile("怎么(?!样|还)|如何|怎样|咋|可以吗|能不能|能否|是否可以|步骤|流程|方法")


def _asks_for_ones_own(read: str) -> bool:
    """Whether only the state of the one who asks holds the answer, or something is to be done for them."""
    if _HAN_STATE.search(read) or _HAN_OWN_STATE.search(read):
        return not _HAN_GENERAL.search(read)
    if _DO.search(read) and not _TELL_ME.search(read):
        return True
    if _GENERAL.search(read):
        return False
    return bool(_STATE.search(read)) or bool(
        _ASKS.search(read) and _HELD.search(read) and _HELD_BY_ME.search(read)
    )


# --- conversation

_SAID: Final = re.compile(
    r"\byou (?:just )?(?:said|mentioned|wrote|suggested|explained|told me)\b|\bi (?:just )?(?:said"
    r"|mentioned|told you|asked you|asked before)\b"
    r"|\b(?:as|like|mentioned|said|stated|described) (?:above|before|earlier|previously)\b"
    r"|\bprevious (?:question|answer|message)\b"
    r"|\b(?:the )?(?:former|latter|second one|first one|last one|other one)\b|\byour (?:last|previous) \w+"
    r"|^(?:what about|how about|and|but|or|also|then|so what|what else|anything else|why not|why|how|when"
    r"|where|who|really"
    r"|are you sure|go on|continue|more|tell me more|go ahead|keep going|elaborate|explain(?: more"
    r"| further| again)?|again|repeat"
    r"|say (?:it|that) again|yes|no|yeah|nope|ok|okay|sure|thanks|thank you|right|correct|wrong|exactly|please do)"
    r"(?: please)?[ ?!.]*$"
    r"|^(?:what about|how about|and what about|same (?:for|question|thing)|and (?:for|in|what|how|if|the)"
    r"|or (?:is|should|do))\b"
    r"|\b(?:can|could) you (?:elaborate|continue|repeat|rephrase|clarify)\b"
    r"|^(?:please )?(?:(?:make|keep) (?:it|this|that) \w+|try (?:it )?again|rewrite (?:it|this|that))\b|\bthe above\b"
)
_PERSON: Final = re.compile(r"\b(?:he|she|him|his|her|hers)\b")
_BEFORE_PERSON: Final = frozenset(
    listed(
        """
            how old is was are were does did do can could will would should what where when why who which tall
            much many long has have had a the of for to and with from about think tell me know please about born
            die live work
        """
    )
)
_IT: Final = re.compile(r"\b(?:it|that|this|those|these|they|them)\b")
_HOLLOW: Final = re.compile(
    r"\b(?:does|did|will|would|can|could|should|might|do) it (?:usually |normally |typically "
    r"|really )?(?:take|cost|help|matter|get)\b"
    r"|\b(?:is|was|isn't) it (?:[a-z]+ ){1,2}(?:to|for|that|if|when)\b|\bit (?:takes|took|costs|is possible)\b"
)
"""An "it" that stands for nothing."""
_EMPTY: Final = frozenset(
    listed(
        """
            it that this those these is was are were do does did can could will would should may i you we me my
            a an the to of in on for and or please how what why when where who which much many long far work
            works mean means cost costs take happen if so be been have has get there about again some any not
            more really one ok like with from up at by as then
        """
    )
)
_HAN_SAID: Final = re.compile(
    "^(?:继续|接着说|再说一遍|再说一次|还有呢|还有吗|然后呢|为什么|为啥|怎么办|是吗|真的吗|好的|可以|行|不是|对|谢谢|详细点|详细说说|展开说说|举个例子"
    "|具体呢|具体说说|换一个|再来一个|翻译一下|解释一下|总结一下)[呢吗吧啊呀？?。!！ ]*$"
    "|^(?:请)?(?:重写|重新写|改写一下|再(?:短|长|详细|简单|正式|来)一?[点些]?)[^，。？?]{0,4}$"
    "|^(?!怎么|如何|怎样|为什么|什么|哪)(?:那|那么|如果是)?.{0,12}呢[？?。]*$|^那(?!么高|里|些|个人|不勒)[^，。？?]{0,14}(?:呢|吗)[？?]*$"
    "|(?:你|您|我)(?:刚才|刚刚|之前|前面|上面)?(?:说过|说的|提到|讲的|推荐的|给的)|上面(?:的|提到)|前面(?:的|提到)|上述|以上(?:内容|代码|文字|问题|回答)"
    "|上一(?:个|条)(?:问题|回答)|第[一二三四五]个(?:呢|是什么|怎么)"
)
_HAN_PERSON: Final = re.compile(
    "^[^，。？?]{0,3}(?:他|她|它)(?!们的|人)|^(?:这个|那个|这|那)(?:是什么|怎么|多少|呢|可以|能|行|好)[^，。]{0,8}[？?]*$"
)


def _leans_on_what_was_said(read: str) -> bool:
    """Whether it points at something that it does not name itself."""
    if _SAID.search(read) or _HAN_SAID.search(read) or _HAN_PERSON.search(read):
        return True
    person = _PERSON.search(read)
    if person is not None and all(word in _BEFORE_PERSON for word in _WORDS.findall(read[: person.start()])):
        return True
    if len(read) > 60 or not _IT.search(_HOLLOW.sub(" ", read)):
        return False
    named = [word for word in _WORDS.findall(read) if word not in _EMPTY]
    return len(named) <= 1 and not any(word.isdigit() for word in named) and not _NUMBER.search(read)


_WORDS: Final = re.compile(r"[^\W_]+")
_NUMBER: Final = re.compile(r"[0-9]")

_STRICT: Final = (
    ("user", re.compile(r"\b(?:my|mine|me|our|ours|us|i|we|i'm|i've|i'd)\b|我|咱|俺|本人")),
    (
        "time",
        re.compile(
            r"\b(?:recent|current|now|latest|new|next|last|ago|soon|yet|still|already|when)\b|最近|最新"
            r"|已经|还没|多久|什么时候"
        ),
    ),
    ("place", re.compile(r"\b(?:local|near|closest|nearest|area|around|here)\b|本地|当地|最近|周围")),
    (
        "conversation",
        re.compile(r"\b(?:it|this|that|these|those|he|she|they|him|her|them)\b|这个|那个|它|他|她"),
    ),
)
"""What counts where nothing may be risked."""
