"""The agent service with the oracle and scripted policies: what it reports, batches, reloads and reuses."""

import shutil
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from transformers import AutoTokenizer

from components.avatar.agent.actors import OracleActor, ScriptedActor, never_call
from components.avatar.agent.chat import Chat
from components.avatar.agent.episode import Actor, EpisodeState
from components.avatar.agent.types import Generation
from components.avatar.errors import SystemFault
from components.avatar.harness.schema import Family
from components.avatar.simulator.merchant import Merchant, load_merchant
from components.avatar.simulator.scenario import FaultKind, Question, StreamEvent, ToolFault
from components.canary_deploy import hot_reload
from components.canary_deploy.agent_service import Agent, ServerArguments, create_app, release_digest
from components.canary_deploy.hot_reload import MerchantWatch
from components.integrations.weights import resolve_base_model

ROOT = Path(__file__).parents[3]
SHIPPED = ROOT / "infra" / "harnesses" / "lumi-beauty"


@pytest.fixture(scope="module")
def chat() -> Chat:
    return Chat(AutoTokenizer.from_pretrained(resolve_base_model("random:tiny", ROOT / ".cache")))


@pytest.fixture(scope="module")
def merchant() -> Merchant:
    return load_merchant(SHIPPED)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(hot_reload, "CHECK_S", 0.0)
    return Path(shutil.copytree(SHIPPED, tmp_path / "merchant"))


class Counting:
    """Another actor that counts: generations, largest batch; and fails while `broken`."""

    max_new_tokens = 256

    def __init__(self, actor: Actor, seconds: float = 0.0) -> None:
        self.actor = actor
        self.seconds = seconds
        self.turns = self.largest = 0
        self.broken = False

    def act(self, states: list[EpisodeState]) -> list[Generation]:
        if self.broken:
            raise SystemFault("the backend is down")
        self.turns += len(states)
        self.largest = max(self.largest, len(states))
        time.sleep(self.seconds)
        return self.actor.act(states)


Open = Callable[..., TestClient]


@pytest.fixture
def open_service(chat: Chat, folder: Path) -> Iterator[Open]:
    clients: list[TestClient] = []

    def start(actor: Actor | None = None, **options: object) -> TestClient:
        def load() -> Agent:
            return Agent(actor or OracleActor(chat), chat, MerchantWatch(folder), "release-1", **options)  # type: ignore[arg-type]

        client = TestClient(create_app(load)).__enter__()
        clients.append(client)
        deadline = time.monotonic() + 200
        while client.get("/healthz").status_code != 200 and time.monotonic() < deadline:
            time.sleep(0.02)
        return client

    yield start
    for client in clients:
        client.__exit__(None, None, None)


def first(merchant: Merchant, family: Family) -> Question:
    return next(q for q in merchant.questions if q.family == family)


def ask(client: TestClient, question: Question, viewer: str = "v", **context: object):
    dumped = {k: [x.model_dump(mode="json") for x in v] if isinstance(v, tuple) else v for k, v in context.items()}
    body = {"session": "s", "room": "r", "viewer": viewer, "message": question.text}
    return client.post("/turns", json={**body, "context": {"question": question.model_dump(mode="json"), **dumped}})


@pytest.mark.parametrize("family", [Family.PRICE, Family.STOCK, Family.COUPON, Family.CHIT_CHAT])
def test_the_oracle_behind_the_service_is_judged_perfect(
    open_service: Open, merchant: Merchant, family: Family
) -> None:
    answer = ask(open_service(), first(merchant, family)).json()
    assert (answer["quality"], answer["accuracy"], answer["tool_errors"], answer["violations"]) == (1.0, 1.0, 0, 0)
    assert (answer["release_digest"], answer["harness_digest"], answer["stop"]) == (
        "release-1",
        merchant.harness.digest,
        "done",
    )
    assert answer["reply"] and answer["service_ms"] > 0


def test_a_policy_that_never_calls_breaks_rules_and_scores_low(
    open_service: Open, chat: Chat, merchant: Merchant
) -> None:
    answer = ask(open_service(ScriptedActor(chat, never_call)), first(merchant, Family.PRICE)).json()
    assert answer["accuracy"] == 0.0 and answer["violations"] >= 1


