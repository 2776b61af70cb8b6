"""Mutation testing: small faults are put into the source, and tests must notice them.

`make mutants` (see `__main__`) runs it; `scores.json` holds what was reached and may only rise,
`equivalent.json` the mutants that change nothing that anybody could see, each with the reason.
"""
