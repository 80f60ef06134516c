"""TRL's SFTTrainer with the loss on trained positions only.

TRL's fused head also returns each token's entropy and rank, in float32 over the whole vocabulary; on a CPU that costs
about as much as the rest of the step. Here the head sees the trained positions only, in the dtype of the autocast,
and the loss is the cross entropy of these tokens, weighted (weights.py).
"""

from typing import Any

import torch
from torch.nn.functional import cross_entropy
from trl.trainer.sft_trainer import SFTTrainer

from components.integrations.packing import IGNORED, forward_trained


class PackedTrainer(SFTTrainer):
    """Trains on batches of `packing.collate`, in one process: the loss is not scaled for data-parallel averaging."""

    def compute_loss(
        self,
        model: torch.nn.Module,
        inputs: dict[str, Any],
        return_outputs: bool = False,
        num_items_in_batch: torch.Tensor | int | None = None,
    ) -> Any:
        """Weighted sum of the trained tokens' losses over `num_items_in_batch` (the trained tokens of the whole step).

        Logs the accuracy of all trained tokens and of those that weigh more than 1: the decisions.
        """
        outputs, places_K = forward_trained(model, inputs)
        logits_N_V = outputs.logits.flatten(0, 1).float()
        targets_N = inputs["labels"][:, 1:][:, places_K].flatten()
        weights_N = inputs["weights_B_T"][:, 1:][:, places_K].flatten()
        trained_N = targets_N != IGNORED
        losses_N = cross_entropy(logits_N_V, targets_N, ignore_index=IGNORED, reduction="none")
        hits_N = logits_N_V.detach().argmax(-1) == targets_N
        mode = "train" if model.training else "eval"
        self._metrics[mode]["mean_token_accuracy"].append(hits_N[trained_N].float().mean().item())
        decisions_N = trained_N & (weights_N > 1)
        if decisions_N.any():
            self._metrics[mode]["decision_accuracy"].append(hits_N[decisions_N].float().mean().item())
        items = num_items_in_batch if num_items_in_batch is not None else trained_N.sum()
        loss = (losses_N * weights_N).sum() / items
        return (loss, outputs) if return_outputs else loss
