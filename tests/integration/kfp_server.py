"""A server that speaks the part of the Kubeflow Pipelines API (v2beta1) that experiments, runs and recurring runs need.

Answers are models of `kfp_server_api`, requests are parsed by the same models, so every field name is the client's own.
The rules are those of the real server in multi-user mode (kubeflow/pipelines, backend/src/apiserver): packages are
loaded and arguments checked against them, experiments have unique names, pages hold 20 to 200 rows, a page token fits
one filter only, a cron expression has its seconds first. State outlives `restart()`. What goes wrong is told by
`disturb()`.
"""

import base64
import json
import socket
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import kfp_server_api as api
import yaml
from google.protobuf import json_format
from kfp import components
from kfp.pipeline_spec import pipeline_spec_pb2

ROOT = "/apis/v2beta1/"
CODES = {400: 3, 401: 16, 403: 7, 404: 5, 409: 6, 500: 13}  # HTTP status -> gRPC code
TYPES = {"String": str, "Integer": int, "Float": float, "Boolean": bool, "Dict": dict, "List": list}
FILTERED = {"experiment_id", "run_id", "recurring_run_id", "display_name", "description", "namespace", "state"}


class Refused(Exception):
    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status, self.message = status, message


@dataclass
class Trouble:
    """What happens to the next `times` requests of a kind. Without a field set, nothing does."""

    status: int | None = None  # answered instead of the true answer
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=lambda: {"Content-Type": "text/html"})
    acts: bool = True  # the request takes effect
    cut: bool = False  # the connection ends without an answer
    hold: threading.Event | None = None  # nothing happens, nor is answered, before it is set
    meanwhile: Callable[[], object] | None = None  # after it took effect, before the answer
    times: int = 1


