"""The client of a Kubeflow Pipelines server: experiments, runs, recurring runs; time limits, one line for a fault.

kfp's own client waits without a limit and cannot say what became of a call. Here reading and deleting are tried again
where that may help. Creating is sent once: a run whose answer was lost may well be running, and a second one would
train the same model beside it, so what became of it is looked up by its name.

The login is that of kfp's client: a cookie or a header in ~/.config/kfp/context.json.
"""

import json
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, TypeVar

import kfp_server_api as api
import urllib3
from urllib3.exceptions import ConnectTimeoutError, NewConnectionError, ReadTimeoutError

from components.avatar.errors import InputError, SystemFault, file_fault

CONTEXT_FILE = Path("~/.config/kfp/context.json")
CONNECT_TIMEOUT_S = 10.0
TIMEOUT_S = 60.0  # for the next bytes of an answer
PAUSES_S = (1.0, 2.0, 4.0, 8.0)  # between tries: together about what the server's pod takes to restart
PAGE_SIZE = 100  # the server takes up to 200; every item carries its whole pipeline
FINISHED = frozenset({"SUCCEEDED", "SKIPPED", "FAILED", "CANCELED"})

A = TypeVar("A")


class _Failed(Exception):
    """A call without a usable answer. `sent`: the server may have acted on it; `passing`: another try may help."""

    def __init__(self, reason: str, advice: str, *, sent: bool, passing: bool, status: int | None = None) -> None:
        super().__init__(reason)
        self.reason, self.advice, self.sent, self.passing, self.status = reason, advice, sent, passing, status


class PipelineServer:
    """One namespace of the server at `host` (`https://...`). Every method raises SystemFault: step, host, reason, what
    to do."""

    def __init__(self, host: str, namespace: str) -> None:
        """Raises InputError when kfp's context file is not readable; sends nothing."""
        self.host, self.namespace = host.rstrip("/"), namespace
        configuration = api.Configuration(host=self.host)
        # urllib3 would send requests again, and follow redirects, unseen.
        configuration.retries = False  # pyright: ignore[reportAttributeAccessIssue] - it is generated, and typed as None
        self._client = api.ApiClient(configuration, **_login())
        self._experiments = api.ExperimentServiceApi(self._client)
        self._runs = api.RunServiceApi(self._client)
        self._recurring = api.RecurringRunServiceApi(self._client)

    def experiment(self, name: str) -> str:
        """The id of the experiment of that name, which is created if there is none."""

        def find() -> str | None:
            send = self._experiments.experiment_service_list_experiments
            rows = self._pages(send, "experiments", {"display_name": name})
            return rows[0].experiment_id if rows else None

        if known := self._patiently(f"find the experiment {name}", find):
            return known
        body = api.V2beta1Experiment(display_name=name, namespace=self.namespace)
        return self._create(
            f"create the experiment {name}",
            lambda: self._send(self._experiments.experiment_service_create_experiment, body).experiment_id,
            find,
        )

    def runs(self, like: Any) -> dict[str, Any]:
        """By id, the runs (V2beta1Run) with the experiment, the display name and the description of `like`."""
        return self._patiently(f"list the runs {like.display_name}", lambda: self._runs_like(like))

    def runs_named(self, name: str) -> list[Any]:
        """The runs (V2beta1Run) of that display name, whatever their experiment."""
        send, same = self._runs.run_service_list_runs, {"display_name": name}
        return self._patiently(f"list the runs {name}", lambda: self._pages(send, "runs", same))

    def start_run(self, run: Any, known: Collection[str]) -> str:
        """Create a run (V2beta1Run); returns its id. `known` are the ids of runs(run) until now: a further one is this
        call's, even when its answer never came.
        """

        def find() -> str | None:
            return next((run_id for run_id in self._runs_like(run) if run_id not in known), None)

        send = self._runs.run_service_create_run
        return self._create(f"start the run {run.display_name}", lambda: self._send(send, run).run_id, find)

    def recurring_runs(self, name: str) -> set[str]:
        """Ids of the recurring runs of that name, whatever their experiment."""
        return self._patiently(f"list the recurring runs {name}", lambda: self._named_recurring(name))

    def create_recurring_run(self, run: Any, known: set[str]) -> str:
        """As start_run, for a V2beta1RecurringRun."""

        def find() -> str | None:
            return next(iter(self._named_recurring(run.display_name) - known), None)

        send = self._recurring.recurring_run_service_create_recurring_run
        step = f"create the recurring run {run.display_name}"
        return self._create(step, lambda: self._send(send, run).recurring_run_id, find)

    def delete_recurring_run(self, run_id: str) -> None:
        """Delete one; one that is gone already is no fault."""

        def delete() -> None:
            try:
                self._send(self._recurring.recurring_run_service_delete_recurring_run, run_id)
            except _Failed as failed:
                if failed.status != 404:
                    raise

        self._patiently(f"delete the old recurring run {run_id}", delete)

    def _runs_like(self, run: Any) -> dict[str, Any]:
        same = {"display_name": run.display_name, "description": run.description}
        rows = self._pages(self._runs.run_service_list_runs, "runs", same, experiment_id=run.experiment_id)
        return {row.run_id: row for row in rows}

    def _named_recurring(self, name: str) -> set[str]:
        send = self._recurring.recurring_run_service_list_recurring_runs
        return {row.recurring_run_id for row in self._pages(send, "recurring_runs", {"display_name": name})}

    def _pages(self, send: Callable[..., Any], field: str, same: dict[str, str], **query: str) -> list[Any]:
        """Every row of a list that has the values `same`, over all pages."""
        predicates = [{"operation": "EQUALS", "key": key, "stringValue": value} for key, value in same.items()]
        query = {"namespace": self.namespace, "filter": json.dumps({"predicates": predicates})} | query
        rows: list[Any] = []
        tokens = [""]
        while True:
            page = self._send(send, page_size=PAGE_SIZE, page_token=tokens[-1], **query)
            rows += getattr(page, field) or []
            if not page.next_page_token:
                return [row for row in rows if all(getattr(row, key) == value for key, value in same.items())]
            if page.next_page_token in tokens:
                raise _Failed("its list of pages has no end", "look at the server's log", sent=True, passing=False)
            tokens.append(page.next_page_token)

    def _patiently(self, step: str, call: Callable[[], A]) -> A:
        """`call`, which may be repeated; after PAUSES_S where the server fails for a moment."""
        failures: list[_Failed] = []
        for pause in (0.0, *PAUSES_S):
            time.sleep(pause)
            try:
                return call()
            except _Failed as failed:
                failures.append(failed)
                if not failed.passing:
                    break
        raise self._fault(step, failures[-1])

    def _create(self, step: str, send: Callable[[], A | None], find: Callable[[], A | None]) -> A:
        """`send` is repeated only when it cannot have reached the server; else `find` says what became of it."""

        def once() -> A | None:
            try:
                return send()
            except _Failed as failed:
                if failed.sent or failed.status == 409:  # 409: somebody else was first
                    lost.append(failed)
                    return None
                raise

        lost: list[_Failed] = []
        if created := self._patiently(step, once):
            return created
        outcome = "whether it exists is not known"
        for pause in (0.0, *PAUSES_S):
            time.sleep(pause)
            try:
                if found := find():
                    return found
                outcome = "the server lists none"
            except _Failed:
                outcome = "whether it exists is not known"
        raise self._fault(f"{step}, {outcome}", lost[0] if lost else _not_the_api(), "; the same command again is safe")

    def _fault(self, step: str, failed: _Failed, note: str = "") -> SystemFault:
        return SystemFault(f"{self.host}: could not {step}: {failed.reason}; {failed.advice}{note}")

    def _send(self, send: Callable[..., Any], *body: Any, **query: Any) -> Any:
        """One request and its answer as a model of the API. Raises _Failed."""
        try:
            answer = send(*body, _request_timeout=(CONNECT_TIMEOUT_S, TIMEOUT_S), **query)
            if isinstance(json.loads(self._client.last_response.data), dict):  # models are made of any text
                return answer
        except api.ApiException as error:
            raise _refusal(error) from None
        except (NewConnectionError, ConnectTimeoutError) as error:
            reason = f"no connection ({error.__cause__ or error})"
            raise _Failed(reason, "check KFP_HOST, and that the server runs", sent=False, passing=True) from None
        except ReadTimeoutError:
            advice = "try again when it is less busy"
            raise _Failed(f"no answer within {TIMEOUT_S:g} s", advice, sent=True, passing=False) from None
        except urllib3.exceptions.HTTPError as error:
            reason = f"the connection broke ({' '.join(str(error).split())[:200]})"
            raise _Failed(reason, "try again", sent=True, passing=True) from None
        except (ValueError, TypeError, AttributeError) as error:
            behind = error.__context__  # the client trips over an error whose body is no text
            if isinstance(behind, api.ApiException) and behind.status:
                raise _refusal(behind) from None
            if isinstance(behind, api.ApiException):
                reason = f"no secure connection ({' '.join(str(behind.reason).split())[:200]})"
                raise _Failed(reason, "check https and the certificate", sent=False, passing=False) from None
        raise _not_the_api()


