#!/usr/bin/env python3
"""The files in deploy/ against published schemas, against each other, and against the proxy they are for.

Usage:  tests/operate/manifests.py [--bin target/release/a2a-errata] [--write]      (`make test-deploy`)

Kubernetes: each kustomization is built by a real kustomize, and each object must fit Kubernetes' own schemas (no unknown
fields) and the Prometheus operator's. Then what schemas do not see: selectors, ports, probes, mounts, policies,
configurations. compose.yaml and the Containerfile likewise. For every kind of mistake looked for there is one that is made
here, to see it found. --write makes deploy/kubernetes/monitoring/rules.yaml from dashboards/rules.yml.
"""
import argparse
import copy
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from deployed import DEPLOY, KUBERNETES, ROOT, Containerfile, build, containers_of, inside_venv, pod_of, ports_of, toml
from stage import Checks

# The oldest Kubernetes that the files are for, and the newest there are schemas of.
KUBERNETES_VERSIONS = ("1.33", "1.37")
BUILDS = ("app", "sidecar", "gateway", "monitoring", "rollout/sidecar-observe", "rollout/sidecar-one-interface",
          "rollout/gateway-observe", "rollout/gateway-one-interface")
RULES, RULES_OBJECT = ROOT / "dashboards" / "rules.yml", KUBERNETES / "monitoring" / "rules.yaml"
CARGO = toml((ROOT / "Cargo.toml").read_text())
VERSION, RUST = CARGO["package"]["version"], CARGO["package"]["rust-version"]
IMAGE = f"a2a-errata:{VERSION}"
# How long SIGTERM waits for requests in flight.
DRAIN_S = int(re.search(r"GRACE: Duration = Duration::from_secs\((\d+)\)", (ROOT / "src/cli/ending.rs").read_text())[1])


def rules_object(rules):
    return {"apiVersion": "monitoring.coreos.com/v1", "kind": "PrometheusRule",
            "metadata": {"name": "a2a-errata", "labels": {"app.kubernetes.io/name": "a2a-errata"}},
            "spec": {"groups": rules["groups"]}}


def write_rules():
    import yaml
    class Readable(yaml.SafeDumper):
        pass
    Readable.add_representer(str, lambda dumper, text: dumper.represent_scalar(
        "tag:yaml.org,2002:str", text, style="|" if "\n" in text else None))
    made = yaml.dump(rules_object(yaml.safe_load(RULES.read_text())), Dumper=Readable, sort_keys=False, width=200)
    RULES_OBJECT.write_text("# Made from dashboards/rules.yml by tests/operate/manifests.py --write.\n" + made)


# ---- schemas

def schema_problems(thing):
    if thing["apiVersion"].startswith("monitoring.coreos.com/"):
        return operator_problems(thing)
    import kubernetes_validate
    problems = []
    for version in KUBERNETES_VERSIONS:
        try:
            kubernetes_validate.validate(thing, version, strict=True)
        except Exception as error:  # its own kinds and jsonschema's
            problems.append(f"schema of {version}: {getattr(error, 'message', error)}")
    return problems


def operator_problems(thing):
    """What the operator's types do not take: they drop what they do not know."""
    from cloudcoil.models.prometheus_operator import v1
    try:
        taken = getattr(v1, thing["kind"]).model_validate(thing).model_dump(mode="json", by_alias=True, exclude_unset=True)
    except Exception as error:  # pydantic's
        return [f"schema: {error}"]
    return [f"schema: unknown {lost}" for lost in lost_from(thing, taken, thing["kind"])]


def lost_from(given, taken, where):
    if isinstance(given, dict):
        if not isinstance(taken, dict):
            return [where]
        return [lost for key, value in given.items()
                for lost in (lost_from(value, taken[key], f"{where}.{key}") if key in taken else [f"{where}.{key}"])]
    if isinstance(given, list):
        return [lost for index, value in enumerate(given) for lost in lost_from(value, taken[index], f"{where}.{index}")]
    return []


# ---- what schemas do not see

