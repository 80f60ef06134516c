"""Both arms and the router as real processes that talk HTTP, on the tiny random-weight model."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from components.avatar.errors import SystemFault
from components.canary_deploy.agent_service import ServerArguments, release_digest
from components.canary_deploy.assignment import Arm, assign
from components.canary_deploy.events import EventLog
from components.canary_deploy.processes import ServerProcess, Servers
from components.canary_deploy.router import EVENTS_FILE
from components.integrations.weights import resolve_base_model

ROOT = Path(__file__).parents[2]
MERCHANT = ROOT / "infra" / "harnesses" / "lumi-beauty"
AGENT = "components.canary_deploy.agent_service"
ROUTER = "components.canary_deploy.router"
READY_S = 120


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


class Rollout:
    """Two agent services and a router at half and half."""

    def __init__(self, servers: Servers, champion: ServerProcess, canary: ServerProcess, state: Path) -> None:
        self.champion, self.canary, self.state = champion, canary, state
        router = servers.start(
            "router",
            ROUTER,
            *("--rollout", "live-test", "--salt", "s", "--state", str(state)),
            *("--champion", champion.url, "--canary", canary.url),
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
        return httpx.post(f"{self.url}/turns", json=turn, timeout=60).raise_for_status().json()


@pytest.fixture
def rollout(tiny: Path, other: Path, tmp_path: Path) -> Iterator[Rollout]:
    with Servers(tmp_path / "logs") as servers:
        options = ("--merchant", str(MERCHANT), "--max-new-tokens", "8", "--threads", "1")
        champion = servers.start("champion", AGENT, "--model", str(tiny), *options)
        canary = servers.start("canary", AGENT, "--model", str(other), *options)
        for server in (champion, canary):
            assert servers.wait_ready(server, READY_S)["ready"]
        yield Rollout(servers, champion, canary, tmp_path / "state")


def session_in(arm: Arm) -> Iterator[str]:
    return (f"s{n}" for n in range(10_000) if assign(f"s{n}", "s", 0.5) is arm)


def test_both_arms_answer_over_http_and_a_killed_canary_is_answered_for(rollout: Rollout, tiny: Path, other: Path) -> None:
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
    deadline = time.monotonic() + 60
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
