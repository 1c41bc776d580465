import os
import subprocess
import sys
import threading

import pytest
import torch

from acctax import ops
from acctax.errors import ConfigError
from acctax.ops import build, toolchain, verification

PROGRAM = """
import torch
from acctax import ops
ops.load()
ops.load()
print(ops.backend(), float(ops.rms_norm(torch.full((1, 4), 3.0), torch.ones(4), 0.0).sum()))
"""


def run(**environment: str) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-c", PROGRAM], env={**os.environ, **environment}, text=True,
                          capture_output=True, check=True)  # fmt: skip


@pytest.mark.parametrize("compiler", ["/nonexistent", "/bin/false"])
def test_without_a_working_compiler_one_line_says_so_and_the_reference_serves(tmp_path, compiler):
    done = run(CXX=compiler, ACCTAX_CACHE=str(tmp_path))
    assert done.stdout == "reference 4.0\n"
    (line,) = done.stderr.splitlines()
    assert "reference serves" in line and compiler.rpartition("/")[2] in line


def test_an_unwritable_cache_leaves_the_reference_too(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    done = run(ACCTAX_CACHE=str(blocked / "cache"))
    assert done.stdout == "reference 4.0\n"
    assert len(done.stderr.splitlines()) == 1


def test_backends_change_within_a_process(backend, random):
    logits = random(5000)
    ops.load("reference")
    assert ops.backend() == "reference"
    assert torch.equal(ops.law(logits, 0.7), verification.law(logits, 0.7))
    ops.load("native")
    assert ops.backend().startswith("native ")
    assert torch.equal(ops.rms_norm(torch.full((1, 4), 3.0), torch.ones(4), 0.0), torch.ones(1, 4))


def test_names_that_do_not_exist_are_refused():
    with pytest.raises(ConfigError, match="kernels=fast: must be native or reference"):
        ops.load("fast")
    with pytest.raises(ConfigError, match="isa=mmx"):
        ops.load("native", isa="mmx")


@pytest.fixture
def small_source(tmp_path, monkeypatch):
    """A stand-in for the kernels that builds in no time; build() finds it and an empty cache."""
    folder = tmp_path / "kernels" / "cpu"
    folder.mkdir(parents=True)
    source = folder / "one.cpp"
    source.write_text('extern "C" int one() { return 1; }\n')
    monkeypatch.setattr(build, "kernels_dir", lambda: tmp_path / "kernels")
    monkeypatch.setenv("ACCTAX_CACHE", str(tmp_path / "cache"))
    return source


def test_two_may_build_at_once_and_nothing_is_built_twice(small_source, capfd):
    built = []
    builders = [threading.Thread(target=lambda: built.append(build.build())) for _ in range(2)]
    for builder in builders:
        builder.start()
    for builder in builders:
        builder.join()
    assert built[0] == built[1]
    assert [p.name for p in built[0].parent.iterdir()] == [built[0].name]
    assert capfd.readouterr().err.count("building the CPU kernels") == 1
    stamp = built[0].stat().st_mtime_ns
    assert build.build().stat().st_mtime_ns == stamp
    assert capfd.readouterr().err == ""


def test_a_changed_source_is_built_anew(small_source):
    before = build.build()
    small_source.write_text('extern "C" int one() { return 2; }\n')
    assert build.build() != before


def test_a_source_that_does_not_compile_names_the_error(small_source):
    small_source.write_text("int one() { return undeclared; }\n")
    with pytest.raises(toolchain.BuildError, match="undeclared"):
        build.build()
