"""Loading a merchant's folder: everything that is wrong is said at once."""

import json
import shutil
from decimal import Decimal
from pathlib import Path

import pytest

from components.avatar.errors import InputError
from components.avatar.simulator.catalogue import Coupon, clock_of, load_catalogue, seconds_of
from components.avatar.simulator.merchant import load_merchant

SAMPLE = Path(__file__).parents[3] / "infra/harnesses/lumi-beauty"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copytree(SAMPLE, tmp_path / "shop")
    return tmp_path / "shop"


def faults_of(folder: Path) -> list[str]:
    with pytest.raises(InputError) as caught:
        load_merchant(folder)
    return [f"{Path(fault.file).name}|{fault.field}|{fault.found}" for fault in caught.value.faults]


def test_the_sample_merchant_loads() -> None:
    merchant = load_merchant(SAMPLE)
    assert merchant.catalogue.by_link[7].price.amount == Decimal("98.60")
    assert len(merchant.digest) == 16 and merchant.digest == load_merchant(SAMPLE).digest


def test_the_digest_covers_every_file(folder: Path) -> None:
    digests = {load_merchant(folder).digest}
    for name, old, new in (
        ("catalogue.jsonl", '"stock": 214', '"stock": 213'),
        ("questions.jsonl", "how much is link 7", "how much is link 7 now"),
        ("events.jsonl", '"at_s": 45', '"at_s": 46'),
        ("harness.yaml", "reply_words: 30", "reply_words: 29"),
    ):
        path = folder / name
        text = path.read_text(encoding="utf-8")
        assert old in text
        path.write_text(text.replace(old, new, 1), encoding="utf-8")
        digests.add(load_merchant(folder).digest)
    assert len(digests) == 5


def test_all_faults_of_all_files_at_once(folder: Path) -> None:
    catalogue = (folder / "catalogue.jsonl").read_text(encoding="utf-8").splitlines()
    catalogue[0] = catalogue[0].replace('"89.90"', "89.90")  # money as a float
    catalogue[1] = catalogue[1][:-5]  # truncated
    catalogue.append(catalogue[3])  # a link twice
    (folder / "catalogue.jsonl").write_text("\n".join(catalogue), encoding="utf-8")
    (folder / "questions.jsonl").write_bytes(b'{"id": "a", "text": "\xff"}\n')
    (folder / "events.jsonl").write_text('{"at_s": -1, "kind": "rain", "value": {}}\n', encoding="utf-8")
    (folder / "harness.yaml").write_text("format: 2\n", encoding="utf-8")
    found = faults_of(folder)
    for part in (
        "catalogue.jsonl|line 1.price.amount",
        "catalogue.jsonl|line 2",
        "catalogue.jsonl|line 49.link_id",
        "questions.jsonl|",
        "events.jsonl|line 1.at_s",
        "events.jsonl|line 1.kind",
        "harness.yaml|format|2",
    ):
        assert any(fault.startswith(part) for fault in found), (part, found)


@pytest.mark.parametrize(
    ("question", "field"),
    [
        ({"id": "x", "text": "hm", "family": "price", "link_id": 999}, "link_id"),
        ({"id": "x", "text": "hm", "family": "price"}, "link_id"),
        ({"id": "x", "text": "hm", "family": "unknown_link", "link_id": 7}, "link_id"),
        ({"id": "x", "text": "hm", "family": "shipping", "link_id": 7}, "slots.city"),
        (
            {"id": "x", "text": "hm", "family": "attributes", "link_id": 7, "slots": {"attribute": "wheels"}},
            "slots.attribute",
        ),
        ({"id": "x", "text": " ", "family": "chit_chat"}, "text"),
        ({"id": "x", "text": "hm", "family": "prices"}, "family"),
        ({"id": "x", "text": "hm", "linkid": 7}, "linkid"),
        ({"id": "price-001", "text": "hm"}, "id"),
    ],
)
def test_bad_questions(question: dict, field: str, folder: Path) -> None:
    with (folder / "questions.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(question) + "\n")
    assert [fault.split("|")[1].partition(".")[2] for fault in faults_of(folder)] == [field]


@pytest.mark.parametrize(
    "event",
    [
        {"at_s": 1, "kind": "price", "value": {"link_id": 7, "amount": 9.5}},
        {"at_s": 1, "kind": "price", "value": {"link_id": 7}},
        {"at_s": 1, "kind": "price", "value": {"link_id": 7, "amount": "cheap"}},
        {"at_s": 1, "kind": "stock", "value": {"link_id": 999, "stock": 1}},
        {"at_s": 1, "kind": "stock", "value": {"link_id": 7, "stock": -1}},
        {"at_s": 1, "kind": "limit_changed", "value": {"reply_words": 3}},
        {"at_s": 1, "kind": "limit_changed", "value": {"words": 30}},
        {"at_s": 1, "kind": "tool_renamed", "value": {"from": "nothing", "to": "x"}},
        {"at_s": 1, "kind": "on_air", "value": {"link_id": 7, "more": 1}},
    ],
)
def test_bad_events(event: dict, folder: Path) -> None:
    (folder / "events.jsonl").write_text(json.dumps(event) + "\n", encoding="utf-8")
    assert len(faults_of(folder)) == 1


def test_a_missing_folder_is_one_fault(tmp_path: Path) -> None:
    assert len(faults_of(tmp_path / "nowhere")) == 1


def test_a_raw_log_without_families_loads(folder: Path) -> None:
    (folder / "questions.jsonl").write_text('{"id": "a", "text": "how much is 7"}\r\n', encoding="utf-8")
    assert load_merchant(folder).questions[0].family is None


def test_catalogue_alone(tmp_path: Path) -> None:
    (tmp_path / "c.jsonl").write_text("\n", encoding="utf-8")
    with pytest.raises(InputError):
        load_catalogue(tmp_path / "c.jsonl")


@pytest.mark.parametrize(
    ("kind", "value", "price", "pays"),
    [
        ("amount", "20", "129.00", "109.00"),
        ("amount", "200", "129.00", "0.00"),
        ("percent", "10", "109.05", "98.15"),  # 98.145 rounds half up
        ("percent", "12", "219.90", "193.51"),
    ],
)
def test_coupon_arithmetic(kind: str, value: str, price: str, pays: str) -> None:
    coupon = Coupon.model_validate({"code": "XX", "kind": kind, "value": value})
    assert coupon.price_after(Decimal(price)) == Decimal(pays)


def test_clock_and_seconds_agree() -> None:
    assert [seconds_of(clock) for clock in ("20:00", "21:30", "19:00")] == [0, 5400, -3600]
    assert [clock_of(seconds) for seconds in (0, 5400, -3600, 4 * 3600 + 60)] == ["20:00", "21:30", "19:00", "00:01"]
