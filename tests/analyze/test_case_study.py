
import numpy as np
import pytest

from acctax.analyze import Rules
from acctax.analyze.case_study import CaseStudy, Side, read_case_study
from acctax.analyze.verdicts import Name

STUDY = CaseStudy("a book", "a model", "nvfp4", "MTP head", 3, share=0.1426, left=0.5625 / 2,
                  reference=Side(147.87, 2.792), candidate=Side(150.73, 2.546))  # fmt: skip


def test_the_case_study():
    row = read_case_study(STUDY)
    assert row["tax/potential"] == pytest.approx(0.1178, abs=5e-5)
    assert row["tax/realized"] == pytest.approx(0.0193, abs=5e-5)
    assert row["tax/clocked"] == pytest.approx(0.836, abs=5e-4)
    assert row["accept/alpha_mean_ref"] - row["accept/alpha_mean"] == pytest.approx(0.082, abs=5e-4)
    assert 1 - 1 / row["bytes/W"] == pytest.approx(0.1025, abs=5e-5)
    assert row.verdict == Name.REJECT and row.component == "acceptance"
    assert row.reason.startswith("potential 11.78 %, realized 1.93 %, acceptance tax 83.6 %")


def test_what_was_not_published_has_no_value():
    row = read_case_study(STUDY)
    unknown = row["tax/ln_kernels"], row["speed/W_AR"], row["tax/counted"], row.estimate("speed/W_spec").low
    assert np.isnan(unknown).all()


def test_below_the_threshold_nothing_is_decided():
    assert read_case_study(STUDY, Rules(tax_threshold=0.9)).verdict == Name.UNDECIDED
