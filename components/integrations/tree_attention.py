"""Attention over shared-prefix rows that computes only what a row may see.

A mask over the whole row computes every pair of tokens and throws most of them away: siblings never see each other.
Here the prefix attends to itself once, and each branch to the prefix and itself, so the work grows with the number of
branches, not with its square. The result is that of the masked attention (tests/unit/training/test_packing.py
compares the losses).

On a CPU the scores are plain matrix products: torch's fused kernel computes them again in the backward pass, which
saves memory that a CPU has (a third of what a row takes) and costs time (`make benchmark-speed`)."""

from collections.abc import Callable
from functools import partial

import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface

NAME = "shared_prefix"
FUSED = "shared_prefix_fused"  # with torch's own kernel on every device

Kernel = Callable[..., torch.Tensor]


def products(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, attn_mask: torch.Tensor, scale: float | None
) -> torch.Tensor:
    """What `scaled_dot_product_attention` computes, (..., queries, d) over (..., keys, d) where the boolean mask is
    true; softmax in float32."""
    scores = (q * (scale or q.shape[-1] ** -0.5)) @ k.transpose(-1, -2)
    scores = scores.masked_fill(~attn_mask, float("-inf"))
    return torch.softmax(scores, dim=-1, dtype=torch.float32).to(v.dtype) @ v


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
    kernel = kernel or (products if query.device.type == "cpu" else scaled_dot_product_attention)
    groups = query.shape[1] // key.shape[1]
    key, value = key.repeat_interleave(groups, 1), value.repeat_interleave(groups, 1)
    rows = [_row(query[i], key[i], value[i], branch_B_T[i], scaling, kernel) for i in range(query.shape[0])]
    return torch.stack(rows).transpose(1, 2), None


def _row(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, branch_T: torch.Tensor, scale: float | None, kernel: Kernel
) -> torch.Tensor:
    """One row, (heads, T, d). Branches are stretches of equal numbers; they are padded to the longest and go through
    as a batch."""
    lengths = torch.unique_consecutive(branch_T, return_counts=True)[1].tolist()
    prefix = lengths.pop(0) if int(branch_T[0]) == 0 else 0
    parts = []
    if prefix:
        seen = _causal(prefix, prefix, q.device)
        parts.append(kernel(q[:, :prefix], k[:, :prefix], v[:, :prefix], attn_mask=seen, scale=scale))
    width = max(lengths, default=0)

    def branches(states: torch.Tensor) -> torch.Tensor:  # (branches, heads, width, d)
        split = states[:, prefix:].split(lengths, dim=1)
        return torch.stack([torch.nn.functional.pad(part, (0, 0, 0, width - part.shape[1])) for part in split])

    def with_prefix(states: torch.Tensor) -> torch.Tensor:  # (branches, heads, prefix + width, d)
        return torch.cat([states[None, :, :prefix].expand(len(lengths), -1, -1, -1), branches(states)], dim=2)

    if lengths:
        seen = _causal(width, prefix + width, q.device)
        out = kernel(branches(q), with_prefix(k), with_prefix(v), attn_mask=seen, scale=scale)
        parts += [out[i, :, :length] for i, length in enumerate(lengths)]
    return torch.cat(parts, dim=1)


def _causal(queries: int, keys: int, device: torch.device) -> torch.Tensor:
    """(queries, keys), true where a query may see a key; the last query sees all keys."""
    return torch.ones(queries, keys, dtype=torch.bool, device=device).tril(keys - queries)


AttentionInterface.register(NAME, shared_prefix_attention)
AttentionInterface.register(FUSED, partial(shared_prefix_attention, kernel=scaled_dot_product_attention))
