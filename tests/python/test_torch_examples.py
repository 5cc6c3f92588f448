"""The examples, shortened, on two processes, with either backend: the results are equal."""

import re
from pathlib import Path

import pytest
from torch_job import run_ranks

pytest.importorskip("torch")

pytestmark = pytest.mark.long

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "pytorch"
EXAMPLES = {"digits_ddp.py": ("--epochs", 1), "digits_fsdp.py": ("--epochs", 1, "--width", 64),
            "objects.py": (), "characters.py": ("--train", 2, "--write", 10)}
OF_RANKS_THAT_DIE = {"restarts.py", "survivors.py"}  # see test_torch_elastic.py


def without_what_differs(text):
    return re.sub(r"gloo_c|gloo|'process': \d+|[\d.]+ ms a step", "", text)


def test_all_examples_are_here():
    assert {path.name for path in FOLDER.glob("*.py")} == {*EXAMPLES, *OF_RANKS_THAT_DIE,
                                                       "job.py"}


@pytest.mark.parametrize("example", EXAMPLES)
def test_example(example):
    said = {}
    for backend in ("gloo", "gloo_c"):
        done = run_ranks(2, FOLDER / example, "--backend", backend, *EXAMPLES[example])
        # PyTorch's gloo may abort when Python exits: see torch_features.py.
        assert backend == "gloo" or [status for status, _text in done] == [0, 0], done
        said[backend] = without_what_differs(done[0][1])
    assert said["gloo_c"] and said["gloo"].startswith(said["gloo_c"].rstrip()), said
