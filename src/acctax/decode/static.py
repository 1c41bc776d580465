"""The decoding cycle without a decision of the host, as a GPU replays it.

    host      propose, copy in          ┐                                ┌ read n and n + 1 tokens, cut, commit
    device    draft K  →  verify K + 1 rows  →  n, tokens  →  advance    ┘

Text and acceptance are those of `Generation`, token for token. Drafting and verifying are two graphs, between which
the device's clock is read; one pair for each number of drafts and of rows that the drafter has to read. The host waits
once a cycle, for K + 2 numbers.
"""

from collections.abc import Callable, Collection
from time import perf_counter

import torch
from torch import Tensor

from acctax import ops
from acctax.decode.acceptance import uniforms
from acctax.decode.cycle import Cycle, Generation
from acctax.decode.rules import Rule
from acctax.draft.on_device import DeviceText
from acctax.draft.source import DraftSource, Proposal
from acctax.models.decoder import Decoder
from acctax.replayed import Recorder, seconds


class StaticGeneration(Generation):
    def __init__(
        self, target: Decoder, source: DraftSource, rule: Rule, stop_tokens: Collection[int] = (), most_drafts: int = 0
    ):
        """most_drafts: the largest K of a cycle."""
        super().__init__(target, source, rule, stop_tokens)
        self.recorder, device = Recorder(target.device), target.device
        self.steps: dict[tuple, Callable[[], None]] = {}
        self.drawn = torch.Generator()  # of what the device drafts, as a source's own
        self.law = rule.decoding.temperature, rule.decoding.top_k, rule.decoding.top_p
        self.sampled = rule.decoding.temperature > 0
        self.device_text = DeviceText(most_drafts, len(source.wants) * target.config.hidden, target.dtype, device)
        # drafts [K] and how many of them to keep; uniforms of drafts [K], of the verification [K + 1], of a forced one
        self.most = most_drafts
        self.given, self.u = (self._shared(n, dtype) for n, dtype in
                              ((most_drafts + 1, torch.int64), (2 * most_drafts + 2, torch.float64)))  # fmt: skip
        self.report = self._shared(most_drafts + 2, torch.int64)
        rows = most_drafts if self.sampled and source.drafts_on_device else 0
        self.q = torch.zeros(rows, target.config.vocab, device=device)
        self.no_drafts = torch.zeros(0, dtype=torch.int64, device=device)
        self.places = torch.arange(most_drafts + 1, device=device)

    def begin(self, prompt: list[int], seed: int, max_new_tokens: int) -> Tensor | None:
        features = super().begin(prompt, seed, max_new_tokens)
        self.drawn.manual_seed(seed + 1)
        text = self.device_text
        text.place(prompt, accepted=0)
        text.committed[0] = prompt[-1]
        if features is not None:
            text.features[0] = features[-1]
        self.rows = 0 if self.source.wants and features is None else 1  # of features that wait to be read
        return features

    def cycle(self, K: int) -> Cycle:
        """Propose, draft, verify, commit; K at most `most_drafts`."""
        start = perf_counter()
        K = min(K, self.cache.capacity - len(self.text))
        proposal = self.source.propose(K, ready=self.rows > 0)
        on_device = proposal.tokens is None
        K = K if on_device else len(proposal.tokens)
        proposed = perf_counter()
        reads = self.source.drafts_on_device and self.rows > 0  # what the last cycle committed, if it drafts or not
        draft = self._step(self._draft, K if on_device else 0, self.rows) if reads else None
        verify = self._step(self._verify, K, on_device and K > 0, proposal.kept is not None)
        recorded = perf_counter()  # which is no part of the cycle
        self._copy_in(proposal, K)
        marks = [self.recorder.mark()]
        if draft:
            draft()
        marks.append(self.recorder.mark())
        verify()
        n, tokens = self._read(K)
        committed = self._cut(tokens)
        self.text += committed
        self.cache.length = len(self.text) - 1
        self.rows = K + 1
        self.source.follow_text(committed)
        if len(committed) <= n:  # the device went on beyond the end of the text
            self.device_text.place(self.text, len(committed) - 1)
        end = perf_counter()
        seconds_of_host = proposed - start
        drafting = seconds_of_host + seconds(*marks)
        return Cycle(K, n, len(committed), drafting, seconds_of_host + end - recorded)

    def pass_seconds(self, rows: int) -> float:
        if len(self.text) - 1 + rows > self.cache.capacity:
            raise ValueError(f"{rows} rows after {len(self.text)} tokens do not fit a cache of {self.cache.capacity}")
        step = self._step(self._pass_over, rows)
        start = self.recorder.mark()
        step()
        end = self.recorder.mark()
        self.recorder.wait()
        return seconds(start, end)

    def _step(self, step: Callable[..., None], *shape: int) -> Callable[[], None]:
        """`step` of a shape, recorded when it is first needed."""
        key = (step.__name__, *shape)
        if key not in self.steps:
            before = self.device_text.snapshot()
            self.given[1].zero_()  # a longer draft's `kept` is none of this shape's rows
            self.steps[key] = self.recorder.record(lambda: step(*shape))
            self.device_text.restore(before)
        return self.steps[key]

    def _copy_in(self, proposal: Proposal, K: int) -> None:
        """What the host has to say: its drafts, how many to keep, and uniform numbers."""
        forced = proposal.kept is not None
        if proposal.tokens or forced:
            host, device = self.given
            host[: len(proposal.tokens or ())] = torch.tensor(proposal.tokens or (), dtype=torch.int64)
            host[self.most] = proposal.kept or 0
            device.copy_(host, non_blocking=True)
        if self.sampled:
            host, device = self.u
            if proposal.tokens is None:
                host[:K] = uniforms(K, self.drawn)
            host[self.most : self.most + K + 1] = uniforms(K + 1, self.generator)
            if forced:
                host[-1:] = uniforms(1, self.generator)
            device.copy_(host, non_blocking=True)

    @torch.inference_mode()
    def _draft(self, K: int, rows: int) -> None:
        tokens, laws = self.source.draft_on_device(K, rows, self.device_text, self._draw)
        self.given[1][:K].copy_(tokens)
        if laws is not None:
            self.q[:K].copy_(laws)

    def _draw(self, logits: Tensor, i: int) -> tuple[Tensor, Tensor | None]:
        """The i-th draft: the token that follows where there are no drafts to verify."""
        token = ops.verify(logits, None, self.no_drafts, self.u[1][i : i + 1], *self.law)[1:]
        return token, ops.law(logits, *self.law) if self.sampled else None

    @torch.inference_mode()
    def _verify(self, K: int, drafts_on_device: bool, forced: bool) -> None:
        text, drafts, u = self.device_text, self.given[1][:K], self.u[1][self.most :]
        states = dict.fromkeys(self.source.wants)
        tokens = torch.cat([text.tail[1:], drafts])
        logits = self.target.forward(tokens, self.cache, states=states, position=text.position)  # [K + 1, vocab]
        q = self.q[:K] if self.sampled and drafts_on_device else None
        report = ops.verify(logits, q, drafts, u[: K + 1], *self.law)
        if forced:
            report = self._forced(logits, drafts)
        text.advance(report, torch.cat(list(states.values()), dim=1) if states else None)
        self.report[1][: K + 2].copy_(report)

    def _forced(self, logits: Tensor, drafts: Tensor) -> Tensor:
        """As many drafts as were said, and the target's own token after them: a report as `ops.verify` makes it."""
        kept = self.given[1][self.most :]
        follows = ops.verify(logits.index_select(0, kept), None, self.no_drafts, self.u[1][-1:], *self.law)[1:]
        is_kept = self.places[: len(drafts)] < kept
        return torch.cat([kept, torch.where(is_kept, drafts, follows), follows])

    @torch.inference_mode()
    def _pass_over(self, rows: int) -> None:
        text = self.device_text
        self.target.forward(text.tail[1:].expand(rows), self.cache, position=text.position)

    def _read(self, K: int) -> tuple[int, list[int]]:
        """The one time in a cycle that the host waits."""
        host, device = self.report
        host[: K + 2].copy_(device[: K + 2], non_blocking=True)
        self.recorder.wait()
        n, *tokens = host[: K + 2].tolist()
        if tokens[n] < 0:
            raise RuntimeError("verify: no token has a probability above 0, the target's logits may not be finite")
        return n, tokens[: n + 1]

    def _shared(self, size: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """The same numbers on the host and on the device."""
        return self.recorder.host_memory(size, dtype), torch.zeros(size, dtype=dtype, device=self.target.device)
