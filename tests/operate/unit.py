#!/usr/bin/env python3
"""The systemd unit below a real systemd: its sandbox, reload, upgrades under load, crash and end.

Usage:  tests/operate/unit.py [--bin target/release/a2a-errata]      (`make test-deploy`)

A systemd of this machine's is started as the first process of namespaces of its own (mounts, processes, network, cgroups),
with /usr read-only, an /etc of its own, and the unit as it is in deploy/systemd. So nothing outside is touched, and any port
is free. Needs root, Linux and systemd (Debian package `systemd`; it need not run). Where that cannot be, what needs it is
skipped, and the closing lines say so.
"""
import argparse
import contextlib
import ctypes
import http.client
import json
import os
import re
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from stage import ROOT, Checks

UNITS = ROOT / "deploy" / "systemd"
UNIT = UNITS / "a2a-errata@.service"
SYSTEMD = "/lib/systemd/systemd"
# What systemd-analyze says of the unit's exposure, of 10, is 1.1 or 1.2, depending on the version.
EXPOSURE = 1.5
NAMESPACES = ["--mount", "--pid", "--net", "--cgroup", "--uts", "--ipc"]
CLONE_NEWNET = 0x40000000

# Makes a root of its own and becomes its first process. WORK is on a tmpfs of the new mount namespace afterwards.
BOOT = """
set -e
mount --make-rprivate /
mount -t tmpfs -o mode=755 root "$WORK/root"
mkdir "$WORK/root/share"
mount --bind "$WORK/share" "$WORK/root/share"
cd "$WORK/root"
mkdir -p usr etc/systemd/system etc/a2a-errata run tmp var proc sys dev root home old
for folder in bin sbin lib lib32 lib64 libx32; do
    if [ -e "/usr/$folder" ]; then ln -s "usr/$folder" "$folder"; fi
done
mount --rbind /usr usr
mount -o remount,bind,ro usr
mount -t tmpfs -o mode=755 local usr/local
mkdir -p usr/local/bin usr/local/sbin
cp share/a2a-errata usr/local/bin/
cp share/a2a-errata-upgrade usr/local/sbin/
cp share/a2a-errata@.service etc/systemd/system/
cp share/a2a-errata.toml etc/a2a-errata/
mount -t proc proc proc
mount -t sysfs -o ro sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t tmpfs -o mode=755 dev dev
for node in null zero full random urandom tty; do touch "dev/$node"; mount --bind "/dev/$node" "dev/$node"; done
mkdir dev/shm dev/pts
mount -t tmpfs shm dev/shm
mount -t devpts -o newinstance,ptmxmode=0666 devpts dev/pts
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
echo 'root:x:0:0::/root:/bin/sh' >etc/passwd
echo 'root:x:0:' >etc/group
echo 'hosts: files' >etc/nsswitch.conf
echo '127.0.0.1 localhost' >etc/hosts
cp -L /etc/ld.so.cache etc/
: >etc/machine-id
# Nothing of the machine's own services.
for one in dbus.service dbus.socket systemd-logind.service systemd-udevd.service systemd-timesyncd.service \\
    systemd-networkd.service systemd-resolved.service getty.target; do ln -s /dev/null "etc/systemd/system/$one"; done
mount -t tmpfs run run
mount -t tmpfs tmp tmp
pivot_root . old
umount -l old
export container=a2a-errata-test
exec /lib/systemd/systemd --system --unit=multi-user.target </dev/null >/dev/null 2>&1
"""

