"""Code in the documentation is good: C compiles, Python compiles, shell commands parse, name programs and
options that exist, and run where they need nothing but the gloo command and a moment.

A fenced block has a language: c, python or sh, which are checked, cmake, ini or meson, which
tests/consumers builds with, or text or yaml. Indented lines are shell
commands if the first word is one, a quotation of src/ or tests/ if they look like C, and text otherwise. Each
block of C is a whole number of declarations; what they include is added here.

usage: snippets.py PROJECT GLOO C_COMPILER..."""

import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import tap

INCLUDES = "".join(f"#include <{name}>\n" for name in
                   ("gloo_c/gloo_c.h", "stdbool.h", "stdint.h", "stdio.h", "stdlib.h", "string.h"))
FLAGS = ["-std=c11", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-Wno-unused-function",
         "-fno-diagnostics-show-caret"]
FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.M | re.S)
LANGUAGES = ("c", "cmake", "ini", "meson", "python", "sh", "text", "yaml")
COMMANDS = {".", "apt-get", "cc", "cp", "curl", "env", "eval", "export", "fault_cells", "for", "gloo", "ip", "meson",
            "mkdir", "mpiexec", "mpirun", "ninja", "openssl", "perf", "pip", "python", "python3", "sh", "srun",
            "torchfrtrace", "torchrun"}
OURS = r"(?:scripts|bench|\.ci|tests|examples)/[\w./-]+"
RUN_AT_ONCE = re.compile(r"(?:gloo run -n [1-8] -- )?gloo (?:info|plan)\b[^|&;<>$()]*$")


class Block(NamedTuple):
    page: Path
    line: int
    language: str
    code: str


# ---- blocks ----------------------------------------------------------------------------------

def is_command(line):
    if re.match(r"[A-Z]+=\"", line):
        return True
    words = line.split()
    while words and re.match(r"\w+=", words[0]):
        words = words[1:]
        if not words:
            return True
    return bool(words) and (words[0] in COMMANDS or re.match(rf"{OURS}|\./|build[\w-]*/", words[0]) is not None)


def language_of(code):
    """Returns the language of indented lines."""
    if is_command(code):
        return "sh"
    return "quotation" if re.search(r"[;{]$|\},$", code, re.M) else "text"


def blocks(page):
    text = page.read_text(encoding="utf-8")
    for found in FENCE.finditer(text):
        yield Block(page, text.count("\n", 0, found.start()) + 2, found[1], found[2])
    lines = FENCE.sub(lambda found: re.sub(r"[^\n]", "", found[0]), text).split("\n")
    number = 0
    while number < len(lines):
        begin = number
        if (number == 0 or not lines[number - 1].strip()) and not in_list(lines, number):
            while number < len(lines) and lines[number].startswith("    "):
                number += 1
        if number > begin:
            code = "\n".join(line[4:] for line in lines[begin:number]) + "\n"
            yield Block(page, begin + 1, language_of(code), code)
        number = max(number, begin + 1)


def in_list(lines, number):
    """Returns true if lines with four spaces continue an item of a list here."""
    before = next((line for line in reversed(lines[:number]) if line.strip() and not line.startswith("    ")), "")
    return re.match(r"[-*]|\d+\. |  ", before) is not None


# ---- C and Python ----------------------------------------------------------------------------

def bad_c(compiler, project, code, line=1, name="planted"):
    """Returns the compiler's errors, with line numbers of the page, or ""."""
    with tempfile.NamedTemporaryFile("w", suffix=".c") as file:
        file.write(f'{INCLUDES}#line {line} "{name}"\n{code}')
        file.flush()
        done = subprocess.run([*compiler, *FLAGS, f"-I{project / 'include'}", file.name],
                              capture_output=True, text=True, check=False)
        return done.stderr or ("it failed" if done.returncode else "")


