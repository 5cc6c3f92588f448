"""The C of docs/guide/ compiles, with the headers as they are.

Each block is a whole number of declarations; what they include is added here.

usage: snippets.py PROJECT C_COMPILER..."""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

import tap

INCLUDES = "".join(f"#include <{name}>\n" for name in
                   ("gloo_c/gloo_c.h", "stdbool.h", "stdint.h", "stdio.h", "stdlib.h", "string.h"))
FLAGS = ["-std=c11", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-Wno-unused-function",
         "-fno-diagnostics-show-caret"]


def blocks(page):
    """[(line, C)]"""
    text = page.read_text(encoding="utf-8")
    return [(text.count("\n", 0, found.start()) + 2, found[1])
            for found in re.finditer(r"^```c\n(.*?)^```$", text, re.M | re.S)]


def complaints(compiler, project, code, line=1, name="planted"):
    """What the compiler says of it, as of this line of a page; nothing when it is good."""
    with tempfile.NamedTemporaryFile("w", suffix=".c") as file:
        file.write(f'{INCLUDES}#line {line} "{name}"\n{code}')
        file.flush()
        done = subprocess.run([*compiler, *FLAGS, f"-I{project / 'include'}", file.name],
                              capture_output=True, text=True, check=False)
        return done.stderr or ("it failed" if done.returncode else "")


def main(project, compiler):
    pages = sorted((project / "docs/guide").glob("*.md"))
    found = [(page, line, code) for page in pages for line, code in blocks(page)]
    said = [complaints(compiler, project, code, line, page.name) for page, line, code in found]
    checks = [(f"{page.name}, line {line}", not text)
              for (page, line, _), text in zip(found, said)]
    planted = "gloo_status planted(void) { return gloo_absent(0); }\n"
    checks += [("there are many", len(found) >= 15),
               ("a function that is not there is found",
                bool(complaints(compiler, project, planted)))]
    tap.report(checks, "".join(said).splitlines())


main(Path(sys.argv[1]), sys.argv[2:])
