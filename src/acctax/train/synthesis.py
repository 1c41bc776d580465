"""The target writes conversations, many at once; their hidden states are kept as it goes, without a second pass."""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from acctax.train.dialogue import Script
from acctax.train.features import Conversation, ShardWriter
from acctax.train.generator import Generator
from acctax.train.sampling import TRIES, choose

SHORTEST_ANSWER = 8  # tokens; shorter texts are not kept


@dataclass(frozen=True)
class Job:
    """A conversation to be written, for one part of the data."""

    part: str
    number: int
    temperature: float
    script: Script
    opener: tuple[int, ...] = ()  # the question's first words, where they are given


@dataclass(frozen=True)
class Limits:
    question_tokens: int
    question_top_p: float
    answer_tokens: int


@dataclass
class _Text:
    """A conversation being written. Of `tokens`, those up to `fed` have gone through the target."""

    job: Job
    uniforms: Tensor  # [longest, TRIES], its own: what is drawn does not depend on the texts beside it
    tokens: list[int]
    prompt_tokens: int  # so many are no answer: all of them, while the target is still asking
    answers: bool
    fed: int = 0
    features: list[Tensor] = field(default_factory=list)  # fed × [width]
    best: list[int] = field(default_factory=list)
    lse: list[float] = field(default_factory=list)

    @property
    def answered(self) -> int:
        return max(0, self.fed - self.prompt_tokens) if self.answers else 0


class Writer:
    """Fills the generator's slots with jobs, and a shard for each part with what comes of them."""

    def __init__(self, generator: Generator, jobs: Iterator[Job], limits: Limits, stop_tokens: Collection[int],
                 shards: Mapping[str, ShardWriter], longest: int, seed: int):
        """longest: tokens of a conversation; the generator's last slot keeps the opening that questions share."""
        self.generator, self.jobs, self.limits, self.stop_tokens = generator, jobs, limits, frozenset(stop_tokens)
        self.shards, self.longest, self.seed = shards, longest, seed
        self.texts: dict[int, _Text] = {}  # by slot
        self.free = list(range(len(generator.caches) - 1))
        self.opening: _Text | None = None
        self.greedy: set[tuple[int, ...]] = set()  # prompts answered greedily: a second answer would be the same

    def write(self, enough: Callable[[int, int], bool]) -> None:
        """Until the jobs are done, or enough(answer tokens to train on, rows): of what is begun, which is then cut."""
        while True:
            while self.free and (job := next(self.jobs, None)) is not None:
                self._begin(self.free.pop(), job)
            begun = self.texts.values()
            answered = sum(text.answered for text in begun if text.job.part == "train")
            if not begun or enough(answered, sum(text.fed for text in begun)):
                break
            self._step()
        for text in self.texts.values():
            self._keep(text)

    def _begin(self, slot: int, job: Job) -> None:
        seed = self.seed + 7919 * job.number + sum(job.part.encode())
        uniforms = torch.rand(self.longest, TRIES, generator=torch.Generator().manual_seed(seed))
        asks = job.script.bridge is not None
        tokens = [*job.script.opening, *job.opener]
        text = self.texts[slot] = _Text(job, uniforms, tokens, len(tokens), answers=not asks)
        if asks:
            opening = self._opening(job)
            self.generator.copy(len(self.generator.caches) - 1, slot, opening.fed)
            text.fed = opening.fed
            text.features, text.best, text.lse = list(opening.features), list(opening.best), list(opening.lse)

    def _opening(self, job: Job) -> _Text:
        """All of the opening but its last token, which every text feeds itself."""
        if self.opening is None:
            spare, tokens = len(self.generator.caches) - 1, list(job.script.opening)
            self.opening = text = _Text(job, torch.empty(0), tokens, len(tokens), answers=False)
            while text.fed < len(tokens) - 1:
                self._feed({spare: text})
        return self.opening

    def _feed(self, texts: Mapping[int, _Text]) -> Tensor:
        """Each text's next token through the target → what would follow, [n]."""
        tokens = [text.tokens[text.fed] for text in texts.values()]
        logits, features = self.generator.step(list(texts), tokens, [text.fed for text in texts.values()])
        temperatures = torch.tensor([t.job.temperature if t.answers else 1.0 for t in texts.values()])
        top_ps = torch.tensor([1.0 if t.answers else self.limits.question_top_p for t in texts.values()])
        forced = [text.fed + 1 < len(text.tokens) for text in texts.values()]
        temperatures[torch.tensor(forced)] = 0.0  # what follows is known
        uniforms = torch.stack([t.uniforms[t.fed] if len(t.uniforms) else torch.zeros(TRIES) for t in texts.values()])
        chosen, best, lse = choose(logits, temperatures, top_ps, uniforms)
        for text, row, top, total in zip(texts.values(), features, best.tolist(), lse.tolist()):
            text.fed += 1
            text.features.append(row)
            text.best.append(top)
            text.lse.append(round(total, 4))
        return chosen

    def _step(self) -> None:
        chosen = self._feed(self.texts).tolist()
        for (slot, text), token in zip(list(self.texts.items()), chosen):
            if text.fed < len(text.tokens):
                continue
            stops = token in self.stop_tokens
            if text.answers and not stops and text.answered < self.limits.answer_tokens:
                text.tokens.append(token)
            elif text.answers:
                self._keep(text)
                self._end(slot)
            elif not stops and text.fed - len(text.job.script.opening) < self.limits.question_tokens:
                text.tokens.append(token)
            elif not self._bridge(text):
                self._end(slot)

    def _bridge(self, text: _Text) -> bool:
        """From the question to the answer; False where there is no question, or no new one."""
        question = tuple(text.tokens[len(text.job.script.opening) :])
        if not question or text.job.temperature == 0 and question in self.greedy:
            return False
        if text.job.temperature == 0:
            self.greedy.add(question)
        text.tokens += text.job.script.bridge
        text.prompt_tokens, text.answers = len(text.tokens), True
        return True

    def _end(self, slot: int) -> None:
        del self.texts[slot]
        self.free.append(slot)

    def _keep(self, text: _Text) -> None:
        if text.answered >= SHORTEST_ANSWER:
            tokens = text.tokens[: text.fed]
            conversation = Conversation(text.job.number, text.job.temperature, text.prompt_tokens, tokens, text.best,
                                        text.lse)
            self.shards[text.job.part].append(conversation, torch.stack(text.features))
