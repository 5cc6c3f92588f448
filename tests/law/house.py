#!/usr/bin/env python3
"""Measures the structure of the tree, and holds each measure to a limit.

A limit above its target is what the tree has today: it may only fall. A change that improves the measure lowers
the limit in the same commit, or this fails.

usage: house.py PROJECT                      prints the measures
       house.py PROJECT --check [ARCHIVE...] tests them; archives show that no call has been missed"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import calls
import tap


class Limit(NamedTuple):
    most: int
    target: int
    slack: int  # how far a measure may be below `most` before that must be lowered
    meaning: str


CIRCLE = Limit(4, 4, 0, "units that call each other in a circle")
LIMITS = {
    "lines": Limit(91650, 70000, 2000, "lines of .c and .h files in src and include"),
    "files": Limit(577, 450, 10, ".c and .h files in src"),
    "small files": Limit(104, 90, 10, "those of fewer than 50 lines"),
    "folder": Limit(46, 45, 3, "files in the largest folder, without subfolders"),
    "units": Limit(37, 30, 3, "units in the largest folder, without subfolders: X.c with X.h is one"),
    "names": Limit(0, 0, 0, "names of .c files that stand in several folders, except absent.c"),
    "slots": Limit(35, 22, 0, "functions in gli_transport_ops"),
    "upcalls": Limit(8, 8, 0, "functions in gli_upcalls"),
    "bools": Limit(11, 3, 0, "bools in the struct that has most, in net and transports"),
    "bool structs": Limit(8, 0, 0, "structs of net and transports with more than 3 bools"),
    "sockets": Limit(17, 0, 0, "files outside src/net that use sockets, names, epoll, libuv's loop or SSL"),
    "circle: src/engine": CIRCLE._replace(most=6),
    "circle: src/engine/drive": CIRCLE._replace(most=6),
    "circle: src/engine/run": CIRCLE._replace(most=5),
    "circle: src/rendezvous": CIRCLE._replace(most=5),
    "circle: src/rendezvous/store": CIRCLE._replace(most=5),
    "circle: src/rendezvous/store/tcp": CIRCLE._replace(most=5),
    "circle: src/transport_ibv": CIRCLE._replace(most=11),
}
SMALL = 50
MOST_BOOLS = 3
CONTRACT = "src/transport/transport.h"
SOCKETS = re.compile(r"#\s*include\s*<(?:sys/socket\.h|netdb\.h|sys/epoll\.h|openssl/ssl\.h)>|\buv_(?:loop_|poll_|run\b)")
STRUCT = re.compile(r"\bstruct\s+(?:\w+\s*\([^)]*\)+\s*)?(\w*)\s*\{")
PARENTHESES = re.compile(r"\([^()]*\)")
BOOLS = re.compile(r"\b(?:bool|atomic_bool)\b([^;{}]*);")

# A measure and its location.
Measures = dict[str, tuple[int, list[str]]]


def structs(text: str) -> dict[str, str]:
    """Returns the members of each struct by its name: the tag, or the name after its brace."""
    found = {}
    for start in STRUCT.finditer(text):
        depth, end = 1, start.end()
        while depth and end < len(text):
            depth += (text[end] == "{") - (text[end] == "}")
            end += 1
        name = start[1] or re.sub(r"\W.*", "", text[end:].lstrip(), flags=re.S)
        if name:  # otherwise its members belong to the enclosing struct
            found[name] = text[start.end():end - 1]
    return found


def functions_in(members: str) -> int:
    return len(re.findall(r"\(\*\w+\)\s*\(", members))


def bools_in(members: str) -> int:
    while PARENTHESES.search(members):
        members = PARENTHESES.sub("", members)
    names = [name for declared in BOOLS.findall(members) for name in declared.split(",")]
    return sum(1 for name in names if name.strip() and "*" not in name)


def circles(texts: dict[str, str]) -> Measures:
    """Measures each folder below src, and folders with subfolders as a whole, too."""
    edges = calls.edges_of(calls.sources_of(texts))
    folders = {str(folder) for unit in edges for folder in Path(unit).parents if len(folder.parts) > 1}
    found = {}
    for folder in sorted(folders):
        inside = {unit: to for unit, to in edges.items() if unit.startswith(folder + "/")}
        ring = calls.largest_circle(inside)
        found[f"circle: {folder}"] = len(ring), [" ".join(unit[len(folder) + 1:] for unit in ring)]
    return found


def measured(project: Path) -> Measures:
    paths = sorted(path for top in ("src", "include") for path in (project / top).rglob("*") if path.is_file())
    names = [str(path.relative_to(project)) for path in paths]
    read = {name: path.read_text(encoding="utf-8") for name, path in zip(names, paths) if name[-2:] in (".c", ".h")}
    lines = {name: text.count("\n") for name, text in read.items()}
    own = {name: text for name, text in read.items() if name.startswith("src/")}
    small = [name for name in own if lines[name] < SMALL]
    folder, files = Counter(str(Path(name).parent) for name in names).most_common(1)[0]
    units_of, units = Counter(str(Path(unit).parent) for unit in {name[:-2] for name in own}).most_common(1)[0]
    several = [name for name, times in Counter(Path(name).name for name in own if name.endswith(".c")).items()
               if times > 1 and name != "absent.c"]
    contract = structs(calls.plain(read.get(CONTRACT, "")))
    bools = Counter({f"{name} in {path}": bools_in(members) for path, text in own.items()
                     if re.match("src/(net|transport_[a-z]+)/", path)
                     for name, members in structs(calls.plain(text)).items()})
    many = [f"{times}: {name}" for name, times in bools.most_common() if times > MOST_BOOLS]
    sockets = [name for name, text in own.items() if not name.startswith("src/net/") and SOCKETS.search(calls.plain(text))]
    return {
        "lines": (sum(lines.values()), []),
        "files": (len(own), []),
        "small files": (len(small), []),
        "folder": (files, [folder]),
        "units": (units, [units_of]),
        "names": (len(several), sorted(several)),
        "slots": (functions_in(contract.get("gli_transport_ops", "")), []),
        "upcalls": (functions_in(contract.get("gli_upcalls", "")), []),
        "bools": (max(bools.values(), default=0), many[:1]),
        "bool structs": (len(many), many),
        "sockets": (len(sockets), sockets),
        **circles(own),
    }


def complaint(value: int, limit: Limit) -> str:
    if value > limit.most:
        return f"{value} is more than {limit.most}"
    if max(value + limit.slack, limit.target) < limit.most:
        return f"{value} is better than {limit.most}: lower that in LIMITS of tests/law/house.py"
    return ""


def judged(measures: Measures) -> tuple[list[tuple[str, bool]], list[str]]:
    """Compares each measure with its limit; also returns the violations and their locations."""
    checks, found = [], []
    for name, (value, where) in measures.items():
        limit = LIMITS.get(name, CIRCLE)
        text = complaint(value, limit)
        checks.append((f"{name}: at most {limit.most} {limit.meaning}", not text))
        found += [f"{name}: {text}"] if text else []
        found += where if value > limit.most else []
    return checks, found


def missed(project: Path, archives: list[str]) -> tuple[int, list[str]]:
    """Returns the number of calls between objects of the archives that nm sees, and those missing
    in the texts."""
    read = {str(path.relative_to(project)): path.read_text(encoding="utf-8")
            for path in sorted((project / "src").rglob("*.[ch]"))}
    sources = calls.sources_of(read)
    homes = {function: {unit for unit in units if unit + ".c" in sources}
             for function, units in calls.homes_of(sources).items()}
    printed = subprocess.run(["nm", *archives], capture_output=True, text=True, check=True).stdout
    seen, lost = 0, []
    for object_file in printed.split("\n\n"):
        symbols = [line.split()[-2:] for line in object_file.splitlines() if len(line.split()) > 1]
        units = {unit for kind, name in symbols if kind == "T" for unit in homes.get(name, ())}
        used = {name for kind, name in symbols if kind == "U" and name in homes}
        if len(units) == 1:  # otherwise a file for some systems only
            unit = units.pop()
            seen += len(used)
            lost += [f"{unit}.c calls {name}" for name in sorted(used - calls.used_by_object(sources, unit + ".c"))]
    return seen, lost


def planted(files: dict[str, str]) -> Measures:
    """Measures a tree of these files."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in files.items():
            path = Path(folder) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return measured(Path(folder))


