"""The training loop: batches of whole conversations, chains of drafts, one optimizer step each, nothing left to chance.

What a step draws comes from (seed, step) alone, so that a run which was killed and goes on ends with the same weights.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from acctax.progress import Progress
from acctax.train.chains import Chains
from acctax.train.checkpoint import load_state, save_state
from acctax.train.config import TrainRun
from acctax.train.evaluation import Evaluator, Report
from acctax.train.features import Stored
from acctax.train.heads import Head
from acctax.train.loss import distance
from acctax.train.material import Material

CONSTANT = 0.3  # share of the steps after which the learning rate falls, in a line, to 0
FOR_NORMS = 3.0  # times the learning rate of matrices
LOG_EVERY = 20  # steps


@dataclass
class Spent:
    """What training took so far."""

    steps: int = 0
    tokens: int = 0  # of answers, each counted as often as it was seen
    seconds: float = 0.0  # in steps, not in evaluations


@dataclass
class Meter:
    """Means over the steps since they were last read."""

    sums: dict[str, float] = field(default_factory=dict)
    counts: dict[str, float] = field(default_factory=dict)

    def add(self, name: str, values: Tensor) -> None:
        self.sums[name] = self.sums.get(name, 0.0) + float(values.sum())
        self.counts[name] = self.counts.get(name, 0.0) + values.numel()

    def read(self) -> dict[str, float]:
        means = {name: total / self.counts[name] for name, total in self.sums.items() if self.counts[name]}
        self.sums, self.counts = {}, {}
        return means


class Trainer:
    def __init__(self, run: TrainRun, head: Head, material: Material, state_file: Path):
        self.run, self.head, self.material = run, head, material
        self.evaluator = Evaluator(material, run.fit.drafts)
        self.batches = plan_batches(run, material.corpus.train)
        matrices = [p for p in head.parameters() if p.ndim > 1]
        norms = [p for p in head.parameters() if p.ndim == 1]
        groups = [{"params": matrices, "times": 1.0}, {"params": norms, "times": FOR_NORMS}]
        self.optimizer = torch.optim.AdamW(groups, run.fit.learning_rate, (0.9, 0.98), weight_decay=0.01, fused=True)
        self.spent, self.meter, self.state_file = Spent(), Meter(), state_file

    def fit(self, progress: Progress, log: Callable[[dict[str, float], int], None]) -> list[Report]:
        """→ the last evaluation. log(metrics, step)"""
        load_state(self.state_file, self.run.identity, self.head, self.optimizer, self.spent)
        total, saved, reports = len(self.batches), time.monotonic(), []
        evaluate_at = {round(total * i / self.run.fit.evaluations) for i in range(1, self.run.fit.evaluations + 1)}
        with progress.phase("train", total=total) as phase:
            phase.advance(self.spent.steps)
            while self.spent.steps < total:
                started = time.monotonic()
                self.spent.tokens += self.step(self.batches[self.spent.steps])
                self.spent.steps += 1
                self.spent.seconds += time.monotonic() - started
                step = self.spent.steps
                if step % LOG_EVERY == 0 or step == total:
                    log(self.meter.read() | {"train/tokens_per_second": self.spent.tokens / self.spent.seconds}, step)
                if step in evaluate_at and step < total:
                    for report in self.evaluator(self.head):
                        log(report.metrics(), step)
                        progress.note(summary(report, step))
                if time.monotonic() - saved >= self.run.fit.checkpoint_seconds:
                    save_state(self.state_file, self.run.identity, self.head, self.optimizer, self.spent)
                    saved = time.monotonic()
                phase.advance()
        save_state(self.state_file, self.run.identity, self.head, self.optimizer, self.spent)
        for report in (reports := self.evaluator(self.head)):
            log(report.metrics(), total)
            progress.note(summary(report, total))
        return reports

    def step(self, texts: list[Stored]) -> int:
        """One update → chains started."""
        fit, material = self.run.fit, self.material
        generator = torch.Generator().manual_seed(self.run.seed * 1_000_003 + self.spent.steps)
        batch = material.batch(texts)
        loss, rows = torch.zeros(()), batch.starts
        with torch.autocast("cpu", torch.bfloat16, enabled=material.autocast):
            laws = material.laws(batch)
            chains = Chains(self.head, material.embedding, batch, fit.drafts)
            for k in range(fit.drafts):
                rows = batch.reaching(rows, k)
                if not len(rows):
                    break
                states = chains.step(rows)
                label = rows + 1 + k
                text = material.vocabulary.rank[batch.tokens[(label + 1).clamp_max(len(batch.tokens) - 1)]]
                weights = torch.full((len(rows),), fit.decay**k / len(batch.starts))
                part, judged = distance(states, material.lm_head, laws, label, text, weights)
                loss = loss + part
                self.meter.add(f"train/overlap_{k + 1}", judged.overlap)
                agrees = material.vocabulary.ids[judged.best] == batch.best[label]
                self.meter.add(f"train/agreement_{k + 1}", agrees.float())
                rows = rows[torch.rand(len(rows), generator=generator) < judged.accepted]
        loss.backward()
        for group in self.optimizer.param_groups:
            group["lr"] = fit.learning_rate * group["times"] * self._schedule()
        norm = torch.nn.utils.clip_grad_norm_(self.head.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.meter.add("train/loss", loss.detach())
        self.meter.add("train/gradient_norm", norm)
        return len(batch.starts)

    def _schedule(self) -> float:
        done = self.spent.steps / len(self.batches)
        warm = min(1.0, (self.spent.steps + 1) / max(self.run.fit.warmup_steps, 1))
        return warm * min(1.0, (1 - done) / (1 - CONSTANT))


def plan_batches(run: TrainRun, texts: list[Stored]) -> list[list[Stored]]:
    """Every step's conversations, each epoch in an order of its own."""
    batches, epochs = [], run.fit.epochs
    for epoch in range(int(epochs) + (epochs > int(epochs))):
        order = torch.randperm(len(texts), generator=torch.Generator().manual_seed(run.seed * 1_000_003 + epoch))
        shuffled = list(Material.grouped([texts[i] for i in order.tolist()], run.fit.batch_tokens))
        batches += shuffled[: max(1, round(len(shuffled) * min(1.0, epochs - epoch)))]
    return batches


def summary(report: Report, step: int) -> str:
    tau, conditional = report.head.tau, " ".join(f"{value:.2f}" for value in report.head.conditional)
    k = min(3, len(tau))
    return (f"      step {step} {report.texts} {report.rule}: τ({k}) {tau[k - 1]:.3f}, "
            f"n-gram {report.ngram.tau[k - 1].value:.3f}, accepted by position {conditional}")
