"""The stage of a measurement: the host, the proxies in front of it, and the clients."""

import dataclasses
import pathlib
import subprocess

from .processes import Failed, Running, free_port, wait_until_listening

CONNECTIONS = 32
# The paths that every contender serves; one of JSON-RPC each.
PATHS = ["/small", "/large", "/fault", "/error"]


@dataclasses.dataclass
class Host:
    """A host of a2a-errata's configuration, whose upstream is the measurement's host."""

    paths: list
    name: str = "legacy"
    more: str = ""

    def toml(self, upstream):
        lines = ["[[hosts]]", f'name = "{self.name}"', f'upstreams = ["{upstream}"]',
                 "limits = { request_bytes = 536870912 }", self.more]
        for path in self.paths:
            lines += ["[[hosts.interfaces]]", f'path = "{path}"', 'binding = "JSONRPC"', 'versions = ["1.0"]']
        return "\n".join(lines) + "\n"


class Stage:
    def __init__(self, options, found, processes):
        self.options, self.found, self.processes = options, found, processes
        self.binary = options.binary or found["a2a-errata"]
        self.out = pathlib.Path(options.out)
        self.out.mkdir(parents=True, exist_ok=True)
        self.log = processes.enter_context(open(self.out / "proxy.log", "wb"))
        host = processes.start([found["bench"], "upstream"], stdout=subprocess.PIPE, text=True)
        self.direct = Running("direct", host, host.stdout.readline().split()[-1])

    def start(self, name, command, port, **how):
        process = self.processes.start(command, stdout=subprocess.DEVNULL, stderr=self.log, **how)
        wait_until_listening(process, port, name)
        return Running(name, process, f"127.0.0.1:{port}")

    def errata(self, name="a2a-errata", hosts=None, binary=None, flags=(), paths=()):
        port = free_port()
        hosts = hosts or [Host(list(dict.fromkeys([*PATHS, *paths])))]
        config = self.out / f"{name}.toml"
        config.write_text(f'[listen]\naddress = "127.0.0.1:{port}"\n[admin]\naddress = ""\n'
                          + "".join(host.toml(self.direct.address) for host in hosts))
        return self.start(name, [binary or self.binary, "run", "--config", config, *flags], port)

    def bare(self, kind="bare"):
        """Pingora passing everything through: `bare` with a2a-errata's runtime settings, or `stock` with its own."""
        port = free_port()
        return self.start(kind, [self.found["bench"], kind, f"127.0.0.1:{port}", self.direct.address], port)

    def client(self, program, proxy, *words):
        """What a client of the measurements says."""
        command = [self.found["bench"], program, proxy.address, *map(str, words)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=180, check=True)
        said = parsed(done.stdout)
        if said["failed"]:
            raise Failed(f"{proxy.name} {' '.join(command[2:])}: {done.stdout.strip()}")
        return said

    def load(self, proxy, path, requests, connections=CONNECTIONS, request_bytes=0, host=None):
        """Equal requests as fast as they are answered; CPU time in microseconds per request with it."""
        before = proxy.cpu()
        said = self.client("load", proxy, path, requests, connections, request_bytes, host or proxy.address)
        said["cpu_us"] = (proxy.cpu() - before) * 1e6 / requests
        said["per_s"] = requests / said["seconds"]
        return said

    def talking(self, program, proxy, *words):
        """A client that goes on beside others."""
        command = [self.found["bench"], program, proxy.address, *words]
        return self.processes.start(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def open_streams(self, proxy, path, number):
        """A client that keeps streams open until it is ended."""
        client = self.talking("open", proxy, path, number)
        line = client.stdout.readline()
        if not line or parsed(line)["open"] != number:
            raise Failed(f"{proxy.name}: {line.strip() or 'no stream'} of {number} streams")
        return client


def parsed(line):
    return {name: float(value) for name, value in (pair.split("=") for pair in line.split())}


def turned(contenders, number):
    """The order of a round: another one is first every time."""
    at = number % len(contenders)
    return contenders[at:] + contenders[:at]
