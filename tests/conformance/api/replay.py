# ruff: noqa: E501
"""Records how a Kubernetes API server answers a suite of requests, and checks another server against it.

Steps run in order on one fresh server. A recorded file holds the steps and the normalised answers, so `check`
needs nothing else.

A step
    id, note        `topic/name`, and what the step shows
    method, path    the request; `${var}` in path, headers and body stands for what an earlier step captured
    headers         added to the defaults (bearer token, JSON in and out); null removes a default
    body            JSON, or a string sent as it is
    capture         {var: pointer} taken from the raw answer (of a watch: from the list of its events)
    retry           {seconds, status | pointer + equals}: ask again until the answer is so, then go on with it
    watch           {until: events awaited, seconds: longest wait, allow_bookmarks: compare whether any came};
                    with `background: NAME` it only opens; a later step {collect: NAME, watch: {…}} reads it
    compare         ignore: [pointers], only: [pointers], present: [pointers] (exist, any value),
                    message: true (of a Status; "all": the texts of its causes too),
                    warnings: true (Warning headers), layout: true (indented or compact),
                    body: false, contentType: false
Pointers are JSON pointers in which `*` is every element and `a.b=c` the list element whose a.b is c.

What is compared: HTTP status, Content-Type (without charset), the normalised body.
Normalisation forgives what differs between two runs of one correct server, and a few documented choices:
  uid, resourceVersion   become how they relate to the last one seen for this object: `<uid:new|same|changed>`,
                         `<rv:new|same|newer|older>`. So a write that changes nothing must keep the version.
                         A list's version and continue token are only `<rv>` and `<continue>`.
  times                  within a day of now: `<time>`, with six decimals `<microtime>`; others stay as sent.
  generated names        `prefix<rand>`; other uuids `<uid>`; a Service's cluster IP `<ip>`, node port `<port>`.
  dropped                managedFields and selfLink (`only` can still read them); null values; an empty continue token;
                         apiVersion and kind of list items; storageVersionHash; the order of verbs, short names and
                         categories; the finalizers pvc-protection and pv-protection, which only a controller lifts.
  Status                 status, code, reason, details (name, group, kind, causes as sorted field + reason);
                         the message only where the step says so, for the wording of parsers differs.
                         "all" compares the texts of causes instead of a message that strings them together, for
                         Go walks maps in any order; an object in a text, also as a string, is `<object>`: the
                         real server prints its internal struct, or the whole object behind a patch.
  Table                  columns as name, type, priority; cells except Age and dates; the row's object.
  watch                  events in order. Plain bookmarks come when the server likes: only whether any came is
                         compared, and only if the step allows them; the one that ends initial events is an event.
Everything else is contract: order of list items, defaults, admission's work (priority, tolerations), empty objects.
"""

from __future__ import annotations

import contextlib
import datetime
import gzip
import http.client
import json
import re
import ssl
import sys
import threading
import time
import urllib.parse
from pathlib import Path
from socket import SHUT_RDWR
from typing import Any

TIME = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$")
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
OBJECT_VALUE = re.compile(r"(Invalid|Duplicate|Unsupported) value: (?=[\[{\"]|null\b)")
GO_FIELD = re.compile(r"(json: cannot unmarshal .*? into Go struct field).*")
GENERATED = re.compile(r"\b(gen-|Gen_)[bcdfghjklmnpqrstvwxz2456789]{5}\b")
VERSION = re.compile(r"(ResourceVersion in [a-z ]+[(:] ?|resource version: \d+, current: )\d+")
VARIABLE = re.compile(r"\$\{(\w+)\}")
DROPPED_KEYS = {"managedFields", "selfLink", "storageVersionHash"}
DROPPED_FINALIZERS = {"kubernetes.io/pvc-protection", "kubernetes.io/pv-protection"}
UNORDERED = {"verbs", "shortNames", "categories"}
PATIENCE = 120.0  # seconds until what was recorded is missed; the machine may be busy
SETTLE_SECONDS = 0.4  # after the awaited events, how long a watch listens for surplus ones
ABSENT = "<absent>"


class StepError(Exception):
    """The step could not be carried out; the text stands in for its answer."""