# Run with the unit's sandbox in place of the proxy: tries what the sandbox forbids, and says what worked.
INTRUDER = r"""
import ctypes, json, os, socket, sys
libc = ctypes.CDLL(None, use_errno=True)
def worked(attempt):
    try:
        return attempt() is not False
    except (OSError, PermissionError, ValueError):
        return False
def write(path):
    return lambda: open(path, "w").close()
def call(name, *arguments):
    return lambda: getattr(libc, name)(*arguments) != -1
def bound(port):
    return lambda: socket.socket().bind(("127.0.0.1", port))
libc.mmap.restype = ctypes.c_void_p
executable = lambda: libc.mmap(None, 4096, 7, 0x22, -1, 0) != ctypes.c_void_p(-1).value
print(file=sys.stderr, end=json.dumps({
    "write to /usr": worked(write("/usr/local/bin/x")),
    "write to /etc": worked(write("/etc/x")),
    "write to the configuration": worked(write("/etc/a2a-errata/a2a-errata.toml")),
    "write to /var": worked(write("/var/x")),
    "write to its own runtime directory": worked(write("/run/a2a-errata/x")),
    "read /root": worked(lambda: os.listdir("/root")),
    "see the tmp of others": os.path.exists("/tmp/planted"),
    "see processes of others": os.path.exists("/proc/1"),
    "see /proc/sys": os.path.exists("/proc/sys"),
    "become root": worked(lambda: os.setuid(0)),
    "mount": worked(call("mount", b"none", b"/tmp", b"tmpfs", 0, None)),
    "new namespace": worked(call("unshare", 0x10000000)),
    "writable code": worked(executable),
    "netlink": worked(lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)),
    "raw packets": worked(lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW)),
    "load a module": worked(call("syscall", 175, None, 0, b"")),
    "realtime": worked(lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))),
    "set the clock": worked(call("settimeofday", ctypes.create_string_buffer(16), None)),
    "set the host name": worked(call("sethostname", b"x", 1)),
    "port 80": worked(bound(80)),
    "port 8080": worked(bound(8081)),
    "setuid bit": worked(lambda: (write("/tmp/x")(), os.chmod("/tmp/x", 0o4755))),
}) + "\n")
"""
ALLOWED = {"write to its own runtime directory", "port 8080"}

CONFIG = """
[traces]
headers = ["x-key: planted-secret"]
[listen]
address = "127.0.0.1:8080"
[[hosts]]
name = "agent"
upstreams = ["127.0.0.1:9000"]
mode = "MODE"
[[hosts.interfaces]]
path = "/a2a"
binding = "JSONRPC"
"""
# Of the demo's legacy host: the task that is somebody else's.
FOREIGN = "acme/5d2f6a7b8c9d0e1f2a3b4c"
ASK = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": FOREIGN}})


def offline(checks):
    """What needs no running systemd."""
    done = subprocess.run(["systemd-analyze", "security", "--offline=true", "--no-pager", UNIT],
                          capture_output=True, text=True)
    found = re.search(r"Overall exposure level .*: ([\d.]+)", done.stdout)
    checks.check(found is not None and float(found[1]) <= EXPOSURE, f"systemd-analyze security: {done.stdout[-300:]}")
    if found:
        print(f"systemd-analyze security --offline: exposure {found[1]} of 10")
    with tempfile.TemporaryDirectory() as work:
        root = Path(work)
        for path, source in (("etc/systemd/system", UNIT), ("usr/local/bin", None), ("bin", None)):
            (root / path).mkdir(parents=True)
            if source:
                shutil.copy(source, root / path)
        for program in ("usr/local/bin/a2a-errata", "bin/kill"):
            (root / program).write_text("#!\n")
            (root / program).chmod(0o755)
        shutil.copytree("/lib/systemd/system", root / "usr/lib/systemd/system", symlinks=True)
        verify = lambda: subprocess.run(  # noqa: E731
            ["systemd-analyze", "verify", f"--root={root}", "--man=no", "--recursive-errors=no", "a2a-errata@a.service"],
            capture_output=True, text=True)
        done = verify()
        checks.check(done.returncode == 0 and "a2a-errata@" not in done.stderr, f"systemd-analyze verify: {done.stderr}")
        copied = root / "etc/systemd/system" / UNIT.name
        copied.write_text(UNIT.read_text().replace("ProtectSystem=strict", "ProtectSystem=strickt"))
        checks.check("strickt" in verify().stderr, "systemd-analyze verify sees no wrong value")
    grace = re.search(r"GRACE: Duration = Duration::from_secs\((\d+)\)", (ROOT / "src/cli/ending.rs").read_text())
    stop = re.search(r"^TimeoutStopSec=(\d+)$", UNIT.read_text(), re.M)
    checks.check(grace and stop and int(stop[1]) > int(grace[1]), "TimeoutStopSec does not fit the proxy's drain")
    done = subprocess.run(["sh", "-n", UNITS / "a2a-errata-upgrade"], capture_output=True, text=True)
    checks.check(done.returncode == 0, f"a2a-errata-upgrade: {done.stderr}")


