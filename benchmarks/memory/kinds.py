"""Kinds of memories: how each is written, and how it is asked for, in both languages.

A template's fields are drawn by its kind. `direct` questions use words of the memory, `other` ones say the same in
other words. `key` says which fields make a memory the answer: no two memories of a set have one kind and key, so
nothing else answers.
"""

from __future__ import annotations

from benchmarks.memory import drawing
from benchmarks.memory.drawing import Kind, Wording

KINDS = (
    Kind(
        "birthday",
        ("p",),
        drawing.birthday,
        Wording(
            ("{p}'s birthday is on {date_en}.", "{p} was born on {date_en}."),
            ("When is {p}'s birthday?",),
            ("On which day should I congratulate {p}?", "when does {p} turn a year older"),
        ),
        Wording(
            ("{p}的生日是{date_zh}。", "{p}生于{date_zh}。"),
            ("{p}的生日是哪天？",),
            ("哪一天该给{p}送祝福？", "{p}什么时候又长一岁"),
        ),
    ),
    Kind(
        "allergy",
        ("p",),
        drawing.allergy,
        Wording(
            ("{p} is allergic to {food_en}.", "{p} gets a rash from {food_en}, so keep them off the menu."),
            ("What is {p} allergic to?",),
            ("What must I not cook when {p} comes to dinner?", "which food makes {p} ill"),
        ),
        Wording(
            ("{p}对{food_zh}过敏。", "{p}一吃{food_zh}就起疹子，点菜时要避开。"),
            ("{p}对什么过敏？",),
            ("请{p}来家里吃饭，哪些菜不能做？", "{p}有什么忌口"),
        ),
    ),
    Kind(
        "home",
        ("p",),
        drawing.home,
        Wording(
            ("{p} lives in {city_en}.", "{p} has moved to {city_en} and works from there."),
            ("Where does {p} live?",),
            ("In which town is {p} based?", "what city is {p}'s home"),
        ),
        Wording(
            ("{p}住在{city_zh}。", "{p}搬到了{city_zh}，在那边远程办公。"),
            ("{p}住在哪里？",),
            ("{p}的家在哪座城市？", "要给{p}寄东西，寄到哪个城市"),
        ),
    ),
    Kind(
        "role",
        ("j", "role_en"),
        drawing.role,
        Wording(
            ("{p} is the {role_en} of {j}.", "{j}: {p} takes over as {role_en}."),
            ("Who is the {role_en} of {j}?",),
            ("Which person works as {role_en} for {j}?",),
        ),
        Wording(
            ("{p}是 {j} 项目的{role_zh}。", "{j} 的{role_zh}由{p}接手。"),
            ("{j} 的{role_zh}是谁？",),
            ("{j} 项目里谁担任{role_zh}？",),
        ),
    ),
    Kind(
        "database",
        ("j",),
        drawing.database,
        Wording(
            ("We decided to use {db} for {j} because {why_en}.", "{j} will run on {db}: {why_en}."),
            ("Which database did we decide to use for {j}?",),
            ("Where does {j} keep its data?", "what storage engine is behind {j}"),
        ),
        Wording(
            ("我们决定 {j} 用 {db}，因为{why_zh}。", "{j} 选用 {db}：{why_zh}。"),
            ("我们决定 {j} 用什么数据库？",),
            ("{j} 的数据存在哪里？", "{j} 后端选的是哪种存储"),
        ),
    ),
    Kind(
        "deadline",
        ("j",),
        drawing.deadline,
        Wording(
            ("The deadline of {j} is {date_en}.", "{j} has to be delivered by {date_en}."),
            ("What is the deadline of {j}?",),
            ("When is {j} due?", "how long do we have for {j}"),
        ),
        Wording(
            ("{j} 的截止日期是{date_zh}。", "{j} 必须在{date_zh}之前交付。"),
            ("{j} 的截止日期是哪天？",),
            ("{j} 最晚什么时候交？", "{j} 还剩多长时间"),
        ),
    ),
    Kind(
        "budget",
        ("j",),
        drawing.budget,
        Wording(
            ("The budget of {j} is {n} euros.", "We were granted {n} euros for {j}."),
            ("What is the budget of {j}?",),
            ("How much money may we spend on {j}?",),
        ),
        Wording(
            ("{j} 的预算是{n}欧元。", "{j} 批下来{n}欧元。"),
            ("{j} 的预算是多少？",),
            ("{j} 最多能花多少钱？",),
        ),
    ),
    Kind(
        "server",
        ("j",),
        drawing.server,
        Wording(
            ("The staging server of {j} is {host}:{port}.", "{j} staging listens on {host} port {port}."),
            ("What is the staging server of {j}?",),
            ("On which machine can I try {j} before release?",),
        ),
        Wording(
            ("{j} 的预发布服务器是 {host}:{port}。", "{j} 预发布环境跑在 {host} 的 {port} 端口。"),
            ("{j} 的预发布服务器是哪台？",),
            ("上线前在哪台机器上试 {j}？",),
        ),
    ),
    Kind(
        "host",
        ("host",),
        drawing.server,
        Wording(
            ("{host} belongs to {j}; it answers on {port}.",),
            ("What is {host} for?",),
            ("whose box is {host}",),
        ),
        Wording(("{host} 是给 {j} 用的，端口 {port}。",), ("{host} 是干什么用的？",), ("{host} 归哪个项目",)),
        is_exact=True,
    ),
    Kind(
        "outage",
        ("j",),
        drawing.outage,
        Wording(
            ("{j} was down for {n} minutes because of {cause_en}.", "Outage of {j}, {n} min: {cause_en}."),
            ("Why was {j} down?",),
            ("What broke {j}?", "root cause of the {j} incident"),
        ),
        Wording(
            ("{j} 因为{cause_zh}宕机了{n}分钟。", "{j} 故障 {n} 分钟，原因是{cause_zh}。"),
            ("{j} 为什么宕机？",),
            ("是什么把 {j} 搞挂的？", "{j} 那次事故的根因"),
        ),
    ),
    Kind(
        "pin",
        ("j", "lib"),
        drawing.pin,
        Wording(
            ("{lib} stays at {v} in {j}; newer ones fail its tests.", "Pin {lib}=={v} for {j}."),
            ("Which version of {lib} does {j} use?",),
            ("May I upgrade {lib} in {j}?",),
        ),
        Wording(
            ("{j} 里的 {lib} 固定在 {v}，新版本测试不过。", "{j} 锁定 {lib}=={v}。"),
            ("{j} 用哪个版本的 {lib}？",),
            ("{j} 里能升级 {lib} 吗？",),
        ),
        is_exact=True,
    ),
    Kind(
        "function",
        ("f",),
        drawing.function,
        Wording(
            ("{f} in {file} {does_en}.", "{file}: {f}() {does_en}."),
            ("What does {f} do?",),
            ("in which file do I find {f}",),
        ),
        Wording(
            ("{file} 里的 {f} 负责{does_zh}。", "{f}()（{file}）用来{does_zh}。"),
            ("{f} 是做什么的？",),
            ("{f} 在哪个文件里",),
        ),
        is_exact=True,
    ),
    Kind(
        "ticket",
        ("t",),
        drawing.ticket,
        Wording(
            ("{t} is about {cause_en}.", "Closed {t}: {cause_en} was the reason."),
            ("What was {t} about?",),
            ("tell me the story of {t}",),
        ),
        Wording(
            ("{t} 是关于{cause_zh}的。", "{t} 已关闭，原因是{cause_zh}。"),
            ("{t} 是关于什么的？",),
            ("{t} 那张工单是怎么回事",),
        ),
        is_exact=True,
    ),
    Kind(
        "pet",
        ("p",),
        drawing.pet,
        Wording(
            ("{p}'s {pet_en} is called {name}.", "{p} has a {pet_en} named {name}."),
            ("What is {p}'s {pet_en} called?",),
            ("What is the name of {p}'s pet?",),
        ),
        Wording(
            ("{p}的{pet_zh}叫{name}。", "{p}养了一只{pet_zh}，名字是{name}。"),
            ("{p}的{pet_zh}叫什么？",),
            ("{p}家的宠物叫什么名字？",),
        ),
    ),
    Kind(
        "tool",
        ("p", "tool_en", "work_en"),
        drawing.tool,
        Wording(
            (
                "{p} prefers {a} to {b} as {tool_en} for {work_en}.",
                "For {work_en}, {p} wants {a} as {tool_en}, not {b}.",
            ),
            ("Which {tool_en} does {p} prefer for {work_en}?",),
            ("What program should I open for {p} to do {work_en}?",),
        ),
        Wording(
            (
                "{work_zh}时，{p}更喜欢用 {a} 而不是 {b} 这个{tool_zh}。",
                "{p}{work_zh}用的{tool_zh}是 {a}，不要 {b}。",
            ),
            ("{p}{work_zh}喜欢用哪个{tool_zh}？",),
            ("帮{p}{work_zh}该打开什么软件？",),
        ),
    ),
    Kind(
        "chore",
        ("p", "thing_en"),
        drawing.chore,
        Wording(
            ("{p} {did_en}.",),
            ("What did {p} do with the {thing_en}?",),
            ("what happened to {p}'s {thing_en}",),
        ),
        Wording(("{p}{did_zh}。",), ("{p}的{thing_zh}怎么了？",), ("{p}拿{thing_zh}做了什么",)),
    ),
)
"""Memories that are asked for by what they say."""

