"""The verifier reads typed claims out of Chinese text: each case says what the text states."""

from decimal import Decimal

import pytest

from components.avatar.harness.schema import Family
from components.avatar.simulator.catalogue import Catalogue
from components.avatar.simulator.claims import Claims, extract
from components.avatar.simulator.facts import FactKind as K
from components.avatar.simulator.facts import TrueFacts
from components.avatar.simulator.stream import Stream
from components.avatar.simulator.verify import context_of, false_claims, false_text
from tests.unit.simulator.shop import ask
from tests.unit.simulator.shop_zh import ZH_PRODUCTS

F = Family


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return Catalogue.model_validate({"products": ZH_PRODUCTS})


def read(text: str, family: Family, catalogue: Catalogue) -> Claims:
    return extract(text, family, catalogue, language="zh")


@pytest.mark.parametrize(
    "text",
    [
        "¥129.00",
        "￥129",
        "129元",
        "129块",
        "129块钱",
        "只要１２９元",
        "今天129哦",
        "人民币129",
        "129 RMB",
        "3号链接129.00元",
        "3号：129元",
        "链接3现在129",
        "#3 129元",
        "第3款129元",
        "一百二十九元",
        "一百二十九块",
        "武夷大红袍2019只要129元",
    ],
)
def test_price_forms(text: str, catalogue: Catalogue) -> None:
    claims = read(text, F.PRICE, catalogue)
    assert [claim.value for claim in claims.numbers] == [129]
    assert K.PRICE in claims.numbers[0].kinds


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1,299元", "1299"),
        ("一千二百九十九元", "1299"),
        ("一百二十元", "120"),
        ("一百二块钱", "120"),
        ("一百零二元", "102"),
        ("十五元", "15"),
        ("二十块", "20"),
        ("129块9", "129.9"),
        ("129块90", "129.9"),
        ("只要一百二", "120"),
        ("到手十九", "19"),
        ("两千零五", "2005"),
        ("两百多块", "200"),
    ],
)
def test_numbers_in_words(text: str, value: str, catalogue: Catalogue) -> None:
    assert [claim.value for claim in read(text, F.PRICE, catalogue).numbers] == [Decimal(value)]


