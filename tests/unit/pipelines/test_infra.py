"""The cluster manifests: every file is reached, and names agree with the profile and the code."""

from pathlib import Path

import yaml

from components.canary_deploy.exposition import Exposition
from pipelines.profile import load_profile

INFRA = Path(__file__).parents[3] / "infra"
FOLDERS = ("base", "mlflow", "object-store", "serving", "monitoring")


def manifests():
    for folder in FOLDERS:
        for path in sorted((INFRA / folder).glob("*.yaml")):
            if path.name != "kustomization.yaml":
                yield from yaml.safe_load_all(path.read_text())


def containers(value):
    """Every mapping with an image, wherever it stands."""
    if isinstance(value, dict):
        if "image" in value:
            yield value
        for item in value.values():
            yield from containers(item)
    elif isinstance(value, list):
        for item in value:
            yield from containers(item)


def test_every_manifest_is_listed_in_its_kustomization():
    assert set(yaml.safe_load((INFRA / "kustomization.yaml").read_text())["resources"]) == set(FOLDERS)
    for folder in FOLDERS:
        listed = yaml.safe_load((INFRA / folder / "kustomization.yaml").read_text())["resources"]
        present = {path.name for path in (INFRA / folder).glob("*.yaml")} - {"kustomization.yaml"}
        assert set(listed) == present


def test_what_the_profile_names_exists():
    cluster = load_profile("h20").cluster
    assert cluster is not None
    names = {(item["kind"], item["metadata"]["name"]) for item in manifests()}
    assert {("Namespace", cluster.namespace), ("Namespace", cluster.serving_namespace)} <= names
    assert ("ServiceAccount", cluster.service_account) in names
    readme = (INFRA / "README.md").read_text()
    for secret in cluster.secrets:
        assert f"`{secret.name}`" in readme and all(f"`{key}`" in readme for key in secret.env)


def test_images_are_named_by_digest_and_bounded_in_memory():
    found = [container for item in manifests() for container in containers(item)]
    assert len(found) >= 5
    for container in found:
        assert "@sha256:" in container["image"]
        assert container["name"] == "merchant" or container["resources"]["limits"]["memory"]


def test_alerts_use_metrics_that_the_servers_export():
    rules = (INFRA / "monitoring/rules.yaml").read_text()
    for prefix, source in (("router", "router.py"), ("agent", "agent_service.py")):
        code = (INFRA.parent / "components/canary_deploy" / source).read_text()
        assert f'Exposition("{prefix}")' in code
        for name in {
            word.split("{")[0] for word in rules.replace("(", " ").replace(")", " ").replace("[", " ").split()
        }:
            if name.startswith(f"{prefix}_") and "latency" not in name:
                assert f'"{name.removeprefix(prefix + "_")}"' in code
    exported = Exposition("router")
    exported.latency(0.1, arm="champion")
    assert 'router_latency_seconds_bucket{arm="champion",le="0.1"}' in exported.text()


def test_the_trial_store_can_encrypt_with_a_key_from_a_secret():
    [store] = [container for item in manifests() for container in containers(item) if container["name"] == "seaweedfs"]
    [key] = [entry for entry in store["env"] if entry["name"] == "WEED_S3_SSE_KEY"]
    reference = key["valueFrom"]["secretKeyRef"]
    assert "value" not in key and not reference.get("optional")
    row = next(line for line in (INFRA / "README.md").read_text().splitlines() if f"`{reference['name']}`" in line)
    assert f"`{reference['key']}`" in row
