"""The whole process: files that change, a store that lasts."""

import asyncio
import json
import os
import time
import uuid
from contextlib import AsyncExitStack
from types import SimpleNamespace

import httpx
import pytest

from bayplan.apiserver.serving import Settings
from bayplan.apiserver.serving import running as api_server
from bayplan.errors import BayplanError, ConfigError
from bayplan.global_scheduler import files, run
from bayplan.global_scheduler.ask import ask_what_if
from bayplan.global_scheduler.members import read_members
from bayplan.global_scheduler.request import read_allocation
from bayplan.global_scheduler.run import Options, running
from bayplan.listening import listen
from bayplan.store import MemoryStore
from tests.extender.servers import plain_server
from tests.global_scheduler.test_http import BODY, JSON, SAMPLE
from tests.global_scheduler.test_wide import started
from tests.waiting import wait_for


@pytest.fixture
def conf(tmp_path):
    folder = tmp_path / "conf"
    folder.mkdir()
    for source in SAMPLE.iterdir():
        (folder / source.name).write_bytes(source.read_bytes())
    return folder


def options(conf, **changes):
    return Options(conf, **({"host": "127.0.0.1", "port": 0, "reread_seconds": 0.02} | changes))


class Log:
    """Keeps what is logged: facts of errors, and what else is told."""

    def __init__(self):
        self.errors = []
        self.told = []

    def error(self, event, **facts):
        self.errors.append(facts)

    def info(self, event, **facts):
        self.told.append(event)


@pytest.fixture
def log(monkeypatch):
    log = Log()
    monkeypatch.setattr("bayplan.global_scheduler.run.log", log)
    return log


async def test_a_changed_file_is_read_again_and_a_broken_one_is_not_taken(conf, log, monkeypatch):
    looks, look = [], files.newest_change
    monkeypatch.setattr(files, "newest_change", lambda at: looks.append(at) or look(at))

    def write(text):
        """At once, for half a file would be a broken one."""
        (conf.parent / "new").write_text(text)
        (conf.parent / "new").rename(conf / "sites.json")

    async with running(options(conf, store="memory")) as scheduler:
        sites = json.loads((conf / "sites.json").read_text())
        sites["sites"].append(sites["sites"][0] | {"id": "site2", "az": "az2"})
        write(json.dumps(sites))
        await wait_for(lambda: scheduler.service.table.count == 2)

        write("{")
        await wait_for(lambda: log.errors)
        seen = len(looks)
        await wait_for(lambda: len(looks) > seen + 5)

        assert 2 == scheduler.service.table.count
        assert 1 == len(log.errors), "it is told once"

        sites["sites"].append(sites["sites"][0] | {"id": "site3", "az": "az3"})
        write(json.dumps(sites))
        await wait_for(lambda: scheduler.service.table.count == 3)


async def test_a_folder_that_goes_away_is_said_once_and_taken_up_again(conf, log, monkeypatch):
    away, looks = conf.with_name("away"), []
    look = files.newest_change

    def looked(at):
        """Between two looks, of which each is made in a thread, the folder goes."""
        if len(looks) == 3:
            conf.rename(away)
        looks.append(at)
        return look(at)

    monkeypatch.setattr(files, "newest_change", looked)
    async with running(options(conf, store="memory")) as scheduler, httpx.AsyncClient() as client:
        await wait_for(lambda: log.errors)
        seen = len(looks)
        await wait_for(lambda: len(looks) > seen + 10)
        url = f"http://127.0.0.1:{scheduler.port}/v1/allocations"
        served = await client.post(url, content=BODY, headers=JSON)
        sites = json.loads((away / "sites.json").read_text())
        sites["sites"].append(sites["sites"][0] | {"id": "site2", "az": "az2"})
        (away / "sites.json").write_text(json.dumps(sites))
        away.rename(conf)
        await wait_for(lambda: scheduler.service.table.count == 2)

    assert 201 == served.status_code
    [error] = log.errors
    assert "is not a directory" in error["problem"]