class Cluster:
    """Objects as they would be beside each other in a namespace."""

    def __init__(self, objects, binary):
        self.objects, self.binary, self.problems = objects, binary, []

    def of(self, *kinds):
        return [thing for thing in self.objects if thing["kind"] in kinds]

    def workloads(self):
        return self.of("Deployment")

    def audit(self):
        for thing in self.objects:
            self.say(thing, *schema_problems(thing))
        self.names()
        for workload in self.workloads():
            self.workload(workload)
        for service in self.of("Service"):
            self.service(service)
        for policy in self.of("NetworkPolicy"):
            self.policy(policy)
        for scaler in self.of("HorizontalPodAutoscaler"):
            self.scaler(scaler)
        for budget in self.of("PodDisruptionBudget"):
            if not self.selected(budget["spec"]["selector"]):
                self.say(budget, "selects no pod")
        for monitor in self.of("ServiceMonitor", "PodMonitor"):
            self.monitor(monitor)
        return self.problems

    def say(self, thing, *problems):
        self.problems += [f"{thing['kind']} {thing['metadata']['name']}: {problem}" for problem in problems]

    def names(self):
        seen = set()
        for thing in self.objects:
            name = (thing["kind"], thing["metadata"]["name"])
            if name in seen:
                self.say(thing, "is there twice")
            seen.add(name)

    def selected(self, selector):
        """The workloads whose pods have these labels."""
        wanted = selector.get("matchLabels", selector).items()
        return [workload for workload in self.workloads() if wanted <= labels(workload).items()]

    def workload(self, workload):
        def say(*problems):
            self.say(workload, *problems)
        pod = pod_of(workload)
        if not workload["spec"]["selector"]["matchLabels"].items() <= labels(workload).items():
            say("its selector is not that of its pods")
        for spread in pod.get("topologySpreadConstraints", []):
            if not spread["labelSelector"]["matchLabels"].items() <= labels(workload).items():
                say("spreads other pods than its own")
        if pod.get("automountServiceAccountToken") is not False:
            say("mounts a service account's token")
        if any(one.get("restartPolicy") not in (None, "Always") for one in pod.get("initContainers", [])):
            say("an init container with an odd restart policy")
        for container in containers_of(pod):
            self.container(workload, pod, container)
        used = {mount["name"] for container in containers_of(pod) for mount in container.get("volumeMounts", [])}
        declared = {volume["name"] for volume in pod.get("volumes", [])}
        say(*(f"mounts {name}, which is no volume" for name in used - declared))
        say(*(f"volume {name} is mounted nowhere" for name in declared - used))
        maps = {one["metadata"]["name"] for one in self.of("ConfigMap")}
        for volume in pod.get("volumes", []):
            if volume["configMap"]["name"] not in maps:
                say(f"there is no ConfigMap {volume['configMap']['name']}")
        numbers = [(port["containerPort"], port.get("protocol", "TCP")) for port in ports_of(pod)]
        if len(set(numbers)) < len(numbers):
            say("two containers listen on one port")
        if len(names := [port["name"] for port in ports_of(pod)]) > len(set(names)):
            say(f"a port's name leads to two containers: {names}")

    def container(self, workload, pod, container):
        def say(*problems):
            self.say(workload, *(f"container {container['name']}: {problem}" for problem in problems))
        if container["image"] != IMAGE:
            say(f"image {container['image']} is not {IMAGE}")
        own, shared = container.get("securityContext", {}), pod.get("securityContext", {})
        both = {**shared, **own}
        for key, wanted in (("runAsNonRoot", True), ("allowPrivilegeEscalation", False), ("readOnlyRootFilesystem", True),
                            ("capabilities", {"drop": ["ALL"]}), ("seccompProfile", {"type": "RuntimeDefault"})):
            if both.get(key) != wanted:
                say(f"{key} is {both.get(key)}")
        if (both.get("runAsUser"), both.get("runAsGroup")) != Containerfile().user:
            say("runs as another user than the image's")
        resources = container.get("resources", {})
        if "memory" not in resources.get("limits", {}) or set(resources.get("requests", {})) != {"cpu", "memory"}:
            say("asks for no resources")
        ports = {port["name"]: port["containerPort"] for port in container.get("ports", [])}
        for kind in ("startupProbe", "livenessProbe", "readinessProbe"):
            port = container.get(kind, {}).get("httpGet", {}).get("port")
            if isinstance(port, str) and port not in ports:
                say(f"{kind} asks port {port}, which the container has not")
            if isinstance(port, int) and port not in [one["containerPort"] for one in ports_of(pod)]:
                say(f"{kind} asks port {port}, which nobody has")
        if container["args"][0] == "run":
            self.proxy(workload, pod, container, ports, say)

    def proxy(self, workload, pod, container, ports, say):
        """A container that is the proxy: does its configuration fit what stands around it?"""
        wanted = {"startupProbe": "/livez", "livenessProbe": "/livez", "readinessProbe": "/readyz"}
        for kind, path in wanted.items():
            if container.get(kind, {}).get("httpGet", {}).get("path") != path:
                say(f"{kind} does not ask {path}")
        sidecar = container not in pod["containers"]
        others = pod["containers"] if sidecar else [container]
        before = max(one.get("lifecycle", {}).get("preStop", {}).get("sleep", {}).get("seconds", 0) for one in others)
        if before == 0:
            say("nobody waits until no endpoint names the pod")
        # Of the grace period the host before it takes a part, too.
        if pod.get("terminationGracePeriodSeconds", 30) <= before + DRAIN_S:
            say("the pod ends before the proxy has drained")
        file = container["args"][container["args"].index("--config") + 1]
        text = self.mounted(pod, container, file)
        if text is None:
            say(f"{file} is in no ConfigMap that is mounted")
            return
        environment = {one["name"]: one["value"] for one in container.get("env", [])}
        accepted, effective = checked(self.binary, text, environment)
        if not accepted:
            say(f"its configuration is refused: {effective}")
            return
        if effective["listen"]["address"].rpartition(":")[2] != str(ports.get("http")):
            say("does not listen on its port http")
        if effective["admin"]["address"] != f"0.0.0.0:{ports.get('admin')}":
            say("its admin port is out of the kubelet's reach")
        for host in effective["hosts"]:
            for address in host["upstreams"]:
                name, _, port = address.rpartition(":")
                if sidecar:
                    fine = name == "127.0.0.1" and port in [
                        str(one["containerPort"]) for other in pod["containers"] for one in other.get("ports", [])]
                else:
                    fine = any(service["metadata"]["name"] == name and int(port) in [
                        one["port"] for one in service["spec"]["ports"]] for service in self.of("Service"))
                if not fine:
                    say(f"nobody listens on the host's address {address}")
        admin = [policy for policy in self.of("NetworkPolicy") if workload in self.selected(policy["spec"]["podSelector"])]
        if not admin:
            say("no network policy keeps strangers from the admin port")
        for policy in admin:
            for rule in policy["spec"].get("ingress", []):
                if "from" not in rule and ports.get("admin") in [port["port"] for port in rule.get("ports", [])] + (
                        [] if rule.get("ports") else [ports.get("admin")]):
                    say("its admin port is open to everybody")

    def mounted(self, pod, container, file):
        for mount in container.get("volumeMounts", []):
            volume = next((one for one in pod.get("volumes", []) if one["name"] == mount["name"]), None)
            inside = os.path.relpath(file, mount["mountPath"])
            for one in self.of("ConfigMap"):
                if volume and one["metadata"]["name"] == volume["configMap"]["name"] and inside in one["data"]:
                    return one["data"][inside]
        return None

    def service(self, service):
        workloads = self.selected(service["spec"]["selector"])
        if not workloads:
            self.say(service, "selects no pod")
        for workload in workloads:
            for port in service["spec"]["ports"]:
                found = [one for one in ports_of(pod_of(workload)) if one["name"] == port["targetPort"]]
                if len(found) != 1:
                    self.say(service, f"port {port['targetPort']} is there {len(found)} times in {workload['metadata']['name']}")

    def policy(self, policy):
        workloads = self.selected(policy["spec"]["podSelector"])
        if not workloads:
            self.say(policy, "selects no pod")
        kinds = {kind.lower() for kind in policy["spec"]["policyTypes"]}
        if not kinds >= {"ingress", "egress"} & set(policy["spec"]):
            self.say(policy, "has rules of a type it does not name")
        for workload in workloads:
            have = [one["containerPort"] for one in ports_of(pod_of(workload))]
            for rule in policy["spec"].get("ingress", []):
                self.say(policy, *(f"lets requests to {port['port']}, where nobody listens"
                                   for port in rule.get("ports", []) if port["port"] not in have))
        for rule in policy["spec"].get("egress", []):
            for peer in rule["to"]:
                if "namespaceSelector" in peer:
                    continue
                targets = self.selected(peer["podSelector"])
                have = [one["containerPort"] for workload in targets for one in ports_of(pod_of(workload))]
                self.say(policy, *(f"lets requests out to {port['port']}, where nobody listens"
                                   for port in rule["ports"] if port["port"] not in have))

    def scaler(self, scaler):
        target = scaler["spec"]["scaleTargetRef"]
        found = [one for one in self.workloads() if one["metadata"]["name"] == target["name"]]
        if not found:
            self.say(scaler, "scales nothing")
        if any("replicas" in one["spec"] for one in found):
            self.say(scaler, "its Deployment says a number of replicas, too")
        for budget in self.of("PodDisruptionBudget"):
            if budget["spec"].get("maxUnavailable", 0) >= scaler["spec"]["minReplicas"]:
                self.say(budget, "lets every pod go at once")

    def monitor(self, monitor):
        wanted = monitor["spec"]["selector"]["matchLabels"]
        if monitor["kind"] == "ServiceMonitor":
            ports = [[port["name"] for port in service["spec"]["ports"]] for service in self.of("Service")
                     if wanted.items() <= service["metadata"].get("labels", {}).items()]
            endpoints = monitor["spec"]["endpoints"]
        else:
            ports = [[port["name"] for port in ports_of(pod_of(workload))] for workload in self.selected(wanted)]
            endpoints = monitor["spec"]["podMetricsEndpoints"]
        if not ports:
            self.say(monitor, "selects nothing")
        for endpoint in endpoints:
            if any(endpoint["port"] not in some for some in ports):
                self.say(monitor, f"port {endpoint['port']} is not there")


