"""Priority and fairness: which request runs now, which waits, which is told to come back later.

suggested    the objects that every cluster starts with, as a table
schemas      FlowSchemas: who is asking what belongs to which priority level, in which flow
seats        the seats of one level, shared fairly among flows
control      the levels of a server, kept in step with the objects in the store
"""

from bayplan.apiserver.fairness.control import Fairness

__all__ = ["Fairness"]
