"""n-gram look-up against vectors that other engines produced."""

import pytest

from acctax.decode.rules import Greedy
from acctax.draft.ngram import NgramDraft, NgramSource, look_up


@pytest.mark.parametrize(
    "text, min_n, max_n, K, expected",
    [
        ([1, 2, 3, 4, 2, 3, 9, 2, 3], 1, 3, 4, [4, 2, 3, 9]),
        ([1, 2, 3, 4, 2, 3], 2, 3, 4, [4, 2, 3]),
        ([7, 7, 7, 7, 7, 7], 1, 3, 4, [7, 7, 7]),
        ([5, 6, 8, 5, 6], 2, 2, 4, [8, 5, 6]),
        ([2, 3, 10, 1, 2, 3, 20, 1, 2, 3], 1, 3, 2, [20, 1]),  # the longest beats the earliest
        ([1, 1, 2, 1, 1], 1, 2, 3, [2, 1, 1]),
        ([1, 2, 3], 1, 3, 4, []),
        ([1], 1, 3, 4, []),
    ],
)
def test_earliest(text, min_n, max_n, K, expected):
    assert look_up(text, min_n, max_n, K, "earliest") == expected


def test_latest():
    assert look_up([1, 2, 3, 4, 2, 3, 9, 2, 3], 1, 1, 4, "latest") == [9, 2, 3]
    assert look_up([1, 2, 3, 4, 2, 3, 9, 2, 3], 1, 3, 4, "latest") == [9, 2, 3]


def test_the_text_grows_by_what_was_committed():
    source = NgramSource(2, 2, "earliest")
    source.begin([5, 6, 8], 0, None)
    assert source.draft(3, Greedy().draw).tokens == []
    source.accept(0)
    source.process([5], None)
    source.process([6], None)
    draft = source.draft(3, Greedy().draw)
    assert draft.tokens == [8, 5, 6] and draft.q is None


def test_beside_a_head_one_token_is_no_match_unless_asked_for():
    assert [NgramDraft(None, 3, "earliest", head).label for head in (None, "eagle")] == [
        "ngram:1-3:earliest", "ngram:2-3:earliest+eagle"]  # fmt: skip
    assert NgramDraft(1, 3, "earliest", "mtp").least_n == 1 and NgramDraft(None, 1, "earliest", "mtp").least_n == 1
