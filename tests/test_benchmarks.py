"""The studies run by hand run at all: on a tiny model, with the least of everything."""

import importlib.util
import json
import sys
from itertools import product
from pathlib import Path
from types import ModuleType

import pytest

from acctax.config import HubTarget
from acctax.draft.ngram import NgramDraft
from acctax.draft.self_draft import SelfDraft
from tests.tiny import FAMILIES, save_model

FOLDER = Path(__file__).parents[1] / "benchmarks"
LEAST = ["--prompts", "2", "--tokens", "6", "-K", "2"]


@pytest.fixture(scope="module")
def tiny_target(tmp_path_factory) -> HubTarget:
    folder = tmp_path_factory.mktemp("tiny")
    save_model(FAMILIES["llama"], folder)
    return HubTarget("tiny", str(folder))


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def table(study: ModuleType, monkeypatch, capsys, **stand_ins) -> list[list[str]]:
    for name, value in stand_ins.items():
        monkeypatch.setattr(study, name, value)
    monkeypatch.setattr(sys, "argv", [study.__name__, *LEAST])
    study.main()
    lines = capsys.readouterr().out.splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| ")]


def test_heads(tiny_target, monkeypatch, capsys):
    few = dict(SMOLLM2=tiny_target, HEADS=(), NGRAMS=[NgramDraft(1, 3, "latest")])
    _, _, *rows = table(load("heads"), monkeypatch, capsys, **few)
    assert [row[:2] for row in rows] == [[drafter, rule] for drafter in ("ngram:1-3:latest", SelfDraft().label)
                                         for rule in ("greedy", "T=1")]  # fmt: skip
    assert all(1 <= float(row[2].split()[0]) <= 3 for row in rows)


def test_same_context(tiny_target, monkeypatch, capsys):
    few = dict(SMOLLM2=tiny_target, SOURCES={"self": SelfDraft()}, TARGETS=("nvfp4_o",))
    _, _, (name, tv, agreement, *taus), quantized = table(load("same_context"), monkeypatch, capsys, **few)
    assert (name, float(tv.split()[0]), float(agreement.split()[0])) == ("bf16", 0, 1)
    assert all(cell.startswith("τ ") for cell in taus)
    assert quantized[0] == "nvfp4_o" and float(quantized[1].split()[0]) > 0


def test_verification(monkeypatch, tmp_path):
    study = load("verification")
    made = tmp_path / "made.json"
    monkeypatch.setattr(sys, "argv", ["verification", "--vocab", "300", "-K", "2", "--rounds", "1", "--device", "cpu",
                                      "--json", str(made)])  # fmt: skip
    study.main()
    rows = json.loads(made.read_text())["rows"]
    assert {(row["law"], row["logits"]) for row in rows} == set(product(study.RULES, study.SPREADS))
    assert all(row["us"] > 0 for row in rows)
