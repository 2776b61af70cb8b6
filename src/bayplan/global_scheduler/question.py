"""Reads a what-if question from JSON, with everything that is wrong with it, by path."""

import uuid
from collections.abc import Iterable

from bayplan.global_scheduler.fields import Fields, Json, Problem
from bayplan.global_scheduler.files import Conf, read_parts
from bayplan.global_scheduler.inventory import Inventory
from bayplan.global_scheduler.request import MAX_TOGETHER, check_size, read_allocation
from bayplan.global_scheduler.table import SiteTable
from bayplan.global_scheduler.whatif import Question


def read_question(body: Json, table: SiteTable, problems: list[Problem]) -> Question:
    """`{"lose": [SITE…], "add": {"sites": […], "site_nodes": […] …}, "place": [REQUEST…]}`."""
    fields = Fields(body, problems)
    add = _added(fields.object("add"))
    flavors = set(table.flavors) | {flavor.id for flavor in add.flavors}
    place = []
    for item in fields.items("place", most=MAX_TOGETHER):
        allocation, found = read_allocation(
            item.everything,
            flavors=flavors,
            volume_types=table.volume_types | add.volume_types,
            new_id=str(uuid.uuid4()),
        )
        problems += [Problem(f"{item.path}.{p.path}", p.text) for p in found]
        place.append(allocation)
    check_size(fields, "place", place)
    return Question(tuple(fields.texts("lose")), add, tuple(place))


def _added(fields: Fields) -> Inventory:
    """Parts of an inventory, with the keys of its files."""

    def each(document: str, *keys: str) -> Iterable[Fields]:
        return fields.items(*keys)

    return read_parts(each, Conf())