def labels(workload):
    return workload["spec"]["template"]["metadata"]["labels"]


def checked(binary, text, environment=None):
    """Whether `a2a-errata check` takes a configuration; and what is in effect, or what it says."""
    with tempfile.TemporaryDirectory() as work:
        file = Path(work) / "a2a-errata.toml"
        file.write_text(text)
        done = subprocess.run([binary, "check", "--config", file], capture_output=True, text=True, timeout=30,
                              env={"PATH": os.environ["PATH"], **(environment or {})})
    return (True, toml(done.stdout)) if done.returncode == 0 else (False, done.stderr)


# ---- mistakes that must be found: where, what is done to the objects, what is said

def first(objects, kind, name=None):
    return next(one for one in objects if one["kind"] == kind and name in (None, one["metadata"]["name"]))


def proxy_in(objects, sidecar=True):
    if sidecar:
        return pod_of(first(objects, "Deployment", "agent"))["initContainers"][0]
    return pod_of(first(objects, "Deployment", "a2a-errata"))["containers"][0]


def configured(objects, old, new):
    data = first(objects, "ConfigMap")["data"]
    if old not in data["a2a-errata.toml"]:
        raise ValueError(f"{old!r} is not in the configuration")
    data["a2a-errata.toml"] = data["a2a-errata.toml"].replace(old, new)


