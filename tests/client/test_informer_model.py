"""An informer's copy against a plain model of it, whatever a server sends in whatever order."""

import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayplan.api.meta import Object
from bayplan.client import AsgiTransport, Client, Informer, informer
from bayplan.client.errors import Gone
from bayplan.client.resources import PODS


def made(name, uid, version, *, nulls=False):
    meta = {"name": name, "namespace": "ns", "uid": uid, "resourceVersion": str(version)}
    return {"metadata": meta | ({"labels": None} if nulls else {})}


class Model:
    """What the copy holds by key, as (uid, version), and what was told of it."""

    def __init__(self):
        self.store, self.graves, self.last, self.told = {}, {}, 0, []

    def event(self, kind, item):
        meta = item["metadata"]
        key, new = f"ns/{meta['name']}", (meta["uid"], int(meta["resourceVersion"]))
        old = self.store.get(key)
        if old is not None and (new[1] < old[1] or (new[1] == old[1] and kind != "DELETED")):
            return
        if old is None and key in self.graves and new[1] <= self.graves[key]:
            return
        self.last = max(self.last, new[1])
        if kind == "DELETED":
            self.graves[key] = new[1]
            if self.store.pop(key, None):
                self.told.append(("DELETED", new, old))
            return
        self.store[key] = new
        if old is not None and old[0] != new[0]:
            self.told.append(("DELETED", old, old))
            old = None
        self.told.append(("MODIFIED" if old else "ADDED", new, old))

    def listed(self, items, version):
        before, self.store = self.store, {}
        for item in items:
            meta = item["metadata"]
            key, new = f"ns/{meta['name']}", (meta["uid"], int(meta["resourceVersion"]))
            old = before.get(key)
            self.store[key] = new
            if old is not None and old[0] != new[0]:
                self.told += [("DELETED", old, old), ("ADDED", new, None)]
            elif old is None or old != new:
                self.told.append(("MODIFIED" if old else "ADDED", new, old))
        self.told += [("DELETED", old, old) for key, old in before.items() if key not in self.store]
        self.graves, self.last = {}, version


def line(kind, item, *, type_last=False):
    event = {"type": kind, "object": item}
    return json.dumps(dict(reversed(event.items())) if type_last else event).encode()


def state(item):
    return item and (item.metadata.uid, int(item.metadata.resource_version))


@pytest.mark.parametrize("texts", [False, True], ids=["objects", "texts too"])
@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_the_copy_is_what_a_plain_model_holds(texts, seed):
    choose, told = random.Random(seed).choice, []
    copy = Informer(Client(AsgiTransport(None)), PODS, Object, keep_texts=texts)
    copy.add_handler(lambda batch: told.extend((c.type, state(c.new), state(c.old)) for c in batch))
    model, version, heard, sent = Model(), 10, 0, {}
    for _ in range(30):
        version += choose((1, 2))
        at = choose((version, version, version - 2, version - 5))
        item = made(choose("abc"), choose("uv"), at, nulls=choose((False, True)))
        step = choose(("event",) * 6 + ("bookmark", "list"))
        if step == "list":
            items = [made(name, choose("uv"), version) for name in "abc" if choose((0, 1))]
            page = {"metadata": {"resourceVersion": str(version)}, "items": items}
            _, found = copy._read_list(json.dumps(page).encode())
            copy._replace({f"ns/{each.metadata.name}": each for each in found}, str(version))
            model.listed(items, version)
            sent.update({f"ns/{each['metadata']['name']}": each for each in items})
        elif step == "bookmark":
            mark = {"metadata": {"resourceVersion": str(version)}}
            assert copy._take([line("BOOKMARK", mark, type_last=choose((0, 1)))])
            model.last, heard = version, heard + 1
        else:
            kind = choose(("ADDED", "MODIFIED", "MODIFIED", "DELETED"))
            before = dict(model.store)
            assert copy._take([line(kind, item, type_last=choose((0, 1)))])
            model.event(kind, item)
            heard += 1
            if model.store != before:
                sent[f"ns/{item['metadata']['name']}"] = item

        assert model.store == {key: state(item) for key, item in copy.store.items()}
        assert (model.told, str(model.last), heard) == (told, copy.last_version, copy.heard)
        if texts:
            assert {key: sent[key] for key in model.store} == {
                key: json.loads(text) for key, text in copy.texts.items()
            }
    assert (0, 0) == (copy.decode_errors, copy.handler_errors)


def test_an_error_is_left_to_the_stream_wherever_its_type_stands():
    copy = Informer(Client(AsgiTransport(None)), PODS, Object)
    for last in (False, True):
        refusal = line(
            "ERROR", {"kind": "Status", "code": 410, "reason": "Expired"}, type_last=last
        )

        assert not copy._take([refusal])
        with pytest.raises(Gone):
            copy._apply([refusal])
    assert 0 == copy.heard


def test_what_came_before_an_error_is_told():
    told = []
    copy = Informer(Client(AsgiTransport(None)), PODS, Object)
    copy.add_handler(told.extend)
    with pytest.raises(Gone):
        copy._apply([line("ADDED", made("a", "u", 5)), line("ERROR", {"code": 410})])

    assert ["a"] == [change.new.metadata.name for change in told]


def test_of_many_that_went_the_newest_are_remembered(monkeypatch):
    monkeypatch.setattr(informer, "TOMBSTONES", 2)
    copy = Informer(Client(AsgiTransport(None)), PODS, Object)
    for version, name in enumerate("abc", 10):
        copy._apply([line("ADDED", made(name, "u", 5)), line("DELETED", made(name, "u", version))])
    copy._apply([line("MODIFIED", made(name, "u", 9)) for name in "abc"])

    assert ["ns/a"] == list(copy.store)
