"""What the oracle says in Chinese."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from components.avatar.simulator.speech import Speech

_SENTENCES: Mapping[str, tuple[str, ...]] = {
    "price": (
        "{link}号链接现在{price}{currency}。",
        "{link}号今天{price}{currency}，喜欢可以直接拍。",
        "这款价格是{price}{currency}。",
        "直播间卖{price}{currency}。",
        "{price}{currency}。",
    ),
    "stock": (
        "{link}号链接还剩{stock}件。",
        "有的，{link}号还有{stock}件。",
        "库存{stock}件，不用着急。",
        "还能拍，{stock}件。",
        "{stock}件。",
    ),
    "sold_out": (
        "抱歉，{link}号链接已经卖完了。",
        "{link}号暂时没货了，可以看看别的。",
        "不好意思，这款售罄了。",
        "抢光了。",
        "没货了。",
    ),
    "coupon_amount": (
        "{link}号链接用{code}立减{value}{currency}。",
        "有的，下单填{code}，便宜{value}{currency}。",
        "有券，{code}可以抵{value}{currency}。",
        "{code}减{value}{currency}。",
        "{code}省{value}{currency}。",
    ),
    "coupon_percent": (
        "{link}号链接用{code}打{fold}。",
        "有的，下单填{code}，打{fold}。",
        "有券，{code}可以减{value}。",
        "{code}减{value}。",
        "{code}享{fold}。",
    ),
    "no_coupon": (
        "{link}号链接现在没有优惠券。",
        "不好意思，{link}号今天没有券。",
        "这款暂无折扣。",
        "没有优惠码。",
        "没券。",
    ),
    "after_coupon": (
        "{link}号链接{price}{currency}，用券后{pays}{currency}。",
        "{link}号原价{price}{currency}，用{code}到手{pays}{currency}。",
        "标价{price}{currency}，实付{pays}{currency}。",
        "从{price}{currency}降到{pays}{currency}。",
        "{price}{currency}，折后{pays}{currency}。",
        "{price}{currency}，到手{pays}{currency}。",
    ),
    "after_no_coupon": (
        "{link}号链接{price}{currency}，现在没有优惠券。",
        "{link}号还是{price}{currency}，今天没有券。",
        "这款{price}{currency}，暂无折扣。",
        "{price}{currency}，没券。",
    ),
    "after_only_price": (
        "{link}号链接{price}{currency}，券现在查不到。",
        "{link}号是{price}{currency}，优惠暂时没法确认。",
        "{price}{currency}，优惠查不了。",
        "{price}{currency}，券没法确认。",
    ),
    "after_only_pays": (
        "{link}号用券后{pays}{currency}，原价现在查不到。",
        "用{code}到手{pays}{currency}，别的暂时没法确认。",
        "到手{pays}{currency}，原价查不了。",
        "实付{pays}{currency}，别的没法确认。",
    ),
    "after_only_none": (
        "{link}号没有优惠券，价格现在查不到。",
        "这款没有券，价格暂时没法确认。",
        "暂无折扣，价格查不了。",
        "没券，别的没法确认。",
    ),
    "shipping": (
        "发到{city}要{days}天。",
        "寄{city}大约{days}天能收到。",
        "{city}{days}天送达，请放心。",
        "到{city}{days}天。",
        "{city}{days}天。",
    ),
    "returns": (
        "{link}号链接支持{days}天无理由退货。",
        "{link}号签收后{days}天内可以退。",
        "可以的，{days}天内包退。",
        "售后期{days}天。",
        "{days}天可退。",
    ),
    "no_returns": (
        "抱歉，{link}号链接不支持退货。",
        "{link}号售出后不能退，请想好再拍。",
        "这款不退不换。",
        "这款没有售后。",
        "不退。",
    ),
    "attribute": (
        "{link}号链接的{attribute}是{value}。",
        "{link}号，{attribute}：{value}。",
        "这款{attribute}是{value}，供您参考。",
        "资料写的{value}。",
        "{value}。",
    ),
    "warranty": (
        "{link}号链接保修{months}个月。",
        "{link}号有{months}个月质保。",
        "质保{months}个月。",
        "{months}个月保修。",
        "{months}个月。",
    ),
    "no_warranty": (
        "抱歉，{link}号链接没有保修。",
        "{link}号不带质保。",
        "没有保修。",
        "没有质保。",
    ),
    "flash": (
        "{link}号链接秒杀价{flash}{currency}，到{ends}结束。",
        "有的，{link}号限时价{flash}{currency}，{ends}截止。",
        "秒杀{flash}{currency}，到{ends}。",
        "特价{flash}{currency}，{ends}截止。",
        "{flash}{currency}，到{ends}。",
    ),
    "no_flash": (
        "{link}号链接现在没有秒杀。",
        "{link}号今天没有限时特价。",
        "这款不参加抢购。",
        "没有秒杀。",
        "没有特价。",
    ),
    "variants": (
        "{link}号链接有{variants}可选。",
        "{link}号有这些：{variants}。",
        "可选{variants}。",
        "{variants}。",
    ),
    "no_variants": (
        "{link}号链接只有一种规格。",
        "{link}号没有其他规格。",
        "只有这一种。",
        "没有别的选择。",
    ),
    "variant": (
        "{link}号链接{variant}还剩{stock}件。",
        "有的，{variant}还有{stock}件。",
        "{variant}库存{stock}件。",
        "{variant}，{stock}件。",
        "{stock}件。",
    ),
    "variant_sold_out": (
        "抱歉，{link}号链接{variant}卖完了。",
        "{link}号{variant}暂时没货。",
        "这个规格售罄了。",
        "抢光了。",
        "没货了。",
    ),
    "compare": (
        "{link_a}号链接{price_a}{currency}，{link_b}号链接{price_b}{currency}。",
        "{link_a}号是{price_a}{currency}，{link_b}号是{price_b}{currency}，看您喜欢哪款。",
        "{link_a}号{price_a}{currency}，{link_b}号{price_b}{currency}。",
        "#{link_a} {price_a}{currency}，#{link_b} {price_b}{currency}。",
    ),
    "order": (
        "订单{order_id}{status}。",
        "查到了，{order_id}{status}，请耐心等等。",
        "您这单{status}。",
        "{order_id}：{status}。",
        "{status}。",
    ),
    "search": (
        "可以看看{link}号链接，{title}。",
        "推荐{link}号，{title}。",
        "试试{link}号链接。",
        "看{link}号。",
        "看看链接{link}。",
    ),
    "nothing_found": (
        "抱歉，今天没有找到合适的。",
        "没有类似的，看看别的吧。",
        "不好意思，没搜到。",
        "没有合适的。",
    ),
    "on_air": (
        "现在讲的是{link}号链接，{title}。",
        "屏幕上是{link}号，{title}。",
        "正在讲{link}号链接。",
        "链接{link}。",
        "{link}号。",
    ),
    "nothing_on_air": (
        "现在还没开始介绍产品，稍等一下。",
        "中场休息，马上回来。",
        "还没上产品。",
        "中场休息。",
    ),
    "unknown_link": (
        "抱歉，直播间没有{link}号链接。",
        "{link}号链接不存在，麻烦再看看编号。",
        "找不到这个链接。",
        "#{link}不在货架上。",
        "查无此号。",
    ),
    "cannot_check": (
        "抱歉，这个现在查不到。",
        "不好意思，暂时没法确认，稍后再问我一下。",
        "系统有点忙，晚点再问我。",
        "这会儿查不了。",
        "没法确认。",
    ),
    "chit_chat": (
        "欢迎来到直播间，见到您真高兴。",
        "谢谢您的支持，坐下来慢慢聊。",
        "哈哈，您真会说话，感谢陪伴。",
        "欢迎欢迎，很开心有您在。",
        "感谢陪伴。",
    ),
    "out_of_scope": (
        "这个我不在行，咱们还是聊聊店里的产品吧。",
        "我只懂自家产品，有想了解的随时问。",
        "咱们聊产品吧。",
        "我只懂自家产品。",
    ),
    "forbidden_claim": (
        "这个我不敢保证，每个人的感受都不一样。",
        "效果因人而异，我不能打包票。",
        "这话我不能说。",
        "没法打包票。",
    ),
    "injection": (
        "这个我不能照办，咱们接着看产品吧。",
        "我只听店里的，咱们继续聊产品。",
        "哈哈，不行哦，咱们看产品。",
        "咱们聊产品吧。",
    ),
}

_CURRENCIES = {"CNY": "元", "USD": "美元", "EUR": "欧元", "GBP": "英镑", "HKD": "港元"}
_STATES = {"processing": "备货中", "shipped": "已发货", "out for delivery": "派送中", "delivered": "已签收"}


def _blanks(values: Mapping[str, Any]) -> dict[str, Any]:
    """Currency and order state in Chinese, and `fold`: what is left to pay of ten tenths."""
    blanks = dict(values)
    if isinstance(names := blanks.get("variants"), list):
        blanks["variants"] = "、".join(names)
    if "currency" in blanks:
        blanks["currency"] = _CURRENCIES.get(blanks["currency"], blanks["currency"])
    if "status" in blanks:
        blanks["status"] = _STATES.get(blanks["status"], blanks["status"])
    value = blanks.get("value")
    if isinstance(value, str) and value.endswith("%"):
        blanks["fold"] = f"{(100 - Decimal(value.rstrip('%'))) / 10:f}折"
    return blanks


def _addressed(address: str, sentence: str) -> str:
    return f"{address}，{sentence}"


CHINESE = Speech(sentences=_SENTENCES, blanks=_blanks, addressed=_addressed, before_ending="")
