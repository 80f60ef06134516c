"""From the text of one turn to its verdict."""

from components.avatar.agent.parser import CALL_START, ParsedCall, ParsedMalformed, parse
from components.evaluation.bfcl.checker import Verdict, check_call
from components.evaluation.bfcl.data import Case
from components.evaluation.bfcl.surface import Surface


def judge(case: Case, surface: Surface, text: str) -> Verdict:
    """`text`: what the model wrote, special tokens removed.

    Where no function fits, only a reply is right: an attempt at a call that cannot be parsed is no abstention. Where
    one fits, exactly one call is right; repairable slips of form are allowed (see the parser).
    """
    parsed = parse(text)
    if case.answer is None:
        attempted = isinstance(parsed, ParsedCall) or CALL_START in text
        if attempted:
            return Verdict.CALLED
        return Verdict.MALFORMED if isinstance(parsed, ParsedMalformed) else Verdict.RIGHT
    if text.count(CALL_START) > 1:
        return Verdict.SEVERAL_CALLS
    if isinstance(parsed, ParsedMalformed):
        return Verdict.MALFORMED
    if not isinstance(parsed, ParsedCall):
        return Verdict.NO_CALL
    meaning = surface.meaning(parsed)
    if isinstance(meaning, Verdict):
        return meaning
    return check_call(case.functions, case.answer, *meaning)
