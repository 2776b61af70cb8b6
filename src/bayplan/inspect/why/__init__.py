"""Why a pod waits or is where it is: facts, proof, and the smallest changes that help."""

from bayplan.inspect.why.answer import Answer, Fix, FunnelRow, Group, Judged, Near, Pending, Score
from bayplan.inspect.why.on_node import why_on_node
from bayplan.inspect.why.owner import OwnerAnswer, why_owner
from bayplan.inspect.why.pending import why_in_turn, why_pending
from bayplan.inspect.why.pod import why_pod

__all__ = [
    "Answer",
    "Fix",
    "FunnelRow",
    "Group",
    "Judged",
    "Near",
    "OwnerAnswer",
    "Pending",
    "Score",
    "why_in_turn",
    "why_on_node",
    "why_owner",
    "why_pending",
    "why_pod",
]
