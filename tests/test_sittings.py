"""Three sittings of somebody new, who reads only what is printed and shown: a paper, a go or no-go, a new attack."""

import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import robustatlas as ra
from command_line import entered
from robustatlas.metrics.references import Reference

MINE = """
from dataclasses import replace
from robustatlas.attacks.catalogue import attack_named

MINE = replace(attack_named("pgd-linf"), name="mine")
"""


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def typed(line: str, code: int = 0) -> str:
    """What a command prints, its lines joined."""
    return " ".join(entered(*line.split(), code=code, columns=100).out.split())


def _linear(data: ra.Dataset, file: Path) -> None:
    """A linear network that reads digits, in a file of ONNX."""
    onnx = pytest.importorskip("onnx")
    flat, wanted = data.images.flatten(1).numpy(), np.eye(10)[data.labels.numpy()]
    weights = np.linalg.lstsq(flat, wanted, rcond=None)[0].astype(np.float32)
    make, kind = onnx.helper, onnx.TensorProto.FLOAT
    graph = make.make_graph(
        [make.make_node("Flatten", ["x"], ["flat"]), make.make_node("MatMul", ["flat", "w"], ["y"])],
        "digits",
        [make.make_tensor_value_info("x", kind, ["batch", 1, 8, 8])],
        [make.make_tensor_value_info("y", kind, ["batch", 10])],
        [onnx.numpy_helper.from_array(weights, "w")],
    )
    onnx.save(make.make_model(graph, opset_imports=[make.make_opsetid("", 17)], ir_version=8), str(file))


def test_a_paper(tmp_path: Path) -> None:
    """From two networks to a table with intervals and p-values, a figure of three panels, and what to cite."""
    asked = "--attacks linf,l2,l1 --strengths linf=0.1 --strengths l2=0.5 --strengths l1=2 --effort low"
    for name in ("standard", "linf"):
        said = typed(f"evaluate builtin:digits-{name} --data digits --samples 16 {asked} --run {name}")
        assert "Strength: the largest change that an attack may make" in said
        assert f"More: robustatlas show {name}" in said
    first = typed("compare linf standard")
    verdict, numbers = first.split("95 % intervals", 1)
    assert verdict.index("Under all 3 attacks at once, ") < verdict.index("In the mean over L∞, L2, L1 and their ")
    assert numbers.index("clean accuracy") < numbers.index("McNemar")
    table = typed("compare linf standard --latex")
    assert "\\toprule" in table and "$p$ (1, 2)" in table and re.search(r"\d+\.\d \[\d+\.\d, \d+\.\d\]", table)
    assert "95 \\% intervals" in table and "corrected (Holm)" in table
    own = typed("show linf --latex")
    assert "\\toprule" in own and "$L_\\infty$ & 0.1 &" in own and "worst case" in own
    typed("figure linf standard --attacks linf,l2,l1 -o curves.pdf")
    assert b"/FontFile2" in (tmp_path / "curves.pdf").read_bytes(), "TrueType"
    methods = typed("cite linf -o methods.bib")
    assert "robustatlas" in methods and "BibTeX: methods.bib" in methods
    assert (tmp_path / "methods.bib").read_text().count("@") >= 3


def test_a_go_or_no_go(tmp_path: Path) -> None:
    """From a file of ONNX and a folder of images to a verdict on the first screen of one page."""
    data = ra.load_dataset("digits")
    _linear(data, tmp_path / "net.onnx")
    for k in range(40):
        folder = tmp_path / "pictures" / str(int(data.labels[k]))
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.uint8(data.images[k, 0] * 255)).save(folder / f"{k}.png")
    images = "--data imagefolder:pictures --strengths linf=0.05,0.1"
    said = typed(f"evaluate onnx:net.onnx {images} --attacks linf --effort low --run gate")
    assert "withstand L∞ at" in said
    passed = typed("check gate --require clean>=80")
    assert passed.startswith("onnx:net.onnx: ") and "withstand L∞ at" in passed and "All checks passed." in passed
    failed = typed("check gate --require linf@0.1>=90", code=3)
    assert "failed linf@0.1>=90" in failed and "1 check of 1 failed." in failed
    typed("report gate --require linf@0.1>=90 -o page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    body = page[page.index("<main") :]
    assert body.index("linf@0.1&gt;=90") < body.index('class="headline"')


def test_a_new_attack_on_a_board(tmp_path: Path) -> None:
    """One file and one command; the board says what is ranked, and what it takes to rank the new one."""
    (tmp_path / "own.py").write_text(MINE)
    few = "--data digits --samples 8 --strengths linf=0.1,0.2 --strengths mine=0.1,0.2 --effort low"
    said = typed(f"evaluate builtin:digits-linf {few} --attacks own.py:MINE,linf --run board")
    assert "mine" in said
    said = typed("leaderboard build board -o site")
    assert "No shipped reference is measured on this data; 'robustatlas reference' makes one, for any attack." in said
    assert (tmp_path / "site" / "index.html").is_file()
    table = ra.load_result("board").accuracies().restrict(["linf"])
    Reference("own", "measured here", table, ranked=("linf",)).to_json(tmp_path / "own.json")
    said = typed("leaderboard build board --reference own.json -o ranked")
    assert "Shown and not ranked, since own has no accuracies under it: mine." in said
    assert "'robustatlas reference' trains a model against it" in said
