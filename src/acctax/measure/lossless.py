"""Is greedy text under speculation the target's own? Every token of it, against the arg-max of a pass without drafts.

The cache still holds the prompt, so a text is read again, teacher-forced, in a few wide passes: row by row the logits
are those of plain decoding, bit for bit, as every op promises for any number of rows. To hold the ops to that promise
the first prompt is read one row at a time, which is plain decoding itself.
"""

from acctax import ops
from acctax.decode.cycle import Generation
from acctax.decode.rules import Greedy
from acctax.record import Lossless

EVERY = 3  # of so many prompts one is verified: a wide pass costs a tenth of decoding the same text
ROWS = 32  # of a wide pass


def sampled(generation: Generation, K: int, i: int) -> bool:
    """Whether the text of the i-th prompt is to be verified: plain decoding cannot depart from itself."""
    return K > 0 and i % EVERY == 0 and isinstance(generation.rule, Greedy)


def verify(generation: Generation, prompt_tokens: int, i: int, arm: str, prompt_id: str) -> Lossless:
    """Of a generation that has finished the i-th prompt."""
    rows = 1 if i == 0 else ROWS
    text, cache, target = generation.text, generation.cache, generation.target
    cache.roll_back(prompt_tokens - 1)
    for start in range(prompt_tokens, len(text), rows):
        answer = text[start : start + rows]
        logits = target.forward(text[start - 1 : start - 1 + len(answer)], cache)  # [rows, vocab]
        best = ops.argmax(logits).tolist()
        for j, (own, token) in enumerate(zip(best, answer)):
            if own != token:
                at, gap = start + j - prompt_tokens, float(logits[j, own] - logits[j, token])
                return Lossless(arm, prompt_id, at + 1, at, gap)
    return Lossless(arm, prompt_id, len(text) - prompt_tokens)
