"""Installs what the interop run needs: one venv per Python SDK version, one node_modules per JS SDK version.

Everything is pinned (requirements/*.txt, node/*/package-lock.json) and lands below target/interop, where a
second run finds it again. On Debian and Ubuntu missing system packages are installed with apt.
"""
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent

# The JS SDK asks for 20; Debian 12 ships 18, which runs it too. Older ones have no `fetch`.
OLDEST_NODE = 18
# What the Python SDKs ask for.
OLDEST_PYTHON = (3, 10)
INSTALL_TIMEOUT_S = 600


class SetupError(Exception):
    """Something is missing that this script may not or cannot install. The message says what to do."""


def install_system_packages(say):
    """Makes python3-venv, node and npm available."""
    if sys.version_info < OLDEST_PYTHON:
        raise SetupError(f"Python {sys.version.split()[0]} is too old: 3.10 or newer is needed")
    missing = []
    if subprocess.run([sys.executable, "-c", "import ensurepip, venv"], capture_output=True).returncode != 0:
        missing.append("python3-venv")
    missing += [package for program, package in (("node", "nodejs"), ("npm", "npm")) if not shutil.which(program)]
    if missing:
        say(f"installing {' '.join(missing)}")
        apt_install(missing)
    version = subprocess.run(["node", "--version"], capture_output=True, text=True).stdout.strip()
    if not version or int(version.lstrip("v").split(".")[0]) < OLDEST_NODE:
        raise SetupError(f"node {version or '(none)'} is too old: {OLDEST_NODE} or newer is needed (20 recommended)")


def apt_install(packages):
    if not shutil.which("apt-get"):
        raise SetupError(f"missing: {', '.join(packages)}. Install them with this system's package manager "
                         "(only Debian and Ubuntu are set up automatically)")
    prefix = []
    if os.geteuid() != 0:
        if not shutil.which("sudo"):
            raise SetupError(f"missing: {', '.join(packages)}. Run as root: apt-get install {' '.join(packages)}")
        prefix = ["sudo"]
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (["apt-get", "update", "-qq"],
                    ["apt-get", "install", "-y", "-qq", "--no-install-recommends", *packages]):
        checked(prefix + command, env=environment)


def checked(command, **options):
    """Runs a command to its end; its output is shown only when it fails."""
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, timeout=INSTALL_TIMEOUT_S, **options)
    except subprocess.TimeoutExpired:
        raise SetupError(f"`{' '.join(map(str, command))}` did not end within {INSTALL_TIMEOUT_S} s") from None
    if done.returncode != 0:
        raise SetupError(f"`{' '.join(map(str, command))}` failed:\n{done.stdout[-2000:]}")


def fresh(folder, inputs):
    """Whether `folder` still has to be made from `inputs`; and the stamp that says it was."""
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in inputs) + sys.version.encode()).hexdigest()
    stamp = folder / ".installed"
    if stamp.is_file() and stamp.read_text() == digest:
        return False, lambda: None
    if folder.exists():
        shutil.rmtree(folder)
    return True, lambda: stamp.write_text(digest)


def python(work, name, say):
    """The interpreter of the venv made from requirements/NAME.txt."""
    requirements = HERE / "requirements" / f"{name}.txt"
    folder = work / f"python-{name}"
    needed, done = fresh(folder, [requirements])
    interpreter = folder / "bin" / "python"
    if needed:
        say(f"venv {name}")
        checked([sys.executable, "-m", "venv", str(folder)])
        checked([str(interpreter), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input",
                 "--no-deps", "-r", str(requirements)])
        done()
    return interpreter


def node(work, name, script, say):
    """A folder with the packages of node/NAME/package-lock.json and a copy of `script`, whose path is returned.

    The copy is there because Node resolves a module's imports from where the module lies.
    """
    source = HERE / "node" / name
    folder = work / f"node-{name}"
    manifests = [source / "package.json", source / "package-lock.json"]
    needed, done = fresh(folder, manifests)
    if needed:
        say(f"node_modules {name}")
        folder.mkdir(parents=True)
        for manifest in manifests:
            shutil.copy(manifest, folder)
        checked(["npm", "ci", "--omit=optional", "--omit=peer", "--no-audit", "--no-fund", "--ignore-scripts"],
                cwd=folder)
        done()
    return Path(shutil.copy(script, folder))
