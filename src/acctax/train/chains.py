"""Training-time test: from every position of a text a chain of drafts, fed as in drafting.

A chain that starts at row t reads, at its k-th draft (k = 0, 1, …), token x_(t+1+k) and its own state of draft k − 1 at
position t + k. It attends to the rows 0 … t of the text as the target's states make them, and to its own drafts 1 … k:

    keys        row 0   row 1   row 2   row 3  | own 1   own 2          chains share the keys on the left,
    chain 1       x       x                    |   x       x            and never see each other's drafts
    chain 2       x       x       x            |   x       x

With one block, a row of the text that starts no chain is needed for its keys and values alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from acctax.models.config import Rotary
from acctax.models.rotary import tables
from acctax.train.heads import Head, Reading


@dataclass(frozen=True)
class Batch:
    """Texts one after another, R rows in all."""

    tokens: Tensor  # [R]
    features: Tensor  # [R, width]
    lse: Tensor  # [R] log-sum-exp of the target's logits
    best: Tensor  # [R] their arg-max
    position: Tensor  # [R] in the text
    left: Tensor  # [R] rows of the text that follow
    spans: list[tuple[int, int]]  # rows of each text
    starts: Tensor  # [n] rows that start a chain, ascending

    def reaching(self, rows: Tensor, k: int) -> Tensor:
        """Of the rows those whose k-th draft (from 0) has a token to read and a law to be judged by."""
        return rows[self.left[rows] >= k + 1]


def pack(texts: Sequence[tuple[Sequence[int], Tensor, Sequence[float], Sequence[int], int]]) -> Batch:
    """texts: (tokens, features, lse, best, tokens of the prompt) each. The first draft is the first answer token."""
    tokens, position, left, spans, starts, row = [], [], [], [], [], 0
    for text, *_, prompt in texts:
        m = len(text)
        tokens += text
        position += range(m)
        left += range(m - 1, -1, -1)
        starts += range(row + max(prompt - 2, 0), row + m - 1)
        spans.append((row, row + m))
        row += m
    columns = list(zip(*texts))
    return Batch(
        torch.tensor(tokens), torch.cat(columns[1]), torch.tensor([x for lse in columns[2] for x in lse]),
        torch.tensor([x for best in columns[3] for x in best]), torch.tensor(position), torch.tensor(left), spans,
        torch.tensor(starts),
    )  # fmt: skip


class Chains:
    """The chains of a batch, a draft at a time: `step` with the rows whose chains go on, fewer and fewer."""

    def __init__(self, head: Head, embedding: Tensor, batch: Batch, drafts: int):
        """embedding [vocab, hidden]"""
        self.head, self.embedding, self.batch = head, embedding, batch
        config = head.config
        powers = torch.arange(0, config.head_dim, 2) / config.head_dim
        angles = Rotary(tuple((1.0 / config.rope_theta**powers).tolist()), 1.0)
        self.cos, self.sin = tables(angles, int(batch.position.max()) + drafts)
        self.rows = torch.empty(0, dtype=torch.long)
        self.k = -1

    def step(self, rows: Tensor) -> Tensor:
        """rows [n], ascending, a subset of those before → states [n, hidden] of their next drafts."""
        self.k += 1
        if self.k == 0:
            return self._first(rows)
        kept = torch.searchsorted(self.rows, rows)
        reading = self._read(self.state[kept], rows)
        self.own_k = torch.cat((self.own_k[kept], reading.k[:, :, None]), dim=2)  # [n, kv_heads, k, head_dim]
        self.own_v = torch.cat((self.own_v[kept], reading.v[:, :, None]), dim=2)
        return self._finish(reading.q, reading.residual, rows)

    def _first(self, rows: Tensor) -> Tensor:
        batch = self.batch
        everything = batch.reaching(torch.arange(len(batch.tokens)), 0)
        reading = self._read(self.head.enter(batch.features[everything]), everything)
        at = torch.searchsorted(everything, rows)
        ends = torch.searchsorted(everything, torch.tensor([end for _, end in batch.spans])).tolist()
        self.spans = list(zip([0, *ends[:-1]], ends))  # in rows of `everything`
        self.k0, self.v0 = reading.k, reading.v  # [rows of everything, kv_heads, head_dim]
        self.own_k = self.own_v = reading.k.new_empty(len(rows), reading.k.shape[1], 0, reading.k.shape[2])
        return self._finish(reading.q[at], reading.residual[at], rows)

    def _read(self, state: Tensor, rows: Tensor) -> Reading:
        embedded = self.embedding[self.batch.tokens[rows + 1 + self.k]].to(state.dtype)
        position = self.batch.position[rows] + self.k
        return self.head.read(embedded, state, self.cos[position], self.sin[position])

    def _finish(self, q: Tensor, residual: Tensor, rows: Tensor) -> Tensor:
        self.rows = rows
        self.state = self.head.finish(residual, self._attend(q, rows))
        return self.state

    def _attend(self, q: Tensor, rows: Tensor) -> Tensor:
        """q [n, heads, head_dim] → [n, heads · head_dim]"""
        n, heads, dim = q.shape
        kv_heads = self.k0.shape[1]
        q = (q * dim**-0.5).view(n, kv_heads, -1, dim)
        own = (q[:, :, :, None] * self.own_k[:, :, None]).sum(-1)  # [n, kv_heads, heads / kv_heads, k]
        borders = torch.searchsorted(rows, torch.tensor([end for _, end in self.batch.spans])).tolist()
        mixed = []
        for start, end, (first, last) in zip([0, *borders[:-1]], borders, self.spans):
            if start == end:
                continue
            seen = self.batch.position[rows[start:end]]
            mixed.append(self._mix(q[start:end], own[start:end], self.own_v[start:end], slice(first, last), seen))
        return torch.cat(mixed).view(n, heads * dim)

    def _mix(self, q: Tensor, own: Tensor, own_v: Tensor, text: slice, seen: Tensor) -> Tensor:
        """One text's chains: q [n, kv_heads, g, dim], own [n, kv_heads, g, k], seen [n] the last row each sees."""
        n, kv_heads, g, dim = q.shape
        keys, values = self.k0[text].transpose(0, 1), self.v0[text].transpose(0, 1)  # [kv_heads, rows, dim]
        scores = q.transpose(0, 1).reshape(kv_heads, n * g, dim) @ keys.transpose(1, 2)
        unseen = torch.arange(keys.shape[1]) > seen[:, None]  # [n, rows]
        scores = scores.view(kv_heads, n, g, -1).float().masked_fill(unseen[:, None], -torch.inf)
        scores = torch.cat((scores, own.transpose(0, 1).float()), dim=-1)
        weights = scores.softmax(dim=-1).to(q.dtype)
        shared, mine = weights.split((keys.shape[1], own.shape[-1]), dim=-1)
        mixed = (shared.reshape(kv_heads, n * g, -1) @ values).view(kv_heads, n, g, dim).transpose(0, 1)
        return mixed + (mine.transpose(0, 1)[..., None] * own_v[:, :, None]).sum(-2)