def resolve(value, pointer):
    """Yield (parent, key, value) of everything that the pointer selects."""
    found = [(None, None, value)]
    for part in pointer.split("/")[1:]:
        part = part.replace("~1", "/").replace("~0", "~")
        found = [child for _, _, parent in found for child in children(parent, part)]
    yield from found


def children(parent, part):
    if isinstance(parent, dict):
        return [(parent, key, parent[key]) for key in parent if part in ("*", key)]
    if not isinstance(parent, list):
        return []
    items = [(parent, i, item) for i, item in enumerate(parent)]
    if "=" in part:
        path, wanted = part.split("=", 1)
        pointer = "/" + path.replace(".", "/")
        return [
            found
            for found in items
            if any(str(v) == wanted for _, _, v in resolve(found[2], pointer))
        ]
    return [found for found in items if part in ("*", str(found[1]))]


def first(value, pointer):
    return next((found for _, _, found in resolve(value, pointer)), ABSENT)


def without(value, pointers):
    """Take what the pointers select out of the value: keys go, list elements become a mark."""
    for pointer in pointers:
        for parent, key, _ in list(resolve(value, pointer)):
            if isinstance(parent, dict):
                del parent[key]
            else:
                parent[key] = "<ignored>"
    return value


class Normaliser:
    """Rewrites answers so that two runs of a correct server give equal text; the rules are at the top."""

    def __init__(self):
        self.seen = {}  # (kind, namespace, name) -> [uid, resourceVersion] last seen

    def body(self, value, compare):
        if "only" not in compare and "present" not in compare:
            return without(
                self.value(value, message=compare.get("message")), compare.get("ignore", [])
            )
        picked = {
            p: "<present>" if first(value, p) != ABSENT else ABSENT
            for p in compare.get("present", [])
        }
        for pointer in compare.get("only", []):
            found = [
                self.value(v, k if isinstance(k, str) else "")
                for _, k, v in resolve(value, pointer)
            ]
            picked[pointer] = found if "*" in pointer.split("/") else (found or [ABSENT])[0]
        return picked

    def value(self, value, key="", message=False):
        if isinstance(value, list):
            items = [self.value(item, message=message) for item in value]
            return sorted(items) if key in UNORDERED else items
        if not isinstance(value, dict):
            return scalar(value, key)
        kind = value.get("kind")
        if kind == "Status" and "status" in value:
            return self._status(value, message)
        if kind == "Table":
            return self._table(value)
        if isinstance(value.get("items"), list) and str(kind).endswith("List"):
            return self._list(value)
        out = {k: self.value(v, k, message) for k, v in value.items() if not dropped(k, v)}
        if isinstance(value.get("metadata"), dict):
            out["metadata"] |= self._identity(kind, value["metadata"])
            tidy_metadata(out["metadata"])
        if kind == "Service" and "spec" in out:
            tidy_service(out["spec"])
        return out

    def _list(self, value):
        kind = value["kind"].removesuffix("List")
        items = [self.value({"kind": kind} | item) for item in value["items"]]
        items = [
            {k: v for k, v in item.items() if k not in ("kind", "apiVersion")} for item in items
        ]
        return self.value({k: v for k, v in value.items() if k != "items"}) | {"items": items}

    def _identity(self, kind, metadata):
        """Relate uid and version to those last seen for the same object, and remember them."""
        if not metadata.get("name"):
            return {}
        known = self.seen.setdefault(
            (kind, metadata.get("namespace"), metadata["name"]), [None, None]
        )
        marks = {}
        if uid := metadata.get("uid"):
            marks["uid"] = (
                f"<uid:{'new' if known[0] is None else 'same' if known[0] == uid else 'changed'}>"
            )
            known[0] = uid
        if version := metadata.get("resourceVersion"):
            relation = version_relation(known[1], version)
            marks["resourceVersion"] = f"<rv:{relation}>"
            known[1] = known[1] if relation == "older" else version
        return marks

    def _status(self, value, message):
        given = value.get("details") or {}
        details = {k: self.value(given[k]) for k in ("name", "group", "kind", "uid") if k in given}
        if causes := given.get("causes"):
            told = ("field", "reason", "message") if message == "all" else ("field", "reason")
            details["causes"] = sorted(
                [cause_text(c.get(part, "")) for part in told] for c in causes
            )
        out = {
            k: value[k] for k in ("kind", "apiVersion", "status", "reason", "code") if k in value
        }
        out |= {"details": details} if details else {}
        text = told_text(value.get("message", ""))
        if message == "all" and "name" in details:
            details["name"] = told_text(details["name"])
        if causes and message == "all":
            text = text.partition(" is invalid: ")[0]
        return out | ({"message": text} if message else {})

    def _table(self, value):
        columns = value.get("columnDefinitions") or []
        aged = {
            i for i, c in enumerate(columns) if c.get("name") == "Age" or c.get("type") == "date"
        }

        def cell(i, content):
            # Later events of a watch carry no columns, and when an event was seen is a string:
            # there an age is known by its look.
            unsure = not columns or columns[i].get("name") in ("First Seen", "Last Seen")
            looks_aged = unsure and re.fullmatch(r"(\d+[smhdy])+", str(content))
            return "<age>" if i in aged or looks_aged else self.value(content)

        rows = [
            {
                "cells": [cell(i, c) for i, c in enumerate(row.get("cells", []))],
                "object": self.value(row.get("object")),
            }
            for row in value.get("rows") or []
        ]
        names = [[c.get("name"), c.get("type"), c.get("priority")] for c in columns]
        return {
            "kind": "Table",
            "apiVersion": value.get("apiVersion"),
            "columns": names,
            "rows": rows,
        }

    def events(self, events):
        """Normalise watch events without plain bookmarks."""
        out = []
        for event in events:
            if event.get("type") != "BOOKMARK":
                out.append({"type": event.get("type"), "object": self.value(event.get("object"))})
            elif not plain_bookmark(event):
                kept = {
                    "annotations": event["object"]["metadata"]["annotations"],
                    "resourceVersion": "<rv>",
                }
                out.append({"type": "BOOKMARK", "object": {"metadata": kept}})
        return out