class Machine:
    """A systemd in namespaces of its own. Use as a context manager; __enter__ raises Skip where that cannot be."""

    def __init__(self, binary, work):
        self.work, self.share = Path(work), Path(work) / "share"
        self.share.mkdir()
        (self.work / "root").mkdir()
        for source in (binary, UNITS / "a2a-errata-upgrade", UNIT):
            shutil.copy(source, self.share)
        self.share.chmod(0o755)
        self.write("enforce")
        
    def write(self, mode):
        (self.share / "a2a-errata.toml").write_text(CONFIG.replace("MODE", mode))

    def configure(self, mode):
        self.write(mode)
        self.run("cp", "/share/a2a-errata.toml", "/etc/a2a-errata/")

    def __enter__(self):
        self.cgroup = make_cgroup()
        self.log = (self.work / "boot.log").open("w")
        join = lambda: (self.cgroup / "cgroup.procs").write_text(str(os.getpid()))  # noqa: E731
        self.process = subprocess.Popen(
            ["unshare", *NAMESPACES, "--fork", "--kill-child", "sh", "-c", BOOT], stdin=subprocess.DEVNULL,
            stdout=self.log, stderr=self.log, env={"PATH": os.environ["PATH"], "WORK": str(self.work)}, preexec_fn=join)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                break
            if self.first() and self.run("systemctl", "is-active", "multi-user.target", check=False).returncode == 0:
                return self
            time.sleep(0.2)
        self.__exit__()
        raise Skip("no systemd could be started in namespaces of its own: "
                   + (self.work / "boot.log").read_text()[-300:].strip())

    def __exit__(self, *_):
        self.process.terminate()
        first = self.first()
        if first:
            with contextlib.suppress(ProcessLookupError):
                os.kill(first, 9)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(10)
        self.process.kill()
        self.process.wait()
        self.log.close()
        remove_cgroup(self.cgroup)

    def first(self):
        """systemd's process id outside its namespace, once it is what runs."""
        try:
            children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
            return next((int(child) for child in children
                         if Path(f"/proc/{child}/comm").read_text().strip() == "systemd"), None)
        except OSError:
            return None

    def run(self, *command, check=True):
        done = subprocess.run(["nsenter", "--target", str(self.first()), *NAMESPACES, "--", *command],
                              capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=90)
        if check and done.returncode:
            raise Failed(f"{' '.join(command)}: {done.stdout}{done.stderr}\n{self.journal()}")
        return done

    def journal(self):
        return self.run("journalctl", "--no-pager", "-n", "60", "-o", "cat", check=False).stdout

    def shown(self, unit, name):
        return self.run("systemctl", "show", f"--property={name}", "--value", unit).stdout.strip()

    def outside(self, pid):
        """The process that has this id inside."""
        for status in Path("/proc").glob("[0-9]*/status"):
            with contextlib.suppress(OSError):
                found = re.search(r"^NSpid:\s+(.*)$", status.read_text(), re.M)
                ids = found[1].split() if found else []
                if len(ids) == 2 and ids[1] == str(pid):
                    return status.parent
        raise Failed(f"no process {pid}")

    def enter_network(self):
        """This process speaks in the machine's network from now on, and so do its threads."""
        with open(f"/proc/{self.first()}/ns/net") as namespace:
            if ctypes.CDLL(None, use_errno=True).setns(namespace.fileno(), CLONE_NEWNET):
                raise Skip(f"setns: {os.strerror(ctypes.get_errno())}")


