"""An agent service: answers viewers' turns with one release of the agent model.

    python -m components.canary_deploy.agent_service --model DIR --merchant DIR --port 8001 --decoding constrained

POST /turns runs the episode loop (tools, hooks, skills) for one viewer message; GET /healthz is 200 only after a probe
turn was generated; GET /metrics is Prometheus text. Concurrent turns are answered in one batch. The merchant's folder
is read again when it changes, so harness edits reach a running stream.

Released and measured as a whole: the release digest covers model, adapter, chat template and the arguments that change
an answer.
"""

import argparse
import asyncio
import logging
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from fastapi import FastAPI, HTTPException, Response
from fastapi.responses import JSONResponse
from pydantic import Field

from components.avatar.agent.chat import TEMPLATE_PATH, Chat
from components.avatar.agent.episode import Actor, Start, run_episodes
from components.avatar.agent.types import EpisodeResult
from components.avatar.errors import InputError, SystemFault
from components.avatar.harness.schema import Frozen, content_digest
from components.avatar.simulator.merchant import Merchant
from components.avatar.simulator.scenario import Question, Scenario
from components.avatar.simulator.types import StopReason
from components.canary_deploy.exposition import CONTENT_TYPE, Exposition
from components.canary_deploy.hot_reload import MerchantWatch
from components.canary_deploy.serve import add_server_options, serve
from components.canary_deploy.wire import StreamContext, TurnReply, TurnRequest
from components.integrations.release import release_of

log = logging.getLogger(__name__)
KEPT_REPLIES = 20_000  # replies remembered with `reuse_replies`


class ServerArguments(Frozen):
    """Arguments that change what is answered: part of the release digest."""

    decoding: Literal["free", "constrained"] = "constrained"
    max_new_tokens: int = Field(default=64, ge=8)
    """Tokens of one agent turn; as in evaluation."""
    max_context: int = Field(default=2048, ge=256)


def release_digest(model: Path, arguments: ServerArguments) -> str:
    """Digest of what a service on folder `model` answers with. Reads every byte of the folder; raises InputError when
    it is missing.

    The template that renders is this code's, whatever the folder holds, so it counts among the arguments.
    """
    rendered = {"rendered_template": content_digest(TEMPLATE_PATH.read_text(encoding="utf-8"))}
    stated = [f"{name}={value}" for name, value in sorted({**arguments.model_dump(), **rendered}.items())]
    return release_of(model, stated).digest


@dataclass
class _Waiting:
    request: TurnRequest
    done: asyncio.Future[TurnReply]
    arrived: float = field(default_factory=time.perf_counter)


