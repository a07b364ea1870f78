"""Models behind an API: the recipe of the guide, and attacks that count their queries."""

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import robustatlas as ra
from command_line import entered
from helpers_core import digits_images, digits_network
from robustatlas.outcomes import query
from robustatlas.report.page import build_report
from test_docs import blocks

X, Y = digits_images(6)
NET = digits_network()
SQUARE: dict[str, Any] = {"attacks": "square-linf", "strengths": {"square-linf": [0.1, 0.3]}, "progress": False}
pytestmark = pytest.mark.filterwarnings("ignore::robustatlas.common.errors.RobustnessWarning")


def probabilities(x: Any) -> Any:
    with torch.no_grad():
        return NET(torch.as_tensor(x)).softmax(1).numpy()


def labels(x: Any) -> Any:
    return probabilities(x).argmax(1)


@dataclass
class Service:
    """A server on this machine, which answers about the images ``asked`` until these are more than ``most``."""

    url: str
    asked: list[bytes] = field(default_factory=list)
    most: int = 10_000


@pytest.fixture
def service() -> Iterator[Service]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            given = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["images"]
            images = np.array(given, np.float32)
            fails = len(served.asked) + len(images) > served.most
            body = b"" if fails else json.dumps({"probabilities": probabilities(images).tolist()}).encode()
            served.asked += [] if fails else [image.tobytes() for image in images]
            self.send_response(503 if fails else 200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    served = Service(f"http://127.0.0.1:{server.server_port}/predict")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield served
    server.shutdown()
    server.server_close()
    thread.join()


def recipe(service: Service) -> None:
    """Write the recipe of the guide, with the address of ``service``, to the working directory."""
    (code,) = (block for block in blocks("data_and_models.md") if block.startswith("# served.py"))
    assert code.count("http://127.0.0.1:8000/predict") == 1
    Path("served.py").write_text(code.replace("http://127.0.0.1:8000/predict", service.url), encoding="utf-8")


def evaluated(**arguments: Any) -> ra.Result:
    model = ra.load_model("served.py:model", arguments={"queries": 12} | arguments)
    return ra.evaluate(model, (X, Y), **SQUARE, batch_size=3, run="run")


def test_the_recipe_finds_what_is_found_without_a_server(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    recipe(service)
    found = evaluated()
    truth = ra.evaluate(ra.from_predictions(probabilities, queries=12), (X, Y), **SQUARE, batch_size=3)
    np.testing.assert_allclose(found.minimal_size("square-linf"), truth.minimal_size("square-linf"), rtol=1e-5)
    assert (found.outcome("square-linf").forward <= 12).all()
    assert len(service.asked) == len(set(service.asked))


def test_what_was_answered_is_not_asked_again(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither after a server that failed, nor in another run."""
    monkeypatch.chdir(tmp_path)
    recipe(service)
    service.most = 20
    with pytest.raises(ra.UserError, match="503"):
        evaluated()
    assert 0 < len(service.asked) <= 20
    service.most = 10_000
    found = evaluated()
    assert len(service.asked) == len(set(service.asked)) > 20
    service.most = 0
    again = ra.load_model("served.py:model", arguments={"queries": 12})
    repeated = ra.evaluate(again, (X, Y), **SQUARE, batch_size=3)
    assert np.array_equal(repeated.minimal_size("square-linf"), found.minimal_size("square-linf"))


def test_the_command_of_the_recipe(service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    recipe(service)
    command = "evaluate served.py:model --set queries=8 --data digits --samples 2 --batch-size 32 --run runs/served"
    entered(*command.split(), "--attacks", "square-linf", "--strengths", "square-linf=0.3")
    assert ra.load_result("runs/served").passes("square-linf")[0] <= 8


@pytest.mark.parametrize(
    ("answers", "attacks"), [("probabilities", ("square-linf", "square-l2")), ("labels", ("hop-skip-jump-l2",))]
)
def test_attacks_are_chosen_by_what_the_answers_hold_and_queries_are_counted(
    answers: Any, attacks: tuple[str, ...]
) -> None:
    function = probabilities if answers == "probabilities" else labels
    model = ra.from_predictions(function, answers, classes=10, queries=40)
    result = ra.evaluate(model, (X, Y), samples=3, progress=False)
    assert result.attacks == attacks
    for attack in attacks:
        outcome = result.outcome(attack)
        assert (outcome.forward <= 40).all()
        broken = outcome.broken()
        assert outcome.queries is not None and ((outcome.queries >= 1) == broken).all()
        assert (np.where(broken, outcome.queries, 0).max(1) <= outcome.forward).all()


def test_success_over_queries_is_shown(tmp_path: Path) -> None:
    """The same numbers on the terminal, as JSON, by SQL, and in the report."""
    run = tmp_path / "run"
    result = ra.evaluate(ra.from_predictions(probabilities, queries=30), (X, Y), **SQUARE, run=run)
    shown = entered("show", run).out
    assert "queries, square-linf at 0.3" in shown and "% broken" in shown
    told = json.loads(entered("show", run, "--json").out)
    weak, strong = told["attacks"]["square-linf"]["success over queries"]
    assert (weak["strength"], strong["strength"], strong["queries"][0]) == (0.1, 0.3, 10)
    queries = result.outcome("square-linf").queries
    assert queries is not None
    within = ((queries[:, 1] > 0) & (queries[:, 1] <= 10)).mean()
    assert strong["broken"][0]["value"] == pytest.approx(100 * within)
    assert ra.metrics.success_over_queries(queries[:, 1], [10])[0] == pytest.approx(100 * within)
    (row,) = query("SELECT avg((queries[2] <= 10 AND queries[2] IS NOT NULL)::INT) FROM outcomes", run).rows
    assert row[0] == pytest.approx(within)
    page = build_report([result], tmp_path / "report.html").read_text(encoding="utf-8")
    assert "Success over queries" in page and f">{100 * within:.0f}</td>" in page
