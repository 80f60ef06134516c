"""Vocabularies and wordings: training and held-out halves share nothing, and every capability has enough of both."""

import re

import pytest

from components.avatar.harness.banks import Wordings, banks
from components.avatar.harness.names import STYLES, clean_name, compose, name_words
from components.avatar.harness.words import WordBank, split_of, whole_words, word_bank


def test_the_two_vocabularies_share_no_word_and_leave_none_out() -> None:
    train, heldout = word_bank("train"), word_bank("heldout")
    assert set(train.words).isdisjoint(heldout.words)
    assert sorted(train.words + heldout.words) == sorted(train.source)
    assert len(train.words) > 10_000 and len(heldout.words) > 2_000
    assert all(re.fullmatch("[a-z]{3,10}", word) for word in train.source)


def test_the_split_is_stable() -> None:
    known = {"price": "train", "listing": "heldout", "find": "heldout", "coupon": "train", "spotlight": "heldout"}
    assert {word: split_of(word) for word in known} == known
    assert split_of("Price") == split_of("price")


def test_words_of_another_tokenizer() -> None:
    words = whole_words(["Ġprice", "Ġing", "price", "ĠPrice", "Ġab", "Ġ123", "Ġabcdefghijk", "Ġstock"])
    assert words == ("ing", "price", "stock")
    assert WordBank(words, "train").words == tuple(word for word in words if split_of(word) == "train")


def test_wordings_are_disjoint_and_enough() -> None:
    bank = banks()
    assert len(bank.capabilities) == 13  # all but recorded and decoy
    for capability, wordings in bank.capabilities.items():
        assert len(set(wordings.train)) >= 6, capability
        assert len(set(wordings.heldout)) >= 4, capability
        assert set(wordings.train).isdisjoint(wordings.heldout), capability
        for split in ("train", "heldout"):
            assert len(WordBank(wordings.names, split).words) >= 4, (capability, split)
    groups: list[Wordings] = [
        *bank.families.values(),
        *bank.hook_messages.values(),
        bank.items,
        bank.skill_frames,
        bank.frames,
        bank.persona.address,
        bank.persona.ends_with,
    ]
    for wordings in groups:
        assert set(wordings.train).isdisjoint(wordings.heldout), wordings
    for phrase in bank.phrases:
        assert set(phrase.same).isdisjoint(phrase.heldout), phrase


def test_decoys_are_disjoint_and_enough() -> None:
    decoys = banks().decoys
    assert len({decoy.says for decoy in decoys.train}) >= 40
    assert len({decoy.says for decoy in decoys.heldout}) >= 15
    assert {decoy.says for decoy in decoys.train}.isdisjoint(decoy.says for decoy in decoys.heldout)
    for half in (decoys.train, decoys.heldout):
        assert any(decoy.near for decoy in half) and any(not decoy.near for decoy in half)


@pytest.mark.parametrize("style", [style for style in STYLES if style != "joined"])
def test_a_composed_name_gives_its_words_back(style: str) -> None:
    assert name_words(compose(["check", "price", "now"], style)) == ("check", "price", "now")


def test_cleaning_is_what_makes_names_collide() -> None:
    assert clean_name("my-param") == clean_name("my_param") == clean_name("My.Param")
    assert clean_name("a" * 64 + "b") == clean_name("a" * 64 + "c")
