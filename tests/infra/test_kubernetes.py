"""What `infra/kubernetes` renders to: valid, understood by our own settings, and no more allowed than is needed.

No cluster is asked: what only one can tell is named in `infra/docs/kubernetes.md`.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import urllib.request
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
from ruamel.yaml import YAML

from actors.host.bootstrap import ROLES
from actors.host.embedded import EmbeddedStack
from actors.host.settings import PREFIX, Settings, load
from protocol import subjects
from protocol.subjects import ACTORS, LANES
from tests import cli_page
from tests.stack import ROOT

FOLDER = ROOT / "infra" / "kubernetes"
VERSION = "1.34"
OVERLAYS = ("small", "production")
SECRETS = {"nats": ("password",), "s3": ("access_key", "secret_key"), "keys": ()}
"""Files of each secret that our settings name, as they are mounted."""
SCALED_OBJECT = frozenset(
    ("scaleTargetRef", "minReplicaCount", "maxReplicaCount", "pollingInterval", "cooldownPeriod", "triggers")
)
NATS_TRIGGER = frozenset(("natsServerMonitoringEndpoint", "account", "stream", "consumer", "lagThreshold"))

Json = dict[str, Any]


@cache
def rendered(overlay: str) -> tuple[Json, ...]:
    """Return all resources of *overlay*, as kubectl makes them."""
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        # no package index has it
        pytest.skip("kubectl is not on this machine")
    command = [str(kubectl), "kustomize", str(FOLDER / "overlays" / overlay)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stderr
    return tuple(YAML(typ="safe").load_all(done.stdout))


def of_kind(overlay: str, kind: str) -> dict[str, Json]:
    return {one["metadata"]["name"]: one for one in rendered(overlay) if one["kind"] == kind}


def pods(overlay: str) -> Iterator[tuple[str, Json]]:
    """Yield every pod by the name of what makes it."""
    for one in rendered(overlay):
        spec = one.get("spec", {})
        spec = spec.get("jobTemplate", {}).get("spec", spec)
        if "template" in spec:
            yield one["metadata"]["name"], spec["template"]["spec"]


def check(one: Json) -> None:
    """Raise where *one* is not what its schema says, or has a field that it does not know."""
    if one["kind"] != "ScaledObject":
        kubernetes_validate.validate(one, VERSION, strict=True)
        return
    # no package has KEDA's schema for JSON; these are its fields that we use, read in its sources
    assert one["apiVersion"] == "keda.sh/v1alpha1"
    assert one["spec"].keys() == SCALED_OBJECT
    for trigger in one["spec"]["triggers"]:
        assert trigger.keys() == {"type", "metadata"}
        assert trigger["metadata"].keys() == NATS_TRIGGER
        assert all(isinstance(value, str) for value in trigger["metadata"].values())


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_every_resource_is_as_its_schema_says(overlay: str) -> None:
    for one in rendered(overlay):
        check(one)
        assert one["kind"] == "Namespace" or one["metadata"]["namespace"] == "jettison"


@pytest.mark.parametrize("kind", ["Deployment", "ScaledObject"])
def test_a_field_that_no_schema_knows_is_refused(kind: str) -> None:
    one = json.loads(json.dumps(next(iter(of_kind("production", kind).values()))))
    one["spec"]["minReplicas"] = 1
    with pytest.raises((AssertionError, kubernetes_validate.ValidationError)):
        check(one)


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_every_command_and_every_setting_is_one_of_ours(overlay: str, tmp_path: Path) -> None:
    for folder, files in SECRETS.items():
        for name in files:
            (tmp_path / folder).mkdir(exist_ok=True)
            (tmp_path / folder / name).write_text(f"{name} of {folder}\n")
    for name, pod in pods(overlay):
        (container,) = pod["containers"]
        command, *arguments = container["args"]
        assert command in cli_page.names(), name
        assert command != "worker" or arguments[0] in ROLES
        settings = settings_of(overlay, container, tmp_path)
        assert settings.nats.password == "password of nats"
        assert settings.s3.secret_key == ("" if name == "gateway" else "secret_key of s3")
        assert settings.log.format == "json"


def settings_of(overlay: str, container: Json, secrets: Path) -> Settings:
    """Return what the process of *container* makes of its environment."""
    (given,) = of_kind(overlay, "ConfigMap").values()
    said = {one["name"]: one.get("value", "of a secret") for one in container["env"]}
    environment = {**given["data"], **said}
    assert all(name.startswith(PREFIX) for name in environment)
    mounted = {mount["mountPath"] for mount in container["volumeMounts"]}
    for value in environment.values():
        assert not value.startswith("/") or any(value.startswith(path) for path in mounted), value
    return load(environment={key: value.replace("/run/secrets", str(secrets)) for key, value in environment.items()})


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_no_pod_may_more_than_it_needs(overlay: str) -> None:
    assert of_kind(overlay, "Secret") == {}
    assert "nothing" in of_kind(overlay, "NetworkPolicy")
    for name, pod in pods(overlay):
        (container,) = pod["containers"]
        security = container["securityContext"]
        assert security["readOnlyRootFilesystem"], name
        assert not security["allowPrivilegeEscalation"], name
        assert security["capabilities"] == {"drop": ["ALL"]}, name
        assert pod["securityContext"]["runAsNonRoot"], name
        # a Service's name would else become settings of ours
        assert pod["enableServiceLinks"] is False, name
        assert pod["automountServiceAccountToken"] is False, name
        assert "memory" in container["resources"]["limits"], name
        assert container["resources"]["requests"].keys() == {"cpu", "memory"}, name
        (nats,) = (volume["secret"] for volume in pod["volumes"] if volume["name"] == "nats")
        user = next(one["value"] for one in container["env"] if one["name"] == "JETTISON_NATS__USER")
        assert nats["items"] == [{"key": user, "path": "password"}], name


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_every_deployment_is_probed_spread_and_drained_one_at_a_time(overlay: str) -> None:
    budgets = of_kind(overlay, "PodDisruptionBudget")
    deployments = of_kind(overlay, "Deployment")
    assert budgets.keys() == deployments.keys() == {*ROLES, "gateway", "page"} - {"all"}
    for name, one in deployments.items():
        pod = one["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        (port,) = (port["containerPort"] for port in container["ports"] if port["name"] == "probe")
        said = {entry["name"]: entry.get("value") for entry in container["env"]}
        assert said["JETTISON_PROBE__PORT"] == str(port)
        paths = {probe: container[probe]["httpGet"]["path"] for probe in ("livenessProbe", "readinessProbe")}
        assert paths == {"livenessProbe": "/healthz", "readinessProbe": "/readyz"}
        spread = {one["topologyKey"] for one in pod["topologySpreadConstraints"]}
        assert "kubernetes.io/hostname" in spread
        labels = one["spec"]["template"]["metadata"]["labels"]
        for selector in (one["spec"]["selector"], budgets[name]["spec"]["selector"]):
            assert selector["matchLabels"].items() <= labels.items()


def test_a_worker_is_there_for_each_queue_that_fills_and_squeeze_alone_goes_to_none(stack: EmbeddedStack) -> None:
    scaled = of_kind("production", "ScaledObject")
    assert scaled.keys() == set(ACTORS)
    assert [name for name, one in scaled.items() if one["spec"]["minReplicaCount"] == 0] == ["squeeze"]
    accounts = re.findall(r"^  (\w+) \{", (ROOT / "infra" / "nats" / "rights.conf").read_text(), re.MULTILINE)
    kept = {one["name"] for one in streams_as_keda_asks(stack.endpoints.monitor, account="$G")["consumer_detail"]}
    for name, one in scaled.items():
        assert one["spec"]["scaleTargetRef"]["name"] == name
        triggers = [trigger["metadata"] for trigger in one["spec"]["triggers"]]
        # who asks a model has no priority lane
        lanes = LANES[:1] if name == "squeeze" else LANES
        assert [trigger["consumer"] for trigger in triggers] == [subjects.durable(name, lane) for lane in lanes]  # type: ignore[arg-type]
        for trigger in triggers:
            assert trigger["consumer"] in kept
            # an account that is not there reads as no lag, for ever
            assert trigger["account"] in accounts
            assert trigger["stream"] == subjects.WAKE_STREAM


def streams_as_keda_asks(monitor: str, *, account: str) -> Json:
    """Return the stream of slots from a real server, by the question of KEDA's scaler."""
    with urllib.request.urlopen(f"{monitor}/jsz?acc={account}&consumers=true&config=true", timeout=180) as answer:
        found = json.load(answer)
    (ours,) = (one for one in found["account_details"] if one["name"] == account)
    (stream,) = (one for one in ours["stream_detail"] if one["name"] == subjects.WAKE_STREAM)
    assert all({"num_pending", "num_ack_pending"} <= one.keys() for one in stream["consumer_detail"])
    return dict(stream)
