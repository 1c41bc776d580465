from collections import Counter

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from acctax.errors import ConfigError
from acctax.measure.workload import Prompt, load, render
from acctax.paths import conf_dir

MIXED = conf_dir() / "workload" / "mixed.jsonl"
SHARED = conf_dir().parent.parent / "shared" / "data"


def written(tmp_path, *lines):
    file = tmp_path / "prompts.jsonl"
    file.write_text("\n".join(lines), encoding="utf-8")
    return file


def test_mixed_is_sixty_prompts_in_six_categories_or_more():
    prompts = load(MIXED)
    assert len(prompts) == 60
    counts = Counter(prompt.category for prompt in prompts)
    assert len(counts) >= 6 and max(counts.values()) - min(counts.values()) <= 1
    assert len({prompt.turns for prompt in prompts}) == 60
    assert all(8 <= len(prompt.turns[0].split()) <= 120 for prompt in prompts)


@pytest.mark.parametrize("limit", [6, 12, 24, 25, 40])
def test_the_first_prompts_of_mixed_are_balanced(limit):
    prompts = load(MIXED, limit)
    assert len(prompts) == limit
    counts = Counter(prompt.category for prompt in prompts)
    assert len(counts) >= 6 and max(counts.values()) - min(counts.values()) <= 1


@pytest.mark.parametrize("name", ["mt_bench", "humaneval_80", "gsm8k_200"])
def test_workloads_from_elsewhere_load(name):
    if not (file := SHARED / f"{name}.jsonl").is_file():
        pytest.skip(f"{name}.jsonl is not here")
    assert len(load(file)) >= 80


def test_lines_are_read_with_their_defaults(tmp_path):
    file = written(
        tmp_path,
        '{"id": "a", "category": "chat", "turns": ["One\u2028line", "Two"], "reference": 3}',
        "",
        '{"turns": ["Grüße"]}',
        '{"id": 7, "turns": ["Hm?"]}',
        "",
    )
    assert load(file) == [
        Prompt("a", "chat", ("One\u2028line", "Two")),
        Prompt("line_3", "uncategorised", ("Grüße",)),
        Prompt("7", "uncategorised", ("Hm?",)),
    ]
    assert [prompt.id for prompt in load(file, 2)] == ["a", "line_3"]
    assert len(load(file, 100)) == 3


GOOD = '{"id": "a", "turns": ["Hello"]}'


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([], "prompts.jsonl: must hold at least one prompt"),
        (["", "  "], "prompts.jsonl: must hold at least one prompt"),
        ([GOOD, "", '{"turns": ["x"'], "line 3: must be JSON (Expecting ',' delimiter at column 15)"),
        ([GOOD, "plain words"], "line 2: must be JSON"),
        ([GOOD, '["turns"]'], 'line 2: must hold "turns"'),
        ([GOOD, '{"prompt": "x"}'], 'line 2: must hold "turns"'),
        (['{"turns": []}'], 'line 1: must hold "turns"'),
        (['{"turns": "x"}'], 'line 1: must hold "turns"'),
        (['{"turns": ["x", 3]}'], 'line 1: must hold "turns"'),
        (['{"turns": [" "]}'], 'line 1: must hold "turns"'),
        ([GOOD, GOOD], "line 2: the id a occurs twice"),
    ],
)
def test_what_is_no_workload_is_refused_in_one_line(tmp_path, lines, message):
    with pytest.raises(ConfigError) as refusal:
        load(written(tmp_path, *lines), limit=1)  # the lines beyond the limit are checked too
    assert str(refusal.value).startswith("workload.path=") and message in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_a_missing_file_a_folder_and_bytes_that_are_no_text_are_refused(tmp_path):
    with pytest.raises(ConfigError, match="absent.jsonl: must be a file that can be read"):
        load(tmp_path / "absent.jsonl")
    with pytest.raises(ConfigError, match="must be a file that can be read"):
        load(tmp_path)
    (tmp_path / "prompts.jsonl").write_bytes(b'{"turns": ["\xff\xfe"]}')
    with pytest.raises(ConfigError, match="must be UTF-8 text"):
        load(tmp_path / "prompts.jsonl")


def tokenizer(chat_template=None):
    """A word tokenizer whose encode begins every text with <s>, as many models' do."""
    vocab = {word: i for i, word in enumerate(["<s>", "<unk>", "user", "bot", "hello", "there", "again"])}
    words = Tokenizer(models.WordLevel(vocab, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    words.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    fast = PreTrainedTokenizerFast(tokenizer_object=words, bos_token="<s>", unk_token="<unk>")
    fast.chat_template = chat_template
    return fast


TEMPLATE = (
    "{{ bos_token }}{% for m in messages %} {{ m.role }} {{ m.content }}{% endfor %}"
    "{% if add_generation_prompt %} bot{% endif %}"
)


def test_render_asks_the_first_turn_through_the_chat_template():
    tokens = render(Prompt("a", "chat", ("hello there", "again")), tokenizer(TEMPLATE))
    assert tokens == [0, 2, 4, 5, 3]  # one <s>


def test_render_without_a_template_is_plain_text():
    tokens = render(Prompt("a", "chat", ("hello there", "again")), tokenizer())
    assert tokens == [0, 4, 5]
    assert all(type(token) is int for token in tokens)
