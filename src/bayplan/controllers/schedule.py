"""Cron schedules: five fields or @daily and its like, in a time zone."""

from __future__ import annotations

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from bayplan.api.labels import parse_int64

_MONTH_NAMES = "jan feb mar apr may jun jul aug sep oct nov dec"
_MONTHS = {name: n for n, name in enumerate(_MONTH_NAMES.split(), 1)}
_DAYS = {name: n for n, name in enumerate(["sun", "mon", "tue", "wed", "thu", "fri", "sat"])}
_NAMED = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_FIELDS: tuple[tuple[int, int, dict[str, int]], ...] = (
    (0, 59, {}),
    (0, 23, {}),
    (1, 31, {}),
    (1, 12, _MONTHS),
    (0, 6, _DAYS),
)
_DAY = 86_400.0
_HORIZON_DAYS = 366 * 5  # a schedule without a time in five years has none


class ScheduleError(ValueError):
    """A schedule or time zone that cannot be read."""


class Schedule:
    """The moments that a cron expression names."""

    def __init__(self, text: str, zone: str = "") -> None:
        parts = _NAMED.get(text.strip(), text).split()
        if len(parts) != len(_FIELDS):
            raise ScheduleError(f"expected exactly 5 fields, found {len(parts)}: {text}")
        try:
            self._zone = ZoneInfo(zone or "UTC")
        except (ZoneInfoNotFoundError, ValueError) as error:
            raise ScheduleError(f"unknown time zone {zone}") from error
        sets = [_field(part, *bounds) for part, bounds in zip(parts, _FIELDS, strict=True)]
        self._minutes, self._hours, self._days, self._months, self._weekdays = sets
        self._either = parts[2][0] not in "*?" and parts[4][0] not in "*?"

    def next(self, after: float) -> float | None:
        """Return the first moment later than `after`, both in seconds since 1970."""
        at = datetime.fromtimestamp(int(after), self._zone).replace(second=0) + timedelta(minutes=1)
        end = at + timedelta(days=_HORIZON_DAYS)
        while at < end:
            if not self._is_day(at):
                at = (at + timedelta(days=1)).replace(hour=0, minute=0)
            elif at.hour not in self._hours:
                at = (at + timedelta(hours=1)).replace(minute=0)
            elif at.minute not in self._minutes:
                at += timedelta(minutes=1)
            else:
                return at.timestamp()
        return None

    def latest(self, after: float, until: float) -> float | None:
        """Return the last moment in (after, until], looking at no more than it must."""
        after = max(after, until - _HORIZON_DAYS * _DAY)
        while until > after:  # day by day back
            begin = max(after, until - _DAY)
            if any(self._is_day(datetime.fromtimestamp(at, self._zone)) for at in (begin, until)):
                found = self._near(begin, until)
                if found is not None:
                    return found
            until = begin
        return None

    def _near(self, after: float, until: float) -> float | None:
        """Return the last moment in (after, until], which is no more than a day."""
        span = 60.0
        while True:  # from near the end, ever further back
            begin = max(after, until - span)
            found, moment = None, self.next(begin)
            while moment is not None and moment <= until:
                found, moment = moment, self.next(moment)
            if found is not None or begin <= after:
                return found
            span *= 8

    def _is_day(self, at: datetime) -> bool:
        if at.month not in self._months:
            return False
        day, weekday = at.day in self._days, (at.weekday() + 1) % 7 in self._weekdays
        return day or weekday if self._either else day and weekday


def _field(text: str, low: int, high: int, names: dict[str, int]) -> set[int]:
    found: set[int] = set()
    for part in text.lower().split(","):
        body, _, step = part.partition("/")
        first, _, last = body.partition("-")
        if body in ("*", "?"):
            begin, end = low, high
        else:
            begin = _number(first, names, text)
            end = _number(last, names, text) if last else (high if step else begin)
        every = _number(step, {}, text) if step else 1
        most = 7 if names is _DAYS else high  # Sunday is 0 and 7
        if every < 1 or begin < low or end > most:
            raise ScheduleError(f"value out of range ({low} - {high}): {text}")
        found.update(n if n <= high else low for n in range(begin, end + 1, every))
    return found


def _number(text: str, names: dict[str, int], whole: str) -> int:
    if text in names:
        return names[text]
    number = parse_int64(text)
    if number is None or number < 0:
        raise ScheduleError(f"failed to parse int from {text}: {whole}")
    return number
