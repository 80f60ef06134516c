"""The oracle: solves every family under any harness. It knows what the viewer means (family, slots); *facts* it has
from tool results only.
"""

import random
from typing import Any, Literal

from components.avatar.harness.schema import Capability, Family, Harness
from components.avatar.simulator.catalogue import Catalogue, attribute_key
from components.avatar.simulator.families import intent
from components.avatar.simulator.hooks import form_of
from components.avatar.simulator.scenario import Question, Scenario
from components.avatar.simulator.session import Session
from components.avatar.simulator.turn import NeedState
from components.avatar.simulator.types import SemanticAction
from components.avatar.simulator.wording import say

Realised = tuple[Literal["call"], str, dict[str, Any]] | tuple[Literal["reply"], str]


class Unrealisable(ValueError):
    """The harness has no tool or skill for a recorded action."""


def next_action(session: Session) -> SemanticAction:
    """Load the right skill; make every needed lookup once; retry once after a fault that a retry can help; reply."""
    turn = session.turn
    family = intent(turn.question)
    calls_left = session.harness.limits.tool_calls - turn.calls
    if calls_left > 0:
        missing = turn.skills and not any(skill.name in session.loaded for skill in turn.skills)
        if missing and turn.skill_attempts < 2 and not _denied(session, Capability.LOAD_SKILL):
            return SemanticAction("skill", family=family)
        for state in sorted(turn.needs, key=lambda state: state.attempts):
            if state.need.calls and state.open:
                call = state.need.calls[0]
                return SemanticAction("call", family=family, capability=call.capability, arguments=dict(call.arguments))
    return SemanticAction("reply", family=family)


def realise(session: Session, action: SemanticAction) -> Realised:
    """The action under the session's harness. Raises Unrealisable when the harness cannot express it.

    A recorded wording of a reply stands unless its verifiable form no longer fits (another persona, a lower limit);
    whether its facts still hold is for the verifiers to say.
    """
    harness = session.harness
    if action.kind == "reply":
        if action.text is not None and not form_of(action.text, harness).broken:
            return "reply", action.text
        return "reply", reply_text(session)
    if action.kind == "skill":
        skills = session.turn.skills
        if not skills:
            raise Unrealisable("no skill is right for this question")
        return call_of(harness, Capability.LOAD_SKILL, {"skill": skills[0].name})
    if action.capability is None:
        raise Unrealisable("a call without a capability")
    return call_of(harness, action.capability, action.arguments)


def call_of(
    harness: Harness, capability: Capability, arguments: dict[str, Any]
) -> tuple[Literal["call"], str, dict[str, Any]]:
    """Surface name and arguments of a call, with the first tool bound to `capability`, arguments in the order of its
    schema.
    """
    tools = harness.tools_for(capability)
    if not tools:
        raise Unrealisable(f"no tool for {capability}")
    canonical = harness.bindings[tools[0].name].arguments
    surface = {
        name: arguments[canonical[name]] for name in tools[0].argument_names() if canonical.get(name) in arguments
    }
    if len(surface) < len(arguments):
        raise Unrealisable(f"{tools[0].name} lacks an argument of {sorted(arguments)}")
    return "call", tools[0].name, surface


def solve(harness: Harness, catalogue: Catalogue, scenario: Scenario) -> Session:
    """A whole episode played by the oracle."""
    session = Session(harness, catalogue, scenario)
    session.begin()
    while session.stop is None:
        step(session)
    return session


def step(session: Session) -> SemanticAction:
    """One action of the oracle, played."""
    action = next_action(session)
    realised = realise(session, action)
    if realised[0] == "call":
        session.call(realised[1], realised[2])
    else:
        session.reply(realised[1])
    return action


def reply_text(session: Session) -> str:
    """The reply to the current question from what the tools have said. Words vary with the scenario's seed, never with
    chance.
    """
    situation, values = situation_of(session)
    rng = random.Random(f"{session.scenario.seed}/{session.turn.index}/{situation}")
    return say(situation, values, session.harness, rng)


def situation_of(session: Session) -> tuple[str, dict[str, Any]]:
    """(situation of `Speech.sentences`, values for its blanks)."""
    question, turn = session.turn.question, session.turn
    family = Family.UNKNOWN_LINK if question.family == Family.UNKNOWN_LINK else intent(question)
    found = {state.need.key: _result(session, state) for state in turn.needs}
    results = [result for result in found.values() if result is not None]
    values: dict[str, Any] = {
        "link": question.link_id,
        **{k: v for result in results for k, v in result.items() if k != "error"},
    }
    if any(result.get("error") == "unknown_link" for result in results):
        return "unknown_link", values
    if family == Family.PRICE_AFTER_COUPON:
        return _after_coupon(found, values)
    if not turn.needs:
        values["varies"] = "skin" if "skin type" in session.catalogue.attribute_values else "it"
        return (family.value if family.value in _TALK else "chit_chat"), values
    if not results or any("error" in result for result in results):
        return "cannot_check", values
    return _SITUATIONS[family](question, results[0], values)


