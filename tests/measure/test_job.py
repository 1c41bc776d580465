"""A job on a small random model: what it counts is deterministic, paired and complete."""

import os
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from acctax.analyze.rows import analyze
from acctax.decode.cycle import Cycle
from acctax.decode.static import StaticGeneration
from acctax.errors import ConfigError
from acctax.measure import clock as clocking
from acctax.measure.arms import Arm
from acctax.measure.clock import _typical
from acctax.measure.decoding import decode_all
from acctax.measure.job import DEFAULT_THREADS, measure, preflight
from acctax.measure.workload import Prompt
from acctax.progress import Progress
from acctax.record import Record

SMALL = ["target=random_llama", "measure.prompts=4", "measure.max_new_tokens=16", "measure.rounds=3",
         "measure.cycles=2", "decoding=sample"]  # fmt: skip


@pytest.fixture
def job(compose):
    def run(*overrides) -> Record:
        cell = compose(*SMALL, *overrides)
        preflight(cell)
        return measure(cell, Progress.silent())

    return run


def counted(arm):
    return [replace(prompt, seconds=0.0) for prompt in arm.prompts]


def test_a_cell_against_itself_counts_the_same_twice(job):
    record = job("K=2")
    assert record.is_reference
    assert counted(record.reference) == counted(record.candidate)
    assert record.reference.bytes_cycle == record.candidate.bytes_cycle
    row = analyze(record)
    assert row["accept/tau_ratio"] == 1.0 and row["bytes/W"] == 1.0


def test_a_record_holds_together_and_comes_back_as_it_was(job):
    record = job("K=3", "target_quant=nvfp4")
    for prompt in record.candidate.prompts:
        assert sum(prompt.committed) == len(prompt.tokens) == 16
        assert all(a <= d <= 3 for a, d in zip(prompt.accepted, prompt.drafted))
        assert all(c == a + 1 for c, a in list(zip(prompt.committed, prompt.accepted))[:-1])
    for clock in record.candidate.rounds:
        assert sorted(clock.T) == [1, 2, 3, 4] and clock.C >= clock.D > 0
    assert sum(record.candidate.bytes_ar.values()) < sum(record.reference.bytes_ar.values())
    assert len(record.bandwidth) == 3 and record.memory_peak > 1 << 20
    assert all(prompt.joules is None for prompt in record.candidate.prompts)
    assert Record.from_json(record.to_json()) == record


def test_plain_decoding_is_a_cell_too(job):
    record = job("draft_source=none", "target_quant=int8")
    assert all(set(prompt.committed) == {1} for prompt in record.candidate.prompts)
    assert record.candidate.bytes_cycle == record.candidate.bytes_ar | {"drafter": 0.0}
    assert analyze(record)["accept/tau"] == 1.0


def test_the_drafter_alone_changes_acceptance_and_never_bytes_of_the_target(job):
    record = job("K=2", "drafter_quant=nvfp4_all")
    assert record.candidate.bytes_ar == record.reference.bytes_ar
    assert record.candidate.bytes_cycle["drafter"] < record.reference.bytes_cycle["drafter"]


@pytest.mark.parametrize("source", ["self", "ngram", "synthetic"])
def test_a_gpus_cycle_counts_what_a_cpus_counts(job, monkeypatch, source):
    """The path of device=cuda, its steps called and not replayed: the same counts, and times that hold together."""
    chosen = ("K=3", "target_quant=nvfp4", f"draft_source={source}")
    expected = job(*chosen)

    def static(arm, source):
        return StaticGeneration(arm.target, source, arm.rule, arm.stop_tokens, arm.K)

    monkeypatch.setattr(Arm, "_generation", static)
    record = job(*chosen)
    for arm, its in ((record.reference, expected.reference), (record.candidate, expected.candidate)):
        assert counted(arm) == counted(its)
        assert all(sorted(clock.T) == [1, 2, 3, 4] and clock.C >= clock.D for clock in arm.rounds)
    assert record.same_context == expected.same_context


