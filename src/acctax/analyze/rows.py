"""A record becomes a row: flat figures with intervals, and a verdict."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from acctax import theory
from acctax.analyze import same_context
from acctax.analyze.acceptance import Acceptance, Pairs, pair
from acctax.analyze.decomposition import Corner, decompose
from acctax.analyze.figures import Figures
from acctax.analyze.intervals import Draws, Estimate, resample, widen
from acctax.analyze.predictions import predictions
from acctax.analyze.timing import Timing
from acctax.analyze.validity import broken_identity, meaningless
from acctax.analyze.verdicts import LOSSES, Name, Rules, Verdict, decide
from acctax.record import Arm, Record

Named = dict[str, float | Draws]
ENUMERATED = re.compile(r"_\d+(_|$)")

# Figures whose resamples a row keeps: cells of one sweep decode the same prompts, so that what is computed from
# several of them is paired by prompt too.
KEPT = ("speed/speedup", "speed/speedup_ref", "speed/W_spec", "speed/W_total")


@dataclass(frozen=True)
class Row:
    """A measured cell, analysed: `row["accept/tau"]` is a figure, `row.estimate(…)` has its interval."""

    choices: Mapping[str, str | int | float]
    cell_id: str
    is_reference: bool
    verdict: Name
    reason: str
    component: str | None  # of a REJECT: what ate the win
    remedy: str | None  # of an UNDECIDED: what would decide it
    wanted: frozenset[str]  # of an UNDECIDED: the units it is short of, "prompts" and "rounds"
    figures: Figures
    prompts: int  # that counted
    rounds: int
    environment: Mapping[str, str]
    rerun: str
    draws: Mapping[str, Draws] = field(default_factory=dict, repr=False, compare=False)  # of KEPT

    def __getitem__(self, name: str) -> float:
        return self.figures[name]

    def estimate(self, name: str) -> Estimate:
        return self.figures.estimate(name)

    def resampled(self, name: str) -> Draws:
        """[R+1] of a figure in KEPT; the value alone [1] where there are no resamples."""
        return self.draws.get(name, np.array([self[name]]))

    @property
    def K(self) -> int:
        return int(self.choices["K"])

    def metrics(self) -> dict[str, float]:
        """What MLflow compares: figures that have a value, but those by position or length, which the record has."""
        return {name: value for name, value in self.figures.finite().items() if not ENUMERATED.search(name)}


def analyze(record: Record, rules: Rules = Rules(), seed: int = 0) -> Row:
    """A record under `rules` (or a config's verdict group); the same seed gives the same intervals."""
    if reason := broken_identity(record):
        return _row(record, {}, Figures({}), Verdict(Name.INVALID, reason), prompts=0)
    pairs = pair(record)
    named = _figures(record, pairs, rules.resamples, np.random.default_rng(seed))
    figures = Figures.of(named)
    if reason := meaningless(record, figures):
        verdict = Verdict(Name.INVALID, reason)
    elif record.is_reference:
        verdict = Verdict(Name.REFERENCE, "measured against itself: the noise floor")
    else:
        group = "measure.budget" if record.stopped_because else "measure"
        looped = len(record.reference.prompts) - len(pairs)
        verdict = decide(figures, rules, len(pairs), len(record.reference.rounds), group, looped)
    return _row(record, named, figures, verdict, len(pairs))


def _row(record: Record, named: Named, figures: Figures, verdict: Verdict, prompts: int) -> Row:
    return Row(
        choices=record.choices,
        cell_id=record.cell_id,
        is_reference=record.is_reference,
        verdict=verdict.name,
        reason=" ".join([verdict.reason, *_circumstances(record)]),
        component=verdict.component,
        remedy=verdict.remedy,
        wanted=verdict.wanted,
        figures=figures,
        prompts=prompts,
        rounds=len(record.reference.rounds),
        environment=record.environment,
        rerun=record.rerun,
        draws={name: named[name] for name in KEPT if name in named},
    )


def _circumstances(record: Record) -> Iterator[str]:
    if record.stopped_because:
        yield f"({record.stopped_because})"
    if rivals := record.environment.get("rivals"):
        yield f"(WARNING: process {rivals} measured on this machine too, do not trust the clock)"


def _figures(record: Record, pairs: Pairs, resamples: int, rng: np.random.Generator) -> Named:
    K, bandwidth = int(record.choices["K"]), float(np.median(record.bandwidth))
    by_prompt = resample(len(pairs), resamples, rng)  # both arms see the same prompts and the same rounds
    by_round = resample(len(record.reference.rounds), resamples, rng)
    scored = [its for its, text in zip(record.same_context, record.reference.prompts) if not text.looped]
    same = same_context.figures(scored, K, by_prompt, record.looks)
    named: Named = same | {
        "bytes/bandwidth_GBs": bandwidth / 1e9, "bytes/peak_MB": record.memory_peak / 1e6,
        "behaviour/prompts": len(pairs),
    }  # fmt: skip
    corners = []
    for suffix, arm, prompts in zip(("_ref", ""), (record.reference, record.candidate), zip(*pairs)):
        acceptance, timing = Acceptance.of(prompts, K), Timing.of(arm.rounds, K, by_round, record.looks)
        tau = acceptance.tau(by_prompt, record.looks)
        own = _acceptance(acceptance, tau, by_prompt, record.looks) | _time(timing, K) | _speed(arm, timing, tau)
        own |= _bytes(arm, timing) | _forward(arm, bandwidth)
        own |= predictions(arm, timing, tau, same.get(f"same/tau{suffix}") if K else 1.0, bandwidth)
        own["behaviour/looped"] = sum(prompt.looped for prompt in arm.prompts)
        named |= {name + suffix: figure for name, figure in own.items()}
        corners.append(Corner(sum(arm.bytes_ar.values()), timing.T1, timing.T_verify, timing.C, tau))
    named["speed/W_total"] = named["speed/tok_s"] / named["speed/tok_s_ar_ref"]  # over the reference's plain decoding
    W_cycle = sum(record.reference.bytes_cycle.values()) / sum(record.candidate.bytes_cycle.values())
    named = compare(*corners, W_cycle, record.is_reference) | named
    named["speed/W_end_to_end"] = _end_to_end(pairs, by_prompt, named["accept/tau_ratio"], record.looks)
    if "same/tau_ratio" in same:
        named["same/disagrees"] = same_context.disagrees(named["accept/tau_ratio"], same["same/tau_ratio"])
    return named


def _acceptance(acceptance: Acceptance, tau: Draws, by_prompt: NDArray[np.float64], looks: int) -> Named:
    K = acceptance.K
    rates = {kind: getattr(acceptance, kind)(by_prompt, looks) for kind in ("conditional", "unconditional")}
    by_position = {f"accept/{kind}_{i}": rate for kind in rates for i, rate in enumerate(rates[kind], 1)}
    return {
        "accept/tau": tau,
        "accept/alpha_geo": theory.alpha_geo(tau, K),
        "accept/alpha_mean": theory.alpha_mean(tau, K),
        "accept/draft_rate": acceptance.draft_rate(),
    } | by_position | {f"accept/cycles_of_length_{n}": float(c) for n, c in enumerate(acceptance.histogram)}


def _time(timing: Timing, K: int) -> Named:
    return {
        "time/T1_ms": 1e3 * timing.T1,
        "time/T_verify_ms": 1e3 * timing.T_verify,
        "time/D_ms": 1e3 * timing.D,
        "time/O_ms": 1e3 * timing.O,
        "time/C_ms": 1e3 * timing.C,
        "time/C_ar_ms": 1e3 * timing.C_ar,
        "time/c": timing.D / timing.T1 / (K or np.nan),
    }


def _forward(arm: Arm, bandwidth: float) -> Named:
    """T(M) for every M that was clocked, and what a plain pass would take if its bytes (bytes/s) were all."""
    M_clocked = set.intersection(*(set(clock.T) for clock in arm.rounds))
    T = {M: np.exp(np.mean(np.log([clock.T[M] for clock in arm.rounds]))) for M in sorted(M_clocked)}
    return {f"time/T_{M}_ms": 1e3 * seconds for M, seconds in T.items()} | {
        "time/roofline_ms": 1e3 * sum(arm.bytes_ar.values()) / bandwidth,
    }


def _speed(arm: Arm, timing: Timing, tau: Draws) -> Named:
    tok_s = tau / timing.C
    seconds = sum(prompt.seconds for prompt in arm.prompts)
    tokens = sum(len(prompt.tokens) for prompt in arm.prompts)
    joules = [prompt.joules for prompt in arm.prompts]
    energy = {} if None in joules else {"speed/J_per_token": sum(joules) / tokens}
    typical_cycle = np.median([prompt.seconds / len(prompt.committed) for prompt in arm.prompts])
    return {
        "speed/tok_s": tok_s,
        "speed/tok_s_ar": 1 / timing.C_ar,
        "speed/speedup": tok_s * timing.C_ar,
        "speed/end_to_end_tok_s": tokens / seconds,
        # end-to-end tok/s over τ/C, by the typical prompt: a stall that hits one says nothing of the others
        "speed/agreement": timing.C[0] / typical_cycle,
    } | energy


def _end_to_end(pairs: Pairs, by_prompt: NDArray[np.float64], tau_ratio: Draws, looks: int) -> Draws:
    """W_spec by another clock: τ over the cycle time of whole texts, which the arms decoded in turns, by prompt."""
    r, c = (np.log([prompt.seconds / len(prompt.committed) for prompt in its]) for its in zip(*pairs))
    return tau_ratio * np.exp(widen(by_prompt @ (r - c), len(pairs), looks))


def _bytes(arm: Arm, timing: Timing) -> Named:
    token = sum(arm.bytes_ar.values())
    by_component = {f"bytes/{component}_MB": size / 1e6 for component, size in arm.bytes_ar.items()}
    in_a_cycle = {f"bytes/cycle_{component}_MB": size / 1e6 for component, size in arm.bytes_cycle.items()}
    return by_component | in_a_cycle | {
        "bytes/token_MB": token / 1e6,
        "bytes/cycle_MB": sum(arm.bytes_cycle.values()) / 1e6,
        "bytes/BW_eff_GBs": token / timing.T1 / 1e9,
    }


def compare(r: Corner[Draws], c: Corner[Draws], W_cycle: float, is_reference: bool) -> Named:
    """The figures of candidate c over reference r; W_cycle: bytes of a cycle, r over c."""
    parts = decompose(r, c)
    A = c.tau / r.tau
    clocked, counted = theory.acceptance_tax(parts.W_spec, A), theory.counted_tax(W_cycle, A)
    no_value = np.full_like(A, np.nan)
    return {
        "speed/W_spec": parts.W_spec,  # first: what MLflow's comparison of runs opens with
        "speed/W_AR": parts.W_AR,
        "accept/tau_ratio": A,
        "bytes/W": parts.W_bytes,
        "bytes/W_cycle": W_cycle,
        "tax/potential": theory.potential(parts.W_spec, A),
        "tax/realized": parts.W_spec - 1,
        # A byte win is what is taxed. The reference has none over itself, and noise over noise is no number.
        "tax/clocked": clocked if np.isfinite(clocked[0]) and not is_reference else no_value,
        "tax/counted": counted if np.isfinite(counted[0]) and not is_reference else no_value,
    } | {LOSSES[name]: loss for name, loss in parts.losses.items()}
