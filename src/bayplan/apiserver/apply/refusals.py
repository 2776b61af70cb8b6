"""What server-side apply can answer instead of an object.

BayplanError
├── ApplyConflict    another manager owns fields that would change: 409, one cause a field
└── ApplyRejected    the applied object itself is not acceptable: 400
"""

from __future__ import annotations

from bayplan.api.place import shown
from bayplan.apiserver.apply.fieldset import path_text
from bayplan.apiserver.apply.managed import UPDATE, Identity, Owner
from bayplan.errors import BayplanError

Conflict = tuple[Identity, Owner, tuple[str, ...]]


class ApplyRejected(BayplanError):
    """The applied object does not fit its schema or carries what it must not."""

    status = 400


class ApplyConflict(BayplanError):
    """Fields are owned by others.

    `causes` are (field, message) pairs for the Status details, the first ones if they are long.
    """

    status = 409

    def __init__(self, conflicts: list[Conflict]) -> None:
        # By manager; the fields of one stay in the order of their set, as upstream tells them.
        self.conflicts = sorted(conflicts, key=lambda conflict: conflict[0])
        texts = shown(path_text(path) for _, _, path in self.conflicts)
        self.causes = [
            (text, f"conflict with {manager_text(who, owner)}")
            for text, (who, owner, _) in zip(texts, self.conflicts, strict=False)
        ]
        super().__init__(self._message())

    def _message(self) -> str:
        if len(self.conflicts) == 1:
            text, what = self.causes[0]
            return f"Apply failed with 1 conflict: {what}: {text}"
        lines: list[str] = []
        last: Identity | None = None
        for (text, _), (who, owner, _) in zip(self.causes, self.conflicts, strict=False):
            if who != last:
                lines.append(f"conflicts with {manager_text(who, owner)}:")
                last = who
            lines.append(f"- {text}")
        return f"Apply failed with {len(self.conflicts)} conflicts: " + "\n".join(lines)


def manager_text(who: Identity, owner: Owner) -> str:
    """A manager as conflicts name it."""
    text = f'"{who.manager}"'
    if who.subresource:
        text += f' with subresource "{who.subresource}"'
    if who.operation == UPDATE:
        text += f" using {owner.version}"
    return text
