"""tests/fuzz/oss-fuzz/build.sh, with clang and the variables that OSS-Fuzz sets; then each target
runs for a second on its inputs.

usage: oss_fuzz.py FOLDER, which gets the build"""

import os
import re
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import common
from common import PROJECT, run, told

FLAGS = ("-O1 -fno-omit-frame-pointer -gline-tables-only -fsanitize=address -fsanitize-address-use-after-scope "
         "-fsanitize=fuzzer-no-link")
folder = Path(sys.argv[1]).resolve()
if run("sh", "-c", "echo 'int LLVMFuzzerTestOneInput(void); int LLVMFuzzerTestOneInput(void) { return 0; }' | "
                   "clang -fsanitize=fuzzer,address -x c - -o /dev/null")[0]:
    common.skip_all("there is no clang, or it has no libFuzzer")


def build():
    source, work, out = (folder / name for name in ("src", "work", "out"))
    shutil.rmtree(folder, ignore_errors=True)
    for made in source, work, out:
        made.mkdir(parents=True)
    (source / "gloo_c").symlink_to(PROJECT)
    variables = {name: value for name, value in os.environ.items() if not re.match(r"(C|CXX|LD)FLAGS$|MESON", name)}
    variables.update(SRC=str(source), WORK=str(work), OUT=str(out), CC="clang", CXX="clang++", CFLAGS=FLAGS, CXXFLAGS=FLAGS,
                     LIB_FUZZING_ENGINE="-fsanitize=fuzzer")
    status, said = run("bash", "-eu", PROJECT / "tests/fuzz/oss-fuzz/build.sh", env=variables)
    told(status == 0, "build.sh builds", said)
    return out


def play(target):
    """Runs a target for a second; returns its status and output."""
    name, inputs = target.name, target.parent / "inputs" / target.name
    inputs.mkdir(parents=True)
    archive = target.parent / f"{name}_seed_corpus.zip"
    if archive.is_file():
        shutil.unpack_archive(archive, inputs)
    dictionary = target.parent / f"{name}.dict"
    words = [f"-dict={dictionary}"] if dictionary.is_file() else []
    status, said = run(target, "-max_total_time=1", "-timeout=30", "-max_len=1024", *words, inputs, seconds=120)
    executed = re.search(r"Done (\d+) runs", said)
    files = len([*inputs.iterdir()])
    return status == 0 and executed and int(executed[1]) > 0 and files > 0, said


output = build()
targets = sorted(path for path in output.glob("fuzz_*") if not path.suffix and os.access(path, os.X_OK))
wanted = {path.stem for path in (PROJECT / "tests/fuzz").glob("fuzz_*.c")}
told({path.name for path in targets} == wanted, "every target is built", sorted(wanted - {path.name for path in targets}))
told(targets and all((output / f"{path.name}.options").is_file() for path in targets), "each has its options")
for library in "libuv", "libssl":
    told(any(path.name.startswith(library) for path in (output / "lib").glob("*")), f"{library} is in $OUT")
if targets:
    linked = run("ldd", output / "fuzz_tls")[1]
    told(re.search(rf"libssl\S* => {re.escape(str(output))}/lib/", linked), "a target loads its libraries from there", linked)
with ThreadPoolExecutor(os.cpu_count()) as pool:
    for target, (good, said) in zip(targets, pool.map(play, targets)):
        told(good, f"{target.name} runs for a second", said)
common.end()
