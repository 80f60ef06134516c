"""The law of shared-prefix rows: same loss as rows of one conversation each."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import LlamaConfig, LlamaForCausalLM

from components.sft.packing import IGNORED, Encoded, collate, make_row, make_rows, shared_prefix

VOCABULARY = 50


def conversation(prefix: list[int], tail: list[int], trained: int, group: str = "h") -> Encoded:
    mask = [0] * (len(prefix) + len(tail) - trained) + [1] * trained
    return Encoded((*prefix, *tail), tuple(mask), group)


@pytest.fixture(scope="module")
def model() -> LlamaForCausalLM:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
    )
    return LlamaForCausalLM(config).eval()


def loss_sum(model: LlamaForCausalLM, rows: list) -> float:
    batch = collate([vars(row) for row in rows], pad_id=0)
    with torch.no_grad():
        logits = model(**{name: value for name, value in batch.items() if name != "labels"}).logits
    flat = torch.nn.functional.cross_entropy(
        logits[:, :-1].reshape(-1, VOCABULARY),
        batch["labels"][:, 1:].reshape(-1),
        ignore_index=IGNORED,
        reduction="sum",
    )
    return float(flat)


def test_a_shared_row_has_the_loss_of_separate_rows(model: LlamaForCausalLM) -> None:
    prefix = [3, 5, 7, 9, 11, 13]
    conversations = [
        conversation(prefix, [21, 22, 23, 24], 2),
        conversation(prefix, [31, 32, 33, 34, 35], 3),
        conversation(prefix, [31, 41, 42], 1),
    ]
    shared = make_row(conversations)
    separate = [make_row([c]) for c in conversations]
    assert len(shared.input_ids) < sum(len(row.input_ids) for row in separate)
    assert shared.trained_tokens == sum(row.trained_tokens for row in separate) == 6
    assert loss_sum(model, [shared]) == pytest.approx(sum(loss_sum(model, [row]) for row in separate), rel=1e-5)


def test_padding_changes_nothing(model: LlamaForCausalLM) -> None:
    short = make_row([conversation([1, 2], [3, 4], 1)])
    long = make_row([conversation([1, 2], [3, 4, 5, 6, 7, 8], 4)])
    assert loss_sum(model, [short, long]) == pytest.approx(loss_sum(model, [short]) + loss_sum(model, [long]), rel=1e-5)


def test_a_branch_cannot_see_its_sibling(model: LlamaForCausalLM) -> None:
    prefix = [3, 5, 7]
    kept = conversation(prefix, [20, 21, 22], 2)
    one = make_row([conversation(prefix, [30, 31], 0), kept])
    other = make_row([conversation(prefix, [40, 41], 0), kept])
    assert loss_sum(model, [one]) == pytest.approx(loss_sum(model, [other]), rel=1e-6)


def test_rows_keep_order_group_and_budget() -> None:
    conversations = [conversation([1, 2, 3], [n, 5, 6], 2, group="a" if n < 14 else "b") for n in range(10, 18)]
    rows = make_rows(conversations, max_tokens=12, max_branches=8)
    assert all(len(row.input_ids) <= 12 for row in rows)
    firsts = [token for row in rows for token in row.input_ids if token >= 10]
    assert firsts == list(range(10, 18))
    starts = [row.input_ids[3] for row in rows]
    assert 14 in starts, "a new group starts a new row"


@given(st.lists(st.lists(st.integers(1, 4), min_size=2, max_size=6), min_size=2, max_size=4), st.integers(1, 2))
def test_the_first_token_of_a_branch_is_never_trained(tails: list[list[int]], trained: int) -> None:
    conversations = [conversation([1, 1, 2], tail, min(trained, len(tail) - 1)) for tail in tails]
    row = make_row(conversations)
    for i in range(1, len(row.input_ids)):
        if row.branch[i] != row.branch[i - 1] and row.branch[i] > 1:
            assert row.labels[i] == IGNORED
    assert shared_prefix(conversations) >= 3
