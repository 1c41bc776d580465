"""What the target writes: its own law, complete conversations, within the disk budget, whatever kills the writer."""

import json
import shutil
from pathlib import Path

import pytest
import torch

from acctax.config import AS_LOADED
from acctax.errors import ConfigError
from acctax.models.decoder import Decoder
from acctax.progress import Progress
from acctax.train import corpus
from acctax.train.features import ShardWriter, read_features, read_shards, tokens_of


@pytest.fixture(scope="module")
def made(tiny_folder, tiny, tmp_path_factory):
    """make(*overrides) → the run and its corpus; a folder written once serves all tests that do not touch it."""
    from hydra import compose, initialize_config_dir

    from acctax.paths import conf_dir
    from acctax.train.config import from_hydra

    folders = {}

    def make(*overrides: str, folder: Path | None = None):
        key = overrides
        if folder is None and key in folders:
            return folders[key]
        where = folder or tmp_path_factory.mktemp("data")
        given = ["draft_source=mtp", "target=hf", f"target.path={tiny_folder}", f"data.folder={where}",
                 "data.tokens=300", "data.held_out=4", "data.question_tokens=6", "data.answer_tokens=20",
                 "data.slots=8", "data.processes=1", *overrides]
        with initialize_config_dir(str(conf_dir()), version_base="1.3"):
            run = from_hydra(compose("train", given), given)
        result = run, corpus.make(run, tiny, Progress.silent())
        if folder is None:
            folders[key] = result
        return result

    return make


def test_conversations_follow_the_template(made, tiny):
    run, data = made()
    assert tokens_of(data.train) >= 300 and len(data.held_out) == 4
    for stored in data.train + data.held_out:
        conversation = stored.conversation
        question = conversation.tokens[1 : conversation.prompt_tokens - 3]
        assert conversation.tokens[0] == 1 and conversation.tokens[conversation.prompt_tokens - 3 :][:3] == [2, 1, 3]
        assert 1 <= len(question) <= 6 and 2 not in question
        assert 8 <= conversation.answer_tokens <= 20
    assert [s.conversation.temperature for s in data.held_out] == [0, 1, 0, 1]
    cycle = run.data.temperatures
    assert all(s.conversation.temperature == cycle[s.conversation.number % 4] for s in data.train)


def test_stored_rows_are_the_decoders(made, tiny):
    """Greedy answers are its arg-max, the last state foretells it, log-sum-exp and best are of its logits."""
    run, data = made()
    decoder = Decoder.load(tiny, AS_LOADED, 64)
    for stored in [s for s in data.train if s.conversation.temperature == 0][:5]:
        its = stored.conversation
        logits = decoder.forward(its.tokens, decoder.new_cache())
        states = read_features(stored, data.width, slice(data.width - tiny.config.hidden, data.width))
        mine = states.float() @ tiny.tensors["model.embed_tokens.weight"].float().T
        torch.testing.assert_close(mine, logits, atol=0.25, rtol=0.02)  # bf16 on both sides
        torch.testing.assert_close(torch.tensor(its.lse), logits.logsumexp(-1), atol=0.25, rtol=0.02)
        chosen = logits.gather(1, torch.tensor(its.best)[:, None])[:, 0]
        assert (chosen > logits.amax(-1) - 0.25).all()
        assert its.tokens[its.prompt_tokens :] == its.best[its.prompt_tokens - 1 : -1]


def test_no_greedy_answer_is_written_twice(made):
    _, data = made()
    prompts = [tuple(s.conversation.tokens[: s.conversation.prompt_tokens]) for s in data.train
               if s.conversation.temperature == 0]
    assert len(set(prompts)) == len(prompts)


