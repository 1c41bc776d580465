"""The named experiments of conf/: which cells each measures, and what the command line may change."""

import pytest

RECIPES = {"bf16", "nvfp4_qkv", "nvfp4_o", "nvfp4_mlp", "nvfp4_lm_head", "nvfp4", "nvfp4_all", "int8", "int4", "fp8"}


@pytest.fixture
def measured(cli, fake_work):
    """measured("experiment=k_sweep") is the cells that it would measure, in order."""
    fake_work.preflight = lambda cell: None

    def run(*arguments: str):
        fake_work.measured.clear()
        outcome = cli(*dict.fromkeys([*arguments, "tracking.reuse=false"]))
        assert outcome.code == 0, outcome.err
        return list(fake_work.measured)

    return run


def test_k_sweep_is_over_K_at_one_quantization(measured):
    cells = measured("experiment=k_sweep")
    assert [(cell.target_quant.name, cell.K) for cell in cells] == [("nvfp4_qkv", K) for K in range(1, 7)]


def test_the_command_line_goes_before_the_experiment(measured):
    cells = measured("experiment=k_sweep", "target_quant=int8", "K=2,4", "seed=7")
    assert [(cell.target_quant.name, cell.K, cell.seed) for cell in cells] == [("int8", 2, 7), ("int8", 4, 7)]


def test_quant_sweep_is_over_the_recipes_at_one_K(measured):
    cells = measured("experiment=quant_sweep", "K=2")
    assert {cell.K for cell in cells} == {2} and RECIPES <= {cell.target_quant.name for cell in cells}


def test_drafter_sweep_crosses_target_and_drafter(measured):
    cells = measured("experiment=drafter_sweep")
    formats = {(c.target_quant.name, c.drafter_quant.name if c.drafter_quant else "none") for c in cells}
    targets, drafters = ({pair[i] for pair in formats} for i in (0, 1))
    assert {"bf16"} < targets and {"none"} < drafters and len(formats) == len(targets) * len(drafters) == len(cells)


def test_paper_is_all_three_as_one_sweep_each_cell_once(measured):
    parts = [measured(f"experiment={name}_sweep") for name in ("k", "quant", "drafter")]
    cells = measured("experiment=paper")
    assert {cell.cell_id for cell in cells} == {cell.cell_id for part in parts for cell in part}
    assert len(cells) == len({cell.cell_id for cell in cells}) < sum(map(len, parts))


def test_a_cell_of_an_experiment_is_measured_again_by_its_command(measured):
    cell = measured("experiment=paper")[8]
    again = measured(*cell.rerun_command.split()[3:])
    assert [cell.cell_id for cell in again] == [cell.cell_id]


def test_case_study_prints_its_three_numbers_and_needs_no_model(cli, monkeypatch):
    monkeypatch.setattr("acctax.sweep.check", None)  # no cell is looked at
    outcome = cli("experiment=case_study")
    assert outcome.code == 0 and outcome.err == ""
    assert all(number in outcome.out for number in ("11.78 %", "1.93 %", "83.6 %"))



def test_an_unknown_experiment_is_refused(cli):
    outcome = cli("experiment=q_sweep")
    assert outcome.code == 2 and "experiment=q_sweep: no such option" in outcome.err


@pytest.mark.parametrize("choice", ["K=4", "target_quant=int8", "measure.prompts=3"])
def test_case_study_takes_no_choice(cli, choice):
    outcome = cli("experiment=case_study", choice)
    assert outcome.code == 2 and len(outcome.err.splitlines()) == 1
    assert outcome.err.startswith(f"acctax: error: {choice}: must be left out") and not outcome.out
