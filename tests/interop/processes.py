"""Starts hosts, proxies and clients, and ends exactly those, by their pid, whatever happens."""
import http.client
import json
import os
import socket
import subprocess
import time

START_TIMEOUT_S = 90
CLIENT_TIMEOUT_S = 180


class ProcessError(Exception):
    """A process did not start or did not do its work. The message says where its log is."""


class Processes:
    """Everything this run has started. Use as a context manager."""

    def __init__(self, work):
        self.work = work
        self.running = []
        (work / "logs").mkdir(parents=True, exist_ok=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.running:
            if process.poll() is None:
                process.terminate()
        for process in self.running:
            try:
                process.wait(timeout=5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            if process.stdout:
                process.stdout.close()

    def start(self, name, command, stdout, variables=None):
        log = self.work / "logs" / f"{name}.log"
        with log.open("wb") as sink:
            process = subprocess.Popen([str(part) for part in command], stdin=subprocess.DEVNULL,
                                       stdout=stdout or sink, stderr=sink, env={**os.environ, **(variables or {})})
        self.running.append(process)
        return process, log

    def host(self, name, command):
        """Starts a host and returns its port, which it prints as `listening PORT`."""
        process, log = self.start(name, command, subprocess.PIPE)
        deadline = time.monotonic() + START_TIMEOUT_S
        os.set_blocking(process.stdout.fileno(), False)
        printed = b""
        while time.monotonic() < deadline and process.poll() is None:
            printed += process.stdout.read() or b""
            if b"listening" in printed and printed.endswith(b"\n"):
                port = int(printed.split()[1])
                wait_for_port(port, process, name, log)
                return port
            time.sleep(0.05)
        how = "did not start in time" if process.poll() is None else f"ended with {process.returncode}"
        raise ProcessError(f"{name} {how}, see {log}")

    def proxy(self, name, binary, port, interfaces, normalize_0_3):
        """Starts the proxy in front of one host and returns the port it listens on.

        Without interfaces it takes them from the host's agent card (I-1).
        """
        listen, admin = free_port(), free_port()
        lines = [f'[listen]\naddress = "127.0.0.1:{listen}"', f'[admin]\naddress = "127.0.0.1:{admin}"',
                 f'[[hosts]]\nname = "{name}"\nupstreams = ["127.0.0.1:{port}"]\n'
                 f'normalize_0_3 = {str(normalize_0_3).lower()}']
        lines += [f'[[hosts.interfaces]]\npath = "{path}"\nbinding = "{binding}"\nversions = {json.dumps(versions)}'
                  for path, binding, versions in interfaces]
        config = self.work / f"proxy-{name}.toml"
        config.write_text("\n\n".join(lines) + "\n")
        process, log = self.start(f"proxy-{name}", [binary, "run", "--config", config], None)
        wait_for_port(listen, process, f"the proxy before {name}", log)
        wait_until_ready(admin, process, f"the proxy before {name}", log)
        return listen

    def bare_proxy(self, name, binary, port):
        """Starts the proxy with no configuration: nothing is said but where the host is."""
        listen = free_port()
        # Only the admin page's address, so that several can run: it has a port of its own by default.
        admin = free_port()
        command = [binary, "run", "--upstream", f"127.0.0.1:{port}", "--listen", f"127.0.0.1:{listen}"]
        process, log = self.start(f"proxy-{name}", command, None, {"A2A_ERRATA_ADMIN__ADDRESS": f"127.0.0.1:{admin}"})
        wait_for_port(listen, process, f"the proxy before {name}", log)
        wait_until_ready(admin, process, f"the proxy before {name}", log)
        return listen

    def client(self, name, command, calls):
        """Lets a client make the calls; returns what it reports, one object per call."""
        log = self.work / "logs" / f"client-{name}.log"
        with log.open("wb") as sink:
            process = subprocess.Popen([str(part) for part in command], stdin=subprocess.PIPE,
                                       stdout=subprocess.PIPE, stderr=sink)
        self.running.append(process)
        try:
            output, _ = process.communicate(json.dumps(calls).encode(), timeout=CLIENT_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            raise ProcessError(f"client {name} did not finish within {CLIENT_TIMEOUT_S} s, see {log}") from None
        seen = [json.loads(line) for line in output.splitlines()]
        if len(seen) != len(calls):
            raise ProcessError(f"client {name} reported {len(seen)} of {len(calls)} calls, see {log}")
        return seen


def wait_for_port(port, process, name, log):
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline and process.poll() is None:
        with socket.socket() as attempt:
            attempt.settimeout(1)
            if attempt.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise ProcessError(f"{name} does not accept connections, see {log}")


def wait_until_ready(admin, process, name, log):
    """Until the proxy has its interfaces: a card may have to be fetched first."""
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline and process.poll() is None:
        connection = http.client.HTTPConnection("127.0.0.1", admin, timeout=5)
        try:
            connection.request("GET", "/readyz")
            if connection.getresponse().status == 200:
                return
        except (OSError, http.client.HTTPException):
            pass
        finally:
            connection.close()
        time.sleep(0.05)
    raise ProcessError(f"{name} does not get ready, see {log}")


def free_port(state={"next": os.getpid() * 131}):
    """A free port below the ephemeral range, so that no outgoing connection takes it first."""
    while True:
        state["next"] += 1
        port = 20000 + state["next"] % 12000
        with socket.socket() as attempt:
            try:
                attempt.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue
