"""Durations in a configuration: whole nanoseconds, written as Go writes them."""

import msgspec

from bayplan.api.duration import format_duration, parse_nanoseconds


class Duration(msgspec.Struct, frozen=True, order=True):
    """A span of time in whole nanoseconds."""

    nanoseconds: int = 0

    @property
    def seconds(self) -> float:
        return self.nanoseconds / 1e9

    def __bool__(self) -> bool:
        return self.nanoseconds != 0

    def __str__(self) -> str:
        return format_duration(self.nanoseconds)


def seconds(number: float) -> Duration:
    """A duration of so many seconds."""
    return Duration(round(number * 1e9))


def parse_duration(text: str) -> Duration:
    """Read Go's duration syntax; raise DecodeError in Go's words."""
    return Duration(parse_nanoseconds(text))
