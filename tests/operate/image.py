#!/usr/bin/env python3
"""The image, and what deploy/ makes of it, run as a container engine would: sidecar, its roll-out, gateway, compose.

Usage:  tests/operate/image.py [--bin target/release/a2a-errata]      (`make test-deploy`)

There need be no engine. What the Containerfile's stage `root` does is done here, in an empty folder, and what the last stage,
the manifests and compose.yaml say of a container (user, command, variables, files, read-only root, no capabilities) is done
with the kernel's own means, in mount, process and network namespaces of their own: so the ports are the manifests' own, and all
containers share one loopback, as in a pod. Not done: the first stage (the binary is built by cargo here), an engine's seccomp
filter, and limits. Needs root and Linux; else it is skipped, and the closing line says so.
"""
import argparse
import contextlib
import ctypes
import fcntl
import http.client
import json
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from urllib.parse import quote

from deployed import DEPLOY, Containerfile, build, containers_of, inside_venv, pod_of
from stage import ROOT, Checks

INSIDE = "A2A_ERRATA_TEST_NAMESPACES"
NAMESPACES = ["--mount", "--pid", "--net", "--ipc", "--uts"]
LIBC = ctypes.CDLL(None, use_errno=True)
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 1, 2, 4, 8, 32, 4096, 16384, 1 << 18
CLONE_NEWNS = 0x20000
PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 24, 38

# The host's own words for somebody else's task, and the proxy's.
# Of the demo's legacy host: the task that is somebody else's.
FOREIGN = "acme/5d2f6a7b8c9d0e1f2a3b4c"
REST = f"/rest/tasks/{quote(FOREIGN, safe='')}"
ASK = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": FOREIGN}})
OWN, REPAIRED = "run_forbidden", "TASK_NOT_FOUND"


def mount(source, target, kind, flags, data=""):
    if LIBC.mount(str(source).encode(), str(target).encode(), kind and kind.encode(), flags, data.encode()):
        raise OSError(ctypes.get_errno(), f"mount {target}: {os.strerror(ctypes.get_errno())}")


def loopback_up():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as some:
        fcntl.ioctl(some, 0x8914, struct.pack("16sh14x", b"lo", 0x1 | 0x40))  # SIOCSIFFLAGS, up and running
    # As container engines do: in a network of its own a port below 1024 is nobody's privilege.
    Path("/proc/sys/net/ipv4/ip_unprivileged_port_start").write_text("0")


class Image:
    """The root of the last stage, and what it says of how to run it."""

    def __init__(self, binary, work):
        self.file, self.root = Containerfile(), Path(work) / "rootfs"
        stage = self.file.stage("root")
        arguments = dict(rest.split("=", 1) for rest in self.file.all("ARG", stage))
        if set(arguments) != {"BINARY", "ROOT"} or self.file.all("COPY") != [f"--from=root {arguments['ROOT']}/ /"]:
            raise ValueError("the Containerfile is not as this test knows it")
        for script in self.file.all("RUN", stage):
            subprocess.run(["sh", "-c", script], check=True, stdin=subprocess.DEVNULL,
                           env={"PATH": os.environ["PATH"], "BINARY": str(binary), "ROOT": str(self.root)})
        self.contents = sorted(str(path.relative_to(self.root)) for path in self.root.rglob("*") if not path.is_dir())
        # What an engine puts on top, whatever the image.
        for folder in ("proc", "dev", "sys"):
            (self.root / folder).mkdir()
        for file in ("dev/null", "dev/urandom", "etc/hosts", "etc/resolv.conf", "etc/hostname"):
            (self.root / file).touch()


