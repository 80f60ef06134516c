"""How Chinese replies state facts.

Chinese has no blanks, so nothing here asks for a word boundary between Chinese characters. Most cue words stand before
their number ("券后109元", "满100减20"); where one may stand behind it too, `_FREE` keeps it off the next number
("原价129元秒杀99元").
"""

import re
from collections.abc import Mapping

from components.avatar.simulator.claims_grammar import Grammar, Marked
from components.avatar.simulator.facts import FactKind as K

_CURRENCIES = {
    **dict.fromkeys(("¥", "元", "块", "块钱", "人民币", "cny", "rmb"), "CNY"),
    **dict.fromkeys(("$", "usd", "美元", "美金"), "USD"),
    **dict.fromkeys(("€", "eur", "欧元"), "EUR"),
    **dict.fromkeys(("£", "gbp", "英镑"), "GBP"),
    **dict.fromkeys(("hkd", "港元", "港币"), "HKD"),
}
_MONEY_UNIT = r"元|块钱?|人民币|美元|美金|欧元|英镑|港[元币]|(?:cny|rmb|usd|eur|gbp|hkd)(?![a-z])"
_DAY = r"天|个?工作日|日(?=内|之?前|左右|可|无|到|送|$)|个?(?:周|星期|礼拜)"
_MONTH = r"个月|年"
_PIECE = r"[件盒罐袋瓶饼套份箱包提条组单只把]|个(?!月|工作日|周|星期|礼拜|小时)"
_UNIT = rf"{_MONEY_UNIT}|{_DAY}|{_MONTH}|{_PIECE}|%|折"
_NUMBER = re.compile(
    r"(?<![a-z0-9_.])(?P<symbol>[¥$€£]|(?:人民币|rmb|cny|usd|eur|gbp|hkd)\s?)?\s?"
    r"(?P<number>\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?)"
    rf"(?:\s?(?:(?P<percent>%)|(?P<currency>{_MONEY_UNIT})|(?P<days>{_DAY})|(?P<months>{_MONTH})|(?P<pieces>{_PIECE})))?"
)
_CLOCK = re.compile(
    r"(?<![\d:.])(?:(上午|早上|中午|下午|傍晚|晚上|今晚|晚)\s?)?(\d{1,2})"
    r"(?::(\d{2})(?!\d)|点(?:(半)|(\d{1,2})分?(?!\d)|整|钟)?)"
)
_LINK = re.compile(
    rf"(?:链接|商品|宝贝|编号|号码|#|no\.?)\s*(?:号|是|为|:|no\.?|#)?\s*(\d+)(?!\d|\.\d|\s?(?:{_UNIT}))"
    r"(?:\s*号(?:链接|商品|宝贝|款)?)?"
    r"|(?<![a-z0-9_.])(\d+)\s*(?:号(?:链接|商品|宝贝|款)?|#)"
    r"|第\s*(\d+)\s*(?:款|个链接)"
)
_CODE = re.compile(
    r"(?<![A-Za-z0-9_])(?=[A-Z0-9]*[A-Z])(?=[A-Z0-9]*\d)[A-Z0-9]{4,}(?![A-Za-z0-9_])",
)
_CODE_AFTER = re.compile(r"(?:码|口令|券|暗号)(?:是|为)?[\s:：]*[\"'“]?([A-Z][A-Z0-9]{2,})(?![A-Za-z0-9_])")