@pytest.mark.parametrize("text", ["129，35件", "129元，35件", "129元、35件"])
def test_a_full_width_comma_is_no_thousands_separator(text: str, catalogue: Catalogue) -> None:
    assert [claim.value for claim in read(text, F.PRICE, catalogue).numbers] == [129, 35]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("原价129元，用券后109元", {K.PRICE: 129, K.PAYS: 109}),
        ("原价129元 券后109元", {K.PRICE: 129, K.PAYS: 109}),
        ("标价129（券后109元）", {K.PRICE: 129, K.PAYS: 109}),
        ("到手109元，平时卖129元", {K.PAYS: 109, K.PRICE: 129}),
        ("用CHA20只要109元，原价129元", {K.PAYS: 109, K.PRICE: 129}),
        ("从129元降到109元", {K.PRICE: 129, K.PAYS: 109}),
        ("原价129减20到手109", {K.PRICE: 129, K.COUPON_VALUE: 20, K.PAYS: 109}),
        ("比原价129元便宜20元", {K.PRICE: 129, K.COUPON_VALUE: 20}),
        ("用CHA20立减20元", {K.COUPON_VALUE: 20}),
        ("满100减20", {K.COUPON_MINIMUM: 100, K.COUPON_VALUE: 20}),
        ("满100元可用，立省20元", {K.COUPON_MINIMUM: 100, K.COUPON_VALUE: 20}),
        ("有一张20元的优惠券", {K.COUPON_VALUE: 20}),
        ("领20元券，原价129元", {K.COUPON_VALUE: 20, K.PRICE: 129}),
        ("打9折", {K.COUPON_PERCENT: 10}),
        ("打八五折", {K.COUPON_PERCENT: 15}),
        ("打8.8折", {K.COUPON_PERCENT: 12}),
        ("立减10%", {K.COUPON_PERCENT: 10}),
        ("秒杀价99元，到21:30", {K.FLASH_PRICE: 99}),
        ("原价129元秒杀99元", {K.PRICE: 129, K.FLASH_PRICE: 99}),
        ("限时价99元，平时129元", {K.FLASH_PRICE: 99, K.PRICE: 129}),
        ("还剩35件，原价129元", {K.STOCK: 35, K.PRICE: 129}),
        ("库存35，原价129", {K.STOCK: 35, K.PRICE: 129}),
        ("只剩三十五盒", {K.STOCK: 35}),
        ("就剩一罐了", {K.STOCK: 1}),
        ("到北京3天，7天内可退", {K.SHIPPING_DAYS: 3, K.RETURN_DAYS: 7}),
        ("3天送到，支持7天无理由退货", {K.SHIPPING_DAYS: 3, K.RETURN_DAYS: 7}),
        ("7天无理由退货，3天到北京", {K.RETURN_DAYS: 7, K.SHIPPING_DAYS: 3}),
        ("收到货后七天内可以退", {K.RETURN_DAYS: 7}),
        ("退货期是两周", {K.RETURN_DAYS: 14}),
        ("三个工作日内送达", {K.SHIPPING_DAYS: 3}),
        ("一天就到北京", {K.SHIPPING_DAYS: 1}),
        ("次日达", {K.SHIPPING_DAYS: 1}),
        ("后天就能到", {K.SHIPPING_DAYS: 2}),
        ("半个月内可退", {K.RETURN_DAYS: 15}),
        ("半年质保", {K.WARRANTY_MONTHS: 6}),
        ("满一百减二十", {K.COUPON_MINIMUM: 100, K.COUPON_VALUE: 20}),
        ("打对折", {K.COUPON_PERCENT: 50}),
        ("今天半价", {K.COUPON_PERCENT: 50}),
        ("保修1年", {K.WARRANTY_MONTHS: 12}),
        ("质保十二个月", {K.WARRANTY_MONTHS: 12}),
    ],
)
def test_kinds_by_nearby_words(text: str, expected: dict[K, int], catalogue: Catalogue) -> None:
    found = {claim.kinds[0]: claim.value for claim in read(text, F.PRICE_AFTER_COUPON, catalogue).numbers}
    assert found == expected


@pytest.mark.parametrize(
    ("text", "clock"),
    [
        ("到21:30结束", "21:30"),
        ("到21：30结束", "21:30"),
        ("到晚上9点半", "21:30"),
        ("晚上9点30分截止", "21:30"),
        ("今晚十点结束", "22:00"),
        ("21点整截止", "21:00"),
    ],
)
def test_times_of_day(text: str, clock: str, catalogue: Catalogue) -> None:
    claims = read(text, F.FLASH_SALE, catalogue)
    assert claims.clocks == (clock,) and claims.numbers == ()


@pytest.mark.parametrize(
    "text",
    [
        "一起喝茶吧",
        "便宜一点",
        "一会儿再来",
        "买一件带走",
        "一块买更开心",
        "欢迎常来",
        "三年陈白牡丹很好喝",
        "十分感谢",
        "忙了一天辛苦了",
        "明天再来",
        "千万别错过",
        "百年老店",
    ],
)
def test_what_is_no_number(text: str, catalogue: Catalogue) -> None:
    claims = read(text, F.CHIT_CHAT, catalogue)
    assert claims.numbers == () and claims.clocks == () and claims.links == frozenset()


