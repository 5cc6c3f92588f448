"""What the tests of recipes share: results in TAP, commands, and roots of a clean system."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import venv
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).resolve().parent
PROJECT = HERE.parents[1]
number = failures = 0


def told(good, name, text=""):
    """Prints one line of TAP, and the end of the output of a failure."""
    global number, failures
    number += 1
    if not good:
        failures += 1
        print("".join(f"# {line}\n" for line in str(text).splitlines()[-40:]), end="")
    print(f"{'ok' if good else 'not ok'} {number} - {name}", flush=True)
    return good


def skip_all(why):
    print(f"1..0 # SKIP {why}")
    sys.exit(0)


def end():
    print(f"1..{number}")
    sys.exit(failures != 0)


def run(*command, seconds=1500, **options):
    """Returns the status and the output."""
    try:
        done = subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors="replace", check=False, timeout=seconds,
                              **options)
    except subprocess.TimeoutExpired as expired:
        return 124, f"{(expired.output or b'').decode(errors='replace')}\nnot done after {seconds} s"
    return done.returncode, done.stdout


def tools(folder):
    """Installs the pinned tools, once, and goes on with their Python."""
    wanted = (HERE / "requirements.txt").read_bytes()
    have, python = folder / "requirements.txt", folder / "bin/python"
    if not have.is_file() or have.read_bytes() != wanted:
        shutil.rmtree(folder, ignore_errors=True)
        try:
            venv.create(folder, with_pip=True, symlinks=True)
        except (ImportError, subprocess.CalledProcessError):
            skip_all("virtual environments cannot be made (python3-venv)")
        status, said = run(python, "-m", "pip", "--disable-pip-version-check", "install", "-q", "-r",
                           HERE / "requirements.txt")
        if status:
            skip_all(f"pip cannot install what the tests need: {(said.strip().splitlines() or ['no reason given'])[-1]}")
        have.write_bytes(wanted)
    if Path(sys.prefix).resolve() != folder.resolve():
        os.execv(python, [python, *sys.argv])


def tracked():
    """Returns the files of the project, as a checkout or a build context has them."""
    status, said = run("git", "-C", PROJECT, "-c", "safe.directory=*", "ls-files", "--cached", "--others",
                       "--exclude-standard")
    if status:
        skip_all("this is no checkout of git")
    return [name for name in said.splitlines() if (PROJECT / name).is_file()]


def check_out(folder):
    """Copies the project's files."""
    for name in tracked():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(PROJECT / name, folder / name)


class Root:
    """A clean Debian in a folder, in which commands run as in a container of its image."""

    IMAGES = {"debian:13-slim": "trixie"}

    def __init__(self, folder):
        self.folder = folder

    def run(self, script, variables=None, where="/", user=0, shell=("sh", "-c")):
        """Runs a script; returns its status and output. What the machine needs to reach its package
        indexes is passed on."""
        kept = {name: value for name, value in os.environ.items()
                if re.match(r"(?i)^((https?|no)_proxy|pip_index_url)$", name)}
        certificates = os.environ.get("PIP_CERT") or os.environ.get("SSL_CERT_FILE")
        if certificates:
            shutil.copyfile(certificates, self.folder / "etc/certificates.pem")
            kept["PIP_CERT"] = "/etc/certificates.pem"
        # Compilers need not optimize here.
        kept.update(CFLAGS="-O0 -g0 -w -fno-lto", PATH="/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                    HOME="/root", DEBIAN_FRONTEND="noninteractive", **(variables or {}))
        inside = 'mount -t proc proc "$0/proc" && mount --rbind /dev "$0/dev" && cp /etc/resolv.conf "$0/etc/" && ' \
                 'root=$0 && where=$1 user=$2 && shift 2 && ' \
                 'exec chroot "$root" sh -c \'cd "$0" && user=$1 && shift && ' \
                 'exec setpriv --reuid "$user" --regid "$user" --clear-groups -- "$@"\' "$where" "$user" "$@"'
        return run("unshare", "--mount", "--pid", "--ipc", "--fork", "--kill-child", "sh", "-c", inside, self.folder,
                   where, user, *shell, script, env=kept)


def base(folder, image):
    """Returns the archive of an image's system, which is made once."""
    if os.geteuid() != 0 or not shutil.which("mmdebstrap") or run("unshare", "--mount", "--pid", "--fork", "true")[0]:
        skip_all("roots of Debian need root, unshare and mmdebstrap")
    suite = Root.IMAGES[image]
    archive = folder / f"{suite}.tar"
    if not archive.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        made = archive.with_suffix(".new.tar")
        status, said = run("mmdebstrap", "--variant=minbase", suite, made)
        if status:
            skip_all(f"mmdebstrap cannot make a root: {(said.strip().splitlines() or [''])[-1]}")
        made.rename(archive)
    return archive


@contextmanager
def root_of(folder, image):
    """A root of an image, which is removed at the end."""
    archive = base(folder, image)
    with tempfile.TemporaryDirectory(dir=folder, ignore_cleanup_errors=True) as made:
        status, said = run("tar", "-C", made, "-xf", archive, "--exclude=./dev/*")
        assert status == 0, said
        yield Root(Path(made))


def part_of(items):
    """Returns every item, or with TEST_PART=K/N every n-th."""
    part, parts = map(int, (os.environ.get("TEST_PART") or "0/1").split("/"))
    return [item for n, item in enumerate(items) if n % parts == part]


def hellos(said, ranks):
    """Returns true if each rank has printed the sum."""
    total = ranks * (ranks + 1) // 2
    return all(said.count(f"rank {rank} of {ranks}: 1 + ... + {ranks} = {total}") == 1 for rank in range(ranks))
