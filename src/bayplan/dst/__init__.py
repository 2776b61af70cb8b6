"""The whole system in one process of virtual time, with everything around it failing.

API server on a SQLite store with a faulty disk, two schedulers that elect a leader, controllers,
kubelets, an extender, two global schedulers on a store of their own, and clients; a network that
loses, delays, repeats and reorders; clocks that jump; processes that crash. One seed decides all of
it. `invariants` says what must hold after every step, `shrink` finds the few steps that matter.

    bayplan-dst --seeds 1000
"""
