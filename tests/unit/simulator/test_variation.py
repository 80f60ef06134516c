"""Fresh facts change what tools say, never what a question means; nothing of them reaches a test scenario."""

import random
from pathlib import Path

import pytest

from components.avatar.harness.schema import Family
from components.avatar.simulator.catalogue import Catalogue
from components.avatar.simulator.merchant import Merchant, load_merchant
from components.avatar.simulator.oracle import next_action, realise
from components.avatar.simulator.sampling import sample_scenarios
from components.avatar.simulator.scenario import Scenario
from components.avatar.simulator.session import Session
from components.avatar.simulator.variation import varied, varied_products

HARNESSES = Path(__file__).parents[3] / "infra/harnesses"


@pytest.fixture(params=["lumi-beauty", "ohm-house", "yunwu-tea"])
def shop(request: pytest.FixtureRequest) -> Merchant:
    return load_merchant(HARNESSES / request.param)


def played(shop: Merchant, scenario: Scenario) -> Session:
    session = Session(shop.harness, shop.catalogue, scenario)
    session.begin()
    while session.stop is None:
        kind, *rest = realise(session, next_action(session))
        session.call(rest[0], rest[1]) if kind == "call" else session.reply(rest[0])
    return session


def test_the_oracle_earns_full_reward_on_fresh_facts(shop: Merchant) -> None:
    scenarios = sample_scenarios(shop, 80, seed=5, split="train", varied_share=1.0)
    assert sum(bool(scenario.products) for scenario in scenarios) > 70
    for scenario in scenarios:
        score = played(shop, scenario).score()
        assert (score.accuracy, score.effectiveness, score.skill_selection) == (1, 1, 1), scenario


def test_facts_come_from_the_episode_not_from_the_catalogue(shop: Merchant) -> None:
    scenarios = sample_scenarios(shop, 60, seed=6, split="train", families=[Family.PRICE], varied_share=1.0)
    told = [(scenario, played(shop, scenario).replies[-1].text) for scenario in scenarios]
    for scenario, reply in told:
        link = scenario.questions[0].link_id
        [fresh] = [product for product in scenario.products if product.link_id == link]
        sale = fresh.flash_sale
        assert f"{fresh.price.amount:.2f}" in reply or (sale is not None and f"{sale.price:.2f}" in reply)


def test_a_varied_product_is_asked_about_as_before(shop: Merchant) -> None:
    rng = random.Random(0)
    peers = shop.catalogue.products[:20]
    for product in shop.catalogue.products:
        fresh = varied(product, peers, rng)
        assert (fresh.link_id, fresh.attributes.keys()) == (product.link_id, product.attributes.keys())
        assert [(v.name, v.value) for v in fresh.variants] == [(v.name, v.value) for v in product.variants]
        assert fresh.price.currency == product.price.currency and fresh.price.amount >= 1
        assert all(coupon.minimum <= fresh.price.amount for coupon in fresh.coupons)
        assert fresh.flash_sale is None or fresh.flash_sale.price < fresh.price.amount


def test_facts_are_many(shop: Merchant) -> None:
    scenarios = sample_scenarios(shop, 300, seed=7, split="train", varied_share=1.0)
    codes = {coupon.code for s in scenarios for product in s.products for coupon in product.coupons}
    assert len(codes) > 5 * len(shop.catalogue.coupon_codes)


def test_the_share_changes_facts_alone(shop: Merchant) -> None:
    own, half = (
        sample_scenarios(shop, 200, seed=8, split="train", fault_rate=0.2, varied_share=share) for share in (0.0, 0.5)
    )
    assert not any(scenario.products for scenario in own)
    assert 60 < sum(bool(scenario.products) for scenario in half) < 140
    assert [scenario.model_copy(update={"products": ()}) for scenario in half] == own
    assert half == sample_scenarios(shop, 200, seed=8, split="train", fault_rate=0.2, varied_share=0.5)


def test_values_come_from_products_of_the_same_split(shop: Merchant) -> None:
    tested = {s.questions[0].link_id for s in sample_scenarios(shop, 400, seed=9, split="test")}
    assert not any(
        product.link_id in tested
        for scenario in sample_scenarios(shop, 200, seed=9, split="train", varied_share=1.0)
        for product in scenario.products
    )


def test_a_search_meets_the_catalogue_as_it_is(shop: Merchant) -> None:
    scenarios = sample_scenarios(shop, 20, seed=1, split="train", families=[Family.SEARCH], varied_share=1.0)
    assert not any(scenario.products for scenario in scenarios)


def test_a_catalogue_with_other_products_is_another_one(shop: Merchant) -> None:
    first = shop.catalogue.products[0]
    [fresh] = varied_products(shop.catalogue, [first.link_id, None, first.link_id, 10**6], [first], random.Random(1))
    replaced = shop.catalogue.replacing([fresh])
    assert isinstance(replaced, Catalogue) and replaced != shop.catalogue
    assert replaced.by_link[first.link_id] == fresh and shop.catalogue.by_link[first.link_id] == first
    assert replaced.products[1:] == shop.catalogue.products[1:]
    assert shop.catalogue.replacing([]) is shop.catalogue
    with pytest.raises(ValueError, match="no link 1000000 in the catalogue"):
        shop.catalogue.replacing([fresh.model_copy(update={"link_id": 10**6})])
