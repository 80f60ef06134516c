"""The router: assigns viewers' turns to arms, measures every reply, and keeps the event log of a rollout.

    python -m components.canary_deploy.router --rollout R --salt S --champion URL --canary URL --state DIR --port 8000

| request | does |
|---|---|
| POST /turns | assigns the arm (sticky), asks its agent service, writes the exposure, answers with reply, arm and
latency |
| POST /events | takes outcomes, one JSON object a line: order, refund, page_view, watch, gift |
| GET /traffic | the split and its version, counters, how many units are pinned |
| PUT /traffic | changes the split (a ramp step, promote, roll back); 409 when the version was not the current one |
| GET /healthz, GET /metrics | readiness of both arms; Prometheus text |

A turn that the canary fails to answer is answered by the champion and stays in the canary's arm (intention to treat).
`--state` holds events.jsonl and traffic.json; a router that restarts on them goes on where it was.
"""

import argparse
import asyncio
import json
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import uuid4

import httpx
from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.responses import JSONResponse
from pydantic import Field, ValidationError

from components.avatar.errors import SystemFault
from components.avatar.harness.schema import Frozen
from components.canary_deploy.assignment import Arm
from components.canary_deploy.config import Unit
from components.canary_deploy.event_writer import EventWriter
from components.canary_deploy.exposition import CONTENT_TYPE, Exposition
from components.canary_deploy.serve import add_server_options, serve
from components.canary_deploy.traffic import (
    Conflict,
    Refused,
    Route,
    RoutingTable,
    Server,
    Traffic,
    TrafficChange,
    change,
)
from components.canary_deploy.wire import RoutedReply, TurnReply, TurnRequest
from components.integrations.metrics import write_json

EVENTS_FILE, TRAFFIC_FILE = "events.jsonl", "traffic.json"
MAX_EVENTS_BYTES = 8 * 1024**2
OUTCOMES = ("order", "refund", "page_view", "watch", "gift")


class RouterSettings(Frozen):
    """What a router is started with."""

    rollout: str = Field(min_length=1, max_length=200)
    salt: str = Field(min_length=1)
    unit: Unit = Unit.ROOM_SESSION
    champion: str
    canary: str
    state: Path
    canary_timeout_s: float = Field(default=10.0, gt=0)
    """Then the champion answers."""
    champion_timeout_s: float = Field(default=30.0, gt=0)
    simulated_clock: bool = False
    """Moments come with the requests, not from this machine's clock."""


class TrafficState(Frozen):
    """What GET /traffic answers. Counters are cumulative."""

    traffic: Traffic
    rollout: str
    salt: str
    unit: Unit
    assigned: dict[Arm, int]
    routed: dict[Arm, int]
    fallbacks: int
    failures: int
    """Turns that nobody answered."""


class _ArmFailed(Exception):
    """A service did not answer properly; the message says how."""


