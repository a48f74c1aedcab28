"""Building and running the programs of a measurement, and what the kernel says of them."""

import contextlib
import json
import os
import pathlib
import re
import resource
import signal
import socket
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
MIB = 1 << 20


class Failed(Exception):
    """It could not be measured; says why."""


def say(text=""):
    print(text, flush=True)


def build():
    """Builds the release profile once; where the executables are, by name."""
    command = ["cargo", "build", "--release", "--locked", "--features", "bench", "--bins",
               "--message-format=json-render-diagnostics"]
    say("building the release profile (minutes, the first time) ...")
    began = time.monotonic()
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise Failed("the build failed")
    messages = map(json.loads, done.stdout.splitlines())
    found = {message["target"]["name"]: message["executable"] for message in messages if message.get("executable")}
    say(f"built in {time.monotonic() - began:.0f} s")
    return found


def in_directory(path):
    """The executables of an earlier build."""
    return {name: str(pathlib.Path(path, name)) for name in ("a2a-errata", "bench")}


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def open_files():
    """How many files a process may have open, after asking for as many as this user can get."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


class Processes(contextlib.ExitStack):
    """Everything that was started is ended, by its own handle."""

    def start(self, command, **how):
        process = subprocess.Popen([str(word) for word in command], **how)
        self.callback(self.end, process)
        return process

    @staticmethod
    def end(process):
        if process.poll() is not None:
            return
        process.send_signal(signal.SIGINT)  # SIGTERM would let Pingora wait for its grace period
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def wait_until_listening(process, port, name):
    for _ in range(300):
        if process.poll() is not None:
            raise Failed(f"{name} ended at once with exit code {process.returncode}")
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.1)
    raise Failed(f"{name} does not listen")


class Running:
    """A program that listens: a contender, or the host itself."""

    def __init__(self, name, process, address):
        self.name, self.process, self.address = name, process, address

    def end(self):
        Processes.end(self.process)

    def processes(self):
        """The process and its children: some servers have a worker per core."""
        found = [self.process.pid]
        for pid in found:
            with contextlib.suppress(OSError):
                for listed in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
                    found += map(int, listed.read_text().split())
        return [pathlib.Path(f"/proc/{pid}") for pid in found]

    def cpu(self):
        """Seconds of CPU time so far: by the scheduler's nanoseconds, else utime + stime in ticks."""
        return sum(map(cpu_of, self.processes()))

    def rss(self, which="VmRSS"):
        """VmRSS (now) or VmHWM (the peak), in bytes."""
        return sum(rss_of(process, which) for process in self.processes())

    def descriptors(self):
        return sum(len(list((process / "fd").iterdir())) for process in self.processes())

    def settled_rss(self):
        """VmRSS once it has stopped changing, or after a quarter of a minute."""
        before = self.rss()
        for _ in range(30):
            time.sleep(0.5)
            now = self.rss()
            if abs(now - before) < 0.002 * before:
                break
            before = now
        return now

    def forget_peak(self):
        for process in self.processes():
            with contextlib.suppress(OSError):
                (process / "clear_refs").write_text("5")


def cpu_of(process):
    try:
        threads = (process / "task").glob("*/schedstat")
        return sum(int(thread.read_text().split()[0]) for thread in threads) / 1e9
    except OSError:
        fields = (process / "stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def rss_of(process, which):
    found = re.search(rf"{which}:\s+(\d+) kB", (process / "status").read_text())
    return int(found[1]) * 1024
