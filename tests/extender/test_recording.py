import asyncio
import gzip
import json
import stat
from types import SimpleNamespace

import msgspec
import pytest
from click.testing import CliRunner

from bayplan.cli.extender import command
from bayplan.errors import BayplanError
from bayplan.extender import Extender, recording, wire
from bayplan.extender.check import post
from bayplan.extender.recording import Answer, Recorded, Recorder, _difference, read
from tests.extender.servers import plain_server, serving

POD = b'{"metadata":{"name":"p"},\n "spec":{"containers":[]}}'


def version(keep, score=5):
    app = Extender()
    app.filter(lambda names: names[:keep])
    app.prioritize(lambda names: dict.fromkeys(names, score))
    app.bind(lambda node: f"not on {node}")
    return app


def calls(url):
    """What a scheduler asks, and one body that no extender takes."""
    args = wire.encode_args(POD, names=["a", "b", "c"])
    bind = wire.encode_binding_args(wire.BindingArgs("p", "default", "u", "a"))
    answers = [post(f"{url}/{verb}", args, "", 5.0) for verb in ("filter", "prioritize")]
    return [*answers, post(f"{url}/bind", bind, "", 5.0), post(f"{url}/filter", b"{", "", 5.0)]


@pytest.fixture(params=["calls.jsonl", "calls.jsonl.gz"])
def recorded(request, tmp_path):
    path = tmp_path / request.param
    with serving(version(2)) as url:
        direct = calls(url)
        with serving(Recorder(url, path)) as recorder:
            assert direct == calls(recorder)
    return path


def test_every_call_is_written_down_as_it_was_for_its_owner_only(recorded):
    found = list(read(recorded))

    assert ["filter", "prioritize", "bind", "filter"] == [call.verb for call in found]
    assert [200, 200, 200, 400] == [call.status for call in found]
    assert ["a", "b"] == wire.decode_filter_result(bytes(found[0].answer)).node_names
    assert 0o600 == stat.S_IMODE(recorded.stat().st_mode)
    raw = recorded.read_bytes()
    whole = gzip.decompress(raw) if recorded.suffix == ".gz" else raw  # which wants its end, too
    assert 4 == whole.count(b"\n")


def replayed(path, app, *options):
    with serving(app) as url:
        return CliRunner().invoke(command, ["replay", str(path), url, *options])


def test_an_equal_version_answers_the_same(recorded):
    result = replayed(recorded, version(2))

    assert 0 == result.exit_code, result.output
    assert "3 calls, 0 differ" in result.output


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        (1, '"a": 5 became 7'),
        (3, '"a": 5 became 7; node "b": 5 became 7; node "c": 5 became 7'),
        (5, '"a": 5 became 7; node "b": 5 became 7; node "c": 5 became 7; and 2 more'),
    ],
)
def test_of_many_differences_three_are_told(changed, text):
    def body(new):
        scores = [(name, 7 if n < new else 5) for n, name in enumerate("abcde")]
        return json.dumps([{"Host": name, "Score": score} for name, score in scores]).encode()

    before = Recorded("/prioritize", msgspec.Raw(b"{}"), 200, msgspec.Raw(body(0)), 0.0)

    assert f"node {text}" == _difference(before, Answer(200, body(changed)))


def test_what_another_version_says_otherwise_is_told_by_node(recorded):
    result = replayed(recorded, version(1, score=7))

    assert 1 == result.exit_code
    assert 'call 1 /filter: node "b": kept became ' in result.output
    assert 'call 2 /prioritize: node "a": 5 became 7; ' in result.output


def test_bind_is_made_again_only_when_asked(recorded):
    def other():
        app = version(2)
        app.functions["bind"] = lambda node: "another error"
        return app

    assert 0 == replayed(recorded, other()).exit_code
    result = replayed(recorded, other(), "--with-bind", "-o", "json")
    assert ["/bind"] == [one["path"] for one in json.loads(result.stdout) if one["difference"]]


def test_an_extender_of_the_kit_is_asked_in_this_process(recorded, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "version_two.py").write_text(
        "from bayplan.extender import Extender\n"
        "app = Extender()\n"
        "app.filter(lambda names: names[:2])\n"
    )

    result = CliRunner().invoke(command, ["replay", str(recorded), "version_two:app"])

    assert 1 == result.exit_code
    assert "call 2 /prioritize: status 200 became 404" in result.output
    assert "3 calls, 1 differ" in result.output


def test_a_target_that_is_not_there_is_one_error_not_one_a_call(recorded):
    result = CliRunner().invoke(command, ["replay", str(recorded), "http://127.0.0.1:1"])

    assert isinstance(result.exception, BayplanError)
    assert "is it running?" in str(result.exception)


def test_an_extender_that_is_away_is_a_502_and_not_recorded(tmp_path):
    with plain_server(lambda path, body: (200, b"[]")) as url:
        pass
    recorder = Recorder(url, tmp_path / "none.jsonl")
    with serving(recorder) as here:
        answer = post(f"{here}/filter", b"{}", "", 5.0)

    assert 502 == answer.status
    assert 0 == recorder.count


def test_a_recording_cut_off_by_a_kill_is_read_as_far_as_it_goes(recorded):
    whole = recorded.read_bytes()
    recorded.write_bytes(whole[: len(whole) - 12])

    assert 3 <= len(list(read(recorded)))


