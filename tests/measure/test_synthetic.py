"""The whole pipeline against a known truth: acceptance that was given is the acceptance that is reported."""

import math

import pytest

from acctax.analyze import Rules, analyze
from acctax.errors import ConfigError
from acctax.measure.job import measure, preflight
from acctax.progress import Progress

GIVEN = [0.8, 0.7, 0.6]
SMALL = ["target=random_llama", "measure.prompts=12", "measure.max_new_tokens=120", "measure.rounds=2",
         "measure.cycles=1"]  # fmt: skip
SYNTHETIC = ["draft_source=synthetic", f"draft_source.acceptance={GIVEN}"]
LIKE = "draft_source.like={kind: self, recipe: int8_all}"


@pytest.fixture
def job(compose):
    def run(*overrides, source=SYNTHETIC, K=3):
        cell = compose(*SMALL, *source, f"K={K}", *overrides)
        preflight(cell)
        return measure(cell, Progress.silent())

    return run


def expected(acceptance):
    return 1 + sum(math.prod(acceptance[: i + 1]) for i in range(len(acceptance)))


def test_the_acceptance_measured_is_the_one_given(job):
    row = analyze(job("target_quant=nvfp4", "decoding=sample"), Rules(resamples=500))
    for suffix in ("", "_ref"):
        tau = row.estimate(f"accept/tau{suffix}")
        assert tau.low <= expected(GIVEN) <= tau.high and tau.high - tau.low < 0.3
        for i, a in enumerate(GIVEN, 1):
            assert row[f"accept/conditional_{i}{suffix}"] == pytest.approx(a, abs=0.06)


@pytest.mark.parametrize("overrides", [["target_quant=nvfp4"], [LIKE, "drafter_quant=nvfp4_all"]])
def test_two_configurations_at_equal_acceptance(job, overrides):
    record = job(*overrides)
    row = analyze(record, Rules(resamples=500))
    assert row.verdict != "INVALID" or "end-to-end" in row.reason  # the clock of a busy machine
    assert row.estimate("accept/tau_ratio") == (1, 1, 1) and row["tax/ln_acceptance"] == 0
    assert row["speed/W_spec"] == pytest.approx(row["time/C_ms_ref"] / row["time/C_ms"])
    assert row["bytes/W_cycle"] > 1
    texts = [[prompt.tokens for prompt in arm.prompts] for arm in (record.reference, record.candidate)]
    assert texts[0] != texts[1]  # each target said what follows


def test_an_imitated_drafter_costs_what_it_costs(job):
    alone, like = job(), job(LIKE)
    assert alone.reference.bytes_cycle["drafter"] == 0 < like.reference.bytes_cycle["drafter"]
    assert like.choices["draft_source"] == "synthetic:0.8,0.7,0.6+self:int8_all"
    assert [p.accepted for p in alone.reference.prompts] == [p.accepted for p in like.reference.prompts]


def test_recorded_lengths_are_replayed(job, tmp_path):
    recorded = job(source=["draft_source.recipe=nvfp4_all"])
    file = tmp_path / "record.json"
    file.write_text(recorded.to_json())
    replay = job(f"draft_source.replay={file}", "target_quant=int8")
    lengths = [n for prompt in recorded.reference.prompts for n in prompt.accepted]
    begun = set()
    for prompt in replay.reference.prompts + replay.candidate.prompts:
        runs = [(2 * lengths)[i : i + len(prompt.accepted)] for i in range(len(lengths))]
        assert prompt.accepted in runs
        begun.add(runs.index(prompt.accepted))
    assert len(begun) > 6
    with pytest.raises(ConfigError, match="K=4: must be at most 3"):
        job(f"draft_source.replay={file}", K=4)


def test_a_record_that_is_none(compose, tmp_path):
    file = tmp_path / "record.json"
    for text in ("{", "[]", '{"choices": {}}'):
        file.write_text(text)
        with pytest.raises(ConfigError, match="draft_source.replay=.*must be the record.json of a measured cell"):
            compose(*SMALL, *SYNTHETIC, f"draft_source.replay={file}")
