"""The manifests of examples/kubernetes: the container's command runs once for each pod, in the
environment that the Job controller and a kubelet set. Names of pods resolve in a private mount
namespace, that of the first only after a delay.

usage: kubernetes.py FOLDER HELLO, where FOLDER keeps downloads and HELLO is the program"""

import os
import shlex
import subprocess
import sys
import tempfile
import uuid
from pathlib import Path

import common
from common import PROJECT, hellos, told

folder, hello = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
common.tools(folder / "tools")
import yaml  # noqa: E402  # the tools have it

SECRET = "11" * 32


def objects(name):
    text = (PROJECT / "examples/kubernetes" / name).read_text(encoding="utf-8")
    return {thing["kind"]: thing for thing in yaml.safe_load_all(text)}


def job_of(things):
    """Returns the Job's name, its specification, and the domain of its pods."""
    if "JobSet" in things:
        jobset = things["JobSet"]
        name, replicated = jobset["metadata"]["name"], jobset["spec"]["replicatedJobs"][0]
        domain = jobset["spec"]["network"].get("subdomain", name)
        return f"{name}-{replicated['name']}-0", replicated["template"]["spec"], domain
    job, service = things["Job"], things["Service"]
    spec = job["spec"]
    told(service["spec"]["clusterIP"] == "None" and service["spec"]["selector"] == {"job-name": job["metadata"]["name"]},
         "the service is headless, and selects the pods of the job")
    told(spec["template"]["spec"]["subdomain"] == service["metadata"]["name"], "pods have names in the service")
    return job["metadata"]["name"], spec, service["metadata"]["name"]


def value_of(entry, labels, secrets):
    """Returns what a kubelet sets for an entry of `env`."""
    if "value" in entry:
        return entry["value"]
    source = entry["valueFrom"]
    if "secretKeyRef" in source:
        return secrets[source["secretKeyRef"]["name"]][source["secretKeyRef"]["key"]]
    return labels[source["fieldRef"]["fieldPath"]]


def pods(name, spec, secrets):
    """Returns the environment of each pod."""
    job_name, labels = name, {"metadata.labels['batch.kubernetes.io/controller-uid']": str(uuid.uuid4())}
    entries = spec["template"]["spec"]["containers"][0]["env"]
    return [{"PATH": f"{hello.parent}:/usr/bin:/bin", "HOME": "/", "HOSTNAME": f"{job_name}-{index}",
             "JOB_COMPLETION_INDEX": str(index), "KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443",
             **{entry["name"]: value_of(entry, labels, secrets[index]) for entry in entries}}
            for index in range(spec["completions"])]


def play(environments, command, first, work, delay=0):
    """Runs the command in each environment; the name of the first pod resolves after a delay. Returns
    the status, 0 if all have succeeded, and the output."""
    hosts = work / "hosts"
    hosts.write_text(Path("/etc/hosts").read_text(encoding="utf-8") + ("" if delay else f"127.0.0.1 {first}\n"),
                     encoding="utf-8")
    lines = [f"mount --bind {shlex.quote(str(hosts))} /etc/hosts || exit 99",
             f"(sleep {delay}; echo 127.0.0.1 {first} >>{shlex.quote(str(hosts))}) &"]
    for environment in environments:
        words = [f"{name}={value}" for name, value in environment.items()]
        lines.append(f"env -i {shlex.join([*words, *command])} & pids=\"$pids $!\"")
    lines.append('for pid in $pids; do wait "$pid" || status=1; done; wait; exit ${status:-0}')
    return common.run("unshare", "-m", "--propagation", "private", "sh", "-c", "\n".join(lines), seconds=120)


def check(name, work):
    things = objects(name)
    job, spec, domain = job_of(things)
    container, size = spec["template"]["spec"]["containers"][0], spec["completions"]
    plain = {entry["name"]: entry.get("value") for entry in container["env"]}
    told(spec["parallelism"] == size and plain["GLOO_SIZE"] == str(size) and plain["GLOO_SERVICE"] == domain,
         f"{name}: sizes and service agree")
    secret = {"train": {"secret": SECRET}}
    first = f"{job}-0.{domain}"
    status, said = play(pods(job, spec, [secret] * size), container["command"], first, work, delay=2)
    told(status == 0 and hellos(said, size), f"{name}: {size} pods have the sum", said)

    others = [secret] * (size - 1) + [{"train": {"secret": "22" * 32}}]
    short = [{**pod, "GLOO_START_TIMEOUT": "10"} for pod in pods(job, spec, others)]
    status, said = play(short, container["command"], first, work)
    told(status == 1 and "secret" in said, f"{name}: a pod with another secret does not join", said)

    open_job = [{key: value for key, value in pod.items() if key != "GLOO_JOB_SECRET"} for pod in pods(job, spec, [secret] * size)]
    status, said = play(open_job, container["command"], first, work)
    told(status == 1 and "no job secret is set" in said, f"{name}: without a secret no pod starts", said)


if os.geteuid() != 0 or subprocess.run(["unshare", "-m", "true"], stderr=subprocess.DEVNULL, check=False).returncode:
    common.skip_all("unshare does not work here (is this root?)")
with tempfile.TemporaryDirectory() as scratch:
    for manifest in "job.yaml", "jobset.yaml":
        check(manifest, Path(scratch))
common.end()
