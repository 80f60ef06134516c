"""Trials differ in what their file says, see one share of the examples, and stand in one table."""

from pathlib import Path

import pytest
from transformers import AutoTokenizer

from components.avatar.agent.actors import OracleActor
from components.avatar.agent.chat import Chat
from components.avatar.agent.episode import Start, run_episodes
from components.avatar.agent.examples import Example, example_from_episode, write_rows
from components.avatar.errors import InputError
from components.avatar.simulator.merchant import load_merchant
from components.avatar.simulator.sampling import sample_scenarios
from components.integrations.weights import resolve_base_model
from pipelines.benchmark.trials import TRIALS, load_trials, share_of, table
from pipelines.profile import load_profile

PROFILE = load_profile("local")
MERCHANT = Path(__file__).parents[3] / "infra/harnesses/lumi-beauty"


def test_a_trial_is_the_profile_but_for_what_it_names() -> None:
    trials = load_trials(TRIALS, PROFILE, 0.5)
    own = PROFILE.sft.model_dump() | {"general_tokens": PROFILE.sft.general_tokens // 2}
    assert next(iter(trials.values())).model_dump() == own  # the first is what the others are compared with
    changed = {name: {k for k, v in t.model_dump().items() if v != own[k]} for name, t in trials.items()}
    assert changed["no_replay"] == {"general_tokens"} and changed["upper_half"] == {"frozen_layers"}
    assert all(changed[name] for name in list(trials)[1:])


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a: {learning_rte: 1}\nb: {epochs: 0}\n", ["a", "learning_rte", "b", "epochs"]),
        ("a: {frozen_layers: 3, tuning: lora}\n", ["frozen_layers needs tuning full"]),
        ("[1, 2]\n", ["a mapping"]),
        ("", ["a mapping"]),
        ("a: [", ["a YAML file"]),
    ],
)
def test_a_file_of_trials_is_refused_with_all_of_its_faults(tmp_path: Path, text: str, found: list[str]) -> None:
    path = tmp_path / "trials.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as caught:
        load_trials(path, PROFILE, 0.5)
    assert all(part in str(caught.value) for part in [str(path), *found])


def test_a_share_is_whole_stretches_of_one_harness_in_their_order(tmp_path: Path) -> None:
    world = load_merchant(MERCHANT)
    chat = Chat(AutoTokenizer.from_pretrained(resolve_base_model("random:tiny", tmp_path / "cache")))
    scenario = sample_scenarios(world, 1, seed=0, split="train")[0]
    result = run_episodes([Start(world.harness, scenario)], OracleActor(chat), chat, world.catalogue)[0]
    one = example_from_episode("0", scenario, world.harness, scenario.questions[0].text, result)
    rows = [one.model_copy(update={"id": str(i), "harness_digest": f"h{i // 4}"}) for i in range(48)]
    write_rows(tmp_path / "hsa.jsonl", rows)
    third: list[Example] = share_of(tmp_path / "hsa.jsonl", 1 / 3)
    ids = [int(example.id) for example in third]
    assert ids == sorted(ids) and len(ids) == 16
    assert all(ids[at : at + 4] == list(range(ids[at], ids[at] + 4)) for at in range(0, 16, 4))
    assert ids[-1] >= 36  # the end of the curriculum is there, too
    assert share_of(tmp_path / "hsa.jsonl", 1.0) == rows


def test_the_table_gives_time_as_a_ratio_to_the_first_trial() -> None:
    cell = {"T1": {"value": 0.25, "n": 80}, "T2": {"value": None, "n": 0}}
    trial = {"tokens": 1000, "decision_accuracy": 0.5, "metrics": {"free": cell}}
    lines = table({"trials": {"own": trial | {"seconds": 50.0}, "half": trial | {"seconds": 25.0}}}).splitlines()
    assert lines[1].split()[:7] == ["own", "free", "1.00", "1000", "50.0%", "25.0%", "-"]
    assert lines[2].split()[:3] == ["half", "free", "0.50"]
