"""Counters in Prometheus' text format 0.0.4 (https://prometheus.io/docs/instrumenting/exposition_formats/)."""

from collections import Counter
from dataclasses import dataclass, field

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
LATENCY_BUCKETS_S = (0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
Labels = tuple[tuple[str, str], ...]


@dataclass
class Exposition:
    """What one server counted. Names get `prefix` in front."""

    prefix: str
    counters: Counter[tuple[str, Labels]] = field(default_factory=Counter)
    gauges: dict[tuple[str, Labels], float] = field(default_factory=dict)
    latencies: dict[Labels, list[float]] = field(default_factory=dict)
    """By labels: counts of each bucket, then count, then sum in seconds."""

    def count(self, name: str, by: float = 1, **labels: str) -> None:
        self.counters[name, _key(labels)] += by  # type: ignore[assignment]

    def gauge(self, name: str, value: float, **labels: str) -> None:
        self.gauges[name, _key(labels)] = value

    def latency(self, seconds: float, **labels: str) -> None:
        row = self.latencies.setdefault(_key(labels), [0.0] * (len(LATENCY_BUCKETS_S) + 2))
        for index, edge in enumerate(LATENCY_BUCKETS_S):
            row[index] += seconds <= edge
        row[-2] += 1
        row[-1] += seconds

    def text(self) -> str:
        lines: list[str] = []
        for values, kind in ((self.counters, "counter"), (self.gauges, "gauge")):
            last = ""
            for (name, labels), value in sorted(values.items()):
                if name != last:
                    lines.append(f"# TYPE {self.prefix}_{name} {kind}")
                    last = name
                lines.append(f"{self.prefix}_{name}{_shown(labels)} {value:g}")
        histogram = f"{self.prefix}_latency_seconds"
        if self.latencies:
            lines.append(f"# TYPE {histogram} histogram")
        for labels, row in sorted(self.latencies.items()):
            edges = [f"{edge:g}" for edge in LATENCY_BUCKETS_S] + ["+Inf"]
            for edge, value in zip(edges, row, strict=False):
                lines.append(f"{histogram}_bucket{_shown((*labels, ('le', edge)))} {value:g}")
            lines.append(f"{histogram}_count{_shown(labels)} {row[-2]:g}")
            lines.append(f"{histogram}_sum{_shown(labels)} {row[-1]:.6f}")
        return "\n".join(lines) + "\n"


def _key(labels: dict[str, str]) -> Labels:
    return tuple(sorted(labels.items()))


def _shown(labels: Labels) -> str:
    def escaped(value: str) -> str:
        return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")

    return "{" + ",".join(f'{name}="{escaped(value)}"' for name, value in labels) + "}" if labels else ""
