"""Programs that torch_forks.py forks do what they do in an interpreter of their own."""

import os
import signal
import subprocess
import tempfile

import pytest
from torch_forks import start
from torch_job import ended

pytest.importorskip("torch")

PROGRAM = """
import atexit, os, sys, torch, torch.distributed as dist
print(sys.argv, os.path.basename(sys.path[0]), os.getcwd(), os.path.basename(globals().get("__file__", "")))
print(__name__, sorted(name for name in vars(sys.modules["__main__"]) if not name.startswith("__")))
print(sorted(os.environ.items()), dist.get_debug_level(), hasattr(dist.Backend, "GLOO_C"))
print(sorted(name for name in sys.modules if name.startswith("gloo_c")))
print(os.read(0, 1), os.listdir("/proc/self/fd")[3:], torch.get_num_threads(), flush=True)
os.system("echo a child writes")
class Last:
    def __del__(self):
        print("the last object is deleted", file=sys.stderr)
last = Last()
atexit.register(print, "atexit")
"""
def result(folder, fork, arguments, **variables):
    output = tempfile.TemporaryFile()
    variables = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "OMP_NUM_THREADS": "1", **variables}
    ((status, said),) = ended([(start(arguments, variables, output, folder, fork), output)], 120)
    # The last line of a traceback, since the first ones name the file that executes the program.
    return status, [line for line in said.splitlines() if not line.startswith(("  ", "Traceback"))]


@pytest.mark.parametrize("path, end, variables", [
    (True, "raise KeyError('for a reason')", {}),
    (False, "sys.exit('for a reason')", {"TORCH_DISTRIBUTED_DEBUG": "DETAIL", "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"})],
    ids=["file", "text"])
def test_program_is_the_same(tmp_path, path, end, variables):
    (tmp_path / "a program.py").write_text(PROGRAM + end)
    arguments = ["a program.py", "x", 7] if path else ["-c", PROGRAM + end, "y"]
    ours, theirs = (result(tmp_path, fork, arguments, ONE="more", **variables) for fork in (True, False))
    assert ours == theirs
    assert ours[0] == 1 and "the last object is deleted" in ours[1] and "atexit" in ours[1]


def test_killed_and_late_programs_are_told(tmp_path):
    assert result(tmp_path, True, ["-c", "import os; os.kill(os.getpid(), 11)"])[0] == -signal.SIGSEGV
    with open(tmp_path / "output", "w+b") as output:
        process = start(["-c", "import time; print('begun', flush=True); time.sleep(100)"], os.environ, output)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.1)
        assert process.poll() is None
        ((status, said),) = ended([(process, output)], 1)
    assert status == -signal.SIGKILL and said.endswith("(it was not done in time, and was killed)")
    assert process.poll() == status


def test_variables_of_python_are_for_an_interpreter_of_its_own(tmp_path):
    for value in ("0", "1"):
        _status, said = result(tmp_path, True, ["-c", "import sys; print(sys.flags.dont_write_bytecode)"],
                               PYTHONDONTWRITEBYTECODE=value if value == "1" else "")
        assert said == [value]
