"""TRL's GRPOTrainer with the episodes of a group in one shared-prefix row.

The episodes of a group start from one prompt, which is most of each: a system message with the whole harness. TRL
computes it once an episode; here it is computed once a group (packing.py, as in SFT). The log-probabilities are those
of separate rows (tests/unit/training/test_group_rows.py compares losses and gradients with TRL's)."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import torch
from trl.trainer.grpo_trainer import GRPOTrainer

from components.integrations import tree_attention
from components.integrations.packing import Encoded, collate, forward_trained, make_row


class SharedPrefixTrainer(GRPOTrainer):
    """Text models without a router only. A batch shares what it holds of a group, so `episodes_per_batch` is best a
    whole step."""

    def _get_per_token_logps_and_entropies(
        self,
        model: Any,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        logits_to_keep: int,
        batch_size: int | None = None,
        compute_entropy: bool = False,
        compute_aux_loss: bool = False,
        **_: Any,
    ) -> tuple[torch.Tensor, torch.Tensor | None, None]:
        """Log-probabilities and entropies of the last `logits_to_keep` tokens, (B, logits_to_keep) each, 0 at padding.

        `input_ids` and `attention_mask`, (B, T): prompts padded on the left, completions on the right. `batch_size` is
        not read: a group is a batch of its own."""
        assert not compute_aux_loss, "no model of ours has a router"
        self.accelerator.unwrap_model(model).set_attn_implementation(tree_attention.NAME)
        split = input_ids.shape[1] - logits_to_keep
        real = attention_mask.bool()
        prompts = [tuple(row[:split][kept[:split]].tolist()) for row, kept in zip(input_ids, real, strict=True)]
        completions = [row[split:][kept[split:]] for row, kept in zip(input_ids, real, strict=True)]
        groups: dict[tuple[int, ...], list[int]] = defaultdict(list)
        for index, prompt in enumerate(prompts):
            groups[prompt].append(index)
        found: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        for prompt, members in groups.items():
            found.update(zip(members, self._group(model, prompt, [completions[i] for i in members]), strict=True))
        logps, entropies = zip(*(found[index] for index in range(len(prompts))), strict=True)
        return _padded(logps, logits_to_keep), _padded(entropies, logits_to_keep) if compute_entropy else None, None

    def _group(
        self, model: Any, prompt: tuple[int, ...], completions: list[torch.Tensor]
    ) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Log-probabilities and entropies of each completion after `prompt`."""
        sequences = []
        for completion in completions:
            ids = (*prompt, *completion.tolist())
            mask = (0,) * len(prompt) + (1,) * len(completion)
            sequences.append(Encoded(ids, mask, tuple(map(float, mask)), "group"))
        row = make_row(sequences)
        batch = {name: value.to(completions[0].device) for name, value in collate([vars(row)], pad_id=0).items()}
        with self.accelerator.autocast():
            outputs, places_K = forward_trained(model, batch)
        all_K_V = torch.log_softmax(outputs.logits[0].float() / self.temperature, dim=-1)
        logps_K = all_K_V.gather(-1, batch["labels"][0, 1:][places_K][:, None])[:, 0]
        with torch.no_grad():
            entropies_K = -(all_K_V.exp() * all_K_V).sum(-1)
        lengths = [len(completion) for completion in completions]
        return list(zip(logps_K.split(lengths), entropies_K.split(lengths), strict=True))


def _padded(rows: Sequence[torch.Tensor], width: int) -> torch.Tensor:
    return torch.stack([torch.nn.functional.pad(row, (0, width - len(row))) for row in rows])
