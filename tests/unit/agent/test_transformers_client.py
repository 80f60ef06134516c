import pytest
import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM

from components.avatar.agent.kv_cache import PrefixStore
from components.avatar.agent.parser import call_text
from components.avatar.agent.transformers_client import TransformersClient
from components.avatar.simulator.types import Observation

MESSAGES = ["hi", "How much is link 3?", "Is there a coupon for the rose lipstick on link 12, please?", "ok", "When?"]


@pytest.fixture(scope="module")
def model(tiny_folder):
    model = AutoModelForCausalLM.from_pretrained(tiny_folder, dtype=torch.float32).eval()
    with (
        torch.no_grad()
    ):  # a freshly drawn model is nearly uniform; sharper logits make choices that rounding cannot flip
        model.model.embed_tokens.weight.mul_(8)
    return model


@pytest.fixture
def prompts(chat, harness):
    return [chat.prompt_ids(harness, message) for message in MESSAGES]


def run(client, prompts, harness, *, tokens=12, temperature=0.0, seeds=None):
    return client.generate(
        prompts, [harness] * len(prompts), max_new_tokens=tokens, temperature=temperature, seeds=seeds
    )


def logits_of(model, ids):
    with torch.no_grad():
        return model(torch.tensor([ids])).logits[0].float()


def test_greedy_is_what_the_model_prefers(model, tokenizer, prompts, harness):
    for prompt, generation in zip(prompts, run(TransformersClient(model, tokenizer), prompts, harness), strict=True):
        expected = model.generate(torch.tensor([prompt]), max_new_tokens=12, do_sample=False)[0, len(prompt) :].tolist()
        assert list(generation.ids) == expected


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("batch_size", [1, 2, 3])
def test_ids_do_not_depend_on_the_batch(model, tokenizer, prompts, harness, batch_size, temperature):
    seeds = [10, 11, 12, 13, 14]
    together = run(TransformersClient(model, tokenizer), prompts, harness, temperature=temperature, seeds=seeds)
    client = TransformersClient(model, tokenizer, batch_size=batch_size)
    reverse = run(client, prompts[::-1], harness, temperature=temperature, seeds=seeds[::-1])[::-1]
    assert [g.ids for g in together] == [g.ids for g in reverse]


def test_samples_follow_the_seed_and_the_distribution(model, tokenizer, chat, harness):
    prompt = chat.prompt_ids(harness, "hi")
    client = TransformersClient(model, tokenizer, batch_size=64)
    n = 400
    drawn = run(client, [prompt] * n, harness, tokens=1, temperature=1.0, seeds=list(range(n)))
    assert drawn == drawn and [g.ids for g in drawn] == [
        g.ids for g in run(client, [prompt] * n, harness, tokens=1, temperature=1.0, seeds=list(range(n)))
    ]
    probabilities = logits_of(model, prompt)[-1].softmax(-1)
    token = int(probabilities.argmax())
    expected = float(probabilities[token])
    share = sum(g.ids[0] == token for g in drawn) / n
    assert abs(share - expected) < 4 * (expected * (1 - expected) / n) ** 0.5 + 1e-9


@pytest.mark.parametrize("temperature", [0.0, 0.7])
def test_logprobs_are_the_models(model, tokenizer, prompts, harness, temperature):
    for prompt, generation in zip(
        prompts, run(TransformersClient(model, tokenizer), prompts, harness, temperature=temperature), strict=True
    ):
        logits = logits_of(model, prompt + list(generation.ids))[len(prompt) - 1 : -1] / (temperature or 1.0)
        expected = logits.log_softmax(-1).gather(-1, torch.tensor(generation.ids)[:, None])[:, 0]
        assert torch.allclose(torch.tensor(generation.logprobs), expected, atol=1e-3)


def test_the_past_of_an_episode_is_reused_and_changes_nothing(model, tokenizer, chat, prompts, harness):
    client = TransformersClient(model, tokenizer)
    observation = chat.observation_ids(Observation("tool", '{"price": "129.00"}'))
    for _ in range(3):
        generations = run(client, prompts, harness)
        assert [g.ids for g in generations] == [
            g.ids for g in run(TransformersClient(model, tokenizer), prompts, harness)
        ]
        prompts = [p + list(g.ids) + [chat.end_id] + observation for p, g in zip(prompts, generations, strict=True)]
        found = [client._store.longest(prompt) for prompt in prompts]
        assert all(f and len(p) - len(f[0]) <= len(observation) + 2 for p, f in zip(prompts, found, strict=True))


def test_a_shared_system_message_is_computed_once(model, tokenizer, chat, harness, prompts, monkeypatch):
    client = TransformersClient(model, tokenizer)
    computed = []
    monkeypatch.setattr(client, "_forward", lambda *a, real=client._forward: computed.append(a[1].numel()) or real(*a))
    run(client, prompts, harness, tokens=1)
    system = prompts[0].index(chat.end_id) + 1
    assert computed[0] == system and sum(computed) < system + sum(len(p) - system for p in prompts) * 2 + 5 * 40


