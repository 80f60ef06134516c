"""Both arms and the router over HTTP.

As real processes on the tiny random-weight model, and (whole rollouts) as servers in threads
with the oracle and worse policies.
"""

import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest
import uvicorn
from fastapi import FastAPI
from transformers import AutoTokenizer

from components.avatar.agent.actors import OracleActor, ScriptedActor, never_call
from components.avatar.agent.chat import Chat
from components.avatar.agent.episode import Actor, EpisodeState
from components.avatar.agent.types import Generation
from components.avatar.errors import SystemFault
from components.canary_deploy import router as routing
from components.canary_deploy.agent_service import Agent, ServerArguments, create_app, release_digest
from components.canary_deploy.assignment import Arm, assign
from components.canary_deploy.decision import Verdict
from components.canary_deploy.events import EventLog
from components.canary_deploy.hot_reload import MerchantWatch
from components.canary_deploy.ledger import Ledger
from components.canary_deploy.live import LiveResult, LiveRollout, Rollout
from components.canary_deploy.live_merchant import edit, open_live_folder
from components.canary_deploy.processes import ServerProcess, Servers
from components.canary_deploy.router import EVENTS_FILE
from components.canary_deploy.run import run, summary
from components.canary_deploy.settings import Settings
from components.canary_deploy.traffic import Phase
from components.integrations.metrics import read_json
from components.integrations.progress import Progress
from components.integrations.weights import resolve_base_model

ROOT = Path(__file__).parents[2]
MERCHANT = ROOT / "infra" / "harnesses" / "lumi-beauty"
AGENT = "components.canary_deploy.agent_service"
ROUTER = "components.canary_deploy.router"
READY_S = 400
pytestmark = pytest.mark.timeout(900)  # two processes load torch, perhaps on a machine that trains at the same time


@pytest.fixture(scope="module")
def tiny() -> Path:
    return resolve_base_model("random:tiny", ROOT / ".cache")


@pytest.fixture(scope="module")
def other(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same architecture with other weights: another release."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = tmp_path_factory.mktemp("models") / "other"
    model = AutoModelForCausalLM.from_pretrained(tiny)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.05 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(7)))
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(tiny).save_pretrained(folder)
    return folder


class Processes:
    """Two agent services and a router at half and half."""

    def __init__(self, servers: Servers, champion: ServerProcess, canary: ServerProcess, state: Path) -> None:
        self.champion, self.canary, self.state = champion, canary, state
        router = servers.start(
            "router",
            ROUTER,
            *("--rollout", "live-test", "--salt", "s", "--state", str(state)),
            *("--champion", champion.url, "--canary", canary.url),
            *("--canary-timeout-s", "120", "--champion-timeout-s", "120"),
        )
        servers.wait_ready(router, READY_S)
        self.url = router.url
        self.put(0.5)

    def put(self, share: float) -> None:
        version = self.get("/traffic")["traffic"]["version"]
        httpx.put(f"{self.url}/traffic", json={"version": version, "phase": "ramp", "share": share}).raise_for_status()

    def get(self, path: str) -> dict:
        return httpx.get(self.url + path, timeout=30).raise_for_status().json()

    def ask(self, session: str) -> dict:
        turn = {"session": session, "room": f"room-{session}", "viewer": "v", "message": "how much is link 3"}
        return httpx.post(f"{self.url}/turns", json=turn, timeout=300).raise_for_status().json()


@pytest.fixture
def rollout(tiny: Path, other: Path, tmp_path: Path) -> Iterator[Processes]:
    with Servers(tmp_path / "logs") as servers:
        options = ("--merchant", str(MERCHANT), "--max-new-tokens", "8", "--threads", "1")
        champion = servers.start("champion", AGENT, "--model", str(tiny), *options)
        canary = servers.start("canary", AGENT, "--model", str(other), *options)
        for server in (champion, canary):
            assert servers.wait_ready(server, READY_S)["ready"]
        yield Processes(servers, champion, canary, tmp_path / "state")


def session_in(arm: Arm) -> Iterator[str]:
    return (f"s{n}" for n in range(10_000) if assign(f"s{n}", "s", 0.5) is arm)


def test_both_arms_answer_over_http_and_a_killed_canary_is_answered_for(
    rollout: Processes, tiny: Path, other: Path
) -> None:
    arguments = ServerArguments(max_new_tokens=8)
    releases = {Arm.CANARY: release_digest(other, arguments), Arm.CONTROL: release_digest(tiny, arguments)}
    assert releases[Arm.CANARY] != releases[Arm.CONTROL]
    canary, control = session_in(Arm.CANARY), session_in(Arm.CONTROL)
    for arm, sessions in ((Arm.CANARY, canary), (Arm.CONTROL, control)):
        answer = rollout.ask(next(sessions))
        assert (answer["arm"], answer["answer"]["release_digest"], answer["fallback"]) == (arm, releases[arm], False)
        assert answer["latency_ms"] >= answer["answer"]["service_ms"] > 0

    rollout.canary.process.kill()
    rollout.canary.process.wait()
    answer = rollout.ask(next(canary))
    assert (answer["arm"], answer["answer"]["release_digest"], answer["fallback"]) == (
        Arm.CANARY,
        releases[Arm.CONTROL],
        True,
    )
    health = rollout.get("/healthz")
    assert health["ready"] and not health["arms"]["canary"]["ready"]
    assert rollout.get("/traffic")["routed"] == {"canary": 2, "control": 1, "outside": 0}
    log = EventLog("live-test")
    log.read(rollout.state / EVENTS_FILE)
    assert sorted(e.arm for e in log.exposures.values()) == [Arm.CANARY, Arm.CANARY, Arm.CONTROL]


