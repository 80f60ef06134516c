"""Promotion by a person: alias `canary` is set in MLflow's own UI, in a real browser; the canary starts and the UI
shows it. The rollout is the real one (two agent services, the router, the decision) on tiny random-weight models.

Screenshots are left in runs/test-artifacts/promotion (ignored by git).
"""

import json
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from selenium.webdriver import Chrome, ChromeOptions, ChromeService
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

from components.canary_deploy.ledger import Ledger
from components.canary_deploy.reconciler import RUN, STATE, VERDICT
from components.canary_deploy.webhook import PATH
from components.integrations.tracking import Tracking
from components.integrations.weights import resolve_base_model
from tests.integration.conftest import answers, free_port, server, wait_until
from tests.integration.promotion_servers import EXPERIMENT, SECRET, MlflowServer, eventually, register

pytestmark = pytest.mark.timeout(900)
ROOT = Path(__file__).parents[2]
MERCHANT = ROOT / "infra" / "harnesses" / "lumi-beauty"
PICTURES = ROOT / "runs" / "test-artifacts" / "promotion"
MODEL = "avatar-agent"
WAIT_S = 300
SETTINGS = {
    "rooms": 24, "viewers_per_room": 60, "live_replies": 4, "rooms_a_decision": 8, "concurrent_rooms": 4,
    "batch_size": 4, "max_new_tokens": 8, "ready_timeout_s": 400,
}  # fmt: skip


def programs() -> tuple[str, str]:
    """The browser and its driver. Without them the test is skipped, and says what to install."""
    found = shutil.which("chromium") or shutil.which("google-chrome"), shutil.which("chromedriver")
    if None in found:
        pytest.skip("no browser: apt-get install --no-install-recommends chromium chromium-driver")
    return found  # type: ignore[return-value]


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Chrome]:
    chromium, driver = programs()
    options = ChromeOptions()
    options.binary_location = chromium
    for flag in (
        "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
        "--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-proxy-server",
        "--window-size=1600,1200", f"--user-data-dir={tmp_path / 'profile'}",
    ):  # fmt: skip
        options.add_argument(flag)
    chrome = Chrome(options, ChromeService(driver, log_output=str(tmp_path / "chromedriver.log")))
    chrome.set_page_load_timeout(WAIT_S)
    try:
        yield chrome
    finally:
        chrome.quit()


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> dict[str, Path]:
    """Two tiny models of one architecture with different weights."""
    import torch
    from transformers import AutoModelForCausalLM

    tiny = resolve_base_model("random:tiny", ROOT / ".cache")
    root = tmp_path_factory.mktemp("models")
    found = {arm: Path(shutil.copytree(tiny, root / arm)) for arm in ("fixed_sft", "hat")}
    model = AutoModelForCausalLM.from_pretrained(tiny)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.05 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(7)))
    model.save_pretrained(found["hat"])
    return found


@contextmanager
def promote_watch(folder: Path, uri: str) -> Iterator[Path]:
    """The command that a user runs; gives its state folder."""
    port, state, secret = free_port(), folder / "state", folder / "secret"
    secret.write_text(SECRET)
    url = f"http://127.0.0.1:{port}"
    command = [
        *(sys.executable, "-u", "-m", "components.canary_deploy", "promote-watch", "--tracking-uri", uri),
        *("--experiment", EXPERIMENT, "--merchant", str(MERCHANT), "--state", str(state), "--interval", "600"),
        *("--secret-file", str(secret), "--webhook-url", url + PATH, "--port", str(port)),
        *("--settings", json.dumps(SETTINGS), "--cache", str(folder / "cache")),
    ]
    log = folder / "promote-watch.log"
    with server(command, log, {"PYTHONPATH": str(ROOT)}) as process:
        wait_until(lambda: answers(url + "/healthz"), process, log)
        yield state


