"""Durations are read and written as Go does."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayplan.api.duration import format_duration, parse_duration
from bayplan.errors import DecodeError


@pytest.mark.parametrize(
    ("text", "nanoseconds", "written"),
    [
        ("15s", 15_000_000_000, "15s"),
        ("1h", 3_600_000_000_000, "1h0m0s"),
        ("1h30m", 5_400_000_000_000, "1h30m0s"),
        ("1.5s", 1_500_000_000, "1.5s"),
        ("100ms", 100_000_000, "100ms"),
        pytest.param("2us", 2_000, "2µs", id="microseconds"),
        ("3ns", 3, "3ns"),
        ("-2m0.5s", -120_500_000_000, "-2m0.5s"),
        ("0", 0, "0s"),
        ("+5s", 5_000_000_000, "5s"),
        (".5s", 500_000_000, "500ms"),
        ("600s", 600_000_000_000, "10m0s"),
        ("1h2m3.5s", 3723_500_000_000, "1h2m3.5s"),
        ("1.5ms", 1_500_000, "1.5ms"),
        pytest.param(f"-{2**63}ns", -(2**63), "-2562047h47m16.854775808s", id="least of 64 bits"),
        pytest.param(f"0.{'1' * 5000}s", 111_111_111, "111.111111ms", id="many decimals"),
    ],
)
def test_duration_round_trip(text, nanoseconds, written):
    duration = parse_duration(text)

    assert duration.nanoseconds == nanoseconds
    assert str(duration) == written


BAD = ["", "5", "s", "5x", "1h 5m", "-", ".", "9999999999h", f"{2**63}ns"]
ODD = [
    pytest.param("9" * 5000 + "s", id="more digits than Python reads"),
    pytest.param("\u0663s", id="a digit of another script"),
]


@pytest.mark.parametrize("text", BAD + ODD)
def test_bad_duration(text):
    with pytest.raises(DecodeError, match="time: "):
        parse_duration(text)


@given(st.integers(-(2**63), 2**63 - 1))
def test_written_duration_reads_the_same(nanoseconds):
    assert parse_duration(format_duration(nanoseconds)).nanoseconds == nanoseconds
