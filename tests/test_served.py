"""Models behind an API, asked over HTTP on this machine: protocols, faults, budgets, and what is kept."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import robustatlas as ra
from command_line import entered
from helpers_core import digits_images, digits_network
from robustatlas.evaluation.field import read_field
from robustatlas.models.remote import asking
from robustatlas.models.remote.answers import KeptAnswers, Tally
from robustatlas.outcomes import query
from robustatlas.report.page import build_report
from serving import Service, serving
from test_docs import blocks

X, Y = digits_images(6)
SQUARE: dict[str, Any] = {"attacks": "square-linf", "strengths": {"square-linf": [0.1, 0.3]}, "progress": False}
pytestmark = pytest.mark.filterwarnings("ignore::robustatlas.common.errors.RobustnessWarning")


@pytest.fixture(autouse=True)
def waited(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The waits between tries, which are noted and not waited."""
    waits: list[float] = []
    monkeypatch.setattr(asking.Server.__init__, "__defaults__", (30.0, 6, waits.append))
    return waits


def asked(service: Service, path: str = "/ask", **settings: Any) -> ra.Classifier:
    return ra.load_model(f"{service.url}{path}", arguments=settings)


@pytest.mark.parametrize("answers", ["probabilities", "logits", "labels"])
@pytest.mark.parametrize(("path", "protocol"), [("/ask", "json"), ("/ask", "npy"), ("/v2/models/net", "oip")])
def test_every_protocol_gives_what_the_network_says(answers: str, path: str, protocol: str) -> None:
    with serving(answers=answers) as service:
        model = asked(service, path, protocol=protocol, at_once=4, classes=10)
        found = model.logits(X)
        with torch.no_grad():
            logits = digits_network()(X)
        assert model.knowledge == ("labels" if answers == "labels" else "scores")
        if answers == "labels":
            assert torch.equal(found.argmax(1), logits.argmax(1))
        else:
            torch.testing.assert_close(found.softmax(1), logits.softmax(1), atol=1e-5, rtol=1e-4)


def test_channels_come_last_and_pixels_whole_where_the_server_wants_that() -> None:
    with serving(last=True) as service:
        found = asked(service, "/v2/models/net").logits(X)
        torch.testing.assert_close(found.softmax(1), digits_network()(X).softmax(1).detach(), atol=1e-5, rtol=1e-4)
    with serving() as service:
        asked(service, pixels="uint8").logits(X)
        assert np.frombuffer(service.seen[0], np.float32).max() > 200


def test_a_server_that_fails_stalls_and_limits_the_rate_is_asked_again(waited: list[float]) -> None:
    with serving() as service:
        model = asked(service, timeout=0.3)
        service.faults = [503, "stall", 429, 500]
        model.logits(X)
        assert service.requests == 5
    assert len(waited) == 4
    assert waited[2] >= 3.0  # what Retry-After asks for
    assert 0.37 <= waited[0] <= 0.63 < waited[1] <= 1.25 and waited[3] >= 3.0  # twice as long each time


def test_a_server_that_never_answers_gets_one_sentence(waited: list[float]) -> None:
    with serving() as service:
        model = asked(service, retries=3)
        service.faults = [503] * 4
        with pytest.raises(ra.UserError, match=r"did not answer in 4 tries .*503 Service Unavailable.*kept"):
            model.logits(X)
    with pytest.raises(ra.UserError, match="the connection was refused"):
        asked(service, retries=1)


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("shape", r"shape \(5, 10\) about 6 images; expected \[B, C\] with B=6"),
        ("text", "answered <html>; expected JSON"),
        (400, "400 Bad Request; its reason: not now"),
        (404, "give the address that images are sent to"),
    ],
)
def test_a_wrong_answer_gets_one_sentence_at_once(fault: Any, said: str, waited: list[float]) -> None:
    with serving() as service:
        model = asked(service)
        service.faults = [fault]
        with pytest.raises(ra.UserError, match=said):
            model.logits(X)
    assert not waited


def test_fewer_images_are_sent_where_a_server_takes_fewer() -> None:
    with serving(most=2) as service:
        model = asked(service)
        assert torch.equal(model.logits(X), torch.cat([model.logits(X[:3]), model.logits(X[3:])]))


def test_headers_are_sent_and_neither_shown_nor_recorded(tmp_path: Path) -> None:
    with serving(token="Bearer secret-123") as service:
        with pytest.raises(ra.UserError, match="401 Unauthorized; give what it asks for by --header"):
            asked(service)
        command = ["evaluate", f"{service.url}/ask", "--data", "digits", "--samples", 2, "--queries", "8,900"]
        command += ["--attacks", "square-linf", "--strengths", "square-linf=0.3", "--run", tmp_path / "run"]
        said = entered(*command, "--header", "Authorization: Bearer secret-123").line
    kept = [path for path in tmp_path.rglob("*") if path.is_file() and b"secret-123" in path.read_bytes()]
    assert not kept and "secret-123" not in said
    assert ra.load_result(tmp_path / "run").passes("square-linf")[0] <= 8