def bad_python(project, code):
    """Returns a line for each error. tests/python/test_guide.py runs the code that needs no
    framework."""
    try:
        compile(code, "planted", "exec", dont_inherit=True)
    except SyntaxError as error:
        return [f"line {error.lineno}: {error.msg}"]
    return [f"the package has no {found[0]}" for found in re.finditer(r"(?<!\bops\.)\bgloo_c((?:\.\w+)+)", code)
            if not in_package(project / "python/gloo_c", found[1].split(".")[1:])]


def in_package(folder, names):
    """Returns true if the package has these names; only the first one that is not a package is
    looked up."""
    name, *rest = names
    if (folder / name).is_dir():
        return not rest or in_package(folder / name, rest)
    text = (folder / "__init__.py").read_text(encoding="utf-8")
    return (folder / f"{name}.py").is_file() or re.search(rf"\b{name}\b", text) is not None


def bad_quotation(project, code):
    """Returns the lines that are in no source, ignoring whitespace."""
    return [line for line in code.split("\n") if "".join(line.split()) not in sources(project)]


@lru_cache
def sources(project):
    return "".join("".join(path.read_text(encoding="utf-8").split())
                   for folder in ("src", "tests") for path in sorted(project.glob(f"{folder}/**/*.[ch]")))


# ---- shell -----------------------------------------------------------------------------------

class Shell:
    def __init__(self, project, gloo):
        self.project, self.gloo, self.bash = project, gloo, shutil.which("bash")

    @lru_cache
    def help(self, *command):
        done = subprocess.run([self.gloo, *command, "--help"], capture_output=True, text=True, check=False)
        return done.stdout if done.returncode == 0 else ""

    def bad(self, code):
        """Returns a line for each error."""
        if self.bash:
            done = subprocess.run([self.bash, "-n"], input=code, capture_output=True, text=True, check=False)
            if done.returncode:
                return done.stderr.splitlines()
        found = []
        for line in code.replace("\\\n", " ").split("\n"):
            try:
                words = shlex.split(line, comments=True)
            except ValueError:  # the command continues in the next line
                words = []
            found += [*self.bad_options(words), *self.bad_scripts(words)]
            command = line.partition("#")[0].strip()
            if not found and RUN_AT_ONCE.match(command):
                found += self.bad_run(shlex.split(command))
        return found

    def bad_options(self, words):
        """Yields options that the gloo command does not have."""
        for at, word in enumerate(words):
            if word not in ("gloo", "build/tools/gloo") or at + 1 >= len(words) or "PATH" in words[at - 1]:
                continue
            rest = words[at + 1:]
            end = next((i for i, other in enumerate(rest) if other in ("--", "|", "&&", ";", "&", ">")), len(rest))
            command, *rest = rest[:end] or [""]
            text = self.help(command)
            if not text:
                yield f"gloo {command}: no such command"
                continue
            if rest and f"gloo {command} {rest[0]} [" in text:
                text = self.help(command, rest[0])
            takes_program = "[--] program" in text
            for option in rest:
                if not option.startswith("-") and takes_program and not re.search(r"[\d,=]", option):
                    break  # later options are those of a program
                name = re.match(r"--[\w-]+|-[a-zA-Z]", option)
                if name and not re.search(rf"(?m)^ +(?:-\w, )?{name[0]}\b", text.partition("options:")[2]):
                    yield f"gloo {command}: no option {name[0]}"

    def bad_scripts(self, words):
        """Yields scripts of this project that do not exist, and options that they do not have. NAME stands for any."""
        for at, word in enumerate(words):
            if not re.fullmatch(OURS, word) or re.search(r"/[A-Z]+$", word):
                continue
            if not (self.project / word).exists():
                yield f"there is no {word}"
            elif (word.startswith(("scripts/", "bench/", ".ci/"))
                  and (at == 0 or re.match(r"\w+=|python3?$|sh$|torchrun$", words[at - 1]))):
                text = self.script(word)
                for option in (re.match(r"--[\w-]+", other) for other in words[at + 1:]):
                    if option and option[0] not in text:
                        yield f"{word}: no option {option[0]}"

    @lru_cache
    def script(self, name):
        """Returns the text of a script, followed by those of the folder in bench/ with its name."""
        paths = [self.project / name, *sorted((self.project / "bench" / Path(name).stem).rglob("*.py"))]
        return "".join(path.read_text(encoding="utf-8", errors="replace") for path in paths if path.is_file())

    def bad_run(self, words):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([self.gloo if word == "gloo" else word for word in words], cwd=folder, text=True,
                                  capture_output=True, stdin=subprocess.DEVNULL, timeout=60, check=False)
        said = (done.stderr or "it failed").splitlines() if done.returncode else []
        return [f"{shlex.join(words)}: {line}" for line in said]


