"""One attempt: search, choice, decision, record."""
