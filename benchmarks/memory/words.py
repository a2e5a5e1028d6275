# ruff: noqa: E501, SIM905
"""What the question set is made of: invented people and projects, and things under their names in both languages."""

from __future__ import annotations

FIRST = (
    "Anna Ben Carla David Elena Farid Greta Hugo Ines Jonas Katya Liam Mira Nils Olga Pavel Qadir Rosa Samir Tessa Umar "
    "Vera Wanda Xenia Yusuf Zara Aldo Brita Cyrus Dana Emil Fiona Goran Hanna Ivo Jill Kofi Lena Marek Nadia Otto "
    "Petra Rafael Silke Tomas Ulla Victor Willa Yara Zeno"
).split()
LAST = (
    "Abel Brandt Castro Duval Eklund Farkas Gruber Hansen Ivanov Jensen Keller Lindholm Moreau Novak Okafor Petrov "
    "Quist Rossi Sandberg Tanaka Ungar Vogel Weber Yilmaz Zeller Aydin Becker Costa Dietz Engel Fischer Garcia Holm "
    "Iversen Janssen Koch Larsen Meyer Nilsen Orlov Pavlov Ritter Schmid Torres Urban Varga Winter Young Zimmer Bauer "
    "Cole Doyle Evans Flynn Grant Hayes Irwin Jarvis Kelly Lowe Mason Nash Owens Price Reid Shaw Tate Vance Walsh"
).split()
SURNAMES = "王李张刘陈杨赵黄周吴徐孙胡朱高林何郭马罗梁宋郑谢韩唐冯于董萧程曹袁邓许傅沈曾彭吕苏卢蒋蔡贾丁魏薛叶阎余潘杜戴夏钟汪田任姜范方石姚谭廖邹熊金陆郝孔白崔康毛邱秦江史顾侯邵孟龙万段雷钱汤尹黎易常武乔贺赖龚文"
GIVEN = "伟芳娜敏静丽强磊军洋勇艳杰娟涛明超秀霞平刚桂英华玉萍红玲芬燕彬凯浩宇轩博文昊天雨欣怡佳琪梦洁思远子涵俊熙晨曦若兰海峰志远建国晓东春梅"
PROJECT_FIRST = (
    "Amber Aspen Birch Boreal Cobalt Coral Cedar Delta Dune Ember Falcon Fjord Garnet Glacier Harbor Heron Indigo Iris "
    "Jade Juniper Kestrel Lagoon Larch Lotus Maple Meteor Nimbus Nova Onyx Orchid Osprey Pebble Pine Quartz Raven "
    "Ridge Saffron Sierra Sparrow Summit Tango Thistle Tundra Umber Velvet Vortex Willow Zenith"
).split()
PROJECT_LAST = (
    "Anchor Arrow Basin Beacon Bridge Canyon Castle Circle Comet Crest Dawn Drift Echo Engine Field Forge Gate Grove "
    "Haven Horizon Island Keep Lake Lantern Loop Mesa Mill Moon Path Peak Pilot Point Pool Reef River Road Rock Sail "
    "Spark Spring Star Stone Stream Tide Tower Trail Vale Wave"
).split()

