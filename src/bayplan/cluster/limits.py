"""How much is remembered, in one place; tests shrink every number to one digit."""

import msgspec


class Limits(msgspec.Struct, frozen=True):
    """Upper bounds of what is kept. A smaller one costs time, never an answer."""

    journal: int = 1 << 16
    """Changed rows that can be told to those who follow the table."""
    queries: int = 4096
    """Pod queries whose counts are kept up to date."""
    signatures: int = 1 << 16
    """Kinds of pods whose traits are shared."""
    plans: int = 1 << 13
    """Kinds of pods for which the engine remembers whom to ask."""
    answer_bytes: int = 128 << 20
    """Memory for kept answers, roughly."""
    priorities: int = 8
    """Priorities of pods of one kind for which nodes with nominated pods are remembered."""
    alike: int = 1 << 12
    """Kinds of rows that are numbered beyond two a row before those without a row are forgotten."""
    domains: int = 64
    """Values of a label up to which scores are kept by value."""
    own_scores: int = 256
    """Rows with scores of their own up to which all others' are kept by value of a label."""
    changes: int = 4096
    """Changes of one column before it is copied for records."""
    dry_runs: int = 8
    """Kinds of preemptors whose dry runs are remembered."""
    terms: int = 8192
    """Terms and constraints that plugins keep compiled."""
