"""One training run from nothing, or from where it was killed, to a head on disk."""

import resource
from pathlib import Path

import torch

from acctax import environment
from acctax.errors import ConfigError
from acctax.models.checkpoint import Checkpoint, open_checkpoint
from acctax.progress import Progress
from acctax.train import corpus as corpora
from acctax.train.card import Facts, write_card
from acctax.train.config import TrainRun
from acctax.train.corpus import Corpus, captured_layers
from acctax.train.heads import build_head
from acctax.train.log import Log
from acctax.train.material import Material
from acctax.train.save import save_head
from acctax.train.trainer import Trainer
from acctax.train.vocabulary import DraftVocabulary, draft_vocabulary


def train(run: TrainRun) -> None:
    """Raises ConfigError before anything is written, for what cannot run."""
    checkpoint = open_checkpoint(run.target)
    checkpoint.check_files()
    corpora.plan(run, checkpoint)
    state = run.folder / "training"  # what a killed run goes on from; the rest of the folder is the head
    _make_folder(state)
    log = Log(run, state)
    status = "FAILED"
    try:
        with Progress(cells=1) as progress, progress.cell(f"{run.draft_source} head for {run.target.label}"):
            _train(run, checkpoint, state, log, progress)
        status = "FINISHED"
    except KeyboardInterrupt:
        status = "KILLED"
        raise
    finally:
        log.end(status)


def _train(run: TrainRun, checkpoint: Checkpoint, state: Path, log: Log, progress: Progress) -> None:
    corpus = corpora.make(run, checkpoint, progress)
    torch.set_num_threads(1)  # small matrices; the other head may train on the other core
    vocabulary = _vocabulary(run, checkpoint, corpus)
    states = captured_layers(len(checkpoint.config.layers))
    head = build_head(run.draft_source, checkpoint, states, run.seed)
    width, hidden = corpus.width, checkpoint.config.hidden
    columns = slice(width - hidden, width) if run.draft_source == "mtp" else slice(0, width)
    trainer = Trainer(run, head, Material(checkpoint, corpus, vocabulary, columns), state / "state.safetensors")
    reports = trainer.fit(progress, log.metrics)
    save_head(run.folder, head, vocabulary, checkpoint, run.verifier, run.fit.drafts)
    facts = Facts(
        parameters=sum(parameter.numel() for parameter in head.parameters()),
        draft_vocab=vocabulary.size,
        steps_per_epoch=len(trainer.batches) / run.fit.epochs,
        peak_bytes=corpora.peak_bytes(resource.RUSAGE_SELF),
        hardware=environment.describe()["hardware"],
    )
    card = run.folder / "README.md"
    card.write_text(write_card(run, corpus, trainer.spent, facts, reports))
    log.files([card, run.folder / "config.json"])
    progress.note(f"{run.folder}: the head and its card")


def _vocabulary(run: TrainRun, checkpoint: Checkpoint, corpus: Corpus) -> DraftVocabulary:
    answers = (s.conversation.tokens[s.conversation.prompt_tokens :] for s in corpus.train)
    vocab = checkpoint.config.vocab
    return draft_vocabulary(answers, vocab, min(run.fit.draft_vocab, vocab), sorted(checkpoint.stop_tokens))


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError("out", folder.parent, f"must be a folder that can be made ({error.strerror})") from error