class Page:
    """What a person does and sees in MLflow's UI."""

    def __init__(self, browser: Chrome, uri: str) -> None:
        self.browser, self.uri = browser, uri
        PICTURES.mkdir(parents=True, exist_ok=True)

    def open(self, path: str) -> None:
        self.browser.get(f"{self.uri}/#{path}")
        self.browser.refresh()  # a change behind the # loads nothing by itself

    def has(self, *texts: str) -> None:
        """Wait until the page shows all of `texts`; a picture of what it shows instead is kept."""
        try:
            WebDriverWait(self.browser, WAIT_S).until(lambda b: all(text in self.text for text in texts))
        except Exception:
            self.picture("failed")
            raise AssertionError(f"{texts} not in:\n{self.text[:3000]}") from None

    @property
    def text(self) -> str:
        return self.browser.find_element(By.TAG_NAME, "body").get_property("innerText")  # type: ignore

    def click(self, xpath: str) -> None:
        wait = WebDriverWait(self.browser, WAIT_S)
        wait.until(lambda b: any(e.is_displayed() for e in b.find_elements(By.XPATH, xpath)))
        next(e for e in self.browser.find_elements(By.XPATH, xpath) if e.is_displayed()).click()

    def picture(self, name: str) -> None:
        self.browser.save_screenshot(str(PICTURES / f"{name}.png"))


def set_alias_in_the_ui(page: Page, version: str, alias: str) -> float:
    """As a person does it: the version's page, its aliases, a name, Save. The time of the last click, since 1970."""
    page.open(f"/models/{MODEL}/versions/{version}")
    page.has(f"Version {version}", "Aliases")
    page.picture("1-version-before")
    page.click("//*[normalize-space(text())='Aliases']/following::button[1]")
    page.has("Save aliases")
    page.browser.find_element(By.XPATH, "//div[@role='dialog']//input[@role='combobox']").send_keys(alias, Keys.ENTER)
    page.has("Save aliases", alias)
    page.picture("2-alias-entered")
    clicked = time.time()
    page.click("//button[normalize-space(.)='Save aliases']")
    return clicked


def test_a_person_starts_a_canary_in_mlflows_ui(browser: Chrome, models: dict[str, Path], tmp_path: Path) -> None:
    with MlflowServer(tmp_path).running() as mlflow:
        tracking = Tracking(mlflow.uri, EXPERIMENT)
        for arm, folder in models.items():
            register(tracking, tmp_path / "store", folder, arm)
        tracking.client.set_registered_model_alias(MODEL, "champion", "1")
        with promote_watch(tmp_path, mlflow.uri) as state:
            ledger = Ledger(state / "ledger.jsonl")
            eventually(lambda: tracking.client.list_webhooks(), "promote-watch has registered its webhook")
            page = Page(browser, mlflow.uri)

            clicked = set_alias_in_the_ui(page, "2", "canary")
            eventually(lambda: [e for e in ledger.entries() if e.kind == "started"], "the canary starts")
            started = next(e for e in ledger.entries() if e.kind == "started")
            print(f"click to canary start: {started.at - clicked:.2f} s; webhook to canary start: "
                  f"{started.body['noticed']['seconds']:.2f} s")  # fmt: skip
            assert started.body["noticed"]["by"] == "webhook"  # a look at the interval would come after ten minutes

            run_id = tracking.client.get_model_version(MODEL, "2").tags[RUN]
            run_page = f"/experiments/{tracking.experiment_id}/runs/{run_id}"
            page.open(run_page)
            page.has("canary-v2", STATE)
            page.picture("3-run-after-the-start")
            eventually(lambda: [e for e in ledger.entries() if e.kind == "published"], "the outcome is told", WAIT_S)
            ended = next(e for e in ledger.entries() if e.kind == "ended").body["ended"]
            assert ended["outcome"] == "finished" and ended["verdict"] in ("promote", "hold", "rollback"), ended

            page.open(run_page)
            page.has("canary-v2", STATE, "finished", VERDICT, ended["verdict"], "version 2")
            page.picture("4-run-with-verdict")
            page.open(f"/models/{MODEL}/versions/2")
            page.has(STATE, "finished", VERDICT, ended["verdict"])
            page.picture("5-version-with-verdict")
            assert ledger.verify() == []