async def test_a_folder_that_comes_back_broken_is_not_said_to_be_readable(conf, log):
    away, sites = conf.with_name("away"), (conf / "sites.json").read_bytes()
    async with running(options(conf, store="memory")):
        conf.rename(away)
        await wait_for(lambda: len(log.errors) == 1)
        (away / "sites.json").write_bytes(sites[:200])
        away.rename(conf)
        await wait_for(lambda: len(log.errors) == 2)
        mended = conf.parent / "mended"
        mended.write_bytes(sites)
        mended.rename(conf / "sites.json")
        await wait_for(lambda: log.told)

    assert ["inventory taken"] == log.told


async def test_files_that_are_as_they_were_are_read_again_after_a_failure(conf, monkeypatch):
    """Not as they were at the start, but when they were taken last."""
    monkeypatch.setattr("bayplan.global_scheduler.supervise.FIRST", 0.01)
    load, sites, failed = files.load, conf / "sites.json", []
    new, old = conf.parent / "new", conf.parent / "old"

    def loaded(directory):
        if b"fails" in sites.read_bytes():
            failed.append(1)
            raise RuntimeError("a mistake of ours")
        return load(directory)

    monkeypatch.setattr(files, "load", loaded)
    async with running(options(conf, store="memory")) as scheduler:
        before = scheduler.base
        body = json.loads(sites.read_text())
        body["sites"].append(body["sites"][0] | {"id": "site2", "az": "az2"})
        new.write_text(json.dumps(body))
        os.link(sites, old)
        new.rename(sites)
        await wait_for(lambda: scheduler.service.table.count == 2)
        new.write_text("fails")
        new.rename(sites)
        await wait_for(lambda: failed)
        old.rename(sites)
        await wait_for(lambda: scheduler.service.table.count == 1)

        assert before == scheduler.base


async def test_a_clock_that_is_set_forward_makes_no_site_lost(conf, monkeypatch):
    """A site that has just gone offline is not one that was for an hour."""
    monkeypatch.setattr("bayplan.global_scheduler.draining.LOOK_EVERY", 0.01)
    body = json.loads((conf / "sites.json").read_text())
    body["sites"].append(body["sites"][0] | {"id": "site2"})
    (conf / "sites.json").write_text(json.dumps(body))
    with (conf / "conf.yaml").open("a") as file:
        file.write("replace_lost_after_seconds: 3600\n")
    jump, now, looks = [0.0], time.time, []
    monkeypatch.setattr(time, "time", lambda: now() + jump[0])
    async with running(options(conf, store="memory")) as scheduler:
        lost = run.Lost._lost
        monkeypatch.setattr(run.Lost, "_lost", lambda one: looks.append(lost(one)) or looks[-1])
        table = scheduler.service.table
        wanted, problems = read_allocation(
            json.loads(BODY),
            flavors=table.flavors,
            volume_types=table.volume_types,
            new_id=str(uuid.uuid4()),
        )
        assert not problems
        record = await scheduler.service.create(wanted)
        here = record.groups[0].selected.node_id
        next(site for site in body["sites"] if site["id"] == here)["status"] = "Offline"
        (conf.parent / "new").write_text(json.dumps(body))
        (conf.parent / "new").rename(conf / "sites.json")
        await wait_for(lambda: looks and looks[-1] == {here})
        jump[0] = 7200.0
        look = len(looks)
        await wait_for(lambda: len(looks) > look + 3)

        assert here == scheduler.service.get(record.id).groups[0].selected.node_id


