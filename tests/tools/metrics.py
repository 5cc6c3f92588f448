"""gloo metrics: what it serves for two jobs of a host, and to hostile clients, while ranks are killed and stopped.

usage: metrics.py GLOO TRACE_RANK"""

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "law"))
from tap import case, finish, wait_until  # noqa: E402

GLOO, RANK = sys.argv[1:3]
CLASSIC, OPEN = "text/plain; version=0.0.4; charset=utf-8", "application/openmetrics-text; version=1.0.0; charset=utf-8"
# As Prometheus 2.42 asks.
PROMETHEUS = ("application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
              "text/plain;version=0.0.4;q=0.5,*/*;q=0.1")
SAMPLE = re.compile(r'([a-z_]+)\{((?:[a-z]+="(?:[^"\\]|\\.)*",?)*)\} ([0-9.]+)')
LABEL = re.compile(r'([a-z]+)="([^"]*)"')


class Answer(NamedTuple):
    status: int
    type: str
    body: str
    headers: str


# What the test must not leave behind.
children: list["subprocess.Popen[bytes]"] = []
servers: list["Server"] = []


class Server:
    """gloo metrics with --listen; its port and host are those that it prints."""

    def __init__(self, *words: str, address: str = "127.0.0.1:0") -> None:
        self.process = subprocess.Popen([GLOO, "metrics", "--listen", address, *words],
                                        stdout=subprocess.PIPE, text=True)
        servers.append(self)
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().strip()
        found = re.fullmatch(r"http://(?:\[(.*)\]|([^:]*)):([1-9][0-9]*)/metrics", self.url)
        assert found, self.url
        self.address = found[1] or found[2], int(found[3])

    def connect(self) -> socket.socket:
        return socket.create_connection(self.address, timeout=60)

    def send(self, text: bytes) -> Answer:
        with self.connect() as client:
            client.sendall(text)
            return answer_of(read_all(client))

    def ask(self, accept: str = "", path: str = "/metrics", method: str = "GET", version: str = "1.1") -> Answer:
        line = f"Accept: {accept}\r\n" if accept else ""
        return self.send(f"{method} {path} HTTP/{version}\r\nHost: x\r\n{line}\r\n".encode())

    def end(self, by: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(by)
        return self.process.wait(60)


def read_all(client: socket.socket) -> bytes:
    text = b""
    while part := client.recv(1 << 16):
        text += part
    return text


def answer_of(text: bytes) -> Answer:
    head, _, body = text.decode().partition("\r\n\r\n")
    kind = re.search(r"^Content-Type: (.*)\r$", head + "\r\n", re.M)
    return Answer(int(head.split()[1]), kind[1] if kind else "", body, head)


def samples(body: str) -> dict[tuple[str, ...], float]:
    """Returns values by name, job, rank and the other labels in their order. Each line must be a sample of its own."""
    found: dict[tuple[str, ...], float] = {}
    for line in body.splitlines():
        if line.startswith("#"):
            continue
        parts = SAMPLE.fullmatch(line)
        assert parts, line
        labels = LABEL.findall(parts[2])
        assert [name for name, _ in labels[:3]] == ["job", "host", "rank"] and labels[1][1] == socket.gethostname(), line
        key = (parts[1], labels[0][1], labels[2][1], *(f"{name}={value}" for name, value in labels[3:]))
        assert key not in found, line
        found[key] = float(parts[3])
    return found


def reachable(body: str) -> dict[tuple[str, str], float]:
    return {(key[1], key[2]): value for key, value in samples(body).items() if key[0] == "gloo_rank_reachable"}


def start_job(ranks: int, **variables: str) -> "subprocess.Popen[bytes]":
    children.append(subprocess.Popen([GLOO, "run", "-n", str(ranks), "--", RANK, "busy", "1"], stdout=subprocess.DEVNULL,
                                     stderr=subprocess.DEVNULL,
                                     env={**os.environ, "GLOO_HEARTBEAT": "300", **variables}))
    return children[-1]


def process_of(body: str, job: str, rank: str) -> int:
    labels = next(key[3:] for key in samples(body) if key[:3] == ("gloo_rank_info", job, rank))
    return int(next(label for label in labels if label.startswith("process=")).removeprefix("process="))


# ---- formats -------------------------------------------------------------------


def families(body: str) -> dict[str, str]:
    return dict(re.findall(r"^# TYPE (\S+) (\S+)$", body, re.M))


def check_formats(server: Server) -> None:
    classic, opened = server.ask(), server.ask(PROMETHEUS)
    case("without Accept it is Prometheus's text", (classic.status, classic.type) == (200, CLASSIC), classic)
    case("Prometheus gets OpenMetrics", (opened.status, opened.type) == (200, OPEN), opened)
    case("the body is as long as its header says",
         all(f"Content-Length: {len(a.body)}\r" in a.headers + "\r" for a in (classic, opened)), classic.headers)
    old, new = families(classic.body), families(opened.body)
    case("counters end in _total in the text",
         old["gloo_calls_total"] == "counter" and old["gloo_rank_info"] == "gauge" and "info" not in old.values(), old)
    case("and not in OpenMetrics, which has a type for information",
         new["gloo_calls"] == "counter" and new["gloo_rank"] == "info" and not any(n.endswith("_total") for n in new), new)
    case("OpenMetrics ends in # EOF", opened.body.endswith("\n# EOF\n") and "# EOF" not in classic.body, opened.body[-200:])
    case("both have the same samples", samples(classic.body).keys() == samples(opened.body).keys())
    lines = [line.split("{")[0] for line in classic.body.splitlines() if not line.startswith("#")]
    runs = [name for at, name in enumerate(lines) if at == 0 or lines[at - 1] != name]
    case("the samples of a family stand together", len(runs) == len(set(runs)) == len(old), runs)
    chosen = {"text/plain": CLASSIC, "*/*": CLASSIC, "application/json": CLASSIC,
              "application/openmetrics-text": OPEN, "Application/OpenMetrics-Text ; version = 1.0.0 ; q=0.4, */*;q=0.3": OPEN,
              "application/openmetrics-text;q=0.3,text/plain": CLASSIC, "application/openmetrics-text;q=0": CLASSIC,
              "application/openmetrics-text;version=0.0.1": CLASSIC, ",;=,;q=,application/openmetrics-text;q=x": CLASSIC,
              "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,text/plain;version=0.0.4;q=0.5": OPEN}
    wrong = [accept for accept, kind in chosen.items() if server.ask(accept).type != kind]
    case("Accept chooses by weight and version", not wrong, wrong)


def check_requests(server: Server) -> None:
    case("another path is not found", all(server.ask(path=p).status == 404 for p in ("/", "/metricsx", "/now", "//metrics")))
    case("a query is allowed", server.ask(path="/metrics?a=b").status == 200)
    refused = [server.ask(method=m) for m in ("POST", "PUT", "DELETE", "get", "OPTIONS")]
    case("other methods are refused", all(a.status == 405 and "Allow: GET" in a.headers for a in refused), refused)
    head = server.ask(method="HEAD")
    case("HEAD has no body", (head.status, head.type, head.body) == (200, CLASSIC, ""), head)
    case("HTTP/1.0 is served", server.ask(version="1.0").status == 200)
    bad = [b"\r\n\r\n", b"hello\n\n", b"GET /metrics\r\n\r\n", b"GET /metrics HTTP/2.0\r\n\r\n", b"GET  /metrics HTTP/1.1\r\n\r\n",
           b"GET /metrics HTTP/1.1\r\nA: \0\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\n\n", b"GET /metrics HTTP/1.1 x\r\n\r\n"]
    wrong = [text for text in bad if server.send(text).status != 400]
    case("what is not HTTP is refused", not wrong, wrong)
    case("a long request is refused", server.send(b"GET /metrics HTTP/1.1\r\nA: " + b"x" * 9000).status == 431)
    with server.connect() as client:
        for byte in b"GET /metrics HTTP/1.1\r\nAccept: application/openmetrics-text\r\n\r\n":
            client.sendall(bytes([byte]))
        whole = answer_of(read_all(client))
    case("a request may come byte by byte", whole.type == OPEN and whole.body.endswith("# EOF\n"))
    with server.connect() as client:
        client.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
        client.shutdown(socket.SHUT_WR)
        case("a client may end its side first", answer_of(read_all(client)).status == 200)


def check_clients(server: Server) -> None:
    """More silent and slow clients than it has room for, and one that leaves."""
    slow = server.connect()
    slow.sendall(b"GET /metrics HTTP/1.1\r\n\r\n" * 100)
    silent = [server.connect() for _ in range(150)]
    for client in silent[::2]:
        client.sendall(b"GET /met")
    case("silent clients keep others from nothing", all(server.ask().status == 200 for _ in range(10)))
    begun = time.monotonic()
    asked = [server.connect() for _ in range(20)]
    for client in asked:
        client.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
    statuses = [answer_of(read_all(client)).status for client in asked]
    case("clients are served together", statuses == [200] * 20, statuses, time.monotonic() - begun)
    last = silent[-1]
    case("a silent client is closed after seconds", read_all(last) == b"")
    for client in [slow, *silent, *asked]:
        client.close()
    for _ in range(50):
        with server.connect() as client:
            client.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    case("clients that leave at once do no harm", server.ask().status == 200)


# ---- ranks ---------------------------------------------------------------------


def check_jobs(server: Server, sockets: Path) -> None:
    """Two jobs: a rank of one is stopped, and one of the other killed."""
    body = server.ask().body
    jobs = sorted({job for job, _ in reachable(body)}, key=lambda job: sum(j == job for j, _ in reachable(body)))
    small, large = jobs
    case("each rank of both jobs is there",
         reachable(body) == {(small, "0"): 1, (small, "1"): 1, **{(large, str(r)): 1 for r in range(3)}}, body)
    first, calls = samples(body), ("gloo_calls_total", large, "0", "call=allreduce")
    total = sum(value for key, value in first.items() if key[:4] == calls)
    case("figures grow", wait_until(lambda: sum(v for k, v in samples(server.ask().body).items() if k[:4] == calls) > total))

    stopped, killed = process_of(body, large, "1"), process_of(body, small, "1")
    os.kill(stopped, signal.SIGSTOP)
    noticed = wait_until(lambda: reachable(server.ask().body)[large, "1"] == 0)
    body = server.ask().body
    case("a stopped rank is reported, and the others are served",
         noticed and reachable(body)[large, "0"] == reachable(body)[small, "1"] == 1 and
         ("gloo_running", large, "0") in samples(body) and ("gloo_running", large, "1") not in samples(body), body)
    os.kill(stopped, signal.SIGCONT)
    case("and again when it goes on", wait_until(lambda: reachable(server.ask().body)[large, "1"] == 1))

    # The file of its socket stays.
    other = process_of(body, small, "0")
    os.kill(other, signal.SIGSTOP)
    os.kill(killed, signal.SIGKILL)
    case("a killed rank is reported while its job lives",
         wait_until(lambda: reachable(server.ask().body).get((small, "1")) == 0) and
         reachable(server.ask().body)[large, "1"] == 1 and any("rank1" in f.name for f in sockets.iterdir()))
    with contextlib.suppress(ProcessLookupError):  # gloo run may have ended it
        os.kill(other, signal.SIGKILL)
    case("and not once it has ended", wait_until(lambda: {j for j, _ in reachable(server.ask().body)} == {large}))


def fake_rank(path: Path, answers: bytes, stays: bool = False, endless: bool = False) -> int:
    """Forks a process that serves the bytes at a rank's socket; with `stays` it never closes a connection, and with
    `endless` it sends the last mebibyte again and again."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen(16)
    child = os.fork()
    if child == 0:
        kept = []
        while True:
            client, _ = listener.accept()
            try:
                client.sendall(answers)
                while endless:
                    client.sendall(answers[-1 << 20:])
            except OSError:
                pass
            kept.append(client)
            if not stays:
                client.shutdown(socket.SHUT_WR)
    listener.close()
    return child


def check_hostile_ranks(server: Server, sockets: Path) -> None:
    """Ranks whose texts are malformed, and one that answers and then hangs."""
    before = samples(server.ask().body)
    job = next(iter(reachable(server.ask().body)))[0]
    head = b"HTTP/1.0 200 OK\r\n\r\n"
    info = b'# TYPE gloo_rank_info gauge\ngloo_rank_info{rank="%d",size="2",job="' + job.encode() + b'"} 1\n'
    texts = [b"", b"HTTP/1.0 500 no\r\n\r\n", head, head + b"x\n# EOF\n", head + info % 7, head + b"# EOF\n",
             head + info % 7 + b"gloo_rank_info{} 1\n# EOF\n", head + info % 7 + b"gloo_other{} 1\n# EOF\n",
             head + info % 7 + b"# TYPE up gauge\nup{} 1\n# EOF\n", head + info % 7 + b"\0\n# EOF\n",
             head + info % 7 + b"# TYPE gloo_a gauge\ngloo_a{b=\"\\x\"} 1\n# EOF\n",
             head + info % 7 + b"# TYPE gloo_a gauge\ngloo_a{b=\"c} 1\n# EOF\n",
             head + info % 7 + b"# TYPE gloo_a gauge\ngloo_a{b=\"c\"} 1 2\n# EOF\n",
             head + info % 7 + b"# TYPE gloo_a gauge\ngloo_a{b=\"c\"} -\n# EOF\n",
             head + info % 7 + b"# TYPE gloo_a gauge\ngloo_a{b=\"\xff\"} 1\n# EOF\n",
             head + info % 7 + b"# TYPE gloo_a counter\ngloo_a{} 1\n# EOF\n", head + info % 7 + b"#" * 5000 + b"\n# EOF\n",
             head + info % 0 + b"# EOF\n"]  # the last is another process's rank
    fakes = [fake_rank(sockets / f"gloo-metrics-rank{100 + at}-pid{1 + at}.sock", text)
                for at, text in enumerate(texts)]
    fakes.append(fake_rank(sockets / "gloo-metrics-rank99-pid1.sock", head + info % 9, stays=True))
    fakes.append(fake_rank(sockets / "gloo-metrics-rank97-pid1.sock", head + info % 9 + b"#\n" * (1 << 19), endless=True))
    good_text = head + info % 8 + b'# TYPE gloo_new gauge\ngloo_new{a="}\\"\\\\,",job="x",host="y"} 1e3\n# EOF\n'
    fakes.append(fake_rank(sockets / "gloo-metrics-rank98-pid1.sock", good_text))
    bodies: list[str] = []
    line = f'gloo_new{{job="{job}",host="{socket.gethostname()}",rank="8",a="}}\\"\\\\,"}} 1e3\n'

    def passed_on() -> bool:  # a busy machine may answer too late for one page
        bodies.append(server.ask().body)
        return line in bodies[-1]

    case("an unknown metric is passed on, with its own labels", wait_until(passed_on), bodies[-1][-2000:])
    body = bodies[-1]
    after = samples(body.replace(line, ""))
    extra = {key for key in after if key[2] not in ("0", "1", "2")}
    case("malformed texts add nothing", {key[2] for key in extra} == {"8"}, extra)
    case("and take nothing away", before.keys() <= after.keys(), before.keys() - after.keys())
    status = Path(f"/proc/{server.process.pid}/status")
    peak = re.search(r"VmHWM:\s*(\d+) kB", status.read_text(encoding="utf-8") if status.exists() else "")
    case("an endless text takes limited memory", peak is None or int(peak[1]) < 400 << 10, peak)
    for child in fakes:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


# ---- the command ---------------------------------------------------------------


def run(*words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([GLOO, "metrics", *words], capture_output=True, text=True, timeout=60, check=False)


def check_command(sockets: Path) -> None:
    done = run(str(sockets))
    case("without --listen it prints once", done.returncode == 0 and len(reachable(done.stdout)) == 3, done)
    done = run("--listen", "127.0.0.1:0", str(sockets / "none"))
    case("a directory that does not exist is an error", done.returncode == 2 and "No such file" in done.stderr, done)
    wrong = [run("--listen", address, str(sockets)) for address in
             ("127.0.0.1", "1:2:3", "[::1]", "127.0.0.1:x", "127.0.0.1:70000", "127.0.0.1:", "300.1.1.1:1")]
    case("so is a malformed address", all(d.returncode == 1 and "cannot listen on" in d.stderr for d in wrong), wrong)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = run("--listen", f"127.0.0.1:{taken.getsockname()[1]}", str(sockets))
    case("so is a port in use", done.returncode == 1 and "address already in use" in done.stderr, done)


def check_addresses(sockets: Path) -> None:
    for address in ("[::1]:0", ":0", "localhost:0"):
        if "::" in address and not has_ipv6():
            print(f"# no IPv6 here: {address} is left out")
            continue
        server = Server(str(sockets), address=address)
        host, port = server.address
        reached = ("127.0.0.1" if address == ":0" else host), port
        with socket.create_connection(reached, timeout=60) as client:
            client.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
            status = answer_of(read_all(client)).status
        case(f"{address} is served, and SIGINT ends it", status == 200 and server.end(signal.SIGINT) == 0)


def has_ipv6() -> bool:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True


def check_all_jobs(runtime: Path) -> None:
    """Without a directory: the sockets that every process has, also those of jobs beside this test."""
    os.environ["XDG_RUNTIME_DIR"] = str(runtime)
    job = start_job(2)
    server = Server("--wait", "2")

    def own(body: str) -> dict[tuple[str, str], float]:
        jobs = {file.name.split("-")[1] for file in (runtime / "gloo_c").glob("job-*")}
        return {key: value for key, value in reachable(body).items() if key[0] in jobs}

    case("without a directory it finds all jobs", wait_until(lambda: sum(own(server.ask().body).values()) == 2))
    body = server.ask().body
    killed = [process_of(body, *rank) for rank in sorted(own(body))]
    os.kill(killed[0], signal.SIGSTOP)
    os.kill(killed[1], signal.SIGKILL)
    case("also a killed rank, whose socket it removes",
         wait_until(lambda: list(own(server.ask().body).values()) == [0, 0]) and
         list(own(server.ask().body).values()) == [0, 0] and len(list((runtime / "gloo_c").glob("job-*"))) == 1)
    waiting = server.connect()
    waiting.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
    case("SIGTERM ends it, whatever it does", server.end() == 0)
    os.kill(killed[0], signal.SIGKILL)
    job.wait(60)


def main(scratch: Path) -> None:
    sockets, runtime = scratch / "s", scratch / "r"
    sockets.mkdir()
    runtime.mkdir(0o700)
    os.environ["XDG_RUNTIME_DIR"] = str(scratch)
    server = Server(str(sockets), "--wait", "2")
    empty = server.ask()
    case("without ranks it has no samples", (empty.status, samples(empty.body)) == (200, {}))
    case("nor in OpenMetrics", server.ask(PROMETHEUS).body == "# EOF\n")
    jobs = [start_job(ranks, GLOO_METRICS=str(sockets)) for ranks in (2, 3)]
    case("ranks appear as they start", wait_until(lambda: sum(reachable(server.ask().body).values()) == 5), server.ask().body)
    check_formats(server)
    check_requests(server)
    check_clients(server)
    check_jobs(server, sockets)
    check_hostile_ranks(server, sockets)
    check_command(sockets)
    check_addresses(sockets)
    check_all_jobs(runtime)
    for file in sockets.iterdir():
        file.unlink()
    sockets.rmdir()
    gone = server.ask()
    case("a directory that is gone is an error of the server", gone.status == 503 and "No such file" in gone.body, gone)
    case("SIGTERM ends the server", server.end() == 0)
    for job in jobs:
        job.terminate()
        job.wait(60)


with tempfile.TemporaryDirectory() as folder:
    try:
        main(Path(folder))
    finally:
        for job in children:
            job.terminate()
        for server in servers:
            server.process.terminate()
sys.exit(not finish())
