"""`Save`: the view that is open, with what it shows, as one file (see `report`)."""

from __future__ import annotations

import re
from urllib.parse import parse_qs, unquote, urlencode

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from bayplan.errors import BayplanError
from bayplan.page.board import Board
from bayplan.page.questions import Asked, Questions
from bayplan.page.report import report
from bayplan.page.sources import Source


class Saving:
    """Makes reports of a source; `route` is for the page's application."""

    def __init__(self, source: Source, questions: Questions) -> None:
        self._source = source
        self._questions = questions
        self.route = Route("/api/report", self._answer)

    async def _answer(self, request: Request) -> Response:
        at = request.query_params.get("at", "")
        about = self._source.about()
        body = report(
            about,
            self._source.board,
            at=at,
            histories=self._histories(at),
            answers=await self._answers(at),
        )
        name = re.sub(r"[^A-Za-z0-9.-]+", "-", str(about["name"])).strip("-") or "cluster"
        headers = {
            "content-disposition": f'attachment; filename="{name}.html"',
            "cache-control": "no-store",
        }
        return Response(body, media_type="text/html; charset=utf-8", headers=headers)

    def _histories(self, at: str) -> dict[str, Board]:
        """Return the runs of a story; of a living cluster only if the view needs its past."""
        about = self._source.about()
        runs = about.get("runs")
        names = [str(run["name"]) for run in runs] if isinstance(runs, list) else []
        past = at.startswith("#/time") or "t" in parse_qs(at.partition("?")[2])
        if not names and self._source.live and past:
            names = [""]
        found = {name: self._source.run(name) for name in names}
        return {name: board for name, board in found.items() if board is not None}

    async def _answers(self, at: str) -> dict[str, object]:
        """Return the answer that the open view shows, by the address that it asks."""
        path, _, query = at.removeprefix("#/").partition("?")
        words = {key: values[-1] for key, values in parse_qs(query).items()}
        view, _, rest = path.partition("/")
        try:
            if view == "pod":
                return await self._why(unquote(rest), words)
            if view == "what-if" and words.get("change"):
                return await self._what_if(words)
        except BayplanError:  # the report then says that there is no answer
            return {}
        return {}

    async def _what_if(self, words: dict[str, str]) -> dict[str, object]:
        changes, run, moment = words["change"], words.get("run", ""), words.get("t", "")
        asked = Asked(changes.split("\n\n"), run, moment)
        return {f"what-if {run}|{moment}|{changes}": await self._questions.what_if(asked)}

    async def _why(self, pod: str, words: dict[str, str]) -> dict[str, object]:
        run, moment = words.get("run", ""), words.get("t", "")
        found = await self._questions.why(pod, run, moment)
        key = urlencode({"pod": pod, "run": run, "t": moment})
        return {f"api/why?{key}": found}
