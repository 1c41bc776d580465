"""A new format is one class and one YAML, a new draft source too: both run by configuration alone."""

from dataclasses import dataclass
from typing import Literal

import pytest

from acctax import quant, tracking
from acctax.config import DraftChoice
from acctax.draft.choice import Choice
from acctax.draft.source import Draft, DraftSource

QUICK = ["measure.prompts=4", "measure.max_new_tokens=12", "measure.rounds=2", "measure.cycles=2"]


@pytest.fixture
def toy_format():
    @quant.register("half")
    class Half(quant.Format):
        """IEEE half precision, which the project does not ship."""

        def encode(self, weight, group):
            return weight.half(), None, None

        def unpack(self, codes, scales, global_scale, group, width):
            return codes.float()

    yield "half"
    quant.registry._FORMATS.pop("half")


@pytest.fixture
def toy_source():
    class Echo(DraftSource):
        """Repeats the last token."""

        def begin(self, prompt, seed, features):
            self.last = prompt[-1]

        def draft(self, K, draw, along=None):
            return Draft([self.last] * K)

        def accept(self, n): ...

        def process(self, tokens, features):
            self.last = tokens[-1]

        def bytes_per_draft(self, context):
            return 0.0

    @dataclass(frozen=True)
    class EchoChoice(Choice):
        kind: Literal["echo"] = "echo"

        def build(self, setting):
            return Echo()

    yield "echo"
    DraftChoice.members.pop("echo")


def test_a_toy_format_and_a_toy_source_run_by_configuration(cli, tmp_path, toy_format, toy_source):
    conf = tmp_path / "conf"
    for group, name, text in (
        ("target_quant", "half_mlp", 'name: half_mlp\nrules: [{pattern: "*.mlp.*", format: half}]\n'),
        ("draft_source", "echo", "kind: echo\n"),
    ):
        (conf / group).mkdir(parents=True)
        (conf / group / f"{name}.yaml").write_text(text)
    outcome = cli(
        "target=random_llama", "target_quant=half_mlp", "draft_source=echo", "K=2", "decoding=sample",
        f"hydra.searchpath=[file://{conf}]", f"tracking.uri=sqlite:///{tmp_path}/store/mlflow.db", *QUICK,
    )  # fmt: skip
    assert outcome.code == 0, outcome.err
    (record,) = tracking.read_sweep(f"sqlite:///{tmp_path}/store/mlflow.db")[0].records
    assert record.choices["target_quant"] == "half_mlp" and record.choices["draft_source"] == "echo"
    assert all(prompt.drafted[0] == 2 for prompt in record.candidate.prompts)
    assert record.candidate.bytes_ar["gate"] == record.reference.bytes_ar["gate"]  # 16 bits either way
