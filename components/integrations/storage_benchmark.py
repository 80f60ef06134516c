"""Throughput of the store beside plain boto3, on the same real server in the same run, and memory with a large object.

    python -m components.integrations.storage_benchmark --out storage.json

The store hashes what it stores and verifies what it fetches; both are part of its time. boto3 moves the same files
with `upload_file` and `download_file` and its own defaults. The two take turns, each going first as often as the
other, and medians are compared. The server and all files are local, so hashing weighs far more than over a network.
"""

import argparse
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

from components.integrations.metrics import write_json
from components.integrations.objects import MIB, S3Settings
from components.integrations.seaweedfs import S3Server, seaweedfs
from components.integrations.storage import Store, describe

GOAL = 0.7  # of plain boto3's throughput
CASES = {"one large file": (1, 256 * MIB), "many small files": (200, 64 * 1024)}  # files, bytes of each
MEMORY_MIB = 1024  # size of the object of the memory measurement


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m components.integrations.storage_benchmark", description="Store and plain boto3 on SeaweedFS."
    )
    parser.add_argument("--out", type=Path, required=True, help="JSON file with all figures")
    parser.add_argument("--repeats", type=int, default=6, help="of each transfer; an even number")
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="storage-benchmark-") as scratch, seaweedfs(Path(scratch)) as server:
        result: dict[str, Any] = {
            "machine": {"cpus": os.cpu_count(), "kind": platform.machine(), "boto3": version("boto3")},
            "goal": GOAL,
            "throughput": {
                case: compare(server, Path(scratch) / "files", options.repeats, *shape) for case, shape in CASES.items()
            },
        }
        small, large = (peak_memory_mib(server, "memory", size) for size in (1, MEMORY_MIB))
        result["memory"] = {"object_mib": MEMORY_MIB, "peak_mib": large, "peak_mib_with_1_mib": small}
    write_json(options.out, result)
    for case, directions in result["throughput"].items():
        for direction, row in directions.items():
            verdict = "goal met" if row["ratio"] >= GOAL else "BELOW THE GOAL"
            print(
                f"{case:17} {direction:4} store {row['store']:6.1f} MiB/s  boto3 {row['boto3']:6.1f} MiB/s"
                f"  ratio {row['ratio']:.2f}  ({verdict}: {GOAL})"
            )
    print(f"memory: {large:.0f} MiB at most to store and fetch {MEMORY_MIB} MiB, {small:.0f} MiB for 1 MiB")
    print(f"figures {options.out}")
    return 0


def compare(server: S3Server, folder: Path, repeats: int, files: int, size: int) -> dict[str, dict[str, Any]]:
    """MiB/s of both, up and down: medians, their ratio, and every sample."""
    rates: dict[str, dict[str, list[float]]] = {way: {"store": [], "boto3": []} for way in ("up", "down")}
    for repeat in range(repeats):
        folder.mkdir()
        for (way, who), seconds in _one_round(server, folder, files, size, boto3_first=repeat % 2 == 1).items():
            rates[way][who].append(files * size / MIB / seconds)
        shutil.rmtree(folder)
    result = {}
    for way, samples in rates.items():
        ours, plain = (statistics.median(samples[who]) for who in ("store", "boto3"))
        result[way] = {"store": ours, "boto3": plain, "ratio": ours / plain, "samples": samples}
    return result


def _one_round(
    server: S3Server, folder: Path, files: int, size: int, *, boto3_first: bool
) -> dict[tuple[str, str], float]:
    """Seconds of each transfer of `files` new files: the store would upload the same content only once."""
    source, fetched = folder / "source", folder / "boto3"
    source.mkdir()
    fetched.mkdir()
    names = [f"{number}.bin" for number in range(files)]
    for name in names:
        (source / name).write_bytes(os.urandom(size))
    store = Store(f"s3://{server.bucket}/benchmark", server.settings())
    digest = describe(source).digest
    client = server.client()

    def boto3_up() -> None:
        for name in names:
            client.upload_file(str(source / name), server.bucket, f"plain/{name}")

    def boto3_down() -> None:
        for name in names:
            client.download_file(server.bucket, f"plain/{name}", str(fetched / name))

    transfers: dict[tuple[str, str], Callable[[], object]] = {
        ("up", "store"): lambda: store.put(source),
        ("up", "boto3"): boto3_up,
        ("down", "store"): lambda: store.get(digest, folder / "store"),
        ("down", "boto3"): boto3_down,
    }
    seconds = {}
    for way in ("up", "down"):
        for who in ("boto3", "store") if boto3_first else ("store", "boto3"):
            started = time.perf_counter()
            transfers[way, who]()
            seconds[way, who] = time.perf_counter() - started
    return seconds


def peak_memory_mib(server: S3Server, prefix: str, size_mib: int) -> float:
    """Most memory, resident, of a fresh process that stores an object of `size_mib` MiB and fetches it again."""
    call = "import sys; from components.integrations.storage_benchmark import round_trip; round_trip(*sys.argv[1:])"
    with tempfile.TemporaryDirectory() as scratch:
        where = [server.endpoint, str(server.credentials), f"s3://{server.bucket}/{prefix}", scratch, str(size_mib)]
        done = subprocess.run([sys.executable, "-c", call, *where], check=True, capture_output=True, text=True)
    return float(done.stdout)


def round_trip(endpoint: str, credentials: str, uri: str, scratch: str, size_mib: str) -> None:
    """Print the peak of this process, in MiB."""
    source = Path(scratch) / "weights.bin"
    with source.open("wb") as file:
        file.truncate(int(size_mib) * MIB)  # a file of holes: its size counts, not its content
    store = Store(uri, S3Settings(endpoint_url=endpoint, secret_file=Path(credentials)))
    store.get(store.put(source).digest, Path(scratch) / "got")
    # Not getrusage: its maximum includes what the parent process had when it started this one.
    status = Path("/proc/self/status").read_text(encoding="ascii")
    print(int(status.split("VmHWM:")[1].split()[0]) / 1024)


if __name__ == "__main__":
    raise SystemExit(main())
