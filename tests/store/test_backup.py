"""A backup is taken while the store is written, and can be started with."""

import asyncio
import shutil
import sqlite3
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from bayplan.cli.backup import command
from bayplan.cli.restore import command as restore
from bayplan.store import (
    Compacted,
    Event,
    KeyValue,
    Put,
    SqliteStore,
    StoreError,
    etcd_backup,
    sqlite_file,
    sqlite_salvage,
)
from bayplan.store import etcd as etcd_store
from bayplan.store.errors import Locked
from bayplan.store.etcd import EtcdStore
from bayplan.store.etcd_wire import last_place
from bayplan.store.sqlite_backup import AHEAD, backup
from bayplan.store.sqlite_file import Loaded
from bayplan.store.sqlite_salvage import GAP, _last_row, salvage
from tests.store.conftest import open_plain
from tests.store.plain_etcd import PlainEtcd, Trouble


async def test_a_backup_of_a_busy_store_is_a_state_it_once_had(tmp_path):
    store = await SqliteStore.open(tmp_path / "data", synchronous="NORMAL")
    for number in range(200):
        await store.put(f"a/{number:04}", b"x" * 1000)

    async def write():
        for number in range(200, 400):
            await store.put(f"a/{number:04}", b"x" * 1000)

    writing = asyncio.create_task(write())
    count = await asyncio.to_thread(backup, tmp_path / "data", tmp_path / "copy")
    await writing
    await store.close()
    again = await SqliteStore.open(tmp_path / "copy")
    keys = [kv.key for kv in (await again.range("a/")).items]
    await again.put("a/new", b"y")
    await again.close()

    assert 200 <= count <= 400
    assert [f"a/{number:04}" for number in range(count)] == keys, "without a gap"
    assert 0o600 == (tmp_path / "copy" / "bayplan.db").stat().st_mode & 0o777


async def test_no_revision_that_clients_saw_is_used_again_after_a_restore(tmp_path):
    store = await SqliteStore.open(tmp_path / "data")
    copied = await store.put("a/b", b"copied")
    await asyncio.to_thread(backup, tmp_path / "data", tmp_path / "copy")
    lost = await store.put("a/b", b"lost")
    await store.close()

    again = await SqliteStore.open(tmp_path / "copy")
    for after in (copied.mod_revision, lost.mod_revision):
        with pytest.raises(Compacted):
            again.watch("a/", after=after)
    found = await again.range("a/")
    watcher = again.watch("a/", after=found.revision)
    written = await again.put("a/b", b"new")
    seen = [event.kv.value for event in await anext(watcher)]
    await again.close()
    third = await SqliteStore.open(tmp_path / "copy")
    kept = third.revision
    await third.close()

    assert [copied] == found.items
    assert lost.mod_revision < found.revision < written.mod_revision == kept
    assert [b"new"] == seen


async def test_the_command_copies_the_token_too(tmp_path):
    store = await SqliteStore.open(tmp_path / "data")
    await store.put("a/b", b"x")
    (tmp_path / "data" / "admin-token").write_text("t\n")

    found = await asyncio.to_thread(
        CliRunner().invoke, command, [str(tmp_path / "data"), str(tmp_path / "copy")]
    )
    await store.close()

    copy = tmp_path / "copy"
    start = f"bayplan up --data {copy}, or bayplan apiserver --data {copy}"
    assert f"1 object copied; start with: {start}\n" == found.output
    assert "t\n" == (tmp_path / "copy" / "admin-token").read_text()


def test_what_is_no_store_is_refused(tmp_path):
    with pytest.raises(StoreError, match="--data directory"):
        backup(tmp_path, tmp_path / "copy")


def test_a_file_that_is_no_database_leaves_no_copy(tmp_path):
    (tmp_path / "bayplan.db").write_bytes(b"no database" * 1000)

    with pytest.raises(StoreError, match=r'bayplan\.db": file is not a database; .*--salvage$'):
        backup(tmp_path, tmp_path / "copy")

    assert not (tmp_path / "copy").exists()


