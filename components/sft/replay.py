"""General replay: answers of the base model to general prompts, mixed into the domain rows.

Full-weight SFT on one domain destroys what the instruct model could do outside it, and a few steps of distillation do
not bring that back. Self-distillation keeps it: the answers come from the very model that is trained, so they ask it
for no change but to fulfil the prompt's constraints more often (of the samples of a prompt a verified one is kept
before any other). Both arms replay the same answers.
"""

import math
from collections.abc import Sequence
from typing import TypeVar

from components.avatar.agent.chat import Chat
from components.avatar.agent.transformers_client import TransformersClient
from components.avatar.agent.types import Generation
from components.avatar.general.constraints import is_answer
from components.avatar.general.prompts import GeneralPrompt, sample_general_prompts
from components.integrations.packing import Encoded
from components.integrations.progress import Progress

T = TypeVar("T")

GROUP = "general"  # no digest of a harness looks like it: general answers share rows with each other only
TEMPERATURE = 0.7
_ROUND = 64  # prompts asked before the tokens are counted again
_MIN_YIELD = 10  # tokens a prompt: a base model that gives fewer has nothing to replay, and the asking ends


def general_replay(
    client: TransformersClient,
    chat: Chat,
    *,
    tokens: int,
    samples: int,
    max_new_tokens: int,
    seed: int,
    progress: Progress,
) -> tuple[list[Encoded], float]:
    """Conversations of at least `tokens` tokens in all (prompt and answer; fewer when the model hardly answers), and
    the share of them whose answer fulfils every constraint of its prompt.

    Of `samples` answers a prompt one is kept: a fulfilled one if there is any, else one that is on its subject and
    ended by itself, else none.
    """
    kept: list[Encoded] = []
    verified = total = 0
    rounds = math.ceil(tokens / (_ROUND * _MIN_YIELD))
    prompts = sample_general_prompts(rounds * _ROUND, seed=seed, split="train")
    for number in range(rounds):
        asked = prompts[number * _ROUND : (number + 1) * _ROUND]
        for prompt, ids, answers in _ask(client, chat, asked, samples, max_new_tokens):
            good = [answer for answer in answers if answer.finish == "stop" and is_answer(answer.text, prompt.subject)]
            good.sort(key=lambda answer: not prompt.fulfilled(answer.text))
            if not good or total >= tokens:
                continue
            verified += prompt.fulfilled(good[0].text)
            sequence = (*ids, *good[0].ids)
            mask = (0,) * len(ids) + (1,) * len(good[0].ids)
            kept.append(Encoded(sequence, mask, tuple(map(float, mask)), GROUP))
            total += len(sequence)
        progress.update(min(total, tokens), tokens, unit="tokens of general replay")
        if total >= tokens:
            break
    return kept, verified / len(kept) if kept else 0.0


def _ask(
    client: TransformersClient,
    chat: Chat,
    prompts: list[GeneralPrompt],
    samples: int,
    max_new_tokens: int,
) -> list[tuple[GeneralPrompt, list[int], list[Generation]]]:
    """Each prompt with its ids and `samples` answers."""
    ids = [chat.messages_ids([{"role": "user", "content": p.text}], add_generation_prompt=True) for p in prompts]
    repeated = [row for row in ids for _ in range(samples)]
    answers = client.generate(
        repeated,
        [None] * len(repeated),
        max_new_tokens=max_new_tokens,
        temperature=TEMPERATURE,
        seeds=list(range(len(repeated))),
    )
    return [
        (prompt, row, answers[first : first + samples])
        for prompt, row, first in zip(prompts, ids, range(0, len(answers), samples), strict=True)
    ]


def interleave(rows: Sequence[T], others: Sequence[T]) -> list[T]:
    """All of `rows` and `others`, both in their order, the others spread evenly."""
    placed = [((index + 0.5) / len(rows), row) for index, row in enumerate(rows)]
    placed += [((index + 0.5) / len(others), row) for index, row in enumerate(others)]
    return [row for _, row in sorted(placed, key=lambda pair: pair[0])]
