"""The name "gloo" for gloo_c, and the entry point by which PyTorch finds the backend."""

import re
import tempfile
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from torch_forks import start
from torch_job import ended, free_port, variables_of

torch = pytest.importorskip("torch")

SAID = re.compile(r'the backend "gloo" of torch\.distributed is gloo_c \S+ in this job')
ALONE = "store=dist.HashStore(), rank=0, world_size=1"


def run(program, size=1, fork=True, **variables):
    """Returns the status of a program, as that of the first rank that fails, and the output of all ranks. Without
    `fork`, each rank imports torch itself."""
    port, ranks = free_port(), []
    for rank in range(size):
        output = tempfile.TemporaryFile()
        ranks.append((start(["-c", "import torch, torch.distributed as dist\n" + program], {
            "PATH": "/usr/bin:/bin", "LOCAL_WORLD_SIZE": str(size), **variables_of(rank, size, port), **variables},
            output, fork=fork), output))
    done = ended(ranks, 120)
    return next((status for status, _said in done if status), 0), "".join(said for _status, said in done)


def check(program, size=1, fork=True, **variables):
    status, said = run(program, size, fork, **variables)
    assert status == 0, said
    return said


# ---- the name gloo ---------------------------------------------------------------------------------

EVERYWHERE = """
import datetime, sys, warnings
name, replaced = NAME, REPLACED
dist.init_process_group(name, timeout=datetime.timedelta(seconds=60))
import gloo_c.torch
from gloo_c.torch import is_gloo_c
from torch.distributed.device_mesh import init_device_mesh

rank, size = dist.get_rank(), dist.get_world_size()
assert dist.get_backend() == (name or "undefined"), dist.get_backend()
if name == "gloo":
    assert dist.get_backend() == dist.Backend.GLOO and dist.group.WORLD.name() == "gloo"
    dist.monitored_barrier(timeout=datetime.timedelta(seconds=30))
one = torch.ones(3)
dist.all_reduce(one)
assert one.tolist() == [size] * 3
every = [None] * size
dist.all_gather_object(every, {"rank": rank})
assert every == [{"rank": each} for each in range(size)]
groups = [dist.group.WORLD, dist.new_group(), dist.new_group(backend="gloo"), dist.new_subgroups(1)[0],
          dist.new_subgroups_by_enumeration([list(range(size))], backend="gloo")[0],
          init_device_mesh("cpu", (size, 1), mesh_dim_names=("a", "b")).get_group("a")]
assert [is_gloo_c(group) for group in groups] == [replaced] * len(groups)
with warnings.catch_warnings():
    warnings.simplefilter("error")  # PyTorch warns if it does not take the group for one of gloo
    warnings.simplefilter("ignore", FutureWarning)  # since 2.15 it has another name
    dist.distributed_c10d._set_pg_timeout(datetime.timedelta(seconds=7))
assert isinstance(dist.group.WORLD._get_backend(torch.device("cpu")), dist.ProcessGroupGloo)
dist.destroy_process_group()
"""


@pytest.mark.parametrize("name", ["gloo", None, "cpu:gloo", "cpu:gloo,cuda:gloo"])
def test_the_name_is_gloo_c_wherever_a_group_is_created(name):
    said = check(EVERYWHERE.replace("NAME", repr(name)).replace("REPLACED", "True"), 2, fork=name != "gloo",
                 GLOO_C_REPLACE_GLOO="1")
    assert len(SAID.findall(said)) == 1, said


def test_without_the_variable_it_is_not():
    said = check(EVERYWHERE.replace("NAME", "'gloo'").replace("REPLACED", "False"), 2, GLOO_C_REPLACE_GLOO="0")
    assert not SAID.search(said), said


def test_replaced_and_restored():
    said = check(f"""
import gloo_c.torch as ours
theirs = dist.ProcessGroupGloo
def is_ours():
    dist.init_process_group("gloo", {ALONE})
    found = ours.is_gloo_c()
    dist.destroy_process_group()
    return found
assert not is_ours() and not ours.gloo_is_replaced()
ours.restore_gloo()
ours.replace_gloo()
ours.replace_gloo()
assert is_ours() and ours.gloo_is_replaced()
dist.init_process_group("gloo", {ALONE})
ours.restore_gloo()
for module in (dist, dist.distributed_c10d):
    assert module.ProcessGroupGloo is theirs
one = torch.ones(1)
dist.all_reduce(one)  # the group remains
assert ours.is_gloo_c() and not ours.gloo_is_replaced()
dist.destroy_process_group()
assert not is_ours()
ours.replace_gloo()
assert is_ours()
""")
    assert len(SAID.findall(said)) == 2, said


