"""Short descriptions for the OpenAPI documents: of what all kinds share, and of query parameters.

`kubectl explain` shows them. Fields that are not here have no description.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

TYPE_META = {
    "apiVersion": "APIVersion defines the version of the schema in which this object is written.",
    "kind": "Kind names the type of this object, in CamelCase.",
}
OBJECT = {**TYPE_META, "metadata": "Standard object's metadata: its name, labels and owners."}
LIST = {**TYPE_META, "metadata": "Standard list metadata: its version and where to go on."}
_FIELDS: Mapping[str, Mapping[str, str]] = {
    "meta.v1.ObjectMeta": {
        "annotations": "Annotations hold any text that tools keep with the object; not selectable.",
        "creationTimestamp": "CreationTimestamp is a timestamp of when the server stored it first.",
        "deletionGracePeriodSeconds": "Seconds that the object may take to end by itself.",
        "deletionTimestamp": "The moment after which the object is to be gone; set by the server.",
        "finalizers": "Whoever stands here must be done before the object is removed.",
        "generateName": "A prefix from which the server makes a unique name if there is none.",
        "generation": "A number that grows whenever the wanted state changes.",
        "labels": "Labels are keys and values by which objects are selected.",
        "managedFields": "Which manager set which fields, kept for server-side apply.",
        "name": "Name is unique within a namespace and cannot change.",
        "namespace": "Namespace is the space within which the name is unique.",
        "ownerReferences": "The objects that this one depends on; when all are gone, it goes.",
        "resourceVersion": "The version of the stored object, to find out whether it changed.",
        "selfLink": "No longer filled in.",
        "uid": "UID tells this object from all others of all times.",
    },
    "meta.v1.ListMeta": {
        "continue": "A token with which to ask for the next part of the list.",
        "remainingItemCount": "How many objects follow after this part.",
        "resourceVersion": "The version of the store that the list shows.",
        "selfLink": "No longer filled in.",
    },
    "meta.v1.OwnerReference": {
        "apiVersion": "API version of the owner.",
        "blockOwnerDeletion": "Whether a foreground deletion of the owner waits for this object.",
        "controller": "Whether the owner is the controller that manages this object.",
        "kind": "Kind of the owner.",
        "name": "Name of the owner.",
        "uid": "UID of the owner.",
    },
}
PARAMETERS = {
    "allowWatchBookmarks": "Send bookmarks, which tell the newest version without a change.",
    "continue": "The token of the part before, to go on with a list.",
    "dryRun": "All: do everything but store the result.",
    "fieldManager": "The name under which set fields are noted.",
    "fieldSelector": "Restrict the list of returned objects by their fields.",
    "fieldValidation": "What happens to unknown or doubled fields: Ignore, Warn or Strict.",
    "force": "Take fields over from other managers when applying.",
    "gracePeriodSeconds": "Seconds that the object may take to end; 0 ends it at once.",
    "labelSelector": "Restrict the list of returned objects by their labels.",
    "limit": "The most objects of one answer; a token tells where to go on.",
    "name": "Name of the object.",
    "namespace": "Namespace of the object.",
    "orphanDependents": "Deprecated: use propagationPolicy.",
    "pretty": "Indent the answer.",
    "propagationPolicy": "What happens to dependents: Orphan, Background or Foreground.",
    "resourceVersion": "The version that the answer must be at least, or be exactly.",
    "resourceVersionMatch": "How resourceVersion is meant: NotOlderThan or Exact.",
    "sendInitialEvents": "Begin a watch with all objects that are there.",
    "timeoutSeconds": "Seconds after which a list or watch ends.",
    "watch": "Watch for changes to the described resources instead of listing them.",
}


def of_type(name: str, fields: Collection[str]) -> Mapping[str, str]:
    """Return the descriptions of the fields of a type."""
    if name in _FIELDS:
        return _FIELDS[name]
    if not OBJECT.keys() <= set(fields):
        return {}
    return LIST if name.endswith("List") else OBJECT