_BE = r"(?:只要|只需|仅需|就要|就是|是|为|才|就|只|有|:)*\s?"
_BEFORE: dict[K, str] = {  # cue words that stand before the number
    K.PAYS: rf"(?:[券码§折减惠扣]|用完|领完)之?后的?(?:价格|价钱|价)?{_BE}|到手的?(?:价格|价)?{_BE}"
    rf"|(?:实际)?(?:实付|支付|付){_BE}|合计{_BE}|一共{_BE}|算下来{_BE}|下来{_BE}|最终价?{_BE}|等于|变成|降到|减到|低至|降至"
    rf"|用[完了上]?(?:优惠)?(?:券|码|§+){_BE}|券后价{_BE}",
    K.COUPON_MINIMUM: rf"满|门槛{_BE}|最低消费|达到|超过",
    K.COUPON_VALUE: r"(?:立|直|再|可|能|马上)?(?:减掉?|省下?|抵扣?)(?!后|到|至|完)了?|便宜了?|降价?(?!到|至)了?"
    rf"|优惠(?!价|后|券|码|完)了?|面额{_BE}|券{_BE}$",
    K.FLASH_PRICE: rf"(?:秒杀|限时|闪购|特卖|抢购|活动|特)价{_BE}|秒杀{_BE}|闪购{_BE}|抢购{_BE}|特价{_BE}",
    K.PRICE: rf"(?:原|标|定|售|现|正|单|日常|直播|一口)价{_BE}|价[格钱]{_BE}|(?:平时|本来|原来|卖){_BE}|从|比",
    K.STOCK: rf"库存{_BE}|现货{_BE}|剩下?{_BE}|还有|存货{_BE}|仅有|余",
    K.SHIPPING_DAYS: r"到货?|送达?|发往?|寄|快递|物流|配送|运输|路上|收到",
    K.RETURN_DAYS: rf"退[货换款]*(?:期限|期|时间)?{_BE}|无理由{_BE}|换货{_BE}|售后{_BE}",
    K.WARRANTY_MONTHS: rf"保修期?{_BE}|质保期?{_BE}",
}
_FREE = r"(?!\s?[¥$€£\d])"  # no number follows
_AFTER: dict[K, str] = {  # cue words that stand after it
    K.PAYS: rf"^(?:到手(?!价){_FREE}|拿下|带走)",
    K.COUPON_MINIMUM: r"^(?:起用|起可用|以上|及以上|可用|的?门槛)",
    K.COUPON_VALUE: rf"^的?(?:优惠|立减|满减|代金|无门槛)?(?:券(?!后)|优惠(?!券|后|价)|折扣(?!后|价)){_FREE}",
    K.FLASH_PRICE: rf"^的?(?:秒杀|限时|闪购|抢购|特价)(?!价){_FREE}",
    K.PRICE: rf"^的?(?:原价|标价|日常价){_FREE}",
    K.STOCK: r"^个?(?:库存|现货)",
    K.SHIPPING_DAYS: r"^(?:左右|以?内|之内|就|可以?|能|后)*(?:送|到|收|寄)",
    K.RETURN_DAYS: r"^(?:以?内|之内|可以?|能|都|随时|免费|支持|申请|的)*(?:无理由|退|换)",
    K.WARRANTY_MONTHS: r"^的?(?:保修|质保)",
}
_CLAUSE_START = re.compile(r"[!?;。~\n]|\.(?:\s|$)")
_CLAUSE_END = re.compile(r"[!?;。~()\n]|\.(?:\s|$)|, |、|但|不过|而且|然后|还有")