def told_text(text):
    text = GENERATED.sub(r"\1<rand>", UUID.sub("<uid>", text))
    text = VERSION.sub(r"\1<rv>", text)
    return GO_FIELD.sub(r"\1 <field>", text)


def cause_text(text):
    """What a cause says, without the difference of two objects behind it; one in it is a mark."""
    text = told_text(text).partition("\n")[0]
    found = OBJECT_VALUE.match(text)
    if found is None:
        return text
    try:
        value, end = json.JSONDecoder().raw_decode(text, found.end())
    except ValueError:
        return text
    if isinstance(value, str) and not value.startswith(('{"', "map[")):
        return text
    return f"{text[: found.end()]}<object>{text[end:]}"


def dropped(key, value):
    return value is None or key in DROPPED_KEYS or (key == "continue" and not value)


def plain_bookmark(event):
    return (
        event.get("type") == "BOOKMARK" and first(event, "/object/metadata/annotations") == ABSENT
    )


def version_relation(known, version):
    if known is None or known == version:
        return "new" if known is None else "same"
    numbers = known.isdigit() and version.isdigit()
    return "older" if numbers and int(version) < int(known) else "newer"


def tidy_metadata(metadata):
    prefix, name = metadata.get("generateName"), metadata.get("name", "")
    if prefix and len(name) == len(prefix) + 5 and name.startswith(prefix):
        metadata["name"] = prefix + "<rand>"
    finalizers = metadata.pop("finalizers", None) or []
    if kept := [f for f in finalizers if f not in DROPPED_FINALIZERS]:
        metadata["finalizers"] = kept


def tidy_service(spec):
    if spec.get("clusterIP") not in (None, "None"):
        spec |= {"clusterIP": "<ip>", "clusterIPs": ["<ip>" for _ in spec.get("clusterIPs", [])]}
    for port in spec.get("ports", []):
        port |= {"nodePort": "<port>"} if "nodePort" in port else {}


def scalar(value, key):
    if not isinstance(value, str):
        return value
    if key in ("resourceVersion", "continue") and value:
        return "<rv>" if key == "resourceVersion" else "<continue>"
    if TIME.match(value) and near_now(value):
        return "<microtime>" if re.search(r"\.\d{6}Z$", value) else "<time>"
    return UUID.sub("<uid>", value)


def near_now(text):
    moment = datetime.datetime.fromisoformat(text[:19]).replace(tzinfo=datetime.UTC)
    return abs(moment - datetime.datetime.now(datetime.UTC)) < datetime.timedelta(days=1)