def test_a_directory_that_was_there_stays(tmp_path):
    (tmp_path / "bayplan.db").write_bytes(b"no database" * 1000)
    (tmp_path / "copy").mkdir()

    with pytest.raises(StoreError):
        backup(tmp_path, tmp_path / "copy")

    assert [] == list((tmp_path / "copy").iterdir())


async def test_a_copy_that_is_found_damaged_is_not_kept(tmp_path):
    store = await SqliteStore.open(tmp_path / "data")
    for number in range(300):
        await store.put(f"a/{number}", b"%d" % number * 300)
    await store.close()
    path = tmp_path / "data" / "bayplan.db"
    data = bytearray(path.read_bytes())
    middle = data.index(b"150" * 300) // 8192 * 8192
    data[middle : middle + 8192] = b"\xff" * 8192
    path.write_bytes(data)

    with pytest.raises(StoreError, match=r'data" is damaged: Page .*; the copy was not kept'):
        backup(tmp_path / "data", tmp_path / "copy")

    assert not (tmp_path / "copy").exists()


@pytest.mark.parametrize("save", [backup, salvage])
async def test_a_store_that_is_there_is_not_written_over(tmp_path, save):
    for name in ("data", "copy"):
        store = await SqliteStore.open(tmp_path / name)
        await store.put(f"of/{name}", b"x")
        await store.close()

    with pytest.raises(StoreError, match=r'copy" has a store already; choose another directory'):
        save(tmp_path / "data", tmp_path / "copy")

    assert ["of/copy"] == [kv.key for kv in sqlite_file.read(tmp_path / "copy").items]


@pytest.mark.parametrize(("save", "ahead"), [(backup, AHEAD), (salvage, GAP)])
@pytest.mark.parametrize("compacted", [False, True], ids=["", "compacted"])
@pytest.mark.parametrize("deleted", [False, True], ids=["", "deleted last"])
async def test_a_copy_goes_on_so_far_ahead_of_the_last_revision(
    tmp_path, save, ahead, compacted, deleted
):
    store = await SqliteStore.open(tmp_path / "data")
    last = [await store.put("a/b", b"x"), await store.put("a/c", b"x")][-1].mod_revision
    if deleted:
        last = (await store.delete("a/b")).mod_revision
    if compacted:
        await store.compact(last - 1)
    await store.close()

    save(tmp_path / "data", tmp_path / "copy")
    copy = sqlite_file.read(tmp_path / "copy")

    assert (last + ahead, last + ahead, []) == (copy.revision, copy.compacted, copy.events)
    assert (["a/c"] if deleted else ["a/b", "a/c"]) == sorted(kv.key for kv in copy.items)


async def test_a_store_whose_past_is_all_compacted_goes_on_from_there(tmp_path):
    store = await SqliteStore.open(tmp_path / "data")
    await store.put("a/b", b"x")
    last = (await store.delete("a/b")).mod_revision
    await store.compact(last)
    await store.close()

    backup(tmp_path / "data", tmp_path / "copy")

    assert last + AHEAD == sqlite_file.read(tmp_path / "copy").revision


async def test_many_objects_are_saved_in_parts(tmp_path, monkeypatch):
    monkeypatch.setattr(sqlite_salvage, "BATCH", 3)
    store = await SqliteStore.open(tmp_path / "data", synchronous="NORMAL")
    await asyncio.gather(*(store.put(f"a/{number}", b"%d" % number) for number in range(8)))
    before = (await store.range("")).items
    await store.close()

    assert (8, 0) == salvage(tmp_path / "data", tmp_path / "saved")
    saved = sqlite_file.read(tmp_path / "saved").items
    assert before == sorted(saved, key=lambda kv: kv.key)


