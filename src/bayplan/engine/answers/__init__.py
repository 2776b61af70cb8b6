"""What plugins said, kept between attempts, by plugin and by what the plugin reads of a pod.

`Answers.judge(info, state)` brings everything that one pod needs up to date. An `Answer` is one
plugin's for one facet, shared by all pods with that facet; its values are in `Column`s, each of
which knows how far it has followed the table. `Candidates` put the filters of a pod together,
`Totals` the scores. What can be computed from columns is computed from columns, row by row: there
is no second account of anything that could differ.
"""

from bayplan.cluster.column import Column
from bayplan.engine.answers.answers import Answers, Judgement
from bayplan.engine.answers.asking import AttemptFailed

__all__ = ["Answers", "AttemptFailed", "Column", "Judgement"]