SECRET = "key=s3cret-word&model=net"


def test_the_query_of_an_address_is_sent_and_neither_shown_nor_recorded(tmp_path: Path) -> None:
    """Not by the run, the report, the export, the terminal or any sentence; a hash stands in its place."""
    run = tmp_path / "run"
    with serving(query=SECRET) as service:
        address = f"{service.url}/ask?{SECRET}"
        for again in ((), ("--seed", "1")):
            command = ["evaluate", address, "--data", "digits", "--samples", 2, "--attacks", "square-linf"]
            command += ["--strengths", "square-linf=0.3", "--queries", 8, "--run", run, *again]
            done = entered(*command)
        told = [done.line, repr(asked(service, f"/ask?{SECRET}").origin)]
        for words in (["report", "-o", "report.html"], ["export", "-o", "out"], ["export", "--to", "parquet"]):
            name, *others = words
            others = [str(tmp_path / word) if "-o" in words and word == words[-1] else word for word in others]
            told.append(entered(name, run, *others).line)
        told += [entered("show", run, *more).line for more in ((), ("--explain",), ("--json",))]
        told += [entered("audit", run, "--device", "cpu", code=1).line]
    assert "give the whole address" in told[-1]
    files = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert not [path for path, content in files.items() if b"s3cret" in content or "s3cret" in str(path)]
    assert not [text for text in told if "s3cret" in text]
    model = ra.load_result(run).identity.model
    assert model.name == f"{service.url}/ask?..." and model.source.startswith(f"{service.url}/ask?sha256-")
    assert model.home == model.source
    assert b"/ask?..." in files[tmp_path / "report.html"]


@pytest.mark.parametrize(("path", "protocol"), [("/ask", "json"), ("/ask", "npy"), ("/v2/models/net", "oip")])
def test_every_protocol_sends_the_query_and_quotes_nothing_of_it(path: str, protocol: str) -> None:
    with serving(query=SECRET, token="Bearer t0ken-word") as service:
        settings = {"protocol": protocol, "headers": {"Authorization": "Bearer t0ken-word"}}
        model = asked(service, f"{path}?{SECRET}", **settings)
        assert model.logits(X).shape == (6, 10) and "s3cret" not in model.name
        for fault in ("echo", "text", 403, 503):
            service.faults = [fault] * 9
            with pytest.raises(ra.UserError, match=r"\?\.\.\. ") as refused:
                model.logits(X)
            assert "s3cret" not in str(refused.value) and "t0ken" not in str(refused.value)
    with (
        serving(query="another") as service,
        pytest.raises(ra.UserError, match=r"reason: Cannot GET \S*\?\.\.\.") as no,
    ):
        asked(service, f"{path}?{SECRET}", protocol=protocol)
    assert "s3cret" not in str(no.value)


def test_the_query_of_what_is_no_address_is_not_quoted(tmp_path: Path) -> None:
    for source in (
        "http:nowhere?key=s3cret",
        "http://[::1?key=s3cret",
        "https://hf.co/a/b?key=s3cret",
        "http://a b/?key=s3cret",
    ):
        with pytest.raises(ra.UserError) as refused:
            ra.load_model(source, arguments={"retries": 0})
        assert "s3cret" not in str(refused.value)
    (tmp_path / "field.txt").write_text("http://127.0.0.1/ask?key=s3cret")
    (entry,) = read_field(tmp_path / "field.txt")
    assert entry.name == "http---127.0.0.1-ask"


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("first", [True, False])
def test_no_redirect_is_followed(status: int, first: bool) -> None:
    """Not when the server is asked what it is, and not later: headers and query would go to another host."""
    with serving(token="Bearer secret-123") as there, serving(token="Bearer secret-123") as here:
        headers = {"Authorization": "Bearer secret-123"}
        leads = f"{there.url.replace('//', '//me:word@')}/ask?key=s3cret"
        here.elsewhere = leads if first else ""
        with pytest.raises(ra.UserError, match=f"no redirect is followed.*give {there.url}/ask\\?\\.\\.\\. if") as no:
            model = asked(here, headers=headers)
            here.elsewhere, here.faults = leads, [status]
            model.logits(X)
        assert "s3cret" not in str(no.value) and "word" not in str(no.value)
        assert there.requests == 0
        here.elsewhere, here.faults = "", [status]
        with pytest.raises(ra.UserError, match=f"answered {status} .*it names no other address"):
            asked(here, headers=headers).logits(X)
        here.faults, here.elsewhere = [], "/other"
        with pytest.raises(ra.UserError, match=f"give {here.url}/other if"):
            asked(here, headers=headers)