def test_the_class_still_creates_pytorchs_own_groups():
    """Callers such as vLLM and PyTorch's wrapper pass what they create to C++ code."""
    check("""
import datetime, gloo_c.torch
theirs = dist.ProcessGroupGloo
gloo_c.torch.replace_gloo()
made = dist.ProcessGroupGloo(dist.HashStore(), 0, 1, timeout=datetime.timedelta(seconds=9))
assert type(made) is theirs and isinstance(made, dist.ProcessGroupGloo) and not isinstance(1, dist.ProcessGroupGloo)
whole = dist.ProcessGroup(dist.HashStore(), 0, 1)
whole._register_backend(torch.device("cpu"), dist.ProcessGroup.BackendType.GLOO, made)
assert not gloo_c.torch.is_gloo_c(whole)
class Derived(dist.ProcessGroupGloo):
    pass
assert issubclass(Derived, dist.ProcessGroupGloo) and not isinstance(made, Derived)
assert type(Derived(dist.HashStore(), 0, 1, timeout=datetime.timedelta(seconds=9))) is Derived
dist.ProcessGroupGloo.create_default_device()
""")


def test_buckets_are_shared_by_groups_of_gloo_c_alone():
    program = f"""
import gloo_c.torch
from torch.nn.parallel import DistributedDataParallel
dist.init_process_group("gloo", {ALONE})
gloo_c.torch.ddp_buckets(DistributedDataParallel(torch.nn.Linear(2, 2)))
"""
    check(program, GLOO_C_REPLACE_GLOO="1")
    status, said = run(program, GLOO_C_REPLACE_GLOO="0")
    assert status and "the group of the model has the backend 'gloo'; it must be 'gloo_c'" in said, said


def test_calls_are_compared_in_debug_mode():
    status, said = run(f"""
dist.init_process_group("gloo")
dist.all_reduce(torch.ones(1 + dist.get_rank()))
""", 2, GLOO_C_REPLACE_GLOO="1", TORCH_DISTRIBUTED_DEBUG="DETAIL")
    assert status and re.search(r"BackendError: .*Collectives differ in the following: ", said), said


@pytest.mark.skipif(torch.__version__ < "2.14", reason="groups have no parts before PyTorch 2.14")
@pytest.mark.parametrize("name", ["gloo", "gloo_c"])
def test_calls_of_parts_are_compared_in_debug_mode(name):
    status, said = run(f"""
from torch.testing._internal.distributed import fake_pg
import gloo_c.torch
dist.init_process_group("cpu:{name},cuda:fake")
assert gloo_c.torch.is_gloo_c()
dist.monitored_barrier()
one = torch.ones(2)
dist.all_reduce(one)
torch.ops.gloo_c.all_reduce_(one, "sum", dist.group.WORLD.group_name)
assert one.tolist() == [4, 4]
print("all well", flush=True)
dist.all_reduce(torch.ones(1 + dist.get_rank()))
""", 2, GLOO_C_REPLACE_GLOO="1", TORCH_DISTRIBUTED_DEBUG="DETAIL")
    assert status and said.count("all well") == 2, said
    assert re.search(r"Collectives differ in the following: ", said), said


def test_a_device_is_taken_as_options():
    check(f"""
import gloo_c, gloo_c.torch
for transport in "tcp", "inproc":
    dist.init_process_group("gloo", {ALONE}, pg_options=gloo_c.Device(transport))
    assert dist.group.WORLD._context.transport == transport
    dist.destroy_process_group()
""", GLOO_C_REPLACE_GLOO="1")


def test_a_group_of_several_backends_says_what_remains():
    """PyTorch before 2.14 cannot have it; its fake backend stands for NCCL."""
    said = check(f"""
from torch.testing._internal.distributed import fake_pg
import gloo_c.torch
from gloo_c.torch._group import parts_can_be_made
dist.init_process_group("cpu:gloo,cuda:fake", {ALONE})
assert gloo_c.torch.is_gloo_c() == parts_can_be_made
assert not gloo_c.torch.is_gloo_c(device="cuda") and not gloo_c.torch.is_gloo_c(device="meta")
dist.all_reduce(torch.ones(1))
print("parts" if parts_can_be_made else "whole")
""", GLOO_C_REPLACE_GLOO="1")
    assert ("remains PyTorch's own in the group cpu:gloo,cuda:fake" in said) == ("whole" in said), said


