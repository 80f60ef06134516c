"""Examples: one row form for both arms, the same ids as the episode loop, only the agent's right turns trained on."""

import pytest

from components.avatar.agent.actors import OracleActor
from components.avatar.agent.episode import Start, run_episodes
from components.avatar.agent.examples import (
    Example,
    ExampleSegment,
    Trajectory,
    example_from_episode,
    read_rows,
    to_ids,
    training_tokens,
    write_rows,
)
from components.avatar.agent.surfaces import surfaces_of
from components.avatar.errors import InputError
from components.avatar.simulator.sampling import sample_scenarios
from components.data_validation.verify import verify


@pytest.fixture(scope="module")
def played(world, chat):
    scenarios = sample_scenarios(world, 24, 5, "train", fault_rate=0.5, questions_per_episode=2)
    starts = [Start(world.harness, scenario) for scenario in scenarios]
    return list(zip(scenarios, run_episodes(starts, OracleActor(chat), chat, world.catalogue), strict=True))


def test_ids_and_mask_are_those_of_the_episode(world, chat, played):
    for scenario, result in played:
        example = example_from_episode("x", scenario, world.harness, scenario.questions[0].text, result)
        ids, mask = to_ids(example, chat)
        assert ids == [*result.prompt_ids, *result.completion_ids]
        assert result.corrections == 0 and mask == [0] * len(result.prompt_ids) + result.agent_mask


def test_rows_survive_json(world, chat, played, tmp_path):
    scenario, result = played[0]
    example = example_from_episode(
        "x", scenario, world.harness, scenario.questions[0].text, result, ("rename_tools",), 0.5
    )
    assert write_rows(tmp_path / "rows.jsonl", [example, example]) == 2
    [first, second] = read_rows(tmp_path / "rows.jsonl", Example)
    assert first == second == example
    assert first.harness.digest == world.harness.digest == first.harness_digest
    assert to_ids(first, chat) == to_ids(example, chat)


def test_every_bad_line_is_named(tmp_path):
    (tmp_path / "rows.jsonl").write_text('{"scenario": 3}\n\nnot json\n', encoding="utf-8")
    with pytest.raises(InputError) as caught:
        read_rows(tmp_path / "rows.jsonl", Trajectory)
    assert [fault.field.split(":")[0] for fault in caught.value.faults] == ["line 1", "line 2", "line 3"]
    with pytest.raises(InputError, match=r"missing\.jsonl"):
        read_rows(tmp_path / "missing.jsonl", Trajectory)


def test_the_supervised_text_of_a_retry_is_the_recovery_only(augmented, chat):
    """Golden: what the student is trained to write in an episode with a mistake."""
    rows = read_rows(augmented / "hsa.jsonl", Example)
    corrected = [example for example in rows if _corrections(example) and not example.missteps]
    assert corrected, "retry_share is 0.2 here"
    for example in corrected:
        ids, mask = to_ids(example, chat)
        trained = chat.tokenizer.decode([token for token, used in zip(ids, mask, strict=True) if used])
        right = [
            segment.text
            for segment, after in zip(example.segments, [*example.segments[1:], None], strict=True)
            if segment.author == "agent" and (after is None or after.kind != "correction")
        ]
        assert trained == "".join(f"{text}<|im_end|>" for text in right)
        wrong = [s.text for s in example.segments if s.author == "agent" and not s.trained]
        assert len(wrong) == 1


def test_a_misstep_is_shown_and_not_trained_on(world, augmented, chat):
    """Also: with the same wrong call trained on, or one more of them, the verifier refuses the example."""
    rows = [example for example in read_rows(augmented / "hsa.jsonl", Example) if example.missteps]
    assert {_corrections(example) for example in rows} == {0, 1}, "misstep_share is 0.2 here; one kind is seen by a hook"
    for example in rows:
        wrong, *more = [number for number, s in enumerate(example.segments) if s.author == "agent" and not s.trained]
        assert (example.segments[wrong].kind, example.segments[wrong + 1].kind) == ("call", "tool")
        assert more == [wrong + 2] * _corrections(example)  # the reply that the hook corrects
        repair = example.segments[wrong + 2 + 2 * len(more)]
        assert repair.trained and (not more or repair.kind == "call")
        assert verify(example, world.catalogue) == ""
        segments = tuple(s.model_copy(update={"trained": s.author == "agent"}) for s in example.segments)
        assert verify(example.model_copy(update={"segments": segments}), world.catalogue).startswith("reward below 1")


def _corrections(example):
    return sum(segment.kind == "correction" for segment in example.segments)


def test_tokens_of_shared_prefixes(augmented, chat):
    rows = read_rows(augmented / "fixed.jsonl", Example)[:6]
    ids = [to_ids(example, chat)[0] for example in rows]
    apart = sum(map(len, ids))
    assert training_tokens(rows, ids, branches=1) == apart
    prefix = next(i for i, (a, b) in enumerate(zip(ids[0], ids[1], strict=False)) if a != b)
    assert training_tokens(rows[:2], ids[:2], branches=2) == len(ids[0]) + len(ids[1]) - prefix
    assert training_tokens(rows, ids, branches=6) < training_tokens(rows, ids, branches=2) < apart


def test_surfaces_list_every_name(world):
    surfaces = surfaces_of([world.harness])
    assert {"price_check", "link", "small_talk"} <= set(surfaces.names)
    assert {"price", "check", "small", "talk"} <= set(surfaces.words)
    assert "Current price of a link." in surfaces.descriptions or surfaces.descriptions


def test_unknown_fields_are_refused():
    with pytest.raises(ValueError, match="extra"):
        ExampleSegment(author="agent", kind="call", text="", trained=True, note="?")  # type: ignore[call-arg]