async def test_nobody_waits_for_what_is_no_file(conf, log):
    """Nobody may ever write into a pipe, and then no other change would be seen."""
    quotas = conf / "quotas.json"
    async with running(options(conf, store="memory")) as scheduler:
        os.mkfifo(quotas)
        os.utime(conf / "sites.json")
        await wait_for(lambda: log.errors)
        quotas.unlink()
        (conf / "edgecloud_policy.yaml").write_text("predicates: [{name: Flavor}]\n")
        await wait_for(lambda: ["Flavor"] == [name for name, _ in scheduler.service.placer.filters])

    assert "quotas.json: cannot be read: it is not a file" == log.errors[0]["problem"]


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("members.yaml", "members: [", "members.yaml: yaml: line 2: "),
        ("members.yaml", "[]", "members.yaml: expected an object, got a list"),
        (
            "edgecloud_policy.yaml",
            "predicates: [{name: Nothing}]",
            'policy: plugin "Nothing" is not known',
        ),
    ],
)
async def test_a_broken_file_is_named_and_read_once(conf, log, monkeypatch, name, text, problem):
    reads, load, looks, look = [], files.load, [], files.newest_change
    async with running(options(conf, store="memory")):
        monkeypatch.setattr(files, "load", lambda at: reads.append(at) or load(at))
        monkeypatch.setattr(files, "newest_change", lambda at: looks.append(at) or look(at))
        new = conf.parent / "new"
        new.write_text(text)
        new.rename(conf / name)
        await wait_for(lambda: log.errors)
        seen = len(looks)
        await wait_for(lambda: len(looks) > seen + 3)

    assert 1 == len(reads) == len(log.errors)
    assert problem in log.errors[0]["problem"]


@pytest.mark.parametrize("sites", [1, 3, 40])
async def test_of_many_problems_the_first_twenty_are_told_those_of_the_members_last(conf, sites):
    """What is told stays readable however much is wrong."""
    (conf / "sites.json").write_text(json.dumps({"sites": [{"id": "s"}] * sites}))
    (conf / "members.yaml").write_text("members: [{name: m}]")
    found, more = files.load(conf)[1], read_members(conf)[1]
    assert found
    assert more

    with pytest.raises(ConfigError) as error:
        async with running(options(conf, store="memory")):
            pass

    assert "; ".join([str(problem) for problem in (*found, *more)][:20]) == str(error.value)


async def test_a_changed_policy_is_used_and_a_wrong_one_is_not(conf, log):
    policy = conf / "edgecloud_policy.yaml"
    async with running(options(conf, store="memory")) as scheduler:
        policy.write_text("predicates: [{name: Flavor}]\npriorities: []\n")
        await wait_for(lambda: ["Flavor"] == [name for name, _ in scheduler.service.placer.filters])

        policy.write_text("predicates: [{name: Nonsense}]\n")
        await wait_for(lambda: log.errors)

        assert ["Flavor"] == [name for name, _ in scheduler.service.placer.filters]


async def test_members_come_and_go_with_their_file(conf, tmp_path):
    kubeconfigs = {name: tmp_path / f"{name}.kubeconfig" for name in ("m0", "m1")}
    async with AsyncExitStack() as stack:
        for path in kubeconfigs.values():
            settings = Settings(store="memory", kubeconfig_out=path)
            await stack.enter_async_context(api_server(settings))
        scheduler = await stack.enter_async_context(running(options(conf, store="memory")))

        def write(*names):
            entries = [
                {
                    "name": n,
                    "region": "r",
                    "availability_zone": "z",
                    "kubeconfig": str(kubeconfigs[n]),
                }
                for n in names
            ]
            (conf / "members.yaml").write_text(json.dumps({"members": entries}))

        def online():
            return {site.id for site in scheduler.service.table.sites if site.open and site.cluster}

        write("m0")
        await wait_for(lambda: online() == {"m0"})
        before = scheduler.members.by_name["m0"]
        another = Settings(store="memory", kubeconfig_out=kubeconfigs["m0"])
        await stack.enter_async_context(api_server(another))
        await wait_for(lambda: scheduler.members.by_name.get("m0") not in (None, before))
        await wait_for(lambda: online() == {"m0"})
        write("m0", "m1")
        await wait_for(lambda: online() == {"m0", "m1"})
        write("m1")
        await wait_for(lambda: online() == {"m1"})
        (conf / "members.yaml").unlink()
        await wait_for(lambda: not online())


