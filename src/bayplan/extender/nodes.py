"""A cache of typed nodes with indexes, for extenders whose calls carry names only.

    nodes = NodeCache()
    nodes.index("zone", lambda node: node.metadata.labels.get("topology.kubernetes.io/zone"))
    app = Extender(nodes=nodes)

    @app.filter
    def same_zone(pod, names):
        return nodes.where("zone", pod.metadata.labels.get("zone")) & set(names)

`bayplan extender --kubeconfig` fills it from a cluster; tests call `put`. An index is kept as
nodes come, change and go: asking it costs what it answers.
"""

from collections.abc import Callable, Hashable, Iterator, Set

from bayplan.api import Node, encode
from bayplan.errors import BayplanError

Key = Callable[[Node], Hashable]
"""What a node is found by; None: not at all."""


class NodeCache:
    """Nodes by name, and names by what functions say of nodes."""

    def __init__(self) -> None:
        self._nodes: dict[str, tuple[Node, bytes]] = {}
        self._indexes: dict[str, tuple[Key, dict[Hashable, set[str]]]] = {}

    def __len__(self) -> int:
        return len(self._nodes)

    def __iter__(self) -> Iterator[Node]:
        return (node for node, _ in list(self._nodes.values()))

    def index(self, name: str, key: Key) -> None:
        """Keep names of nodes by what `key` says of them."""
        if name in self._indexes:
            raise BayplanError(f'there is an index "{name}" already')
        self._indexes[name] = (key, {})
        for node in self:
            self._note(node, name)

    def where(self, index: str, value: Hashable) -> Set[str]:
        """The names of the nodes of which the index's function says this value."""
        if index not in self._indexes:
            known = ", ".join(self._indexes) or "none"
            raise BayplanError(f'there is no index "{index}"; there are: {known}')
        return frozenset(self._indexes[index][1].get(value, ()))

    def node(self, name: str) -> Node | None:
        """The node of a name; None when it is not known (yet)."""
        found = self._nodes.get(name)
        return None if found is None else found[0]

    def node_json(self, name: str) -> bytes | None:
        """The same as JSON."""
        found = self._nodes.get(name)
        if found is None:
            return None
        return found[1] or encode(found[0])

    def put(self, node: Node, text: bytes = b"") -> None:
        """A node came or changed; `text` is its JSON, if that is at hand."""
        self.drop(node.metadata.name)
        self._nodes[node.metadata.name] = (node, text)
        for name in self._indexes:
            self._note(node, name)

    def drop(self, name: str) -> None:
        """A node went."""
        if (old := self._nodes.pop(name, None)) is None:
            return
        for key, found in self._indexes.values():
            value = key(old[0])
            names = found.get(value, set())
            names.discard(name)
            if not names:
                found.pop(value, None)

    def _note(self, node: Node, index: str) -> None:
        key, found = self._indexes[index]
        if (value := key(node)) is not None:
            found.setdefault(value, set()).add(node.metadata.name)