@pytest.mark.parametrize(
    ("text", "links"),
    [
        ("3号链接", {3}),
        ("3号", {3}),
        ("链接3", {3}),
        ("看看链接3号", {3}),
        ("三号链接", {3}),
        ("#3和#8", {3, 8}),
        ("3号129元，8号50元", {3, 8}),
        ("商品编号12", {12}),
        ("3元", set()),
        ("链接3元", set()),
        ("商品129元", set()),
    ],
)
def test_links(text: str, links: set[int], catalogue: Catalogue) -> None:
    assert read(text, F.PRICE, catalogue).links == links


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        ("用CHA20立减", {"cha20"}),
        ("券码BAIMUDAN", {"baimudan"}),
        ("报BAIMUDAN就行", {"baimudan"}),  # one of the catalogue's
        ("优惠码：SPRING", {"spring"}),
        ("口令“FREE99”", {"free99"}),
        ("人民币129，RMB", set()),
    ],
)
def test_codes(text: str, codes: set[str], catalogue: Catalogue) -> None:
    assert read(text, F.COUPON, catalogue).codes == codes


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("抱歉，这个现在查不到", {K.UNAVAILABLE}),
        ("暂时没法查价格", {K.UNAVAILABLE}),
        ("优惠券这会儿查不了", {K.UNAVAILABLE}),
        ("没办法帮您查库存", {K.UNAVAILABLE}),
        ("系统有点忙", {K.UNAVAILABLE}),
        ("系统出故障了", {K.UNAVAILABLE}),
        ("稍后再问我", {K.UNAVAILABLE}),
        ("我也不清楚", {K.UNAVAILABLE}),
        ("画面看不清楚的话刷新一下", set()),
        ("不好意思，卖完了", {K.SOLD_OUT}),
        ("已经售罄", {K.SOLD_OUT}),
        ("没货了", {K.SOLD_OUT}),
        ("没有现货", {K.SOLD_OUT}),
        ("暂时没有库存", {K.SOLD_OUT}),
        ("还没卖完", {K.IN_STOCK}),
        ("快卖完了", {K.IN_STOCK}),
        ("有货的", {K.IN_STOCK}),
        ("现货充足", {K.IN_STOCK}),
        ("3号没有优惠券", {K.NO_COUPON}),
        ("今天没券", {K.NO_COUPON}),
        ("暂无折扣", {K.NO_COUPON}),
        ("这款不能用券", {K.NO_COUPON}),
        ("券已经领完", set()),  # of whom is not said: no claim is read out of it
        ("无门槛券", set()),
        ("现在没有秒杀", {K.NO_FLASH}),
        ("秒杀已经结束", {K.NO_FLASH}),
        ("不参加限时活动", {K.NO_FLASH}),
        ("直播间没有99号链接", {K.UNKNOWN_LINK}),
        ("99号链接不存在", {K.UNKNOWN_LINK}),
        ("找不到这个链接", {K.UNKNOWN_LINK}),
        ("查不到99号链接", {K.UNKNOWN_LINK}),
        ("没有3件了", set()),
        ("这款不支持退货", {K.NO_RETURNS}),
        ("不退不换", {K.NO_RETURNS}),
        ("这款没有保修", {K.NO_WARRANTY}),
        ("只有一种规格", {K.NO_VARIANTS}),
        ("没有其他规格", {K.NO_VARIANTS}),
        ("没有找到合适的", {K.NOTHING_FOUND}),
        ("欢迎来到直播间", set()),
        ("没问题，放心拍", set()),
        ("不着急，慢慢看", set()),
    ],
)
def test_statements(text: str, says: set[K], catalogue: Catalogue) -> None:
    assert read(text, F.CHIT_CHAT, catalogue).says == says


