"""What a reply that stands is worth: the rewards of its turn, and the record that viewers and evaluation read."""

from collections.abc import Sequence

from components.avatar.harness.schema import Hook, HookCheck
from components.avatar.simulator import hooks, rewards
from components.avatar.simulator.claims import Claims
from components.avatar.simulator.facts import ResultFacts
from components.avatar.simulator.families import Requirement
from components.avatar.simulator.turn import Turn
from components.avatar.simulator.types import Moment, Reply


def score_reply(
    text: str,
    turn: Turn,
    requirements: Sequence[Requirement],
    known: ResultFacts,
    claims: Claims,
    form: hooks.Form,
    broken: Sequence[Hook],
    *,
    skill_needed: bool,
    word_limit: int,
    seconds: float,
) -> tuple[rewards.TurnScore, Reply]:
    """`broken`: hooks that the reply fails with no retry left; `skill_needed`: the right skill is not loaded yet;
    `seconds`: simulated, from the viewer's message to the end of the reply."""
    absent = {state.need.key for state in turn.needs if not (state.available or state.ok)}
    unavailable = frozenset([r.name for r in requirements if not r.facts or r.key in absent])
    wanted = [state for state in turn.needs if state.affordable]
    attempted = not wanted or any(state.attempts for state in turn.needs)
    verdict = rewards.judge(claims, turn.context, requirements, unavailable, turn.truth, known, attempted)
    skill_hooks = [hook.id for hook in broken if hook.check == HookCheck.SKILL_LOADED]
    rules = dict.fromkeys([*form.broken, *skill_hooks])
    effectiveness = rewards.effectiveness(verdict, len(rules))
    made = len([state for state in wanted if state.ok or (state.attempts and not state.available)])
    score = rewards.TurnScore(
        accuracy=verdict.accuracy,
        effectiveness=effectiveness,
        tool_rationality=rewards.tool_rationality(len(wanted), made, turn.bad_calls),
        skill_selection=rewards.skill_selection(
            not skill_needed or (not turn.skill_available and turn.skill_attempts > 0), len(turn.wrong_skills)
        ),
        length_penalty=rewards.length_penalty(form.words, word_limit),
    )
    reply = Reply(
        question_id=turn.question.id,
        family=turn.question.family or turn.context.family,
        text=text,
        accuracy=verdict.accuracy,
        effectiveness=effectiveness,
        false_claims=verdict.false_claims,
        missing_facts=verdict.missing_facts,
        broken_rules=tuple(dict.fromkeys([*[hook.id for hook in broken], *rules])),
        persona_kept=not form.persona,
        fabricated=verdict.fabricated,
        unavailable=verdict.unavailable,
        seconds=seconds,
        moment=Moment(
            at_s=turn.started,
            unavailable=tuple([state.need.key for state in turn.needs if state.need.key in absent]),
            tried=attempted,
            skill_missing=bool(skill_hooks),
        ),
    )
    return score, reply
