"""Acceptance on one text: what both arms' targets and drafters say at every position of what the reference wrote.

Nothing is decoded. Once the candidate's own text departs from the reference's, only this compares like with like.

    text            x1 … x(t−1)  xt  x(t+1) …           p_t the target's law of xt, q_i the drafter's at its i-th draft
    chain at t                   q1    q2   …  qK       each draft has read the text before it, fed as if drafted

Greedy: a draft counts where it and all before it are the arg-max of its own target. Sampled: the text is a draw from
the reference's laws r, so a prefix x of it stands for all of them with the weight Π min(p(x), q(x)) / r(x): the mean
over text of that weight times the next overlap Σ min(p, q) is the acceptance of drafts drawn from q.
"""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from acctax.config import Decoding
from acctax.decode.sampling import law
from acctax.draft.source import Draft
from acctax.measure.arms import Arm
from acctax.models.decoder import chunks
from acctax.progress import Progress
from acctax.record import Along, PromptRecord, Scored

UNCUT = Decoding("uncut", temperature=1.0, top_k=0, top_p=1.0)


def score(
    arms: Sequence[Arm], prompts: Sequence[list[int]], written: Sequence[PromptRecord], K: int, decoding: Decoding,
    progress: Progress,
) -> list[Scored]:  # fmt: skip
    """arms: (reference, candidate); written: what the reference wrote to each prompt."""
    scored = []
    with progress.phase("score", total=len(prompts)) as phase:
        for prompt, its in zip(prompts, written):
            scored.append(_score(arms, prompt, its, K, decoding))
            phase.advance()
    return scored


@torch.inference_mode()
def _score(arms: Sequence[Arm], prompt: list[int], written: PromptRecord, K: int, decoding: Decoding) -> Scored:
    text = prompt + written.tokens
    logits, features = zip(*(read(arm, text, len(prompt)) for arm in arms))
    answer = torch.tensor(written.tokens, device=logits[0].device)
    r, c = (each.log_softmax(dim=-1) for each in logits)
    of_text = [float(each.gather(1, answer[:, None]).sum()) for each in (r, c)]
    along = [follow(arm, text, len(prompt), its, [logits[0], own], K, decoding)
             for arm, its, own in zip(arms, features, logits)]  # fmt: skip
    return Scored(
        prompt_id=written.prompt_id,
        positions=len(answer),
        tv=float((r.exp() - c.exp()).abs().sum() / 2),
        kl=float((r.exp() * (r - c)).sum()),
        agree=int((r.argmax(dim=-1) == c.argmax(dim=-1)).sum()),
        nll_reference=-of_text[0],
        nll_candidate=-of_text[1],
        chains=len(along[0][0]),
        reference=Along(*(part.sum(0).tolist() for part in along[0])),
        candidate=Along(*(part.sum(0).tolist() for part in along[1])),
    )


def follow(
    arm: Arm, text: list[int], start: int, features: Tensor | None, logits: Sequence[Tensor], K: int, decoding: Decoding
) -> tuple[Tensor, Tensor]:
    """logits: of the reference's target and of the arm's own, [answer, vocab] each.

    → of each chain the overlap of each draft, and its chance to be accepted with all before it, [chains, K] each.
    """
    greedy = decoding.temperature == 0
    rule = UNCUT if greedy else decoding
    r, p = (law(each, rule) for each in logits)
    best, answer = logits[1].argmax(dim=-1), text[start:]
    drafts = arm.source.follow(text, start, features, K, lambda x, _: (int(x.argmax()), law(x, rule)))
    chains = max(len(answer) - K + 1, 0) if K else 0
    overlap, alive = torch.zeros(2, chains, K).unbind()
    for t in range(chains):
        reached = 1.0  # the chance that all drafts before are accepted
        for i, (token, q) in enumerate(_laws(next(drafts), p.shape[1], p.device)):
            shared, x = torch.minimum(p[t + i], q), answer[t + i]
            overlap[t, i] = shared.sum()
            if greedy:
                reached *= float(token == best[t + i])
                alive[t, i] = reached
            else:
                alive[t, i] = reached * overlap[t, i]
                reached *= float(shared[x] / r[t + i, x])
    return overlap, alive


def _laws(draft: Draft, vocab: int, device: torch.device) -> Iterator[tuple[int, Tensor]]:
    """Each drafted token and the law [vocab] it was drawn from, one-hot where it was simply said."""
    for i, token in enumerate(draft.tokens):
        yield token, _one_hot(token, vocab, device) if draft.q is None else draft.q[i]


def _one_hot(token: int, vocab: int, device: torch.device) -> Tensor:
    law = torch.zeros(vocab, device=device)
    law[token] = 1.0
    return law


def read(arm: Arm, text: list[int], start: int) -> tuple[Tensor, Tensor | None]:
    """Logits [answer, vocab], each of the position that its token stands at, and the features of text[:-1]."""
    target, wants = arm.target, arm.source.wants
    cache, logits, features = target.new_cache(), [], []
    for part in chunks(text[: start - 1]):
        target.forward(part, cache, 1, states := dict.fromkeys(wants))
        features.append(states)
    for part in chunks(text[start - 1 : -1]):
        logits.append(target.forward(part, cache, None, states := dict.fromkeys(wants)))
        features.append(states)
    joined = [torch.cat(list(states.values()), dim=1) for states in features if states]
    return torch.cat(logits), torch.cat(joined) if joined else None