MISTAKES = (
    ("sidecar", lambda o: proxy_in(o).update(livenesProbe={}), "schema of 1.37"),
    ("sidecar", lambda o: proxy_in(o)["ports"][0].update(containerPort="8080"), "schema of 1.33"),
    ("monitoring", lambda o: first(o, "ServiceMonitor")["spec"]["endpoints"][0].update(prot="x"), "schema: unknown"),
    ("monitoring", lambda o: first(o, "PodMonitor")["spec"]["podMetricsEndpoints"][0].update(interval="3 x"), "schema:"),
    ("monitoring", lambda o: first(o, "ServiceMonitor")["spec"]["endpoints"][0].update(port="metrics"), "is not there"),
    ("monitoring", lambda o: first(o, "PodMonitor")["spec"]["selector"].update(matchLabels={"a": "b"}), "selects nothing"),
    ("sidecar", lambda o: o.append(copy.deepcopy(o[0])), "is there twice"),
    ("sidecar", lambda o: first(o, "Deployment")["spec"]["selector"].update(matchLabels={"app": "x"}), "its selector"),
    ("gateway", lambda o: pod_of(first(o, "Deployment", "a2a-errata"))["topologySpreadConstraints"][0][
        "labelSelector"].update(matchLabels={"app": "x"}), "spreads other pods"),
    ("sidecar", lambda o: pod_of(first(o, "Deployment")).pop("automountServiceAccountToken"), "token"),
    ("sidecar", lambda o: proxy_in(o)["volumeMounts"][0].update(name="config"), "is no volume"),
    ("sidecar", lambda o: proxy_in(o).pop("volumeMounts"), "is mounted nowhere"),
    ("sidecar", lambda o: first(o, "ConfigMap")["metadata"].update(name="x"), "there is no ConfigMap"),
    ("sidecar", lambda o: proxy_in(o)["ports"][0].update(containerPort=9000), "two containers listen"),
    ("sidecar", lambda o: pod_of(first(o, "Deployment"))["containers"][0]["ports"][0].update(name="http"), "two containers"),
    ("sidecar", lambda o: proxy_in(o).update(image="a2a-errata:latest"), "image"),
    ("sidecar", lambda o: proxy_in(o)["securityContext"].update(readOnlyRootFilesystem=False), "readOnlyRootFilesystem"),
    ("gateway", lambda o: pod_of(first(o, "Deployment", "a2a-errata"))["securityContext"].pop("seccompProfile"), "seccomp"),
    ("gateway", lambda o: proxy_in(o, False)["securityContext"].pop("capabilities"), "capabilities"),
    ("gateway", lambda o: pod_of(first(o, "Deployment", "a2a-errata"))["securityContext"].update(runAsUser=1), "another user"),
    ("sidecar", lambda o: proxy_in(o).pop("resources"), "resources"),
    ("sidecar", lambda o: proxy_in(o)["readinessProbe"]["httpGet"].update(port="metrics"), "which the container has not"),
    ("sidecar", lambda o: pod_of(first(o, "Deployment"))["containers"][0]["readinessProbe"]["httpGet"].update(port="http"),
     "which the container has not"),
    ("sidecar", lambda o: pod_of(first(o, "Deployment"))["containers"][0]["readinessProbe"]["httpGet"].update(port=80),
     "which nobody has"),
    ("sidecar", lambda o: proxy_in(o)["startupProbe"]["httpGet"].update(path="/readyz"), "does not ask /livez"),
    ("gateway", lambda o: pod_of(first(o, "Deployment", "a2a-errata")).update(terminationGracePeriodSeconds=30), "drained"),
    ("gateway", lambda o: proxy_in(o, False).pop("lifecycle"), "nobody waits"),
    ("sidecar", lambda o: proxy_in(o)["args"].append("x") or proxy_in(o)["args"].__setitem__(2, "/etc/x.toml"), "no ConfigMap"),
    ("sidecar", lambda o: configured(o, "binding", "bindings"), "is refused"),
    ("sidecar", lambda o: configured(o, "0.0.0.0:8080", "0.0.0.0:8081"), "does not listen"),
    ("sidecar", lambda o: configured(o, "0.0.0.0:9464", "127.0.0.1:9464"), "out of the kubelet's reach"),
    ("sidecar", lambda o: configured(o, "127.0.0.1:9000", "127.0.0.1:9001"), "nobody listens on the host's address"),
    ("gateway", lambda o: configured(o, "agent:80", "agent:9000"), "nobody listens on the host's address"),
    ("sidecar", lambda o: o.remove(first(o, "NetworkPolicy")), "no network policy"),
    ("sidecar", lambda o: first(o, "NetworkPolicy")["spec"]["ingress"][1].pop("from"), "open to everybody"),
    ("sidecar", lambda o: first(o, "NetworkPolicy")["spec"]["ingress"][0].pop("ports"), "open to everybody"),
    ("gateway", lambda o: first(o, "NetworkPolicy")["spec"]["podSelector"].update(matchLabels={"a": "b"}), "selects no pod"),
    ("gateway", lambda o: first(o, "NetworkPolicy")["spec"].update(policyTypes=["Ingress"]), "does not name"),
    ("gateway", lambda o: first(o, "NetworkPolicy")["spec"]["ingress"][0]["ports"][0].update(port=80), "lets requests to 80"),
    ("gateway", lambda o: first(o, "NetworkPolicy")["spec"]["egress"][1]["ports"][0].update(port=80), "out to 80"),
    ("sidecar", lambda o: first(o, "Service")["spec"]["ports"][0].update(targetPort="web"), "is there 0 times"),
    ("sidecar", lambda o: first(o, "Service")["spec"].update(selector={"a": "b"}), "selects no pod"),
    ("gateway", lambda o: first(o, "Deployment", "a2a-errata")["spec"].update(replicas=2), "number of replicas"),
    ("gateway", lambda o: first(o, "HorizontalPodAutoscaler")["spec"]["scaleTargetRef"].update(name="x"), "scales nothing"),
    ("gateway", lambda o: first(o, "HorizontalPodAutoscaler")["spec"].update(minReplicas=1), "lets every pod go"),
    ("gateway", lambda o: first(o, "PodDisruptionBudget")["spec"]["selector"].update(matchLabels={"a": "b"}), "selects no pod"),
)


