"""The three patch types that change one object: JSON patch, merge patch and strategic merge patch.

Server-side apply needs the history of an object as well; it lives in `bayplan.apiserver.apply`.
Every function leaves its arguments alone and raises a PatchError, whose `status` is the HTTP code.
"""

from bayplan.api.patch.errors import BadPatch, PatchError, PatchNotApplicable, PatchTooLarge
from bayplan.api.patch.json_patch import apply_json_patch
from bayplan.api.patch.merge_patch import apply_merge_patch
from bayplan.api.patch.strategic import apply_strategic_merge
from bayplan.api.patch.values import clone, identity, same

__all__ = [
    "BadPatch",
    "PatchError",
    "PatchNotApplicable",
    "PatchTooLarge",
    "apply_json_patch",
    "apply_merge_patch",
    "apply_strategic_merge",
    "clone",
    "identity",
    "same",
]
