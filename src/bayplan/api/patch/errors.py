"""What can be wrong with a patch.

    PatchError (a DecodeError)
    ├── BadPatch           the patch itself is malformed: answer 400
    ├── PatchNotApplicable it is well-formed but does not fit the object: answer 422
    └── PatchTooLarge      more operations than allowed: answer 413

Each carries `status`, the HTTP code the real API server answers with, except that patches which
make the real one answer 500 (a list item without its merge key, an unknown `$patch` directive)
are a 422 here.
"""

from bayplan.api.json import go_name
from bayplan.errors import DecodeError


class PatchError(DecodeError):
    """A patch could not be applied."""

    status = 422


class BadPatch(PatchError):
    """The patch is not what its content type says."""

    status = 400


class PatchNotApplicable(PatchError):
    """The patch does not fit the object it is applied to."""

    status = 422


class PatchTooLarge(PatchError):
    """The patch has too many operations."""

    status = 413


def not_a_map(patch: object, prefix: str = "") -> BadPatch:
    return BadPatch(
        f"{prefix}json: cannot unmarshal {go_name(patch)} into Go value of type "
        "map[string]interface {}"
    )
