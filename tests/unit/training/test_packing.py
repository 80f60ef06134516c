"""The law of shared-prefix rows: same loss as rows of one conversation each."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.functional import cross_entropy
from transformers import LlamaConfig, LlamaForCausalLM

from components.integrations import tree_attention
from components.integrations.packing import IGNORED, Encoded, Row, collate, make_row, make_rows, shared_prefix

VOCABULARY = 50
PREFIX = [3, 5, 7, 9, 11, 13]


def conversation(prefix: list[int], tail: list[int], trained: int, group: str = "h") -> Encoded:
    mask = [0] * (len(prefix) + len(tail) - trained) + [1] * trained
    return Encoded((*prefix, *tail), tuple(mask), (1.0,) * len(mask), group)


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


def loss_sum(model: LlamaForCausalLM, rows: list[Row], attention: str = tree_attention.NAME) -> torch.Tensor:
    """As training computes it: shared-prefix attention."""
    model.set_attn_implementation(attention)
    batch = collate([vars(row) for row in rows], pad_id=0)
    logits = model(**{name: value for name, value in batch.items() if name not in ("labels", "weights_B_T")}).logits
    return cross_entropy(
        logits[:, :-1].reshape(-1, VOCABULARY),
        batch["labels"][:, 1:].reshape(-1),
        ignore_index=IGNORED,
        reduction="sum",
    )


def plain_loss_sum(model: LlamaForCausalLM, conversations: list[Encoded]) -> torch.Tensor:
    """As a textbook computes it: one conversation at a time, transformers' own attention."""
    model.set_attn_implementation("sdpa")
    losses = []
    for conversation in conversations:
        ids = torch.tensor([conversation.ids])
        labels = torch.tensor([t if m else IGNORED for t, m in zip(conversation.ids, conversation.mask, strict=True)])
        logits = model(input_ids=ids).logits[0]
        losses.append(cross_entropy(logits[:-1], labels[1:], ignore_index=IGNORED, reduction="sum"))
    return torch.stack(losses).sum()


def gradients(model: LlamaForCausalLM, loss: torch.Tensor) -> list[torch.Tensor]:
    return list(torch.autograd.grad(loss, list(model.parameters())))


CONVERSATIONS = [
    conversation(PREFIX, [21, 22, 23, 24], 2),
    conversation(PREFIX, [31, 32, 33, 34, 35], 3),
    conversation(PREFIX, [31, 41, 42], 1),
]


@pytest.mark.parametrize("attention", [tree_attention.NAME, tree_attention.FUSED])
def test_a_shared_row_has_loss_and_gradient_of_separate_conversations(model: LlamaForCausalLM, attention: str) -> None:
    row = make_row(CONVERSATIONS)
    assert len(row.input_ids) < sum(len(c.ids) for c in CONVERSATIONS)
    assert row.trained_tokens == 6
    shared, plain = loss_sum(model, [row], attention), plain_loss_sum(model, CONVERSATIONS)
    assert float(shared) == pytest.approx(float(plain), rel=1e-5)
    for ours, theirs in zip(gradients(model, shared), gradients(model, plain), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-6)


def test_a_batch_of_rows_of_different_shape(model: LlamaForCausalLM) -> None:
    alone = conversation([1, 2], [3, 4, 5], 2)
    rows = [make_row(CONVERSATIONS), make_row([alone])]
    assert float(loss_sum(model, rows)) == pytest.approx(
        float(plain_loss_sum(model, [*CONVERSATIONS, alone])), rel=1e-5
    )


def test_padding_changes_nothing(model: LlamaForCausalLM) -> None:
    short = make_row([conversation([1, 2], [3, 4], 1)])
    long = make_row([conversation([1, 2], [3, 4, 5, 6, 7, 8], 4)])
    apart = float(loss_sum(model, [short])) + float(loss_sum(model, [long]))
    assert float(loss_sum(model, [short, long])) == pytest.approx(apart, rel=1e-5)


def test_a_branch_cannot_see_its_sibling(model: LlamaForCausalLM) -> None:
    prefix = [3, 5, 7]
    kept = conversation(prefix, [20, 21, 22], 2)
    one = make_row([conversation(prefix, [30, 31], 0), kept])
    other = make_row([conversation(prefix, [40, 41], 0), kept])
    assert float(loss_sum(model, [one])) == pytest.approx(float(loss_sum(model, [other])), rel=1e-6)


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