def ring(count: int, name: str = "r", kind: str = "", end: str = ".c") -> dict[str, str]:
    """Returns files each of which calls the next one, and the last one the first."""
    return {f"src/ring/{name}{at}{end}": f"{kind} void of_{name}{at}(void) {{ of_{name}{(at + 1) % count}(); }}"
            for at in range(count)}


# Neither calls the other; each of the lines in CALLS_BACK makes a.c call b.c.
APART = {
    "src/ring/a.c": "void of_b(void);\nvoid of_a(struct s *s) { s->of_b(); /* of_b() */ say(\"of_b()\"); }\n",
    "src/ring/b.c": "#if X\nstatic int two(int a) {\n#else\nstatic int two(long a) {\n#endif\n return 0; }\n"
                    "void of_b(void) { of_a(0); }\n",
    "src/ring/macro.h": "#define CALL(x, ...) of_##x(__VA_ARGS__)\n",
}
CALLS_BACK = ["void f(void) { of_b(); }", "void f(void) { CALL(b, 1, 2); }", "struct t table = {.call = of_b};"]
CONTRACT_TEXT = """/* (*not_me)(void) */
typedef struct gli_upcalls { void (*a)(void *x); gloo_status (*b)(bool yes); } gli_upcalls;
typedef struct gli_transport_ops { const char *name; int (*c)(int d); } gli_transport_ops;"""
BOOLS_TEXT = "typedef struct { bool a, b[2]; struct { bool c : 1; }; bool *d; bool (*e)(bool f); %s } many; // bool g;\n"