# ---- the rest of deploy/

def monitoring(checks, built, binary):
    import yaml
    objects = built["monitoring"]
    rules = yaml.safe_load(RULES.read_text())
    checks.check(first(objects, "PrometheusRule") == rules_object(rules),
                 "monitoring/rules.yaml is not dashboards/rules.yml; tests/operate/manifests.py --write makes it anew")
    board = first(objects, "ConfigMap")
    checks.check(json.loads(board["data"]["grafana.json"]) == json.loads((ROOT / "dashboards/grafana.json").read_text()),
                 "the board is not dashboards/grafana.json")
    with tempfile.TemporaryDirectory() as work:
        file = Path(work) / "rules.yml"
        file.write_text(json.dumps(first(objects, "PrometheusRule")["spec"]))
        done = subprocess.run(["promtool", "check", "rules", file], capture_output=True, text=True)
        checks.check(done.returncode == 0, f"promtool: {done.stdout}{done.stderr}")


def rollout(checks, built, binary):
    """Observe, one interface, all, and out again: each step differs from the one before by what it says, and no more."""
    modes = {"observe": ["observe", "observe"], "one-interface": ["observe", "enforce"], "": ["enforce", "enforce"]}
    for kind, sidecar in (("sidecar", True), ("gateway", False)):
        plain = built[kind]
        for step, wanted in modes.items():
            objects = built[f"rollout/{kind}-{step}"] if step else plain
            proxy = proxy_in(objects, sidecar)
            environment = {one["name"]: one["value"] for one in proxy.get("env", [])}
            _, effective = checked(binary, first(objects, "ConfigMap")["data"]["a2a-errata.toml"], environment)
            host = effective["hosts"][0]
            found = [host["mode"] if one["mode"] == "host" else one["mode"] for one in host["interfaces"]]
            checks.check(found == wanted, f"{kind} {step}: {found}")
            stripped = copy.deepcopy(objects)
            proxy_in(stripped, sidecar).pop("env", None)
            checks.check(stripped == plain, f"{kind} {step} changes more than the mode")
    app, sidecar = built["app"], built["sidecar"]
    checks.check(first(app, "Service") == first(sidecar, "Service"), "the sidecar changes the Service")
    left = {(one["kind"], one["metadata"]["name"]) for one in sidecar} - {(o["kind"], o["metadata"]["name"]) for o in app}
    component = {"app.kubernetes.io/name": "a2a-errata", "app.kubernetes.io/component": "sidecar"}
    checks.check({kind for kind, _ in left} == {"ConfigMap", "NetworkPolicy"}
                 and all(component.items() <= one["metadata"].get("labels", {}).items() for one in sidecar
                         if (one["kind"], one["metadata"]["name"]) in left),
                 f"what is left after the sidecar cannot be deleted by its labels: {left}")


