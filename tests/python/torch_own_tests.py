"""PyTorch's own tests of torch.distributed, with "gloo" answered by gloo_c, and by gloo itself.

usage: torch_own_tests.py [--all] [--ranks 3] [--limit SECONDS] [--minutes M] [--suite trixie] [--spawn] [--retry]
                          [--json FILE] [--logs FOLDER] [FILE[:PATTERN] ...]

FILE is distributed.py, for what torch itself has, or one of PyTorch's folder test/distributed, which is
downloaded (torch_own/files.py); PATTERN says which of its tests: Class.test. Without files those of SLICE run, a few
minutes on two cores; with --all, the files of ALL, which takes hours. Needs the package expecttest too.

It prints one line per file, each test that gloo passes and gloo_c does not, and each that fails with both.
Differences that are known are in torch_own/known.py, with what such a test fails with. The status
is 0 if there are no others: if gloo_c passes as many tests as gloo but for these.

Ranks are forked from a process that has imported the file; with --spawn each starts anew, as in
PyTorch's own runs, which takes several times as long and tests the end of Python, too. With --retry
what differs runs once more, and counts as passed if it then does, but is printed as unsteady."""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent / "torch_own"
sys.path.insert(0, str(HERE))

import files  # noqa: E402
from known import KNOWN  # noqa: E402

OURS, THEIRS = "gloo_c", "gloo"
NOT_TO_BE_HAD = "not run: the files of Debian's source package could not be had"
OWN = "distributed.py"

# The files and patterns of tests that run in CI. Tests without a process group are left out.
_DISTRIBUTED = """
Backend_enum_class DistributedDataParallelCPU accumulate_gradients_no_sync_allreduce_with_then_hook all_gather
all_gather_coalesced_simple all_gather_object_subgroup all_reduce_coalesced_full_group_max
all_reduce_complex_unsupported_ops all_reduce_product all_reduce_sum_async all_to_all
all_to_all_single_unequal_split_full_group barrier barrier_timeout_full_group batch_isend_irecv_gloo_tags
broadcast_full_group ddp_logging_data_cpu destroy_group gather_checks get_future
grads_same_across_ranks_with_no_sync irecv monitored_barrier_gloo_subgroup reduce_sum_twice scatter_complex
scatter_object_list send_recv_any_source send_recv_with_tag sparse_all_reduce_sum static_graph_api_cpu
"""
SLICE = {
    OWN: rf"\.test_({'|'.join(_DISTRIBUTED.split())})$",
    "test_c10d_gloo.py": "^(?!.*(cuda|gpu|stress)).*(Gloo|DistributedDataParallelTest|ReducerTest)",
    "test_c10d_object_collectives.py": "",
    "test_pg_wrapper.py": "^(?!.*cuda).*Gloo",
    "test_store.py": "init_pg|missing_clients",
    "test_device_mesh.py": "Collective|init_process_group|get_group",
    "_tensor/test_redistribute.py": "",
    "_tensor/test_dtensor.py": "DTensorTest.*(from_local$|full_tensor|async|shard_tensor)|redistribute",
    "checkpoint/test_file_system_checkpoint_cpu.py": "",
    "elastic/agent/server/test/local_elastic_agent_test.py": "test_simple_dist_sum_c10d$",
}
# Globs of the files that --all runs.
ALL = [OWN, "test_c10d_gloo.py", "test_c10d_spawn_gloo.py", "test_c10d_common.py",
       "test_c10d_object_collectives.py", "test_collective_utils.py", "test_functional_api.py",
       "test_pg_wrapper.py", "test_store.py", "test_device_mesh.py", "_tensor/test_*.py",
       "tensor/parallel/test_*.py", "checkpoint/**/test_*.py", "elastic/**/*test*.py",
       "launcher/*test*.py", "fsdp/test_*.py", "_composable/fsdp/test_*.py"]


def chosen(given):
    """Returns {file: (its path, the pattern of its tests)}, and why there are no others."""
    wanted = dict(SLICE)
    if given.files:
        wanted = {file: pattern for file, _colon, pattern in (each.partition(":") for each in given.files)}
    if given.all:
        wanted = dict.fromkeys(ALL, "")
    found = {OWN: (HERE / OWN, wanted[OWN])} if OWN in wanted else {}
    others = {file: pattern for file, pattern in wanted.items() if file != OWN}
    if not others:
        return found, None
    try:
        folder, version = files.debian(given.suite)
    except files.NotToBeHad as error:
        return found, str(error)
    print(f"test/distributed is that of PyTorch {version}, from Debian's {given.suite}")
    for file, pattern in others.items():
        paths = sorted(folder.glob(file))
        if not paths:
            sys.exit(f"PyTorch {version} has no file test/distributed/{file}")
        found.update((str(path.relative_to(folder)), (path, pattern)) for path in paths
                     if path.name != "__init__.py")
    return found, None


