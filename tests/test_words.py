"""Numbers as they are printed: rounded half away from zero on the exact value, the unit always there."""

import pytest

from zerowidget.words import (
    amount,
    count,
    duration,
    exponential,
    fixed,
    in_unit,
    plain,
    say,
    scaled_size,
    significant,
    size,
    trimmed,
)

MICRO = "\u00b5s"


@pytest.mark.parametrize(
    ("x", "digits", "text"),
    [
        (41.25, 1, "41.3"),  # an exact tie goes up, as in the paper's Table 1
        (1.875, 2, "1.88"),
        (0.5, 0, "1"),
        (1.5, 0, "2"),
        (2.5, 0, "3"),
        (0.125, 2, "0.13"),
        (1.005, 2, "1.00"),  # no tie: the double is 1.00499999999999989...
        (1.45, 1, "1.4"),  # 1.4499999999999999556
        (8.345, 2, "8.35"),  # 8.3450000000000006394
        (0.0, 2, "0.00"),
        (7.0, 0, "7"),
        (-2.5, 0, "-3"),
        (1e21, 0, "1000000000000000000000"),
        (123456789.0, 3, "123456789.000"),
    ],
)
def test_fixed_rounds_ties_away_from_zero(x, digits, text):
    assert fixed(x, digits) == text


@pytest.mark.parametrize(
    ("x", "digits", "text"),
    [
        (7.5e9, 3, "7.5e9"),
        (1e9, 3, "1e9"),
        (1.0, 3, "1e0"),
        (120.0, 3, "1.2e2"),
        (1234567.0, 3, "1.235e6"),
        (12345.0, 3, "1.235e4"),  # an exact tie
        (9999.6, 3, "1e4"),
        (0.00125, 3, "1.25e-3"),
        (0.0, 3, "0"),
        (-7.5e9, 3, "-7.5e9"),
        (1.5, 0, "2e0"),
    ],
)
def test_exponential_drops_trailing_zeros(x, digits, text):
    assert exponential(x, digits) == text


@pytest.mark.parametrize(
    ("x", "text"),
    [(12.0, "12"), (2.03125, "2.03125"), (0.0, "0"), (0.01, "0.01"), (1e16, "10000000000000000")],
)
def test_plain_is_exact(x, text):
    assert plain(x) == text


@pytest.mark.parametrize(
    ("x", "digits", "text"),
    [(1.5, 2, "1.5"), (1.0, 2, "1"), (1.504, 2, "1.5"), (10.0, 0, "10"), (100.0, 1, "100"), (2.25, 1, "2.3")],
)
def test_trimmed_keeps_the_zeros_of_whole_numbers(x, digits, text):
    assert trimmed(x, digits) == text


@pytest.mark.parametrize(
    ("x", "text"),
    [(131.4, "131"), (14.25, "14.3"), (1.745, "1.75"), (100.0, "100"), (10.0, "10.0"), (0.0, "0.00")],
)
def test_a_label_has_three_figures(x, text):
    # 1.745 is 1.7450000000000001 as a double
    assert significant(x) == text


@pytest.mark.parametrize(
    ("x", "text"),
    [
        (111.7587, "111.8"),
        (1.746, "1.7"),
        (0.364, "0.36"),
        (0.1, "0.10"),
        (0.0042, "0.004"),
        (0.0, "0"),
        (1000.0, "1000"),
        (48340.4, "48340"),
        (1.0, "1.0"),
        (0.0005, "0.001"),  # the double is a little more
        (0.00049, "4.9e-4"),
        (99999.4, "99999"),
        (99999.5, "1e5"),
        (123456.0, "1.2e5"),
        (16e6, "1.6e7"),
    ],
)
def test_figures_beside_bars(x, text):
    assert amount(x) == text


@pytest.mark.parametrize(
    ("nbytes", "unit", "value", "text"),
    [
        (2**30, "GiB", 1.0, "1.0 GiB"),
        (10**9, "GB", 1.0, "1.0 GB"),
        (1.2e11, "GiB", 1.2e11 / 2**30, "111.8 GiB"),
        (1.2e11, "GB", 120.0, "120.0 GB"),
        (1.875e9, "GiB", 1.875e9 / 2**30, "1.7 GiB"),
        (48340 * 2**30, "GiB", 48340.0, "48340 GiB"),
    ],
)
def test_gib_is_2_to_the_30_and_gb_10_to_the_9(nbytes, unit, value, text):
    assert in_unit(float(nbytes), unit) == value
    assert size(float(nbytes), unit) == text


