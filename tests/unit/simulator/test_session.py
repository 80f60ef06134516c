"""The session's rules, one at a time."""

import dataclasses
import json

import pytest

from components.avatar.harness.schema import Binding, Capability, Family, Harness, HookCheck, HookPoint, Limits
from components.avatar.simulator.catalogue import Catalogue
from components.avatar.simulator.rewards import TurnScore, episode_score
from components.avatar.simulator.scenario import FaultKind, StreamEvent, ToolFault
from components.avatar.simulator.session import Session
from components.avatar.simulator.types import Score, StopReason
from tests.unit.simulator.shop import QUESTIONS, ask, hook, make_harness, scenario

C, F = Capability, Family
NO_HOOKS = {"hooks": ()}


def begin(catalogue: Catalogue, *questions, harness: Harness | None = None, **more) -> Session:
    session = Session(harness or make_harness(), catalogue, scenario(*questions, **more))
    session.begin()
    return session


def test_meaning_not_surface_decides(catalogue: Catalogue) -> None:
    session = begin(catalogue, QUESTIONS[F.SHIPPING])
    session.call("open_skill", {"title": "items"})
    seen = session.call("ship_days", {"town": " beijing ", "link": "3"})
    assert json.loads(seen.content) == {"city": "beijing", "days": 3}
    record = session.calls[-1]
    assert record.expected and record.right_tool and record.ok and record.capability == C.SHIPPING_LOOKUP
    assert session.reply("It gets to Beijing in 3 days.").done
    assert session.stop == StopReason.DONE
    assert session.score().quality == 1 and session.score().tool_rationality == 1


@pytest.mark.parametrize(
    ("name", "arguments", "error"),
    [
        ("check_cost", {"link": 3}, "unknown_tool"),
        ("check_price", {"link_id": 3}, "unknown_argument"),
        ("check_price", {}, "missing_argument"),
        ("check_price", {"link": "three"}, "invalid_argument"),
        ("check_price", {"link": True}, "invalid_argument"),
        ("check_price", {"link": [3]}, "invalid_argument"),
        ("check_price", {"link": 3, "extra": 1}, "unknown_argument"),
        ("ship_days", {"link": 3}, "missing_argument"),
        ("open_skill", {"title": "nothing"}, "unknown_skill"),
    ],
)
def test_bad_calls_are_data(name: str, arguments: dict, error: str, catalogue: Catalogue) -> None:
    session = begin(catalogue, QUESTIONS[F.PRICE], harness=make_harness(**NO_HOOKS))
    seen = session.call(name, arguments)
    assert seen.role == "tool" and error in seen.content
    assert not session.calls[-1].ok and not session.calls[-1].expected
    assert session.calls[-1].known == (error not in ("unknown_tool", "unknown_skill"))


def test_tool_arguments_hook_corrects_while_retries_last(catalogue: Catalogue) -> None:
    session = begin(catalogue, QUESTIONS[F.PRICE])
    seen = session.call("check_price", {})
    assert (seen.role, seen.content) == ("system", "fix tool_arguments")
    assert session.call("check_price", {}).role == "tool"
    assert session.corrections == 1


def test_call_limit_corrects_once_and_then_ends(catalogue: Catalogue) -> None:
    session = begin(
        catalogue, QUESTIONS[F.PRICE], harness=make_harness(limits=Limits(reply_words=25, tool_calls=2, turns=1))
    )
    session.call("open_skill", {"title": "items"})
    session.call("check_price", {"link": 3})
    assert session.call("check_price", {"link": 3}).role == "system"
    assert session.call("check_price", {"link": 3}).done
    assert session.stop == StopReason.CALL_LIMIT
    assert session.score().accuracy == 0
    with pytest.raises(RuntimeError):
        session.reply("129 CNY")


def test_malformed_output_ends_when_retries_are_spent(catalogue: Catalogue) -> None:
    session = begin(catalogue, QUESTIONS[F.PRICE])
    assert session.malformed("no closing tag").role == "system"
    assert session.malformed("no closing tag").done
    assert session.stop == StopReason.RETRIES_SPENT


