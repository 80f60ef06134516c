"""Offline validation of the decision: error rates and power over simulated rollouts, and the fault drill.

Three judges see the same draws:
* `statistic`: GMV alone, group-sequential looks and confidence sequence (vectorised over runs);
* `decision`: the whole `decide()` with all guardrails, 20 times a rollout;
* `naive_t_test`: what a dashboard does: a t-test over viewers, looked at 20 times, stopped at the first p < 0.05.
"""

import os
import time
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from multiprocessing import get_context

import numpy as np
from scipy.special import betaincinv, stdtrit

from components.canary_deploy.config import CanaryConfig, Mode
from components.canary_deploy.decision import GUARDRAILS, Verdict, harm_margins
from components.canary_deploy.drill import events_to_detect, healthy_stream, run_drill
from components.canary_deploy.events import EventLog
from components.canary_deploy.joining import build_evidence
from components.canary_deploy.sequential import look_bounds, sequence_multiplier, to_t
from components.canary_deploy.simulate import PEEKS, Population, Shop, draw, draw_shared_rooms, population, roll_out
from components.canary_deploy.statistics import independent_ratio, paired_ratio

EFFECTS = (-0.20, -0.10, -0.05, 0.0, 0.05, 0.10, 0.20)
POOL_ROOMS = 20_000
VERDICTS = ("promote", "hold", "rollback")
BURST_SEEDS = 10
JOINED_EVENTS = 100_000


@dataclass(frozen=True, eq=False)
class Paths:
    """GMV effects of many runs after each peek, [runs, peeks]."""

    log_effect: np.ndarray
    log_se: np.ndarray
    naive_t: np.ndarray
    """Welch's t over viewers."""


def interval(count: int, runs: int, level: float = 0.95) -> list[float]:
    """Clopper-Pearson interval of a binomial share."""
    tail = (1 - level) / 2
    low = float(betaincinv(count, runs - count + 1, tail)) if count else 0.0
    high = float(betaincinv(count + 1, runs - count, 1 - tail)) if count < runs else 1.0
    return [round(low, 5), round(high, 5)]


def gmv_paths(pool: Population, rooms: int, runs: int, effect: float, rng: np.random.Generator) -> Paths:
    """`independent_ratio` and a viewer-level t-test for all runs and peeks at once, from running sums over rooms."""
    ends = np.round(rooms * np.arange(1, PEEKS + 1) / PEEKS).astype(int)
    y, n, squares = pool.rooms.gmv, pool.rooms.viewers, pool.gmv_squares
    arms = []
    for factor in (1 + effect, 1.0):
        rows = rng.integers(0, len(y), (runs, rooms))
        y_arm, n_arm = y[rows] * factor, n[rows]
        columns = (y_arm, n_arm, y_arm**2, y_arm * n_arm, n_arm**2, squares[rows] * factor**2)
        sy, sn, syy, syn, snn, per_viewer = (np.cumsum(column, axis=1)[:, ends - 1] for column in columns)
        ratio = sy / sn
        residual = syy - 2 * ratio * syn + ratio**2 * snn
        variance = residual * ends / (ends - 1) / sn**2
        naive_variance = (per_viewer / sn - ratio**2) / (sn - 1)
        arms.append((ratio, variance, naive_variance))
    (r_b, v_b, w_b), (r_a, v_a, w_a) = arms
    return Paths(np.log(r_b / r_a), np.sqrt(v_b / r_b**2 + v_a / r_a**2), (r_b - r_a) / np.sqrt(w_b + w_a))


def _shares(verdicts: Iterable[str]) -> dict[str, float]:
    counts = Counter(verdicts)
    runs = sum(counts.values())
    return {name: round(counts[name] / runs, 4) for name in VERDICTS}


def _first(up: np.ndarray, down: np.ndarray) -> list[str]:
    """Verdict of each run: whichever of promote [runs, peeks] and rollback comes first; a rollback wins a tie."""
    first_up = np.where(up.any(axis=1), up.argmax(axis=1), PEEKS)
    first_down = np.where(down.any(axis=1), down.argmax(axis=1), PEEKS)
    return [
        "hold" if min(u, d) == PEEKS else "promote" if u < d else "rollback"
        for u, d in zip(first_up, first_down, strict=True)
    ]


def statistic_verdicts(paths: Paths, rooms: int, config: CanaryConfig) -> list[str]:
    """GMV alone: promotion at the planned looks, rollback when its confidence sequence is wholly beyond the margin."""
    ends = np.round(rooms * np.arange(1, PEEKS + 1) / PEEKS).astype(int)
    df = 2 * ends - 2
    margin = harm_margins(config)["gmv"]
    reach = np.full(PEEKS, np.inf)
    for fraction, bound in zip(config.looks, look_bounds(config.looks, config.alpha, True), strict=True):
        peek = round(fraction * PEEKS) - 1
        reach[peek] = to_t(bound, df[peek])
    above = 0.0 if config.mode is Mode.SUPERIOR else -margin
    up = paths.log_effect - reach * paths.log_se > above
    alpha = config.guardrail_alpha / len(GUARDRAILS)
    wide = np.array(
        [
            to_t(sequence_multiplier(int(end), config.planned_rooms, alpha), d)
            if end >= config.burn_in_rooms
            else np.inf
            for end, d in zip(ends, df, strict=True)
        ]
    )
    down = paths.log_effect + wide * paths.log_se < -margin
    return _first(up, down)