@pytest.mark.parametrize(
    ("faults", "settings", "images"),
    [
        ([503, "stall", 429], {"timeout": 0.3}, 4 * 6),
        ([413], {}, 6 + 3 + 3),
        ([500], {"at_once": 4}, 4 + 4 + 2),
        ([413, 503], {"at_once": 4}, 4 + 2 + 2 + 2 + 2),
    ],
)
def test_a_budget_counts_what_is_sent(faults: list[Any], settings: dict[str, Any], images: int) -> None:
    """Also what is sent again because the server failed or took fewer images at once."""
    for budget, enough in ((images, True), (images - 1, False)):
        with serving() as service:
            model, service.faults = asked(service, budget=budget, **settings), list(faults)
            if enough:
                model.logits(X)
                assert service.sent == images
            with pytest.raises(ra.UserError, match=f"budget of {budget}"):
                model.logits(X[:2] if enough else X)
            assert service.sent <= budget


def test_what_is_sent_to_learn_what_a_server_answers_counts(tmp_path: Path) -> None:
    """Before the model is there, and before its run is."""
    with serving(describes=False) as service:
        service.shape = (1, 8, 8)
        model = asked(service, budget=7)
        model.logits(X)
        with pytest.raises(ra.UserError, match="asked about 7 samples and 1 more"):
            model.logits(X[:1])
        with pytest.raises(ra.UserError, match=r"asked about 7 samples and \d+ more"):
            ra.evaluate(model, (X, Y), **SQUARE, run=tmp_path / "run")
        assert service.sent == 7


def test_what_was_answered_is_not_asked_again(tmp_path: Path) -> None:
    """An evaluation that its budget ends goes on, and asks in all what one without interruption asks, and a few."""
    with serving() as service:
        whole = ra.evaluate(asked(service, queries=12), (X, Y), **SQUARE, run=tmp_path / "whole", batch_size=3)
        uninterrupted = service.asked
    with serving() as service:
        budget = uninterrupted - 20
        with pytest.raises(ra.UserError, match=f"budget of {budget}"):
            ra.evaluate(asked(service, queries=12, budget=budget), (X, Y), **SQUARE, run=tmp_path / "run", batch_size=3)
        assert service.asked <= budget
        more = asked(service, queries=12, budget=uninterrupted + 4)
        result = ra.evaluate(more, (X, Y), **SQUARE, run=tmp_path / "run", batch_size=3)
        assert service.asked == uninterrupted + 4  # four of before, by which it is known that the model is the same
        assert np.array_equal(result.minimal_size("square-linf"), whole.minimal_size("square-linf"))
        assert result.passes("square-linf") == whole.passes("square-linf")
        service.shift = 3.0
        with pytest.raises(ra.UserError, match="another one by now"):
            ra.evaluate(asked(service, queries=12), (X, Y), **SQUARE, run=tmp_path / "run")


def test_workers_share_a_budget_and_what_was_answered(tmp_path: Path, watched: list[int]) -> None:
    with serving() as service:
        whole = ra.evaluate(asked(service, queries=10), (X, Y), **SQUARE, run=tmp_path / "whole", batch_size=3)
        alone = service.asked
    with serving() as service:
        few = asked(service, queries=10, budget=alone - 10)
        with pytest.raises(ra.UserError, match=f"budget of {alone - 10}"):
            ra.evaluate(few, (X, Y), **SQUARE, run=tmp_path / "run", batch_size=3, workers=2)
        assert len(list((tmp_path / "run" / "answers").glob("*.answers"))) >= 2
        assert service.asked <= alone - 10
        more = asked(service, queries=10)
        result = ra.evaluate(more, (X, Y), **SQUARE, run=tmp_path / "run", batch_size=3)
        assert service.asked <= alone + 4 * 3  # each process asks again what shows that the model is the same
        assert np.array_equal(result.minimal_size("square-linf"), whole.minimal_size("square-linf"))
    with serving() as service, pytest.raises(ra.UserError, match=f"budget of {alone - 10}"):
        ra.evaluate(asked(service, queries=10, budget=alone - 10), (X, Y), **SQUARE, batch_size=3, workers=2)
    assert service.asked <= alone - 10


def test_a_rate_is_one_for_all_processes(tmp_path: Path) -> None:
    one, other = Tally(tmp_path / "asked"), Tally(tmp_path / "asked")
    waits = [tally.charge(10, per_second=100.0)[1] for tally in (one, other, one, other)]
    np.testing.assert_allclose(waits, [0.0, 0.1, 0.2, 0.3], atol=0.05)


