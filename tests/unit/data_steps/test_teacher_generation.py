"""Teacher generation: shares that were asked for, only full rewards, mistakes that a hook catches, repeatable."""

import json
from collections import Counter

import pytest

from components.avatar.agent.examples import REWARDS, Misstep, Trajectory, poor_rewards, read_rows
from components.avatar.agent.plans import Plan, play, slip
from components.avatar.errors import InputError, SystemFault
from components.avatar.harness.schema import Family, HookCheck
from components.avatar.simulator.replay import replay
from components.avatar.simulator.sampling import sample_scenarios
from components.avatar.simulator.session import Session
from components.avatar.simulator.types import SemanticAction, StopReason
from components.teacher_generation import run as step
from components.teacher_generation.settings import Settings
from tests.unit.data_steps.conftest import MERCHANT, TEACHER

TRAINED = (
    Family.PRICE,
    Family.STOCK,
    Family.COUPON,
    Family.SHIPPING,
    Family.ON_AIR,
    Family.CHIT_CHAT,
    Family.INJECTION,
)


@pytest.fixture(scope="module")
def trajectories(taught):
    return read_rows(taught / "trajectories.jsonl", Trajectory)


def test_replay_of_every_trajectory_earns_full_reward(world, trajectories):
    for trajectory in trajectories:
        session = replay(trajectory.actions, world.harness, world.catalogue, trajectory.scenario)
        assert session.stop == StopReason.DONE and session.corrections == 0
        score = session.score()
        assert (score.accuracy, score.effectiveness, score.tool_rationality, score.skill_selection) == (1, 1, 1, 1)
        assert trajectory.reward == dict.fromkeys(REWARDS, 1.0)


def with_a(kind, trajectories):
    return [t for t in trajectories if t.mistake is not None and isinstance(t.mistake.kind, kind)]


def test_a_mistake_costs_one_correction_and_is_recovered(world, trajectories):
    retries = with_a(HookCheck, trajectories)
    assert len(retries) == pytest.approx(TEACHER.retry_share * len(trajectories), abs=8)
    assert len({trajectory.mistake.kind for trajectory in retries}) >= 3
    for trajectory in retries:
        session = Session(world.harness, world.catalogue, trajectory.scenario)
        assert play(session, Plan(trajectory.actions, trajectory.mistake)) == trajectory.actions
        assert session.corrections == 1 and session.score().quality == 1


def test_a_misstep_is_one_wrong_call_and_is_recovered(world, trajectories):
    missteps = with_a(Misstep, trajectories)
    assert len(missteps) == pytest.approx(TEACHER.misstep_share * len(trajectories), abs=8)
    assert {trajectory.mistake.kind for trajectory in missteps} == set(Misstep)
    for trajectory in missteps:
        session = Session(world.harness, world.catalogue, trajectory.scenario)
        plan = Plan(trajectory.actions, trajectory.mistake)
        assert play(session, plan) == trajectory.actions
        unseen = trajectory.mistake.kind == Misstep.UNSEEN_SKILL
        assert session.corrections == unseen and session.score().quality == 1 and plan.missteps == 1
        calls = [action.kind != "reply" for action in trajectory.actions]
        wrong = session.calls[sum(calls[: plan.slipped_at])]
        assert not wrong.expected and len(session.calls) == 1 + sum(calls)


def test_no_misstep_where_the_call_limit_leaves_no_room(world, trajectories):
    for trajectory in with_a(Misstep, trajectories):
        calls = sum(action.kind != "reply" for action in trajectory.actions)
        if len(trajectory.scenario.questions) > 1 or trajectory.scenario.faults:
            continue
        limits = world.harness.limits.model_copy(update={"tool_calls": calls})
        tight = world.harness.model_copy(update={"limits": limits})
        plan = Plan(trajectory.actions, trajectory.mistake)
        session = Session(tight, world.catalogue, trajectory.scenario)
        play(session, plan)
        assert plan.slipped_at is None and poor_rewards(session.score()) == []


def test_acceptance_is_reported_by_family(taught, trajectories):
    report = json.loads((taught / "acceptance.json").read_text())
    assert report["episodes"] == TEACHER.episodes and report["accepted"] == len(trajectories)
    accepted = Counter(family for trajectory in trajectories for family in trajectory.families)
    assert {name: row["accepted"] for name, row in report["families"].items()} == {
        str(f): n for f, n in accepted.items()
    }
    assert report["faulty"] > 0


def test_equal_seeds_give_equal_bytes(world, tmp_path, quiet):
    settings = Settings(episodes=12)
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        (tmp_path / name).mkdir()
        step.run(merchant=MERCHANT, output=tmp_path / name, settings=settings, seed=seed, progress=quiet)
    a, b, c = ((tmp_path / name / "trajectories.jsonl").read_bytes() for name in "abc")
    assert a == b != c


