"""Quantities are exact, round as upstream does and are rewritten as the API server does."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayplan.api import quantity


@pytest.mark.parametrize(
    ("text", "value", "milli"),
    [
        ("1m", 1, 1),
        ("1500m", 2, 1500),
        ("100u", 1, 1),
        ("0.0001", 1, 1),
        ("1.0005", 2, 1001),
        ("1.5Ki", 1536, 1536000),
        ("0.1Ki", 103, 102400),
        ("1e3", 1000, 1000000),
        ("1E-2", 1, 10),
        ("2E", 2 * 10**18, quantity.INT64_MAX),
        ("9Ei", quantity.INT64_MAX, quantity.INT64_MAX),
        (".5", 1, 500),
        ("5.", 5, 5000),
        ("+5", 5, 5000),
        ("-1500m", -2, -1500),
        ("007", 7, 7000),
        (5, 5, 5000),
        (0.1, 1, 100),
        (1e22, quantity.INT64_MAX, quantity.INT64_MAX),
        (" 3 ", 3, 3000),
        ("0.1n", 1, 1),
        ("1e-999999999", 1, 1),
    ],
)
def test_value_and_milli_value_round_away_from_zero(text, value, milli):
    assert value == quantity.value(text)
    assert milli == quantity.milli_value(text)


WRONG = (
    "", " ", "1K", "1ki", "1mi", "1e", "1 Gi", "abc", "1.2.3", "1Kim", "--1", "1e1.5", "Ei",
    pytest.param("١", id="an Arabic digit"),
)  # fmt: skip


@pytest.mark.parametrize("text", WRONG)
def test_what_is_not_a_quantity_is_refused_by_name(text):
    with pytest.raises(quantity.QuantityError, match="parsing quantity"):
        quantity.parse(text)


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("1.5Gi", "1536Mi"),
        ("0.001", "1m"),
        ("0.5", "500m"),
        ("1024Mi", "1Gi"),
        ("1025Ki", "1025Ki"),
        ("1000m", "1"),
        ("1000k", "1M"),
        ("100Ki", "100Ki"),
        ("512", "512"),
        ("1.234", "1.234"),
        ("1e3", "1e3"),
        ("10e2", "1e3"),
        ("1000", "1k"),
        ("0.5Ki", "512"),
        ("1.5Ki", "1536"),
        ("0", "0"),
        ("0Gi", "0"),
        ("9Ei", "9223372036854775807"),
        ("-1000m", "-1"),
        ("0.1Ki", "102400m"),
        ("100e-3", "100e-3"),
        ("0.1e1", "1"),
        ("+5", "+5"),
        ("007", "007"),
        ("12.340", "12.340"),
        ("340.329Ki", "348496896m"),
        ("59.51e5", "59.51e5"),
        ("Mi", "0"),
        (1.5, "1500m"),
        (4, "4"),
    ],
)
def test_canonical_form(text, canonical):
    assert canonical == quantity.canonical(text)


@given(st.integers(-(10**21), 10**21), st.sampled_from(["n", "u", "m", "", "k", "M", "G", "T"]))
def test_canonical_form_keeps_the_value(digits, suffix):
    text = f"{digits}{suffix}"

    assert quantity.nanos(text) == quantity.nanos(quantity.canonical(text))


@given(st.integers(0, 10**6), st.integers(0, 10**6), st.sampled_from(["", "Ki", "Mi", "Gi", "Ti"]))
def test_binary_values_are_exact_to_the_nano(whole, decimals, suffix):
    factor = 1 << {"": 0, "Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40}[suffix]
    exact = Fraction(f"{whole}.{decimals:06}") * factor
    nanos = quantity.nanos(f"{whole}.{decimals:06}{suffix}")

    assert 0 <= nanos - exact * 10**9 < 1


def test_comparison_is_exact():
    assert quantity.compare("1000m", "1") == 0
    assert quantity.compare("1000000001n", "1") == 1
    assert quantity.compare("1Mi", "1G") == -1