def compose_problems(text, binary):
    import yaml
    from compose_viz.spec.compose_spec import ComposeSpecification
    content = yaml.safe_load(text)
    # Extensions are merged in by now.
    bare = {key: value for key, value in content.items() if not key.startswith("x-")}
    try:
        ComposeSpecification.model_validate(bare)
    except Exception as error:  # pydantic's
        return [f"schema: {error}"]
    problems = []
    networks = content["networks"]
    for name, service in content["services"].items():
        def say(what, name=name):
            problems.append(f"{name}: {what}")
        for key, wanted in (("read_only", True), ("cap_drop", ["ALL"]), ("security_opt", ["no-new-privileges:true"])):
            if service.get(key) != wanted:
                say(f"{key} is {service.get(key)}")
        if service.get("user", "0").split(":")[0] == "0":
            say("runs as root")
        for volume in service.get("volumes", []):
            source, _, rest = volume.partition(":")
            if not (DEPLOY / source).exists():
                say(f"there is no {source}")
            if not rest.endswith(":ro"):
                say(f"{source} can be written to")
        for port in service.get("ports", []):
            if not port.startswith("127.0.0.1:"):
                say(f"port {port} is open to the network")
        for network in service["networks"]:
            if network not in networks:
                say(f"there is no network {network}")
    proxy, host = content["services"]["proxy"], content["services"]["host"]
    for name, service in (("proxy", proxy), ("host", host)):
        build = service.get("build", {})
        if service["image"] != IMAGE or not (DEPLOY / build["context"] / build["dockerfile"]).exists():
            problems.append(f"{name}: image {service['image']}")
    if proxy.get("stop_grace_period", "10s") <= f"{DRAIN_S}s":
        problems.append("proxy: it is killed before it has drained")
    if [networks[network] for network in host["networks"]] != [{"internal": True}] or "ports" in host:
        problems.append("host: it can be reached past the proxy")
    command = proxy.get("command", Containerfile().command)
    file = Path(command[command.index("--config") + 1])
    folder = next((volume.split(":")[0] for volume in proxy["volumes"] if volume.split(":")[1] == str(file.parent)), None)
    if folder is None or not (DEPLOY / folder / file.name).exists():
        return [*problems, f"proxy: {file} is not mounted"]
    accepted, effective = checked(binary, (DEPLOY / folder / file.name).read_text())
    if not accepted:
        return [*problems, f"proxy: {effective}"]
    published = {port.split(":")[-1] for port in proxy["ports"]}
    if published != {effective[key]["address"].rpartition(":")[2] for key in ("listen", "admin")}:
        problems.append(f"proxy: publishes {published}")
    served = host["command"][host["command"].index("--host") + 1].rpartition(":")[2]
    if effective["hosts"][0]["upstreams"] != [f"host:{served}"] or not set(host["networks"]) <= set(proxy["networks"]):
        problems.append("proxy: does not reach the host")
    return problems


