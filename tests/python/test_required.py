"""GLOO_SECURITY=required: without a secret no rank starts, under any name of the library. Each case
is a process, because a process reads its environment once."""

import os
import subprocess
import sys

import pytest

WORDS = "GLOO_SECURITY=required, but no job secret is set"
OWN = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}
PROGRAMS = {
    "init": """
import gloo_c
gloo_c.init()
""",
    "init_async": """
import asyncio, gloo_c
async def start(): gloo_c.init()
asyncio.run(start())
""",
    "context": """
import gloo_c
class Theirs:
    def set(self, *arguments): print("the store was asked", arguments)
    get = wait = set
gloo_c.Context(0, 2, gloo_c.CallbackStore(Theirs()))
""",
    "mpi4py": """
import gloo_c.mpi
print(gloo_c.mpi.COMM_WORLD.rank)
""",
    "jax": """
import ctypes, gloo_c.jax
L = ctypes.CDLL(gloo_c.jax.library())
code = L.MPIABI_Init(None, None)
text, length = ctypes.create_string_buffer(1024), ctypes.c_int()
L.MPIABI_Error_string(code, text, ctypes.byref(length))
raise SystemExit(text.value.decode())
""",
}


WORDS_OF_THE_VARIABLE = ["required", "require"]  # the second is its older name


def check(program, word, folder):
    kept = {k: v for k, v in os.environ.items()
            if not k.startswith(("GLOO_", "MASTER_", "PMI", "OMPI_", "SLURM_", "TORCHELASTIC_"))}
    kept.update(OWN, GLOO_SECURITY=word, HOME=str(folder), OMP_NUM_THREADS="1")
    done = subprocess.run([sys.executable, "-c", program], env=kept, cwd=folder, text=True,
                          capture_output=True, timeout=300, check=False)
    assert done.returncode != 0, done.stdout
    assert WORDS in done.stderr, done.stderr
    assert "the store was asked" not in done.stdout, done.stdout


@pytest.mark.parametrize("word", WORDS_OF_THE_VARIABLE)
@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_no_rank_starts_without_a_secret(name, word, tmp_path):
    check(PROGRAMS[name], word, tmp_path)