async def test_where_the_past_cannot_be_read_the_objects_tell_how_far_it_went(tmp_path):
    store = await SqliteStore.open(tmp_path / "data")
    last = (await store.put("a/b", b"x")).mod_revision
    await store.close()
    database = sqlite3.connect(tmp_path / "data" / "bayplan.db")
    database.execute("DROP TABLE events")
    database.close()

    assert (1, 0) == salvage(tmp_path / "data", tmp_path / "saved")
    assert last + GAP == sqlite_file.read(tmp_path / "saved").revision


def test_only_a_store_is_salvaged(tmp_path):
    with pytest.raises(StoreError, match=r"has no bayplan\.db; give the --data directory"):
        salvage(tmp_path, tmp_path / "saved")


async def test_a_damaged_store_says_what_to_do(tmp_path):
    store = await SqliteStore.open(tmp_path)
    for number in range(300):
        await store.put(f"a/{number}", b"x" * 1000)
    await store.close()
    path = tmp_path / "bayplan.db"
    data = bytearray(path.read_bytes())
    data[4096 * 2 : 4096 * 40] = b"\xff" * (4096 * 38)
    path.write_bytes(data)

    with pytest.raises(StoreError, match=r"damaged.*restore a backup"):
        await SqliteStore.open(tmp_path)


async def test_what_can_be_read_of_a_damaged_store_is_saved(tmp_path):
    store = await SqliteStore.open(tmp_path / "data")
    for number in range(300):
        await store.put(f"a/{number}", b"%d" % number * 300)
    last = (await store.delete("a/0")).mod_revision
    await store.close()
    path = tmp_path / "data" / "bayplan.db"
    data = bytearray(path.read_bytes())
    middle = data.index(b"150" * 300) // 8192 * 8192
    data[middle : middle + 8192] = b"\xff" * 8192  # a page with some of the values
    path.write_bytes(data)

    said = await asyncio.to_thread(
        CliRunner().invoke,
        command,
        ["--salvage", str(tmp_path / "data"), str(tmp_path / "saved")],
    )
    saved = await SqliteStore.open(tmp_path / "saved")
    found = {kv.key: kv.value for kv in (await saved.range("a/")).items}
    fresh = await saved.put("a/new", b"x")
    await saved.close()

    assert 0 == said.exit_code, said.output
    assert 250 < len(found) < 299
    assert all(value == b"%d" % int(key[2:]) * 300 for key, value in found.items())
    assert fresh.mod_revision > last + 1000
    assert f"{len(found)} objects copied" in said.output


async def test_an_object_that_is_damaged_inside_is_not_saved(tmp_path):
    """A long value's pages have no checksum; one bad object would break every list of its kind."""
    store = await SqliteStore.open(tmp_path / "data")
    for name in ("bad", "good"):
        await store.put(f"a/{name}", b'{"name":"%s","text":"%s"}' % (name.encode(), b"x" * 20_000))
    await store.close()
    file = tmp_path / "data" / "bayplan.db"
    content = file.read_bytes()
    place = content.index(b"x" * 3000, content.index(b'{"name":"bad"') - 12_000)
    file.write_bytes(content[:place] + b'"\xff' * 1000 + content[place + 2000 :])

    saved, lost = salvage(tmp_path / "data", tmp_path / "saved")

    assert (1, 1) == (saved, lost)


async def test_objects_that_were_written_together_are_saved(tmp_path):
    """A service is, with the key that keeps addresses apart; it has an older row."""
    store = await SqliteStore.open(tmp_path / "data")
    for number in range(3):
        key = await store.get("key")
        await store.transact(
            [Put(f"a/{number}", b"x"), Put("key", b"y", key.mod_revision if key else 0)]
        )
    await store.close()

    assert (4, 0) == salvage(tmp_path / "data", tmp_path / "saved")


def test_where_nothing_can_be_read_nothing_is_made(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "bayplan.db").write_bytes(b"\xff" * 20_000)

    with pytest.raises(StoreError, match="nothing can be read"):
        salvage(tmp_path / "data", tmp_path / "saved")

    assert not (tmp_path / "saved").exists()


