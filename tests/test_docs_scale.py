"""The job file for Kubernetes has the fields that KubeRay's definition of a RayJob has, and no others."""

import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest

yaml = pytest.importorskip("yaml")

PAGE = Path(__file__).parents[1] / "docs" / "scale.md"


def closed(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


TEXTS = {"type": "object", "additionalProperties": {"type": "string"}}
COUNT = {"type": "integer", "minimum": 0}
TEXT = {"type": "string"}
RESOURCES = closed(requests=TEXTS, limits=TEXTS)
CONTAINER = closed(name=TEXT, image=TEXT, resources=RESOURCES)
TEMPLATE = closed(spec=closed(containers={"type": "array", "items": CONTAINER, "minItems": 1}))
WORKERS = closed(
    groupName=TEXT, replicas=COUNT, minReplicas=COUNT, maxReplicas=COUNT, rayStartParams=TEXTS, template=TEMPLATE
)
JOB = closed(
    apiVersion={"const": "ray.io/v1"},
    kind={"const": "RayJob"},
    metadata=closed(name=TEXT),
    spec=closed(
        entrypoint=TEXT,
        shutdownAfterJobFinishes={"type": "boolean"},
        rayClusterSpec=closed(
            rayVersion=TEXT,
            headGroupSpec=closed(rayStartParams=TEXTS, template=TEMPLATE),
            workerGroupSpecs={"type": "array", "items": WORKERS, "minItems": 1},
        ),
    ),
)
"""The part of ``ray.io_rayjobs.yaml`` (KubeRay, ray.io/v1) that the page uses: quantities as texts, as ``kubectl``
takes them."""


def test_the_job_for_kubernetes_is_one() -> None:
    (text,) = re.findall(r"```yaml\n(apiVersion: ray.io.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    job = yaml.safe_load(text)
    jsonschema.validate(job, JOB)
    for group in job["spec"]["rayClusterSpec"]["workerGroupSpecs"]:
        assert group["minReplicas"] <= group["replicas"] <= group["maxReplicas"]
    assert job["spec"]["entrypoint"].startswith("robustatlas evaluate ")
    assert "--ray-address auto" in job["spec"]["entrypoint"]
