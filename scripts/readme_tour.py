"""Run the tour of the README with an installed package: ``python readme_tour.py README.md WHEEL``.

The network and the images that the tour takes for granted are random ones of CIFAR-10's size. Commands run as they are
printed, but on few images. The Python example must print what the README says that it prints.
"""

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
import sysconfig
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file

import robustatlas as ra

NETWORK = """
from torch import nn


def make():
    return nn.Sequential(nn.Conv2d(3, 8, 5, stride=4), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 49, 10))
"""
UNMET = 3
"""The exit code of ``check`` where a requirement is not met: a random network may well miss the README's."""


def check_installation(wheel: Path) -> None:
    """Refuse a package that is imported from elsewhere, or whose versions disagree."""
    site = Path(sysconfig.get_path("purelib"))
    assert Path(ra.__file__).is_relative_to(site), f"imported from {ra.__file__}, and not from {site}"
    assert version("robustatlas") == ra.__version__, (version("robustatlas"), ra.__version__)
    assert f"-{ra.__version__}-" in wheel.name, wheel
    assert ra.load_reference("multirobustbench-cifar10").defenses


def write_inputs() -> None:
    """Write the network, its weights and the images that the tour names."""
    Path("mynet.py").write_text(NETWORK, encoding="utf-8")
    names: dict[str, object] = {}
    exec(NETWORK, names)
    torch.manual_seed(0)
    save_file(names["make"]().state_dict(), "net.safetensors")  # type: ignore[operator]
    random = np.random.default_rng(0)
    images, labels = random.integers(0, 256, (200, 32, 32, 3), np.uint8), np.arange(200) % 10
    np.savez("cifar10_test.npz", images=images, labels=labels)


def run_command(line: str) -> None:
    """Run one command of the tour with the installed program, on the images in this folder."""
    program, *arguments = shlex.split(line, comments=True)
    command = [str(Path(sysconfig.get_path("scripts")) / program), *arguments]
    status = subprocess.run(command, env=os.environ | {"ROBUSTATLAS_DATA": "."}, check=False).returncode
    assert status == 0 or (arguments[0] == "check" and status == UNMET), f"exit code {status}: {line}"


def run_example(code: str) -> str:
    """Run the Python example, and return what it prints."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "README.md", "exec"), {})
    return printed.getvalue()


def main(readme: str, wheel: str) -> None:
    """Run the whole tour in this folder."""
    check_installation(Path(wheel))
    tour = Path(readme).read_text(encoding="utf-8").partition("## The tour")[2]
    blocks = dict(reversed(re.findall(r"```(\w+)\n(.*?)```", tour, re.DOTALL)))

    write_inputs()
    evaluation, *others = blocks["console"].replace("--samples 1000", "--samples 8").strip().splitlines()
    run_command(evaluation)
    run_command(evaluation.replace("runs/a", "runs/b"))  # the tour compares with a second run
    for line in others:
        run_command(line)
    for file in ("report.html", "curves.pdf", "methods.bib"):
        assert Path(file).stat().st_size, f"{file} is empty"

    printed, promised = run_example(blocks["python"]), blocks["text"].strip().splitlines()
    # Rounding differs among processors, and with it sizes and passes; the first and the last line are rounded enough.
    for line in (promised[0], promised[-1]):
        assert line in printed, f"the README says that its example prints\n{line}\nand it prints\n{printed}"


if __name__ == "__main__":
    main(*sys.argv[1:])
