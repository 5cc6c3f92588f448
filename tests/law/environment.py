"""docs/environment.md lists the environment variables that the code reads: each, and no other; and
they are read in one place, for which an empty one is none.

usage: environment.py PROJECT"""

import re
import sys
from pathlib import Path

import tap

ONE_PLACE = "src/core/environment.c"
PROVIDERS = "src/windows/"
# Calls that read the variable that they are given by name, and the position of that argument.
GETENV = r'\bgetenv\(\s*"(\w+)"'
READERS = [r'(?:simple|port)_read_number\(\s*"(\w+)"', r'gli_environment_read\(\s*"(\w+)"', r'gli_switch_read\(\s*[^,]+,\s*"(\w+)"',
           r'\bgli_seconds \w+ = \{\s*(?:\.name = )?"(\w+)"', r'launch_read_(?:number|text)\(\s*"(\w+)"', r'\bsetting\(\s*"(\w+)"', r'\.variable = "(\w+)"']
# Those of the Python package alone; others it only compares with the library's.
OF_PYTHON = r'environ\.get\(\s*"(GLOO_C_\w+)"'
# Names that these calls, and loops over lists of names, pass on. Any other one is a reader that
# this test does not know yet.
INDIRECT = {("src/api/tuning_file.c", "name"), ("src/core/environment.c", "variable->name"), ("src/rendezvous/launch/launch.c", "name"),
            ("src/rendezvous/launch/launch.c", "names[i]"), ("src/rendezvous/launch/launch.c", "launchers[i].signs[k]"),
            ("src/rendezvous/launch/pmi_simple.c", "name"), ("tools/info.c", "variable"), ("src/transport_ibv/port.c", "name")}


def sources(project, folders, endings=(".c", ".h", ".cc")):
    for folder in folders:
        for path in sorted((project / folder).rglob("*")):
            if path.suffix in endings:
                yield str(path.relative_to(project)), path.read_text(encoding="utf-8")


def named_in_tables(project):
    """Returns the variables by which launchers are recognised, and that with the path of PMIx."""
    texts = [(project / "src/rendezvous/launch" / file).read_text(encoding="utf-8").partition(begin)[2]
             .partition("\n};" if file == "launch.c" else ";")[0]
             for file, begin in (("launch.c", "launchers[] = {"), ("pmix_library.c", "pmix_prefixes[] = "))]
    return {name for text in texts for name in re.findall(r'"([A-Z]+_[A-Z_]+)"', text)}


def names_read(project, folders, readers, endings=(".c", ".h", ".cc")):
    return {name for _, text in sources(project, folders, endings) for reader in readers
            for name in re.findall(reader, text)}


def indirect(project):
    return {(file, argument) for file, text in sources(project, ["src", "tools"])
            if not file.startswith("src/core/environment.")
            for argument in re.findall(r"\bgli_environment_read\(\s*([^\")]+)\)", text)}


def elsewhere(texts):
    """Returns files of the library and the command that read variables in another place; PROVIDERS has getenv itself."""
    return [file for file, text in texts
            if re.search(r"\bgetenv\b", text) and file != ONE_PLACE and not file.startswith(PROVIDERS)]


def section(page, heading):
    """Returns the names in the first column of the table below a heading."""
    text = page.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    cells = re.findall(r"^\|([^|]*)\|", text, re.M)
    return {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}


def set_by_run(project):
    text = (project / "tools/run_environment.c").read_text(encoding="utf-8")
    return set(re.findall(r'"(\w+)"', text.partition("variable_names[")[2].partition("}")[0]))


def in_scripts(project):
    files = [path for folder in ("scripts", ".ci") for path in (project / folder).iterdir()]
    return {name for path in files
            for name in re.findall(r"\$\{([A-Z_]+):-", path.read_text(encoding="utf-8"))}


def in_code(project):
    """Returns the variables that the tables of the page must list, by heading."""
    read = (names_read(project, ["src", "tools"], READERS) | named_in_tables(project) |
            names_read(project, ["python"], [GETENV, *READERS]) |
            names_read(project, ["python"], [OF_PYTHON], (".py",)))
    tested = names_read(project, ["tests", "bench"], [GETENV, READERS[1], r'from_environment\("(\w+)"'])
    return {"Variables": read, "Set by gloo run": set_by_run(project),
            "Read by scripts and tests": (tested - read) | in_scripts(project)}


def differences(page, tables):
    """Returns descriptions of differences between the page and the code."""
    found = []
    for heading, code in tables.items():
        listed = section(page, heading)
        found += [f"{heading}: {name} is not listed" for name in sorted(code - listed)]
        found += [f"{heading}: {name} is listed, and not in the code"
                  for name in sorted(listed - code)]
    return found


def main(project):
    page = (project / "docs/environment.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `.*\n", page, re.M)
    tables = in_code(project)
    found = [f"gli_environment_read({argument}) in {file}: which variables are these?"
             for file, argument in sorted(indirect(project) - INDIRECT)]
    found += differences(page, tables)
    around = elsewhere(sources(project, ["src", "tools"]))
    planted = page.replace(rows[0], rows[0] + "| `GLOO_PLANTED` | | | | | |\n")
    checks = [
        ("the variables that the code reads are listed, and no others", not found),
        ("there are many", len(section(page, "Variables")) >= 15),
        ("one that is not listed is found", all(
            differences(page.replace(row, ""), tables) for row in rows)),
        ("one that nothing reads is found",
         "Variables: GLOO_PLANTED is listed, and not in the code"
         in differences(planted, tables)),
        ("they are read in one place", not around),
        ("one that is read elsewhere is found",
         elsewhere([("src/a.c", 'getenv("A")'), (ONE_PLACE, "getenv(name)")]) == ["src/a.c"]),
    ]
    tap.report(checks, found + [f"getenv in {file}" for file in around])


main(Path(sys.argv[1]))