COMPOSE_MISTAKES = (
    ("read_only: true", "readonly: true", "schema"),
    ("cap_drop: [ALL]", "cap_drop: [NET_RAW]", "cap_drop"),
    ('"127.0.0.1:8080:8080"', '"8080:8080"', "open to the network"),
    ("stop_grace_period: 30s\n", "stop_grace_period: 20s\n", "killed before"),
    ("./compose:/etc/a2a-errata:ro", "./config:/etc/a2a-errata:ro", "there is no ./config"),
    ("./compose:/etc/a2a-errata:ro", "./compose:/etc/a2a:ro", "is not mounted"),
    ("internal: true", "internal: false", "past the proxy"),
    ('"0.0.0.0:9000"', '"0.0.0.0:9001"', "does not reach"),
    (f"image: {IMAGE}", "image: a2a-errata:latest", "image"),
    ('user: "65532:65532"', 'user: "0:0"', "root"),
    ("networks: [front]", "networks: [back]", "no network back"),
)


def compose(checks, binary):
    import yaml
    text = (DEPLOY / "compose.yaml").read_text()
    problems = compose_problems(text, binary)
    checks.check(not problems, "\n".join(f"compose.yaml: {problem}" for problem in problems))
    for old, new, says in COMPOSE_MISTAKES:
        found = compose_problems(text.replace(old, new), binary) if old in text else [f"{old} is not there"]
        checks.check(any(says in problem for problem in found), f"compose.yaml with {new!r}: no {says!r} in {found}")
    with tempfile.TemporaryDirectory() as work:
        prometheus = yaml.safe_load(text)["services"]["prometheus"]
        for volume in prometheus["volumes"]:
            source, target, _ = volume.split(":")
            shutil.copy(DEPLOY / source, Path(work) / Path(target).name)
        done = subprocess.run(["promtool", "check", "config", Path(work) / "prometheus.yml"], capture_output=True, text=True)
        checks.check(done.returncode == 0, f"prometheus.yml: {done.stdout}{done.stderr}")


