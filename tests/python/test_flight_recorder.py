"""Traces of ranks as PyTorch's flight recorder analyzer reads them. The rank that it blames for a
mismatch depends on the file that it happens to read first."""

import json
import re
import subprocess
import sys

import pytest

from gloo_c import flight_recorder

BEGIN = """
import glob, json, os, signal, sys, time
os.environ.update(GLOO_TRACE_DIR=".", GLOO_TRACE_SIGNAL="USR1")
import numpy as np
import gloo_c
x, n = np.ones(6, "float32"), int(os.environ["WORLD_SIZE"])
whole, same = np.ones(6 * n, "float32"), np.ones(n, "float32")
def told():  # a signal's file, whole; a thread of the library writes it
    os.kill(os.getpid(), signal.SIGUSR1)
    while True:
        try:
            json.load(open(glob.glob(f"*-pid{os.getpid()}.json")[0]))
            return
        except (IndexError, ValueError):
            time.sleep(0.01)
def fails(call, *arguments, **options):
    try:
        call(*arguments, **options)
    except gloo_c.GlooError:
        return
    raise SystemExit(f"rank {c.rank}: nothing failed")
"""
EVERYTHING = """
c = gloo_c.init()
for i in range(int(sys.argv[1])):
    c.allreduce(x); c.broadcast(x, root=1); c.reduce(x, root=2); c.barrier()
    c.allgather(x, whole); c.reduce_scatter(whole, x); c.alltoall(same, same.copy())
    c.gather(x, whole if c.rank == 2 else None, root=2); c.scatter(whole if c.rank == 1 else None, x, root=1)
    lengths = [1 + k for k in range(n)]; mine = np.ones(1 + c.rank, "int32")
    c.allgatherv(mine, np.zeros(sum(lengths), "int32"), lengths)
    c.gatherv(mine, np.zeros(sum(lengths), "int32") if c.rank == 0 else None, lengths, root=0)
    c.alltoallv(same, same.copy(), [1] * n, [1] * n)
    c.scan(x, x.copy()); c.exscan(x, x.copy()); c.allreduce(x, tag=5)
    if c.rank == 0: c.send(b"abc", 2, tag=7)
    if c.rank == 2: c.recv(bytearray(3), 0, tag=7)
    with c.split(c.rank % 2) as half: half.allreduce(x)
kept = c.split(c.rank % 2); kept.allreduce(x); kept.barrier()
c.barrier(); told(); c.barrier()
"""


def convert(folder, *arguments):
    """Returns the status and the output."""
    done = subprocess.run([sys.executable, "-m", "gloo_c.flight_recorder", *map(str, arguments)],
                          capture_output=True, text=True, cwd=folder, timeout=60)
    return done.returncode, done.stdout + done.stderr