def most_files():
    """How many files a process of this machine may be allowed to open."""
    if int(re.search(r"CapEff:\s+(\w+)", Path("/proc/self/status").read_text())[1], 16) & 1 << 24:  # CAP_SYS_RESOURCE
        return int(Path("/proc/sys/fs/nr_open").read_text())
    return resource.getrlimit(resource.RLIMIT_NOFILE)[1]


class Skip(Exception):
    """What is missing."""


class Failed(Exception):
    """What did not do its work."""


def make_cgroup():
    mounts = [line.split() for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    unified = next((Path(fields[4]) for fields in mounts if fields[fields.index("-") + 1] == "cgroup2"), None)
    if not unified:
        raise Skip("no cgroup2 is mounted")
    own = Path("/proc/self/cgroup").read_text().split("0::/", 1)[-1].strip()
    try:
        made = unified / own / f"a2a-errata-test-{os.getpid()}"
        made.mkdir()
        return made
    except OSError as error:
        raise Skip(f"no cgroup can be made: {error}") from error


def remove_cgroup(cgroup):
    """All of it was made by what has ended."""
    deadline = time.monotonic() + 10
    while cgroup.exists() and time.monotonic() < deadline:
        for folder in sorted((path for path in cgroup.rglob("*") if path.is_dir()), key=lambda path: -len(path.parts)):
            with contextlib.suppress(OSError):
                folder.rmdir()
        with contextlib.suppress(OSError):
            cgroup.rmdir()
        time.sleep(0.05)


def ask(connection=None, path="/a2a", body=ASK, port=8080):
    own = connection is None
    if own:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        connection.request("POST" if body else "GET", path, body,
                           {"Content-Type": "application/json", "A2A-Version": "1.0"})
        answer = connection.getresponse()
        return answer.status, answer.read().decode(), answer.headers
    finally:
        if own:
            connection.close()


def eventually(condition, seconds=20):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError, http.client.HTTPException):
            if condition():
                return True
        time.sleep(0.1)
    return False


class Load:
    """Requests on new and on kept connections until it is closed; what went wrong is kept."""

    def __init__(self):
        self.stopping, self.answered, self.wrong = threading.Event(), 0, []
        self.threads = [threading.Thread(target=self.go, args=(kept,)) for kept in (False, True)]

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.stopping.set()
        for thread in self.threads:
            thread.join()

    def go(self, kept):
        connection = None
        while not self.stopping.is_set():
            try:
                if kept and connection is None:
                    connection = http.client.HTTPConnection("127.0.0.1", 8080, timeout=20)
                status, body, headers = ask(connection)
                if status != 200 or "TASK_NOT_FOUND" not in body:
                    self.wrong.append(f"{status} {body[:100]}")
                self.answered += 1
                if kept and headers.get("Connection", "").lower() == "close":
                    connection.close()
                    connection = None
            except (OSError, http.client.HTTPException) as error:
                self.wrong.append(f"{type(error).__name__}: {error}")
                connection = None
            time.sleep(0.002)