class KfpServer:
    """`namespaces` are those that the user may work in; `login` is a header that every request needs."""

    def __init__(self, namespaces: tuple[str, ...] = ("hat-training",), login: tuple[str, str] | None = None) -> None:
        self.namespaces, self.login = namespaces, login
        self.experiments: dict[str, api.V2beta1Experiment] = {}
        self.runs: dict[str, api.V2beta1Run] = {}
        self.recurring_runs: dict[str, api.V2beta1RecurringRun] = {}
        self.requests: list[tuple[str, str]] = []  # method and resource, in order
        self.bugs: list[BaseException] = []  # of this server; a test that meets one is worth nothing
        self._troubles: dict[tuple[str, str], list[Trouble]] = {}
        self._ages: dict[str, int] = {}  # id -> how many rows are older
        self._lock = threading.RLock()
        self._port = 0
        self.listening: ThreadingHTTPServer | None = None
        self.start()

    @property
    def host(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def start(self) -> None:
        if self.listening is None:
            self.listening = _Listener(("127.0.0.1", self._port), self)
            self._port = self.listening.server_port
            threading.Thread(target=self.listening.serve_forever, args=(0.02,), daemon=True).start()

    def stop(self) -> None:
        """Close the port and every connection."""
        listening, self.listening = self.listening, None
        if listening is not None:
            listening.shutdown()
            listening.server_close()
            listening.cut_all()

    def restart(self) -> None:
        self.stop()
        self.start()

    def disturb(self, method: str, resource: str, trouble: Trouble) -> None:
        self._troubles.setdefault((method, resource), []).append(trouble)

    def count(self, method: str, resource: str) -> int:
        return self.requests.count((method, resource))

    def trouble(self, method: str, resource: str) -> Trouble:
        with self._lock:
            self.requests.append((method, resource))
            waiting = self._troubles.get((method, resource), [])
            if not waiting:
                return Trouble()
            waiting[0].times -= 1
            return waiting[0] if waiting[0].times else waiting.pop(0)

    def answer(self, method: str, path: str, query: dict[str, str], body: bytes, headers: Any) -> Any:
        """The true answer, a model or a plain object. Raises Refused."""
        if self.login is not None and headers.get(self.login[0]) != self.login[1]:
            raise Refused(401, "Request header error: there is no user identity header.")
        resource, _, key = path.partition("/")
        with self._lock:
            match method, resource, key:
                case "GET", "experiments", "":
                    return self._page(self.experiments, query, "experiments", api.V2beta1ListExperimentsResponse)
                case "GET", "runs", "":
                    return self._page(self.runs, query, "runs", api.V2beta1ListRunsResponse)
                case "GET", "recurringruns", "":
                    rows, answer = self.recurring_runs, api.V2beta1ListRecurringRunsResponse
                    return self._page(rows, query, "recurring_runs", answer)
                case "POST", "experiments", "":
                    return self.add_experiment(parse(api.V2beta1Experiment, _json(body)))
                case "POST", "runs", "":
                    return self.add_run(parse(api.V2beta1Run, _json(body)))
                case "POST", "recurringruns", "":
                    return self.add_recurring_run(parse(api.V2beta1RecurringRun, _json(body)))
                case "DELETE", "recurringruns", _ if key:
                    if self.recurring_runs.pop(key, None) is None:
                        raise Refused(404, f"Failed to delete a recurring run: recurring run {key} not found")
                    return {}
        raise Refused(404, "Not Found")

    def add_experiment(self, experiment: Any) -> Any:
        self._check_namespace(experiment.namespace)
        if not experiment.display_name:
            raise Refused(400, "Experiment name is empty. Please specify a valid experiment name.")
        same = (experiment.namespace, experiment.display_name)
        if same in [(known.namespace, known.display_name) for known in self.experiments.values()]:
            raise Refused(409, f"Failed to create a new experiment. The name {same[1]} already exists.")
        experiment.experiment_id = self._new_id()
        experiment.created_at, experiment.storage_state = datetime.now(UTC), "AVAILABLE"
        self.experiments[experiment.experiment_id] = experiment
        return experiment

    def add_run(self, run: Any) -> Any:
        self._check_runnable(run)
        return self.keep_run(run)

    def keep_run(self, run: Any) -> Any:
        """Add a run unseen: tests make histories of them."""
        run.run_id, run.state, run.storage_state = self._new_id(), "PENDING", "AVAILABLE"
        run.created_at = datetime.now(UTC)
        self.runs[run.run_id] = run
        return run

    def add_recurring_run(self, run: Any) -> Any:
        namespace = self._check_runnable(run)
        if run.namespace not in (None, namespace):
            raise Refused(400, f"namespace {run.namespace} is not that of the experiment")
        if not 1 <= int(run.max_concurrency or 0) <= 10:
            raise Refused(400, f"The max concurrency of the recurring run is out of range: {run.max_concurrency}")
        cron = run.trigger and run.trigger.cron_schedule and run.trigger.cron_schedule.cron
        if not cron or len(cron.split()) not in (5, 6):  # without a weekday, and seconds first all the same
            raise Refused(400, f"Schedule cron is not a supported format: {cron}")
        run.namespace = namespace
        return self.keep_recurring_run(run)

    def keep_recurring_run(self, run: Any) -> Any:
        """As keep_run."""
        run.recurring_run_id, run.created_at = self._new_id(), datetime.now(UTC)
        run.status = "ENABLED" if run.mode == "ENABLE" else "DISABLED"
        self.recurring_runs[run.recurring_run_id] = run
        return run

    def _new_id(self) -> str:
        key = str(uuid.uuid4())
        self._ages[key] = len(self._ages)
        return key

    def _check_namespace(self, namespace: str | None) -> None:
        if not namespace:
            raise Refused(400, "Namespace is empty in multi-user mode")
        if namespace not in self.namespaces:
            raise Refused(403, f"User is not authorized in namespace {namespace}")

    def _check_runnable(self, run: Any) -> str:
        """The namespace of a new run, recurring or not, whose experiment, package and arguments are right."""
        if not run.display_name:
            raise Refused(400, "The run name is empty. Please specify a valid name")
        experiment = self.experiments.get(run.experiment_id)
        if experiment is None:
            raise Refused(404, f"Experiment {run.experiment_id} not found")
        self._check_namespace(experiment.namespace)
        check_package(run.pipeline_spec, (run.runtime_config and run.runtime_config.parameters) or {})
        return experiment.namespace

    def _page(self, rows: dict[str, Any], query: dict[str, str], name: str, answer: type) -> Any:
        in_experiment = query.get("experiment_id")
        if in_experiment:
            if in_experiment not in self.experiments:
                raise Refused(404, f"Experiment {in_experiment} not found")
            found = {key: row for key, row in rows.items() if row.experiment_id == in_experiment}
            self._check_namespace(self.experiments[in_experiment].namespace)
        else:
            self._check_namespace(query.get("namespace"))
            found = {key: row for key, row in rows.items() if self._namespace(row) == query["namespace"]}
        wanted = _wanted(query.get("filter", ""))
        order = query.get("sort_by", "") or "created_at"
        if order not in ("created_at", "created_at asc", "created_at desc"):
            raise Refused(400, f"Invalid sorting field: {order}")
        size = int(query.get("page_size", 0))
        if size < 0:
            raise Refused(400, f"The page size should be greater than 0. Got {size}")
        size = min(size or 20, 200)
        matching = [key for key, row in found.items() if all(getattr(row, k, None) == v for k, v in wanted.items())]
        matching.sort(key=self._ages.__getitem__, reverse=order.endswith("desc"))
        total = len(matching)
        if query.get("page_token"):
            token = _token(query["page_token"])
            if (token["filter"], token["order"]) != (wanted, order):
                raise Refused(400, "page token does not match the supplied sort by and/or filtering criteria")
            older = order.endswith("desc")
            matching = [
                k for k in matching if (self._ages[k] < token["age"] if older else self._ages[k] > token["age"])
            ]
        shown, rest = matching[:size], matching[size:]
        token = {"filter": wanted, "order": order, "age": self._ages[shown[-1]]} if rest else None
        encoded = base64.b64encode(json.dumps(token).encode()).decode() if token else None
        return answer(**{name: [rows[key] for key in shown] or None, "total_size": total, "next_page_token": encoded})

    def _namespace(self, row: Any) -> str:
        return getattr(row, "namespace", None) or self.experiments[row.experiment_id].namespace


def check_package(spec: Any, parameters: dict[str, Any]) -> None:
    """Load a package as kfp does, and hold the arguments against its inputs. Raises Refused."""
    if not isinstance(spec, dict):
        raise Refused(400, "The run has no pipeline")
    if set(spec) == {"pipeline_spec", "platform_spec"}:
        documents = [spec["pipeline_spec"], spec["platform_spec"]]
    else:
        documents = [spec]
    try:
        loaded = components.load_component_from_text(yaml.safe_dump_all(documents)).component_spec
        for document, message in zip(
            documents, (pipeline_spec_pb2.PipelineSpec, pipeline_spec_pb2.PlatformSpec), strict=False
        ):
            json_format.ParseDict(document, message())
    except Exception as error:  # whatever the loader finds
        raise Refused(400, f"Invalid IR spec format: {type(error).__name__}: {error}") from error
    inputs = loaded.inputs or {}
    for name, value in parameters.items():
        if name not in inputs:
            raise Refused(400, f"parameter {name} is not an input of the pipeline")
        kind = TYPES[inputs[name].type]
        if not isinstance(value, kind) or (kind is not bool and isinstance(value, bool)):
            raise Refused(400, f"parameter {name} is a {type(value).__name__}, the pipeline takes {inputs[name].type}")
    for name, described in inputs.items():
        if not described.optional and name not in parameters:
            raise Refused(400, f"parameter {name} of the pipeline has neither a value nor a default")


def parse(model: type, data: Any) -> Any:
    """A request's JSON as a model of the client, nested ones too. Raises Refused for a field that it does not have."""
    if not isinstance(data, dict):
        raise Refused(400, f"{model.__name__}: not an object")
    if unknown := set(data) - set(model.attribute_map.values()):
        raise Refused(400, f"{model.__name__}: unknown field {sorted(unknown)}")
    values = {}
    for name, key in model.attribute_map.items():
        if key in data:
            kind = getattr(api.models, model.openapi_types[name], None)
            values[name] = data[key]
            if kind is not None and kind.attribute_map:
                values[name] = parse(kind, data[key])
            elif kind is not None and data[key] not in kind.allowable_values:
                raise Refused(400, f"{model.__name__}.{key}: {data[key]}")
    return model(**values)


def _json(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError as error:
        raise Refused(400, f"not JSON: {error}") from error


def _wanted(text: str) -> dict[str, str]:
    """Field -> value of a filter; of its operations, equality only."""
    try:
        predicates = json.loads(text)["predicates"] if text else []
        wanted = {}
        for predicate in predicates:
            value = predicate.get("stringValue", predicate.get("string_value"))
            if predicate["operation"] not in ("EQUALS", 1) or predicate["key"] not in FILTERED or value is None:
                raise ValueError(predicate)
            wanted[predicate["key"]] = value
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Refused(400, f"failed to parse valid filter from {text!r}: {error}") from error
    return wanted


def _token(text: str) -> dict[str, Any]:
    try:
        return json.loads(base64.b64decode(text, validate=True))
    except ValueError as error:
        raise Refused(400, f"Invalid package token: {error}") from error


class _Listener(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True

    def __init__(self, address: tuple[str, int], kfp: KfpServer) -> None:
        super().__init__(address, _Handler)
        self.kfp = kfp
        self.open: dict[socket.socket, int] = {}  # connection -> its thread

    def cut_all(self) -> None:
        """Every connection but that of the request that is asking for it."""
        for connection, thread in list(self.open.items()):
            if thread != threading.get_ident():
                _cut(connection)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away while its answer was written is what some tests want."""


def _cut(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass  # the other side was first


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Listener

    def setup(self) -> None:
        super().setup()
        self.server.open[self.connection] = threading.get_ident()

    def finish(self) -> None:
        self.server.open.pop(self.connection, None)
        super().finish()

    def serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        kfp, url = self.server.kfp, urlsplit(self.path)
        path = url.path.removeprefix(ROOT) if url.path.startswith(ROOT) else ""
        query = {key: values[-1] for key, values in parse_qs(url.query).items()}
        trouble = kfp.trouble(self.command, path.partition("/")[0])
        if trouble.hold is not None:
            trouble.hold.wait()
        status, content, headers = 200, b"", {"Content-Type": "application/json"}
        if trouble.acts:
            try:
                content = _dump(kfp.answer(self.command, path, query, body, self.headers))
            except Refused as refused:
                status, code = refused.status, CODES[refused.status]
                content = _dump(api.GoogleRpcStatus(code=code, message=refused.message, details=[]))
            except Exception as error:
                kfp.bugs.append(error)
                status = 500
        if trouble.meanwhile is not None:
            trouble.meanwhile()
        if trouble.cut:
            self.close_connection = True
            _cut(self.connection)
        else:
            if trouble.status is not None:
                status, content, headers = trouble.status, trouble.body, trouble.headers
            if kfp.listening is not self.server:  # stopped by now: this is the last answer
                self.close_connection = True
                headers = headers | {"Connection": "close"}
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    do_GET = do_POST = do_DELETE = serve

    def log_message(self, format: str, *args: object) -> None:
        pass


def _dump(answer: Any) -> bytes:
    return json.dumps(api.ApiClient().sanitize_for_serialization(answer)).encode()


@contextmanager
def serving(**settings: Any) -> Iterator[KfpServer]:
    """A server for the time of the block. Fails at its end when the server itself did."""
    server = KfpServer(**settings)
    try:
        yield server
    finally:
        server.stop()
    if server.bugs:
        raise server.bugs[0]
