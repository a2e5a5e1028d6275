# ruff: noqa: E501
"""Memories about one user, written by hand, and questions that name nobody and share few words with them."""

from __future__ import annotations

from typing import Final

PLAIN: Final = tuple(
    tuple(part.strip() for part in line.split("|"))
    for line in """
The user goes to the dentist every May. | How often do I have my teeth checked? | 用户每年五月去看牙医。 | 我多久检查一次牙齿？
The user's bicycle was stolen from the cellar. | What happened to my bike? | 用户的自行车在地下室被偷了。 | 我的单车怎么没了？
The user cannot stand coriander. | Which herb should you leave out of my food? | 用户受不了香菜的味道。 | 给我点菜别放什么？
The user is learning to play the cello. | Which instrument am I practising? | 用户正在学大提琴。 | 我在练什么乐器？
The user sleeps badly after drinking coffee late in the day. | Why am I awake at night? | 用户下午喝咖啡晚上就睡不好。 | 我为什么失眠？
Replies shall be short, without bullet lists. | In what style do I want answers? | 回答要简短，不要用列表。 | 我希望你怎么回复我？
The user's sister is getting married next spring. | Whose wedding do I have to attend? | 用户的妹妹明年春天结婚。 | 我要参加谁的婚礼？
The user pays 980 a month for the flat. | How high is my rent? | 用户的公寓每月房租 980。 | 我住的地方一个月多少钱？
The heating engineer comes on Thursday at nine. | When will the boiler be looked at? | 修暖气的师傅周四九点来。 | 锅炉什么时候有人来看？
The spare key is with the neighbour on the second floor. | I am locked out, who can let me in? | 备用钥匙放在二楼邻居那里。 | 我把自己锁在外面了，找谁？
The user grew up on a farm with goats. | What was my childhood like? | 用户小时候在养山羊的农场长大。 | 我童年是怎么过的？
The user is afraid of flying and takes the train. | How do I like to travel? | 用户害怕坐飞机，出门坐火车。 | 我出远门一般怎么走？
The printer only works after it was switched off and on. | How do I get paper out of that stubborn machine? | 打印机要先关再开才能用。 | 那台机器打不出来怎么办？
The user wants commit messages in the imperative. | How should a change be described in git? | 用户要求提交说明用祈使句。 | 提交代码时说明怎么写？
Tests must run before every push. | What do we have to do prior to uploading code? | 每次推送之前必须跑测试。 | 代码上传前要先做什么？
The user's left knee hurts when running. | Which injury do I have? | 用户跑步时左膝盖疼。 | 我身上哪里有伤？
The user donates to the animal shelter each December. | To which charity do I give? | 用户每年十二月给动物收容所捐款。 | 我资助哪家公益机构？
The user is colour-blind: red and green look alike. | What must charts for me avoid? | 用户是色盲，分不清红和绿。 | 给我画图表要注意什么？
The company pays for lunch on Fridays. | On which day is the meal free? | 公司周五请大家吃午饭。 | 哪天吃饭不用自己掏钱？
The user's mother turns seventy in autumn. | Which anniversary in the family is coming up? | 用户的母亲秋天满七十岁。 | 家里快到谁的大寿了？
The user saves for a sailing boat. | What am I putting money aside for? | 用户在攒钱买一艘帆船。 | 我存钱是想买什么？
The balcony plants need water twice a week. | How often do the flowers want a drink? | 阳台的植物一周浇两次水。 | 花多久喝一次水？
The wifi password is on a note under the router. | How do guests get online? | 无线密码写在路由器下面的纸条上。 | 客人来了怎么上网？
The user works from six in the morning until two. | When am I at my desk? | 用户早上六点工作到下午两点。 | 我的上班时间是几点？
The user passed the sailing exam at the second try. | Did I fail something at first? | 用户第二次才考过驾帆执照。 | 我哪次考试没有一次通过？
Never deploy after four in the afternoon. | Until what hour may we release? | 下午四点以后不许上线。 | 发布最晚能到几点？
The user collects old typewriters. | What is my hobby? | 用户收藏老式打字机。 | 我有什么业余爱好？
The cat must get its pill with breakfast. | When does the pet take its medicine? | 猫的药要在早饭时喂。 | 宠物什么时候吃药？
The user's passport expires in February. | Which document do I need to renew? | 用户的护照二月到期。 | 我哪个证件快要换了？
The user thinks in metric units only. | Shall I give you miles or kilometres? | 用户只用公制单位。 | 距离用英里还是公里告诉你？
The old car failed its inspection because of rust. | Why may I not drive any more? | 旧车因为生锈没通过年检。 | 我的车为什么不能上路？
The user speaks Portuguese at home. | Which language does my family use? | 用户在家说葡萄牙语。 | 我家里人讲哪种话？
Backups go to the disk in the safe. | Where would I find a copy of lost files? | 备份存在保险柜里的硬盘上。 | 文件丢了去哪里找副本？
The user stopped smoking three years back. | Do I have a cigarette now and then? | 用户三年前戒了烟。 | 我还抽不抽烟？
The team meets standing, for ten minutes, at half past nine. | How long is our daily? | 团队九点半站着开十分钟的会。 | 每日例会要多久？
The user is writing a novel about a lighthouse keeper. | What is my book about? | 用户在写一部关于灯塔看守人的小说。 | 我的书讲的是什么？
The invoice for the roof is still unpaid. | Which bill is open? | 修屋顶的账单还没有付。 | 我还欠哪笔钱？
The user votes by post. | How do I take part in elections? | 用户用邮寄方式投票。 | 选举时我怎么参加？
The user's children are five and eight. | How old are the kids? | 用户的孩子一个五岁一个八岁。 | 小朋友们几岁了？
The landlord does not allow pets larger than a hamster. | May I get a dog? | 房东不许养比仓鼠大的动物。 | 我能养狗吗？
""".strip().splitlines()
)
"""English memory and question, Chinese memory and question, both about the same thing."""
