"""Right answers in Chinese words that the oracle would not choose, and wrong ones that look alike: both are judged."""

import pytest

from components.avatar.harness.schema import Family
from components.avatar.simulator.catalogue import Catalogue
from components.avatar.simulator.oracle import next_action, realise
from components.avatar.simulator.scenario import Question
from components.avatar.simulator.session import Session
from tests.unit.simulator.shop import ask, scenario
from tests.unit.simulator.shop_zh import ZH_PRODUCTS, ZH_QUESTIONS, zh_harness

F = Family
CATALOGUE = Catalogue.model_validate({"products": ZH_PRODUCTS})
CASES = [
    (
        ZH_QUESTIONS[F.PRICE],
        [
            "3号链接现在只要129.00元！",
            "今天129，喜欢就拍",
            "亲，三号是129块哦",
            "¥129",
            "武夷大红袍2019一罐129元",
            "原价129元，秒杀价99元，到晚上9点半",
            "一百二十九块钱",
        ],
        ["只要128元！", "109元", "一百三十块", "35元", "价格很美丽", "1290元", "129美元", ""],
    ),
    (
        ZH_QUESTIONS[F.PRICE_AFTER_COUPON],
        [
            "用CHA20到手109元，原价129元",
            "129元，券后109元",
            "原价129元 领券后只要109元",
            "129减20，到手109",
            "标价129.00元（用券后109.00元）",
            "平时129块，用完券109块",
        ],
        ["用券后129元，原价109元", "109元", "129元，到手119元", "129元", "原价129元，满100减30，到手109元"],
    ),
    (
        ZH_QUESTIONS[F.COUPON],
        ["用CHA20减20元", "CHA20立省20块", "有的，券码CHA20，满100减20", "报CHA20便宜二十块", "用CHA20到手109元"],
        ["用CHA20减30元", "用BAIMUDAN减20元", "3号没有券", "可以减20元", "8号用CHA20减20元", "用CHA20打八折"],
    ),
    (ask(F.COUPON, 8, "8号有券吗"), ["用BAIMUDAN打9折", "BAIMUDAN打九折", "BAIMUDAN减5元"], ["用BAIMUDAN打8折"]),
    (
        ask(F.COUPON, 9, "9号有券不"),
        ["9号没有优惠券", "不好意思，这款今天没券", "暂无折扣"],
        ["用HUACHA5减5元", "有券的"],
    ),
    (
        ZH_QUESTIONS[F.STOCK],
        ["还有35件", "3号剩三十五罐", "库存35", "有货，还剩35份"],
        ["剩34件", "卖完了", "有货，很多", "35元", "快没货了，只剩5件"],
    ),
    (
        ask(F.STOCK, 9, "9号还有吗"),
        ["9号卖完了", "售罄了，抱歉", "没货了", "库存是0"],
        ["有货", "还有5件", "快卖完了"],
    ),
    (
        ZH_QUESTIONS[F.SHIPPING],
        ["北京3天到", "发北京大概三天", "三天就能送到北京", "3个工作日内送达北京"],
        ["三周", "到北京要2天", "两三天", "到哈尔滨6天", "3元"],
    ),
    (
        ZH_QUESTIONS[F.RETURN_POLICY],
        ["签收7天内可退", "支持七天无理由退货", "一周内包退", "退货期7天"],
        ["14天内可退", "不支持退货", "7天送到"],
    ),
    (
        ask(F.ATTRIBUTES, text="3号多重", attribute="净含量"),
        ["净含量30克", "30克一罐", "是30克的"],
        ["50克", "分量很足"],
    ),
    (ZH_QUESTIONS[F.ATTRIBUTES], ["花香的", "3号是花香型"], ["兰花香", "茉莉香", "很香"]),
    (ask(F.ATTRIBUTES, 7, "7号香型", attribute="香型"), ["没有香型", "无"], ["花香", "挺好的"]),
    (
        ZH_QUESTIONS[F.FLASH_SALE],
        ["99元，到21:30", "秒杀价99块，晚上9点半结束", "限时99元，21:30截止"],
        ["99元，到23:00", "没有秒杀", "129元，到21:30"],
    ),
    (ask(F.FLASH_SALE, 7, "7号有秒杀吗"), ["7号现在没有秒杀", "这款不参加秒杀"], ["秒杀价1299元"]),
    (
        ask(F.UNKNOWN_LINK, 77, "77号多少钱"),
        ["没有77号链接哦", "77号链接不存在", "找不到77号", "直播间没有这个链接"],
        ["77号99元", "卖完了", "好的，请看"],
    ),
    (ZH_QUESTIONS[F.ON_AIR], ["7号链接", "是七号链接", "这款是紫砂壶", "现在讲7号"], ["3号链接", "一款好茶"]),
    (
        ask(F.VARIANT, text="3号小罐有吗", variant="小罐"),
        ["小罐还有5件", "有货，还剩5罐", "有的，小罐有货"],
        ["小罐卖完了", "小罐还剩2件"],
    ),
    (ask(F.VARIANT, text="8号有啥规格", link=8), ["有大铁罐", "大铁罐还有"], ["有罐装", "只有一种规格"]),
    (ZH_QUESTIONS[F.COMPARE], ["3号129元，8号50元", "8号50块，3号129块"], ["3号50元，8号129元", "3号129元"]),
    (ZH_QUESTIONS[F.SEARCH], ["看看3号", "推荐武夷大红袍2019"], ["看看7号", "没有找到"]),
    (ask(F.SEARCH, None, "有咖啡吗", query="咖啡"), ["没有找到合适的", "没有类似的"], ["看看3号"]),
]
TABLE = [(q, text, 1.0) for q, good, _ in CASES for text in good] + [
    (q, text, 0.0) for q, _, bad in CASES for text in bad
]


def answered(question: Question, text: str, session: Session) -> float:
    session.begin()
    while (realised := realise(session, next_action(session)))[0] == "call":
        session.call(realised[1], realised[2])
    session.reply(text)
    return session.replies[0].accuracy


@pytest.mark.parametrize(("question", "text", "accuracy"), TABLE)
def test_paraphrase(question: Question, text: str, accuracy: float) -> None:
    session = Session(zh_harness(hooks=()), CATALOGUE, scenario(question))
    assert answered(question, text, session) == accuracy, (session.replies[0], session.results)


@pytest.mark.parametrize("text", ["", "哈哈", "好好好好好好", "主播晚上好呀"])
def test_small_talk_needs_words_of_its_own(text: str) -> None:
    question = ZH_QUESTIONS[F.CHIT_CHAT]
    session = Session(zh_harness(hooks=()), CATALOGUE, scenario(question))
    answered(question, text, session)
    assert session.replies[0].effectiveness == 0