def run(given, backend, file, path, patterns):
    """Returns {test: outcome} for all tests of a file, with one backend."""
    logs = given.logs / f"{file.replace('/', '-')}.{backend}.log"
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder) / "results"
        python = [str(path.parent), os.environ.get("PYTHONPATH", "")]
        if backend == OURS:
            python.insert(0, str(HERE / "start"))
        variables = {**os.environ, "OMP_NUM_THREADS": "1", "TMPDIR": folder, "PYTHONPATH": ":".join(python),
                     "DISTRIBUTED_TESTS_DEFAULT_TIMEOUT": str(given.limit), "WORLD_SIZE": str(given.ranks),
                     "PYTORCH_PRINT_REPRO_ON_FAILURE": "0", "PYTHONDONTWRITEBYTECODE": "1"}
        if file != OWN:
            del variables["WORLD_SIZE"]
        options = ["--spawn"] if given.spawn else []
        done = subprocess.run(
            [sys.executable, HERE / "run_file.py", *options, path, results, logs, str(given.limit),
             str(given.deadline), *patterns], env=variables, cwd=path.parent, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace", check=False)
        lines = results.read_text(encoding="utf-8").splitlines() if results.exists() else []
        told = [json.loads(line) for line in lines]
        if done.returncode:
            told.append({"test": "", "outcome": "not run", "seconds": 0,
                         "why": f"the run ended with status {done.returncode}: {done.stderr}"})
    return {each.pop("test"): each for each in told}


def exactly(tests):
    return [f"^{re.escape(test)}$" for test in tests]


def known(file, test, each):
    """Returns the known reason of a difference, if the test failed in the known way."""
    why, pattern = KNOWN.get(file, {}).get(test, (None, ""))
    return why if why and re.search(pattern, each["why"], re.S) else None


def differences(file, runs):
    """Returns tests that gloo passes and gloo_c does not, and whether that is known."""
    theirs = runs[THEIRS]
    for test, each in runs[OURS].items():
        if each["outcome"] != "passed" and theirs.get(test, {}).get("outcome") == "passed":
            yield test, each, known(file, test, each)
    for test, each in theirs.items():
        if each["outcome"] == "passed" and test not in runs[OURS]:
            yield test, {"outcome": "did not run", "why": "there is no such test"}, None


def again(given, file, path, runs):
    """Runs differing tests once more, and reports the unsteady ones."""
    wrong = [test for test, _each, why in differences(file, runs) if why is None and test in runs[OURS]]
    if not 0 < len(wrong) <= 20:
        return
    for test, each in run(given, OURS, file, path, exactly(wrong)).items():
        if each["outcome"] == "passed":
            print(f"unsteady: {file}: {test}: {last(runs[OURS][test]['why'])}")
            runs[OURS][test] = each


def last(text):
    """Returns the exception that ended a rank."""
    for rank in reversed(re.split(r"^Process \d+ exited with error code.*", text, flags=re.M)[:2]):
        found = re.findall(r"^((?:[\w.]+\.)?\w*(?:Error|Exception)\b: .*)", rank, re.M)
        found = [line for line in found if not line.startswith("RuntimeError: Process ")]
        if found:
            return found[-1][:300]
    return (text.strip().splitlines() or [""])[-1][:300]


def count(results, outcome):
    return sum(each["outcome"] == outcome for each in results.values())


def told(file, runs):
    """Prints a line of the table."""
    excused = {test for test, _each, why in differences(file, runs) if why}
    for backend, results in runs.items():
        known_ones = len(excused) if backend == OURS else 0
        print(f"| {file} | {backend} | {count(results, 'passed')} | {count(results, 'skipped')} | {known_ones} "
              f"| {len(results) - count(results, 'passed') - count(results, 'skipped') - known_ones} "
              f"| {sum(each['seconds'] for each in results.values()):.0f} |", flush=True)


def judge(found):
    """Reports single tests; returns true if all results are as expected."""
    good = True
    for file, runs in found.items():
        for backend, results in runs.items():
            for test, each in results.items():
                if each["outcome"] == "not run":
                    print(f"not run with {backend}: {file}: {test}: {last(each['why'])}")
                    good = False
        for test, each in runs[OURS].items():
            if each["outcome"] == "failed" == runs[THEIRS].get(test, {}).get("outcome"):
                print(f"fails with both: {file}: {test}: {last(runs[THEIRS][test]['why'])}")
        for test, each, why in differences(file, runs):
            print(f"{'known' if why else 'differs'}: {file}: {test}: {each['outcome']}: {why or last(each['why'])}")
            good = good and why is not None
        for test in KNOWN.get(file, {}):
            if runs[OURS].get(test, {}).get("outcome") == "passed":
                print(f"known, but passes: {file}: {test}")
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("files", nargs="*")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--ranks", type=int, default=3, help="of distributed.py")
    parser.add_argument("--limit", type=int, default=60, help="seconds for each test")
    parser.add_argument("--minutes", type=float, default=0, help="what has not begun by then does not run")
    parser.add_argument("--suite", default=files.SUITE, help="of Debian")
    parser.add_argument("--spawn", action="store_true")
    parser.add_argument("--retry", action="store_true")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--logs", type=Path)
    given = parser.parse_args()
    given.deadline = time.time() + 60 * given.minutes if given.minutes else 0
    with tempfile.TemporaryDirectory() as folder:
        given.logs = (given.logs or Path(folder)).resolve()
        given.logs.mkdir(parents=True, exist_ok=True)
        wanted, missing = chosen(given)
        found = {}
        print("| file | backend | passed | skipped | failed as known | failed | seconds |\n"
              "|---|---|---:|---:|---:|---:|---:|")
        for file, (path, pattern) in wanted.items():
            runs = found[file] = {backend: run(given, backend, file, path, [pattern] if pattern else [])
                                  for backend in (THEIRS, OURS)}
            if given.retry:
                again(given, file, path, runs)
            told(file, runs)
            if given.json:
                given.json.write_text(json.dumps(found), encoding="utf-8")
    print()
    good = judge(found)
    if missing:
        print(f"{NOT_TO_BE_HAD}: {missing}")
    sys.exit(0 if good and found else 1)


if __name__ == "__main__":
    main()