class Router:
    """Routing, measuring and logging; the app below is its HTTP face. `client` speaks to the arms; default: over the
    network."""

    def __init__(self, settings: RouterSettings, client: httpx.AsyncClient | None = None) -> None:
        self.settings = settings
        self.metrics = Exposition("router")
        self.fallbacks = self.failures = 0
        self.table = RoutingTable(settings.rollout, settings.salt, settings.unit)
        events = settings.state / EVENTS_FILE
        self._restore(events)
        self._events = EventWriter(events)
        self._changing = asyncio.Lock()
        limits = httpx.Limits(max_connections=256, max_keepalive_connections=64)
        self._client = client or httpx.AsyncClient(limits=limits, trust_env=False)

    async def close(self) -> None:
        await self._client.aclose()
        self._events.close()

    async def turn(self, request: TurnRequest) -> RoutedReply:
        """Raises SystemFault when neither arm answered, or the exposure cannot be stored."""
        started = time.perf_counter()
        reply_id = request.reply_id or uuid4().hex
        request = request.model_copy(update={"reply_id": reply_id})
        route = self.table.route(request.session, request.room, request.viewer)
        answer, fallback = await self._answer(route, request)
        latency_ms = (time.perf_counter() - started) * 1000 + (answer.service_ms if answer.reused else 0.0)
        self.table.routed[route.arm] += 1
        self.fallbacks += fallback
        self.metrics.count("turns_total", arm=route.arm, fallback=str(fallback).lower())
        self.metrics.latency(latency_ms / 1000, arm=route.arm)
        await self._log([self._exposure(request, route, answer, latency_ms)])
        return RoutedReply(reply_id=reply_id, arm=route.arm, fallback=fallback, latency_ms=latency_ms, answer=answer)

    async def outcomes(self, body: bytes) -> dict[str, int]:
        """Store outcome events. A broken line is stored too, so that it is quarantined and counted where events are
        read; an exposure is refused, because only the router may say what was shown to whom."""
        kept, refused = [], 0
        for line in body.split(b"\n"):
            if not line.strip():
                continue
            try:
                event = json.loads(line)
            except ValueError:
                event = None
            if isinstance(event, dict) and event.get("event") == "exposure":
                refused += 1
                continue
            if isinstance(event, dict) and not self.settings.simulated_clock:
                line = json.dumps(event | {"received": time.time()}, ensure_ascii=False).encode("utf-8", "replace")
            kept.append(line.strip())
            kind = event.get("event") if isinstance(event, dict) else None
            self.metrics.count("outcomes_total", event=str(kind) if kind in OUTCOMES else "other")
        await self._log(kept)
        return {"stored": len(kept), "refused": refused}

    async def change_traffic(self, wanted: TrafficChange) -> TrafficState:
        """Raises Conflict or Refused; the new split is on disk before it takes effect."""
        async with self._changing:
            traffic = change(self.table.traffic, wanted)
            await asyncio.to_thread(write_json, self.settings.state / TRAFFIC_FILE, traffic.model_dump(mode="json"))
            self.table.traffic = traffic
        return self.state()

    def state(self) -> TrafficState:
        table = self.table
        return TrafficState(
            traffic=table.traffic,
            rollout=table.rollout,
            salt=table.salt,
            unit=table.unit,
            assigned=dict(table.assigned),
            routed=dict(table.routed),
            fallbacks=self.fallbacks,
            failures=self.failures,
        )

    async def health(self) -> dict[str, object]:
        """`ready`: the champion can answer; the canary's state is told beside it."""
        urls = {"champion": self.settings.champion, "canary": self.settings.canary}
        arms = dict(zip(urls, await asyncio.gather(*map(self._health_of, urls.values())), strict=True))
        return {"ready": bool(arms["champion"].get("ready")), "arms": arms}

    async def _health_of(self, url: str) -> dict:
        try:
            return (await self._client.get(f"{url}/healthz", timeout=2.0)).json()
        except (httpx.HTTPError, ValueError) as error:
            return {"ready": False, "error": f"{type(error).__name__}: {error}"}

    async def _answer(self, route: Route, request: TurnRequest) -> tuple[TurnReply, bool]:
        """(reply, whether the champion had to stand in)."""
        try:
            return await self._ask(route.server, request), False
        except _ArmFailed as error:
            self.metrics.count("arm_failures_total", server=route.server)
            first = error
        if route.server == "canary":
            try:
                return await self._ask("champion", request), True
            except _ArmFailed as error:
                self.metrics.count("arm_failures_total", server="champion")
                first = error
        self.failures += 1
        raise SystemFault(f"no arm answered: {first}")

    async def _ask(self, server: Server, request: TurnRequest) -> TurnReply:
        canary = server == "canary"
        url = self.settings.canary if canary else self.settings.champion
        timeout = self.settings.canary_timeout_s if canary else self.settings.champion_timeout_s
        try:
            async with asyncio.timeout(timeout):  # of the whole exchange; httpx's own is for each read
                body = request.model_dump_json()
                headers = {"content-type": "application/json"}
                response = await self._client.post(f"{url}/turns", content=body, headers=headers, timeout=timeout)
            if response.status_code != 200:
                raise _ArmFailed(f"{server}: HTTP {response.status_code}: {response.text[:200]}")
            return TurnReply.model_validate_json(response.content)
        except TimeoutError as error:
            raise _ArmFailed(f"{server}: no answer within {timeout:g} s") from error
        except (httpx.HTTPError, ValidationError) as error:
            raise _ArmFailed(f"{server}: {type(error).__name__}: {error}") from error

    def _exposure(self, request: TurnRequest, route: Route, answer: TurnReply, latency_ms: float) -> bytes:
        now = time.time()
        event = {
            "event": "exposure",
            "id": f"exposure-{request.reply_id}",
            "rollout": self.settings.rollout,
            "unit": route.unit,
            "room": request.room,
            "viewer": request.viewer,
            "arm": route.arm,
            "at": request.at if self.settings.simulated_clock else now,
            "release_digest": answer.release_digest,
            "harness_digest": answer.harness_digest,
            "reply_id": request.reply_id,
            "latency_ms": round(latency_ms, 3),
            "tool_errors": answer.tool_errors,
            "violations": answer.violations,
            "quality": answer.quality,
            "reused": answer.reused,
        }
        if not self.settings.simulated_clock:
            event["received"] = now
        return json.dumps(event, ensure_ascii=False).encode("utf-8", "replace")

    async def _log(self, lines: list[bytes]) -> None:
        try:
            await self._events.write(lines)
        except OSError as error:
            raise SystemFault(f"the event log cannot be written: {error}") from error

    def _restore(self, events: Path) -> None:
        stored = self.settings.state / TRAFFIC_FILE
        if stored.exists():
            self.table.traffic = Traffic.model_validate_json(stored.read_text(encoding="utf-8"))
        if not events.exists():
            return
        with open(events, "rb") as lines:
            for line in lines:
                try:
                    event = json.loads(line)
                except ValueError:
                    continue  # a broken outcome, or the torn last line of a crash
                if isinstance(event, dict) and event.get("event") == "exposure":
                    if event.get("rollout") == self.settings.rollout:
                        self.table.restore(event["unit"], Arm(event["arm"]))