class Container:
    """One running process of the image."""

    def __init__(self, image, command, variables, files, user, log):
        self.log = log.open("wb")
        confine = lambda: self.confine(image, files, user)  # noqa: E731
        self.process = subprocess.Popen(
            [*image.file.entrypoint, *command], stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log,
            env=variables, cwd="/", preexec_fn=confine)

    @staticmethod
    def confine(image, files, user):
        """Runs in the child, before the program."""
        if LIBC.unshare(CLONE_NEWNS):
            raise OSError(ctypes.get_errno(), "unshare")
        mount("none", "/", None, MS_REC | MS_PRIVATE)
        root = image.root
        mount(root, root, None, MS_BIND)
        mount("proc", root / "proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)
        for node in ("null", "urandom"):
            mount(f"/dev/{node}", root / "dev" / node, None, MS_BIND)
        for inside, outside in files.items():
            mount(outside, root / inside.lstrip("/"), None, MS_BIND)
            mount("none", root / inside.lstrip("/"), None, MS_REMOUNT | MS_BIND | MS_RDONLY)
        mount("none", root, None, MS_REMOUNT | MS_BIND | MS_RDONLY)
        os.chroot(root)
        os.chdir("/")
        for capability in range(64):
            LIBC.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
        os.setgroups([])
        os.setresgid(user[1], user[1], user[1])
        os.setresuid(user[0], user[0], user[0])
        LIBC.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)

    def status(self):
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return dict(line.split(":\t", 1) for line in lines if ":\t" in line)

    def end(self, seconds):
        """Its exit code after SIGTERM; None if it took too long."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            return None
        finally:
            self.log.close()


def ask(port, path="/a2a", body=ASK):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("POST" if body else "GET", path, body,
                           {"Content-Type": "application/json", "A2A-Version": "1.0"})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def repaired(port, seconds=15):
    """The answer once it is repaired, or the last one. The admin listener may be up a moment before the other one."""
    deadline, said = time.monotonic() + seconds, ""
    while time.monotonic() < deadline and REPAIRED not in said:
        with contextlib.suppress(OSError, http.client.HTTPException):
            said = ask(port)[1]
        time.sleep(0.05)
    return said


def probed(container, pod, kind, seconds=15):
    """Whether the probe succeeds in time, as the kubelet asks it."""
    probe = container[kind]["httpGet"]
    names = {port["name"]: port["containerPort"] for port in container.get("ports", [])}
    port = names.get(probe["port"], probe["port"])
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError, http.client.HTTPException):
            if 200 <= ask(port, probe["path"], None)[0] < 400:
                return True
        time.sleep(0.05)
    return False


class Node:
    """Runs pods, as far as these need it."""

    def __init__(self, image, work, checks):
        self.image, self.work, self.checks, self.turn = image, Path(work), checks, 0
        self.running = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for container in self.running:
            if container.process.poll() is None:
                container.end(5)

    def files(self, names, config, folder):
        """Configuration and names, as files to be mounted."""
        self.turn += 1
        place = self.work / f"files-{self.turn}"
        (place / "config").mkdir(parents=True)
        (place / "hosts").write_text("127.0.0.1 localhost\n" + "".join(f"127.0.0.1 {name}\n" for name in names))
        mounted = {"/etc/hosts": place / "hosts"}
        if config is not None:
            for name, text in config.items():
                (place / "config" / name).write_text(text)
            mounted[folder] = place / "config"
        place.chmod(0o755)
        return mounted

    def start(self, name, command, variables, files, user):
        container = Container(self.image, command, variables, files, user, self.work / f"{name}-{self.turn}.log")
        self.running.append(container)
        return container

    def container(self, objects, pod, spec, names=()):
        """Starts a container of a pod."""
        maps = {one["metadata"]["name"]: one["data"] for one in objects if one["kind"] == "ConfigMap"}
        volumes = {one["name"]: maps[one["configMap"]["name"]] for one in pod.get("volumes", [])}
        mounts = spec.get("volumeMounts", [])
        files = self.files(names, volumes[mounts[0]["name"]] if mounts else None, mounts and mounts[0]["mountPath"])
        security = {**pod.get("securityContext", {}), **spec.get("securityContext", {})}
        variables = {one["name"]: one["value"] for one in spec.get("env", [])}
        return self.start(spec["name"], spec["args"], variables, files, (security["runAsUser"], security["runAsGroup"]))

    @contextlib.contextmanager
    def pod(self, objects, workload, names=()):
        """Starts a pod in the kubelet's order, and ends it so: sidecars are up before the others, and end after them."""
        pod, check = pod_of(workload), self.checks.check
        name = workload["metadata"]["name"]
        started = []
        for spec in containers_of(pod):
            started.append((spec, self.container(objects, pod, spec, names)))
            if "startupProbe" in spec:
                check(probed(spec, pod, "startupProbe"), f"{name}: {spec['name']} does not start")
        for spec, _ in started:
            for kind in ("livenessProbe", "readinessProbe"):
                if kind in spec:
                    check(probed(spec, pod, kind), f"{name}: the {kind} of {spec['name']} fails")
        yield [container for _, container in started]
        for spec, container in reversed(started):
            code = container.end(pod.get("terminationGracePeriodSeconds", 30))
            check(code == 0, f"{name}: {spec['name']} ended with {code}")


