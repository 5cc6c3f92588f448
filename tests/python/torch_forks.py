"""Programs that find torch imported: each runs in a process that is forked from one that has imported it, and
nothing of gloo_c. An import takes two to four seconds of a processor, and a job has one for each rank.

start() starts a program, or, without `fork`, an interpreter with it. As a program this file is the server:
torch_forks.py SOCKET. For each request it forks a keeper, which forks the program, and reports its
process and its status. A program ends as Python ends: modules are cleared, and functions of atexit run."""

import array
import atexit
import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
import types

BYTES = 1 << 20
_server = None


class Forked:
    """A program that has been started: as subprocess.Popen, whose methods these are."""

    def __init__(self, arguments, env, cwd, output):
        self.args, self.returncode = arguments, None
        request = json.dumps({"arguments": arguments, "env": dict(env), "cwd": str(cwd or os.getcwd())}).encode()
        assert len(request) < BYTES
        self._status, status = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with status:
            given = array.array("i", [output.fileno(), status.fileno()])
            server().sendmsg([request], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, given)])
        self.pid = self._read()

    def _read(self):
        found = self._status.recv(64)
        if not found:
            raise RuntimeError(f"the process that forks programs ended before {self.args}")
        return int(found)

    def wait(self, timeout=None):
        if self.returncode is None:
            if not select.select([self._status], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(self.args, timeout)
            self.returncode = os.waitstatus_to_exitcode(self._read())
            self._status.close()
        return self.returncode

    def poll(self):
        try:
            return self.wait(0)
        except subprocess.TimeoutExpired:
            return None

    def kill(self):
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)


def start(arguments, env, output, cwd=None, fork=True):
    """Starts a program of Python, a path or "-c" and its text, with its arguments. Its output goes to a file.
    Variables of Python's own need an interpreter that reads them."""
    arguments = list(map(str, arguments))
    own = [name for name, value in env.items() if name.startswith("PYTHON") and value != os.environ.get(name)]
    if fork and not own:
        return Forked(arguments, env, cwd, output)
    return subprocess.Popen([sys.executable, *arguments], env=env, cwd=cwd, stdin=subprocess.DEVNULL, stdout=output,
                            stderr=subprocess.STDOUT)


def server():
    """Returns the socket to the server, which ends with this process."""
    global _server
    if _server is None:
        _server, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        _server.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BYTES)
        with theirs:
            process = subprocess.Popen(
                [sys.executable, __file__, str(theirs.fileno())], pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env={**os.environ, "OMP_NUM_THREADS": "1", "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"})
        atexit.register(lambda: (_server.close(), process.wait()))
    return _server


# ---- the server ----------------------------------------------------------------------------------

def serve(requests):
    """Returns the next request in the program's process; ends the server when there are no more."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # keepers leave nothing to wait for
    while True:
        message, given, _flags, _from = requests.recvmsg(BYTES, socket.CMSG_SPACE(8))
        if not message:
            os._exit(0)
        output, status = array.array("i", given[0][2])
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            requests.close()
            keep(output, status)
            return json.loads(message)
        os.close(output)
        os.close(status)


def keep(output, status):
    """Forks the program, returns in it, and reports on it."""
    with socket.socket(fileno=status) as told:
        process = os.fork()
        if process:
            os.close(output)
            told.send(str(process).encode())
            told.send(str(os.waitpid(process, 0)[1]).encode())
            os._exit(0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(output)


def program_of(arguments, env, cwd):
    """Makes this process what Python is before a program's first line that uses torch, and returns its code
    and its names."""
    import torch
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    if arguments[0] == "-c":
        path, text, sys.argv = "<string>", arguments[1], ["-c", *arguments[2:]]
        sys.path[0] = ""
    else:
        path, sys.argv = arguments[0], arguments
        sys.path[0] = os.path.dirname(os.path.abspath(path))
        with open(path, encoding="utf-8") as file:
            text = file.read()
    # What the import of torch takes from the environment.
    torch.distributed.set_debug_level_from_env()
    if torch._is_device_backend_autoload_enabled():
        torch._import_device_backends()
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    if path != "<string>":
        main.__file__ = path
    return compile(text, path, "exec"), main.__dict__


def main():
    import torch._dynamo  # DistributedDataParallel imports it, which takes as long as torch itself
    import torch.distributed.checkpoint
    import torch.distributed.optim  # noqa: F401
    assert not [name for name in sys.modules if name.startswith("gloo_c")]
    gc.freeze()  # a program would go through all objects of torch when it ends, and copy their pages
    return program_of(**serve(socket.socket(fileno=int(sys.argv[1]))))


if __name__ == "__main__":
    exec(*main())
