"""The rollout viewer, fed with what the simulator and the episode loop really leave."""

import json
import re
import shutil
import subprocess
from itertools import product
from pathlib import Path

import pytest

from components.avatar.agent.actors import OracleActor, ScriptedActor, call_everything, never_call
from components.avatar.agent.chat import Chat
from components.avatar.agent.episode import Start, run_episodes
from components.avatar.agent.transcript import transcript_row
from components.avatar.simulator.merchant import load_merchant
from components.avatar.simulator.sampling import sample_scenarios
from pipelines.report.page import write_report
from pipelines.report.rollouts import (
    FAILED_SHOWN,
    KINDS,
    SUCCEEDED_SHOWN,
    TEXT_SHOWN,
    failure_kinds,
    outcome,
    rollout_viewer,
)
from pipelines.summary import summarise
from tests.unit.pipelines.test_report import finish

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def cases():
    """Episodes of a good agent and of two bad ones, as the evaluation writes them."""
    from transformers import AutoTokenizer

    from components.integrations.weights import resolve_base_model

    chat = Chat(AutoTokenizer.from_pretrained(resolve_base_model("random:tiny", ROOT / ".cache")))
    world = load_merchant(ROOT / "infra" / "harnesses" / "lumi-beauty")
    starts = [Start(world.harness, scenario) for scenario in sample_scenarios(world, 16, 5, "test", fault_rate=0.5)]
    actors = {
        "hat": OracleActor(chat),
        "fixed_sft": ScriptedActor(chat, call_everything),
        "base": ScriptedActor(chat, never_call),
    }
    return [
        transcript_row(
            result,
            start.scenario,
            arm=arm,
            decoding="free",
            suite="T1",
            failed=result.score is None or result.score.quality < 1,
            tools=[tool.name for tool in start.harness.tools],
        )
        for arm, actor in actors.items()
        for start, result in zip(starts, run_episodes(starts, actor, chat, world.catalogue), strict=True)
    ]


def shown_cases(viewer):
    return [case for group in viewer["groups"] for case in group["cases"]]


def test_every_call_and_every_final_reply_has_its_finding(cases):
    for row in cases:
        viewer = rollout_viewer([row], [])
        (case,) = shown_cases(viewer)
        called = [turn for turn in case["turns"] if turn["kind"] == "call"]
        answered = [turn for turn in case["turns"] if turn["kind"] == "reply"]
        assert len(called) == len(row["calls"]) and all(len(turn["notes"]) == 1 for turn in called)
        final = [turn for turn in answered if turn["notes"] != [("warn", "sent back by a hook")]]
        assert [turn["text"] for turn in final] == [reply["text"] for reply in row["replies"]]


def test_a_failure_has_a_kind_and_a_good_agent_has_good_notes(cases):
    assert all(failure_kinds(row) for row in cases if row["failed"])
    assert not any("other" in failure_kinds(row) for row in cases), "every failure of these agents has its name"
    good = [row for row in cases if row["arm"] == "hat"]
    assert {outcome(row) for row in good} == {"succeeded", "recovered"}
    tones = {
        tone
        for case in shown_cases(rollout_viewer(good, []))
        for turn in case["turns"]
        for tone, word in turn["notes"]
        if not word.startswith("needed, injected fault")
    }
    assert tones == {"good"}


def test_counts_are_of_all_cases_and_the_sample_is_bounded_and_takes_all_kinds(cases):
    many = [row | {"arm": arm, "decoding": decoding, "suite": suite}
            for row, arm, decoding, suite in product(
                cases, ("hat", "fixed_rl", "base"), ("free", "constrained"), ("T1", "T2", "T3"))]  # fmt: skip
    viewer = rollout_viewer(many, cases)
    case = shown_cases(viewer)
    assert len([c for c in case if c["outcome"] == "failed" and c["suite"] != "RL"]) == FAILED_SHOWN
    assert len([c for c in case if c["outcome"] != "failed" and c["suite"] != "RL"]) == SUCCEEDED_SHOWN
    assert {c["suite"] for c in case} == {"T1", "T2", "T3", "RL"}
    assert {c["model"] for c in case} == {"hat", "fixed_rl", "base"}
    assert {kind for c in case for kind in c["kind"]} >= {
        k for row in cases if row["failed"] for k in failure_kinds(row)
    }
    counts, failed = viewer["counts"], [row for row in cases if row["failed"]]
    assert len(counts["columns"]) == 6 and counts["cases"] == [3 * len(cases)] * 6
    assert counts["failed"] == [3 * len(failed)] * 6
    rows = dict(counts["rows"])
    assert rows[KINDS["no_reply"]] == [3 * sum(not row["replies"] for row in failed)] * 6
    assert viewer["total"] == len(many) + len(cases)


