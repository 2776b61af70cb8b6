"""How few nodes would do, proven: pods and nodes as counts, a bound, a search, and a check.

`reading` turns a table of nodes and the pods that may move into a `Problem`; `linear` proves a
lower bound, `search` looks for placements until its time is over, and `check` has the profile's own
filters judge every pod of a placement before anybody is told. OR-tools does the solving; it is the
extra `bayplan[optimize]`.
"""
