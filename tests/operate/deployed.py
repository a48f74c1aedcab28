"""What `deploy/` becomes: kustomize's output and the Containerfile as data, read by the tests beside this file.

What they need besides Python (a kubectl with its kustomize, Kubernetes' schemas, a YAML reader) is installed once into a venv
below target/operate, as pinned in requirements.txt; a test that calls `inside_venv()` first goes on in it.
"""
import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

if not (3, 11) <= sys.version_info[:2] <= (3, 13):
    print(f"SKIPPED: what reads deploy/ takes Python 3.11 to 3.13, this is {sys.version.split()[0]}\n"
          "0 passed, 0 failed, 1 skipped")
    sys.exit(0)
import tomllib  # noqa: E402, since 3.11

ROOT = Path(__file__).resolve().parent.parent.parent
DEPLOY, KUBERNETES = ROOT / "deploy", ROOT / "deploy" / "kubernetes"
REQUIREMENTS = Path(__file__).with_name("requirements.txt")
VENV = ROOT / "target" / "operate" / "venv"


def inside_venv():
    """Goes on in the venv, which is made if it is not there."""
    if Path(sys.prefix).resolve() == VENV.resolve():
        return
    stamp, wanted = VENV / "installed", hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()
    if not stamp.exists() or stamp.read_text() != wanted:
        print(f"installing {REQUIREMENTS.relative_to(ROOT)} into {VENV.relative_to(ROOT)}", flush=True)
        shutil.rmtree(VENV, ignore_errors=True)
        for command in ([sys.executable, "-m", "venv", VENV],
                        [VENV / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
                         "--no-input", "--no-deps", "-r", REQUIREMENTS]):
            subprocess.run(command, check=True, stdin=subprocess.DEVNULL, timeout=600)
        stamp.write_text(wanted)
    python = str(VENV / "bin" / "python")
    os.execv(python, [python, *sys.argv])


def toml(text):
    return tomllib.loads(text)


def kubectl(*arguments):
    # A client's settings and credentials have no business here.
    return subprocess.run([VENV / "bin" / "kubectl", *arguments], capture_output=True, text=True, timeout=120,
                          stdin=subprocess.DEVNULL, env={"PATH": os.environ["PATH"], "KUBECONFIG": os.devnull,
                                                         "HOME": str(VENV)})


def build(folder):
    """The objects that `kubectl apply -k` would send."""
    import yaml
    done = kubectl("kustomize", str(KUBERNETES / folder))
    if done.returncode:
        raise ValueError(f"kustomize {folder}: {done.stderr}")
    return list(yaml.safe_load_all(done.stdout))


def pod_of(workload):
    return workload["spec"]["template"]["spec"]


def containers_of(pod):
    """Those that run as long as the pod: native sidecars too."""
    sidecars = [one for one in pod.get("initContainers", []) if one.get("restartPolicy") == "Always"]
    return sidecars + pod["containers"]


def ports_of(pod):
    return [port for container in containers_of(pod) for port in container.get("ports", [])]


class Containerfile:
    """The instructions of each stage, in order, as (name, rest)."""

    def __init__(self, path=DEPLOY / "Containerfile"):
        text = "\n".join(line for line in path.read_text().splitlines() if not line.lstrip().startswith("#"))
        self.stages = []
        for line in re.sub(r"\\\n", " ", text).splitlines():
            if not line.strip():
                continue
            name, rest = line.strip().split(None, 1)
            if name == "FROM":
                words = rest.split()
                self.stages.append({"from": words[0], "name": words[2] if len(words) > 2 else "", "does": []})
            else:
                self.stages[-1]["does"].append((name, rest.strip()))

    def stage(self, name):
        return next(stage for stage in self.stages if stage["name"] == name)

    @property
    def last(self):
        return self.stages[-1]

    def all(self, name, stage=None):
        return [rest for instruction, rest in (stage or self.last)["does"] if instruction == name]

    def one(self, name):
        found = self.all(name)
        if len(found) != 1:
            raise ValueError(f"the last stage has {len(found)} {name}")
        return found[0]

    @property
    def labels(self):
        return dict(pair.split("=", 1) for rest in self.all("LABEL") for pair in shlex.split(rest))

    @property
    def entrypoint(self):
        return json.loads(self.one("ENTRYPOINT"))

    @property
    def command(self):
        return json.loads(self.one("CMD"))

    @property
    def user(self):
        return tuple(int(part) for part in self.one("USER").split(":"))