def deployment(objects, name):
    return next(one for one in objects if one["kind"] == "Deployment" and one["metadata"]["name"] == name)


def behind(objects, service, workload):
    """The port that the Service's name leads to."""
    found = next(one for one in objects if one["kind"] == "Service" and one["metadata"]["name"] == service)
    wanted = found["spec"]["ports"][0]["targetPort"]
    return next(port["containerPort"] for container in containers_of(pod_of(workload))
                for port in container["ports"] if port["name"] == wanted)


def listening():
    """The IPv4 addresses that somebody listens on."""
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    for fields in lines:
        if fields[3] == "0A":
            address, port = fields[1].split(":")
            yield socket.inet_ntoa(struct.pack("<I", int(address, 16))), int(port, 16)


def contents(image, checks):
    check = checks.check
    size = sum((image.root / path).stat().st_size for path in image.contents)
    print(f"the image: {size / 2**20:.0f} MiB in {len(image.contents)} files")
    programs = [path for path in image.contents if os.access(image.root / path, os.X_OK) and ".so" not in path]
    check(programs == ["a2a-errata"], f"programs: {programs}")
    rest = [path for path in image.contents if ".so" not in path]
    wanted = ["a2a-errata", "etc/group", "etc/nsswitch.conf", "etc/passwd", "etc/ssl/certs/ca-certificates.crt"]
    check(rest == wanted, f"files: {rest}")
    check("BEGIN CERTIFICATE" in (image.root / wanted[-1]).read_text(), "no certificate authorities")
    check(image.file.user == (65532, 65532), f"user {image.file.user}")
    check(f"x:{image.file.user[0]}:{image.file.user[1]}:" in (image.root / "etc/passwd").read_text(), "no such user")


def confined(container, checks, user):
    check = checks.check
    status = container.status()
    check(set(status["Uid"].split() + status["Gid"].split()) == {str(user)}, f"user {status['Uid']} {status['Gid']}")
    check(all(int(status[one], 16) == 0 for one in ("CapEff", "CapPrm", "CapBnd", "CapAmb")), "it has capabilities")
    check(status["NoNewPrivs"].strip() == "1", "it may get new privileges")
    mounts = [line.split() for line in Path(f"/proc/{container.process.pid}/mountinfo").read_text().splitlines()]
    check([fields[5].split(",")[0] for fields in mounts if fields[4] == "/"] == ["ro"], "its root can be written to")


def as_it_is(node, image, checks):
    """The image's own entry point and command, with nothing but a configuration where it is looked for."""
    file = Path(image.file.command[image.file.command.index("--config") + 1])
    files = node.files((), {file.name: (ROOT / "config/sidecar.toml").read_text()}, str(file.parent))
    container = node.start("plain", image.file.command, {}, files, image.file.user)
    deadline = time.monotonic() + 15
    answered = None
    while time.monotonic() < deadline and answered != 200:
        with contextlib.suppress(OSError):
            answered = ask(9464, "/livez", None)[0]
        time.sleep(0.05)
    checks.check(answered == 200, "the image as it is does not run")
    confined(container, checks, image.file.user[0])
    checks.check(container.end(30) == 0, "it does not end well")
    missing = node.start("plain", image.file.command, {}, node.files((), None, None), image.file.user)
    checks.check(missing.process.wait(15) == 2, "it runs without a configuration")