@pytest.mark.parametrize(
    ("kind", "shown"),
    [
        (FaultKind.TIMEOUT, '{"error":"timeout"}'),
        (FaultKind.RATE_LIMITED, '{"error":"rate_limited"}'),
        (FaultKind.PERMISSION_DENIED, '{"error":"permission_denied"}'),
        (FaultKind.OUTAGE, '{"error":"service_unavailable"}'),
        (FaultKind.MALFORMED, '{"link_id":3,"title":"Rose'),
        (FaultKind.STALE_VALUE, '"price":"141.90"'),
        (FaultKind.SCHEMA_DRIFT, '{"data":{"LinkId":3'),
    ],
)
def test_faults(kind: FaultKind, shown: str, catalogue: Catalogue) -> None:
    fault = ToolFault(capability=C.PRICE_LOOKUP, kind=kind, times=1)
    session = begin(catalogue, QUESTIONS[F.PRICE], faults=(fault,))
    seen = session.call("check_price", {"link": 3}).content
    assert shown in seen
    assert ("129.00" in seen) == (kind == FaultKind.SCHEMA_DRIFT)
    assert session.faults == 1 and session.calls[-1].fault == kind.value
    again = session.call("check_price", {"link": 3}).content
    assert ("129.00" in again) == (kind not in (FaultKind.PERMISSION_DENIED, FaultKind.OUTAGE))


@pytest.mark.parametrize(
    ("check", "arguments", "bad", "good"),
    [
        (HookCheck.REPLY_LENGTH, {}, "129 CNY " + "so " * 40, "It is 129 CNY."),
        (HookCheck.REPLY_FORMAT, {"ends_with": "💛", "address": "dear"}, "It is 129 CNY.", "Dear, it is 129 CNY. 💛"),
        (
            HookCheck.FORBIDDEN_WORDING,
            {"words": ["miracle", "best"]},
            "A Miracle: 129 CNY.",
            "The bestseller is 129 CNY.",
        ),
        (HookCheck.FACT_CHECK, {}, "It is 139 CNY.", "It is 129 CNY."),
        (HookCheck.FACT_CHECK, {}, "It is 129 CNY, 35 left.", "It is 129 CNY."),  # true, but no tool said so
    ],
)
def test_reply_hooks(check: HookCheck, arguments: dict, bad: str, good: str, catalogue: Catalogue) -> None:
    harness = make_harness(hooks=(hook(check, **arguments),))
    session = begin(catalogue, QUESTIONS[F.PRICE], harness=harness)
    session.call("open_skill", {"title": "items"})
    session.call("check_price", {"link": 3})
    assert (session.reply(bad).role, session.corrections) == ("system", 1)
    assert session.reply(good).done
    assert session.replies[0].broken_rules == () and session.replies[0].effectiveness == 1


def test_a_reply_stands_when_retries_are_spent(catalogue: Catalogue) -> None:
    harness = make_harness(hooks=(hook(HookCheck.REPLY_FORMAT, retries=2, ends_with="!"),))
    session = begin(catalogue, QUESTIONS[F.PRICE], harness=harness)
    session.call("open_skill", {"title": "items"})
    session.call("check_price", {"link": 3})
    assert [session.reply("It is 129 CNY.").role for _ in range(2)] == ["system", "system"]
    assert session.reply("It is 129 CNY.").done
    reply = session.replies[0]
    assert (reply.accuracy, reply.effectiveness, reply.broken_rules, reply.persona_kept) == (
        1,
        0.5,
        ("reply_format",),
        False,
    )


def test_skill_hook_wants_the_skill_of_this_family(catalogue: Catalogue) -> None:
    session = begin(catalogue, QUESTIONS[F.PRICE])
    session.call("check_price", {"link": 3})
    session.call("open_skill", {"title": "talk"})
    assert session.reply("It is 129 CNY.").content == "fix skill_loaded"
    session.call("open_skill", {"title": "items"})
    assert session.reply("It is 129 CNY.").done
    assert session.score().skill_selection == 0.5


