"""Prometheus scrapes two jobs of a host by the files in share/, and node_exporter takes their text.

usage: prometheus.py SHARE GLOO TRACE_RANK (with prometheus, promtool and prometheus-node-exporter in PATH)"""

import json
import math
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "law"))
from tap import case, finish, wait_until  # noqa: E402

SHARE, GLOO, RANK = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
TARGET = "127.0.0.1:9955"  # in the scrape configuration
INTERVAL = "10s"  # for Grafana's $__rate_interval
started: list["subprocess.Popen[str]"] = []


def start(words: list[str], log: Path, **variables: str) -> "subprocess.Popen[str]":
    with log.open("w", encoding="utf-8") as to:
        started.append(subprocess.Popen(words, stdout=to, stderr=to, text=True, env={**os.environ, **variables}))
    return started[-1]


def told(log: Path, pattern: str) -> str:
    """Waits for a line in a log, and returns the group of its pattern."""
    def text() -> "re.Match[str] | None":
        return re.search(pattern, log.read_text(encoding="utf-8"))
    assert wait_until(lambda: text() is not None), log.read_text(encoding="utf-8")
    found = text()
    assert found
    return found[1]


def fetch(url: str, accept: str = "") -> str:
    with urllib.request.urlopen(urllib.request.Request(url, headers={"Accept": accept}), timeout=60) as answer:
        return str(answer.read().decode())


def promtool(*words: str, text: str = "") -> "subprocess.CompletedProcess[str]":
    return subprocess.run(["promtool", *words], input=text, capture_output=True, text=True, timeout=60, check=False)


# ---- the board -----------------------------------------------------------------


def queries_of(thing: Any) -> list[str]:
    """Returns the expressions anywhere in a board."""
    if isinstance(thing, dict):
        own = [thing["expr"]] if isinstance(thing.get("expr"), str) else []
        return own + [query for value in thing.values() for query in queries_of(value)]
    return [query for value in thing for query in queries_of(value)] if isinstance(thing, list) else []


def variables_of(board: dict[str, Any]) -> list[tuple[str, str]]:
    """Returns (selector, label) of each variable that is a query."""
    definitions = [v["definition"] for v in board["templating"]["list"] if v["type"] == "query"]
    found = [re.fullmatch(r"label_values\((.*), (\w+)\)", definition) for definition in definitions]
    return [(match[1], match[2]) for match in found if match]


def filled(query: str) -> str:
    """Replaces Grafana's variables as it does if all values are chosen."""
    for name, value in (("$job", ".*"), ("$host", ".*"), ("$__rate_interval", INTERVAL)):
        query = query.replace(name, value)
    return query