def _login() -> dict[str, Any]:
    """How kfp's context file logs in. Raises InputError, without a value, when it is no JSON object."""
    path = CONTEXT_FILE.expanduser()
    if not path.is_file():
        return {}
    try:
        context = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError([file_fault(path, type(error).__name__, "a JSON object")]) from None
    if not isinstance(context, dict):
        raise InputError([file_fault(path, type(context).__name__, "a JSON object")])
    names = {name: f"client_authentication_{name}" for name in ("cookie", "header_name", "header_value")}
    return {name: context.get(key) for name, key in names.items()}


def _not_the_api() -> _Failed:
    advice = "check KFP_HOST (a login page in front of the server answers like that, too)"
    return _Failed("the answer is not one of the Kubeflow Pipelines API", advice, sent=True, passing=False)


def _refusal(error: Any) -> _Failed:
    """An HTTP status that is no success, as a failure with the server's own words."""
    status = error.status or 0
    said = f"{status} {_words(error.body) or error.reason or ''}".strip()
    if status in (401, 403):
        keys = "client_authentication_cookie, or client_authentication_header_name and _value"
        return _Failed(said, f"log in: {keys} in {CONTEXT_FILE}", sent=False, passing=False, status=status)
    if status == 404:
        return _Failed(said, "check KFP_HOST: its API is /apis/v2beta1", sent=False, passing=False, status=status)
    if status == 429:
        return _Failed(said, "try again later", sent=False, passing=True, status=status)
    if status >= 500:
        return _Failed(said, "look at the server's log, try again", sent=True, passing=True, status=status)
    if 300 <= status < 400:
        place = (error.headers or {}).get("Location", "elsewhere")
        reason = f"{status}, sent on to {str(place)[:200]}"
        return _Failed(reason, "log in, or use that address as KFP_HOST", sent=False, passing=False, status=status)
    if status == 0:  # a field of the answer that does not parse
        return _not_the_api()
    return _Failed(said, "the server refuses what was sent", sent=False, passing=False, status=status)


def _words(body: Any) -> str:
    """The message of an error's body, one line; empty where it is no error of the API."""
    try:
        message = json.loads(body)["message"]
    except (ValueError, KeyError, TypeError):
        return ""
    return " ".join(str(message).split())[:300]