def below_systemd(machine, binary, checks):
    check = checks.check
    first, second = "a2a-errata@a.service", "a2a-errata@b.service"
    host = subprocess.Popen([binary, "demo", "--host", "127.0.0.1:9000"], stdin=subprocess.DEVNULL,
                            stdout=subprocess.DEVNULL)
    try:
        check(eventually(lambda: ask(path="/", body=None, port=9000)[0] == 200), "the host does not answer")
        # A sandbox that lets it in would show here.
        machine.run("sh", "-c", "echo x >/tmp/planted")
        machine.run("systemctl", "start", first)
        ready = lambda: ask(path="/readyz", body=None, port=9464)[0] == 200  # noqa: E731
        check(eventually(ready), f"not ready: {machine.journal()}")
        check("TASK_NOT_FOUND" in ask()[1], "nothing is repaired")

        print("the sandbox, of the proxy itself")
        process = machine.outside(machine.shown(first, "MainPID"))
        status = dict(line.split(":\t", 1) for line in (process / "status").read_text().splitlines() if ":\t" in line)
        check("0" not in status["Uid"].split(), f"user {status['Uid']}")
        for capabilities in ("CapEff", "CapPrm", "CapBnd", "CapAmb", "CapInh"):
            check(int(status[capabilities], 16) == 0, f"{capabilities} {status[capabilities]}")
        check(status["NoNewPrivs"].strip() == "1" and status["Seccomp"].strip() == "2", "no seccomp filter")
        limit = re.search(r"Max open files.*", (process / "limits").read_text())[0]
        # This machine may not allow so many, and systemd then takes what it can get.
        allowed = min(int(re.search(r"LimitNOFILE=(\d+)", UNIT.read_text())[1]), most_files())
        check(limit.split()[3:5] == [str(allowed)] * 2, limit)
        mounts = [line.split() for line in (process / "mountinfo").read_text().splitlines()]
        check(all("ro" in fields[5].split(",") for fields in mounts if fields[4] in ("/", "/usr", "/etc")),
              "the file system is not read-only")
        directory = machine.run("stat", "-L", "-c", "%a", "/run/a2a-errata").stdout.strip()
        check(directory == "700", f"/run/a2a-errata has mode {directory}")

        print("the sandbox, with a program in it that tries to get out")
        intruder = re.sub(r"^Exec(StartPre|Reload)=.*\n", "", UNIT.read_text(), flags=re.M)
        intruder = re.sub(r"^Type=.*$", "Type=oneshot", intruder, flags=re.M)
        intruder = re.sub(r"^Restart=.*$", "Restart=no", intruder, flags=re.M)
        tried = intrude(machine, intruder)
        for what, worked in tried.items():
            check(worked == (what in ALLOWED), f"in the sandbox, {what}: {'works' if worked else 'does not work'}")
        check(ALLOWED < set(tried), "the intruder tried nothing")

        print("reload")
        machine.configure("observe")
        machine.run("systemctl", "reload", first)
        check(eventually(lambda: "TASK_NOT_FOUND" not in ask()[1]), "a reload changes nothing")
        machine.configure("perhaps")
        check(machine.run("systemctl", "reload", first, check=False).returncode != 0, "a bad reload is no failure")
        check(eventually(lambda: "perhaps" in machine.journal()), "the journal does not say why")
        check(ask()[0] == 403, "a bad reload changed something")
        machine.configure("enforce")
        machine.run("systemctl", "reload", first)
        check(eventually(lambda: "TASK_NOT_FOUND" in ask()[1]), "a reload changes nothing")

        print("upgrades under load: a to b, and b to a")
        for old, new in ((first, second), (second, first)):
            with Load() as load:
                time.sleep(0.5)
                # A new file in the place of the old one, as a package manager does it.
                machine.run("sh", "-c", "cp /share/a2a-errata /usr/local/bin/new && mv /usr/local/bin/new /usr/local/bin/a2a-errata")
                machine.run("a2a-errata-upgrade")
                ended = eventually(lambda: machine.shown(old, "ActiveState") == "inactive", 30)
                time.sleep(0.5)
            check(ended and machine.shown(old, "Result") == "success", f"{old} has not ended well")
            check(machine.shown(new, "SubState") == "running", f"{new} does not run")
            check(load.answered > 100 and not load.wrong, f"of {load.answered} requests: {load.wrong[:5]}")
            print(f"  {load.answered} requests, {len(load.wrong)} lost")

        print("an upgrade while the last one is not over")
        with socket.create_connection(("127.0.0.1", 8080)) as slow:
            slow.sendall(b"POST /a2a HTTP/1.1\r\nHost: agent\r\nContent-Type: application/json\r\n"
                         b"Content-Length: %d\r\n\r\n" % len(ASK) + ASK[:20].encode())
            time.sleep(0.3)
            machine.run("a2a-errata-upgrade")
            both = machine.run("a2a-errata-upgrade", check=False)
            check(both.returncode != 0 and "not over" in both.stderr, f"a second upgrade: {both.stderr}")
            check("TASK_NOT_FOUND" in ask()[1], "the new one does not answer")
            slow.sendall(ASK[20:].encode())
            check(b"TASK_NOT_FOUND" in slow.recv(65536), "the old one does not answer what it had")
        check(eventually(lambda: machine.shown(first, "ActiveState") == "inactive"), "the old one does not end")
        first, second = second, first

        print("an upgrade that cannot be")
        machine.configure("perhaps")
        with Load() as load:
            failed = machine.run("a2a-errata-upgrade", check=False)
        check(failed.returncode != 0 and not load.wrong, f"a bad upgrade: {failed.returncode}, {load.wrong[:5]}")
        check(machine.shown(second, "SubState") == "dead", f"the new one is {machine.shown(second, 'SubState')}, not stopped")
        machine.configure("enforce")

        print("a crash, and the end")
        before = machine.shown(first, "MainPID")
        machine.run("systemctl", "kill", "--kill-who=main", "--signal=KILL", first)
        check(eventually(lambda: machine.shown(first, "MainPID") not in (before, "0")), f"not started again after a crash: {machine.journal()}")
        check(eventually(lambda: "TASK_NOT_FOUND" in ask()[1]), "no answer after a crash")
        machine.run("systemctl", "stop", first)
        check(machine.shown(first, "Result") == "success", f"it ended with {machine.shown(first, 'Result')}")

        said = machine.run("journalctl", "--no-pager", "-o", "cat").stdout
        check('"listening"' in said and "planted-secret" not in said, "the journal has no log, or a secret")

        print("a port below 1024")
        machine.run("sh", "-c", "mkdir -p /etc/systemd/system/a2a-errata@.service.d && printf '%s\\n' [Service] "
                    "AmbientCapabilities=CAP_NET_BIND_SERVICE CapabilityBoundingSet=CAP_NET_BIND_SERVICE PrivateUsers=no "
                    "Environment=A2A_ERRATA_LISTEN__ADDRESS=127.0.0.1:80 >/etc/systemd/system/a2a-errata@.service.d/port.conf")
        machine.run("systemctl", "daemon-reload")
        machine.run("systemctl", "start", first)
        check(eventually(lambda: "TASK_NOT_FOUND" in ask(port=80)[1]), f"nobody answers on port 80: {machine.journal()}")
        machine.run("systemctl", "stop", first)
        version = machine.run("systemctl", "--version").stdout.split("\n")[0]
        print(f"run below {version}, as the first process of namespaces of its own, all of it")
    finally:
        host.terminate()
        host.wait()