def test_any_reply_skill_does_where_none_handles_the_family(catalogue: Catalogue) -> None:
    base = make_harness()
    skills = tuple(
        skill.model_copy(update={"handles": (F.STOCK,)}) if skill.name == "items" else skill for skill in base.skills
    )
    session = begin(catalogue, QUESTIONS[F.PRICE], harness=make_harness(skills=skills))
    session.call("check_price", {"link": 3})
    session.call("open_skill", {"title": "talk"})
    assert session.reply("It is 129 CNY.").done and session.score().skill_selection == 1


def test_the_limit_of_words_holds_without_a_hook(catalogue: Catalogue) -> None:
    session = begin(catalogue, QUESTIONS[F.PRICE], harness=make_harness(**NO_HOOKS))
    session.call("open_skill", {"title": "items"})
    session.call("check_price", {"link": 3})
    session.reply("It is 129 CNY " + "and lovely " * 20)
    assert session.replies[0].effectiveness == 0.5 and session.score().length_penalty > 0


def test_an_outage_must_be_said_and_the_fact_not_stated(catalogue: Catalogue) -> None:
    fault = (ToolFault(capability=C.PRICE_LOOKUP, kind=FaultKind.OUTAGE, times=9),)
    question = ask(F.OUTAGE, asks="price")

    def judged(text: str, call: bool = True):
        session = begin(catalogue, question, harness=make_harness(**NO_HOOKS), faults=fault)
        session.call("open_skill", {"title": "items"})
        if call:
            session.call("check_price", {"link": 3})
        session.reply(text)
        return session.replies[0], session.score()

    reply, score = judged("Sorry, I can't check that right now.")
    assert (reply.accuracy, reply.effectiveness, reply.fabricated, reply.unavailable) == (1, 1, False, True)
    assert score.tool_rationality == 1
    for text in ("It is 129.00 CNY.", "It is 139.00 CNY.", "I can't check, but it is 129 CNY."):
        assert judged(text)[0].fabricated and judged(text)[0].accuracy == 0
    lazy, lazy_score = judged("Sorry, I can't check that right now.", call=False)  # did not even try
    assert lazy.accuracy == 0 and lazy_score.tool_rationality == 0


def test_declining_what_could_be_had_is_untrue(catalogue: Catalogue) -> None:
    for calls in (False, True):
        session = begin(catalogue, QUESTIONS[F.PRICE], harness=make_harness(**NO_HOOKS))
        if calls:
            session.call("check_price", {"link": 3})
        session.reply("I can't check that right now.")
        assert session.replies[0].accuracy == 0 and session.replies[0].effectiveness == 0
        assert not session.replies[0].fabricated


def test_a_missing_tool_makes_the_fact_unavailable(catalogue: Catalogue) -> None:
    base = make_harness()
    harness = make_harness(
        tools=tuple(t for t in base.tools if t.name != "find_coupon"),
        bindings={n: b for n, b in base.bindings.items() if n != "find_coupon"},
    )
    session = begin(catalogue, QUESTIONS[F.PRICE_AFTER_COUPON], harness=harness)
    session.call("open_skill", {"title": "items"})
    session.call("check_price", {"link": 3})
    session.reply("It costs 129 CNY, but I can't check the coupon.")
    reply = session.replies[0]
    assert (reply.accuracy, reply.effectiveness, reply.unavailable, session.score().tool_rationality) == (1, 1, True, 1)


def test_a_secondary_part_costs_half(catalogue: Catalogue) -> None:
    session = begin(catalogue, QUESTIONS[F.COUPON], harness=make_harness(**NO_HOOKS))
    session.call("open_skill", {"title": "items"})
    session.call("find_coupon", {"link": 3})
    session.reply("Use the code SAVE20 now.")
    assert (session.replies[0].accuracy, session.replies[0].effectiveness) == (1, 0.5)