@pytest.mark.parametrize(
    ("nbytes", "unit", "text"),
    [
        # 0.0005 of the unit and 99999.5 of it are the bounds
        (500_000, "GB", "0.001 GB"),
        (499_999, "GB", "500 kB"),
        (2**20, "GiB", "0.001 GiB"),  # a 1024th
        (2**19, "GiB", "512 KiB"),  # a 2048th: 0.00049
        (99_999_499_999_999, "GB", "99999 GB"),
        (99_999_500_000_000, "GB", "100 TB"),
        (99_999 * 2**30, "GiB", "99999 GiB"),
        (100_000 * 2**30, "GiB", "97.7 TiB"),  # 100000 / 1024 = 97.66
        (16e15, "GB", "16.0 PB"),
        (16e16, "GB", "160 PB"),  # 1e16 parameters
        (16e16, "GiB", "142 PiB"),  # 16e16 / 2^50 = 16e16 / 1.1259e15 = 142.1
        (16, "GiB", "16 B"),
        (0, "GiB", "0 B"),
        (0, "GB", "0 B"),
    ],
)
def test_a_size_that_cannot_be_read_in_its_unit_takes_another_of_the_family(nbytes, unit, text):
    assert size(float(nbytes), unit) == text


@pytest.mark.parametrize(
    ("nbytes", "unit", "text"),
    [
        (0, "GiB", "0 B"),
        (1023, "GiB", "1023 B"),
        (1024, "GiB", "1.00 KiB"),
        (1000, "GB", "1.00 kB"),
        (999, "GB", "999 B"),
        (468.75e6, "GiB", "447 MiB"),  # 7.5e9 / 32 parameters of 2 bytes: 468.75 MB = 447.03 MiB
        (468.75e6, "GB", "469 MB"),
        (3 * 2**40, "GiB", "3.00 TiB"),
        (5e15, "GB", "5.00 PB"),
        (2e18, "GB", "2000 PB"),  # there is no larger prefix
    ],
)
def test_a_size_takes_the_prefix_that_suits_it(nbytes, unit, text):
    assert scaled_size(float(nbytes), unit) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (1.0, "1.00 s"),
        (1.024, "1.02 s"),
        (123.4, "123 s"),
        (0.0096249, "9.62 ms"),
        (0.25, "250 ms"),
        (41e-6, f"41.0 {MICRO}"),
        (0.0, f"0.00 {MICRO}"),
        (0.001, "1.00 ms"),
    ],
)
def test_a_duration_has_its_unit(seconds, text):
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("x", "text"),
    [
        (7.5e9, "7.5B"),
        (70e9, "70B"),
        (1e12, "1T"),
        (22.5e9, "22.5B"),
        (175e9, "175B"),
        (350e6, "350M"),
        (1536.0, "1.54K"),
        (999.0, "999"),
        (1000.0, "1K"),
        (1e16, "10000T"),
        (1.0, "1"),
    ],
)
def test_a_count_is_in_short_scale(x, text):
    assert count(x) == text


def test_sentences_are_filled_in_both_languages():
    assert say("error", "en", name="n", rule="at least 1", value=0) == "n must be at least 1, got 0"
    assert say("stage_name", "zh", stage=3) == "阶段 3"
    assert say("all_gather", "en") == "all-gather"


def test_what_a_user_typed_is_printed_as_typed():
    said = say("error", "en", name="gpu", rule="L4", value="'{name} {rule}'")
    assert said == "gpu must be L4, got '{name} {rule}'"


def test_rounding_never_adds_a_figure():
    assert significant(9.996) == "10.0"
    assert significant(99.96) == "100"
    assert amount(999.96) == "1000"
    assert duration(0.99996) == "1.00 s"
    assert duration(0.00099999) == "1.00 ms"
    assert count(999_999.0) == "1M"
    assert scaled_size(2**30 - 1.0, "GiB") == "1.00 GiB"


def test_a_tiny_model_is_not_nothing():
    assert amount(2.3e-7) == "2.3e-7"
    assert amount(0.0) == "0"