def test_a_system_message_that_comes_again_is_kept(model, tokenizer, chat, harness, prompts):
    client = TransformersClient(model, tokenizer)
    for prompt in prompts[:2]:
        run(client, [prompt], harness, tokens=1)
    found = client._store.longest(prompts[2])
    assert found and len(found[0]) == prompts[2].index(chat.end_id) + 1


def test_autocast_computes_in_half_and_keeps_the_weights(model, tokenizer, prompts, harness):
    half = run(TransformersClient(model, tokenizer, autocast=torch.bfloat16), prompts, harness, tokens=4)
    full = run(TransformersClient(model, tokenizer), prompts, harness, tokens=4)
    assert model.dtype == torch.float32
    difference = torch.tensor([g.logprobs[0] for g in half]) - torch.tensor([g.logprobs[0] for g in full])
    assert 0 < difference.abs().max() < 0.5


def test_new_weights_forget_the_past(tiny_folder, tokenizer, prompts, harness):
    model = AutoModelForCausalLM.from_pretrained(tiny_folder, dtype=torch.float32)
    client = TransformersClient(model, tokenizer)
    before = run(client, prompts, harness)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.5)
    after = run(client, prompts, harness)
    assert [g.ids for g in after] == [g.ids for g in run(TransformersClient(model, tokenizer), prompts, harness)]
    assert [g.ids for g in before] != [g.ids for g in after]


def test_rows_stop_alone(model, tokenizer, prompts, harness):
    whole = [g.ids for g in run(TransformersClient(model, tokenizer), prompts, harness, tokens=20)]
    client = TransformersClient(model, tokenizer)
    client.end_id = whole[1][5]
    for generation, ids in zip(run(client, prompts, harness, tokens=20), whole, strict=True):
        cut = ids.index(client.end_id) + 1 if client.end_id in ids else 20
        assert generation.ids == ids[:cut] and len(generation.logprobs) == cut
        assert generation.finish == ("stop" if client.end_id in ids else "length")
        assert (tokenizer.decode(client.end_id) in generation.text) is False or generation.finish == "length"


def test_adapters_are_sampled_from(tiny_folder, tokenizer, prompts, harness):
    base = AutoModelForCausalLM.from_pretrained(tiny_folder, dtype=torch.float32)
    plain = run(TransformersClient(base, tokenizer), prompts, harness, tokens=1)
    adapted = get_peft_model(base, LoraConfig(r=4, target_modules="all-linear", task_type="CAUSAL_LM")).eval()
    torch.manual_seed(0)
    with torch.no_grad():
        for name, parameter in adapted.named_parameters():
            if "lora_B" in name:
                parameter.normal_()
    drawn = run(TransformersClient(adapted, tokenizer), prompts, harness, tokens=1)
    for prompt, before, after in zip(prompts, plain, drawn, strict=True):
        assert after.ids[0] == int(logits_of(adapted, prompt)[-1].argmax())
        assert after.logprobs != before.logprobs


def test_training_mode_is_left_as_it_was(model, tokenizer, prompts, harness):
    model.train()
    run(TransformersClient(model, tokenizer), prompts[:1], harness, tokens=1)
    assert model.training
    model.eval()


class Stubborn(torch.nn.Module):
    """A head that always wants the next token of one text, whatever the hidden state."""

    def __init__(self, ids, vocabulary):
        super().__init__()
        self.ids, self.vocabulary, self.step = ids, vocabulary, 0

    def forward(self, hidden):
        logits = torch.zeros(len(hidden), self.vocabulary)
        logits[:, self.ids[min(self.step, len(self.ids) - 1)]] = 10.0
        self.step += 1
        return logits


def test_constrained_decoding_cannot_write_a_name_that_the_harness_lacks(model, tokenizer, chat, harness):
    stale = chat.agent_ids(call_text("ware_peek", {"link": 3}))
    prompt = chat.prompt_ids(harness, "Is it in stock?")
    names = [tool.name for tool in harness.tools]
    texts = {}
    for decoding in ("free", "constrained"):
        client = TransformersClient(model, tokenizer, decoding=decoding)
        client._head = Stubborn(stale, model.config.vocab_size)
        texts[decoding] = run(client, [prompt], harness, tokens=len(stale))[0].text
    assert texts["free"] == call_text("ware_peek", {"link": 3})
    rest = texts["constrained"].removeprefix('<tool_call>{"name": "')
    assert any(rest.startswith(name) or name.startswith(rest) for name in names)


def test_the_store_finds_the_longest_prefix_and_keeps_to_its_limit():
    past = torch.zeros(1, 2, 1, 4, 8)
    store = PrefixStore(limit=2 * past.nbytes)
    store.put([1, 2], past)
    store.put([1, 2, 3], past)
    assert store.longest([1, 2, 3, 4])[0] == (1, 2, 3)
    assert store.longest([1, 2, 3])[0] == (1, 2)  # the last token is always computed
    assert store.longest([2, 1]) is None
    store.longest([1, 2, 9])
    store.put([7], past)
    assert store.longest([1, 2, 3, 4])[0] == (1, 2) and store.bytes == 2 * past.nbytes
    store.clear()
    assert store.longest([7, 8]) is None and store.bytes == 0
