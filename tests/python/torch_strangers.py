"""Jobs of PyTorch, each with strangers beside it: another user of its host, and one in another network namespace.

usage: torch_strangers.py FOLDER ROUNDS WAY/AT/SECURITY/WHAT...    as root, in the namespaces of UNSHARE
  WAY       how the job is started: one of WAYS
  AT        host: ranks meet at 127.0.0.1; network: at an address that the other namespace reaches
  SECURITY  auth, off; required; secret: required, and all ranks have one
  WHAT      beside: the strangers try to get in and to read; names: they also have first what a job may choose
            to use; port: they have what the job was told to use; rank_0: they change PyTorch's store
The job has network, process and mount namespaces of its own. A line of JSON is printed for each round; the status is
the number of rounds with faults, at most 100."""

import collections
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
import traceback
from pathlib import Path

WAYS = ["torchrun", "spawn", "tcp", "file", "variables", "mpirun"]
# Cases that security.md calls open: ranks that do not know that all of them are on one host, and
# have no secret.
OPEN = ["spawn", "tcp", "variables", "mpirun"]
PARTS = ["user", "reader", "far"]  # strangers: on the host, on the host at PyTorch's store, in the other network namespace
NEAR, FAR = "10.213.79.1", "10.213.79.2"
TURNS = 2  # of each stranger, after which the job ends
GROUPS = 400  # maximum number of groups of the job
SECONDS = 240  # for a job


def work(rank, size, method, seconds):
    """Makes groups until the strangers have had their turns."""
    from datetime import timedelta

    import torch
    import torch.distributed as dist
    import gloo_c.torch  # noqa: F401

    torch.set_num_threads(1)
    dist.init_process_group("gloo_c", init_method=method, rank=rank, world_size=size, timeout=timedelta(seconds=seconds))
    stop = os.path.join(os.environ["HOME"], "stop")
    for turn in range(GROUPS):
        group = dist.new_group([0, 1], timeout=timedelta(seconds=seconds))
        x = torch.tensor([float(rank + 1)])
        dist.all_reduce(x, group=group)
        objects = [("of rank 0", turn, os.path.exists(stop)) if rank == 0 else None]
        dist.broadcast_object_list(objects, src=0, group=group)
        assert x.item() == 3 and objects[0][:2] == ("of rank 0", turn), (x, objects)
        dist.destroy_process_group(group)
        if objects[0][2]:
            break
        time.sleep(0.05)
    print(f"rank {rank}: well", flush=True)


def rank_main(method, seconds):
    """Runs a rank that a launcher has started."""
    os.environ["RANK"] = os.environ.get("OMPI_COMM_WORLD_RANK") or os.environ["RANK"]
    os.environ["WORLD_SIZE"] = "2"
    work(int(os.environ["RANK"]), 2, method, seconds)


def spawn(method, seconds):
    import torch.multiprocessing

    torch.multiprocessing.spawn(work, (2, method, seconds), nprocs=2)


def torchrun(host, port, seconds):
    import torch.distributed.run

    torch.distributed.run.main(["--master-addr", host, "--master-port", port, "--nproc-per-node", "2", __file__, "rank",
                                "env://", str(seconds)])


def forked(body, log=None):
    """Forks a process with the modules of this one, which the stranger could not read."""
    child = os.fork()
    if child:
        return child
    status = 99
    try:
        if log is not None:
            os.dup2(log, 1)
            os.dup2(log, 2)
        status = body() or 0
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def started(way, host, port, file, seconds, variables, log):
    """Returns the processes of a job."""
    def begun(body, **more):
        def ready():
            os.environ.update(variables, MASTER_ADDR=host, MASTER_PORT=str(port), **more)
            body()

        return forked(ready, log)

    if way == "torchrun":
        return [begun(lambda: torchrun(host, str(port), seconds))]
    if way == "spawn":
        return [begun(lambda: spawn(f"tcp://{host}:{port}", seconds))]
    if way == "mpirun":
        command = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "2", sys.executable, __file__, "rank", "env://",
                   str(seconds)]
        return [begun(lambda: os.execvp(command[0], command))]
    method = {"tcp": f"tcp://{host}:{port}", "file": f"file://{file}", "variables": "env://"}[way]
    return [begun(lambda: rank_main(method, seconds), RANK=str(rank)) for rank in (0, 1)]


def ended(processes, all_of_them, turns, stop, sockets):
    """Returns their statuses. If not all of them exit, the others are ended after the first
    failure.

    turns: pipes with a byte for each turn of a stranger. stop: the file that tells a job to end."""
    left, statuses, deadline, had = set(processes), [], time.monotonic() + SECONDS, dict.fromkeys(turns, 0)
    while left:
        for process in list(left):
            done, status = os.waitpid(process, os.WNOHANG)
            if done:
                left.remove(process)
                statuses.append(os.waitstatus_to_exitcode(status))
        if left and (time.monotonic() > deadline or (not all_of_them and any(statuses))):
            for process in left:
                os.kill(process, signal.SIGKILL)
        sockets.set()
        for pipe in select.select(turns, [], [], 0.02)[0]:
            had[pipe] += len(os.read(pipe, 4096))
        if min(had.values()) >= TURNS:
            stop.touch()
    return statuses


