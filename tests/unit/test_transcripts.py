"""A transcription is wrong where the CPU was sure, and a tie that fell the other way convicts nobody."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracker.model import Finding, State
from tracker.numbers import NOISE_FACTOR, TOLERANCES
from tracker.texts import slug
from tracker.transcripts import SPARE_SHARE, SPARE_WORDS, diagnose

Window = dict[str, Any]

NOISE, SCALE = 1e-3, 20.0


def limit(dtype: str = "float32", noise: float = NOISE) -> float:
    rtol, atol = TOLERANCES[dtype]
    return 2 * (NOISE_FACTOR * noise + atol + rtol * SCALE)


def window(**changes: Any) -> Window:
    """Return a window with nothing against it."""
    plain: Window = {
        "tokens": [24, 24],
        "noise": NOISE,
        "scale": SCALE,
        "avg_logprob": [-0.7, -0.7],
        "no_speech": [0.2, 0.2],
        "ratio": [1.4, 1.4],
        "falls_back": [False, False],
    }
    return {**plain, **changes}


def transcript(*windows: Any, **changes: Any) -> dict[str, Any]:
    count = [len(windows), len(windows)]
    return {"dtype": "float32", "windows": list(windows), "count": count, **changes}


def said(*windows: Any, **changes: Any) -> str | None:
    """Return the reason, which is one of ``wrong``."""
    found = diagnose(transcript(*windows, **changes))
    if found is None:
        return None
    assert found.state is State.WRONG
    return found.reason


def test_an_equal_text_has_nothing_against_it() -> None:
    assert said(window(), window()) is None


@pytest.mark.parametrize("dtype", TOLERANCES)
def test_a_token_may_differ_where_the_cpu_was_not_sure(dtype: str) -> None:
    edge = limit(dtype)
    assert said(window(tokens=[3, 24], margin=edge), dtype=dtype) is None
    assert said(window(tokens=[3, 24], margin=edge * 1.001), dtype=dtype) == "tokens"


def test_more_noise_of_the_cpu_allows_a_wider_margin() -> None:
    differs = {"tokens": [3, 24], "margin": 0.5}
    assert said(window(**differs, noise=1e-3)) == "tokens"
    assert said(window(**differs, noise=0.05)) is None


def test_a_token_that_differs_without_a_margin_is_wrong() -> None:
    assert said(window(tokens=[23, 24])) == "tokens"


def test_a_device_that_goes_on_where_the_cpu_ended_is_judged_by_that_end() -> None:
    assert said(window(tokens=[24, 24], margin=3.0)) == "tokens"


@pytest.mark.parametrize(("key", "reason"), [("avg_logprob", "avg-logprob"), ("no_speech", "no-speech")])
def test_a_statistic_is_right_up_to_what_a_logit_may_be_off(key: str, reason: str) -> None:
    assert said(window(**{key: [0.3 + 0.49 * limit(), 0.3]})) is None
    assert said(window(**{key: [0.3 + 0.51 * limit(), 0.3]})) == reason
    assert said(window(**{key: ["nan", 0.3]})) == "nan"
    assert said(window(**{key: ["-inf", 0.3]})) == reason


def test_a_lost_log_probability_is_seen_in_float16_too() -> None:
    # As float16 with trained weights gave it on a build where float times bool is a bool.
    lost = window(noise=0.0238891, scale=34.3929, avg_logprob=[0.0833333, -0.260282])
    assert said(lost, dtype="float16") == "avg-logprob"


def test_statistics_of_another_text_are_not_compared() -> None:
    tied = window(tokens=[3, 24], margin=0.0, avg_logprob=[-5.0, -0.7], falls_back=[True, False])
    assert said(tied) is None


def test_a_fallback_that_a_wrong_statistic_causes_is_named() -> None:
    found = diagnose(transcript(window(avg_logprob=[-1.5, -0.7], falls_back=[True, False])))
    assert found is not None
    assert found.reason == "avg-logprob"
    assert "falls back" in found.message


def test_a_statistic_on_the_edge_of_falling_back_is_right_on_either_side() -> None:
    assert said(window(avg_logprob=[-1.0000001, -0.9999999], falls_back=[True, False])) is None


def test_two_texts_of_the_device_are_non_deterministic_unless_the_cpu_was_not_sure() -> None:
    assert said(window(repeat=[3, 24], repeat_margin=1.0)) == "non-deterministic"
    assert said(window(repeat=[3, 24], repeat_margin=limit())) is None
    assert said(window(repeat=[3, 24])) is None


def test_a_lost_window_is_wrong_unless_a_tie_came_before() -> None:
    assert said(window(), count=[1, 2]) == "windows"
    assert said(window(tokens=[3, 24], margin=0.0), count=[1, 2]) is None


@pytest.mark.parametrize("words", [10, 1000])
def test_ties_may_cost_a_few_words(words: int) -> None:
    spare = int(max(SPARE_WORDS, SPARE_SHARE * words))
    tied = window(tokens=[3, 24], margin=0.0)
    assert said(tied, words=[1 + spare, 1, words]) is None
    assert said(tied, words=[2 + spare, 1, words]) == "word-errors"


def test_the_first_window_that_is_wrong_speaks() -> None:
    assert said(window(no_speech=[0.9, 0.1]), window(tokens=[3, 24])) == "no-speech"


@pytest.mark.parametrize(
    "broken",
    [
        None,
        {},
        transcript(),
        transcript(window(), dtype="int64"),
        transcript(window(noise="nan")),
        transcript(window(noise="inf")),
        transcript(window(tokens=[25, 24])),
        transcript(window(tokens=[True, 24])),
        transcript(window(avg_logprob=[0.0])),
        transcript(window(no_speech=[0.1, "nan"])),
        transcript(window(falls_back=[0, 1])),
        transcript(window(margin=-1.0)),
        transcript(window(), count=[1]),
        transcript(window(), words=[1, 2]),
        transcript(window(tokens=[3, 24], margin=9.0), 7),
    ],
)
def test_what_can_not_be_read_is_never_a_pass(broken: Any) -> None:
    found = diagnose(broken)
    assert found is not None
    assert (found.state, found.reason) == (State.INFRA, "measures-unreadable")


ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.just("nan"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
KEYS = st.sampled_from([*window(), "margin", "repeat", "repeat_margin"])


@given(ANY)
def test_any_json_gets_a_word(garbage: Any) -> None:
    found = diagnose(garbage)
    assert isinstance(found, Finding)
    assert found.state is State.INFRA


@given(st.dictionaries(KEYS, ANY), st.dictionaries(st.sampled_from(["dtype", "count", "words"]), ANY))
def test_any_value_in_any_place_gets_a_word_with_a_stable_reason(inner: Any, outer: Any) -> None:
    found = diagnose(transcript(window(**inner), **outer))
    if found is not None:
        assert found.state in (State.WRONG, State.INFRA)
        assert found.reason == slug(found.reason)


@given(st.floats(0, 1e3), st.floats(0, 1e3), st.floats(0, 1e3))
def test_a_surer_cpu_never_excuses_more(noise: float, one: float, two: float) -> None:
    small, large = sorted((one, two))
    wrong = [said(window(tokens=[3, 24], noise=noise, margin=margin)) for margin in (small, large)]
    assert wrong != ["tokens", None]


@given(st.floats(-10, 0), st.floats(-10, 0))
def test_the_sides_of_a_statistic_can_be_exchanged(one: float, two: float) -> None:
    assert said(window(avg_logprob=[one, two])) == said(window(avg_logprob=[two, one]))
