import json
import math
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from acctax.analyze import Rules, analyze
from acctax.analyze.verdicts import LOSSES
from acctax.record import Arm, PromptRecord, Record, Round
from tests.analyze.simulate import LEDGER, NVFP4, QKV, REFERENCE, simulate

PUBLIC = json.loads((Path(__file__).parents[1] / "fixtures" / "public_sweeps.json").read_text())
RATIOS = ("accept/tau_ratio", "speed/W_AR", "speed/W_spec")
QUICK = Rules(resamples=500)


def contains(row, name, truth):
    e = row.estimate(name)
    return e.low <= truth <= e.high


def test_imports_without_torch():
    code = "import sys, acctax.analyze, acctax.report; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_losses_sum_to_the_gap_on_every_row():
    for seed in range(10):
        row = analyze(simulate(seed=seed, K=1 + seed % 6), QUICK)
        gap = math.log(row["bytes/W"]) - math.log(row["speed/W_spec"])
        assert sum(row[name] for name in LOSSES.values()) == pytest.approx(gap, abs=1e-9)


def test_intervals_cover_the_truth():
    K = 3
    vast = analyze(simulate(K, prompts=3000, rounds=2, noise=0, drift=0, seed=99), QUICK)
    A = vast["accept/tau_ratio"]
    W_spec = A * REFERENCE.C(K) / QKV.C(K)
    W_bytes = sum(LEDGER.values()) / sum(QKV.ledger.values())
    truth = {
        "accept/tau_ratio": A,
        "accept/tau": vast["accept/tau"],
        "accept/conditional_1": vast["accept/conditional_1"],
        "accept/conditional_3_ref": vast["accept/conditional_3_ref"],
        "speed/W_AR": REFERENCE.T1 / QKV.T1,
        "speed/W_spec": W_spec,
        "tax/clocked": 1 - (W_spec - 1) / (W_spec / A - 1),
        "tax/counted": vast["tax/counted"],
        "tax/ln_kernels": math.log(W_bytes * QKV.T1 / REFERENCE.T1),
        "tax/ln_verify_width": 0.0,  # both arms have the same slope
        "tax/ln_acceptance": -math.log(A),
    }
    rows = [analyze(simulate(K, seed=seed, noise=0.02), QUICK, seed=seed) for seed in range(150)]
    for name, value in truth.items():
        assert sum(contains(row, name, value) for row in rows) >= 0.88 * len(rows), name


def test_drift_cancels_in_ratios():
    calm, wild = (analyze(simulate(noise=1e-4, drift=drift), QUICK) for drift in (0, 0.5))
    for name in ("speed/W_AR", "speed/W_spec"):
        assert wild[name] == pytest.approx(calm[name], rel=1e-3)


def test_measured_against_itself():
    rows = [analyze(simulate(candidate=REFERENCE, is_reference=True, seed=seed), QUICK) for seed in range(60)]
    for row in rows:
        assert row.verdict == "REFERENCE"
        assert row["bytes/W"] == row["bytes/W_cycle"] == row["accept/tau_ratio"] == 1
        assert math.isnan(row["tax/counted"]) and math.isnan(row["tax/clocked"])
    for name in RATIOS:
        assert sum(contains(row, name, 1) for row in rows) >= 0.88 * len(rows)


def test_the_same_seed_gives_the_same_row():
    assert analyze(simulate(), QUICK).metrics() == analyze(simulate(), QUICK).metrics()


def test_a_record_read_back_gives_the_same_row():
    record = simulate()
    assert analyze(Record.from_json(record.to_json()), QUICK) == analyze(record, QUICK)


def test_case_study_replayed():
    """The seed's published speeds and τ through the whole analysis: 11.78 %, 1.93 %, 83.6 %."""
    study, expect = PUBLIC["case_study"], PUBLIC["case_study"]["expect"]
    B = {"qkv": study["qkv_share_of_B_token"], "rest": 1 - study["qkv_share_of_B_token"]}
    quantized = B | {"qkv": B["qkv"] * study["nvfp4_bytes_per_weight"] / 2}

    def arm(measured: dict[str, float], ledger: dict[str, float]) -> Arm:
        cycles, C = 1000, measured["tau"] / measured["tok_s"]
        committed = np.diff(np.round(measured["tau"] * np.arange(cycles + 1))).astype(int).tolist()
        prompt = PromptRecord(
            "p",
            "all",
            8,
            list(range(sum(committed))),
            [3] * cycles,
            [n - 1 for n in committed],
            committed,
            False,
            False,
            cycles * C,
        )
        clocked = Round({1: 0.7 * C, 4: 0.8 * C}, 0.1 * C, C, 0.75 * C)
        return Arm([prompt, prompt], [clocked, clocked], ledger, ledger)

    record = replace(simulate(), reference=arm(study["before"], B), candidate=arm(study["after"], quantized))
    row = analyze(record, QUICK)
    assert row["speed/tok_s_ref"] == pytest.approx(147.87)
    assert row["speed/tok_s"] == pytest.approx(150.73)
    assert row["tax/potential"] == pytest.approx(expect["potential_gain"], abs=5e-5)
    assert row["tax/realized"] == pytest.approx(expect["realized_gain"], abs=5e-5)
    assert row["tax/clocked"] == pytest.approx(expect["acceptance_tax"], abs=5e-4)
    assert row["bytes/W"] == pytest.approx(1 / (1 - expect["ledger_B_token_fall"]), abs=5e-4)