def test_shares_of_families_questions_and_outages(world):
    settings = Settings(
        episodes=200, families={Family.PRICE: 3, Family.STOCK: 1}, questions_per_episode={1: 1, 3: 1}, outage_rate=0.2
    )
    scenarios = step.draw_scenarios(world, settings, seed=0)
    assert Counter(len(scenario.questions) for scenario in scenarios) == {1: 100, 3: 100}
    families = Counter(question.family for scenario in scenarios for question in scenario.questions)
    assert set(families) == {Family.PRICE, Family.STOCK, Family.OUTAGE}
    assert families[Family.PRICE] / families.total() == pytest.approx(0.6, abs=0.03)
    assert families[Family.OUTAGE] / families.total() == pytest.approx(0.2, abs=0.03)
    assert len({scenario.id for scenario in scenarios}) == 200


def test_unknown_families_are_refused_all_at_once(world):
    settings = Settings(families={Family.SEARCH: 1, Family.COMPARE: 1, Family.PRICE: 1})
    with pytest.raises(InputError) as caught:
        step.draw_scenarios(world, settings, seed=0)
    assert {fault.found for fault in caught.value.faults} == {"search", "compare"}


def test_a_poor_teacher_is_rejected_and_stops_the_run(monkeypatch, tmp_path, quiet):
    """A teacher that always answers at once, from nothing."""
    monkeypatch.setattr("components.avatar.agent.plans.next_action", lambda session: SemanticAction("reply"))
    with pytest.raises(SystemFault, match=r"min_accepted 0\.5"):
        step.run(merchant=MERCHANT, output=tmp_path, settings=Settings(episodes=30), seed=0, progress=quiet)
    report = json.loads((tmp_path / "acceptance.json").read_text())
    assert report["rejected"] and not (tmp_path / "trajectories.jsonl").exists()


def test_corrected_turns_are_cut(world):
    """A teacher that slips by itself: the trajectory keeps the finally correct behaviour only."""
    [scenario] = sample_scenarios(world, 1, 2, "train", [Family.PRICE])
    clumsy = [SemanticAction("reply", Family.PRICE)]
    session = Session(world.harness, world.catalogue, scenario)
    kept = play(session, Plan(clumsy))
    assert session.corrections == 1 and session.stop == StopReason.DONE
    assert [action.kind for action in kept] == ["skill", "call", "reply"]


@pytest.mark.parametrize(
    "check",
    [
        HookCheck.SKILL_LOADED,
        HookCheck.REPLY_LENGTH,
        HookCheck.FACT_CHECK,
        HookCheck.FORBIDDEN_WORDING,
        HookCheck.REPLY_FORMAT,
    ],
)
def test_each_slip_is_caught_by_its_own_hook(world, check):
    [scenario] = sample_scenarios(world, 1, 2, "train", [Family.PRICE])
    hook = next(hook for hook in world.harness.hooks if hook.check == check)
    session = Session(world.harness, world.catalogue, scenario)
    session.begin()
    plan = Plan()
    while True:
        before = plan.position
        turn = plan.turn(session)
        wrong = slip(session, plan.last, turn, check)
        if wrong is not None:
            assert session.reply(wrong.reply).content == hook.message
            return
        assert plan.position > before
        observation = session.reply(turn.reply) if turn.name is None else session.call(turn.name, turn.arguments)
        assert not observation.done, "no place for this slip"


@pytest.mark.parametrize(
    "values",
    [
        {"families": {"price": -1}},
        {"families": {"price": 0}},
        {"families": {"outage": 1}},
        {"questions_per_episode": {}},
        {"questions_per_episode": {0: 1}},
        {"fault_rate": 1.5},
        {"episode": 3},
    ],
)
def test_bad_settings_are_refused(values):
    with pytest.raises(ValueError):
        Settings.model_validate(values)


def test_apportion_is_exact_and_forgets_nobody():
    assert step.apportion({"a": 1, "b": 1, "c": 1}, 10) == {"a": 4, "b": 3, "c": 3}
    assert step.apportion({"a": 1000, "b": 1}, 10) == {"a": 9, "b": 1}
    assert step.apportion({"a": 1, "b": 0}, 5) == {"a": 5, "b": 0}


def test_every_family_is_asked_and_a_mappings_order_decides_nothing(world):
    families = {family: 1.0 + (family == Family.CHIT_CHAT) * 9 for family in TRAINED}
    settings = Settings(episodes=24, families=families, questions_per_episode={1: 1})
    drawn = step.draw_scenarios(world, settings, seed=0)
    asked = {question.family for scenario in drawn for question in scenario.questions}
    assert asked == {*TRAINED, Family.OUTAGE}
    other = settings.model_copy(update={"families": dict(reversed(families.items()))})
    assert step.draw_scenarios(world, other, seed=0) == drawn