def test_survivors_keep_the_name():
    said = check("""
import gloo_c.torch, os
dist.init_process_group("gloo")
rank = dist.get_rank()
if rank == 1:
    os._exit(0)
try:
    while True:
        dist.all_reduce(torch.ones(1))
except RuntimeError:
    gloo_c.torch.shrink()
assert dist.get_world_size() == 1 and dist.get_backend() == "gloo" and gloo_c.torch.is_gloo_c()
print("shrunk")
""", 2, GLOO_C_REPLACE_GLOO="1")
    assert "shrunk" in said


def test_is_gloo_c_requires_a_group():
    status, said = run("import gloo_c.torch; gloo_c.torch.is_gloo_c()")
    assert status == 1 and "call init_process_group first" in said


def test_an_invalid_value_is_named():
    status, said = run("import gloo_c.torch", GLOO_C_REPLACE_GLOO="yes", TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert status == 1 and "GLOO_C_REPLACE_GLOO is 'yes'; valid values are 0 and 1" in said, said


# ---- the entry point -------------------------------------------------------------------------------

def test_the_entry_point_exists():
    found = entry_points()
    group = found.select(group="torch.backends") if hasattr(found, "select") else found["torch.backends"]
    assert [each.value for each in group if each.name == "gloo_c"] == ["gloo_c_autoload:register"]


def test_the_backend_needs_no_import():
    check(f"""
import sys
assert not [name for name in sys.modules if name.partition(".")[0] == "gloo_c"], "import torch stays quick"
assert dist.Backend("gloo_c") == "gloo_c" and "gloo_c" in dist.Backend.backend_list
dist.init_process_group("gloo_c")
one = torch.ones(2)
dist.all_reduce(one)
import gloo_c.torch
assert one.tolist() == [2, 2] and isinstance(dist.group.WORLD, gloo_c.torch.Group) and gloo_c.torch.is_gloo_c()
dist.destroy_process_group()
""", 2, fork=False)


@pytest.mark.parametrize("replace", ["0", "1"])
def test_pytorchs_variable_prevents_it(replace):
    check(f"""
import sys
assert not [name for name in sys.modules if name.startswith("gloo_c")] and not hasattr(dist.Backend, "GLOO_C")
theirs = dist.ProcessGroupGloo
import gloo_c.torch
assert gloo_c.torch.gloo_is_replaced() == {replace == "1"} == (dist.ProcessGroupGloo is not theirs)
dist.init_process_group("gloo_c", {ALONE})
""", fork=False, TORCH_DEVICE_BACKEND_AUTOLOAD="0", GLOO_C_REPLACE_GLOO=replace)


@pytest.mark.parametrize("value, planted", [("yes", ""), ("1", "raise OSError('no library')")])
def test_an_error_does_not_end_the_import_of_torch(value, planted, tmp_path):
    """In the second case another package takes the place of gloo_c, and fails. PYTHONWARNINGS is one for an interpreter."""
    variables = {"GLOO_C_REPLACE_GLOO": value, "PYTHONWARNINGS": "error::RuntimeWarning"}
    if planted:
        Path(tmp_path / "gloo_c").mkdir()
        Path(tmp_path / "gloo_c/__init__.py").write_text(planted)
        variables["PYTHONPATH"] = str(tmp_path)
    said = check(f"dist.init_process_group('gloo', {ALONE}); print(type(dist.group.WORLD).__name__)", **variables)
    assert '"gloo" remains PyTorch\'s own: ' in said and "\nProcessGroup\n" in said, said
    assert "no library (OSError)" in said or "GLOO_C_REPLACE_GLOO is 'yes'" in said, said


def test_a_process_that_fails_exits_without_further_errors():
    """Python clears its modules before the groups, if torch has imported them."""
    status, said = run(f"dist.init_process_group('gloo_c', {ALONE}); raise SystemError('the only one')", fork=False,
                       GLOO_C_REPLACE_GLOO="1")
    assert status == 1 and "the only one" in said and "Exception ignored" not in said, said