_NONE = r"(?:没有|没|暂无|无)(?!门槛|法|办法|能|查|看)"
_WITHIN = r"[^,。!?;\d]"  # of one clause
_TICKET = r"(?:券|优惠码|口令|折扣|优惠)"
_THING = r"(?:链接|商品|宝贝|编号|号码)"
_THIS = r"(?:这个|这款|这条|该|您说的|你说的|第)?"
_SAYS: dict[K, re.Pattern[str]] = {
    K.UNAVAILABLE: re.compile(
        rf"(?:查|查询|确认|核实|读取)不(?:到|了|出来?)(?!\s*{_THIS}(?:\d+\s*号|#?\d+|{_THING}))"
        r"|(?:没法|无法|没办法|不能|没能)(?:马上|现在|立刻|立即|帮您?|给您?|为您?)*(?:查|看到|确认|核实|获取|读取)"
        r"|看不到(?:价格|库存|券|优惠|数据|信息|后台|结果|时效|物流|订单)"
        r"|系统[^,。!?;]{0,6}(?:故障|异常|问题|维护|卡|崩|挂|开小差|没反应|忙)"
        r"|(?:稍后|晚点|待会儿?|等会儿?|过会儿?|一会儿?)再(?:来?问|查|帮您?查|给您?查|告诉|确认|试)"
        r"|(?<![看听])不太?清楚|还不知道|说不准|不好说|拿不准"
    ),
    K.SOLD_OUT: re.compile(
        r"售罄|卖[完光空]|抢[完光空]|没有?现?货|无货|断货|缺货|没有?库存|库存(?:是|为|已?经?清)?(?:0(?!\d)|零|空)"
        r"|(?<!\d)0[件盒罐袋瓶饼套份]|一[件盒罐袋瓶饼套份]不剩"
    ),
    K.IN_STOCK: re.compile(r"有现?货|有库存|库存(?:很)?(?:充足|足)|现货充足|货很?足"),
    K.NO_COUPON: re.compile(
        rf"{_NONE}{_WITHIN}{{0,4}}{_TICKET}|(?:不能|不可以?|不支持|不参加)(?:使?用|叠加?)?(?:优惠)?(?:券|码)"
        rf"|{_TICKET}(?:今天|现在|暂时)?(?:没有|没了|领完|发完|用不了|不能用)"
    ),
    K.NO_FLASH: re.compile(
        rf"(?:{_NONE}|不在|不参加|没参加)(?:在|参加)?{_WITHIN}{{0,3}}(?:秒杀|限时|闪购|特价|抢购)"
        rf"|(?:秒杀|限时|闪购|特价|抢购)(?:活动|价)?(?:已经?|都)?(?:结束|过了|没有|没了|还没开始)"
    ),
    K.UNKNOWN_LINK: re.compile(
        rf"(?:找不到|查不到|没有?找到|没有?查到|没有?上?过?)\s*{_THIS}\s*(?:{_THING}|#\s*\d+|\d+\s*号)"
        rf"|(?:{_THING}|号)\s*\d*\s*(?:号)?(?:好像|并|根本)?(?:不存在|没有?上架|没上|未上架|无效)|不存在"
        r"|不在(?:我们|咱们|本|我)?(?:的)?(?:直播间|店|货架|清单|列表|单子)|查无此|号码不对"
    ),
    K.NO_VARIANTS: re.compile(
        r"(?:只有|就)(?:这)?一[种个款](?!茶)|没有(?:其他|其它|别的|更多|另外)的?(?:规格|选择|款式|版本|包装|口味)|单一规格"
    ),
    K.NOTHING_FOUND: re.compile(r"没有?(?:找|搜|查)到|没有(?:合适|类似|相关|符合|这样|这种|这类|您要|你要)"),
    K.NO_RETURNS: re.compile(
        r"(?:不能|不可以?|不支持|不接受|不予|不给|无法|不)(?:无理由|随意|再)*退|没有(?:无理由)?退|没有售后|无售后"
    ),
    K.NO_WARRANTY: re.compile(r"(?:没有|没|无|不带|不含|不提供|不支持)(?:任何|额外)?(?:保修|质保)|不保修"),
}
_DENIED = re.compile(
    r"(?:还没有?|并没有?|没有?|未|不是|并非|不会|快要?|即将|就要|马上就?要?|差点)(?:全部?|都|完全|被)?$"
)

_DIGITS = {digit: value for value, digit in enumerate("零一二三四五六七八九")} | {"〇": 0, "两": 2}
_UNITS = {"十": 10, "百": 100, "千": 1000}
_HAN_NUMBER = "[零〇一二两三四五六七八九十][零〇一二两三四五六七八九十百千]*"
_WORDED = re.compile(
    rf"(?<![第十百千])({_HAN_NUMBER})"
    rf"(?=\s?[多来]?(?:{_UNIT}|小时|号(?:链接|商品|宝贝|款|$)|点(?:半|钟|整|前|结束|截止|$)))"
)
_BARE = re.compile(rf"(?<!第)([一二两三四五六七八九][百千](?:{_HAN_NUMBER})?)")  # "一百二" is a number without a unit
_CUED = re.compile(rf"(剩下?|库存|只要|到手|券后|减|省|付)([一二两三四五六七八九十]{_HAN_NUMBER})")
_COUNTED = re.compile(r"(?:[剩有存仅共要需约到退修保余]|只要|大概|不到)$")  # before "一件": a number, not "a"
_LASTS = re.compile(
    r"\s?(?:天|个?工作日|个月)(?:之?内|以内|左右|就|能|可|送|到|达|收|退|无理由|质保|保修)"
)  # after "一"
_OFF = re.compile(r"(?<![\d.])(\d(?:\.\d)?|\d{2})\s?折")
_BLOCK = re.compile(rf"(\d+)块(\d{{1,2}})(?!\d|[.:点号]|\s?(?:{_UNIT}))")
_NEXT_DAY = re.compile(r"(次日|隔[天日]|明[天日]|后天)(?=[就能可以]*(?:送?[到达]|收))")
_HALVES = (("半年", "6个月"), ("半个月", "15天"), ("对折", "50%"), ("半价", "50%"))