@pytest.mark.parametrize(
    ("family", "text", "wrong"),
    [
        (F.PRICE, "129元", []),
        (F.PRICE, "99元", []),  # the flash price: one can buy at it
        (F.PRICE, "109元", ["109元"]),  # true after the coupon, but not as a price
        (F.PRICE, "一百三十元", ["130元"]),
        (F.PRICE, "$129", ["$129"]),
        (F.PRICE, "129美元", ["129美元"]),
        (F.PRICE, "7号链接129元", ["129元"]),  # link 3's price said of link 7
        (F.PRICE, "7号链接1299元", []),
        (F.PRICE, "129元，只剩34件", ["34件"]),
        (F.PRICE, "129元，还剩35件，卖完了", ["sold_out"]),
        (F.PRICE, "129元，快卖完了", []),  # in stock, which is true
        (F.PRICE, "3是129元", []),  # names the link
        (F.STOCK, "还有三十四件", ["34件"]),
        (F.STOCK, "还有货，35件", []),
        (F.STOCK, "没货了", ["sold_out"]),
        (F.COUPON, "用CHA20减20元", []),
        (F.COUPON, "用CHA30减20元", ["cha30"]),
        (F.COUPON, "用CHA20减30元", ["30元"]),
        (F.COUPON, "用BAIMUDAN减20元", ["baimudan"]),  # another product's code
        (F.COUPON, "用CHA20打9折", ["10%"]),  # 20 yuan off is no 10%
        (F.COUPON, "没有券", ["no_coupon"]),
        (F.COUPON, "满100减20，券码CHA20", []),
        (F.COUPON, "满200减20，券码CHA20", ["200"]),
        (F.PRICE_AFTER_COUPON, "原价129元，券后99元", ["99元"]),
        (F.PRICE_AFTER_COUPON, "原价109元，到手129元", ["109元", "129元"]),
        (F.SHIPPING, "到北京3天", []),
        (F.SHIPPING, "到哈尔滨3天", ["3天"]),
        (F.SHIPPING, "到哈尔滨六天", []),
        (F.SHIPPING, "两三天就到北京", ["2"]),
        (F.SHIPPING, "一周到北京", ["1周"]),
        (F.SHIPPING, "明天就到北京", ["1天"]),
        (F.STOCK, "35件，只要一百二", ["120"]),
        (F.STOCK, "35件，今天半价", ["50%"]),
        (F.RETURN_POLICY, "7天内可以退", []),
        (F.RETURN_POLICY, "3天内可以退", ["3天"]),  # days, but of shipping
        (F.RETURN_POLICY, "不支持退货", ["no_returns"]),
        (F.FLASH_SALE, "99元，到21:30", []),
        (F.FLASH_SALE, "99元，到晚上9点半", []),
        (F.FLASH_SALE, "99元，到22:00", ["22:00"]),
        (F.FLASH_SALE, "没有秒杀", ["no_flash"]),
        (F.ATTRIBUTES, "武夷大红袍2019是花香的", []),
        (F.CHIT_CHAT, "加我555", ["555"]),
        (F.CHIT_CHAT, "见到您真高兴", []),
    ],
)
def test_truth(family: Family, text: str, wrong: list[str], catalogue: Catalogue) -> None:
    question = ask(family, 3, text="3号呢", city="北京", attribute="香型")
    context = context_of(question, catalogue, 7)
    truth = TrueFacts(Stream(catalogue), 3)
    assert false_claims(read(text, family, catalogue), context, truth) == wrong


def test_percent_coupon_may_be_stated_as_what_it_saves(catalogue: Catalogue) -> None:
    context = context_of(ask(F.COUPON, 8, "8号有券吗"), catalogue, None)
    truth = TrueFacts(Stream(catalogue), 8)
    for text, wrong in (("用BAIMUDAN打9折", []), ("BAIMUDAN省5元", []), ("BAIMUDAN省6元", ["6元"])):
        assert false_claims(read(text, F.COUPON, catalogue), context, truth) == wrong
    assert false_claims(read("用BAIMUDAN打8折", F.COUPON, catalogue), context, truth) == ["20%"]


def test_another_products_attribute_is_false(catalogue: Catalogue) -> None:
    context = context_of(ask(F.ATTRIBUTES, 3, "3号啥香型", attribute="香型"), catalogue, None)
    truth = TrueFacts(Stream(catalogue), 3)
    assert false_text(read("是茉莉香的", F.ATTRIBUTES, catalogue), context, truth) == ["茉莉香"]
    assert false_text(read("是兰花香的", F.ATTRIBUTES, catalogue), context, truth) == ["兰花香"]  # 花香 stands in it
    assert false_text(read("是花香的", F.ATTRIBUTES, catalogue), context, truth) == []


def test_another_state_of_the_order_is_false(catalogue: Catalogue) -> None:
    context = context_of(ask(F.ORDER_STATUS, None, "DD1042到哪了", order_id="DD1042"), catalogue, None)
    truth = TrueFacts(Stream(catalogue), None)
    said = {"processing": "还在备货中", "shipped": "已发货", "out for delivery": "派送中", "delivered": "已签收"}
    (state,) = truth(K.ORDER_STATUS, "DD1042")
    for other, text in said.items():
        wrong = false_text(read(text, F.ORDER_STATUS, catalogue), context, truth)
        assert wrong == ([] if other == state else [other])
