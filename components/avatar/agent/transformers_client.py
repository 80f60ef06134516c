"""The in-process model client: batched generation with any transformers causal language model that has full attention.

Removed from the textbook (`model.generate`): no left padding, no copy of the past at every token, no prompt computed
twice. Rows of a batch start at position 0 of one buffer; the keys and values of an episode are kept between its turns,
a system message that several prompts share is computed once, and a row that has ended leaves the batch at once.

Greedy ids do not depend on the batch as far as the dtype permits: each row attends to its own tokens only, so only the
order of summation inside a matrix product can differ. In float32 that flips no choice but an exact tie; in bfloat16
near-ties can flip.
"""

import random
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import torch

from components.avatar.agent.constrained import Constraint, TokenTable
from components.avatar.agent.kv_cache import PrefixStore, RowBuffer
from components.avatar.agent.types import Generation
from components.avatar.harness.schema import Harness

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

Decoding = Literal["free", "constrained"]
PREFILL_TOKENS = (
    4096  # tokens of one prefill pass, padding included: larger passes gain nothing on a CPU and cost memory
)
KEPT_BYTES = 2 * 1024**3
HEADS_REMEMBERED = 1024  # first messages seen so far, by hash, to notice that one comes again


@dataclass
class _Row:
    """One prompt on its way through a batch."""

    index: int
    prompt: list[int]
    rng: random.Random
    constraint: Constraint | None
    known: int = 0  # tokens whose keys and values are already there
    ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)

    @property
    def length(self) -> int:
        """Tokens in the buffer: all but the token sampled last."""
        return len(self.prompt) + len(self.ids) - 1


