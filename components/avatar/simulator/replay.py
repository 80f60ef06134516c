"""Plays recorded semantic actions under another state of the harness: the same meaning, another surface."""

from collections.abc import Sequence

from components.avatar.harness.schema import Harness
from components.avatar.simulator.catalogue import Catalogue
from components.avatar.simulator.oracle import Unrealisable, realise
from components.avatar.simulator.scenario import Scenario
from components.avatar.simulator.session import Session
from components.avatar.simulator.types import SemanticAction


def replay(actions: Sequence[SemanticAction], harness: Harness, catalogue: Catalogue, scenario: Scenario) -> Session:
    """The session after all `actions`. Its `stop` stays None when the actions do not end it or cannot be expressed
    under `harness`; whether the result is good is its score's business.
    """
    session = Session(harness, catalogue, scenario)
    session.begin()
    for action in actions:
        if session.stop is not None:
            break
        try:
            realised = realise(session, action)
        except Unrealisable:
            break
        if realised[0] == "call":
            session.call(realised[1], realised[2])
        else:
            session.reply(realised[1])
    return session