# ---- the host -----------------------------------------------------------------------------------

def ip(*words):
    subprocess.run(["ip", *words], check=True)


def own_tmp(keep):
    """Replaces /tmp and /dev/shm by empty ones, except for what is to be kept."""
    keep = sorted({os.path.realpath(path) for path in keep if os.path.realpath(path).startswith("/tmp/")})
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", "/mnt"], check=True)
    for n, path in enumerate(keep):
        os.mkdir(f"/mnt/{n}")
        subprocess.run(["mount", "--bind", path, f"/mnt/{n}"], check=True)
    for place in ("/tmp", "/dev/shm"):
        subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=1777", "tmpfs", place], check=True)
    for n, path in enumerate(keep):
        os.makedirs(path, mode=0o755, exist_ok=True)
        subprocess.run(["mount", "--bind", f"/mnt/{n}", path], check=True)


def other_network():
    """Starts a process in another network namespace, connected by a link."""
    from torch_stranger import CLONE_NEWNET, PORTS, ctypes

    ip("link", "set", "lo", "up")
    Path("/proc/sys/net/ipv4/ip_local_port_range").write_text(f"{PORTS[0]} {PORTS[1] - 1}", encoding="ascii")
    read, write = os.pipe()

    def hold():
        if ctypes.CDLL(None).unshare(CLONE_NEWNET):
            return 1
        os.write(write, b"1")
        signal.pause()
        return 0

    holder = forked(hold)
    os.close(write)
    if not os.read(read, 1):
        raise OSError("a second network namespace cannot be made")
    ip("link", "add", "near", "type", "veth", "peer", "name", "far", "netns", str(holder))
    ip("addr", "add", f"{NEAR}/24", "dev", "near")
    ip("link", "set", "near", "up")
    inside = ["nsenter", "-t", str(holder), "-n", "ip"]
    for words in (("addr", "add", f"{FAR}/24", "dev", "far"), ("link", "set", "far", "up"), ("link", "set", "lo", "up")):
        subprocess.run([*inside, *words], check=True)
    return holder


# ---- one round -----------------------------------------------------------------------------------

def stranger(part, network, sockets, what, port, file, secret, end, ready, answer):
    """Starts a stranger. network: a process in the stranger's network namespace; None: that of the
    job."""
    from torch_stranger import Stranger, become_nobody, enter_network

    if network is not None:
        enter_network(network)
    become_nobody()
    os.environ["GLOO_LOG_LEVEL"] = "error"
    it = Stranger([NEAR] if network else ["127.0.0.1", NEAR], sockets, port, [file], secret, network is None)
    if part == "reader" and what == "rank_0":
        part = what
        it.take_rank_0()
    if part == "user" and what == "names":
        it.take_names()
    if part == "user" and what == "port":
        it.take_port(file)
    os.write(ready, b"0")
    it.go(part, end, ready)
    os.write(answer, it.report().encode())
    return 0