def self_test() -> list[tuple[str, bool]]:
    """Plants a violation of each law."""
    counted = planted({"src/a/x.c": "\n" * 50, "src/a/x.h": "\n" * 49, "src/a/meson.build": "", "src/b/x.c": "",
                       "src/b/absent.c": "", "src/a/absent.c": "", "include/y.h": "\n"})
    sockets = planted({"src/net/a.c": "#include <sys/socket.h>\n", "src/b/a.c": "#  include <netdb.h>\n",
                       "src/b/b.c": "int f(void) { return uv_run(loop, 0); }\n", "src/b/c.c": "#include <uv.h>\n"})

    def circle(files: dict[str, str]) -> int:
        return planted(files)["circle: src/ring"][0]

    def many(extra: str) -> list[str]:
        return planted({"src/net/a.h": BOOLS_TEXT % extra})["bool structs"][1]

    return [
        ("lines and small files are counted", [counted[name][0] for name in ("lines", "files", "small files")] == [100, 5, 4]),
        ("files and units of a folder are counted", (counted["folder"][0], counted["units"][0]) == (4, 2)),
        ("a name in two folders is found", counted["names"] == (1, ["x.c"])),
        ("a circle of 5 is found", circle(ring(5)) == 5),
        ("a circle of inline functions is found", circle(ring(5, kind="static inline", end=".h")) == 5),
        ("two circles of 4 are not taken for one", circle({**ring(4), **ring(4, "s")}) == 4),
        ("comments, strings, members and declarations do not call", circle(APART) == 1),
        ("calls, macros and initialisers do",
         all(circle({**APART, "src/ring/a.c": APART["src/ring/a.c"] + line}) == 2 for line in CALLS_BACK)),
        ("slots are counted", [planted({CONTRACT: CONTRACT_TEXT})[name][0] for name in ("slots", "upcalls")] == [1, 2]),
        ("a struct of 4 bools is found, and none of 3", [many(""), many("bool h;")] == [[], ["4: many in src/net/a.h"]]),
        ("sockets outside src/net are found", sockets["sockets"] == (2, ["src/b/a.c", "src/b/b.c"])),
        ("a measure above its limit is found", "more than 4" in complaint(5, CIRCLE)),
        ("one below a limit that is above the target is found", "lower" in complaint(6, CIRCLE._replace(most=7))),
        ("one a little below is not, nor below the target", not complaint(7, Limit(8, 4, 1, "")) + complaint(2, CIRCLE)),
    ]


def check(project: Path, archives: list[str]) -> None:
    measures = measured(project)
    checks, found = judged(measures)
    checks.append(("each limit is that of a measure", LIMITS.keys() <= measures.keys()))
    checks += self_test()
    if archives and shutil.which("nm"):
        seen, lost = missed(project, archives)
        found += lost
        checks.append(("no call that nm sees is missed" + ("" if seen else " # SKIP nm reads no symbols"), not lost))
    tap.report(checks, found)


def show(measures: Measures) -> None:
    print(f"{'today':>6} {'limit':>6} {'target':>6}")
    for name, (value, where) in measures.items():
        limit = LIMITS.get(name, CIRCLE)
        if name in LIMITS or value > 1:
            print(f"{value:6} {limit.most:6} {limit.target:6}  {name}: {limit.meaning}")
            print("".join(f"{'':24}{line}\n" for line in where), end="")


if sys.argv[2:3] == ["--check"]:
    check(Path(sys.argv[1]), sys.argv[3:])
else:
    show(measured(Path(sys.argv[1])))
