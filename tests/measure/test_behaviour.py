import random

import pytest

from acctax.measure.behaviour import looped

SOUND = list(range(100, 130))


@pytest.mark.parametrize("period", [1, 2, 3, 5, 8, 13, 20, 25])
def test_a_loop_of_any_period_is_found(period):
    loop = list(range(period))
    repetitions = max(3, -(-16 // period))
    assert looped(SOUND + loop * repetitions)
    assert looped(loop * repetitions)  # from the first token on
    assert not looped(SOUND + loop * (repetitions - 1) + [999])


@pytest.mark.parametrize("cut", [1, 3, 6])
def test_a_loop_cut_by_the_token_limit_is_found(cut):
    assert looped(SOUND + list(range(7)) * 3 + list(range(7))[:cut])


def test_a_run_of_one_token_must_be_long():
    assert looped(SOUND + [5] * 16)
    assert not looped(SOUND + [5] * 14)  # dots, dashes, an indentation


def test_a_run_of_one_token_counts_wherever_it_stands():
    assert looped(SOUND + [5] * 16 + SOUND)
    assert not looped(SOUND + [5] * 15 + SOUND)


def test_a_stop_token_after_the_loop_does_not_hide_it():
    assert looped(SOUND + [1, 2, 3, 4, 5, 6] * 3 + [0])
    assert not looped(SOUND + [1, 2, 3, 4, 5, 6] * 3 + [70, 71, 72])  # the text went on


def test_sound_text_that_repeats_itself_somewhat():
    line, sentence = [10, 11, 12], [40, 41, 42, 43, 44, 45, 46, 47, 48, 49]
    numbered = [token for number in range(1, 12) for token in (number, 50, *line, 60)]
    assert not looped(numbered)  # "1. Add the … \n2. Add the … \n"
    bullets = [token for item in range(200, 212) for token in (50, *line, item, 60)]
    assert not looped(bullets)  # "- a bag of flour\n- a bag of salt\n"
    assert not looped(SOUND + sentence * 2)  # a refrain
    assert not looped(SOUND + [7, 8] * 4)  # "very, very, very, very"
    assert not looped([0, 1] * 7)  # short as it is


def test_random_text_over_few_words_is_no_loop():
    words = random.Random(0)
    assert not any(looped([words.randrange(6) for _ in range(60)]) for _ in range(500))


@pytest.mark.parametrize("tokens", [[], [1], [1, 1], [1, 1, 1]])
def test_short_texts_are_no_loops(tokens):
    assert not looped(tokens)