def test_what_is_no_recording_is_named(tmp_path):
    path = tmp_path / "x.jsonl.gz"
    path.write_bytes(gzip.compress(b'{"path": 5}\n'))

    with pytest.raises(BayplanError, match=r'x\.jsonl\.gz": line 1: '):
        list(read(path))


def test_a_packed_line_longer_than_any_call_is_refused(tmp_path):
    path = tmp_path / "x.jsonl.gz"
    line = b'{"path":"/f","request":1,"status":200,"answer":1,"seconds":1}\n'
    path.write_bytes(gzip.compress(line))

    assert 1 == len(list(read(path, limit=len(line))))
    with pytest.raises(BayplanError, match=r'x\.jsonl\.gz": the unpacked body is larger'):
        list(read(path, limit=len(line) - 1))


def test_recorder_and_kit_share_one_loop_without_waiting_for_each_other(tmp_path):
    """Calls that are under way together are answered together."""
    inside = 0
    together = asyncio.Event()
    app = Extender()

    @app.filter
    async def both(names):
        nonlocal inside
        inside += 1
        if inside == 2:
            together.set()
        async with asyncio.timeout(60):
            await together.wait()
        return names

    body = wire.encode_args(POD, names=["a"])

    async def ask(url):
        return await asyncio.gather(
            *(asyncio.to_thread(post, f"{url}/filter", body, "", 20.0) for _ in range(2))
        )

    with serving(app) as url, serving(Recorder(url, tmp_path / "c.jsonl")) as recorder:
        answers = asyncio.run(ask(recorder))

    assert [200, 200] == [answer.status for answer in answers]


def exchange(recorder, method, path, body=b"{}"):
    """One request to a recorder in this process: status, type and body."""
    sent = []

    async def receive():
        return {"type": "http.request", "body": body}

    async def send(event):
        sent.append(event)

    scope = {"type": "http", "method": method, "path": path, "headers": []}
    asyncio.run(recorder(scope, receive, send))
    return sent[0]["status"], dict(sent[0]["headers"])[b"content-type"], sent[1]["body"]


def test_what_a_recorder_answers_itself_and_what_it_passes_on(tmp_path):
    with plain_server(lambda path, body: (200 if body else 400, b"[]")) as url:
        recorder = Recorder(url, tmp_path / "calls.jsonl")
        found = [
            exchange(recorder, "GET", "/healthz"),
            exchange(recorder, "GET", "/filter"),
            exchange(recorder, "POST", "/filter", b'{"a": 1}'),
            exchange(recorder, "POST", "/filter", b"{}"),
        ]
        recorder.close()

    assert [
        (200, b"text/plain", b"ok"),
        (405, b"text/plain", b"extender verbs are POST"),
        (200, b"application/json", b"[]"),
        (400, b"text/plain; charset=utf-8", b"[]"),
    ] == found
    assert 2 == recorder.count


def test_a_recording_that_cannot_be_written_is_named(tmp_path):
    with pytest.raises(BayplanError, match=r"writing .*missing"):
        Recorder("http://127.0.0.1:1", tmp_path / "missing" / "calls.jsonl")


@pytest.mark.parametrize(
    ("path", "verb"),
    [("/filter", "filter"), ("/v1/priorities/", "prioritize"), ("/v1/choose", "choose")],
)
def test_a_verb_is_told_by_the_last_part_of_its_path(path, verb):
    assert verb == Recorded(path, msgspec.Raw(b"{}"), 200, msgspec.Raw(b"{}"), 0.0).verb


@pytest.mark.parametrize(
    ("before", "now", "says"),
    [
        (b'{"Error":"full"}', b'{"Error":"full"}', ""),
        (b'{"Error":"full"}', b'{"Error":"lost"}', "Error: full became lost"),
        (b'{"NodeNames":[]}', b'{"Error":"lost"}', "Error: nothing became lost"),
        (b'{"Nodes":[{"metadata":{"name":"a"}}]}', b'{"NodeNames":["a"]}', ""),
        (b'{"FailedNodes":{"a":"x"}}', b"5", 'node "a": refused (x) became nothing; the answer:'),
    ],
)
def test_what_a_filter_says_otherwise_is_told(before, now, says):
    recorded = Recorded("/filter", msgspec.Raw(b"{}"), 200, msgspec.Raw(before), 0.0)

    found = _difference(recorded, Answer(200, now))

    assert found.startswith(says)
    assert bool(says) == bool(found)


@pytest.mark.parametrize("name", ["calls.jsonl", "calls.jsonl.gz"])
def test_a_recording_is_read_while_it_is_made(tmp_path, name):
    with plain_server(lambda path, body: (200, b"[]")) as url:
        recorder = Recorder(url, tmp_path / name)
        exchange(recorder, "POST", "/filter", b'{"a": 1}')
        found = list(read(tmp_path / name))
        recorder.close()

    assert ["/filter"] == [call.path for call in found]


def test_a_call_is_written_with_the_microseconds_that_it_took(tmp_path, monkeypatch):
    moments = iter([100.0, 100.1234567])
    clock = SimpleNamespace(perf_counter=lambda: next(moments))
    with plain_server(lambda path, body: (200, b"[]")) as url:
        recorder = Recorder(url, tmp_path / "calls.jsonl")
        monkeypatch.setattr(recording, "time", clock)
        exchange(recorder, "POST", "/filter", b"{}")
        recorder.close()

    assert [0.123457] == [call.seconds for call in read(tmp_path / "calls.jsonl")]