def intrude(machine, unit):
    """What the unit with another program says it could do."""
    (machine.share / "intruder.py").write_text(INTRUDER)
    unit = re.sub(r"^ExecStart=.*$", "ExecStart=/usr/bin/env python3 /usr/local/bin/intruder.py", unit, flags=re.M)
    (machine.share / "intruder@.service").write_text(unit)
    machine.run("sh", "-c", "cp /share/intruder.py /usr/local/bin/ && cp /share/intruder@.service /etc/systemd/system/")
    machine.run("systemctl", "daemon-reload")
    machine.run("systemctl", "start", "intruder@a.service")
    found = []

    def told():
        said = machine.run("journalctl", "--no-pager", "-o", "cat").stdout
        found[:] = [line for line in said.splitlines() if line.startswith('{"write to')]
        return found
    if not eventually(told):
        raise Failed(f"the intruder says nothing: {machine.journal()}")
    return json.loads(found[0])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default=ROOT / "target" / "release" / "a2a-errata", type=Path)
    binary = parser.parse_args().bin.resolve()
    checks, skipped = Checks(), 0
    offline(checks)
    with tempfile.TemporaryDirectory() as work:
        try:
            if os.geteuid() != 0:
                raise Skip("it takes root to start a systemd in namespaces")
            if not os.path.exists(SYSTEMD):
                raise Skip(f"there is no {SYSTEMD}")
            with Machine(binary, work) as machine:
                machine.enter_network()
                below_systemd(machine, binary, checks)
        except Skip as missing:
            skipped = 1
            print(f"SKIPPED: sandbox, reload and upgrade below a real systemd: {missing}")
        except (Failed, subprocess.SubprocessError) as error:
            checks.check(False, str(error))
    return checks.close(skipped)


if __name__ == "__main__":
    sys.exit(main())
