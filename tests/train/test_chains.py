"""Chains of drafts, all at once, are what drafting one token after another gives."""

import pytest
import torch

from acctax.train.chains import Chains, pack
from acctax.train.heads import build_head

DRAFTS = 4
STATES = (0, 1, 2)


@pytest.fixture(params=["mtp", "eagle"])
def head(request, tiny):
    head = build_head(request.param, tiny, STATES, seed=0)
    with torch.no_grad():
        for parameter in head.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1)))
    return head


@pytest.fixture
def batch(tiny):
    generator, texts = torch.Generator().manual_seed(2), []
    for length, prompt in ((12, 5), (9, 1), (15, 8)):
        tokens = torch.randint(3, 97, (length,), generator=generator).tolist()
        texts.append((tokens, torch.randn(length, 4 * tiny.config.hidden, generator=generator), [0.0] * length,
                      [0] * length, prompt))
    return pack(texts)


def naive(head, embedding, batch, start: int, drafts: int) -> list[torch.Tensor]:
    """States of one chain: the text up to its start row by row, then each draft on its own state."""
    config, (first, _) = head.config, next(span for span in batch.spans if span[0] <= start < span[1])
    frequencies = 1.0 / config.rope_theta ** (torch.arange(0, config.head_dim, 2) / config.head_dim)
    state, keys, values, states = None, [], [], []
    for row in range(first, start + drafts):
        taken = batch.features[row : row + 1]
        state = head.enter(taken) if row <= start else states[-1]
        angle = (row - first) * frequencies[None]
        read = head.read(embedding[batch.tokens[row + 1]][None], state, angle.cos(), angle.sin())
        keys.append(read.k[0])
        values.append(read.v[0])
        if row >= start:
            groups = config.heads // config.kv_heads
            k, v = (torch.stack(past).repeat_interleave(groups, dim=1) for past in (keys, values))  # [rows, heads, dim]
            weights = (torch.einsum("hd,rhd->hr", read.q[0], k) * config.head_dim**-0.5).softmax(-1)
            states.append(head.finish(read.residual, torch.einsum("hr,rhd->hd", weights, v).flatten()[None]))
    return states


@torch.no_grad()
def test_chains_equal_sequential_drafting(head, batch, tiny):
    embedding = tiny.tensors["model.embed_tokens.weight"]
    chains, rows = Chains(head, embedding, batch, DRAFTS), batch.starts
    generator = torch.Generator().manual_seed(4)
    for k in range(DRAFTS):
        rows = batch.reaching(rows, k)
        states = chains.step(rows)
        for row, state in zip(rows.tolist(), states):
            torch.testing.assert_close(state, naive(head, embedding, batch, row, k + 1)[k][0], atol=1e-5, rtol=1e-5)
        rows = rows[torch.rand(len(rows), generator=generator) < 0.9]  # some chains end, the others do not notice
    assert 3 < len(rows) < 15


def test_starts_are_the_answers(batch):
    """The first draft of a text is its first answer token, two after the row of the chain."""
    assert batch.starts.tolist() == [*range(3, 11), *range(12, 20), *range(27, 35)]
    assert batch.reaching(batch.starts, 2).tolist() == [*range(3, 9), *range(12, 18), *range(27, 33)]


def test_gradients_reach_every_parameter(head, batch, tiny):
    chains = Chains(head, tiny.tensors["model.embed_tokens.weight"], batch, 2)
    first = chains.step(batch.starts)
    second = chains.step(batch.reaching(batch.starts, 1))
    (first.pow(2).sum() + second.pow(2).sum()).backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in head.parameters())
