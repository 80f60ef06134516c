"""Proof that a registered model is the trained one: loaded fresh with plain transformers it writes the same ids."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

_TOOL = {
    "type": "function",
    "function": {
        "name": "price_check",
        "description": "Price of a link.",
        "parameters": {"type": "object", "properties": {"link": {"type": "integer"}}, "required": ["link"]},
    },
}
# A plain message (the base model's own template), one with a system message, and one with a tool (our template).
PROMPTS: tuple[tuple[list[dict[str, str]], list[dict[str, Any]] | None], ...] = (
    ([{"role": "user", "content": "Name three colours."}], None),
    ([{"role": "system", "content": "You sell tea."}, {"role": "user", "content": "Which tea is mild?"}], None),
    ([{"role": "system", "content": "You sell tea."}, {"role": "user", "content": "How much is link 3?"}], [_TOOL]),
)


@dataclass(frozen=True)
class Sameness:
    """Result of `same_generation`: `compared` ids were compared; `difference` says where they differ first, "" when
    nowhere.
    """

    compared: int
    difference: str = ""

    @property
    def same(self) -> bool:
        return not self.difference


def same_generation(a: Path, b: Path, *, max_new_tokens: int = 24) -> Sameness:
    """Compare what two model folders make of PROMPTS: the prompt's ids (tokenizer and template), then the greedy ids.

    One model is in memory at a time. Both run with the dtype that they are stored in, on the GPU when there is one.
    """
    compared = 0
    for number, (left, right) in enumerate(zip(_ids(a, max_new_tokens), _ids(b, max_new_tokens), strict=True)):
        for part, x, y in zip(("prompt", "greedy"), left, right, strict=True):
            if x != y:
                place = next((i for i, (p, q) in enumerate(zip(x, y, strict=False)) if p != q), min(len(x), len(y)))
                return Sameness(compared, f"{part} ids of prompt {number} differ from position {place} on")
            compared += len(x)
    return Sameness(compared)


def _ids(folder: Path, max_new_tokens: int) -> list[tuple[list[int], list[int]]]:
    """(prompt ids, greedy ids) for each of PROMPTS."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype="auto").eval()
    model.to(device)
    found = []
    for messages, tools in PROMPTS:
        prompt = tokenizer.apply_chat_template(messages, tools=tools, add_generation_prompt=True, return_dict=False)
        inputs = torch.tensor([prompt], device=device)
        with torch.inference_mode():
            written = model.generate(
                inputs,
                attention_mask=torch.ones_like(inputs),
                do_sample=False,
                min_new_tokens=max_new_tokens,  # an early end would leave nothing to compare
                max_new_tokens=max_new_tokens,
                pad_token_id=tokenizer.eos_token_id,
            )
        found.append((list(prompt), written[0, len(prompt) :].tolist()))
    return found