def test_filter_options_count_what_is_shown(cases):
    viewer = rollout_viewer(cases, [])
    shown = shown_cases(viewer)
    for chosen in viewer["filters"]:
        for option in chosen["options"]:
            values = [case[chosen["name"]] for case in shown]
            assert option["n"] == sum(
                option["value"] in v if isinstance(v, list) else option["value"] == v for v in values
            )


def test_a_long_turn_is_cut_and_says_so(cases):
    row = next(row for row in cases if row["replies"])
    long = row | {"transcript": [row["transcript"][0] | {"text": "a" * (TEXT_SHOWN + 7)}, *row["transcript"][1:]]}
    turn = shown_cases(rollout_viewer([long], []))[0]["turns"][0]
    assert len(turn["text"]) == TEXT_SHOWN and turn["left_out"] == 7


def test_an_episode_of_our_own_fault_is_shown_unscored(cases):
    row = cases[0] | {"failed": True, "stop": "system_fault", "score": None, "replies": [], "error": "server gone"}
    (case,) = shown_cases(rollout_viewer([row], []))
    assert case["kind"][0] == "system_fault" and case["rewards"] == [] and case["error"] == "server gone"


def test_no_rollouts_no_section():
    assert rollout_viewer([], []) is None


@pytest.fixture(scope="module")
def page(cases, tmp_path_factory):
    run_dir = tmp_path_factory.mktemp("run")
    hostile = cases[0] | {"transcript": [cases[0]["transcript"][0] | {"text": "<script>alert(1)</script>"}]}
    finish(run_dir, "harness_gate", {"gate.json": {"retrain": True, "why": "always"}})
    finish(run_dir, "evaluation", {"evaluation.json": {"models": {}}, "cases.jsonl": [*cases, hostile]})
    finish(run_dir, "simulator_rl", {"rollouts.jsonl": cases[:3]})
    return write_report(run_dir, summarise(run_dir, "local", "abc", attempt=1), {})


def test_the_page_is_a_list_without_scripts_and_texts_cannot_become_markup(page):
    html = page.read_text()
    assert html.count("<script>") == 1 and "&lt;script&gt;alert(1)" in html
    assert html.count('<details class="case"') == html.count("data-kind=") > 40
    assert re.search(r'<form id="rollout-filters"[^>]* hidden>', html), "no filter that would do nothing"
    names = re.findall(r'<select id="([^"]+)"', html)
    assert len(names) == 6 and all(f'<label for="{name}">' in html for name in names)


@pytest.mark.skipif(shutil.which("chromium") is None, reason="no browser: apt-get install chromium")
def test_filters_in_a_browser(page, tmp_path):
    script = """<script>
      const choose = (name, value) => {
        const select = document.getElementById(`filter-${name}`);
        select.value = value;
        select.dispatchEvent(new Event("change", {bubbles: true}));
      };
      const seen = () => [...document.querySelectorAll("#rollouts .case:not([hidden])")];
      choose("model", "fixed_sft"); choose("kind", "unneeded_call");
      const found = {
        form: !document.getElementById("rollout-filters").hidden,
        models: [...new Set(seen().map((item) => item.dataset.model))],
        kinds: seen().every((item) => item.dataset.kind.split(" ").includes("unneeded_call")),
        seen: seen().length, output: document.getElementById("rollouts-shown").textContent,
        option: document.querySelector("#filter-kind option:checked").textContent,
        empty_groups: [...document.querySelectorAll("#rollouts .group:not([hidden])")].filter(
          (group) => !group.querySelector(".case:not([hidden])")).length,
      };
      document.body.innerHTML = `<pre id="found">${JSON.stringify(found)}</pre>`;
    </script></body>"""
    path = tmp_path / "page.html"
    path.write_text(page.read_text().replace("</body>", script))
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}"]
    dom = subprocess.run([*command, "--dump-dom", path.as_uri()], capture_output=True, text=True, timeout=240).stdout
    found = json.loads(re.search(r'<pre id="found">(.*?)</pre>', dom)[1])
    assert found["form"] and found["models"] == ["fixed_sft"] and found["kinds"] and found["empty_groups"] == 0
    total = page.read_text().count('<details class="case"')
    assert 0 < found["seen"] < total and found["output"] == f"{found['seen']} of {total} shown"
    assert found["option"].endswith(f"({found['seen']})")