def fixed_power(paths: Paths, rooms: int) -> float:
    """Share of runs that one clustered t-test at the end, two-sided 5%, finds better."""
    limit = -float(stdtrit(2 * rooms - 2, 0.025))
    return float((paths.log_effect[:, -1] / paths.log_se[:, -1] > limit).mean())


def shared_rooms(rooms: int, runs: int, rng: np.random.Generator) -> dict[str, dict[str, float]]:
    """Viewers within rooms, one two-sided 5% test at the end: the paired formula, and the one for independent arms put
    to the same data (which ignores that both arms share the rooms, so it never alarms and finds less).
    """
    found = {}
    for name, statistic in (("paired", paired_ratio), ("independent_arms_formula", independent_ratio)):
        shares = {}
        for key, effect in (("aa_false_positive", 0.0), ("power_plus_10", 0.1), ("power_plus_5", 0.05)):
            results = [statistic(*draw_shared_rooms(Shop(), rooms, rng, effect)) for _ in range(runs)]
            up = [e.estimate > to_t(1.959964, e.df) * e.se for e in results]
            down = [e.estimate < -to_t(1.959964, e.df) * e.se for e in results]
            shares[key] = float(np.mean(up) if effect else np.mean(up) + np.mean(down))
        found[name] = shares
    return found


_POOL: Population | None = None


def _keep_pool(pool: Population) -> None:
    global _POOL  # a worker's own copy, so that a task carries only its seed
    _POOL = pool


def _roll_out_many(task: tuple[int, int, float, CanaryConfig, bool]) -> list[tuple[str, int]]:
    seed, runs, effect, config, cuped = task
    assert _POOL is not None
    rng = np.random.default_rng(seed)
    decisions = (roll_out(draw(_POOL, config.planned_rooms, rng, effect, cuped), config) for _ in range(runs))
    return [(str(decision.verdict), decision.step) for decision in decisions]