def test_speeds_of_the_four_corners():
    row = analyze(simulate(K=3, noise=0, drift=0), QUICK)
    for suffix, side in (("_ref", REFERENCE), ("", QKV)):
        assert row[f"time/T1_ms{suffix}"] == pytest.approx(1e3 * side.T1)
        assert row[f"time/T_verify_ms{suffix}"] == pytest.approx(1e3 * side.T(4))
        assert row[f"time/O_ms{suffix}"] == pytest.approx(1e3 * side.overhead)
        assert row[f"time/c{suffix}"] == pytest.approx(side.draft / side.T1)
        assert row[f"speed/tok_s{suffix}"] == pytest.approx(row[f"accept/tau{suffix}"] / side.C(3))
        assert row[f"speed/tok_s_ar{suffix}"] == pytest.approx(1 / (side.T1 + side.overhead))
        assert row[f"speed/agreement{suffix}"] == pytest.approx(1)
        assert row[f"bytes/BW_eff_GBs{suffix}"] == pytest.approx(sum(side.ledger.values()) / side.T1 / 1e9)
    assert row["bytes/W_cycle"] == pytest.approx((271e6 + 405e6) / (271e6 - 34e6 * (1 - NVFP4) + 405e6))


def test_plain_decoding():
    row = analyze(simulate(K=0), QUICK)
    assert row["accept/tau"] == row["accept/tau_ratio"] == 1
    assert row["tax/ln_acceptance"] == row["tax/ln_verify_width"] == 0
    assert row["tax/counted"] == row["tax/clocked"] == 0
    assert math.isnan(row["accept/alpha_geo"]) and math.isnan(row["time/c"])
    assert row.verdict == "ACCEPT"


def test_lookup_that_often_finds_nothing():
    record = simulate(K=4, draft_source="ngram:1-3:latest")
    arms = []
    for arm in (record.reference, record.candidate):
        prompts = [
            replace(
                p,
                tokens=list(range(10)),
                drafted=[4, 0, 0, 4],
                accepted=[4, 0, 0, 2],
                committed=[5, 1, 1, 3],
                capped=False,
            )
            for p in arm.prompts
        ]
        arms.append(replace(arm, prompts=prompts))
    row = analyze(replace(record, reference=arms[0], candidate=arms[1]), QUICK)
    assert row["accept/tau"] == pytest.approx(2.5)
    assert row["accept/draft_rate"] == 0.75
    assert row.verdict != "INVALID"  # the clocked cycles had drafts, many of these had none


def test_metrics_have_values_and_groups():
    metrics = analyze(simulate(candidate=REFERENCE, is_reference=True), QUICK).metrics()
    assert all(math.isfinite(value) for value in metrics.values())
    assert {name.partition("/")[0] for name in metrics} == {
        "speed",
        "accept",
        "tax",
        "time",
        "bytes",
        "behaviour",
        "predict",
    }
    for name in RATIOS + ("accept/tau_ref", "speed/tok_s_ar", "time/T1_ms", "bytes/BW_eff_GBs"):
        assert metrics[f"{name}_lo"] <= metrics[name] <= metrics[f"{name}_hi"]


def test_metrics_leave_out_what_stands_by_position():
    row = analyze(simulate(3), QUICK)
    assert row["accept/conditional_2_lo"] < row["accept/conditional_2"] < row["accept/conditional_2_hi"]
    assert not any(name.startswith(("accept/conditional", "accept/unconditional")) for name in row.metrics())


def test_looped_prompts_are_counted():
    record = simulate()
    looped = [replace(p, looped=i < 3) for i, p in enumerate(record.reference.prompts)]
    row = analyze(replace(record, reference=replace(record.reference, prompts=looped)), QUICK)
    assert (row.prompts, row["behaviour/looped_ref"], row["behaviour/looped"]) == (21, 3, 0)


def test_one_round_has_no_interval_and_no_verdict():
    row = analyze(simulate(rounds=1), QUICK)
    assert math.isnan(row["speed/W_spec_lo"])
    assert row.verdict == "UNDECIDED" and "round" in row.remedy
