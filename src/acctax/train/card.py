"""The model card: what the head is, what it learned from, how often its drafts are accepted, how to make it again."""

from collections.abc import Sequence
from dataclasses import dataclass

from acctax.train.config import TrainRun
from acctax.train.corpus import Corpus
from acctax.train.evaluation import Report
from acctax.train.features import Stored, tokens_of
from acctax.train.trainer import Spent

HEADS = {"mtp": "MTP head", "eagle": "EAGLE-3 head"}
RULES = {"greedy": "greedy", "sampled": "T = 1"}


@dataclass(frozen=True)
class Facts:
    parameters: int
    draft_vocab: int
    steps_per_epoch: float
    peak_bytes: int
    hardware: str


def write_card(run: TrainRun, corpus: Corpus, spent: Spent, facts: Facts, reports: Sequence[Report]) -> str:
    minutes = spent.seconds / 60
    per_epoch = minutes * facts.steps_per_epoch / max(spent.steps, 1)
    lines = [
        f"# {HEADS[run.draft_source]} for {run.target.label}",
        "",
        f"{facts.parameters / 1e6:.2f} M parameters in bf16, drafts from {facts.draft_vocab} tokens of the target's "
        "vocabulary. Embedding and lm_head are the target's. Layout: speculators.",
        "",
        "## Made by",
        "",
        f"    {run.command}",
        "",
        f"on {facts.hardware}, {spent.steps} steps, {spent.tokens:,} answer tokens seen "
        f"({spent.tokens / max(tokens_of(corpus.train), 1):.1f} epochs) in {minutes:.0f} minutes: "
        f"{spent.tokens / max(spent.seconds, 1e-9):,.0f} tokens/s, {per_epoch:.1f} minutes an epoch, "
        f"peak memory {facts.peak_bytes / 1e9:.1f} GB, on one thread.",
        "",
        "## Data",
        "",
        f"{len(corpus.train):,} conversations, {tokens_of(corpus.train):,} answer tokens, written by the target: "
        f"{_source(run)}, answers at temperatures {_temperatures(run, corpus.train)}, at most {run.data.answer_tokens} "
        f"tokens. {len(corpus.held_out)} more conversations were held out. Writing took {corpus.seconds / 60:.0f} "
        f"minutes, {_processes(run.data.workers)}, peak memory {corpus.peak_bytes / 1e9:.1f} GB.",
        "",
        "## Acceptance",
        "",
        "On text that was never trained on, fed with the target's own text from every position of an answer. Greedy: "
        "arg-max of the head against arg-max of the target. T = 1: overlap of their laws, on text drawn at T = 1. τ: "
        "tokens a cycle, the target's own included, with 95 % intervals by conversation; n-gram: look-up (n = 1 to 3, "
        "earliest match) on the same text.",
        "",
    ]
    K = len(reports[0].head.tau) if reports else 0
    told = sorted({min(3, K), K})
    columns = ["text", "rule", "chains", *(f"draft {k}" for k in range(1, K + 1)), *(f"τ({k})" for k in told),
               f"n-gram τ({told[0]})"]  # fmt: skip
    lines += [_row(columns), _row(["---"] * len(columns))]
    for report in reports:
        lines.append(_row([
            _texts(run, report), RULES[report.rule], f"{report.head.chains.sum():.0f}",
            *(f"{value:.3f}" for value in report.head.conditional),
            *(f"{report.head.tau[k - 1]:.3f}" for k in told), f"{report.ngram.tau[told[0] - 1]:.3f}",
        ]))  # fmt: skip
    return "\n".join([*lines, "", "Draft k: acceptance given that all before it were accepted.", ""])


def _processes(n: int) -> str:
    return f"{n} processes" if n > 1 else "one process"


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _source(run: TrainRun) -> str:
    if run.data.prompts is not None:
        return f"prompts of {run.data.prompts}"
    return "questions too, from its own chat template"


def _temperatures(run: TrainRun, texts: Sequence[Stored]) -> str:
    values = sorted(set(run.data.temperatures))
    total = tokens_of(texts)
    shares = [tokens_of([s for s in texts if s.conversation.temperature == value]) / total for value in values]
    return ", ".join(f"{value:g} ({share:.0%})" for value, share in zip(values, shares))


def _texts(run: TrainRun, report: Report) -> str:
    return "held out" if report.texts == "held_out" else str(run.data.evaluate)