def test_a_service_that_cannot_load_fails_fast_with_its_log(tmp_path: Path) -> None:
    with Servers(tmp_path) as servers:
        server = servers.start("canary", AGENT, "--model", str(tmp_path / "missing"), "--merchant", str(MERCHANT))
        with pytest.raises(SystemFault, match="a folder in Hugging Face format"):
            servers.wait_ready(server, READY_S)
    assert server.exit_status is not None


def test_servers_end_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    parent = textwrap.dedent(f"""
        import time
        from pathlib import Path
        from components.canary_deploy.processes import Servers
        with Servers(Path({str(tmp_path)!r})) as servers:
            server = servers.start("router", {ROUTER!r}, "--rollout", "r", "--salt", "s", "--state",
                                   {str(tmp_path / "state")!r}, "--champion", "http://127.0.0.1:9", "--canary", "http://127.0.0.1:9")
            print(server.process.pid, flush=True)
            time.sleep(120)
    """)
    process = subprocess.Popen([sys.executable, "-c", parent], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    child = int(process.stdout.readline())
    deadline = time.monotonic() + READY_S
    while "listening on" not in (tmp_path / "router.log").read_text() and time.monotonic() < deadline:
        time.sleep(0.1)
    process.send_signal(signal.SIGKILL)
    process.wait()
    while _alive(child) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not _alive(child)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().split(")")[1].split()[0] != "Z"


SMALL = {
    "rooms": 90,
    "viewers_per_room": 60,
    "ask_share": 0.1,
    "live_replies": 16,
    "rooms_a_decision": 15,
    "fault_rate": 0.0,
    "edit_at": 0.2,
    "canary": {
        "ramp": (0.3, 0.5),
        "planned_rooms": 30,
        "burn_in_rooms": 10,
        "exposure_stale_s": 300_000,
        "outcome_stale_s": 300_000,
        "slo_ms": 30_000,
        # wide: the test is of the wiring, and 30 small rooms say little about money
        "margins": {
            "gmv": 0.95,
            "refund_rate": 0.5,
            "slow_share": 0.3,
            "latency_p95": 50.0,
            "tool_error_rate": 0.3,
            "quality": 0.3,
            "violation_rate": 0.3,
        },
    },
}


class Dies:
    """Answers until it has taken `turns` turns, then its backend is gone."""

    max_new_tokens = 256

    def __init__(self, actor: Actor, turns: int) -> None:
        self.actor, self.left = actor, turns

    def act(self, states: list[EpisodeState]) -> list[Generation]:
        self.left -= len(states)
        if self.left < 0:
            raise SystemFault("out of memory")
        return self.actor.act(states)


@contextmanager
def served(app: FastAPI) -> Iterator[str]:
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    yield f"http://127.0.0.1:{port}"
    server.should_exit = True
    thread.join(10)


@pytest.fixture(scope="module")
def chat(tiny: Path) -> Chat:
    return Chat(AutoTokenizer.from_pretrained(tiny))


def roll_out(
    champion: Actor,
    canary: Actor,
    chat: Chat,
    tmp_path: Path,
    /,
    crashes: Callable[[], int] = lambda: 0,
    **settings: object,
) -> tuple[LiveResult, dict]:
    """A whole rollout between two actors; the result and canary.json."""
    configured = Settings.model_validate({**SMALL, **settings})
    folder, output = tmp_path / "merchant", tmp_path / "out"
    world = open_live_folder(MERCHANT, folder)
    output.mkdir()

    def service(actor: Actor, release: str) -> FastAPI:
        return create_app(lambda: Agent(actor, chat, MerchantWatch(folder), release, reuse_replies=True))

    with ExitStack() as stack:
        urls = [
            stack.enter_context(served(service(actor, release)))
            for actor, release in ((champion, "old"), (canary, "new"))
        ]
        router = routing.Router(
            routing.RouterSettings(
                rollout="r", salt="s", champion=urls[0], canary=urls[1], state=output, simulated_clock=True
            )
        )
        url = stack.enter_context(served(routing.create_app(router)))
        client = stack.enter_context(httpx.Client(timeout=300))
        deadline = time.monotonic() + READY_S
        while not all(a["ready"] for a in client.get(f"{url}/healthz").json()["arms"].values()):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        rollout = Rollout(
            name="r",
            salt="s",
            router_url=url,
            canary_release="new",
            champion_release="old",
            crashes=lambda: {Arm.CANARY: crashes(), Arm.CONTROL: 0},
            aliases=lambda: ("new", "old"),
            edit=lambda: edit(MERCHANT, folder),
        )
        result = LiveRollout(rollout, world, output, configured, 0, Progress("canary"), client).run()
    return result, summary(result, configured, rollout)


def test_an_equal_canary_is_promoted_and_the_harness_edit_opens_a_stratum(chat: Chat, tmp_path: Path) -> None:
    result, report = roll_out(OracleActor(chat), OracleActor(chat), chat, tmp_path)
    assert (report["verdict"], report["step"]) == ("promote", 4), report["why"]
    assert result.traffic.traffic.phase is Phase.PROMOTED
    assert {arm["quality"] for arm in report["arms"].values()} == {1.0}
    assert len(report["harness_digests"]) == 2 and len({s.split("/")[1] for s in report["strata"]}) == 2
    assert 2 * 16 >= report["replies_generated"] > 16 and report["replies_reused"] > report["replies_generated"]
    assert [look["share"] for look in report["looks"]][:2] == [0.3, 0.5]
    ledger = Ledger(tmp_path / "out" / "ledger.jsonl")
    assert ledger.verify() == [] and all(entry.same for entry in ledger.replay())
    assert len(list(ledger.entries())) == len(report["looks"])
    log = EventLog("r")
    log.read(tmp_path / "out" / EVENTS_FILE)
    assert log.quarantined == 0 and {outcome.event for outcome in log.outcomes.values()} >= {
        "watch",
        "page_view",
        "order",
    }


def test_a_worse_canary_is_rolled_back_and_the_champion_serves_everyone(chat: Chat, tmp_path: Path) -> None:
    result, report = roll_out(OracleActor(chat), ScriptedActor(chat, never_call), chat, tmp_path)
    assert report["verdict"] == "rollback", report["why"]
    assert "violation" in report["why"]  # it skips the skill that a hook asks for
    assert result.traffic.traffic.phase is Phase.ROLLED_BACK
    assert report["arms"]["canary"]["quality"] < report["arms"]["control"]["quality"]
    assert result.rooms < SMALL["rooms"]


def test_a_canary_whose_backend_dies_is_answered_for_and_rolled_back(chat: Chat, tmp_path: Path) -> None:
    result, report = roll_out(OracleActor(chat), Dies(OracleActor(chat), turns=8), chat, tmp_path)
    assert report["verdict"] == "rollback" and "fallback" in report["why"]
    assert report["arms"]["canary"]["fallbacks"] > 0 and result.unanswered == 0


def test_a_crash_of_the_canary_process_rolls_back_at_the_next_decision(chat: Chat, tmp_path: Path) -> None:
    result, report = roll_out(OracleActor(chat), OracleActor(chat), chat, tmp_path, crashes=lambda: 1)
    assert report["verdict"] == "rollback" and "crashes" in report["why"] and result.rooms == 15


def test_too_little_evidence_holds(chat: Chat, tmp_path: Path) -> None:
    canary = SMALL["canary"] | {"margins": {"gmv": 0.01}}
    result, report = roll_out(OracleActor(chat), OracleActor(chat), chat, tmp_path, canary=canary)
    assert (report["verdict"], report["step"]) == ("hold", 5) and "gmv" in report["why"]
    assert result.traffic.traffic.phase is Phase.RAMP and result.decision.verdict is Verdict.HOLD


def test_the_step_runs_two_models_and_leaves_its_files(tiny: Path, other: Path, tmp_path: Path) -> None:
    settings = Settings.model_validate(
        {**SMALL, "rooms": 40, "live_replies": 4, "max_new_tokens": 8, "edit_at": None, "ready_timeout_s": 400}
    )
    metrics = run(
        champion=tiny,
        challenger=other,
        merchant=MERCHANT,
        output=tmp_path,
        settings=settings,
        seed=1,
        progress=Progress("canary"),
    )
    report = read_json(tmp_path / "canary.json")
    assert report["verdict"] in ("promote", "hold", "rollback") and report["why"]
    releases = {arm: row["release_digest"] for arm, row in report["arms"].items()}
    assert len(set(releases.values())) == 2
    exposures = [json.loads(line) for line in open(tmp_path / EVENTS_FILE, encoding="utf-8")]
    seen = {(e["arm"], e["release_digest"]) for e in exposures if e["event"] == "exposure"}
    assert {("canary", releases["canary"]), ("control", releases["control"])} <= seen
    assert metrics["replies_generated"].value == report["replies_generated"] <= 2 * 4
    assert report["arms"]["canary"]["latency_ms"]["n"] > 0
    assert all(server.endswith(".log") for server in os.listdir(tmp_path / "logs"))