# ---- all of it -------------------------------------------------------------------------------

def bad(block, project, shell, compiler):
    if block.language == "c":
        return bad_c(compiler, project, block.code, block.line, block.page.name).splitlines()
    if block.language == "python":
        return bad_python(project, block.code)
    if block.language == "sh":
        return shell.bad(block.code)
    if block.language == "quotation":
        return bad_quotation(project, block.code)
    return [] if block.language in LANGUAGES else [f"a block without a language ({', '.join(LANGUAGES)})"]


def planted(project, shell, compiler):
    """(what, was it found?)"""
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "page.md"
        for what, text in (
                ("a function that does not exist", "```c\ngloo_status f(void) { return gloo_absent(0); }\n```\n"),
                ("Python that does not compile", "```python\nwith open(x) as f\n    pass\n```\n"),
                ("a name that the package does not have", "```python\ngloo_c.torch.absent()\n```\n"),
                ("shell that does not parse", "```sh\nif true; then\n```\n"),
                ("a command of gloo that does not exist", "```sh\ngloo rum -n 2 -- ./program\n```\n"),
                ("an option of gloo that does not exist", "Text:\n\n    gloo run -n 2 --absent -- ./program\n"),
                ("an option behind another gloo", "Text:\n\n    gloo run -n 2 -- gloo bench allreduce --absent\n"),
                ("an option of a command within another", "Text:\n\n    gloo bench start --in-place\n"),
                ("a script that does not exist", "Text:\n\n    scripts/absent\n"),
                ("an option of a script that does not exist", "Text:\n\n    scripts/test --absent\n"),
                ("a command that fails", "Text:\n\n    gloo plan allreduce --ranks 4 --algorithm absent\n"),
                ("a quotation that no source has", "Text:\n\n    return gli_absent(0);\n"),
                ("a block without a language", "```\ngloo info\n```\n")):
            page.write_text(text, encoding="utf-8")
            found = list(blocks(page))
            yield f"planted: {what}", len(found) == 1 and bool(bad(found[0], project, shell, compiler))
        page.write_text("- a\n\n    gloo absent\n\nText:\n\n    x | y\n\n    gloo info\n", encoding="utf-8")
        found = list(blocks(page))
        yield "lists and diagrams are no commands", [block.language for block in found] == ["text", "sh"]


def main(project, gloo, compiler):
    shell = Shell(project, gloo.resolve())
    pages = [*sorted(project.glob("docs/**/*.md")), *sorted(project.glob("*.md"))]
    found = [block for page in pages for block in blocks(page)]
    said = [(block, bad(block, project, shell, compiler)) for block in found]
    lines = [f"{block.page.relative_to(project)}, line {block.line}: {line}" for block, text in said for line in text]
    checks = []
    for language, least in (("c", 20), ("python", 8), ("sh", 25), ("quotation", 0)):
        of = [(block, text) for block, text in said if block.language == language]
        checks.append((f"{language}: {len(of)} blocks are good, at least {least}",
                       len(of) >= least and not any(text for _, text in of)))
    checks.append(("each fenced block has a language",
                   all(block.language in (*LANGUAGES, "quotation") for block in found)))
    tap.report([*checks, *planted(project, shell, compiler)], lines)


main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])