async def test_allocations_over_http_survive_a_restart(conf):
    async with running(options(conf)) as scheduler, httpx.AsyncClient() as client:
        url = f"http://127.0.0.1:{scheduler.port}/v1/allocations"
        created = (await client.post(url, content=BODY, headers=JSON)).json()["allocation"]
        free = (await client.get(f"http://127.0.0.1:{scheduler.port}/v1/sites")).json()
    async with running(options(conf)) as scheduler, httpx.AsyncClient() as client:
        base = f"http://127.0.0.1:{scheduler.port}/v1"
        found = (await client.get(f"{base}/allocations/{created['id']}")).json()["allocation"]

        assert created | {"state": "committed"} == found
        assert free == (await client.get(f"{base}/sites")).json()


async def test_a_port_that_is_taken_is_named_once(conf, capfd):
    async with running(options(conf, store="memory")) as scheduler:
        taken = options(conf, store="memory", port=scheduler.port)
        with pytest.raises(ConfigError, match=f'"127.0.0.1:{scheduler.port}": Address'):
            async with running(taken):
                pass

    assert ("", "") == capfd.readouterr()


def test_a_directory_that_is_not_there_is_named_with_the_remedy(tmp_path):
    with pytest.raises(ConfigError, match=r"nope is not a directory; `bayplan global init .*nope`"):
        files.must_load(tmp_path / "nope")


@pytest.mark.parametrize("turns", range(6))
async def test_one_that_ends_before_it_answers_closes_its_socket(conf, monkeypatch, turns):
    sockets = []

    def known(*given):
        sockets.append(listen(*given))
        return sockets[-1]

    async def run():
        async with running(options(conf, store="memory")):
            await asyncio.Event().wait()

    monkeypatch.setattr("bayplan.global_scheduler.run.listen", known)
    task = asyncio.create_task(run())
    while not sockets:
        await asyncio.sleep(0)
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert [-1] == [each.fileno() for each in sockets]


async def test_etcd_without_its_address_is_refused_with_the_remedy(conf):
    with pytest.raises(ConfigError, match="--store etcd needs --etcd-servers"):
        async with running(options(conf, store="etcd")):
            pass


@pytest.mark.parametrize(
    ("host", "port", "address"),
    [
        ("", -1, ("10.0.0.1", 7000)),
        ("127.0.0.1", -1, ("127.0.0.1", 7000)),
        ("", 0, ("10.0.0.1", 0)),
        ("127.0.0.1", 8000, ("127.0.0.1", 8000)),
    ],
)
async def test_options_win_over_the_file_s_address(host, port, address, monkeypatch):
    asked = []

    def taken(host, port, option):
        asked.append((host, port))
        raise ConfigError("taken")

    monkeypatch.setattr(run, "listen", taken)
    conf = SimpleNamespace(address="10.0.0.1", port=7000, ttl_seconds=60)
    given = SimpleNamespace(host=host, port=port, token="")
    service = await started(MemoryStore())
    scheduler = SimpleNamespace(options=given, base=SimpleNamespace(conf=conf), service=service)
    with pytest.raises(ConfigError, match="taken"):
        await run._serve(scheduler)
    await service.stop()

    assert [address] == asked


@pytest.mark.parametrize(
    ("status", "body", "says"),
    [
        (404, b"{}", "does not answer as a global scheduler"),
        (500, b"", "does not answer as a global scheduler"),
        (200, b"<html>", "does not answer as a global scheduler"),
        (200, b"{}", "does not answer as a global scheduler"),
        (400, b'{"error_message":"no such site"}', "^no such site$"),
        (401, b"{}", "refuses the token; --token-file"),
        (403, b"", "refuses the token; --token-file"),
    ],
)
def test_what_another_server_says_is_not_taken_for_an_answer(status, body, says):
    with (
        plain_server(lambda path, question: (status, body)) as url,
        pytest.raises(BayplanError, match=says),
    ):
        ask_what_if(url, [], [], [])


async def test_a_service_that_ends_follows_its_store_no_more(conf):
    closed, opened = [], []

    class Noting(MemoryStore):
        def watch(self, *args, **options):
            watcher = super().watch(*args, **options)
            opened.append(watcher)
            close = watcher.close
            watcher.close = lambda: closed.append(watcher) or close()
            return watcher

    service = await started(Noting())
    await asyncio.sleep(0)
    await service.stop()

    assert opened
    assert opened == closed
