"""Another background than the one that is shipped: what was calibrated with one has to hold with the other."""

from __future__ import annotations

from typing import Final

OTHER: Final = {
    "en": (
        "The hotel gave us a room above the kitchen.",
        "Susan repairs clocks in her spare time.",
        "The roof of the barn needs new tiles before winter.",
        "Our supplier for paper went out of business.",
        "The match ended in a draw after extra time.",
        "The cache of the web server is emptied at midnight.",
        "My cousin studies geology in the north.",
        "The soup tasted better on the second day.",
        "They painted the fence green last summer.",
        "The form asks for the date of birth twice.",
        "The night bus stops in front of the cinema.",
        "A storm blew down the oak next to the church.",
        "The intern wrote the tests for the import.",
        "The parking permit costs forty a year.",
        "George never wears a tie to the office.",
        "The script fails when the folder is empty.",
    ),
    "zh": (
        "酒店给我们安排了厨房楼上的房间。",
        "苏姐业余时间修钟表。",
        "谷仓的屋顶冬天之前要换瓦。",
        "我们的纸张供应商倒闭了。",
        "比赛加时以后还是平局。",
        "网站服务器的缓存每天半夜清空。",
        "我表弟在北方学地质。",
        "那锅汤第二天更好喝。",
        "他们去年夏天把栅栏刷成了绿色。",
        "表格里出生日期要填两遍。",
        "夜班公交在电影院门口停。",
        "暴风把教堂旁边的橡树刮倒了。",
        "实习生写了导入功能的测试。",
        "停车证一年四十块。",
        "老乔上班从来不打领带。",
        "文件夹是空的时候脚本会出错。",
    ),
}