def containerfile(checks):
    file = Containerfile()
    check = checks.check
    check(file.stages[0]["from"] == f"rust:{RUST}-slim-bookworm", "Rust is not that of Cargo.toml")
    check(file.labels.get("org.opencontainers.image.version") == VERSION, "the version is not that of Cargo.toml")
    check(file.labels.get("org.opencontainers.image.licenses") == CARGO["package"]["license"], "the licence")
    check(file.labels.get("org.opencontainers.image.description") == CARGO["package"]["description"], "the description")
    check(file.last["from"] == "scratch" and file.all("COPY") == ["--from=root /rootfs/ /"], "the last stage has more")
    builds = [rest for name, rest in file.stage("build")["does"] if name == "RUN" and "cargo build" in rest]
    check(len(builds) == 2 and all("--locked" in rest for rest in builds), "a build that is not locked")
    # What the build reads besides the code must be copied, and must not be ignored.
    copied = {word for rest in file.all("COPY", file.stage("build")) for word in rest.split()[:-1]}
    allowed = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    check(copied == allowed, f".dockerignore lets {allowed} pass, the Containerfile copies {copied}")
    for source in (ROOT / "src").rglob("*.rs"):
        text = source.read_text().split("#[cfg(test)]")[0]
        for path in re.findall(r'include_(?:str|bytes)!\("([^"]+)"', text):
            needed = os.path.relpath((source.parent / path).resolve(), ROOT)
            check(any(needed == one or needed.startswith(f"{one}/") for one in copied), f"{needed} is not in the build")
    for word in ("rust-toolchain.toml", "rust-toolchain", "build.rs", ".cargo"):
        check(not (ROOT / word).exists() or word in copied, f"{word} is not in the build")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default=ROOT / "target" / "release" / "a2a-errata", type=Path)
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    if arguments.write:
        write_rules()
        return 0
    binary, checks = arguments.bin.resolve(), Checks()
    built = {folder: build(folder) for folder in BUILDS}
    # What watches the proxies is looked at beside them; the host is the sidecar's.
    seen = {**built, "monitoring": built["monitoring"] + built["sidecar"] + [
        one for one in built["gateway"] if one["metadata"]["name"] != "agent"]}
    for folder, objects in seen.items():
        problems = Cluster(objects, binary).audit()
        checks.check(not problems, "\n".join(f"{folder}: {problem}" for problem in problems))
        print(f"{folder}: {len(built[folder])} objects")
    for folder, do, says in MISTAKES:
        objects = copy.deepcopy(seen[folder])
        do(objects)
        found = Cluster(objects, binary).audit()
        checks.check(any(says in problem for problem in found), f"a mistake in {folder} is not found: {says!r}, but {found}")
    monitoring(checks, built, binary)
    rollout(checks, built, binary)
    compose(checks, binary)
    containerfile(checks)
    return checks.close()


if __name__ == "__main__":
    inside_venv()
    sys.exit(main())
