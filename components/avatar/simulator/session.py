"""One episode of a live stream, as the agent meets it: viewer messages, tool calls with faults, hooks with corrections,
rewards.

Deterministic and without a wall clock: harness, catalogue, scenario and the agent's actions decide everything. A bad
action is data (an error result, a correction, a low reward), never an exception; calling into a finished session is a
programming error and raises.

Limits, in the order in which they end an episode: calls beyond `limits.tool_calls` of a turn (one correction, then the
end), malformed output beyond its retries, `limits.turns` viewer messages, the last question answered.
"""

import random
from collections.abc import Sequence
from typing import Any

from components.avatar.harness.schema import Capability, Family, Harness, Hook, HookCheck, HookPoint, Skill
from components.avatar.harness.system_lines import SYSTEM_LINES, SystemLines
from components.avatar.simulator import hooks, rewards
from components.avatar.simulator.capabilities import execute
from components.avatar.simulator.catalogue import Catalogue
from components.avatar.simulator.claims import Claims, extract
from components.avatar.simulator.facts import FactKind, ResultFacts, TrueFacts, facts_of
from components.avatar.simulator.families import Requirement, requirements_of
from components.avatar.simulator.faults import TIMEOUT_SECONDS, FaultPlan, compact, faulty_text
from components.avatar.simulator.scenario import FaultKind, Question, Scenario
from components.avatar.simulator.scoring import score_reply
from components.avatar.simulator.stream import Stream, apply_harness_event
from components.avatar.simulator.surface import Resolved, resolve
from components.avatar.simulator.turn import NeedState, ToolResult, Turn, need_states
from components.avatar.simulator.types import CallRecord, Observation, Reply, Score, StopReason
from components.avatar.simulator.verify import context_of, false_claims

MALFORMED_RETRIES = 1  # of a turn, where no tool_arguments hook gives its own number
CALL_SECONDS, SECONDS_A_WORD = 0.8, 0.3  # simulated: a lookup of a shop backend; about 200 spoken words a minute