class Agent:
    """Answers turns in batches. Greedy, so that the same question under the same state always gets the same reply.

    Args:
        batch_size, batch_wait_s: a batch starts when it is full, or this long after its first turn.
        reuse_replies: remember replies and give them again (marked `reused`) to the same question under the same state
        of stream and
            harness. For simulations: a laptop cannot generate every reply of a rollout.
    """

    def __init__(
        self,
        actor: Actor,
        chat: Chat,
        watch: MerchantWatch,
        release_digest: str,
        *,
        max_context: int = 2048,
        batch_size: int = 16,
        batch_wait_s: float = 0.01,
        reuse_replies: bool = False,
    ) -> None:
        self.release_digest = release_digest
        self.watch = watch
        self.metrics = Exposition("agent")
        self._actor, self._chat = actor, chat
        self._max_context, self._batch_size, self._batch_wait_s = max_context, batch_size, batch_wait_s
        self._reuse = reuse_replies
        self._replies: dict[str, asyncio.Future[TurnReply]] = {}
        self._queue: asyncio.Queue[_Waiting] = asyncio.Queue()

    async def answer(self, request: TurnRequest) -> TurnReply:
        """Raises SystemFault when our own side fails; a bad answer of the model is a reply like any other."""
        if not self._reuse:
            return await self._generate(request)
        key = self._key(request)
        if key in self._replies:  # also while it is being generated: the second waits for the first
            return (await asyncio.shield(self._replies[key])).model_copy(update={"reused": True})
        if len(self._replies) >= KEPT_REPLIES:
            self._replies.pop(next(iter(self._replies)))
        future = self._replies[key] = asyncio.ensure_future(self._generate(request))
        try:
            return await asyncio.shield(future)
        except SystemFault:
            self._replies.pop(key, None)
            raise

    def probe(self) -> TurnReply:
        """One turn, outside of any batch: the first question of the merchant's log. Raises SystemFault when it cannot
        be generated."""
        question = next(iter(self.watch.current().questions), Question(id="probe", text="hello"))
        context = StreamContext(question=question if question.family else None)
        request = TurnRequest(session="probe", room="probe", viewer="probe", message=question.text, context=context)
        return self.answer_batch([request], [time.perf_counter()])[0]

    def answer_batch(self, requests: list[TurnRequest], arrived: list[float]) -> list[TurnReply]:
        """One reply a request, in order; blocks while generating."""
        merchant = self.watch.current()
        starts = [Start(merchant.harness, scenario_of(request, merchant)) for request in requests]
        results = run_episodes(
            starts,
            self._actor,
            self._chat,
            merchant.catalogue,
            max_context=self._max_context,
            concurrent=self._batch_size,
        )
        finished = time.perf_counter()
        for result in results:
            if result.stop is StopReason.SYSTEM_FAULT:
                raise SystemFault(result.error or "generation failed")
        return [
            self._reply(request, result, (finished - at) * 1000)
            for request, result, at in zip(requests, results, arrived, strict=True)
        ]

    async def run(self) -> None:
        """Answers queued turns until cancelled."""
        while True:
            batch = [await self._queue.get()]
            await asyncio.sleep(self._batch_wait_s)
            while len(batch) < self._batch_size and not self._queue.empty():
                batch.append(self._queue.get_nowait())
            try:
                replies = await asyncio.to_thread(
                    self.answer_batch, [item.request for item in batch], [item.arrived for item in batch]
                )
            except Exception as error:  # the service stays up: the next batch may pass
                log.exception("a batch failed")
                self.metrics.count("failures_total", len(batch))
                fault = error if isinstance(error, SystemFault) else SystemFault(f"{type(error).__name__}: {error}")
                for item in batch:
                    if not item.done.done():
                        item.done.set_exception(fault)
                continue
            self.metrics.count("batches_total")
            for item, reply in zip(batch, replies, strict=True):
                if not item.done.done():  # the client may have gone
                    item.done.set_result(reply)

    async def _generate(self, request: TurnRequest) -> TurnReply:
        waiting = _Waiting(request, asyncio.get_running_loop().create_future())
        self._queue.put_nowait(waiting)
        reply = await waiting.done
        self.metrics.latency(reply.service_ms / 1000)
        self.metrics.count("turns_total", stop=reply.stop)
        self.metrics.count("tool_errors_total", reply.tool_errors)
        self.metrics.count("violations_total", reply.violations)
        return reply

    def _key(self, request: TurnRequest) -> str:
        return content_digest(
            [request.message, request.context.model_dump(mode="json"), self.watch.current().digest, self.release_digest]
        )

    def _reply(self, request: TurnRequest, result: EpisodeResult, service_ms: float) -> TurnReply:
        last = result.replies[-1] if result.replies else None
        question = request.context.question
        judged = question is not None and question.family is not None and result.score is not None
        return TurnReply(
            reply=last.text if last else "",
            stop=result.stop,
            release_digest=self.release_digest,
            harness_digest=result.harness_digest,
            tool_errors=sum(not call.ok for call in result.calls) + result.parse.get("failed", 0),
            violations=len(last.broken_rules) if last else 0,
            quality=result.score.quality if judged and result.score else None,
            accuracy=result.score.accuracy if judged and result.score else None,
            false_claims=len(last.false_claims) if last and judged else 0,
            service_ms=service_ms,
        )


def scenario_of(request: TurnRequest, merchant: Merchant) -> Scenario:
    """The turn as an episode of one question."""
    context = request.context
    question = context.question or Question(id=request.reply_id or "turn", text=request.message)
    return Scenario(
        id=request.reply_id or question.id,
        seed=context.seed,
        merchant=merchant.name,
        questions=(question.model_copy(update={"text": request.message}),),
        faults=context.faults,
        events=context.events,
        on_air=context.on_air,
    )


