"""A small harness that has one of everything: mentions of names, an enumeration of skills, both persona markers."""

from pathlib import Path

import pytest

from components.avatar.harness.files import load_harness, save_harness
from components.avatar.harness.schema import (
    Binding,
    Capability,
    Family,
    Harness,
    Hook,
    HookCheck,
    HookPoint,
    Limits,
    PromptBlock,
    Skill,
    Tool,
)


def tool(name: str, description: str, required: tuple[str, ...] = (), /, **properties: str) -> Tool:
    schema = {key: {"type": kind} for key, kind in properties.items()}
    return Tool(
        name=name,
        description=description,
        parameters={"type": "object", "properties": schema, "required": list(required or properties)},
    )


@pytest.fixture(scope="session")
def harness() -> Harness:
    loading = tool("load_skill", "Open a skill.", name="string")
    loading.parameters["properties"]["name"]["enum"] = ["deals", "facts", "talk", "upsell"]
    return Harness(
        merchant="test-shop",
        prompt=(
            PromptBlock(id="identity", kind="identity", text="You are Mia of Test Shop."),
            PromptBlock(id="style", kind="style", text="Warm and short, at most 30 words."),
            PromptBlock(
                id="rules",
                kind="rules",
                items=(
                    "Load the matching skill with `load_skill` first.",
                    "State only facts that tools returned.",
                    "Prices come from price_check, never from memory.",
                    "Call the viewer lovely; end with 💛",
                ),
            ),
        ),
        limits=Limits(reply_words=30, tool_calls=4, turns=6),
        tools=(
            tool("price_check", "Price of a link.", link="integer"),
            tool("stockCount", "Units left of a link.", ("link",), link="integer", shade="string"),
            tool("coupon.find", "Coupons of a link.", link="integer"),
            tool("delivery", "Days to a city.", ("city",), city="string", link="integer"),
            tool("now", "Link shown now."),
            loading,
            tool("club_points", "Points of a member.", member="string"),
        ),
        bindings={
            "price_check": Binding(capability=Capability.PRICE_LOOKUP, arguments={"link": "link_id"}),
            "stockCount": Binding(
                capability=Capability.STOCK_LOOKUP, arguments={"link": "link_id", "shade": "variant"}
            ),
            "coupon.find": Binding(capability=Capability.COUPON_LOOKUP, arguments={"link": "link_id"}),
            "delivery": Binding(capability=Capability.SHIPPING_LOOKUP, arguments={"city": "city", "link": "link_id"}),
            "now": Binding(capability=Capability.ON_AIR_LOOKUP),
            "load_skill": Binding(capability=Capability.LOAD_SKILL, arguments={"name": "skill"}),
            "club_points": Binding(capability=Capability.RECORDED, arguments={"member": "member"}),
        },
        skills=(
            Skill(
                name="deals",
                description="Coupons and final price.",
                handles=(Family.COUPON, Family.PRICE_AFTER_COUPON),
                body="# Deals\n- Call `coupon.find`, then `price_check`.\n- No coupon: say so.\n- Be kind.",
            ),
            Skill(
                name="facts",
                description="Price, stock, delivery.",
                handles=(Family.PRICE, Family.STOCK, Family.SHIPPING, Family.ON_AIR, Family.OUTAGE),
                body="- Look it up, then give the link and the value.\n- Stock 0 means sold out.",
            ),
            Skill(name="talk", description="Greetings.", handles=(Family.CHIT_CHAT,), body="Answer in one line."),
            Skill(name="upsell", description="How to hint at bundles.", kind="strategy", body="- Mention one bundle."),
        ),
        hooks=(
            Hook(
                id="skill",
                point=HookPoint.BEFORE_REPLY,
                check=HookCheck.SKILL_LOADED,
                message="First `load_skill`.",
            ),
            Hook(id="length", point=HookPoint.BEFORE_REPLY, check=HookCheck.REPLY_LENGTH, message="Too long."),
            Hook(
                id="claims",
                point=HookPoint.BEFORE_REPLY,
                check=HookCheck.FORBIDDEN_WORDING,
                message="Forbidden word.",
                arguments={"words": ["miracle", "star"]},
            ),
            Hook(
                id="sign-off",
                point=HookPoint.BEFORE_REPLY,
                check=HookCheck.REPLY_FORMAT,
                retries=2,
                message="Say lovely, end with 💛",
                arguments={"ends_with": "💛", "address": "lovely"},
            ),
        ),
    )


@pytest.fixture
def folder(harness: Harness, tmp_path: Path) -> Path:
    """The harness on disk."""
    save_harness(harness, tmp_path / "shop")
    assert load_harness(tmp_path / "shop") == harness
    return tmp_path / "shop"
