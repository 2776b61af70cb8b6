"""The fast lane: pods and nodes in plain dictionaries, everything that decides as it always is.

What is frequent (pods, nodes, bindings, statuses, evictions, events) never meets the API server:
`cluster` keeps it, `driver` runs the scheduler's core on it, controllers and kubelets work on it
through `kit`. What is rare (Deployments, budgets, volumes, namespaces …) is kept by a real API
server in the same process, which also says, once for each shape, what a new pod or node looks
like after defaults, admission and validation (`admission`).
"""