def create_app(load: Callable[[], Agent]) -> FastAPI:
    """The HTTP service. `load` makes the agent (it may take minutes) in the background; the probe turn follows."""
    ready: dict[str, Agent] = {}
    failed: list[str] = []

    def prepare() -> None:
        try:
            agent = load()
            agent.probe()
        except Exception as error:
            log.exception("the agent is not ready")
            failed.append(f"{type(error).__name__}: {error}")
        else:
            ready["agent"] = agent

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        threading.Thread(target=prepare, daemon=True).start()
        task = asyncio.create_task(work())
        yield
        task.cancel()

    async def work() -> None:
        while "agent" not in ready:
            await asyncio.sleep(0.05)
        await ready["agent"].run()

    def agent() -> Agent:
        if "agent" not in ready:
            raise HTTPException(503, failed[0] if failed else "not ready: the model is being loaded and probed")
        return ready["agent"]

    app = FastAPI(title="agent service", lifespan=lifespan)

    @app.post("/turns")
    async def turns(request: TurnRequest) -> TurnReply:
        try:
            return await agent().answer(request)
        except SystemFault as fault:
            raise HTTPException(503, str(fault)) from fault

    @app.get("/healthz")
    async def healthz() -> Response:
        if "agent" not in ready:
            return JSONResponse({"ready": False, "error": failed[0] if failed else None}, status_code=503)
        merchant = ready["agent"].watch.current()
        body = {
            "ready": True,
            "release_digest": ready["agent"].release_digest,
            "harness_digest": merchant.harness.digest,
            "merchant_digest": merchant.digest,
            "harness_error": ready["agent"].watch.error,
        }
        return JSONResponse(body)

    @app.get("/metrics")
    async def metrics() -> Response:
        counted = agent().metrics
        counted.gauge("harness_rejected", agent().watch.error is not None)
        counted.gauge("harness_reloads", agent().watch.reloads)
        return Response(counted.text(), media_type=CONTENT_TYPE)

    return app


def load_agent(
    model: Path, merchant: Path, arguments: ServerArguments, *, threads: int, batch_size: int, reuse_replies: bool
) -> Agent:
    """An agent on the weights of folder `model`. Raises InputError when a folder is bad."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from components.avatar.agent.actors import ModelActor
    from components.avatar.agent.transformers_client import TransformersClient
    from components.integrations.hardware import device, set_threads
    from components.integrations.weights import check_model_folder

    set_threads(threads or None)
    watch = MerchantWatch(merchant)
    tokenizer = AutoTokenizer.from_pretrained(check_model_folder(model))
    network = AutoModelForCausalLM.from_pretrained(
        model, dtype=torch.bfloat16 if device().type == "cuda" else torch.float32
    )
    network.to(device())  # type: ignore[arg-type]
    client = TransformersClient(network, tokenizer, arguments.decoding, batch_size)
    return Agent(
        ModelActor(client, temperature=0.0, max_new_tokens=arguments.max_new_tokens),
        Chat(tokenizer),
        watch,
        release_digest(model, arguments),
        max_context=arguments.max_context,
        batch_size=batch_size,
        reuse_replies=reuse_replies,
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m components.canary_deploy.agent_service",
        description="Answers viewers' turns with one release of the agent model.",
    )
    parser.add_argument("--model", type=Path, required=True, help="model folder in Hugging Face format")
    parser.add_argument("--merchant", type=Path, required=True, help="folder with harness, catalogue and questions")
    defaults = ServerArguments()
    parser.add_argument("--decoding", choices=("free", "constrained"), default=defaults.decoding)
    parser.add_argument("--max-new-tokens", type=int, default=defaults.max_new_tokens)
    parser.add_argument("--max-context", type=int, default=defaults.max_context)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--threads", type=int, default=0, help="of torch; 0: all usable cores")
    parser.add_argument(
        "--reuse-replies", action="store_true", help="simulations only: answer a repeated question from memory"
    )
    add_server_options(parser)
    options = parser.parse_args()
    arguments = ServerArguments(
        decoding=options.decoding, max_new_tokens=options.max_new_tokens, max_context=options.max_context
    )

    def load() -> Agent:
        return load_agent(
            options.model,
            options.merchant,
            arguments,
            threads=options.threads,
            batch_size=options.batch_size,
            reuse_replies=options.reuse_replies,
        )

    try:
        return serve(create_app(load), options)
    except InputError as error:
        print(error)
        return 1


if __name__ == "__main__":
    raise SystemExit(main())