class Server:
    def __init__(self, url, token, insecure):
        self.url = urllib.parse.urlsplit(url)
        self.token = token
        self.tls = ssl.create_default_context()
        if insecure:
            self.tls.check_hostname = False
            self.tls.verify_mode = ssl.CERT_NONE

    def open(self, step):
        """Send the step's request; return the connection's socket and the response, its body unread."""
        headers = {
            "Authorization": f"Bearer {self.token}",
            "Accept": "application/json",
            "User-Agent": "api-replay",
        }
        body = step.get("body")
        if body is not None:
            headers["Content-Type"] = "application/json"
            body = (body if isinstance(body, str) else json.dumps(body)).encode()
        headers |= step.get("headers", {})
        if self.url.scheme == "https":
            connection = http.client.HTTPSConnection(
                self.url.hostname, self.url.port, timeout=60, context=self.tls
            )
        else:
            connection = http.client.HTTPConnection(self.url.hostname, self.url.port, timeout=60)
        connection.connect()
        socket = connection.sock
        connection.request(
            step["method"], step["path"], body, {k: v for k, v in headers.items() if v is not None}
        )
        return socket, connection.getresponse()


class Watch:
    """A watch read by a thread, so that it can be open while other steps run."""

    def __init__(self, server, step):
        self.socket, self.response = server.open(step)
        self.events, self.ended = [], False
        self.thread = None
        if self.response.status == 200:
            self.thread = threading.Thread(target=self._read, daemon=True)
            self.thread.start()

    def _read(self):
        try:
            while line := self.response.readline():
                self.events.append(json.loads(line))
        except (OSError, ValueError, AttributeError, http.client.HTTPException):
            pass  # closed by collect, or broken by the server: either way the stream is over
        self.ended = True

    def collect(self, options, awaited):
        """Wait for the awaited events, the server's end or the time limit; return the events and which it was.

        `awaited`: it ended otherwise than by the limit when recorded, so a busy machine may take longer.
        """
        deadline = time.monotonic() + (PATIENCE if awaited else options.get("seconds", 10))
        wanted = options.get("until", sys.maxsize)
        while not self.ended and time.monotonic() < deadline and self._count() < wanted:
            time.sleep(0.02)
        if self._count() >= wanted:
            time.sleep(SETTLE_SECONDS)
        how = "count" if self._count() >= wanted else "server" if self.ended else "time"
        events = list(self.events)
        self.close()
        return events, how

    def close(self):
        """Break the connection off and wait for the reader to notice."""
        with contextlib.suppress(OSError):
            self.socket.shutdown(SHUT_RDWR)
        if self.thread is not None:
            self.thread.join(timeout=60)
        self.response.close()
        self.socket.close()

    def _count(self):
        return sum(not plain_bookmark(event) for event in list(self.events))


