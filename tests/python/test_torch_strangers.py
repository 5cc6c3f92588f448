"""Another user of the host beside a job of PyTorch that nothing was set for, in each way to start one.

Job and stranger are in a network namespace of their own, so the stranger may try all that listens there."""

import os
import shutil
import subprocess
import sys
import time
import traceback

import pytest

WAYS = ["torchrun", "spawn", "tcp", "file", "variables", "mpirun"]
STRANGER = 65534
TURNS, PAUSE = 6, 0.15  # groups that the job makes, seconds between them

RANK = f"""
import os, sys, time
import torch, torch.distributed as dist
import gloo_c.torch

def work(rank, size, method):
    dist.init_process_group("gloo_c", init_method=method, rank=rank, world_size=size)
    for turn in range({TURNS}):
        group = dist.new_group([0, 1])
        x = torch.tensor([float(rank + 1)])
        dist.all_reduce(x, group=group)
        objects = [("of rank 0", turn) if rank == 0 else None]
        dist.broadcast_object_list(objects, src=0, group=group)
        assert x.item() == 3 and objects == [("of rank 0", turn)], (x, objects)
        dist.destroy_process_group(group)
        time.sleep({PAUSE})
    print(f"rank {{rank}}: well", flush=True)

if __name__ == "__main__":
    torch.set_num_threads(1)
    if sys.argv[1] == "spawn":
        torch.multiprocessing.spawn(work, (2, sys.argv[2]), nprocs=2)
    else:
        rank = os.environ.get("OMPI_COMM_WORLD_RANK") or os.environ["RANK"]
        if sys.argv[2] == "env://":
            os.environ.update(RANK=rank, WORLD_SIZE="2")
        work(int(rank), 2, sys.argv[2])
"""


# ---- in the namespace --------------------------------------------------------------------------

def started(way, program, folder):
    """The processes of a job that has been started."""
    python, port = sys.executable, "29501"
    variables = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    if way == "torchrun":
        command = [python, "-m", "torch.distributed.run", "--master-addr", "127.0.0.1", "--master-port", port,
                   "--nproc-per-node", "2", program, way, "env://"]
    elif way == "spawn":
        command = [python, program, way, f"tcp://127.0.0.1:{port}"]
    elif way == "mpirun":
        command = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "2", python, program, way, "env://"]
    else:
        method = {"tcp": f"tcp://127.0.0.1:{port}", "file": f"file://{folder}/meet", "variables": "env://"}[way]
        return [subprocess.Popen([python, program, way, method], env={**variables, "RANK": str(rank)}) for rank in (0, 1)]
    return [subprocess.Popen(command, env=variables)]


def listeners():
    """Ports of TCP that processes listen at."""
    found = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with open(table, encoding="ascii") as file:
            for line in file.readlines()[1:]:
                words = line.split()
                if words[3] == "0A":
                    found.add(int(words[1].rpartition(":")[2], 16))
    return found


def attack(way, folder, end):
    """Tries each listener as a store, until the file `end` is there. Exits with the number of leaks."""
    from gloo_c import GlooError, TcpStore

    os.setgroups([])
    os.setresgid(STRANGER, STRANGER, STRANGER)
    os.setresuid(STRANGER, STRANGER, STRANGER)
    refused, leaks = 0, set()
    while not os.path.exists(end):
        for port in listeners():
            try:
                store = TcpStore("127.0.0.1", port, timeout=0.3)
                store.set("stranger", b"1")
                leaks.add(f"the store at port {port} let a stranger in")
            except GlooError:
                refused += 1
        if way == "file" and os.path.exists(f"{folder}/meet"):
            try:
                with open(f"{folder}/meet", "ab"):
                    leaks.add("the file of the FileStore can be written")
            except OSError:
                refused += 1
        time.sleep(0.02)
    print(f"refused: {refused}, leaks: {sorted(leaks)}", flush=True)
    os._exit(len(leaks))


def inside(way, program, folder):
    import torch.distributed  # noqa: F401 - before the stranger has become one that cannot read it
    import gloo_c  # noqa: F401

    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    listeners()  # loads codecs, which the stranger may not be able to read either
    end = f"{folder}/end"
    child = os.fork()
    if child == 0:
        try:
            attack(way, folder, end)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(99)
    job = [process.wait() for process in started(way, program, folder)]
    with open(end, "w", encoding="ascii"):
        pass
    stranger = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    print(f"job: {job}, stranger: {stranger}")
    return 1 if any(job) or stranger else 0


# ---- the test ----------------------------------------------------------------------------------

@pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="it takes root on Linux to be another user")
@pytest.mark.parametrize("security", ["auth", "off"])
@pytest.mark.parametrize("way", WAYS)
def test_stranger_of_the_host_stays_outside(way, security, tmp_path):
    """With GLOO_SECURITY=off the stranger comes in, which shows that what it tries is to the point."""
    pytest.importorskip("torch.distributed")
    if security == "off" and way != "variables":
        pytest.skip("one way to start is enough to see the stranger come in")
    if way == "mpirun" and shutil.which("mpirun") is None:
        pytest.skip("mpirun is not installed")
    if shutil.which("ip") is None or subprocess.run(["unshare", "-n", "true"], check=False).returncode:
        pytest.skip("network namespaces cannot be made here")
    program = tmp_path / "rank.py"
    program.write_text(RANK)
    for folder in (tmp_path, tmp_path.parent, tmp_path.parent.parent):  # the stranger looks for the end
        folder.chmod(folder.stat().st_mode | 0o011)
    kept = {name: value for name, value in os.environ.items()
            if not name.startswith(("GLOO_", "MASTER_", "RANK", "WORLD_SIZE", "LOCAL_", "OMPI_", "TORCHELASTIC_"))}
    done = subprocess.run(["unshare", "-n", sys.executable, __file__, way, program, tmp_path], text=True, timeout=300, check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          env={**kept, "HOME": str(tmp_path), "OMP_NUM_THREADS": "1", "GLOO_SECURITY": security})
    if security == "off":
        assert "let a stranger in" in done.stdout, done.stdout
        return
    assert done.returncode == 0, done.stdout
    assert done.stdout.count(": well") == 2 and "leaks: []" in done.stdout, done.stdout
    assert "refused: 0," not in done.stdout, done.stdout
    print(done.stdout)


if __name__ == "__main__":
    sys.exit(inside(*sys.argv[1:4]))