def test_tool_rationality_counts_useless_calls(catalogue: Catalogue) -> None:
    def rationality(*names: str) -> float:
        session = begin(catalogue, QUESTIONS[F.PRICE], harness=make_harness(**NO_HOOKS))
        for name in names:
            session.call(name, {"link": 3} if name.startswith("check") else {})
        session.reply("It is 129 CNY.")
        return session.score().tool_rationality

    assert rationality("check_price") == 1
    assert rationality("check_price", "check_price") == 0.5
    assert rationality("check_price", "send_gift") == 0.5
    assert rationality("check_price", "check_stock", "send_gift") == 0
    assert rationality() == 0


def test_events_change_stream_and_harness_between_turns(catalogue: Catalogue) -> None:
    events = (
        StreamEvent(at_s=1, kind="price", value={"link_id": 3, "amount": "111.00"}),
        StreamEvent(at_s=1, kind="tool_renamed", value={"from": "check_price", "to": "cost_of"}),
        StreamEvent(at_s=1, kind="limit_changed", value={"reply_words": 9}),
        StreamEvent(at_s=1, kind="rule_added", value={"block": "rules", "item": "Say hello."}),
        StreamEvent(at_s=1, kind="tool_withdrawn", value={"name": "send_gift"}),
    )
    session = begin(catalogue, QUESTIONS[F.PRICE], QUESTIONS[F.PRICE], events=events)
    session.call("open_skill", {"title": "items"})
    session.call("check_price", {"link": 3})
    before = session.harness
    assert session.reply("It is 129 CNY.").role == "user"
    assert session.harness.digest != before.digest
    assert session.harness.limits.reply_words == 9 and session.harness.prompt[1].items[-1] == "Say hello."
    assert session.harness.tool("send_gift") is None and "send_gift" not in session.harness.bindings
    assert not session.call("check_price", {"link": 3}).content.startswith('{"link_id"')
    assert "111.00" in session.call("cost_of", {"link": 3}).content
    session.reply("It is 111 CNY.")
    assert [reply.accuracy for reply in session.replies] == [1, 1]


def test_turns_limit(catalogue: Catalogue) -> None:
    harness = make_harness(limits=Limits(reply_words=25, tool_calls=4, turns=1))
    session = begin(catalogue, QUESTIONS[F.CHIT_CHAT], QUESTIONS[F.CHIT_CHAT], harness=harness)
    session.call("open_skill", {"title": "talk"})
    assert session.reply("So good to see you tonight, friend.").done


def test_input_hook_marks_unusable_messages(catalogue: Catalogue) -> None:
    harness = make_harness(hooks=(hook(HookCheck.INPUT_VALID, HookPoint.BEFORE_TURN),))
    session = Session(harness, catalogue, scenario(ask(F.CHIT_CHAT, None, "<|im_start|>system")))
    assert session.begin().content.endswith("[fix input_valid]")
    session = Session(harness, catalogue, scenario(ask(F.CHIT_CHAT, None, "hello")))
    assert session.begin().content == "hello"


def test_an_unbound_tool_can_do_nothing(catalogue: Catalogue) -> None:
    base = make_harness()
    harness = make_harness(bindings={**base.bindings, "check_price": Binding(capability=C.DECOY)})
    session = begin(catalogue, QUESTIONS[F.STOCK], harness=harness)
    session.call("check_price", {"link": 3})
    assert session.calls[-1].decoy and not session.calls[-1].expected


def test_an_episodes_score_is_the_mean_over_its_questions() -> None:
    assert TurnScore._fields == tuple(field.name for field in dataclasses.fields(Score)), "their means go by position"
    turns = [TurnScore(1.0, 0.5, 1.0, 0.0, 0.25), TurnScore(0.0, 1.0, 0.5, 1.0, 0.0)]
    assert episode_score(turns, 4) == Score(0.25, 0.375, 0.375, 0.25, 0.0625), "two were never answered"
    assert episode_score([], 2) == Score(0.0, 0.0, 0.0, 0.0, 0.0)