CITIES = (
    ("Lisbon", "里斯本"),
    ("Oslo", "奥斯陆"),
    ("Vienna", "维也纳"),
    ("Kyoto", "京都"),
    ("Chengdu", "成都"),
    ("Hangzhou", "杭州"),
    ("Toronto", "多伦多"),
    ("Nairobi", "内罗毕"),
    ("Seville", "塞维利亚"),
    ("Riga", "里加"),
    ("Xiamen", "厦门"),
    ("Dalian", "大连"),
    ("Boston", "波士顿"),
    ("Prague", "布拉格"),
    ("Sydney", "悉尼"),
    ("Kunming", "昆明"),
    ("Dublin", "都柏林"),
    ("Milan", "米兰"),
    ("Suzhou", "苏州"),
    ("Helsinki", "赫尔辛基"),
)
FOODS = (
    ("peanuts", "花生"),
    ("shellfish", "贝类"),
    ("strawberries", "草莓"),
    ("eggs", "鸡蛋"),
    ("milk", "牛奶"),
    ("gluten", "麸质"),
    ("soy", "大豆"),
    ("walnuts", "核桃"),
    ("mangoes", "芒果"),
    ("sesame", "芝麻"),
    ("kiwis", "猕猴桃"),
    ("celery", "芹菜"),
)
DATABASES = (
    "PostgreSQL",
    "MySQL",
    "TiDB",
    "SQLite",
    "MongoDB",
    "Cassandra",
    "ClickHouse",
    "DuckDB",
    "Redis",
    "DynamoDB",
)
REASONS = (
    ("its licence is simple", "许可证简单"),
    ("the team knows it", "团队熟悉它"),
    ("it was the cheapest", "它最便宜"),
    ("backups are easy", "备份方便"),
    ("it scales to many nodes", "能扩展到很多节点"),
    ("it runs on one laptop", "一台笔记本就能跑"),
)
ROLES = (
    ("tech lead", "技术负责人"),
    ("product owner", "产品经理"),
    ("designer", "设计师"),
    ("test engineer", "测试工程师"),
    ("security officer", "安全负责人"),
    ("accountant", "会计"),
    ("data scientist", "数据科学家"),
    ("translator", "翻译"),
)
CAUSES = (
    ("an expired certificate", "证书过期"),
    ("a full disk", "磁盘写满"),
    ("a wrong DNS entry", "DNS 配置写错"),
    ("a memory leak", "内存泄漏"),
    ("a failed migration", "数据库迁移失败"),
    ("a power cut", "机房断电"),
    ("a deadlock", "死锁"),
    ("too many retries", "重试过多"),
)
LIBRARIES = (
    "numpy",
    "aiohttp",
    "pydantic",
    "torch",
    "django",
    "requests",
    "uvicorn",
    "pandas",
    "sqlalchemy",
    "faiss",
)
PETS = (("dog", "狗"), ("cat", "猫"), ("parrot", "鹦鹉"), ("rabbit", "兔子"), ("tortoise", "乌龟"))
PET_NAMES = "Biscuit Pepper Mochi Ziggy Olive Pixel Waffle Nori Clover Sushi Maple Tofu Pickle Cosmo Luna Basil".split()
TOPICS = (
    ("hosting", "托管服务"),
    ("the price list", "价目表"),
    ("the logo", "标志"),
    ("hiring", "招聘"),
    ("the release schedule", "发布计划"),
    ("the office move", "办公室搬迁"),
    ("the backup policy", "备份策略"),
    ("the support rota", "值班安排"),
    ("the login page", "登录页面"),
    ("the travel rules", "差旅规定"),
    ("the test machines", "测试机器"),
    ("the newsletter", "邮件简报"),
)
OUTCOMES = (
    ("to keep everything as it is", "保持不变"),
    ("to start again from scratch", "推倒重来"),
    ("to ask an outside firm", "请外面的公司来做"),
    ("to wait until spring", "等到春天再说"),
    ("to halve the cost", "把费用减半"),
    ("to let the users vote", "让用户投票"),
    ("to give it to the new team", "交给新团队"),
    ("to try it for a month", "先试一个月"),
)
TOOLS = (
    ("editor", "编辑器", ("Vim", "Emacs", "Helix", "Zed", "Nano", "Kakoune")),
    ("browser", "浏览器", ("Firefox", "Vivaldi", "Brave", "Safari", "Opera")),
    ("shell", "命令行", ("fish", "zsh", "nushell", "bash", "xonsh")),
    ("note-taking app", "笔记软件", ("Obsidian", "Joplin", "Notion", "Logseq")),
)
WORKS = (
    ("Rust code", "写 Rust 代码"),
    ("tax papers", "报税"),
    ("meeting notes", "会议记录"),
    ("reading logs", "看日志"),
    ("shopping", "购物"),
    ("maps", "看地图"),
    ("blog posts", "写博客"),
    ("translations", "做翻译"),
    ("photos", "看照片"),
    ("spreadsheets", "做表格"),
    ("recipes", "记菜谱"),
    ("homework", "做作业"),
)
VERBS = ("parse", "load", "merge", "flush", "retry", "encode", "resolve", "split", "render", "rotate")
NOUNS = ("config", "token", "header", "ledger", "packet", "cursor", "bucket", "session", "invoice", "tensor")
PURPOSES = (
    ("checks the signature", "校验签名"),
    ("removes stale rows", "清理过期的行"),
    ("rounds to cents", "四舍五入到分"),
    ("limits the rate", "限制速率"),
    ("sorts by date", "按日期排序"),
    ("hides secrets", "隐藏敏感信息"),
)
CHORES = (
    ("bought a new {0} in {1}", "在{1}买了一个新{0}"),
    ("repaired the {0} in {1}", "在{1}修好了{0}"),
    ("sent the {0} back to {1}", "把{0}退回了{1}"),
    ("lost the {0} on the way to {1}", "在去{1}的路上丢了{0}"),
    ("lent the {0} to someone from {1}", "把{0}借给了{1}的人"),
)
THINGS = (
    ("bicycle", "自行车"),
    ("printer", "打印机"),
    ("kettle", "水壶"),
    ("tent", "帐篷"),
    ("camera", "相机"),
    ("desk", "书桌"),
    ("umbrella", "雨伞"),
    ("headset", "耳机"),
    ("suitcase", "行李箱"),
    ("violin", "小提琴"),
    ("drill", "电钻"),
    ("lamp", "台灯"),
)
MONTHS = "January February March April May June July August September October November December".split()