def beside(folder, network, turn, way, at, security, what):
    """Returns the strangers' answers, the statuses of the job, and its output."""
    from torch_stranger import Sockets

    sockets = Sockets()
    log = os.open(folder / f"job-{turn}", os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
    stop, (end, at_end) = folder / "home/stop", os.pipe()
    stop.unlink(missing_ok=True)
    file = f"/tmp/meet-{turn}" if what == "port" else str(folder / f"meet-{turn}")
    port, secret = 29500 + 20 * (turn % 100), os.urandom(16).hex() if security == "secret" else ""
    answers, turns, strangers = [], [], []
    for part in PARTS:
        (had, have), (told, tell) = os.pipe(), os.pipe()
        place = network if part == "far" else None
        strangers.append(forked(lambda: stranger(part, place, sockets, what, port, file, secret, end, have, tell)))
        os.close(have)
        os.close(tell)
        os.read(had, 1)
        turns.append(had)
        answers.append(told)
    variables = {"GLOO_SECURITY": {"secret": "required"}.get(security, security)}
    if secret:
        variables["GLOO_JOB_SECRET"] = secret
    seconds = 20 if what == "rank_0" or at == "network" else 120
    job = started(way, "127.0.0.1" if at == "host" else NEAR, port, file, seconds, variables, log)
    statuses = ended(job, what != "port", turns, stop, sockets)
    os.write(at_end, b"1")
    said = []
    for answer in answers:
        with os.fdopen(answer, "rb") as pipe:
            said.append(json.loads(pipe.read() or b'{"leaks": ["the stranger ended with an error"], "tried": {}, "seen": []}'))
    for process in strangers:
        os.waitpid(process, 0)
    for pipe in (end, at_end, *turns):
        os.close(pipe)
    os.lseek(log, 0, 0)
    with os.fdopen(log, "rb") as text:
        return dict(zip(PARTS, said)), statuses, text.read().decode(errors="replace")


NO_SECRET = "GLOO_SECURITY=required, but no job secret is set"
# mp.spawn shows the output of one rank, which may have lost PyTorch's store because rank 0 had
# exited.
STORE_ENDED = "Did the remote server shutdown or crash?"
PORT_TAKEN = ("EADDRINUSE", "address already in use", "Address already in use", "ermission denied", "belongs to user")


def faults_of(told, statuses, said, way, at, security, what):
    """Returns the differences from the guide (docs/guide/security.md)."""
    if security == "off":
        return []
    near, far = told["user"]["leaks"] + told["reader"]["leaks"], told["far"]["leaks"]
    faults = [f"of the host: {leak}" for leak in near]
    is_open = at == "network" and way in OPEN and security == "auth"
    if not is_open:
        faults += [f"of another namespace: {leak}" for leak in far]
    well = not any(statuses) and said.count(": well") == 2
    if security == "required" and (well or not (NO_SECRET in said or way == "spawn" and STORE_ENDED in said)):
        faults.append("a job without a secret started, or did not say what is missing")
    elif what == "port" and (well or not any(words in said for words in PORT_TAKEN)):
        faults.append("the job does not say that its port or file is taken")
    elif security != "required" and what in ("beside", "names") and not is_open and not well:
        faults.append("the job failed")
    return faults


def inside(folder, rounds, cases):
    import torch.distributed.run  # noqa: F401
    import gloo_c
    import torch_stranger  # noqa: F401 - now, for the stranger may not be able to read it

    here = Path(__file__).resolve()
    own_tmp([folder, sys.prefix, sys.base_prefix, here.parent, here.parents[2], Path(gloo_c.__file__).parents[1]])
    network, bad, turn = other_network(), 0, 0
    for case in cases:
        for _ in range(rounds):
            told, statuses, said = beside(folder, network, turn, *case)
            faults = faults_of(told, statuses, said, *case)
            bad, turn = bad + bool(faults), turn + 1
            print(json.dumps({"case": "/".join(case), "job": statuses, "faults": faults, "told": told,
                              "said": said[-8000:] if faults else ""}), flush=True)
    os.kill(network, signal.SIGKILL)
    return min(bad, 100)


# ---- from outside --------------------------------------------------------------------------------

def missing():
    """Returns the reason if this cannot run here, or ""."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return "it takes root on Linux to be another user"
    for tool in ("unshare", "nsenter", "ip", "mount"):
        if shutil.which(tool) is None:
            return f"the command {tool} is missing"
    if subprocess.run([*UNSHARE, "ip", "link", "add", "x", "type", "veth", "peer", "name", "y"], check=False,
                      stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode:
        return "namespaces with a link cannot be made here"
    return ""


UNSHARE = ["unshare", "-n", "-m", "-p", "-f", "--mount-proc", "--kill-child"]


def run(folder, rounds, cases):
    """Returns each round as a dict. A case is WAY/AT/SECURITY/WHAT."""
    folder = Path(folder)
    (folder / "home").mkdir(mode=0o700, exist_ok=True)
    for each in (folder, *folder.parents):  # the stranger can find the files of the job
        each.chmod(each.stat().st_mode | 0o011)
    kept = {name: value for name, value in os.environ.items() if not name.startswith((
        "GLOO_", "MASTER_", "RANK", "WORLD_SIZE", "LOCAL_", "OMPI_", "TORCHELASTIC_", "XDG_", "TMPDIR"))}
    done = subprocess.run([*UNSHARE, sys.executable, __file__, folder, str(rounds), *cases], text=True,
                          timeout=(SECONDS + 60) * rounds * len(cases), check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          env={**kept, "HOME": str(folder / "home"), "OMP_NUM_THREADS": "1", "TORCH_CPP_LOG_LEVEL": "ERROR"})
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"case"')]
    assert len(found) == rounds * len(cases), done.stdout
    return found


def total(rounds):
    """Returns the totals of some rounds, and the findings of strangers."""
    tried, seen = collections.Counter(), set()
    for each in rounds:
        for part, answer in each["told"].items():
            place = "network" if part == "far" else "host"
            tried.update(answer["tried"], **{f"came in from the {place}": bool(answer["leaks"])})
            seen.update(answer["seen"])
    return dict(tried), sorted(seen)


if __name__ == "__main__":
    if sys.argv[1] == "rank":
        rank_main(sys.argv[2], float(sys.argv[3]))
    else:
        sys.exit(inside(Path(sys.argv[1]), int(sys.argv[2]), [case.split("/") for case in sys.argv[3:]]))