class TransformersClient:
    """Implements `ModelClient`. `decoding` constrained: names and argument keys of calls are limited to each prompt's
    harness.

    `batch_size` rows are decoded together. `kept_bytes` bounds the keys and values that are kept between calls of
    `generate`; they are dropped when the weights change. Not a copy: the model is used as it is, in its dtype, or
    under autocast to `autocast` if given.
    """

    def __init__(
        self,
        model: "PreTrainedModel",
        tokenizer: "PreTrainedTokenizerFast",
        decoding: Decoding = "free",
        batch_size: int = 32,
        *,
        autocast: torch.dtype | None = None,
        kept_bytes: int = KEPT_BYTES,
    ) -> None:
        self.model = model
        self.tokenizer = tokenizer
        self.decoding = decoding
        self.batch_size = batch_size
        self.end_id: int = tokenizer.get_added_vocab()["<|im_end|>"]
        self.autocast = autocast
        inside_adapter: Any = getattr(model, "get_base_model", None)  # of a PEFT model
        base: Any = inside_adapter() if inside_adapter else model
        self._decoder = base.get_decoder()
        self._head = base.get_output_embeddings()
        config = base.config
        heads = config.num_key_value_heads
        size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        weight = self._head.weight
        self._device = weight.device
        self._buffer = RowBuffer(config.num_hidden_layers, heads, size, autocast or weight.dtype, weight.device)
        self._store = PrefixStore(kept_bytes)
        self._heads_seen: set[int] = set()
        self._weights: object = None
        self._table = TokenTable(tokenizer) if decoding == "constrained" else None
        self._lock = threading.Lock()

    def generate(
        self,
        prompts: list[list[int]],
        harnesses: Sequence[Harness | None],
        *,
        max_new_tokens: int,
        temperature: float,
        seeds: list[int] | None = None,
    ) -> list[Generation]:
        """One generation a prompt, in order. `temperature` 0 is greedy; else a row's samples depend on its seed alone,
        not on the batch. A prompt whose harness is None (a general one) is never constrained.

        `logprobs` are those of the distribution sampled from (after temperature and constraint; greedy: temperature 1).
        """
        seeds = seeds or [0] * len(prompts)
        rows = [
            _Row(
                index,
                prompt,
                random.Random(seed),
                Constraint(self._table, harness) if self._table and harness else None,
            )
            for index, (prompt, harness, seed) in enumerate(zip(prompts, harnesses, seeds, strict=True))
        ]
        rows.sort(key=lambda row: len(row.prompt))
        results: dict[int, Generation] = {}
        training = self.model.training
        with self._lock, torch.no_grad(), self._precision():
            self.model.eval()
            try:
                self._forget_if_trained()
                for first in range(0, len(rows), self.batch_size):
                    self._run(rows[first : first + self.batch_size], max_new_tokens, temperature, results)
            finally:
                self.model.train(training)
        return [results[index] for index in range(len(prompts))]

    def _precision(self):
        enabled = self.autocast is not None
        return torch.autocast(self._device.type, dtype=self.autocast or torch.bfloat16, enabled=enabled)

    def _forget_if_trained(self) -> None:
        weights = [(id(p), p._version) for p in self.model.parameters()]
        if weights != self._weights:
            self._store.clear()
            self._weights = weights

    def _run(self, rows: list[_Row], max_new_tokens: int, temperature: float, results: dict[int, Generation]) -> None:
        started = time.perf_counter()
        self._buffer.reserve(len(rows), max(len(row.prompt) for row in rows) + max_new_tokens)
        self._share_system_messages(rows)
        live, hidden = self._prefill(rows)
        while live:
            tokens = self._sample(self._head(hidden).float(), live, temperature)
            for slot in range(len(live) - 1, -1, -1):
                row = live[slot]
                row.ids.append(tokens[slot])
                stopped = tokens[slot] == self.end_id
                if stopped or len(row.ids) == max_new_tokens:
                    results[row.index] = self._finished(row, stopped, time.perf_counter() - started)
                    self._store.put((row.prompt + row.ids)[: row.length], self._buffer.save(slot, row.length))
                    last = live.pop()
                    if last is not row:  # the last row takes the place of the one that ended
                        self._buffer.move(len(live), slot, last.length)
                        live[slot] = last
                elif row.constraint:
                    row.constraint.feed(tokens[slot])
            if live:
                positions = torch.tensor([[row.length] for row in live], device=self._device)
                newest = torch.tensor([[row.ids[-1]] for row in live], device=self._device)
                hidden = self._forward(0, newest, positions, None)[:, 0]

    def _share_system_messages(self, rows: list[_Row]) -> None:
        """Compute a first message (up to its closing token) that several prompts share, now or over time, only once."""
        heads = Counter(
            tuple(row.prompt[: row.prompt.index(self.end_id) + 1]) for row in rows if self.end_id in row.prompt[:-1]
        )
        shared = []
        for head, count in heads.items():
            found = self._store.longest([*head, self.end_id])
            if (count > 1 or hash(head) in self._heads_seen) and (found is None or len(found[0]) < len(head)):
                shared.append(list(head))
        if len(self._heads_seen) > HEADS_REMEMBERED:
            self._heads_seen.clear()
        self._heads_seen.update(map(hash, heads))
        for first in range(0, len(shared), len(rows)):
            batch = sorted(shared[first : first + len(rows)], key=len)
            self._extend([(0, head) for head in batch])
            for slot, head in enumerate(batch):
                self._store.put(head, self._buffer.save(slot, len(head)))

    def _prefill(self, rows: list[_Row]) -> tuple[list[_Row], torch.Tensor]:
        """Rows in the order of their slots, and the last hidden state of each, shape (rows, hidden)."""
        pasts = {}
        for row in rows:
            found = self._store.longest(row.prompt)
            if found:
                pasts[row.index] = found
                row.known = len(found[0])
        live = sorted(rows, key=lambda row: len(row.prompt) - row.known)
        for slot, row in enumerate(live):
            if row.index in pasts:
                key, past = pasts[row.index]
                self._buffer.load(slot, past)
                if key.count(self.end_id) > 1:  # an earlier turn of this episode; a shared first message stays
                    self._store.drop(key)
        return live, self._extend([(row.known, row.prompt) for row in live])

    def _extend(self, rows: Sequence[tuple[int, list[int]]]) -> torch.Tensor:
        """Bring slot i from `known` tokens to its whole sequence; last hidden states, (rows, hidden). Rows sorted by
        what is new."""
        states: list[torch.Tensor] = []
        first = 0
        while first < len(rows):
            count = 1
            while first + count < len(rows):
                known, ids = rows[first + count]
                if (count + 1) * (len(ids) - known) > PREFILL_TOKENS:
                    break
                count += 1
            states.append(self._extend_together(first, rows[first : first + count]))
            first += count
        return torch.cat(states)

    def _extend_together(self, first: int, rows: Sequence[tuple[int, list[int]]]) -> torch.Tensor:
        new = [len(ids) - known for known, ids in rows]
        width = max(new)
        tokens = torch.zeros(len(rows), width, dtype=torch.long)
        positions = torch.zeros(len(rows), width, dtype=torch.long)
        for i, (known, ids) in enumerate(rows):
            tokens[i, : new[i]] = torch.tensor(ids[known:])
            positions[i, : new[i]] = torch.arange(known, len(ids))
        real = torch.arange(width) < torch.tensor(new)[:, None]
        tokens, positions, real = tokens.to(self._device), positions.to(self._device), real.to(self._device)
        hidden = self._forward(first, tokens, positions, real)
        return hidden[torch.arange(len(rows)), torch.tensor(new) - 1]

    def _forward(
        self, first: int, tokens: torch.Tensor, positions: torch.Tensor, real: torch.Tensor | None
    ) -> torch.Tensor:
        """Hidden states (b, q, hidden) of `tokens` (b, q) at `positions` of the rows from `first` on; `real` marks
        what is not padding."""
        width = int(positions.max()) + 1
        seen = torch.arange(width, device=self._device) <= positions[:, :, None]
        return self._decoder(
            input_ids=tokens,
            attention_mask=seen[:, None],
            position_ids=positions,
            cache=self._buffer.view(first, positions, real, width),
            use_cache=True,
        ).last_hidden_state

    def _sample(self, logits: torch.Tensor, live: list[_Row], temperature: float) -> list[int]:
        """One token a row; appends its log-probability to the row. `logits`: (rows, vocabulary), float32, changed in
        place."""
        for slot, row in enumerate(live):
            if row.constraint:
                row.constraint.mask(logits[slot])
        if temperature == 0:
            tokens = logits.argmax(-1)
        else:
            logits /= temperature
            cumulative = logits.softmax(-1).cumsum(-1)
            # One uniform number a row, from the row's own generator: the sample cannot depend on the batch.
            draws = torch.tensor([[row.rng.random()] for row in live], device=logits.device)
            tokens = torch.searchsorted(cumulative, draws * cumulative[:, -1:], right=True)[:, 0]
            tokens.clamp_(max=logits.shape[-1] - 1)  # rounding may put a draw on the very end
        chosen = logits.gather(-1, tokens[:, None])[:, 0] - logits.logsumexp(-1)
        for row, logprob in zip(live, chosen.tolist(), strict=True):
            row.logprobs.append(logprob)
        return tokens.tolist()

    def _finished(self, row: _Row, stopped: bool, seconds: float) -> Generation:
        text = self.tokenizer.decode(row.ids[:-1] if stopped else row.ids, clean_up_tokenization_spaces=False)
        assert isinstance(text, str)  # one sequence was decoded
        return Generation(tuple(row.ids), text, "stop" if stopped else "length", tuple(row.logprobs), seconds)
