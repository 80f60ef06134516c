"""Attention over shared-prefix rows that computes only what a row may see.

A mask over the whole row computes every pair of tokens and throws most of them away: siblings never see each other.
Here the prefix attends to itself once, and each branch to the prefix and itself, so the work grows with the number of
branches, not with its square. The result is that of the masked attention (tests/unit/training/test_packing.py
compares the losses).

On a CPU the scores are plain matrix products: at these lengths torch's fused kernel runs at a fifth of the speed of the
products around it, and a training step with it takes a quarter longer (`make benchmark-attention`)."""

import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface

NAME = "shared_prefix"


def shared_prefix_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    *,
    branch_B_T: torch.Tensor,
    scaling: float | None = None,
    **_: object,
) -> tuple[torch.Tensor, None]:
    """`query` (B, heads, T, d), `key` and `value` (B, kv heads, T, d) -> (B, T, heads, d). `branch_B_T` as in
    packing.Row; padding is -1.

    `attention_mask` is not read: the branches say it all.
    """
    groups = query.shape[1] // key.shape[1]
    key, value = key.repeat_interleave(groups, 1), value.repeat_interleave(groups, 1)
    rows = [_row(query[i], key[i], value[i], branch_B_T[i], scaling) for i in range(query.shape[0])]
    return torch.stack(rows).transpose(1, 2), None


def _row(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, branch_T: torch.Tensor, scale: float | None
) -> torch.Tensor:
    """One row, (heads, T, d). Branches are stretches of equal numbers; they are padded to the longest and go through
    as a batch."""
    lengths = torch.unique_consecutive(branch_T, return_counts=True)[1].tolist()
    prefix = lengths.pop(0) if int(branch_T[0]) == 0 else 0
    parts = []
    if prefix:
        parts.append(
            _attention(q[:, :prefix], k[:, :prefix], v[:, :prefix], _causal(prefix, prefix, q.device), scale)
        )
    width = max(lengths, default=0)

    def branches(states: torch.Tensor) -> torch.Tensor:  # (branches, heads, width, d)
        split = states[:, prefix:].split(lengths, dim=1)
        return torch.stack([torch.nn.functional.pad(part, (0, 0, 0, width - part.shape[1])) for part in split])

    def with_prefix(states: torch.Tensor) -> torch.Tensor:  # (branches, heads, prefix + width, d)
        return torch.cat([states[None, :, :prefix].expand(len(lengths), -1, -1, -1), branches(states)], dim=2)

    if lengths:
        seen = _causal(width, prefix + width, q.device)
        out = _attention(branches(q), with_prefix(k), with_prefix(v), seen, scale)
        parts += [out[i, :, :length] for i, length in enumerate(lengths)]
    return torch.cat(parts, dim=1)


def _causal(queries: int, keys: int, device: torch.device) -> torch.Tensor:
    """(queries, keys), true where a query may see a key; the last query sees all keys."""
    return torch.ones(queries, keys, dtype=torch.bool, device=device).tril(keys - queries)


def _attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, seen: torch.Tensor, scale: float | None
) -> torch.Tensor:
    """(..., queries, d) over (..., keys, d) where `seen` is true; the softmax is computed in float32."""
    if q.device.type != "cpu":
        return scaled_dot_product_attention(q, k, v, attn_mask=seen, scale=scale)
    scores = (q * (scale or q.shape[-1] ** -0.5)) @ k.transpose(-1, -2)
    scores = scores.masked_fill(~seen, float("-inf"))
    return torch.softmax(scores, dim=-1, dtype=torch.float32).to(v.dtype) @ v


AttentionInterface.register(NAME, shared_prefix_attention)