def test_where_the_objects_cannot_be_counted_their_index_is():
    class Damaged:
        def execute(self, query):
            if "INDEXED" not in query:
                raise sqlite3.DatabaseError("malformed")
            return SimpleNamespace(fetchone=lambda: (7,))

    assert 7 == _last_row(Damaged())


async def with_objects(etcd):
    """A store in an etcd of its own, with objects that were written together."""
    store = await EtcdStore.open([etcd.url])
    for number in range(10):
        await store.put(f"a/{number:02}", b"%d" % number)
    await store.transact([Put("b/x", b"1"), Put("c/x", b"2")])
    return store


async def test_a_copy_of_a_busy_etcd_is_a_state_it_once_had(own_etcd, tmp_path, monkeypatch):
    store = await with_objects(own_etcd)
    before = (await store.range("")).items
    range_, loop = EtcdStore.range, asyncio.get_running_loop()
    monkeypatch.setattr(etcd_backup, "PAGE", 3)

    async def busy(self, prefix, **more):
        found = await range_(self, prefix, **more)
        for key in ("a/05", "z/new"):
            writing = asyncio.run_coroutine_threadsafe(store.put(key, b"later"), loop)
            await asyncio.wrap_future(writing)
        return found

    monkeypatch.setattr(EtcdStore, "range", busy)
    count = await asyncio.to_thread(etcd_backup.backup, [own_etcd.url], tmp_path / "copy")
    monkeypatch.undo()
    seen = await store.put("a/05", b"last")
    await store.close()
    again = await SqliteStore.open(tmp_path / "copy")
    found = (await again.range("")).items
    with pytest.raises(Compacted):
        again.watch("a/", after=seen.mod_revision)
    written = await again.put("a/05", b"new")
    await again.close()

    assert (12, before) == (count, found)
    assert written.mod_revision > seen.mod_revision
    assert ["copy", "etcd"] == sorted(path.name for path in tmp_path.iterdir())


def run(*words, command=command):
    return CliRunner().invoke(command, [str(word) for word in words])


async def test_backup_of_etcd_takes_tokens_from_the_data_directory(own_etcd, tmp_path):
    await (await with_objects(own_etcd)).close()
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "admin-token").write_text("t")
    to, given = tmp_path / "copy", ("--etcd-servers", own_etcd.url)

    said = await asyncio.to_thread(run, tmp_path / "data", to, *given)
    again = await asyncio.to_thread(run, tmp_path / "data", to, *given)

    assert (0, True) == (said.exit_code, "12 objects copied" in said.output), said.output
    assert "t" == (to / "admin-token").read_text()
    assert 0o700 == to.stat().st_mode & 0o777
    assert "is not empty; choose another directory" in str(again.exception)


async def test_an_etcd_without_our_objects_makes_no_backup(own_etcd, tmp_path):
    (tmp_path / "data").mkdir()
    said = await asyncio.to_thread(
        run, tmp_path / "data", tmp_path / "copy", "--etcd-servers", own_etcd.url
    )

    assert "holds no objects of ours" in str(said.exception)
    assert ["data", "etcd"] == sorted(path.name for path in tmp_path.iterdir())


async def copied(etcd, tmp_path):
    """A copy of an etcd's objects, and what they were."""
    store = await with_objects(etcd)
    await store.put("a/large", b"x" * 1_000_000)
    objects = [(kv.key, kv.value) for kv in (await store.range("")).items]
    await asyncio.to_thread(etcd_backup.backup, [etcd.url], tmp_path / "copy")
    return store, objects


async def restored(etcd, tmp_path):
    given = (tmp_path / "copy", "--etcd-servers", etcd.url)
    return await asyncio.to_thread(run, *given, command=restore)