def analyze(folder):
    """Returns the analyzer's report on traces in the folder."""
    pytest.importorskip("torch")
    status, said = convert(folder, "--output", "recorded", *sorted(folder.glob("gloo-trace-*.json")))
    assert (status, said) == (0, "")
    done = subprocess.run([sys.executable, "-m", "torch.distributed.flight_recorder.fr_trace", "recorded",
                           "-o", "database"], capture_output=True, text=True, cwd=folder, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def run(job, program, size, *arguments):
    status, said = job(BEGIN + program, size, list(arguments))
    assert status == 0, said


@pytest.mark.parametrize("turns", ["1", "100"])  # 100: more than ranks remember
def test_nothing_is_found_where_all_is_well(job, tmp_path, turns):
    run(job, EVERYTHING, 4, turns)
    said = analyze(tmp_path)
    assert not re.search("missing|errors|cannot|No errors|Not all", said), said


def test_a_rank_that_is_behind_is_missing(job, tmp_path):
    run(job, "c = gloo_c.init(); g = c.split(0); g.allreduce(x)\n"
             "if c.rank == 2: time.sleep(2)\n"
             "fails(g.allreduce, x, timeout=1)", 3)
    said = analyze(tmp_path)
    assert "Not all ranks joining collective, sequence number: 1" in said, said
    assert "collective: gloo:all_reduce" in said and "missing ranks: {2}" in said, said


def test_another_call_is_a_mismatch(job, tmp_path):
    run(job, "c = gloo_c.init(); c.barrier()\n"
             "fails(c.broadcast if c.rank == 1 else c.allreduce, x, timeout=5)", 3)
    said = analyze(tmp_path)
    assert "Collective sequence number: 1 has errors" in said, said
    assert "COLLECTIVE_TYPE_MISMATCH" in said and "'broadcast'" in said, said


def test_other_lengths_are_a_mismatch(job, tmp_path):
    run(job, "c = gloo_c.init(); c.barrier()\n"
             "fails(c.allreduce, x[:5] if c.rank == 2 else x, timeout=5)", 3)
    said = analyze(tmp_path)
    assert "SIZE_OR_SYNTAX_MISMATCH" in said and "'[[5]]'" in said, said


def test_a_message_that_nobody_sends_is_missing(job, tmp_path):
    run(job, "c = gloo_c.init()\n"
             "if c.rank == 0: c.send(b'a', 2)\n"
             "if c.rank == 2: c.recv(bytearray(1), 0); fails(c.recv, bytearray(1), 0, timeout=1)\n"
             "else: fails(c.barrier, timeout=20)", 3)
    said = analyze(tmp_path)
    assert "collective: gloo:recv 1<-0" in said and "group info: world, rank 0 to 2" in said, said
    assert "missing ranks: {0}" in said, said


def test_a_root_counts_in_the_order_of_its_group(tmp_path):
    gather = {"call": "gather", "group": "0.2", "sequence": 0, "state": "completed", "count": 6,
              "dtype": "float32", "root": 0, "started_ns": 1, "ended_ns": 2}
    for rank in range(3):
        (tmp_path / str(rank)).write_text(json.dumps(
            {"gloo_trace": 1, "rank": rank, "size": 3, "wall_ns": 5, "monotonic_ns": 1, "ended": 1,
             "groups": [{"group": "0.2", "ranks": [2, 1, 0]}], "operations": [gather]}))
    dumps = flight_recorder.convert(flight_recorder.read(sorted(tmp_path.iterdir())))
    assert [dumps[rank]["entries"][0]["output_sizes"] for rank in range(3)] == [[[0]], [[0]], [[18]]]


def test_files_that_are_none_are_named(tmp_path):
    good = {"gloo_trace": 1, "rank": 0, "size": 2, "wall_ns": 5, "monotonic_ns": 1, "ended": 0, "groups": [],
            "operations": [{"call": "group", "state": "completed", "started_ns": 1, "ended_ns": 1}]}
    for name, text in {"good": json.dumps(good), "text": "{", "list": "[]", "other": json.dumps({**good, "size": 3}),
                       "later": json.dumps({**good, "gloo_trace": 2}), "huge": json.dumps({**good, "size": 1 << 60}),
                       "endless": '{"rank": 1e999}',
                       "strange": json.dumps({**good, "groups": [{"group": "0.2", "ranks": [2]}]}),
                       "less": json.dumps({**good, "operations": [{"call": "send"}]})}.items():
        (tmp_path / name).write_text(text)
    for names in (["text"], ["list"], ["later"], ["huge"], ["endless"], ["strange"], ["less"], ["nowhere"],
                  ["good", "other"]):
        status, said = convert(tmp_path, "--output", "new", *names)
        assert status == 2 and names[-1] in said and "Traceback" not in said, said
    status, said = convert(tmp_path, "--output", "new", "good")
    assert status == 0 and "no file from ranks 1" in said, said
    status, said = convert(tmp_path, "--output", "new", "good")
    assert status == 2 and "new: File exists" in said, said