DATED = (
    Kind(
        "decision",
        ("j", "topic_en"),
        drawing.decision,
        Wording(
            (
                "{j}: we decided {outcome_en} about {topic_en}.",
                "Decision on {topic_en} for {j}: {outcome_en}.",
            ),
            (
                "What did we decide about {topic_en} for {j} {when}?",
                "{when}, what was agreed on {topic_en} for {j}?",
            ),
            ("What did we decide about {topic_en} for {j}?",),
        ),
        Wording(
            ("{j}：关于{topic_zh}，我们决定{outcome_zh}。", "{j} 的{topic_zh}定下来了：{outcome_zh}。"),
            ("{when}关于 {j} 的{topic_zh}我们决定了什么？", "{j} 的{topic_zh}，{when}是怎么定的？"),
            ("关于 {j} 的{topic_zh}我们决定了什么？",),
        ),
    ),
    Kind(
        "meeting",
        ("p", "topic_en"),
        drawing.meeting,
        Wording(
            ("Met {p} in {city_en} about {topic_en}.", "Call with {p} ({city_en}) on {topic_en}."),
            ("Where did I talk to {p} about {topic_en} {when}?", "{when}, what did {p} and I discuss?"),
            ("Where did I talk to {p} about {topic_en}?",),
        ),
        Wording(
            ("在{city_zh}和{p}谈了{topic_zh}。", "与{p}（{city_zh}）通话，讨论{topic_zh}。"),
            ("{when}我和{p}在哪里谈的{topic_zh}？", "{when}我跟{p}聊了些什么？"),
            ("我和{p}在哪里谈的{topic_zh}？",),
        ),
    ),
)
"""Memories of which there are several alike at different times, and which are asked for by their time."""
