"""General replay keeps good answers of the base model only, and frozen layers keep their weights."""

from pathlib import Path

import pytest
import torch
from pydantic import ValidationError
from transformers import AutoModelForCausalLM, AutoTokenizer

from components.avatar.agent.chat import Chat
from components.avatar.agent.types import Generation
from components.avatar.general.prompts import sample_general_prompts
from components.integrations.progress import Progress
from components.sft.replay import GROUP, general_replay, interleave
from components.sft.run import run as fine_tune
from components.sft.settings import Settings


class Scripted:
    """Answers a general prompt with one of the texts in turn; `{subject}` becomes the prompt's."""

    def __init__(self, chat: Chat, texts: list[str], finish: str = "stop") -> None:
        self.chat, self.texts, self.finish = chat, texts, finish
        self.asked = 0

    def generate(self, prompts, harnesses, *, max_new_tokens, temperature, seeds):
        answers = []
        for ids in prompts:
            shown = self.chat.decode(ids)
            subject = next(p.subject for p in sample_general_prompts(2000, seed=7, split="train") if p.text in shown)
            text = self.texts[self.asked % len(self.texts)].format(subject=subject)
            answers.append(Generation(tuple(self.chat.agent_ids(text)), text, self.finish))  # pyright: ignore[reportArgumentType]
            self.asked += 1
        return answers


def replay(client: Scripted, chat: Chat, tokens: int = 2000):
    return general_replay(
        client,  # pyright: ignore[reportArgumentType]
        chat,
        tokens=tokens,
        samples=2,
        max_new_tokens=32,
        seed=7,
        progress=Progress("test"),
    )


@pytest.fixture
def chat(tiny: Path) -> Chat:
    return Chat(AutoTokenizer.from_pretrained(tiny))


def test_answers_are_replayed_until_there_are_enough_tokens_and_only_they_are_trained_on(chat: Chat) -> None:
    kept, _ = replay(Scripted(chat, ["I like {subject}."]), chat)
    sizes = [len(sequence.ids) for sequence in kept]
    assert sum(sizes) >= 2000 > sum(sizes[:-1])
    for sequence in kept:
        answer = [token for token, trained in zip(sequence.ids, sequence.mask, strict=True) if trained]
        assert chat.decode(answer).startswith("I like ") and answer[-1] == chat.end_id
        assert sequence.group == GROUP and sequence.weights == tuple(map(float, sequence.mask))


def test_of_two_answers_the_one_that_fulfils_its_prompt_is_kept(chat: Chat) -> None:
    plain, _ = replay(Scripted(chat, ["I like {subject}, they say."]), chat)
    chosen, verified = replay(Scripted(chat, ["I like {subject}, they say.", "I like {subject}"]), chat)
    assert 0 < verified < 1
    texts = [chat.decode([t for t, m in zip(s.ids, s.mask, strict=True) if m]) for s in chosen]
    assert {"," in text for text in texts} == {True, False}  # "no commas" is fulfilled by the second only
    assert len(plain) >= 1


@pytest.mark.parametrize(
    ("texts", "finish"), [(["Something else entirely."], "stop"), (["I like {subject}"], "length"), ([""], "stop")]
)
def test_a_model_without_good_answers_ends_the_asking(chat: Chat, texts: list[str], finish: str) -> None:
    client = Scripted(chat, texts, finish)
    assert replay(client, chat) == ([], 0.0)
    assert 0 < client.asked < 2000


def test_no_tokens_asked_for_means_no_call(chat: Chat) -> None:
    client = Scripted(chat, ["I like {subject}."])
    assert replay(client, chat, tokens=0) == ([], 0.0)
    assert client.asked == 0


def test_interleave_keeps_both_orders_and_spreads_the_others() -> None:
    mixed = interleave(list(range(12)), ["a", "b", "c"])
    assert [x for x in mixed if isinstance(x, int)] == list(range(12))
    assert [x for x in mixed if isinstance(x, str)] == ["a", "b", "c"]
    gaps = [mixed.index("b") - mixed.index("a"), mixed.index("c") - mixed.index("b")]
    assert gaps == [5, 5]
    assert interleave([1, 2], []) == [1, 2]


def test_frozen_layers_and_embeddings_keep_their_weights(tiny: Path, examples: Path, tmp_path: Path) -> None:
    output = tmp_path / "out"
    output.mkdir()
    fine_tune(
        model=tiny,
        examples=examples,
        output=output,
        settings=Settings(frozen_layers=1, learning_rate=1e-2, rows_per_step=1, epochs=4),
        seed=0,
        progress=Progress("test"),
    )
    before = AutoModelForCausalLM.from_pretrained(tiny).state_dict()
    after = AutoModelForCausalLM.from_pretrained(output / "model").state_dict()
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert changed and not any("layers.0." in name or "embed" in name for name in changed)
    assert any("layers.1." in name for name in changed)


def test_frozen_layers_need_full_tuning() -> None:
    with pytest.raises(ValidationError, match="frozen_layers needs tuning full, found lora"):
        Settings(frozen_layers=2, tuning="lora")
