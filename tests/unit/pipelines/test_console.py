"""The terminal shows the steps' own lines, whatever kfp wraps around them."""

import io

from pipelines.console import Console

KFP_OUTPUT = """\
05:23:27.703 - INFO - Running pipeline: \x1b[95m'p'\x1b[0m
--------------------------------------------------------------------------------
05:23:27.706 - INFO - Executing task \x1b[96m'sft'\x1b[0m
05:23:27.707 - INFO - Streamed logs:

    [KFP Executor 2026-11-30 05:23:27,743 INFO]: Looking for component `sft`
    [KFP Executor 2026-11-30 05:23:27,743 INFO]: Got executor_input:
    {
        "inputs": {"seed": 1}
    }
    [sft_hsa] 10/200  1.2/s  loss=2.5
    50%|#####     | 1/2\r100%|##########| 2/2
    /x/y.py:3: FutureWarning: old
    [KFP Executor 2026-11-30 05:23:28,844 INFO]: Wrote executor output file
    \n
05:23:29.750 - INFO - Task \x1b[96m'sft'\x1b[0m finished with status \x1b[92mSUCCESS\x1b[0m
05:23:29.751 - INFO - Task \x1b[96m'sft'\x1b[0m outputs:
    output: Model( name='output',
                   uri='/r/sft/output' )
--------------------------------------------------------------------------------
05:23:30.928 - ERROR - Task \x1b[96m'rl'\x1b[0m finished with status \x1b[91mFAILURE\x1b[0m
"""


def test_only_the_steps_own_lines_are_shown_and_everything_is_logged(tmp_path):
    terminal = io.StringIO()
    console = Console(terminal, tmp_path / "run.log")
    for start in range(0, len(KFP_OUTPUT), 7):  # chunks that do not end with lines
        console.write(KFP_OUTPUT[start : start + 7])
    console.close()
    assert terminal.getvalue().splitlines() == [
        "[sft_hsa] 10/200  1.2/s  loss=2.5",
        "100%|##########| 2/2",
        "Task 'rl' finished with status FAILURE",
    ]
    assert (tmp_path / "run.log").read_bytes().decode() == KFP_OUTPUT