def _digits(text: str) -> str:
    """Numbers in Chinese characters as digits ("三天", "一百二"), a discount as a percentage ("9折" is 10% off),
    "129块9" as 129.9元, the next day as one day.
    """
    for half, same in _HALVES:
        text = text.replace(half, same)
    text = _NEXT_DAY.sub(lambda match: "2天" if match[1] == "后天" else "1天", text)
    text = _WORDED.sub(lambda match: _number(match[1], text[: match.start()], text[match.end() :]), text)
    text = _BARE.sub(lambda match: _read(match[1]), text)
    text = _CUED.sub(lambda match: match[1] + _read(match[2]), text)
    text = _OFF.sub(lambda match: f"{_percent_off(match[1])}%", text)
    return _BLOCK.sub(r"\1.\2元", text)


def _number(word: str, before: str, after: str) -> str:
    if word == "一" and after[:1] not in "年周折" and not _COUNTED.search(before) and not _LASTS.match(after):
        return word  # "一件" is "a piece", "一块" may be "together"
    if len(word) == 2 and all(char in _DIGITS for char in word) and after[:1] != "折":
        return "-".join(map(_read, word))  # "两三天" is two to three days
    return _read(word)


def _read(word: str) -> str:
    """The digits of a number in Chinese characters, said ("一百二" is 120) or spelt ("八五")."""
    if all(char in _DIGITS for char in word):
        return "".join(str(_DIGITS[char]) for char in word)
    total, digit, unit = 0, None, 1
    for char in word:
        if char in _UNITS:
            unit = _UNITS[char]
            total, digit = total + (1 if digit is None else digit) * unit, None
        else:
            digit = _DIGITS[char]
            unit = 1 if digit == 0 else unit
    short = unit // 10 if unit >= 100 else 1
    return str(total + (digit or 0) * short)


def _percent_off(left: str) -> str:
    """What is off when `left` tenths (one digit) or hundredths (two) of the price are left to pay."""
    off = 100 - (float(left) * 10 if len(left) != 2 else int(left))
    return f"{off:g}"


def _clock_text(match: re.Match[str]) -> str:
    hour = int(match[2])
    if match[1] in ("下午", "傍晚", "晚上", "今晚", "晚") and hour < 12:
        hour += 12
    minutes = "30" if match[4] else (match[3] or match[5] or "0").zfill(2)
    return f"{hour:02d}:{minutes}"


def _compiled(cues: Mapping[K, str]) -> dict[K, re.Pattern[str]]:
    return {kind: re.compile(words) for kind, words in cues.items()}


CHINESE = Grammar(
    number=_NUMBER,
    currencies=_CURRENCIES,
    factors={**dict.fromkeys(("周", "个周", "星期", "个星期", "礼拜", "个礼拜"), 7), "年": 12},
    digits=_digits,
    clock=Marked(_CLOCK, (":", "点")),
    clock_text=_clock_text,
    link=_LINK,
    code=_CODE,
    code_after=Marked(_CODE_AFTER),
    before=_compiled(_BEFORE),
    after=_compiled(_AFTER),
    clause_start=_CLAUSE_START,
    clause_end=_CLAUSE_END,
    says={kind: Marked(pattern) for kind, pattern in _SAYS.items()},
    denied=_DENIED,
    nothing_shown=re.compile(r"没有?在?(?:讲|播|介绍|展示)|还没(?:开始|上)|没有(?:产品|商品)|间隙|空档|中场"),
    none_value="无",
    no_attribute=("没有{attribute}", "无{attribute}", "不含{attribute}"),
    order_states={
        "processing": ("处理中", "备货中", "正在处理", "正在备货", "待发货", "processing"),
        "shipped": ("已发货", "已经发货", "发货了", "已发出", "运输中", "在路上", "shipped"),
        "out for delivery": ("派送中", "正在派送", "配送中", "派件中", "out for delivery"),
        "delivered": ("已签收", "已送达", "签收了", "送到了", "已经签收", "已经送达", "delivered"),
    },
    signs={ord("，"): ", "},  # between two numbers NFKC would make a thousands separator of it
    peek=1,
)