class Session:
    """See the module. `harness` is the state of this moment: events of the scenario may change it between turns."""

    def __init__(self, harness: Harness, catalogue: Catalogue, scenario: Scenario) -> None:
        if not scenario.questions:
            raise ValueError(f"scenario {scenario.id} has no question")
        self.harness = harness
        self.catalogue = catalogue.replacing(scenario.products)
        self.scenario = scenario
        self.calls: list[CallRecord] = []
        self.replies: list[Reply] = []
        self.results: list[ToolResult] = []
        self.loaded: list[str] = []  # names of loaded skills, in order
        self.corrections = 0
        self.faults = 0
        self.stop: StopReason | None = None
        self.clock = 0.0
        self.known = ResultFacts()
        self._stream = Stream(self.catalogue, scenario.events, scenario.on_air)
        self._plan = FaultPlan(scenario.faults)
        self._scores: list[rewards.TurnScore] = []
        self._turn: Turn | None = None

    # What the agent does

    def begin(self) -> Observation:
        """The first viewer message."""
        if self._turn is not None:
            raise RuntimeError("the session has begun already")
        return self._ask(0)

    def call(self, name: str, arguments: dict[str, Any]) -> Observation:
        """A tool call under its surface name: a result, an injected fault or an error (role tool), or a correction
        (role system).
        """
        turn = self._open_turn()
        resolved = resolve(self.harness, name, arguments)
        if turn.calls >= self.harness.limits.tool_calls:
            turn.bad_calls += 1
            self._record(name, arguments, resolved)
            if turn.over_limit:
                return self._end(StopReason.CALL_LIMIT)
            turn.over_limit = True
            return self._correct(self._lines.call_limit.format(tool_calls=self.harness.limits.tool_calls))
        turn.calls += 1
        self.clock += CALL_SECONDS
        if resolved.problem is not None:
            turn.bad_calls += 1
            self._record(name, arguments, resolved)
            hook = self._hook_with_retries(HookPoint.BEFORE_CALL, HookCheck.TOOL_ARGUMENTS)
            if hook is not None:
                return self._correct(hook.message)
            return Observation("tool", compact({"error": resolved.problem}))
        if resolved.capability == Capability.LOAD_SKILL:
            return self._load_skill(name, arguments, resolved)
        return self._look_up(name, arguments, resolved)

    def reply(self, text: str) -> Observation:
        """A reply to the viewer: a correction (system) while a failing hook has retries, else the next message (user)
        or the end.
        """
        turn = self._open_turn()
        claims = self._claims(text)
        form = hooks.form_of(text, self.harness)
        broken = [hook for hook in self.harness.reply_hooks if not self._reply_passes(hook, form, claims)]
        for hook in broken:
            if turn.spent.get(hook.id, 0) < hook.retries:
                turn.spent[hook.id] = turn.spent.get(hook.id, 0) + 1
                return self._correct(hook.message)
        self._settle(text, form, claims, broken)
        if turn.index + 1 < self._questions:
            return self._ask(turn.index + 1)
        return self._end(StopReason.DONE)

    def malformed(self, reason: str) -> Observation:
        """Output that is neither a call nor a reply."""
        turn = self._open_turn()
        allowed = next(
            (h.retries for h in self.harness.hooks if h.check == HookCheck.TOOL_ARGUMENTS), MALFORMED_RETRIES
        )
        spent = turn.spent.get("malformed", 0)
        if spent >= allowed:
            return self._end(StopReason.RETRIES_SPENT)
        turn.spent["malformed"] = spent + 1
        return self._correct(self._lines.malformed.format(reason=reason))

    def score(self) -> Score:
        """Rewards so far; questions that were not answered count as zero."""
        return rewards.episode_score(self._scores, self._questions)

    # What the agent's partners read (oracle, viewers, evaluation)

    @property
    def question(self) -> Question:
        """The question being answered (the last one when the episode is over)."""
        if self._turn is None:
            raise RuntimeError("the session has not begun")
        return self._turn.question

    @property
    def turn(self) -> Turn:
        """Progress on the question being answered."""
        if self._turn is None:
            raise RuntimeError("the session has not begun")
        return self._turn

    @property
    def stream(self) -> Stream:
        """The true state. The oracle never looks at it; viewers and the terminal do."""
        return self._stream

    @property
    def scores(self) -> tuple[rewards.TurnScore, ...]:
        """Rewards by answered question, in order."""
        return tuple(self._scores)

    def requirements(self) -> list[Requirement]:
        """The facts that the true answer to the current question states."""
        return requirements_of(self.turn.question, self.turn.truth)

    # Inside

    @property
    def _questions(self) -> int:
        return max(1, min(len(self.scenario.questions), self.harness.limits.turns))

    @property
    def _lines(self) -> SystemLines:
        return SYSTEM_LINES[self.harness.language]

    def _open_turn(self) -> Turn:
        if self._turn is None or self.stop is not None:
            raise RuntimeError(f"the session is {'over' if self.stop else 'not begun'}")
        return self._turn

    def _ask(self, index: int) -> Observation:
        if index:
            self.clock += random.Random(f"{self.scenario.seed}/{index}").uniform(
                3.0, 15.0
            )  # the viewer thinks and types
        for event in self._stream.advance(self.clock):
            self.harness = apply_harness_event(self.harness, event)
        question = self.scenario.questions[index]
        context = context_of(question, self.catalogue, self._stream.on_air)
        skills, skill_available = self._right_skills(question, context.family)
        self._turn = Turn(
            index=index,
            question=question,
            context=context,
            started=self.clock,
            needs=need_states(question, self.harness, self._plan, loads_skill=self._still_to_load(skills)),
            truth=TrueFacts(self._stream, question.link_id),
            skills=skills,
            skill_available=skill_available,
        )
        text = question.text
        for hook in self.harness.hooks:
            if hook.check == HookCheck.INPUT_VALID and not hooks.message_passes(text):
                text = f"{text[: hooks.MAX_MESSAGE]}\n[{hook.message}]"
        return Observation("user", text)

    def _right_skills(self, question: Question, asked: Family) -> tuple[tuple[Skill, ...], bool]:
        """Skills of which one must be loaded before the reply. For a family that no skill handles any reply skill does,
        and one is needed only where a hook asks for it.
        """
        if not self.harness.tools_for(Capability.LOAD_SKILL):
            return (), False
        reply_skills = self.harness.reply_skills
        right = [s for s in reply_skills if asked in s.handles]
        if question.family != asked:  # an outage, say, that the viewer's words do not show
            right += [s for s in reply_skills if question.family in s.handles and s not in right]
        if not right and any(hook.check == HookCheck.SKILL_LOADED for hook in self.harness.hooks):
            right = [*reply_skills]
        return tuple(right), self._plan.one_retry_helps(Capability.LOAD_SKILL)

    def _look_up(self, name: str, arguments: dict[str, Any], resolved: Resolved) -> Observation:
        capability = resolved.capability
        assert capability is not None
        turn = self.turn
        state = self._need_met(capability, resolved.arguments)
        expected = state is not None and state.open
        right_tool = expected or self._right_tool(capability)
        if not expected:
            turn.bad_calls += 1
        result = execute(capability, self._stream, resolved.arguments, name)
        fault = self._plan.next(capability)
        text, readable = (compact(result), result) if fault is None else faulty_text(fault, result)
        if fault is not None:
            self.faults += 1
            self.clock += TIMEOUT_SECONDS if fault == FaultKind.TIMEOUT else 0.0
        if state is not None:
            state.attempts += 1
            state.ok = state.ok or readable is not None
            state.last_fault = fault
        if readable is not None:
            facts = list(facts_of(capability, resolved.arguments, readable))
            self.known.add(facts)
            turn.truth.add(capability, resolved.arguments, facts)
        shown = readable if readable is not None else {"error": fault.value if fault else "error"}
        self.results.append(
            ToolResult(turn.index, capability, resolved.arguments, shown, None if readable is not None else fault)
        )
        self.calls.append(
            CallRecord(
                name=name,
                arguments=arguments,
                capability=capability,
                known=True,
                ok=readable is not None and "error" not in readable,
                fault=None if fault is None else fault.value,
                decoy=capability == Capability.DECOY,
                expected=expected,
                right_tool=right_tool,
            )
        )
        return Observation("tool", text)

    def _load_skill(self, name: str, arguments: dict[str, Any], resolved: Resolved) -> Observation:
        turn = self.turn
        asked = str(resolved.arguments["skill"]).strip()
        skill = self.harness.skill(asked)
        needed = self._skill_needed()
        right = skill is not None and skill in turn.skills
        fault = self._plan.next(Capability.LOAD_SKILL)
        body = skill.body if skill is not None else compact({"error": "unknown_skill"})
        text, readable = (body, {}) if fault is None else faulty_text(fault, {"body": body})
        turn.skill_attempts += 1
        if fault is not None:
            self.faults += 1
            self.clock += TIMEOUT_SECONDS if fault == FaultKind.TIMEOUT else 0.0
        if skill is None or skill.name in self.loaded or (readable is None and turn.skill_attempts > 2):
            turn.bad_calls += 1
        if skill is not None and readable is not None and skill.name not in self.loaded:
            self.loaded.append(skill.name)
            if not right and skill.kind == "reply":
                turn.wrong_skills.add(skill.name)
        self.calls.append(
            CallRecord(
                name=name,
                arguments=arguments,
                capability=Capability.LOAD_SKILL,
                known=skill is not None,
                ok=skill is not None and readable is not None,
                fault=None if fault is None else fault.value,
                decoy=skill is not None and skill.kind == "reply" and not skill.handles,
                expected=needed and right,
                right_tool=needed,
                right_names=tuple(s.name for s in turn.skills) if needed and skill is None else (),
            )
        )
        return Observation("tool", text)

    def _need_met(self, capability: Capability, arguments: dict[str, Any]) -> NeedState | None:
        """The need of this turn that the call is for."""
        for state in self.turn.needs:
            for call in state.need.calls:
                if call.same(capability, arguments):
                    return state
        return None

    def _right_tool(self, capability: Capability | None) -> bool:
        """Whether the question still needs a call of `capability`."""
        for state in self.turn.needs:
            for call in state.need.calls:
                if call.capability == capability and state.open:
                    return True
        return False

    def _skill_needed(self) -> bool:
        return self._still_to_load(self.turn.skills)

    def _still_to_load(self, skills: Sequence[Skill]) -> bool:
        """Whether one of `skills` is needed and none is loaded."""
        return bool(skills) and not (self.loaded and any(skill.name in self.loaded for skill in skills))

    def _right_tools(self) -> tuple[str, ...]:
        """Names of the tools that the question needs at this moment."""
        needed = {call.capability for state in self.turn.needs if state.open for call in state.need.calls}
        if self._skill_needed():
            needed.add(Capability.LOAD_SKILL)
        return tuple(tool.name for capability in sorted(needed) for tool in self.harness.tools_for(capability))

    def _record(self, name: str, arguments: dict[str, Any], resolved: Resolved) -> None:
        """A call that was not executed."""
        self.calls.append(
            CallRecord(
                name=name,
                arguments=arguments,
                capability=resolved.capability,
                known=resolved.known,
                ok=False,
                fault=None,
                decoy=resolved.capability == Capability.DECOY,
                expected=False,
                right_tool=self._right_tool(resolved.capability),
                right_names=() if resolved.known else self._right_tools(),
            )
        )

    def _claims(self, text: str) -> Claims:
        context, truth = self.turn.context, self.turn.truth
        values: set[str] = set()
        if context.attribute is not None:
            values.update(truth(FactKind.ATTRIBUTE, (context.link, context.attribute)))
        if context.family == Family.VARIANT:
            values.update(truth(FactKind.VARIANT, context.link))
            if isinstance(asked := context.question.slots.get("variant"), str):
                values.add(asked.lower())  # also where it is sold out
        return extract(text, context.family, self.catalogue, frozenset(values), self.harness.language)

    def _reply_passes(self, hook: Hook, form: hooks.Form, claims: Claims) -> bool:
        if hook.check == HookCheck.SKILL_LOADED:
            return not self._skill_needed() or not self.turn.skill_available
        if hook.check == HookCheck.REPLY_LENGTH:
            return form.length
        if hook.check == HookCheck.FACT_CHECK:
            return not false_claims(claims, self.turn.context, self.known)
        return hook.id not in form.persona

    def _settle(self, text: str, form: hooks.Form, claims: Claims, broken: list[Hook]) -> None:
        """Scores the reply that stands."""
        self.clock += SECONDS_A_WORD * form.words
        score, reply = score_reply(
            text,
            self.turn,
            self.requirements(),
            self.known,
            claims,
            form,
            broken,
            skill_needed=self._skill_needed(),
            word_limit=self.harness.limits.reply_words,
            seconds=self.clock - self.turn.started,
        )
        self._scores.append(score)
        self.replies.append(reply)

    def _hook_with_retries(self, point: HookPoint, check: HookCheck) -> Hook | None:
        """The first such hook with retries left in this turn; spends one."""
        turn = self.turn
        for hook in self.harness.hooks:
            if hook.point == point and hook.check == check and turn.spent.get(hook.id, 0) < hook.retries:
                turn.spent[hook.id] = turn.spent.get(hook.id, 0) + 1
                return hook
        return None

    def _correct(self, message: str) -> Observation:
        self.corrections += 1
        return Observation("system", message)

    def _end(self, reason: StopReason) -> Observation:
        self.stop = reason
        return Observation("system", "", done=True)
