"""General prompts as tables: one row a prompt, one row a kind of constraint and split."""

import re
from collections import Counter
from collections.abc import Sequence

import pandas as pd

from components.avatar.agent.chat import Chat
from components.avatar.general.constraints import Kind
from components.avatar.general.prompts import GeneralPrompt
from components.data_validation.frames import script_share

LANGUAGE = "en"  # the general prompts are English, whatever the merchant speaks


def prompt_frame(train: Sequence[GeneralPrompt], test: Sequence[GeneralPrompt], chat: Chat) -> pd.DataFrame:
    """`shared` counts the sentences of a prompt (its task, its wordings) that occur in the other split;
    `contradictions` the constraints beyond the first of one kind. `tokens` are those of the whole prompt, roles
    included.
    """
    frame_tokens = len(chat.messages_ids([{"role": "user", "content": ""}], add_generation_prompt=True))
    texts = [prompt.text for prompt in (*train, *test)]
    tokens = iter(chat.tokenizer(texts, add_special_tokens=False)["input_ids"] if texts else [])
    sentences = {"train": _sentences(train), "test": _sentences(test)}
    rows = []
    for split, prompts, other in (("train", train, sentences["test"]), ("test", test, sentences["train"])):
        for prompt in prompts:
            kinds = [constraint.kind for constraint in prompt.constraints]
            rows.append(
                {
                    "id": prompt.id,
                    "split": split,
                    "text": prompt.text,
                    "constraints": len(kinds),
                    "contradictions": len(kinds) - len(set(kinds)),
                    "shared": len(_sentences([prompt]) & other),
                    "tokens": frame_tokens + len(next(tokens)),
                    "script_share": script_share(prompt.text, LANGUAGE),
                }
            )
    columns = ["id", "split", "text", "constraints", "contradictions", "shared", "tokens", "script_share"]
    return pd.DataFrame(rows, columns=pd.Index(columns))


def constraint_frame(train: Sequence[GeneralPrompt], test: Sequence[GeneralPrompt]) -> pd.DataFrame:
    """n prompts of each split with a kind of constraint, and their share of the split."""
    rows = []
    for split, prompts in (("train", train), ("test", test)):
        counts = Counter(kind for prompt in prompts for kind in {constraint.kind for constraint in prompt.constraints})
        rows += [
            {"id": f"{kind} ({split})", "n": counts[kind], "share": counts[kind] / max(1, len(prompts))}
            for kind in Kind
        ]
    return pd.DataFrame(rows, columns=pd.Index(["id", "n", "share"]))


def _sentences(prompts: Sequence[GeneralPrompt]) -> set[str]:
    """Tasks and wordings, numbers and quoted words left out: what a model could learn to recognise."""
    parts = (part for prompt in prompts for part in re.split(r"(?<=[.?!])\s+", prompt.text))
    return {re.sub(r'"[^"]*"|\d+', "_", part).strip().lower() for part in parts if part.strip()}