def test_a_process_goes_on_with_what_another_one_was_answered_meanwhile(tmp_path: Path) -> None:
    """A worker that died leaves a part to one that began before it."""

    def never(x: Any) -> Any:
        raise AssertionError(f"{len(x)} images are asked about again")

    x = np.random.default_rng(0).random((5, 1, 8, 8), np.float32)
    survivor, died = KeptAnswers(tmp_path), KeptAnswers(tmp_path)
    survivor.of(x[:1], lambda images: images.reshape(len(images), -1)[:, :3])
    answers = died.of(x[1:], lambda images: images.reshape(len(images), -1)[:, :3])
    assert np.array_equal(survivor.of(x[1:], never), answers)


@pytest.mark.parametrize("answers", ["probabilities", "labels"])
def test_attacks_are_chosen_by_what_the_answers_hold_and_queries_are_counted(answers: str) -> None:
    with serving(answers=answers) as service:
        result = ra.evaluate(asked(service, queries=40), (X, Y), samples=3, progress=False)
        assert result.attacks == (("square-linf", "square-l2") if answers == "probabilities" else ("hop-skip-jump-l2",))
        for attack in result.attacks:
            outcome = result.outcome(attack)
            assert (outcome.forward <= 40).all()
            broken = outcome.broken()
            assert outcome.queries is not None and ((outcome.queries >= 1) == broken).all()
            assert (np.where(broken, outcome.queries, 0).max(1) <= outcome.forward).all()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"protocol": "grpc"}, "protocol='grpc' is not known"),
        ({"answers": "words"}, "answers='words' is not known"),
        ({"layout": "chwn"}, "layout='chwn' is not known"),
        ({"at_once": 0}, "at_once=0"),
        ({"queries": 2}, "expected at least 3"),
        ({"token": 1}, "has no parameter 'token'"),
    ],
)
def test_settings_that_cannot_be_get_one_sentence(settings: dict[str, Any], said: str) -> None:
    with serving() as service, pytest.raises(ra.UserError, match=said):
        asked(service, **settings)


def test_a_server_that_says_nothing_of_itself_is_described_by_the_user() -> None:
    with serving(describes=False, answers="labels") as service:
        with pytest.raises(ra.UserError, match="does not say what it answers; give --set answers="):
            asked(service)
        assert asked(service, answers="labels", classes=10).logits(X).shape == (6, 10)
        with pytest.raises(ra.UserError, match="labels; expected probabilities"):
            asked(service, answers="probabilities").logits(X)


@pytest.mark.parametrize("address", ["http:nowhere", "http://user:word@127.0.0.1/ask"])
def test_addresses_that_cannot_be_get_one_sentence(address: str) -> None:
    with pytest.raises(ra.UserError, match=r"not an address|--header"):
        ra.load_model(address)


def test_options_of_served_models_are_for_these() -> None:
    entered("evaluate", "builtin:digits-linf", "--data", "digits", "--queries", 8, code=1)


def test_the_page_says_what_runs() -> None:
    net = digits_network()
    names: dict[str, Any] = {
        "ra": ra,
        "data": (X, Y),
        "ask": lambda x: net(torch.tensor(x)).softmax(1).detach().numpy(),
    }
    for block in blocks("served.md"):
        exec(compile(block.replace("queries=500", "queries=20"), "served.md", "exec"), names)
    assert names["outcome"].queries.shape == (4, 2)


def test_success_over_queries_is_shown(tmp_path: Path) -> None:
    """The same numbers on the terminal, as JSON, by SQL, and in the report."""
    run = tmp_path / "run"
    net = digits_network()
    ask = ra.from_predictions(lambda x: net(torch.tensor(x)).softmax(1).numpy(), queries=30)
    result = ra.evaluate(ask, (X, Y), **SQUARE, run=run)
    shown = entered("show", run).out
    assert "queries, square-linf at 0.3" in shown and "% broken" in shown
    told = json.loads(entered("show", run, "--json").out)
    weak, strong = told["attacks"]["square-linf"]["success over queries"]
    assert (weak["strength"], strong["strength"], strong["queries"][0]) == (0.1, 0.3, 10)
    queries = result.outcome("square-linf").queries
    assert queries is not None
    within = ((queries[:, 1] > 0) & (queries[:, 1] <= 10)).mean()
    assert strong["broken"][0]["value"] == pytest.approx(100 * within)
    (row,) = query("SELECT avg((queries[2] <= 10 AND queries[2] IS NOT NULL)::INT) FROM outcomes", run).rows
    assert row[0] == pytest.approx(within)
    page = build_report([result], tmp_path / "report.html").read_text(encoding="utf-8")
    assert "Success over queries" in page and f">{100 * within:.0f}</td>" in page