def create_app(router: Router) -> FastAPI:
    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        await router.close()

    app = FastAPI(title="canary router", lifespan=lifespan)

    @app.post("/turns")
    async def turns(request: TurnRequest) -> RoutedReply:
        if router.settings.simulated_clock and request.at is None:
            raise HTTPException(422, "at: missing; under a simulated clock every turn says when it happens")
        try:
            return await router.turn(request)
        except SystemFault as fault:
            raise HTTPException(503, str(fault)) from fault

    @app.post("/events")
    async def events(request: Request) -> dict[str, int]:
        if int(request.headers.get("content-length", 0)) > MAX_EVENTS_BYTES:
            raise HTTPException(413, f"more than {MAX_EVENTS_BYTES} bytes; send several batches")
        try:
            return await router.outcomes(await request.body())
        except SystemFault as fault:
            raise HTTPException(503, str(fault)) from fault

    @app.get("/traffic")
    async def read_traffic() -> TrafficState:
        return router.state()

    @app.put("/traffic")
    async def write_traffic(wanted: TrafficChange) -> TrafficState:
        try:
            return await router.change_traffic(wanted)
        except Conflict as conflict:
            raise HTTPException(409, str(conflict)) from conflict
        except Refused as refused:
            raise HTTPException(422, str(refused)) from refused

    @app.get("/healthz")
    async def healthz() -> Response:
        state = await router.health()
        return JSONResponse(state, status_code=200 if state["ready"] else 503)

    @app.get("/metrics")
    async def metrics() -> Response:
        state = router.state()
        router.metrics.gauge("share", state.traffic.share, phase=state.traffic.phase)
        for arm in Arm:
            router.metrics.gauge("units", state.assigned[arm], arm=arm)
        router.metrics.gauge("failed_turns", state.failures)
        return Response(router.metrics.text(), media_type=CONTENT_TYPE)

    return app


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m components.canary_deploy.router",
        description="Assigns viewers' turns to arms, measures replies, keeps the event log.",
    )
    parser.add_argument("--rollout", required=True, help="name of the rollout; written into every exposure")
    parser.add_argument("--salt", required=True, help="of the assignment hash; the same for the whole rollout")
    parser.add_argument("--unit", choices=[str(unit) for unit in Unit], default=str(Unit.ROOM_SESSION))
    parser.add_argument("--champion", required=True, metavar="URL")
    parser.add_argument("--canary", required=True, metavar="URL")
    parser.add_argument("--state", type=Path, required=True, metavar="DIR", help="events.jsonl and traffic.json")
    parser.add_argument(
        "--canary-timeout-s", type=float, default=RouterSettings.model_fields["canary_timeout_s"].default
    )
    parser.add_argument(
        "--champion-timeout-s", type=float, default=RouterSettings.model_fields["champion_timeout_s"].default
    )
    parser.add_argument("--simulated-clock", action="store_true", help="moments come with the requests")
    add_server_options(parser)
    options = parser.parse_args()
    fields = {name: getattr(options, name) for name in RouterSettings.model_fields}
    os.makedirs(options.state, exist_ok=True)
    return serve(create_app(Router(RouterSettings(**fields))), options)


if __name__ == "__main__":
    raise SystemExit(main())