def sidecar(node, checks):
    """Before, observe, one interface, all, and out again: what clients of the Service get at each step."""
    steps = (("app", OWN, OWN), ("rollout/sidecar-observe", OWN, OWN), ("rollout/sidecar-one-interface", OWN, REPAIRED),
             ("sidecar", REPAIRED, REPAIRED), ("app", OWN, OWN))
    for folder, rpc, rest in steps:
        objects = build(folder)
        workload = deployment(objects, "agent")
        with node.pod(objects, workload) as containers:
            port = behind(objects, "agent", workload)
            checks.check(port == (9000 if folder == "app" else 8080), f"{folder}: the Service leads to {port}")
            said, said_rest = ask(port)[1], ask(port, REST, None)[1]
            checks.check(rpc in said, f"{folder}: JSON-RPC says {said}")
            checks.check((rest == REPAIRED) == (REPAIRED in said_rest), f"{folder}: HTTP+JSON says {said_rest}")
            for container in containers:
                confined(container, checks, 65532)
            if folder != "app":
                where = set(listening())
                checks.check(("127.0.0.1", 9000) in where and ("0.0.0.0", 9000) not in where,
                             f"{folder}: the host can be reached past the proxy: {where}")
                metrics = ask(9464, "/metrics", None)[1]
                checks.check(re.search(r'^a2a_errata_rewrites_total\{.*\} [1-9]', metrics, re.M), f"{folder}: counts nothing")
        print(f"{folder}: JSON-RPC {'repaired' if rpc == REPAIRED else 'as the host says it'}, "
              f"HTTP+JSON {'repaired' if rest == REPAIRED else 'as the host says it'}")


def gateway(node, checks):
    objects = build("gateway")
    host = deployment(objects, "agent")
    # The Service's part: its port leads to the pod's.
    service = next(one for one in objects if one["kind"] == "Service" and one["metadata"]["name"] == "agent")
    arguments = pod_of(host)["containers"][0]["args"]
    arguments[-1] = arguments[-1].replace(":9000", f":{service['spec']['ports'][0]['port']}")
    pod_of(host)["containers"][0]["ports"][0]["containerPort"] = 80
    with node.pod(objects, host):
        workload = deployment(objects, "a2a-errata")
        with node.pod(objects, workload, names=["agent"]):
            said = repaired(behind(objects, "a2a-errata", workload))
            checks.check(REPAIRED in said, f"gateway: {said}")
    print("gateway: repaired")


def compose(node, checks):
    import yaml
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    started = []
    for name in ("host", "proxy"):
        service = services[name]
        files = node.files(services, None, None)
        for volume in service.get("volumes", []):
            source, target, _ = volume.split(":")
            files[target] = (DEPLOY / source).resolve()
        user = tuple(int(part) for part in service["user"].split(":"))
        command = service.get("command", node.image.file.command)
        started.append(node.start(f"compose-{name}", command, {}, files, user))
    said = repaired(8080)
    checks.check(REPAIRED in said, f"compose: {said}")
    for container in started:
        confined(container, checks, 65532)
    for container in reversed(started):
        checks.check(container.end(30) == 0, "compose: a container does not end well")
    print("compose: repaired")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default=ROOT / "target" / "release" / "a2a-errata", type=Path)
    binary, checks = parser.parse_args().bin.resolve(), Checks()
    if INSIDE not in os.environ:
        tried = subprocess.run(["unshare", *NAMESPACES, "true"], capture_output=True, text=True) if shutil.which("unshare") else None
        if os.geteuid() or tried is None or tried.returncode:
            why = "it takes root" if os.geteuid() else tried.stderr.strip() if tried else "there is no unshare"
            print(f"SKIPPED: the image and what deploy/ makes of it: {why}")
            return checks.close(1)
        os.environ[INSIDE] = "1"
        command = ["unshare", *NAMESPACES, "--fork", "--kill-child", "--mount-proc", sys.executable, *sys.argv]
        os.execvp(command[0], command)
    loopback_up()
    with tempfile.TemporaryDirectory() as work:
        # Everybody must be able to pass, as the containers' user does.
        Path(work).chmod(0o755)
        try:
            image = Image(binary, work)
            contents(image, checks)
            with Node(image, work, checks) as node:
                as_it_is(node, image, checks)
                sidecar(node, checks)
                gateway(node, checks)
                compose(node, checks)
        except (OSError, ValueError, http.client.HTTPException, subprocess.SubprocessError) as error:
            checks.check(False, f"{type(error).__name__}: {error}")
    return checks.close()


if __name__ == "__main__":
    inside_venv()
    sys.exit(main())
