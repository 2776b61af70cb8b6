"""The cluster as columns: nodes, the pods placed on them, counts, and other objects by kind.

Nothing here decides anything. `bayplan.engine.cache` feeds it, plugins read it.
"""