async def test_an_etcd_that_lost_its_objects_gets_them_back(own_etcd, tmp_path, monkeypatch):
    store, objects = await copied(own_etcd, tmp_path)
    for key, _ in objects[3:]:
        await store.delete(key)
    seen = store.revision
    monkeypatch.setattr(etcd_backup, "AT_ONCE", 4)
    monkeypatch.setattr(etcd_backup, "PAGE", 2)

    said = await restored(own_etcd, tmp_path)
    found = (await store.range("")).items
    await store.close()

    assert (0, "") == (said.exit_code, said.stderr), said.output
    assert "13 objects restored" in said.stdout
    assert objects == [(kv.key, kv.value) for kv in found]
    assert all(kv.mod_revision > seen for kv in found[3:]), "and no more was written"
    assert all(kv.mod_revision < seen for kv in found[:3])


async def test_a_new_etcd_is_told_to_be_behind_its_clients(own_etcd, tmp_path):
    data = await SqliteStore.open(tmp_path / "copy")
    await asyncio.gather(*(data.put("a/b", b"%d" % number) for number in range(5000)))
    await data.close()

    said = await restored(own_etcd, tmp_path)

    assert "1 object restored" in said.stdout, said.output
    assert "warning: this etcd counts from below what clients have seen" in said.stderr


async def test_what_was_deleted_counts_for_what_clients_have_seen(own_etcd, tmp_path):
    data = await SqliteStore.open(tmp_path / "data")
    await data.put("a/b", b"stays")
    for _ in range(1500):
        await data.put("a/c", b"goes")
        await data.delete("a/c")
    await data.close()
    backup(tmp_path / "data", tmp_path / "copy")

    said = await restored(own_etcd, tmp_path)

    assert "1 object restored" in said.stdout, said.output
    assert "warning: this etcd counts from below what clients have seen" in said.stderr


OBJECT = KeyValue("a/b", b"x", 3, 7)
PAST = Event(OBJECT, None, False)


@pytest.mark.parametrize(
    ("loaded", "seen"),
    [
        pytest.param(Loaded([OBJECT], [PAST], 9, 0), 9, id="a server's own: all of it"),
        pytest.param(Loaded([OBJECT], [PAST], AHEAD + 9, 0), AHEAD + 9, id="a copy in use: too"),
        pytest.param(Loaded([OBJECT], [], 9, 9), 9, id="compacted, never moved ahead"),
        pytest.param(Loaded([OBJECT], [], AHEAD + 9, 0), 9, id="a copy of a file"),
        pytest.param(Loaded([OBJECT], [], (AHEAD << 7) + 9, 0), 9, id="a copy of an etcd"),
        pytest.param(Loaded([OBJECT], [], AHEAD + 5, 0), 7, id="never less than an object's own"),
        pytest.param(Loaded([], [], 5, 0), 5, id="no objects"),
    ],
)
def test_how_far_clients_of_a_copied_store_can_have_seen(loaded, seen):
    assert seen == etcd_backup._seen(loaded)


async def objects_in(plain, count):
    store = await open_plain(plain, compact_seconds=0)
    await asyncio.gather(*(store.put(f"a/{number}", b"x") for number in range(count)))
    await store.close()


def on_plain(monkeypatch, objects):
    """Let copies be made of, and restored into, an etcd of lists; return it and its clients."""
    plain, clients = PlainEtcd(), []
    asyncio.run(objects_in(plain, objects))
    monkeypatch.setattr(
        etcd_store,
        "EtcdClient",
        lambda *given, **more: clients.append(plain.client()) or clients[-1],
    )
    return plain, clients


def test_a_backup_ends_its_connections_however_it_ends(tmp_path, monkeypatch):
    plain, clients = on_plain(monkeypatch, 3)
    written = plain.revision

    assert 3 == etcd_backup.backup(["plain"], tmp_path / "copy")
    plain.troubles.append(Trouble("range", StoreError("no")))
    with pytest.raises(StoreError, match="no"):
        etcd_backup.backup(["plain"], tmp_path / "other")

    assert [True, True] == [client.closed for client in clients]
    assert ["copy"] == [path.name for path in tmp_path.iterdir()]
    copy = sqlite_file.read(tmp_path / "copy")
    assert 0 <= copy.revision - (AHEAD << 7) - last_place(written) <= 2 << 7


