"""A run on a cluster of Ray, with a node that is killed in the middle of it."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from torch import Tensor

pytest.importorskip("ray")

import robustatlas as ra
import test_scale as scale
import test_training_shared_out as shared_out
from robustatlas.common.errors import UserError
from robustatlas.evaluation import Cluster
from robustatlas.evaluation.workers.cluster import connected
from robustatlas.training import make_reference
from robustatlas.training.shared_out import fill_folders


@pytest.fixture(scope="module")
def whole() -> Any:
    return scale.evaluate(None)


@pytest.fixture(scope="module")
def nodes() -> Iterator[Any]:
    """A cluster of a head that computes nothing, and two nodes of one CPU."""
    import ray
    from ray.cluster_utils import Cluster as Nodes

    made = Nodes(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    made.first, made.second = made.add_node(num_cpus=1), made.add_node(num_cpus=1)
    yield made
    ray.shutdown()
    made.shutdown()


def test_a_node_is_killed_and_another_comes(nodes: Any, tmp_path: Path, whole: Any) -> None:
    def change(parts: int) -> None:
        if parts == 2:
            nodes.remove_node(nodes.second, allow_graceful=False)
        if parts == 4:
            nodes.add_node(num_cpus=1)

    seen = scale.Seen(change)
    found = scale.evaluate(tmp_path, ray=nodes.address, progress=seen)
    scale.assert_same(found, whole)
    assert scale.computed_twice(tmp_path) == 0
    assert seen.parts == 8


class Dies(scale.Sick):
    """Kills its process instead."""

    def happens(self, logits: Tensor) -> Tensor:
        if super().happens(logits).isnan().any():
            os.kill(os.getpid(), signal.SIGKILL)
        return logits


def test_a_worker_is_killed(nodes: Any, tmp_path: Path, whole: Any) -> None:
    seen = scale.Seen()
    run = tmp_path / "run"
    scale.assert_same(scale.evaluate(run, net=Dies(tmp_path / "life", 1), ray=nodes.address, progress=seen), whole)
    assert any("A worker on the cluster was lost" in note for note in seen.notes)
    assert scale.computed_twice(run) == 0


def test_a_driver_is_killed_and_the_next_goes_on(nodes: Any, tmp_path: Path, whole: Any) -> None:
    script = """
        import os, signal, sys
        from pathlib import Path
        import test_scale as scale

        def kill(parts):
            if parts == 3:
                os.kill(os.getpid(), signal.SIGKILL)

        scale.evaluate(Path(sys.argv[1]), ray=sys.argv[2], progress=scale.Seen(kill))
    """
    driver = scale.started(script, tmp_path, nodes.address)
    driver.communicate(timeout=120)
    assert driver.returncode == -signal.SIGKILL
    assert ra.load_result(tmp_path).missing
    scale.assert_same(scale.evaluate(tmp_path, ray=nodes.address), whole)
    assert scale.computed_twice(tmp_path) == 0


def test_a_model_that_fails_is_named(nodes: Any, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="NaN or infinite logits"):
        scale.evaluate(None, net=scale.Sick(tmp_path / "lives", 9), ray=Cluster(nodes.address, workers=1))


def test_workers_that_do_not_fit(nodes: Any) -> None:
    with pytest.raises(UserError, match="No worker fits"):
        scale.evaluate(None, ray=Cluster(nodes.address, cpus=64))


def test_trainings_go_to_the_nodes(nodes: Any, tmp_path: Path) -> None:
    """Their folders come back."""
    training, test = ra.load_dataset("digits", "train").take(64), ra.load_dataset("digits")
    one = make_reference(shared_out.PLAN, training, test, tmp_path / "here" / "r", progress=False)
    two = make_reference(shared_out.PLAN, training, test, tmp_path / "there" / "r", progress=False, ray=nodes.address)
    assert one is not None
    assert one == two
    with pytest.raises(UserError, match="it takes no -1"):
        fill_folders(shared_out.write, "it", {tmp_path / "wrong": -1}, Cluster(nodes.address))


def test_a_cluster_of_its_own_is_as_urgent_as_this_process(nodes: Any) -> None:
    """And its own, beside another that runs on this machine."""
    with connected(Cluster(workers=1)) as ray:
        assert ray.get(ray.remote(lambda: os.nice(0)).remote()) == os.nice(0)
    assert "RAY_worker_niceness" not in os.environ


def test_impossible_clusters() -> None:
    with pytest.raises(UserError, match="cannot work"):
        Cluster(workers=0)
    with pytest.raises(UserError, match="expected True"):
        scale.evaluate(None, ray=3)