def _after_coupon(found: dict[Capability, dict[str, Any] | None], values: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    price, coupon = found[Capability.PRICE_LOOKUP], found[Capability.COUPON_LOOKUP]
    if price is None and coupon is None:
        return "cannot_check", values
    if coupon is None:
        return "after_only_price", values
    has_coupon = "code" in coupon
    if price is None:
        return ("after_only_pays" if has_coupon else "after_only_none"), values
    return ("after_coupon" if has_coupon else "after_no_coupon"), values


def _result(session: Session, state: NeedState) -> dict[str, Any] | None:
    """The latest readable result for this need in the current turn."""
    for record in reversed(session.results):
        if record.question != session.turn.index:
            return None
        if record.fault is None and any(call.same(record.capability, record.arguments) for call in state.need.calls):
            return record.result
    return None


def _denied(session: Session, capability: Capability) -> bool:
    """A call of it in this turn failed in a way that no retry helps."""
    faults = (
        [call.fault for call in session.calls[-session.turn.calls :] if call.capability == capability]
        if session.turn.calls
        else []
    )
    return any(fault in ("permission_denied", "outage") for fault in faults)


def _price(question: Question, result: dict[str, Any], values: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    return "price", values


def _stock(question: Question, result: dict[str, Any], values: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    return ("stock" if result["stock"] else "sold_out"), values


def _coupon(question: Question, result: dict[str, Any], values: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    if "code" not in result:
        return "no_coupon", values
    return ("coupon_percent" if result["value"].endswith("%") else "coupon_amount"), values


def _shipping(question: Question, result: dict[str, Any], values: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    return "shipping", values


def _returns(question: Question, result: dict[str, Any], values: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    return ("returns" if result["return_days"] else "no_returns"), {**values, "days": result["return_days"]}


def _attribute(question: Question, result: dict[str, Any], values: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    if "return_days" in result:
        return _returns(question, result, values)
    if "warranty_months" in result:
        return ("warranty" if result["warranty_months"] else "no_warranty"), {
            **values,
            "months": result["warranty_months"],
        }
    return "attribute", {**values, "attribute": attribute_key(result["attribute"])}


def _flash(question: Question, result: dict[str, Any], values: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    running = result.get("flash_price") is not None
    return ("flash" if running else "no_flash"), {**values, "flash": result.get("flash_price")}


def _on_air(question: Question, result: dict[str, Any], values: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    return ("on_air" if result["link_id"] is not None else "nothing_on_air"), {**values, "link": result["link_id"]}


def _variant(question: Question, result: dict[str, Any], values: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    asked = question.slots.get("variant")
    if not isinstance(asked, str):
        names = [name for name, stock in result["variants"].items() if stock]
        if not names:
            return ("sold_out" if result["variants"] else "no_variants"), values
        return "variants", {**values, "variants": names}
    stocks = result["variants"] if "variants" in result else {result["variant"]: result["stock"]}
    name, stock = next(((n, s) for n, s in stocks.items() if n.lower() == asked.lower()), (asked, 0))
    return ("variant" if stock else "variant_sold_out"), {**values, "variant": name, "stock": stock}


def _compare(question: Question, result: dict[str, Any], values: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    first, second = result["items"][0], result["items"][-1]
    prices = {
        "link_a": first["link_id"],
        "price_a": first["price"],
        "link_b": second["link_id"],
        "price_b": second["price"],
    }
    return "compare", {**values, **prices, "currency": first["currency"]}


def _order(question: Question, result: dict[str, Any], values: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    return "order", values


def _search(question: Question, result: dict[str, Any], values: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    if not result["results"]:
        return "nothing_found", values
    best = result["results"][0]
    return "search", {**values, "link": best["link_id"], "title": best["title"]}


_TALK = ("chit_chat", "out_of_scope", "forbidden_claim", "injection")
_SITUATIONS = {
    Family.PRICE: _price,
    Family.STOCK: _stock,
    Family.COUPON: _coupon,
    Family.SHIPPING: _shipping,
    Family.RETURN_POLICY: _returns,
    Family.ATTRIBUTES: _attribute,
    Family.FLASH_SALE: _flash,
    Family.ON_AIR: _on_air,
    Family.VARIANT: _variant,
    Family.COMPARE: _compare,
    Family.ORDER_STATUS: _order,
    Family.SEARCH: _search,
}
