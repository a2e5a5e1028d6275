"""Words that shape a question and carry none of its matter, in English and Chinese."""

from __future__ import annotations

from typing import Final

from openclaw_cache.semantic.words.listed import listed

ENGLISH: Final = frozenset(
    listed("""
        a an the this that these those some any each every either neither both all such own same other another
        else i me my mine myself we us our ours ourselves you your yours yourself he him his she her hers it its
        itself they them their theirs one ones someone somebody anyone anybody everyone everybody something
        anything everything curious am is are was were be been being do does did done doing have has had having
        can could may might must shall should will would ought im ive youre youve theres thats whats wheres hows
        whos whens its theyre lets cant dont doesnt didnt isnt arent wasnt werent wont wouldnt couldnt shouldnt
        havent hasnt hadnt gonna wanna gotta who whom whose what which when where why how whether if and or but
        nor so than then as of at by for from in into on onto to up off out over about with within upon per via
        through during while because since until till between among against toward towards along across there
        here just also too very really actually basically simply quite rather even still yet already again ever
        only please pls plz thanks thank thankyou ty cheers hi hello hey dear greetings good morning afternoon
        evening sir madam um uh uhm umm er erm hmm ah oh ok okay well like right sorry excuse yes yeah yep no
        not never n't kindly asap mate tia ta anyway anyhow cheers btw fyi urgently gosh hiya yo appreciated wondered
    basically literally
    exactly currently possible possibly maybe perhaps wonder wondering etc eg ie
    """)
)
"""Left out where words are compared. Some of them are read by a rule of their own: negations, prepositions, "only"."""

LIGHT: Final = frozenset(
    listed("""
        get want need like know tell let make use take go come give way process step thing stuff able allow
        possible help try find show look see explain say mean work happen go have put keep option kind sort type
        bit lot long much many number name time people person question ask answer wish plan hope expect would
        love look current exact actual new go still each year available there able require must set everything
        information detail info place whole charge offer provide long apply own actually now go calculate
        compute work tell explain describe define
    """)
)
"""Words that add little: one of them alone on one side says less against two questions than another word would."""

OPENERS: Final = frozenset(
    listed(
        """
            ok okay um umm uh erm er hmm ah oh so well hi hello hey hiya greetings dear please pls morning
            afternoon evening good and but thanks thank cheers sorry excuse yo just quick quickly question
            urgent help btw fyi hmm right now yes no
        """
    )
)
"""Words before which a question has not yet begun: the next one opens it."""

FILLERS: Final = frozenset(
    (
        "quick question",
        "quick one",
        "hi team",
        "hi all",
        "hi guy",
        "hi folk",
        "hi everyone",
        "hello team",
        "hello all",
        "hello everyone",
        "hey team",
        "hey guy",
        "hey all",
        "dear team",
        "dear sir",
        "much appreciate",
        "thank advance",
        "hope well",
        "just wonder",
        "just curious",
        "be curious",
        "any idea",
        "any chance",
        "by the way",
        "in advance",
        "good morning",
        "good afternoon",
        "good evening",
        "good day",
        "excuse me",
        "many thank",
        "thank you",
        "real quick",
        "very much",
        "so much",
        "a lot",
        "at all",
        "of course",
        "for example",
        "hello there",
        "hi there",
        "hey there",
        "you know",
        "i mean",
        "kind regards",
    )
)
"""Phrases that say nothing of the matter, their words in basic form."""

HAN: Final = frozenset(
    listed("""
        的 地 得 了 着 过 吗 呢 吧 啊 呀 嘛 么 哦 哈 嗯 哎 喂 是 在 有 和 与 及 或 或者 还是 就 都 也 还 又 再
        才 很 太 更 最 挺 蛮 非常 我 我们 咱们 你 您 你们 他 她 它 他们 她们 它们 自己 这 那 这个 那个 这些 那些
        某 各 每 个 位 些 一个 一下 一些 一般 一般来说 一起 请 请问 麻烦 谢谢 多谢 您好 你好 大家好 想 想要 要
        会 能 能够 可以 可 应该 应当 该 需要 必须 得 会不会 能不能 可不可以 可否 能否 是否 是不是 有没有 行不行
        好不好 要不要 什么 什么样 怎么 怎样 怎么样 怎么办 如何 为什么 为何 为啥 啥 咋 咋办 咋样 哪 哪个 哪些
        哪里 哪儿 谁 何时 什么时候 几点 几 多少 多久 多长时间 多大 如果 要是 假如 的话 那么 因为 所以 但是 但 而
        而且 并 并且 然后 以及 关于 对 对于 把 被 给 让 为 向 往 从 到 由 用 以 于 跟 同 比 麻烦问下 麻烦问一下
        想问一下 想问下 请问一下 请问下 问一下 问下 想问 请教一下 咨询一下 咨询下 咨询 求助 求解 在线等 急急急
        不好意思 打扰一下 打扰了 那 哪位 各位 亲 亲们 老师 大神 有人知道 谁知道 有谁知道 你好啊 哈喽 嗨 谢谢啦
        谢谢您 谢谢你 感谢 辛苦了 拜托 的时候 时候 一 份 张 条 只 件 次 台 部 家 间 座 所 项 里 里面 中 上 下 时
        时候 之 其 所 来 去 做 进行 通常 目前 现在 百分之 等于 等 另 另外 好 已经 已 曾经 正在 一共 总共 大概
        大约 左右 请教 告诉 告诉我 知道 想知道 帮 帮我 帮忙 我的 你的 你们的 您的
    """)
)

HAN_LIGHT: Final = frozenset(
    listed(
        """
            支持 提供 办 办理 弄 搞 处理 进行 方法 办法 解决 问题 情况 事 事情 东西 人 使用 用 需要 可以 允许 说
            看 找 介绍 解释 说明 回事 意思
        """
    )
)

HAN_WITH_NUMERALS: Final = frozenset(
    listed("""
        四川 三亚 一定 十分 万一 统一 唯一 三明治 百度 百分之 千万 万能 一样 一直 一切 一种 双十一 六一 五一
        三星 一旦 七夕 百科 一致 一律 一半 一共 一起 一般 一些 一下 一个 一点 一次性 一边 第三方 三角 四季 五官
        九州 千年 万圣节 七喜 八卦 半天 进一步 一键 一卡通 一对一 一体 同一 星期一 星期二 星期三 星期四 星期五
        星期六 周一 周二 周三 周四 周五 周六 礼拜一 礼拜二 礼拜三 礼拜四 礼拜五 礼拜六 零售 零食 零件 零钱
    """)
)
"""Words in which a numeral counts nothing."""

HAN_WITH_NEGATIONS: Final = frozenset(
    listed("""
        特别 无人机 别处 区别 别人 分别 性别 级别 类别 个别 告别 别墅 鉴别 识别 别的 差别 无线 无糖 无障碍 无论
        无所谓 无花果 无缝 不同 不错 不锈钢 不过 不仅 不但 不管 不论 差不多 对不起 没关系 没问题 未来 非常 非洲
        是非 不断 不久 不止 不动产 不孕 未成年 未成年人 了不起 不良 不适 不满意 非常 不妨 不如 莫非 莫名 勿忘
        无疑 无数 不愧 不得不 无非 没事 不用谢 不客气 没准 说不定 不一定 来不及 不见得 不舒服 不满 不到 不足
        不超过
    """)
)
"""Words in which a negation denies nothing, or not what the question asserts."""