def test_unparseable_and_unknown_calls_are_tool_errors(open_service: Open, chat: Chat, merchant: Merchant) -> None:
    texts = {0: "<tool_call>{broken", 1: '<tool_call>{"name": "no_such_tool", "arguments": {}}</tool_call>'}
    actor = ScriptedActor(chat, lambda state: texts.get(len(state.segments) // 2, "Sorry lovely 💛"))
    assert ask(open_service(actor), first(merchant, Family.PRICE)).json()["tool_errors"] == 2


def test_an_injected_fault_reaches_the_tools(open_service: Open, merchant: Merchant) -> None:
    question = first(merchant, Family.PRICE)
    capability = next(iter(merchant.harness.bindings.values())).capability
    fault = ToolFault(capability=capability, kind=FaultKind.TIMEOUT)
    answer = ask(open_service(), question, faults=(fault,)).json()
    assert answer["tool_errors"] == 1 and answer["accuracy"] == 1.0  # the oracle tries again


def test_a_message_without_a_label_is_answered_and_not_judged(open_service: Open) -> None:
    body = {"session": "s", "room": "r", "viewer": "v", "message": "hii everyone"}
    answer = open_service().post("/turns", json=body).json()
    assert answer["reply"] and answer["quality"] is None and answer["accuracy"] is None


def test_a_harness_edit_in_the_stream_gives_another_harness_digest(open_service: Open, merchant: Merchant) -> None:
    client, question = open_service(), first(merchant, Family.STOCK)
    rename = StreamEvent(at_s=0, kind="tool_renamed", value={"from": "shelf_count", "to": "stock_left"})
    edited = ask(client, question, events=(rename,)).json()
    assert edited["harness_digest"] != merchant.harness.digest and edited["quality"] == 1.0


def test_an_edited_folder_is_taken_up_and_a_bad_edit_is_not(
    open_service: Open, folder: Path, merchant: Merchant
) -> None:
    client, question = open_service(), first(merchant, Family.PRICE)
    before = ask(client, question).json()["harness_digest"]
    path = folder / "harness.yaml"
    good = path.read_text(encoding="utf-8")
    path.write_text(good.replace("reply_words: 30", "reply_words: 28"), encoding="utf-8")
    edited = ask(client, question).json()["harness_digest"]
    assert edited != before
    path.write_text("format: 99\n", encoding="utf-8")
    answer = ask(client, question).json()
    assert (answer["harness_digest"], answer["quality"]) == (edited, 1.0)
    health = client.get("/healthz").json()
    assert health["ready"] and "format" in health["harness_error"]
    path.write_text(good, encoding="utf-8")
    assert ask(client, question).json()["harness_digest"] == before
    assert client.get("/healthz").json()["harness_error"] is None


def test_concurrent_turns_are_answered_in_one_batch(open_service: Open, chat: Chat, merchant: Merchant) -> None:
    actor = Counting(OracleActor(chat), seconds=0.02)
    client = open_service(actor, batch_size=8)
    questions = [q for q in merchant.questions if q.family == Family.PRICE][:8]
    with ThreadPoolExecutor(8) as pool:
        answers = [answer.json() for answer in pool.map(lambda q: ask(client, q), questions)]
    assert [a["quality"] for a in answers] == [1.0] * 8
    assert actor.largest >= 4


def test_replies_are_reused_only_for_the_same_question_under_the_same_state(
    open_service: Open, chat: Chat, folder: Path, merchant: Merchant
) -> None:
    actor = Counting(OracleActor(chat))
    client, question = open_service(actor, reuse_replies=True), first(merchant, Family.PRICE)
    fresh = ask(client, question).json()
    turns = actor.turns
    again = ask(client, question, viewer="another").json()
    assert actor.turns == turns and not fresh["reused"]
    assert again == {**fresh, "reused": True}
    assert not ask(client, question, on_air=3).json()["reused"]
    path = folder / "harness.yaml"
    path.write_text(path.read_text(encoding="utf-8").replace("reply_words: 30", "reply_words: 28"), encoding="utf-8")
    assert not ask(client, question).json()["reused"]


def test_without_reuse_every_reply_is_generated(open_service: Open, merchant: Merchant) -> None:
    client, question = open_service(), first(merchant, Family.PRICE)
    assert [ask(client, question).json()["reused"] for _ in range(2)] == [False, False]


def test_a_dead_backend_is_an_http_error_and_recovers(open_service: Open, chat: Chat, merchant: Merchant) -> None:
    actor = Counting(OracleActor(chat))
    client, question = open_service(actor, reuse_replies=True), first(merchant, Family.PRICE)
    actor.broken = True
    failed = ask(client, question)
    assert failed.status_code == 503 and "backend is down" in failed.text
    actor.broken = False
    assert ask(client, question).json()["quality"] == 1.0
    assert "agent_failures_total 1\n" in client.get("/metrics").text


def test_not_ready_before_the_probe_and_says_why_it_never_will_be(chat: Chat, folder: Path) -> None:
    gate = threading.Event()

    def slow() -> Agent:
        gate.wait(60)
        raise SystemFault("no such weights")

    with TestClient(create_app(slow)) as client:
        assert client.get("/healthz").json() == {"ready": False, "error": None}
        body = {"session": "s", "room": "r", "viewer": "v", "message": "hi"}
        assert client.post("/turns", json=body).status_code == 503
        gate.set()
        deadline = time.monotonic() + 60
        while client.get("/healthz").json()["error"] is None and time.monotonic() < deadline:
            time.sleep(0.01)
        assert "no such weights" in client.get("/healthz").json()["error"]


def test_the_release_digest_covers_weights_template_and_arguments(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "model.safetensors").write_bytes(b"weights")
    (folder / "chat_template.jinja").write_text("template")

    def digest(**arguments: object) -> str:
        return release_digest(folder, ServerArguments.model_validate(arguments))

    before = digest()
    assert digest() == before and digest(decoding="free") != before
    (folder / "chat_template.jinja").write_text("another")
    changed = digest()
    (folder / "model.safetensors").write_bytes(b"others!")
    assert len({before, changed, digest()}) == 3
