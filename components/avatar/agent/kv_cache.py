"""Keys and values of the past: one buffer for the rows of a batch, and a store of prefixes between the turns of
episodes.

Removed from the textbook: `DynamicCache` copies the whole past at every token (torch.cat), and left padding shifts
rows against each other. Here every row starts at position 0 and grows in place; a row is copied only when it enters or
leaves the buffer.

Shapes: L layers, B rows, H key/value heads, C capacity in tokens, D head size.
"""

from collections import OrderedDict
from collections.abc import Sequence

import torch

CAPACITY_STEP = 256  # tokens; buffers grow in such steps, so that slightly longer batches reuse the memory


class RowBuffer:
    """Keys and values of up to B rows. The model's attention calls `update` through its `cache` argument."""

    def __init__(self, layers: int, heads: int, head_size: int, dtype: torch.dtype, device: torch.device) -> None:
        self._shape = (layers, heads, head_size)
        self._data = torch.empty(layers, 2, 0, heads, 0, head_size, dtype=dtype, device=device)  # L,2,B,H,C,D

    def reserve(self, rows: int, tokens: int) -> None:
        """Make room; what the buffer held is lost when it has to grow."""
        layers, _, have_rows, heads, have_tokens, size = self._data.shape
        if rows > have_rows or tokens > have_tokens:
            tokens = max(have_tokens, -(-tokens // CAPACITY_STEP) * CAPACITY_STEP)
            shape = (layers, 2, max(rows, have_rows), heads, tokens, size)
            # Zeros, not empty: masked positions get weight 0, and 0 times a stray NaN would still be NaN.
            self._data = torch.zeros(shape, dtype=self._data.dtype, device=self._data.device)

    def load(self, row: int, past: torch.Tensor) -> None:
        """Put a stored prefix, shape (L, 2, H, tokens, D), at the start of a row."""
        self._data[:, :, row, :, : past.shape[3]] = past

    def save(self, row: int, tokens: int) -> torch.Tensor:
        """A copy of the first `tokens` of a row, shape (L, 2, H, tokens, D)."""
        return self._data[:, :, row, :, :tokens].clone()

    def move(self, source: int, target: int, tokens: int) -> None:
        self._data[:, :, target, :, :tokens] = self._data[:, :, source, :, :tokens]

    def view(self, first: int, positions: torch.Tensor, real: torch.Tensor | None, width: int) -> "RowView":
        """The model's `cache` for one forward pass: tokens at `positions` (b, q) of rows `first`...; `real` (b, q)
        masks padding."""
        return RowView(self._data[:, :, first : first + len(positions)], positions, real, width)


class RowView:
    """What attention needs for one forward pass over some rows: writes the new keys and values, returns the rows up to
    `width`."""

    def __init__(self, data: torch.Tensor, positions: torch.Tensor, real: torch.Tensor | None, width: int) -> None:
        self._data = data
        self._width = width
        if real is None:
            rows = torch.arange(len(positions), device=positions.device)
            self._from, self._to = (rows, torch.zeros_like(rows)), (rows, positions[:, 0])
        else:
            rows, queries = real.nonzero(as_tuple=True)
            self._from, self._to = (rows, queries), (rows, positions[rows, queries])

    def update(
        self, keys: torch.Tensor, values: torch.Tensor, layer_idx: int, *_args: object, **_kwargs: object
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """`keys`, `values`: (b, H, q, D). Returns (b, H, width, D) views."""
        (rows, queries), (_, positions) = self._from, self._to
        past_keys, past_values = self._data[layer_idx, 0], self._data[layer_idx, 1]
        # Under autocast the rotary embedding gives float32 keys, while the buffer holds the dtype that is computed in.
        past_keys[rows, :, positions] = keys[rows, :, queries].to(past_keys.dtype)
        past_values[rows, :, positions] = values[rows, :, queries].to(past_values.dtype)
        return past_keys[:, :, : self._width], past_values[:, :, : self._width]

    def get_seq_length(self, *_args: object) -> int:
        return 0  # positions are always passed; only asked for as a default


class PrefixStore:
    """Keys and values of token sequences, least recently used out first when `limit` bytes are exceeded."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.bytes = 0
        self._entries: OrderedDict[tuple[int, ...], torch.Tensor] = OrderedDict()
        self._lengths: dict[int, int] = {}

    def longest(self, ids: Sequence[int]) -> tuple[tuple[int, ...], torch.Tensor] | None:
        """The longest stored sequence that is a proper prefix of `ids` (the last token is always computed: it gives
        the logits)."""
        for length in sorted(self._lengths, reverse=True):
            if length < len(ids):
                key = tuple(ids[:length])
                if key in self._entries:
                    self._entries.move_to_end(key)
                    return key, self._entries[key]
        return None

    def put(self, ids: Sequence[int], past: torch.Tensor) -> None:
        key = tuple(ids)
        self.drop(key)
        self._entries[key] = past
        self._lengths[len(key)] = self._lengths.get(len(key), 0) + 1
        self.bytes += past.nbytes
        while self.bytes > self.limit:
            self.drop(next(iter(self._entries)))

    def drop(self, key: tuple[int, ...]) -> None:
        past = self._entries.pop(key, None)
        if past is not None:
            self.bytes -= past.nbytes
            self._lengths[len(key)] -= 1
            if not self._lengths[len(key)]:
                del self._lengths[len(key)]

    def clear(self) -> None:
        self._entries.clear()
        self._lengths.clear()
        self.bytes = 0
