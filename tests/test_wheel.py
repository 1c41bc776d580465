"""The wheel carries conf/ and kernels/, and works where the checkout is out of reach."""

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Path:
    """A folder that holds the wheel's content, to be put on PYTHONPATH."""
    dist, site = tmp_path_factory.mktemp("dist"), tmp_path_factory.mktemp("site")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    subprocess.run([*pip, "wheel", "--no-deps", "--no-build-isolation", "-w", dist, CHECKOUT], check=True)
    [wheel] = dist.glob("acctax-*.whl")
    subprocess.run([*pip, "install", "--no-deps", "--no-index", "--target", site, wheel], check=True)
    return site


@pytest.fixture
def python(installed, tmp_path):
    """python(*arguments) runs in an empty folder; -S leaves out the .pth file that makes the checkout importable."""
    def run(*arguments: str) -> subprocess.CompletedProcess:
        path = os.pathsep.join([str(installed), sysconfig.get_path("purelib"), sysconfig.get_path("platlib")])
        return subprocess.run([sys.executable, "-S", *arguments], cwd=tmp_path, env=os.environ | {"PYTHONPATH": path},
                              capture_output=True, text=True)

    return run


def test_the_wheel_finds_its_own_folders(python, installed):
    code = "from acctax import paths; print(paths.conf_dir(), paths.kernels_dir(), sep='\\n')"
    conf, kernels = map(Path, python("-c", code).stdout.split())
    assert (conf, kernels) == (installed / "acctax/conf", installed / "acctax/kernels")
    for shipped, source in ((conf, CHECKOUT / "conf"), (kernels, CHECKOUT / "kernels")):
        assert _files(shipped) == _files(source)


def _files(folder: Path) -> set[Path]:
    return {file.relative_to(folder) for file in folder.rglob("*") if file.is_file()}


def test_the_wheel_shows_its_options(python):
    shown = python("-m", "acctax", "--help")
    assert shown.returncode == 0 and "target: gemma3_270m, hf, random_llama, smollm2_135m" in shown.stdout


def test_the_wheel_finds_its_sweeper_and_checks_a_cell(python):
    refused = python("-m", "acctax", "target=random_llama", "K=600", "measure.max_new_tokens=600")
    assert refused.returncode == 2 and refused.stderr.startswith("acctax: error: K=600: must be below")