def test_a_format_without_a_kernel_on_a_gpu_is_refused_at_once(compose, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    with pytest.raises(ConfigError, match="format=nvfp4_a8: must be one of bf16, .* with device=cuda"):
        preflight(compose(*SMALL, "device=cuda", "target_quant=nvfp4_a8_all"))
    with pytest.raises(ConfigError, match="device.kernels=reference: must be native on a GPU"):
        compose(*SMALL, "device=cuda", "device.kernels=reference")
    preflight(compose(*SMALL, "device=cuda", "target_quant=nvfp4_all"))


def test_greedy_text_is_the_same_for_every_K(job):
    texts = [[p.tokens for p in job("decoding=greedy", f"K={K}").candidate.prompts] for K in (0, 1, 4)]
    assert texts[0] == texts[1] == texts[2]


def test_a_prompt_does_not_depend_on_its_neighbours(job):
    few, more = (job("K=2", f"measure.prompts={n}").candidate for n in (2, 4))
    assert counted(few) == counted(more)[:2]


def test_threads_are_each_cells_own(job):
    all_of_them = os.cpu_count()
    assert job("K=1", f"device.threads={all_of_them}").environment["threads"] == str(all_of_them)
    assert job("K=1").environment["threads"] == str(DEFAULT_THREADS)


def test_no_arm_follows_itself_more_often_than_the_other(monkeypatch):
    """The one that does would find its own weights in the caches, and be the faster one by that alone."""
    order = []

    class Turns:
        def __init__(self, arm, K):
            self.arm, self.rounds = arm, []

        def begin(self, prompt, seed):
            order.append(" ")

        def turn(self):
            order.append(self.arm.name)

        def finish(self):
            pass

    monkeypatch.setattr(clocking, "ArmClock", Turns)
    arms = [SimpleNamespace(name=name, target=SimpleNamespace(device=torch.device("cpu"))) for name in "AB"]
    monkeypatch.setattr(clocking, "read_bandwidth", lambda device: 1e9)
    clocking.clock(arms, [[1]], 2, range(3), 3, 0, Progress.silent())
    assert "".join(order).split() == ["ABABAB", "BABABA", "ABABAB"]


def test_arms_take_turns(monkeypatch):
    order = []

    class Turn:
        capped, finished, text, rule = False, True, [0], None
        target = SimpleNamespace(device=torch.device("cpu"))

        def __init__(self, name):
            self.name = name

        def begin(self, tokens, seed, max_new_tokens):
            order.append((self.name, seed))

    prompts = [(Prompt(str(i), "test", ("x",)), [0]) for i in range(3)]
    decode_all([Turn("A"), Turn("B")], prompts, 1, 4, 7, Progress.silent())
    assert "".join(name for name, _ in order) == "ABBAAB"
    seeds = [seed for _, seed in order]
    assert seeds[0] == seeds[1] != seeds[2] == seeds[3]  # the same for both arms


def test_a_typical_cycle_is_a_mean_over_widths_and_a_median_within():
    cycles = [Cycle(d, 0, 1, 0.0, s) for d, s in ((0, 1.0), (0, 1.0), (0, 9.0), (4, 3.0))]
    assert _typical(cycles, lambda cycle: cycle.seconds) == (3 * 1.0 + 3.0) / 4


def test_what_does_not_fit_is_found_before_anything_runs(compose):
    for overrides, message in (
        (["K=512"], r"K=512: must be at most measure.max_new_tokens \(16\)"),
        (["K=512", "measure.max_new_tokens=512"], "K=512: must be below the target's context of 512"),
        (["measure.max_new_tokens=500"], "must fit the target's context"),
        (['target_quant.rules=[{pattern: "*.q_proj", format: int4, group: 48}]'], "48"),
        (["draft_source.recipe=nothing"], "recipe=nothing: must be one of"),
        (["decoding.top_k=100000"], "top_k=100000: must be at most [0-9]+, the target's vocabulary"),
    ):
        with pytest.raises(ConfigError, match=message):
            preflight(compose(*SMALL, *overrides))