def test_openers_begin_every_other_question(made):
    _, data = made("data.openers=[w5 w6,w7]")
    begins = {s.conversation.number: s.conversation.tokens[1:3] for s in data.train}
    opened = [number for number in begins if number // 4 % 2]
    assert opened and all(begins[number] == [5, 6] or begins[number][0] == 7 for number in opened)


def test_prompts_of_a_file(made, tmp_path):
    prompts = [{"turns": [f"w{10 + i} w4"]} for i in range(12)]
    file = tmp_path / "prompts.jsonl"
    file.write_text("\n".join(map(json.dumps, prompts)))
    _, data = made(f"data.prompts={file}", f"data.evaluate={file}")
    assert {s.conversation.tokens[1] for s in data.held_out} == {10, 11, 12, 13}
    assert {s.conversation.tokens[1] for s in data.train} <= set(range(14, 22))
    assert len(data.evaluate) > 12 and {s.conversation.temperature for s in data.evaluate} == {0, 1}


def test_a_larger_wish_is_added(made, tmp_path):
    made(folder=tmp_path)
    before = {s.conversation.number: s.conversation for s in read_shards(tmp_path, "train")}
    _, data = made("data.tokens=600", folder=tmp_path)
    after = {s.conversation.number: s.conversation for s in read_shards(tmp_path, "train")}
    assert tokens_of(data.train) >= 600 and before.items() <= after.items()


def test_three_states_wherever_there_are_three_layers():
    assert corpus.captured_layers(30) == (2, 15, 29)
    assert all(len(set(corpus.captured_layers(layers))) == min(layers, 3) for layers in range(1, 100))


def test_states_of_other_layers_want_another_folder(made, tmp_path, monkeypatch):
    made(folder=tmp_path)
    monkeypatch.setattr(corpus, "captured_layers", lambda layers: (0,))
    with pytest.raises(ConfigError, match=r"data.folder=.*: holds data of layers=\[.*\], not \[0\]"):
        made(folder=tmp_path)


def test_another_recipe_wants_another_folder(made, tmp_path):
    made(folder=tmp_path)
    with pytest.raises(ConfigError, match="data.folder=.*: holds data of answer_tokens=20, not 10"):
        made("data.answer_tokens=10", folder=tmp_path)


def test_what_a_killed_run_wrote_took_its_time_too(made, tmp_path, monkeypatch):
    """Killed at its third look, then begun again: the time of both stands in the state, and only once."""
    looks = iter(range(100))

    def die(seconds):
        if next(looks) == 2:
            raise KeyboardInterrupt
        real_sleep(seconds)

    real_sleep = corpus.time.sleep
    monkeypatch.setattr(corpus.time, "sleep", die)
    with pytest.raises(KeyboardInterrupt):
        made(folder=tmp_path)
    monkeypatch.undo()
    first = json.loads((tmp_path / "corpus.json").read_text())
    assert first["complete"] == 0 and first["seconds"] >= 2 * corpus.POLL_SECONDS
    _, data = made(folder=tmp_path)
    state = json.loads((tmp_path / "corpus.json").read_text())
    assert state["complete"] == 300 and data.seconds == state["seconds"] > first["seconds"]


def test_the_disk_budget_is_kept(made, tmp_path):
    budget = 400_000
    _, data = made("data.tokens=100000", f"data.disk_gb={budget / 1e9}", folder=tmp_path)
    used = sum(file.stat().st_size for file in tmp_path.iterdir())
    assert 0.5 * budget < used <= budget and data.train


def test_a_torn_end_is_cut_off(made, tmp_path):
    """A writer that died in the middle of a conversation: its rows, or half its line, are there."""
    _, data = made()
    source = data.train[0].shard.parent
    for file in source.iterdir():
        shutil.copy(file, tmp_path)
    whole = read_shards(tmp_path, "train")
    rows, index = tmp_path / "train-0.bin", tmp_path / "train-0.jsonl"
    with open(rows, "ab") as file:
        file.write(b"\1" * 777)
    with open(index, "a") as file:
        file.write(index.read_text().splitlines()[0][:50])
    writer = ShardWriter(tmp_path, "train-0", data.width)
    writer.append(whole[0].conversation, torch.full((len(whole[0].conversation.tokens), data.width), 2.0))
    writer.close()
    again = read_shards(tmp_path, "train")
    assert len(again) == len(whole) + 1
    last = max(again, key=lambda s: s.first_row)
    assert (read_features(last, data.width, slice(None)) == 2).all()
    for old, new in zip(whole[1:], again[2:]):  # by number; the first is there twice
        assert torch.equal(read_features(old, data.width, slice(None)), read_features(new, data.width, slice(None)))