class Prometheus:
    def __init__(self, config: Path, scratch: Path) -> None:
        self.log = scratch / "prometheus.log"
        start(["prometheus", f"--config.file={config}", f"--storage.tsdb.path={scratch / 'data'}",
               "--web.listen-address=127.0.0.1:0"], self.log)
        self.url = "http://" + told(self.log, r'msg="?Listening on"? address=(127\.0\.0\.1:[1-9]\d*)')

    def api(self, path: str, **arguments: str) -> Any:
        try:
            return json.loads(fetch(f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(arguments)}"))["data"]
        except urllib.error.HTTPError as error:
            return {"error": error.read().decode(), "result": []}

    def query(self, text: str) -> list[tuple[dict[str, str], float]]:
        return [(one["metric"], float(one["value"][1])) for one in self.api("query", query=text)["result"]]


def check_prometheus(scratch: Path, config: Path, ranks: list[int]) -> None:
    p = Prometheus(config, scratch)

    def sizes() -> list[float]:
        return sorted(value for _, value in p.query("count by (job, host) (gloo_rank_info == 1)"))

    case("Prometheus scrapes two jobs of a host at once", wait_until(lambda: sizes() == sorted(ranks)), sizes(),
         p.api("targets"))
    labels = [metric for metric, _ in p.query("gloo_rank_reachable == 1")]
    case("their labels are those of the ranks", sorted(m["rank"] for m in labels) == ["0", "0", "1", "1", "2"] and
         all(m["host"] == socket.gethostname() and re.fullmatch("[0-9a-f]{12}", m["job"]) and
             not any(name.startswith("exported_") for name in m) for m in labels), labels)
    kinds = {name: facts[0]["type"] for name, facts in p.api("metadata").items() if name.startswith("gloo_")}
    case("it knows the types, from OpenMetrics", kinds.get("gloo_calls", kinds.get("gloo_calls_total")) == "counter" and
         kinds.get("gloo_rank", kinds.get("gloo_rank_info")) == "info" and kinds.get("gloo_running") == "gauge", kinds)

    board = json.loads((SHARE / "grafana-board.json").read_text(encoding="utf-8"))
    queries = queries_of(board)
    assert len(queries) >= len(board["panels"]) > 0
    case("each variable of the board is used", all(f"${v['name']}" in json.dumps(board["panels"]) or
                                                   f"${{{v['name']}}}" in json.dumps(board["panels"])
                                                   for v in board["templating"]["list"]))
    for selector, label in variables_of(board):
        values = p.api(f"label/{label}/values", **{"match[]": filled(selector)})
        case(f"the variable {label} has values", len(values) == {"job": 2, "host": 1}[label], values)
    jobs = {m["job"] for m in labels}
    for query in queries:
        seen: list[tuple[dict[str, str], float]] = []

        def has_figures(text: str = filled(query)) -> bool:
            seen[:] = p.query(text)
            return {m["job"] for m, value in seen if math.isfinite(value)} == jobs

        case(f"figures of both jobs: {query}", wait_until(has_figures, 60), seen, p.api("query", query=filled(query)))
    complaints = [line for line in p.log.read_text(encoding="utf-8").splitlines() if "level=warn" in line or "level=error" in line]
    case("Prometheus has no complaint", not [line for line in complaints if "scrape" in line], complaints)


# ---- text in files -------------------------------------------------------------


def check_node_exporter(scratch: Path, texts: dict[str, str]) -> None:
    folder, log = scratch / "textfiles", scratch / "node.log"
    folder.mkdir()
    for name, text in texts.items():
        (folder / f"{name}.prom").write_text(text, encoding="utf-8")
        done = promtool("check", "metrics", text=text)
        case(f"promtool accepts the text of {name}", done.returncode == 0 and not done.stderr, done)
    start(["prometheus-node-exporter", "--collector.disable-defaults", "--collector.textfile",
           f"--collector.textfile.directory={folder}", "--web.listen-address=127.0.0.1:0"], log)
    url = "http://" + told(log, r'msg="?Listening on"? address=(127\.0\.0\.1:[1-9]\d*)') + "/metrics"
    page = fetch(url)
    case("node_exporter accepts both", "node_textfile_scrape_error 0\n" in page and
         "# TYPE gloo_calls_total counter\n" in page, log.read_text(encoding="utf-8"), page)
    kept = [line for line in page.splitlines() if line.startswith("gloo_calls_total{") and 'host="' in line]
    case("with the ranks of both jobs", len({re.sub('.*job="([^"]*)".*', r"\1", line) for line in kept}) == 2, kept)


def of_rank(sockets: Path) -> str:
    """Returns the text of the library itself."""
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(next(sockets.glob("gloo-metrics-rank0-*"))))
        client.sendall(b"GET / HTTP/1.0\r\n\r\n")
        text = b""
        while part := client.recv(1 << 16):
            text += part
    return text.decode().partition("\r\n\r\n")[2]


def main(scratch: Path) -> None:
    sockets, ranks = scratch / "s", [2, 3]
    sockets.mkdir()
    for n in ranks:
        start([GLOO, "run", "-n", str(n), "--", RANK, "busy", "1"], scratch / f"job{n}", GLOO_METRICS=str(sockets),
              GLOO_HEARTBEAT="300", XDG_RUNTIME_DIR=str(scratch))
    assert wait_until(lambda: len(list(sockets.glob("*.sock"))) == sum(ranks))
    start([GLOO, "metrics", "--listen", "127.0.0.1:0", str(sockets)], scratch / "url")
    address = told(scratch / "url", r"http://(.*)/metrics\n")

    text = (SHARE / "prometheus.yml").read_text(encoding="utf-8")
    done = promtool("check", "config", str(SHARE / "prometheus.yml"))
    case("promtool accepts the scrape configuration", done.returncode == 0, done)
    assert text.count(TARGET) == 2  # in its comment and as the target
    config = scratch / "prometheus.yml"
    config.write_text(text.replace(TARGET, address).replace("scrape_interval: 5s", "scrape_interval: 1s"), encoding="utf-8")
    check_prometheus(scratch, config, ranks)

    printed = subprocess.run([GLOO, "metrics", str(sockets)], capture_output=True, text=True, timeout=60, check=True).stdout
    check_node_exporter(scratch, {"gloo metrics": printed, "a rank": of_rank(sockets)})


with tempfile.TemporaryDirectory() as folder:
    try:
        main(Path(folder))
    finally:
        for process in started:
            process.send_signal(signal.SIGTERM)
        for process in started:
            process.wait(60)
sys.exit(not finish())
