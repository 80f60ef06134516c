"""Attention over shared-prefix rows that computes only what a row may see.

A mask over the whole row computes every pair of tokens and throws most of them away: siblings never see each other.
Here the prefix attends to itself, a stretch of queries at a time, and each branch to the prefix and itself, so the work
grows with the number of branches, not with its square. The result is that of the masked attention
(tests/unit/training/test_packing.py compares the losses).

On a CPU the scores are plain matrix products, kept in the dtype of the inputs: torch's fused kernel computes them again
in the backward pass, which saves memory that a CPU has and costs time; scores in float32 cost time to write
(`make benchmark-speed`)."""

from collections.abc import Callable
from functools import partial

import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface

NAME = "shared_prefix"
FUSED = "shared_prefix_fused"  # with torch's own kernel on every device
STRETCH = 256  # queries of the prefix that go through together; fewer see fewer keys in vain and make smaller products

Kernel = Callable[[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, float], torch.Tensor]


def products(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, seen: torch.Tensor, scale: float) -> torch.Tensor:
    """`q` (kv heads, groups, queries, d) attends to `k` and `v` (kv heads, keys, d) where `seen` (queries, keys) is
    true. The queries of a group share their keys, so they are one product. torch computes a softmax of bfloat16 in
    float32."""
    bias = torch.zeros(seen.shape, dtype=q.dtype, device=q.device).masked_fill(~seen, float("-inf"))
    scores = torch.baddbmm(bias.repeat(q.shape[1], 1), (q * scale).flatten(1, 2), k.transpose(1, 2))
    return (torch.softmax(scores, dim=-1) @ v).view(q.shape)


def fused(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, seen: torch.Tensor, scale: float) -> torch.Tensor:
    """As `products`, by torch's own kernel."""
    keys, values = (states[:, None].expand(-1, q.shape[1], -1, -1) for states in (k, v))
    return scaled_dot_product_attention(q, keys, values, attn_mask=seen, scale=scale)


def shared_prefix_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    *,
    branch_B_T: torch.Tensor,
    scaling: float | None = None,
    kernel: Kernel | None = None,
    **_: object,
) -> tuple[torch.Tensor, None]:
    """`query` (B, heads, T, d), `key` and `value` (B, kv heads, T, d) -> (B, T, heads, d). `branch_B_T` as in
    packing.Row; padding is -1.

    `attention_mask` is not read: the branches say it all. `kernel` attends within a part of a row; default: `products`
    on a CPU, torch's own elsewhere.
    """
    kernel = kernel or (products if query.device.type == "cpu" else fused)
    scale = scaling or query.shape[-1] ** -0.5
    rows = [_row(query[i], key[i], value[i], branch_B_T[i], scale, kernel) for i in range(query.shape[0])]
    return torch.stack(rows).transpose(1, 2), None


def _row(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, branch_T: torch.Tensor, scale: float, kernel: Kernel
) -> torch.Tensor:
    """One row: `q` (heads, T, d), `k` and `v` (kv heads, T, d) -> (heads, T, d). Branches are stretches of equal
    numbers."""
    branches = torch.unique_consecutive(branch_T, return_counts=True)[1].tolist()
    prefix = branches.pop(0) if int(branch_T[0]) == 0 else 0
    stretches = [min(STRETCH, prefix - start) for start in range(0, prefix, STRETCH)]
    queries = q.unflatten(0, (k.shape[0], -1)).split([*stretches, *branches], dim=2)
    (shared_k, *own_k), (shared_v, *own_v) = (states.split([prefix, *branches], dim=1) for states in (k, v))
    ends = [sum(stretches[: number + 1]) for number in range(len(stretches))]
    keys = [shared_k[:, :end] for end in ends] + [torch.cat([shared_k, own], dim=1) for own in own_k]
    values = [shared_v[:, :end] for end in ends] + [torch.cat([shared_v, own], dim=1) for own in own_v]
    parts = [
        kernel(part, key, value, _causal(part.shape[2], key.shape[1], q.device), scale)
        for part, key, value in zip(queries, keys, values, strict=True)
    ]
    return torch.cat(parts, dim=2).flatten(0, 1)


def _causal(queries: int, keys: int, device: torch.device) -> torch.Tensor:
    """(queries, keys), true where a query may see a key; the last query sees all keys."""
    return torch.ones(queries, keys, dtype=torch.bool, device=device).tril(keys - queries)


AttentionInterface.register(NAME, shared_prefix_attention)
AttentionInterface.register(FUSED, partial(shared_prefix_attention, kernel=fused))
