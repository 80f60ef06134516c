"""Fixtures: the small merchant of shop.py."""

import pytest

from components.avatar.harness.schema import Family, Harness
from components.avatar.simulator.catalogue import Catalogue
from components.avatar.simulator.merchant import Merchant
from components.avatar.simulator.scenario import Question
from tests.unit.simulator.shop import PRODUCTS, QUESTIONS, make_harness


@pytest.fixture(scope="session")
def catalogue() -> Catalogue:
    return Catalogue.model_validate({"products": PRODUCTS})


@pytest.fixture(scope="session")
def harness() -> Harness:
    return make_harness()


@pytest.fixture(scope="session")
def merchant(harness: Harness, catalogue: Catalogue) -> Merchant:
    questions = []
    for family, question in QUESTIONS.items():
        for number in range(6):
            link = (
                None
                if question.link_id is None
                else (99 + number if family == Family.UNKNOWN_LINK else (3, 7, 8, 9)[number % 4])
            )
            slots = {**question.slots, "city": "Beijing"} if family == Family.SHIPPING else question.slots
            where = f"link {link} " if link is not None else ""
            text = f"{family} {where}please {'to Beijing' if slots.get('city') else ''} v{'abcdef'[number]}"
            questions.append(Question(id=f"{family}-{number}", text=text, family=family, link_id=link, slots=slots))
    return Merchant(harness, catalogue, tuple(questions))