def test_a_restore_that_fails_says_so_and_can_be_done_again(tmp_path, monkeypatch):
    on_plain(monkeypatch, 3)
    etcd_backup.backup(["plain"], tmp_path / "copy")
    fresh, clients = on_plain(monkeypatch, 0)
    monkeypatch.setattr(etcd_backup, "AT_ONCE", 2)
    fresh.troubles.append(Trouble("txn", StoreError("away"), after=2))  # its opening, a write
    with pytest.raises(StoreError, match="away"):
        etcd_backup.restore(tmp_path / "copy", ["plain"], tls=None)
    done = etcd_backup.restore(tmp_path / "copy", ["plain"], tls=None)

    assert (3, False) == done
    assert [True, True] == [client.closed for client in clients]
    assert 3 == sum(b"/a/" in key for _, key in fresh.log), "what was there is not written again"


@pytest.mark.parametrize("key", ["a/05", "z/other"])
async def test_nothing_is_restored_over_other_objects(own_etcd, tmp_path, key):
    store, _ = await copied(own_etcd, tmp_path)
    await store.delete("a/01")
    await store.put(key, b"other")

    said = await restored(own_etcd, tmp_path)
    missing = await store.get("a/01")
    await store.close()

    assert f'this etcd holds "{key}", which is not of the copy' in str(said.exception)
    assert missing is None


async def test_only_a_copy_is_restored(own_etcd, tmp_path):
    (tmp_path / "copy").mkdir()
    said = await restored(own_etcd, tmp_path)

    assert 'copy" has no bayplan.db; give what "bayplan backup" made' in str(said.exception)
    assert ["copy", "etcd"] == sorted(path.name for path in tmp_path.iterdir())


def looks(directory):
    """All that a reader could have changed in a directory."""
    found = {path.name: (path.stat().st_mode, path.read_bytes()) for path in directory.iterdir()}
    return found, directory.stat().st_mode, directory.stat().st_mtime_ns


async def test_a_copy_that_cannot_be_written_is_restored_and_stays_as_it_is(own_etcd, tmp_path):
    """Its modes are no hindrance to root, so it is compared, too."""
    store, objects = await copied(own_etcd, tmp_path)
    await store.delete(objects[0][0])
    for path in (tmp_path / "copy").iterdir():
        path.chmod(0o400)
    (tmp_path / "copy").chmod(0o500)
    before = looks(tmp_path / "copy")

    said = await restored(own_etcd, tmp_path)
    found = (await store.range("")).items
    await store.close()

    assert 0 == said.exit_code, said.output
    assert objects == [(kv.key, kv.value) for kv in found]
    assert before == looks(tmp_path / "copy")


async def test_what_a_server_uses_is_not_restored(tmp_path):
    store = await SqliteStore.open(tmp_path)
    with pytest.raises(Locked, match="in use by process"):
        await asyncio.to_thread(sqlite_file.read, tmp_path)
    await store.close()


async def test_of_a_server_that_was_killed_the_log_is_restored_too(tmp_path):
    store = await SqliteStore.open(tmp_path / "data")
    await store.put("a/b", b"x")
    shutil.copytree(tmp_path / "data", tmp_path / "copy")
    await store.close()

    assert ["a/b"] == [kv.key for kv in sqlite_file.read(tmp_path / "copy").items]


@pytest.mark.parametrize("save", [backup, salvage])
async def test_where_nothing_can_be_written_a_copy_can_be_made(tmp_path, monkeypatch, save):
    store = await SqliteStore.open(tmp_path / "data")
    await store.put("a/b", b"x")
    await store.close()
    before = looks(tmp_path / "data")
    monkeypatch.setattr(sqlite_file.os, "access", lambda path, mode: False)  # root may anywhere

    save(tmp_path / "data", tmp_path / "saved")

    assert before == looks(tmp_path / "data")
    assert ["a/b"] == [kv.key for kv in sqlite_file.read(tmp_path / "saved").items]
