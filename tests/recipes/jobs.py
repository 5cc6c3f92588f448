"""The jobs of examples/ci and the image of examples/docker: their shell steps run in a clean Debian,
in order, as a runner or a builder runs them.

usage: jobs.py FOLDER, which keeps downloads for later runs"""

import json
import re
import shlex
import shutil
import sys
from pathlib import Path

import common
from common import PROJECT, hellos, root_of, told

folder = Path(sys.argv[1]).resolve()
common.tools(folder / "tools")
import yaml  # noqa: E402  # the tools have it

common.base(folder / "roots", "debian:13-slim")
WORKSPACE = "/builds/project"


def user_project(root):
    """A project that uses gloo_c: its sources in gloo_c/, and two programs."""
    workspace = root.folder / WORKSPACE[1:]
    common.check_out(workspace / "gloo_c")
    for name in ("hello.c", "hello.py"):
        shutil.copy2(PROJECT / "examples" / name, workspace)


# ---- GitHub Actions ------------------------------------------------------------------------------

def github(name):
    """Runs a job. Returns the output of its last step, or None after a failure."""
    workflow = yaml.safe_load((PROJECT / "examples/ci/github.yml").read_text(encoding="utf-8"))
    job, said = workflow["jobs"][name], ""
    with root_of(folder / "roots", "debian:13-slim") as root:
        status, said = root.run("apt-get update -q && apt-get install -qy --no-install-recommends sudo")
        if not told(status == 0, f"github, {name}: a runner has sudo", said):
            return None
        for step in job["steps"]:
            label = step.get("name") or step["uses"]
            if "uses" in step:
                action = step["uses"].partition("@")[0]
                if action == "actions/checkout":
                    user_project(root)
                elif step.get("if") != "failure()":
                    told(False, f"github, {name}: {label}", "this action is not known here")
                continue
            variables = {**workflow.get("env", {}), **job.get("env", {}), **step.get("env", {}), "CI": "true"}
            status, said = root.run(step["run"], variables, WORKSPACE, shell=("bash", "-e", "-c"))
            if not told(status == 0, f"github, {name}: {label}", said):
                return None
    return said


# ---- GitLab --------------------------------------------------------------------------------------

def gitlab(name):
    """Runs a job. Returns its output, or None after a failure."""
    jobs = yaml.safe_load((PROJECT / "examples/ci/gitlab.yml").read_text(encoding="utf-8"))
    job = {**jobs[jobs[name]["extends"]], **jobs[name]}
    with root_of(folder / "roots", jobs["default"]["image"]) as root:
        user_project(root)
        status, said = root.run("\n".join([*job["before_script"], *job["script"]]),
                                {**jobs["variables"], "CI": "true"}, WORKSPACE, shell=("bash", "-e", "-c"))
    return said if told(status == 0, f"gitlab, {name}: the script", said) else None


# ---- an image --------------------------------------------------------------------------------------

def instructions(text):
    """Yields the instructions of a Dockerfile, with their arguments."""
    text = re.sub(r"^\s*#.*\n", "", text, flags=re.M)
    for line in re.sub(r"\\\n\s*", "", text).splitlines():
        if line.strip():
            word, _, rest = line.strip().partition(" ")
            yield word, rest.strip()


def copied(root, words, stages):
    """COPY of a whole folder, from the project or from another stage."""
    source, target = words[-2:]
    target = root.folder / target.strip("/")
    if words[0].startswith("--from="):
        source = stages[words[0][len("--from="):]].folder / source.strip("/")
        status, said = common.run("cp", "-aT", source, target)
        assert status == 0, said
    elif source == ".":
        common.check_out(target)
    else:
        raise ValueError(f"COPY of {source} is not known here")


def build(opened, text):
    """Builds the stages of a Dockerfile. Returns the root of the last, its user and its command."""
    stages, root, where, user, command = {}, None, "/", "0", None
    for word, rest in instructions(text):
        if word == "FROM":
            image, _, name = rest.partition(" AS ")
            root, where, user, command = opened(image), "/", "0", None
            stages[name] = root
        elif word == "RUN":
            status, said = root.run(rest, where=where, user=user)
            if not told(status == 0, f"docker: RUN {rest[:60]}", said):
                return None
        elif word == "COPY":
            copied(root, shlex.split(rest), stages)
        elif word == "WORKDIR":
            where = rest
            (root.folder / rest.strip("/")).mkdir(parents=True, exist_ok=True)
        elif word == "USER":
            user = rest.partition(":")[0]
        elif word == "CMD":
            command = json.loads(rest)
        else:
            raise ValueError(f"the instruction {word} is not known here")
    return root, user, command


def docker(_):
    from contextlib import ExitStack
    with ExitStack() as stack:
        made = build(lambda image: stack.enter_context(root_of(folder / "roots", image)),
                     (PROJECT / "examples/docker/Dockerfile").read_text(encoding="utf-8"))
        if not made:
            return None
        root, user, command = made
        status, said = root.run("command -v gcc meson")
        told(status != 0, "docker: the image has no compiler", said)
        told(user != "0", "docker: the image does not run as root")
        status, said = root.run(shlex.join(command), user=user)
    return said if told(status == 0, "docker: CMD", said) else None


JOBS = [(github, "c"), (gitlab, "python"), (docker, "hello"), (github, "python"), (gitlab, "c")]
for kind, job in common.part_of(JOBS):
    output = kind(job)
    if output is not None:
        told(hellos(output, 8), f"{kind.__name__}, {job}: eight ranks have the sum", output)
common.end()
