import io
import json

from components.integrations.progress import Progress, duration


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def progress(tmp_path=None):
    clock, out = Clock(), io.StringIO()
    return (Progress("sft", tmp_path and tmp_path / "runs" / "progress.jsonl", stream=out, clock=clock), clock, out)


def test_lines_are_throttled_but_the_first_and_the_last_always_appear():
    p, clock, out = progress()
    for done in range(1, 101):
        clock.now += 0.1
        p.update(done, 100)
    lines = out.getvalue().splitlines()
    assert lines[0].startswith("[sft] 1/100") and lines[-1].startswith("[sft] 100/100")
    assert 5 <= len(lines) <= 7  # 10 simulated seconds, one line every 2


def test_the_last_line_appears_once_even_when_reported_twice():
    p, clock, out = progress()
    for done in (1, 2, 2, 2):
        clock.now += 0.1
        p.update(done, 2)
    assert len(out.getvalue().splitlines()) == 2


def test_rate_and_time_left():
    p, clock, out = progress()
    clock.now = 10
    p.update(20, 100, loss=1.23456, arm="hsa")
    assert out.getvalue() == "[sft] 20/100  2/s  40s left  loss=1.235  arm=hsa\n"


def test_slow_work_shows_the_time_of_each_item():
    p, clock, out = progress()
    clock.now = 90
    p.update(1, 3)
    assert "1m30s each  3m00s left" in out.getvalue()


def test_a_new_phase_starts_its_own_rate():
    p, clock, out = progress()
    clock.now = 1
    p.update(1000, 1000)
    clock.now = 2
    p.update(0, 10)
    clock.now = 7
    p.update(5, 10)
    assert out.getvalue().splitlines()[-1] == "[sft] 5/10  1/s  5s left"


def test_the_file_holds_what_was_printed(tmp_path):
    p, clock, _ = progress(tmp_path)
    clock.now = 10
    p.update(20, 100, loss=1.5)
    p.note("device chosen", device="cpu")
    rows = [json.loads(line) for line in (tmp_path / "runs" / "progress.jsonl").read_text().splitlines()]
    assert [(r["step"], r.get("done"), r.get("loss"), r.get("note")) for r in rows] == [
        ("sft", 20, 1.5, None),
        ("sft", None, None, "device chosen"),
    ]
    assert rows[0]["eta_s"] == 40 and rows[0]["rate"] == 2 and rows[0]["elapsed_s"] == 10


def test_durations():
    assert [duration(s) for s in (0.4, 59.4, 59.6, 185, 3720)] == ["0s", "59s", "1m00s", "3m05s", "1h02m"]
