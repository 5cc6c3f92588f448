"""The Python code in docs/guide/python.md compiles, and uses names that exist."""

import ast
import re
from pathlib import Path

import numpy
import pytest

import gloo_c
from gloo_c import mpi

PAGE = Path(__file__).resolve().parents[2] / "docs/guide/python.md"
KNOWN = {"gloo_c": gloo_c, "numpy": numpy, "MPI": mpi, "comm": mpi.Comm, "context": gloo_c.Context}


def blocks():
    return re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.M | re.S)


def unknown(code):
    """Returns attributes that their object does not have."""
    return [f"{node.value.id}.{node.attr}" for node in ast.walk(ast.parse(code))
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
            and node.value.id in KNOWN and node.attr != "COMM_WORLD"
            and not hasattr(KNOWN[node.value.id], node.attr)]


def test_there_are_blocks_and_all_their_names_exist():
    found = blocks()
    assert len(found) >= 6
    assert [name for code in found for name in unknown(code)] == []
    assert unknown("gloo_c.absent()") == ["gloo_c.absent"]


@pytest.mark.parametrize("size", [1, 4])
def test_the_first_program_runs(job, size):
    status, said = job(blocks()[0], size)
    assert status == 0, said
    if size == 4:
        assert said.count("[4. 8. 6.]") == 4, said


JAX_PAGE = PAGE.with_name("jax.md")


def test_names_of_the_page_on_jax_exist():
    import gloo_c.jax
    text = JAX_PAGE.read_text(encoding="utf-8")
    code = re.findall(r"^```python\n(.*?)^```$", text, re.M | re.S)
    assert len(code) >= 2
    assert [name for block in code for name in unknown(block)] == []
    named = set(re.findall(r"gloo_c\.jax\.(\w+)", text)) | set(re.findall(r"^\| `(\w+)\(", text, re.M))
    assert len(named) >= 10 and named <= set(gloo_c.jax.__all__), named