class Runner:
    """Carries out steps one after another, keeping captured variables and open watches."""

    def __init__(self, server, token, insecure):
        self.server = Server(server, token, insecure)
        self.normaliser = Normaliser()
        self.variables = {}
        self.watches = {}

    def run(self, step):
        try:
            step = step | {
                key: self._filled(step[key]) for key in ("path", "headers", "body") if key in step
            }
            return self._watch(step) if "watch" in step or "background" in step else self._ask(step)
        except (StepError, OSError, http.client.HTTPException) as error:
            return {"error": f"{type(error).__name__}: {error}"}

    def _filled(self, value):
        if isinstance(value, str):
            return VARIABLE.sub(self._variable, value)
        if isinstance(value, list):
            return [self._filled(item) for item in value]
        return {k: self._filled(v) for k, v in value.items()} if isinstance(value, dict) else value

    def _variable(self, match):
        if match[1] not in self.variables:
            raise StepError(f"needs {match[0]}, which no earlier step could capture")
        return self.variables[match[1]]

    def _ask(self, step):
        patience = step.get("retry", {}).get("seconds", 0)
        deadline = time.monotonic() + (PATIENCE if patience and "want" in step else patience)
        while True:
            socket, response = self.server.open(step)
            raw = response.read()
            response.close()
            socket.close()
            if time.monotonic() >= deadline or settled(step["retry"], response.status, parsed(raw)):
                break
            time.sleep(0.1)
        return self._answer(step, response, raw)

    def _answer(self, step, response, raw):
        compare, body = step.get("compare", {}), parsed(raw)
        self._capture(step, body)
        answer = {"status": response.status}
        if compare.get("contentType", True):
            answer["contentType"] = media_type(response)
        if compare.get("warnings"):
            answer["warnings"] = sorted(response.headers.get_all("Warning") or [])
        if compare.get("layout"):
            answer["layout"] = "indented" if b"\n  " in raw else "compact"
        normal = self.normaliser.body(
            body, compare
        )  # also where not compared: it keeps track of versions
        return answer | ({"body": normal} if compare.get("body", True) else {})

    def _watch(self, step):
        if "collect" in step and step["collect"] not in self.watches:
            raise StepError(f"the watch {step['collect']} is not open")
        watch = self.watches.pop(step["collect"]) if "collect" in step else Watch(self.server, step)
        if watch.response.status != 200:
            raw = watch.response.read()
            watch.close()
            return self._answer(step, watch.response, raw)
        answer = {"status": 200, "contentType": media_type(watch.response)}
        if "background" in step:
            self.watches[step["background"]] = watch
            return answer
        awaited = step.get("want", {}).get("ended") in ("count", "server")
        events, answer["ended"] = watch.collect(step["watch"], awaited)
        self._capture(step, events)
        if step["watch"].get("allow_bookmarks"):
            answer["bookmarks"] = any(map(plain_bookmark, events))
        return answer | {
            "events": without(
                self.normaliser.events(events), step.get("compare", {}).get("ignore", [])
            )
        }

    def _capture(self, step, body):
        for name, pointer in step.get("capture", {}).items():
            value = first(body, pointer)
            self.variables.pop(name, None)
            if value != ABSENT:
                self.variables[name] = value if isinstance(value, str) else json.dumps(value)


def parsed(raw):
    try:
        return json.loads(raw)
    except ValueError:
        return raw.decode(errors="replace")


def settled(retry, status, body):
    return (
        status == retry["status"]
        if "status" in retry
        else first(body, retry["pointer"]) == retry["equals"]
    )


def media_type(response):
    """Reduce a Content-Type to lower-case type and sorted parameters, without the charset."""
    kind, *parameters = [part.strip() for part in response.getheader("Content-Type", "").split(";")]
    return ";".join(
        [kind.lower(), *sorted(p for p in parameters if not p.lower().startswith("charset="))]
    )


def differences(want, got, path=""):
    """Yield one line for each place in which two normalised answers differ."""
    if isinstance(want, dict) and isinstance(got, dict):
        for key in sorted(want.keys() | got.keys()):
            yield from differences(want.get(key, ABSENT), got.get(key, ABSENT), f"{path}/{key}")
    elif isinstance(want, list) and isinstance(got, list) and len(want) == len(got):
        if "/managedFields/*" in path:
            # Entries are ordered by their time in seconds first: two may or may not share one.
            want, got = (sorted(items, key=json.dumps) for items in (want, got))
        for i, (a, b) in enumerate(zip(want, got, strict=True)):
            yield from differences(a, b, f"{path}/{i}")
    elif want != got or isinstance(want, bool) != isinstance(got, bool):
        texts = [json.dumps(value, ensure_ascii=False) for value in (want, got)]
        want, got = (text if len(text) <= 240 else text[:240] + "…" for text in texts)
        yield f"{path or '/'}: want {want}, got {got}"


def load(path: Path) -> list[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        steps: list[dict[str, Any]] = json.load(file)["steps"]
    return steps


def check(steps, server, token, *, insecure=False):
    """Carry out all steps; return (step, lines of difference) for each."""
    runner = Runner(server, token, insecure)
    return [(step, list(differences(step["want"], runner.run(step)))) for step in steps]


def record(steps, server, token):
    """Carry out all steps on a server and return them with its answers; none may go wrong.

    The server is one that was started for this, whose certificate nobody knows.
    """
    runner = Runner(server, token, insecure=True)
    recorded = [step | {"want": runner.run(step)} for step in steps]
    if failed := [
        f"{step['id']}: {step['want']['error']}" for step in recorded if "error" in step["want"]
    ]:
        raise StepError("\n".join(failed))
    return recorded
