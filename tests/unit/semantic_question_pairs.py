"""Pairs of questions written for these tests (CC0): paraphrases, and traps that read alike and ask something else."""

from __future__ import annotations

from typing import NamedTuple


class QuestionPair(NamedTuple):
    language: str
    kind: str
    one: str
    other: str
    same: bool


PAIRS = [
    QuestionPair(
        "en",
        "paraphrase",
        "How do I change my email address?",
        "How can I update the email on my account?",
        True,
    ),
    QuestionPair(
        "en", "paraphrase", "Where is the nearest branch?", "What's the closest branch to me?", True
    ),
    QuestionPair(
        "en",
        "paraphrase",
        "How do I cancel my subscription?",
        "What's the process to end my subscription?",
        True,
    ),
    QuestionPair(
        "en", "paraphrase", "What's your refund policy?", "Can you explain your policy on refunds?", True
    ),
    QuestionPair("en", "paraphrase", "How long is the warranty?", "How long does the warranty last?", True),
    QuestionPair("en", "paraphrase", "Do you ship to Canada?", "Do you deliver to Canada?", True),
    QuestionPair("en", "paraphrase", "How much is shipping?", "What does delivery cost?", True),
    QuestionPair(
        "en", "paraphrase", "How do I delete my account?", "I want to permanently close my account", True
    ),
    QuestionPair("en", "paraphrase", "Why was my card declined?", "My card got rejected, why?", True),
    QuestionPair(
        "en",
        "paraphrase",
        "What is the capital of Australia?",
        "Which city is the capital of Australia?",
        True,
    ),
    QuestionPair(
        "en",
        "paraphrase",
        "How do I convert a string to an integer in Python?",
        "In Python, how can I turn a string into an int?",
        True,
    ),
    QuestionPair(
        "en",
        "paraphrase",
        "What are the side effects of ibuprofen?",
        "Does ibuprofen have any side effects?",
        True,
    ),
    QuestionPair(
        "en",
        "paraphrase",
        "Can I change my flight date?",
        "Is it possible to move my flight to another day?",
        True,
    ),
    QuestionPair(
        "en",
        "paraphrase",
        "How do I get to the airport from the city centre?",
        "What's the best way to travel from downtown to the airport?",
        True,
    ),
    QuestionPair(
        "en", "paraphrase", "When do you open on Mondays?", "What time do you open on Monday?", True
    ),
    QuestionPair(
        "en", "paraphrase", "How many vacation days do I get?", "What's my annual leave allowance?", True
    ),
    QuestionPair(
        "en", "paraphrase", "How do I turn off notifications?", "How can I disable notifications?", True
    ),
    QuestionPair("en", "paraphrase", "Is parking available at the venue?", "Can I park at the venue?", True),
    QuestionPair(
        "en", "paraphrase", "How do I contact support?", "How can I get in touch with customer support?", True
    ),
    QuestionPair(
        "en", "paraphrase", "How do I renew my passport?", "What do I need to do to renew a passport?", True
    ),
    QuestionPair(
        "en", "paraphrase", "Who invented the telephone?", "Who was the inventor of the telephone?", True
    ),
    QuestionPair(
        "en", "paraphrase", "What's the boiling point of water?", "At what temperature does water boil?", True
    ),
    QuestionPair(
        "en",
        "paraphrase",
        "How do I create a new branch in git?",
        "What's the git command to make a new branch?",
        True,
    ),
    QuestionPair(
        "en",
        "paraphrase",
        "Is breakfast included in the room rate?",
        "Does the room price include breakfast?",
        True,
    ),
    QuestionPair("en", "paraphrase", "Can I bring my dog?", "Are dogs allowed?", True),
    QuestionPair(
        "en",
        "paraphrase",
        "How do I unlock my phone if I forgot the PIN?",
        "I've forgotten my phone's PIN, how do I unlock it?",
        True,
    ),
    QuestionPair("en", "paraphrase", "How much does a visa cost?", "What is the visa fee?", True),
    QuestionPair(
        "en", "paraphrase", "Can I pay in monthly instalments?", "Is it possible to pay monthly?", True
    ),
    QuestionPair(
        "en",
        "paraphrase",
        "How do I install the app on my laptop?",
        "How can I get the app set up on my laptop?",
        True,
    ),
    QuestionPair(
        "en", "paraphrase", "Where can I download my invoice?", "Where do I get a copy of my invoice?", True
    ),
    QuestionPair(
        "en", "paraphrase", "What are the symptoms of diabetes?", "What are the signs of diabetes?", True
    ),
    QuestionPair(
        "en", "paraphrase", "How long do I have to return an item?", "What is the return window?", True
    ),
    QuestionPair(
        "en",
        "paraphrase",
        "How far is the moon from the earth?",
        "What's the distance between the earth and the moon?",
        True,
    ),
    QuestionPair(
        "en", "paraphrase", "Can I speak to a manager?", "I'd like to talk to the manager please", True
    ),
    QuestionPair("en", "paraphrase", "What's the dress code?", "What should I wear?", True),
    QuestionPair(
        "en", "paraphrase", "How do I remove a user from my team?", "How can I delete a team member?", True
    ),
    QuestionPair(
        "en",
        "paraphrase",
        "Is the museum open on public holidays?",
        "Does the museum close on bank holidays?",
        True,
    ),
    QuestionPair(
        "en", "paraphrase", "How do I report a lost card?", "I lost my card, what should I do?", True
    ),
    QuestionPair(
        "en", "paraphrase", "How do I make my profile private?", "How can I set my profile to private?", True
    ),
    QuestionPair(
        "en", "paraphrase", "What currencies do you support?", "Which currencies are supported?", True
    ),
    QuestionPair("en", "near_repeat", "How do I reset the router?", "how do i reset teh router", True),
    QuestionPair(
        "en", "near_repeat", "Can I get a student discount?", "hi there, can I get a student discount", True
    ),
    QuestionPair(
        "en",
        "near_repeat",
        "What is the exchange rate for euros?",
        "What is the exchnage rate for euros?",
        True,
    ),
    QuestionPair(
        "en", "near_repeat", "How do I add a payment method?", "How do I add a payment method!!", True
    ),
    QuestionPair(
        "en",
        "near_repeat",
        "How do I change my delivery slot?",
        "Quick question - how do I change my delivery slot?",
        True,
    ),
    QuestionPair(
        "en",
        "near_repeat",
        "What documents do I need for a mortgage?",
        "For a mortgage, what documents do I need?",
        True,
    ),
    QuestionPair("en", "near_repeat", "Where is my nearest pharmacy?", "wheres my nearest pharmacy", True),
    QuestionPair(
        "en", "near_repeat", "How do I book a table for Friday?", "How would I book a table for Friday?", True
    ),
    QuestionPair(
        "en", "negation", "How do I turn notifications on?", "How do I turn notifications off?", False
    ),
    QuestionPair(
        "en", "negation", "Which countries require a visa?", "Which countries don't require a visa?", False
    ),
    QuestionPair(
        "en", "negation", "What can I bring on the plane?", "What can't I bring on the plane?", False
    ),
    QuestionPair("en", "negation", "How do I mute a contact?", "How do I unmute a contact?", False),
    QuestionPair("en", "negation", "Is it legal to record a call?", "Is it illegal to record a call?", False),
    QuestionPair("en", "negation", "What are the pros of renting?", "What are the cons of renting?", False),
    QuestionPair("en", "negation", "How do I deposit a cheque?", "How do I withdraw cash?", False),
    QuestionPair(
        "en",
        "negation",
        "Can I get insurance with a pre-existing condition?",
        "Can I get insurance without a pre-existing condition?",
        False,
    ),
    QuestionPair(
        "en", "negation", "What should I eat before a run?", "What should I eat after a run?", False
    ),
    QuestionPair("en", "negation", "How do I sell my shares?", "How do I buy shares?", False),
    QuestionPair(
        "en", "negation", "How do I sort in ascending order?", "How do I sort in descending order?", False
    ),
    QuestionPair("en", "negation", "How do I follow someone?", "How do I unfollow someone?", False),
    QuestionPair(
        "en", "negation", "Who is eligible for the grant?", "Who is ineligible for the grant?", False
    ),
    QuestionPair(
        "en", "negation", "What's the fastest route to work?", "What's the slowest route to work?", False
    ),
    QuestionPair("en", "negation", "How do I gain weight?", "How do I lose weight?", False),
    QuestionPair("en", "negation", "Why is my bill so high?", "Why is my bill so low?", False),
    QuestionPair(
        "en", "number_date", "What is the forecast for Monday?", "What is the forecast for Tuesday?", False
    ),
    QuestionPair("en", "number_date", "Can I carry 100ml of liquid?", "Can I carry 200ml of liquid?", False),
    QuestionPair(
        "en", "number_date", "What's the tax on a salary of 50k?", "What's the tax on a salary of 80k?", False
    ),
    QuestionPair("en", "number_date", "Who won the league in 2019?", "Who won the league in 2021?", False),
    QuestionPair(
        "en",
        "number_date",
        "How do I migrate from version 2 to version 3?",
        "How do I migrate from version 3 to version 4?",
        False,
    ),
    QuestionPair(
        "en", "number_date", "Is the office open on 24 December?", "Is the office open on 26 December?", False
    ),
    QuestionPair(
        "en",
        "number_date",
        "What is the price for three nights?",
        "What is the price for four nights?",
        False,
    ),
    QuestionPair("en", "number_date", "How much is 5 miles in km?", "How much is 50 miles in km?", False),
    QuestionPair(
        "en",
        "number_date",
        "What happens in the first trimester?",
        "What happens in the second trimester?",
        False,
    ),
    QuestionPair(
        "en", "number_date", "Do you have a flight at noon?", "Do you have a flight at midnight?", False
    ),
    QuestionPair("en", "number_date", "Do you have size 8 in stock?", "Do you have size 10 in stock?", False),
    QuestionPair(
        "en", "number_date", "What's the weather like today?", "What's the weather like tomorrow?", False
    ),
    QuestionPair(
        "en",
        "entity_swap",
        "How do I install Docker on Ubuntu?",
        "How do I install Docker on Windows?",
        False,
    ),
    QuestionPair(
        "en", "entity_swap", "What is the capital of Spain?", "What is the capital of Portugal?", False
    ),
    QuestionPair("en", "entity_swap", "How do I convert USD to EUR?", "How do I convert EUR to USD?", False),
    QuestionPair("en", "entity_swap", "Can a landlord sue a tenant?", "Can a tenant sue a landlord?", False),
    QuestionPair("en", "entity_swap", "Is aspirin safe for dogs?", "Is aspirin safe for cats?", False),
    QuestionPair(
        "en", "entity_swap", "How do I sort a list in Python?", "How do I sort a list in Java?", False
    ),
    QuestionPair("en", "entity_swap", "Who founded Apple?", "Who founded Microsoft?", False),
    QuestionPair(
        "en",
        "entity_swap",
        "How do I move photos from iPhone to Mac?",
        "How do I move photos from Mac to iPhone?",
        False,
    ),
    QuestionPair("en", "entity_swap", "How much does Alice owe Bob?", "How much does Bob owe Alice?", False),
    QuestionPair(
        "en",
        "entity_swap",
        "What are the ingredients of the lasagne?",
        "What are the ingredients of the risotto?",
        False,
    ),
    QuestionPair(
        "en", "entity_swap", "How do I freeze my credit card?", "How do I freeze my debit card?", False
    ),
    QuestionPair(
        "en", "entity_swap", "What is the symbol for gold?", "What is the symbol for silver?", False
    ),
    QuestionPair("en", "entity_swap", "How do I reset my router?", "How do I reset my thermostat?", False),
    QuestionPair(
        "en", "entity_swap", "Is my husband covered by my policy?", "Is my son covered by my policy?", False
    ),
    QuestionPair("en", "entity_swap", "How tall is the Eiffel Tower?", "How old is the Eiffel Tower?", False),
    QuestionPair("en", "scope", "How do I cancel my order?", "How do I change my order?", False),
    QuestionPair(
        "en", "scope", "How much does a single ticket cost?", "How much does a return ticket cost?", False
    ),
    QuestionPair("en", "scope", "Why is the sky blue?", "When is the sky blue?", False),
    QuestionPair(
        "en",
        "scope",
        "What is the limit for business accounts?",
        "What is the limit for personal accounts?",
        False,
    ),
    QuestionPair("en", "scope", "Is dental treatment free?", "Is dental treatment free for students?", False),
    QuestionPair("en", "scope", "Can I get a refund?", "Can I get a partial refund?", False),
    QuestionPair(
        "en",
        "scope",
        "What is the deadline for early applications?",
        "What is the deadline for late applications?",
        False,
    ),
    QuestionPair("en", "scope", "Do all employees get a bonus?", "Do some employees get a bonus?", False),
    QuestionPair("en", "scope", "How do I delete a file?", "How do I recover a deleted file?", False),
    QuestionPair(
        "en", "scope", "What are the opening hours in summer?", "What are the opening hours in winter?", False
    ),
    QuestionPair("en", "scope", "How do I become a member?", "How much is membership?", False),
    QuestionPair(
        "en", "scope", "How do I apply for a work visa?", "How do I apply for a tourist visa?", False
    ),
    QuestionPair("en", "scope", "Can I use my phone abroad?", "Can I use my phone at home?", False),
    QuestionPair(
        "en", "scope", "What does basic cover include?", "What does comprehensive cover include?", False
    ),
    QuestionPair(
        "en", "scope", "Can nurses prescribe medicine?", "Can pharmacists prescribe medicine?", False
    ),
    QuestionPair("en", "scope", "How do I pay my rent?", "How do I pay my rent late?", False),
    QuestionPair("zh", "paraphrase", "怎么修改登录密码？", "如何更改登录密码？", True),
    QuestionPair("zh", "paraphrase", "忘记密码了怎么办？", "密码忘了该如何找回？", True),
    QuestionPair("zh", "paraphrase", "如何申请退款？", "怎么申请退款", True),
    QuestionPair("zh", "paraphrase", "退款多久能到账？", "退款需要几天才能到？", True),
    QuestionPair("zh", "paraphrase", "订单可以取消吗？", "能不能取消订单？", True),
    QuestionPair("zh", "paraphrase", "怎么查物流信息？", "如何查询快递到哪了", True),
    QuestionPair("zh", "paraphrase", "支持货到付款吗？", "可以货到付款吗？", True),
    QuestionPair("zh", "paraphrase", "发票怎么开？", "如何开具发票？", True),
    QuestionPair("zh", "paraphrase", "我想修改收货地址", "怎么更改收货地址？", True),
    QuestionPair("zh", "paraphrase", "会员有什么优惠？", "成为会员有哪些好处？", True),
    QuestionPair("zh", "paraphrase", "信用卡丢了怎么办", "信用卡遗失了该怎么处理？", True),
    QuestionPair("zh", "paraphrase", "怎样提高信用卡额度？", "如何提升信用卡的额度？", True),
    QuestionPair("zh", "paraphrase", "手机号换了怎么改绑？", "如何更换绑定的手机号？", True),
    QuestionPair("zh", "paraphrase", "北京明天天气怎么样？", "明天北京的天气如何？", True),
    QuestionPair("zh", "paraphrase", "感冒了可以喝酒吗", "感冒期间能不能饮酒？", True),
    QuestionPair("zh", "paraphrase", "孕妇能吃螃蟹吗？", "怀孕了可以吃螃蟹吗？", True),
    QuestionPair("zh", "paraphrase", "如何预约挂号？", "怎么挂号预约？", True),
    QuestionPair("zh", "paraphrase", "办理护照需要什么材料？", "申请护照要准备哪些资料？", True),
    QuestionPair("zh", "paraphrase", "驾照到期了怎么换证？", "驾驶证过期如何换新证？", True),
    QuestionPair("zh", "paraphrase", "医院几点上班？", "医院什么时候开门？", True),
    QuestionPair("zh", "paraphrase", "地铁末班车是几点？", "最后一班地铁几点发车？", True),
    QuestionPair("zh", "paraphrase", "行李可以带多少公斤？", "行李限重是多少？", True),
    QuestionPair("zh", "paraphrase", "酒店几点可以入住？", "酒店入住时间是几点？", True),
    QuestionPair("zh", "paraphrase", "如何卸载这个软件？", "怎么把这个软件卸载掉？", True),
    QuestionPair("zh", "paraphrase", "电脑开不了机怎么办", "电脑无法开机如何解决？", True),
    QuestionPair("zh", "paraphrase", "打印机连不上电脑", "打印机无法连接电脑怎么办？", True),
    QuestionPair("zh", "paraphrase", "Excel怎么合并单元格？", "如何在Excel里合并单元格", True),
    QuestionPair("zh", "paraphrase", "Python怎么读取CSV文件？", "用Python如何读CSV文件？", True),
    QuestionPair("zh", "paraphrase", "Git如何撤销上一次提交？", "怎么用Git撤回最近一次commit？", True),
    QuestionPair("zh", "paraphrase", "什么是机器学习？", "机器学习是什么意思？", True),
    QuestionPair("zh", "paraphrase", "年假有多少天？", "一年有几天年假？", True),
    QuestionPair("zh", "paraphrase", "试用期工资怎么算？", "试用期的薪资如何计算？", True),
    QuestionPair("zh", "paraphrase", "公积金可以提取吗？", "住房公积金能不能取出来？", True),
    QuestionPair("zh", "paraphrase", "怎么注册公司？", "注册一家公司的流程是什么？", True),
    QuestionPair("zh", "paraphrase", "孩子发烧38度怎么办？", "小孩发热38度该怎么处理？", True),
    QuestionPair("zh", "paraphrase", "这件商品有现货吗？", "这个产品有货吗？", True),
    QuestionPair("zh", "paraphrase", "支持七天无理由退货吗？", "可以7天无理由退货吗？", True),
    QuestionPair("zh", "paraphrase", "房租可以月付吗？", "租金能按月支付吗？", True),
    QuestionPair("zh", "paraphrase", "怎么关闭自动续费？", "如何取消自动续费？", True),
    QuestionPair("zh", "paraphrase", "如何导出聊天记录？", "怎么把聊天记录导出来？", True),
    QuestionPair("zh", "paraphrase", "世界上最高的山是哪座？", "全世界最高的山峰是什么？", True),
    QuestionPair("zh", "paraphrase", "红楼梦的作者是谁？", "谁写了《红楼梦》？", True),
    QuestionPair("zh", "paraphrase", "水的沸点是多少？", "水在多少度沸腾？", True),
    QuestionPair("zh", "paraphrase", "從台北到高雄要多久？", "台北到高雄需要多长时间？", True),
    QuestionPair("zh", "near_repeat", "怎么注销账号", "怎么注销账号？", True),
    QuestionPair("zh", "near_repeat", "请问怎么修改支付密码？", "怎么修改支付密码", True),
    QuestionPair("zh", "near_repeat", "你好，请问如何联系人工客服？谢谢", "如何联系人工客服", True),
    QuestionPair("zh", "near_repeat", "怎么登录不上", "怎么登陆不上", True),
    QuestionPair("zh", "near_repeat", "\u3000如何重置路由器？", "如何重置路由器?", True),
    QuestionPair("zh", "negation", "怎么开启深色模式？", "怎么关闭深色模式？", False),
    QuestionPair("zh", "negation", "如何添加好友？", "如何删除好友？", False),
    QuestionPair("zh", "negation", "哪些商品支持退货？", "哪些商品不支持退货？", False),
    QuestionPair("zh", "negation", "退货需要发票吗？", "退货不需要发票吗？", False),
    QuestionPair("zh", "negation", "怎么拉黑一个人？", "怎么取消拉黑一个人？", False),
    QuestionPair("zh", "negation", "如何订阅邮件？", "如何退订邮件？", False),
    QuestionPair("zh", "negation", "饭前吃药还是", "饭后吃药还是", False),
    QuestionPair("zh", "negation", "这个药饭前吃吗？", "这个药饭后吃吗？", False),
    QuestionPair("zh", "negation", "跑步有什么好处？", "跑步有什么坏处？", False),
    QuestionPair("zh", "negation", "高血压能吃什么？", "高血压不能吃什么？", False),
    QuestionPair("zh", "negation", "怎么上传文件？", "怎么下载文件？", False),
    QuestionPair("zh", "negation", "如何提高音量？", "如何降低音量？", False),
    QuestionPair("zh", "negation", "怎么锁定屏幕？", "怎么解锁屏幕？", False),
    QuestionPair("zh", "negation", "什么情况下会被退款？", "什么情况下不会被退款？", False),
    QuestionPair("zh", "negation", "房贷利率上涨怎么办？", "房贷利率下降怎么办？", False),
    QuestionPair("zh", "negation", "怎么买入股票？", "怎么卖出股票？", False),
    QuestionPair("zh", "negation", "包含早餐吗？", "不包含早餐吗？", False),
    QuestionPair("zh", "negation", "怎样加入群聊？", "怎样退出群聊？", False),
    QuestionPair("zh", "number_date", "满100元包邮吗？", "满200元包邮吗？", False),
    QuestionPair("zh", "number_date", "三天内能送到吗？", "五天内能送到吗？", False),
    QuestionPair("zh", "number_date", "周一营业吗？", "周二营业吗？", False),
    QuestionPair("zh", "number_date", "2023年的GDP是多少？", "2024年的GDP是多少？", False),
    QuestionPair("zh", "number_date", "上午9点开会吗？", "下午9点开会吗？", False),
    QuestionPair("zh", "number_date", "iPhone 14 的重量是多少？", "iPhone 15 的重量是多少？", False),
    QuestionPair("zh", "number_date", "贷款十万月供多少？", "贷款二十万月供多少？", False),
    QuestionPair("zh", "number_date", "一年期存款利率是多少？", "三年期存款利率是多少？", False),
    QuestionPair("zh", "number_date", "孩子两岁能坐飞机吗？", "孩子五岁能坐飞机吗？", False),
    QuestionPair("zh", "number_date", "第一章讲了什么？", "第三章讲了什么？", False),
    QuestionPair("zh", "number_date", "今天的汇率是多少？", "昨天的汇率是多少？", False),
    QuestionPair("zh", "number_date", "身高一米六体重多少合适？", "身高一米八体重多少合适？", False),
    QuestionPair("zh", "number_date", "春季学期什么时候开学？", "秋季学期什么时候开学？", False),
    QuestionPair("zh", "number_date", "5G套餐每月多少钱？", "4G套餐每月多少钱？", False),
    QuestionPair("zh", "entity_swap", "怎么绑定支付宝？", "怎么绑定微信？", False),
    QuestionPair("zh", "entity_swap", "上海的人口是多少？", "广州的人口是多少？", False),
    QuestionPair("zh", "entity_swap", "感冒吃什么药？", "咳嗽吃什么药？", False),
    QuestionPair("zh", "entity_swap", "人民币换美元的汇率", "美元换人民币的汇率", False),
    QuestionPair("zh", "entity_swap", "怎么用Java读取文件？", "怎么用Python读取文件？", False),
    QuestionPair("zh", "entity_swap", "猫可以吃巧克力吗？", "狗可以吃巧克力吗？", False),
    QuestionPair("zh", "entity_swap", "日本签证怎么办？", "韩国签证怎么办？", False),
    QuestionPair("zh", "entity_swap", "中国银行的客服电话是多少？", "建设银行的客服电话是多少？", False),
    QuestionPair("zh", "entity_swap", "房东可以涨租客的租金吗？", "租客可以要求房东降租金吗？", False),
    QuestionPair("zh", "entity_swap", "把文件从电脑传到手机", "把文件从手机传到电脑", False),
    QuestionPair("zh", "entity_swap", "张三欠李四多少钱？", "李四欠张三多少钱？", False),
    QuestionPair("zh", "entity_swap", "北京到上海的火车票多少钱？", "北京到广州的火车票多少钱？", False),
    QuestionPair("zh", "entity_swap", "法国的首都是哪里？", "德国的首都是哪里？", False),
    QuestionPair("zh", "scope", "学生票多少钱？", "成人票多少钱？", False),
    QuestionPair("zh", "scope", "经济舱可以带几件行李？", "商务舱可以带几件行李？", False),
    QuestionPair("zh", "scope", "免费用户能用API吗？", "付费用户能用API吗？", False),
    QuestionPair("zh", "scope", "新用户有优惠吗？", "老用户有优惠吗？", False),
    QuestionPair("zh", "scope", "国内运费是多少？", "国际运费是多少？", False),
    QuestionPair("zh", "scope", "个人账户如何提现？", "企业账户如何提现？", False),
    QuestionPair("zh", "scope", "儿童可以吃布洛芬吗？", "可以吃布洛芬吗？", False),
    QuestionPair("zh", "scope", "全职员工有年假吗？", "兼职员工有年假吗？", False),
    QuestionPair("zh", "scope", "办理签证多少钱？", "办理签证多久？", False),
    QuestionPair("zh", "scope", "为什么无法登录？", "怎么登录？", False),
    QuestionPair("zh", "scope", "退货流程是什么？", "退货期限是多久？", False),
    QuestionPair("zh", "scope", "已拆封的商品可以退吗？", "商品可以退吗？", False),
    QuestionPair("zh", "scope", "线上课程怎么报名？", "线下课程怎么报名？", False),
    QuestionPair("zh", "scope", "本科生如何申请奖学金？", "研究生如何申请奖学金？", False),
    QuestionPair("zh", "scope", "首套房贷款利率是多少？", "二套房贷款利率是多少？", False),
    QuestionPair("zh", "scope", "所有员工都需要打卡吗？", "部分员工需要打卡吗？", False),
    QuestionPair("xl", "xl_paraphrase", "How do I change my password?", "怎么修改密码？", True),
    QuestionPair("xl", "xl_paraphrase", "How can I contact customer service?", "如何联系客服？", True),
    QuestionPair("xl", "xl_paraphrase", "What is machine learning?", "什么是机器学习？", True),
    QuestionPair("xl", "xl_paraphrase", "How do I track my order?", "怎么查询我的订单？", True),
    QuestionPair("xl", "xl_paraphrase", "Do you ship internationally?", "支持国际配送吗？", True),
    QuestionPair("xl", "xl_paraphrase", "Can I cancel my order?", "可以取消订单吗？", True),
    QuestionPair("xl", "xl_paraphrase", "How do I apply for a refund?", "如何申请退款？", True),
    QuestionPair("xl", "xl_paraphrase", "What are your opening hours?", "你们的营业时间是什么？", True),
    QuestionPair("xl", "xl_paraphrase", "How do I export data to Excel?", "怎么把数据导出到Excel？", True),
    QuestionPair("xl", "xl_paraphrase", "Can I bring pets to the hotel?", "酒店可以带宠物吗？", True),
    QuestionPair("xl", "xl_paraphrase", "What time is check-in?", "几点可以入住？", True),
    QuestionPair("xl", "xl_paraphrase", "How do I get an invoice?", "怎么开发票？", True),
    QuestionPair("xl", "xl_paraphrase", "Can pregnant women drink coffee?", "孕妇可以喝咖啡吗？", True),
    QuestionPair("xl", "xl_paraphrase", "How much does the enterprise plan cost?", "企业版多少钱？", True),
    QuestionPair("xl", "xl_paraphrase", "How do I connect to WiFi?", "怎么连接无线网络？", True),
    QuestionPair("xl", "xl_paraphrase", "What is the capital of France?", "法国的首都是哪里？", True),
    QuestionPair("xl", "xl_paraphrase", "How do I turn on dark mode?", "怎么开启深色模式？", True),
    QuestionPair("xl", "xl_paraphrase", "Is breakfast included?", "包含早餐吗？", True),
    QuestionPair("xl", "xl_paraphrase", "How do I change my shipping address?", "如何修改收货地址？", True),
    QuestionPair("xl", "xl_paraphrase", "How many days of annual leave do I get?", "年假有多少天？", True),
    QuestionPair("xl", "xl_paraphrase", "Can I return it within 7 days?", "7天内可以退货吗？", True),
    QuestionPair("xl", "xl_paraphrase", "What is the baggage allowance?", "行李额度是多少？", True),
    QuestionPair("xl", "xl_paraphrase", "Why was my payment declined?", "为什么我的付款被拒绝了？", True),
    QuestionPair("xl", "xl_paraphrase", "What does HTTP 404 mean?", "HTTP 404 是什么意思？", True),
    QuestionPair("xl", "xl_paraphrase", "Is parking free?", "停车免费吗？", True),
    QuestionPair("xl", "xl_trap", "How do I turn on dark mode?", "怎么关闭深色模式？", False),
    QuestionPair("xl", "xl_trap", "How do I cancel my order?", "怎么修改订单？", False),
    QuestionPair("xl", "xl_trap", "What is the capital of France?", "德国的首都是哪里？", False),
    QuestionPair("xl", "xl_trap", "How much does the enterprise plan cost?", "个人版多少钱？", False),
    QuestionPair("xl", "xl_trap", "Can I return it within 7 days?", "15天内可以退货吗？", False),
    QuestionPair("xl", "xl_trap", "Are you open on Sunday?", "周六营业吗？", False),
    QuestionPair("xl", "xl_trap", "What foods can I eat before surgery?", "手术前不能吃什么？", False),
    QuestionPair("xl", "xl_trap", "How do I upload a file?", "怎么下载文件？", False),
    QuestionPair("xl", "xl_trap", "Can pregnant women drink coffee?", "孕妇可以喝茶吗？", False),
    QuestionPair("xl", "xl_trap", "Flights from Beijing to Shanghai", "从上海到北京的航班", False),
    QuestionPair("xl", "xl_trap", "How long does a refund take?", "怎么申请退款？", False),
    QuestionPair("xl", "xl_trap", "Who pays for return shipping?", "换货运费谁承担？", False),
    QuestionPair("xl", "xl_trap", "Can I use the API on the free plan?", "付费版能用API吗？", False),
    QuestionPair("xl", "xl_trap", "What does HTTP 404 mean?", "HTTP 500 是什么意思？", False),
    QuestionPair("xl", "xl_trap", "How do I lend money to a friend?", "怎么向朋友借钱？", False),
    QuestionPair("xl", "xl_trap", "How much is the student ticket?", "成人票多少钱？", False),
    QuestionPair("xl", "xl_trap", "Why was my payment declined?", "怎么付款？", False),
    QuestionPair("xl", "xl_trap", "Can children take ibuprofen?", "成人可以吃布洛芬吗？", False),
    QuestionPair("xl", "xl_trap", "Is breakfast included?", "包含晚餐吗？", False),
    QuestionPair("xl", "xl_trap", "How do I connect my phone to the TV?", "怎么把手机连接到电脑？", False),
]