def joining_seconds(events: int, seed: int) -> dict[str, float]:
    """Processor seconds to parse and join `events` JSON lines of a healthy stream."""
    replies_a_room = 12 * 3
    stream = healthy_stream(seed, rooms=events // replies_a_room + 2, viewers=12, replies=3)
    lines = [event.model_dump_json() for event in stream.events[:events]]
    started = time.process_time()
    log = EventLog(stream.state.rollout)
    accepted = log.add_lines(lines)
    build_evidence(log, stream.state, CanaryConfig())
    return {"events": events, "accepted": accepted, "seconds": round(time.process_time() - started, 2)}


def validate(
    runs: int = 2000,
    effect_runs: int = 1000,
    rooms: int = 200,
    seed: int = 0,
    jobs: int | None = None,
    config: CanaryConfig | None = None,
    progress: Callable[[str], None] = print,
) -> dict:
    """The whole validation, as the JSON of issue 6 (with more keys; rates are fractions).

    Args:
        runs: A/A rollouts. effect_runs: rollouts of each other effect, mode and judge.
        rooms: of one arm at full information.
        jobs: processes; None: one per core.
        config: settings other than `planned_rooms` and `mode`.
    """
    config = (config or CanaryConfig()).model_copy(update={"planned_rooms": rooms})
    by_mode = {mode: config.model_copy(update={"mode": mode}) for mode in Mode}
    pool = population(Shop(), POOL_ROOMS, np.random.default_rng(seed), config.slo_ms, config.kill_events)
    jobs = jobs or os.cpu_count() or 1
    with ExitStack() as stack:
        if jobs == 1:  # a process of its own would cost more than it saves
            _keep_pool(pool)
            run_all = map
        else:
            workers = ProcessPoolExecutor(jobs, get_context("spawn"), initializer=_keep_pool, initargs=(pool,))
            run_all = stack.enter_context(workers).map

        def decisions(effect: float, count: int, mode: Mode, cuped: bool = False) -> list[tuple[str, int]]:
            step = 50
            tasks = [
                (seed + 1 + 7919 * index, min(step, count - start), effect, by_mode[mode], cuped)
                for index, start in enumerate(range(0, count, step))
            ]
            return [row for rows in run_all(_roll_out_many, tasks) for row in rows]

        started = time.monotonic()
        aa_paths = gmv_paths(pool, rooms, runs, 0.0, np.random.default_rng(seed + 2))
        aa_statistic = statistic_verdicts(aa_paths, rooms, by_mode[Mode.SUPERIOR])
        aa_decision = decisions(0.0, runs, Mode.SUPERIOR)
        seconds = time.monotonic() - started
        upward = aa_statistic.count("promote")
        rolled_back = sum(verdict == Verdict.ROLLBACK for verdict, _ in aa_decision)
        progress(f"A/A: {runs} runs in {seconds:.0f} s; upward {upward / runs:.2%}, rollback {rolled_back / runs:.2%}")
        effects = {}
        for effect in EFFECTS:
            paths = gmv_paths(pool, rooms, runs, effect, np.random.default_rng(seed + 3))
            superior = aa_decision if effect == 0 else decisions(effect, effect_runs, Mode.SUPERIOR)
            effects[f"{effect:+.2f}" if effect else "0.00"] = {
                "statistic": _shares(statistic_verdicts(paths, rooms, by_mode[Mode.SUPERIOR])),
                "decision": _shares(verdict for verdict, _ in superior),
                "statistic_non_inferior": _shares(statistic_verdicts(paths, rooms, by_mode[Mode.NON_INFERIOR])),
                "decision_non_inferior": _shares(v for v, _ in decisions(effect, effect_runs, Mode.NON_INFERIOR)),
                "naive_t_test": _shares(_first(paths.naive_t > 1.96, paths.naive_t < -1.96)),
            }
            progress(f"effect {effect:+.0%}: {effects[f'{effect:+.2f}' if effect else '0.00']['decision']}")
            if effect == 0.10:
                power = fixed_power(paths, rooms)
        with_history = _shares(v for v, _ in decisions(0.10, effect_runs, Mode.SUPERIOR, cuped=True))
    progress("fault drill")
    bursts = {str(share): [events_to_detect(s, share) for s in range(BURST_SEEDS)] for share in (1.0, 0.8)}
    return {
        "aa": {
            "runs": runs,
            "promotion_upward": upward / runs,
            "promotion_upward_ci": interval(upward, runs),
            "guardrail_rollback": rolled_back / runs,
            "guardrail_rollback_ci": interval(rolled_back, runs),
            "naive_false_positive": effects["0.00"]["naive_t_test"]["promote"]
            + effects["0.00"]["naive_t_test"]["rollback"],
            "naive_one_look": float((np.abs(aa_paths.naive_t[:, -1]) > 1.96).mean()),
            "seconds": round(seconds, 1),
        },
        "effects": effects,
        "fixed_n_power_plus_10": power,
        "decision_plus_10_with_cuped": with_history,
        "viewer_in_room": shared_rooms(rooms, effect_runs, np.random.default_rng(seed + 4)),
        "faults": run_drill(seed),
        "joining": joining_seconds(JOINED_EVENTS, seed),
        "tool_error_burst_events": {
            share: {"most": max(counts), "median": float(np.median(counts))} for share, counts in bursts.items()
        },
        "settings": {
            "rooms_per_arm": rooms,
            "peeks": PEEKS,
            "effect_runs": effect_runs,
            "seed": seed,
            "statistic_and_decision": "superior, unless the key says non_inferior",
            "config": config.model_dump(mode="json"),
        },
    }


def table(result: dict) -> str:
    """The result for a reader of the terminal."""
    judges = ("statistic", "decision", "statistic_non_inferior", "decision_non_inferior", "naive_t_test")
    lines = ["share of promote / hold / rollback", "effect  " + "".join(f"{judge:>26}" for judge in judges)]
    for effect, row in result["effects"].items():
        cells = (" / ".join(f"{row[judge][verdict]:.3f}" for verdict in VERDICTS) for judge in judges)
        lines.append(f"{effect:<8}" + "".join(f"{cell:>26}" for cell in cells))
    aa = result["aa"]
    lines += [
        "",
        f"A/A ({aa['runs']} runs, {aa['seconds']} s): upward {aa['promotion_upward']:.2%} {aa['promotion_upward_ci']}, "
        f"rollback {aa['guardrail_rollback']:.2%} {aa['guardrail_rollback_ci']}",
        f"naive viewer t-test on A/A: one look {aa['naive_one_look']:.1%} wrong, {result['settings']['peeks']} looks "
        f"{aa['naive_false_positive']:.1%} wrong",
        f"power at +10%: fixed N {result['fixed_n_power_plus_10']:.3f}, "
        f"decision with history (CUPED) {result['decision_plus_10_with_cuped']['promote']:.3f}",
        f"viewers within rooms, fixed N: {result['viewer_in_room']}",
        f"replies until a tool-error burst rolls back: {result['tool_error_burst_events']}",
        f"{result['joining']['events']} events parsed and joined in {result['joining']['seconds']} s of processor time",
        "",
        "fault                         expected   verdict",
    ]
    for name, row in result["faults"].items():
        wrong = "" if row["expected"] == row["verdict"] else "   WRONG"
        lines.append(f"{row['number']:>2} {name:<27}{row['expected']:<11}{row['verdict']}{wrong}")
    return "\n".join(lines)
