"""Shared-prefix rows: several conversations under one harness become one training row that holds their common prefix
once.

Most of an example is its harness, so k conversations of a tokens after a prefix of p tokens cost p + k*a instead of
k*(p + a). The row is a tree of depth one: every branch sees the prefix and itself, never a sibling, and its positions
go on from the prefix. The loss of each branch is the loss that it would have in a row of its own
(tests/unit/training/test_packing.py compares the two)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

IGNORED = -100  # label of a token without loss, as in torch's cross entropy
PADDING = -1  # branch of a padding token


@dataclass(frozen=True)
class Encoded:
    """Token ids of one conversation under one harness, the mask of the tokens that are trained on (1) and each token's
    weight in the loss (read where the mask is 1), equal lengths."""

    ids: tuple[int, ...]
    mask: tuple[int, ...]
    weights: tuple[float, ...]
    group: str  # harness digest: only conversations of one group share a row


@dataclass(frozen=True)
class Row:
    """One training row. `branch[i]` is 0 in the prefix and 1, 2, ... in the branches; `positions` restart after the
    prefix."""

    input_ids: list[int]
    labels: list[int]
    weights: list[float]
    branch: list[int]
    positions: list[int]

    @property
    def trained_tokens(self) -> int:
        return sum(label != IGNORED for label in self.labels)


def shared_prefix(sequences: Sequence[Encoded]) -> int:
    """Length of the longest common prefix that leaves each branch at least one untrained token at its start.

    A row's labels are shifted by one, so the first token of a branch would be predicted from the last token of its
    sibling; that token must not be a trained one."""
    shortest = min(len(sequence.ids) for sequence in sequences)
    limit = min(sequence.mask.index(1) if 1 in sequence.mask else len(sequence.mask) for sequence in sequences) - 1
    first = sequences[0].ids
    length = 0
    while length < min(shortest - 1, limit) and all(s.ids[length] == first[length] for s in sequences):
        length += 1
    return length


def make_row(sequences: Sequence[Encoded]) -> Row:
    """One row for conversations of one group."""
    prefix = shared_prefix(sequences) if len(sequences) > 1 else 0
    head = sequences[0].ids[:prefix]
    row = Row(list(head), [IGNORED] * prefix, [0.0] * prefix, [0] * prefix, list(range(prefix)))
    for number, sequence in enumerate(sequences, start=1):
        tail, mask = sequence.ids[prefix:], sequence.mask[prefix:]
        row.input_ids.extend(tail)
        row.labels.extend(token if trained else IGNORED for token, trained in zip(tail, mask, strict=True))
        row.weights.extend(sequence.weights[prefix:])
        row.branch.extend([number] * len(tail))
        row.positions.extend(range(prefix, prefix + len(tail)))
    return row


def make_rows(sequences: Iterable[Encoded], *, max_tokens: int, max_branches: int) -> list[Row]:
    """Rows in the order of the conversations (a curriculum stays one); neighbours of one group share a row while it
    fits `max_tokens`."""
    rows: list[Row] = []
    pending: list[Encoded] = []

    def fits(candidate: list[Encoded]) -> bool:
        prefix = shared_prefix(candidate)
        return prefix + sum(len(s.ids) - prefix for s in candidate) <= max_tokens

    for sequence in sequences:
        same_group = bool(pending) and pending[0].group == sequence.group and len(pending) < max_branches
        if pending and not (same_group and fits([*pending, sequence])):
            rows.append(make_row(pending))
            pending = []
        pending.append(sequence)
    if pending:
        rows.append(make_row(pending))
    return rows


def collate(rows: Sequence[dict[str, list[Any]]], pad_id: int) -> dict[str, torch.Tensor]:
    """Batch of rows: input_ids, labels, weights_B_T, position_ids and branch_B_T, all (B, T), for `tree_attention`.

    The attention mask is an empty one of four dimensions: transformers hands such a mask on as it is and builds none.
    """
    width = max(len(row["input_ids"]) for row in rows)

    def padded(field: str, value: float) -> torch.Tensor:
        return torch.tensor([[*row[field], *[value] * (width - len(row[field]))] for row in rows])

    return {
        "input_ids": padded("input_ids", pad_id),
        "labels": padded("labels", IGNORED),
        "weights_B_T": padded("weights", 0.0),
        "position_ids": padded("positions", 0),
        "branch_B_T": padded("branch", PADDING),
        "attention_mask": torch.ones(len(rows), 1, 0, 0, dtype=torch.bool),
    }


def forward_trained(model: Any, batch: Mapping[str, torch.Tensor]) -> tuple[Any, torch.Tensor]:
    """The model's outputs for a batch of `collate`, their logits (B, K, V) only where a row's next token is trained,
    and these K places. What is predicted there is `labels[:, 1:][:, places]`."""
    places_K = (batch["labels"][:, 1:] != IGNORED).any(dim=0).nonzero()[:, 0]
    features = {name: value for name, value in batch.items() if name not in ("labels", "weights_B_T")}
    return model(**features, logits_to_keep=places_K, use_cache=False), places_K
