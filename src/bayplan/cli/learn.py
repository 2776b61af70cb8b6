"""`bayplan learn`: seven lessons that grow a scheduler, and an eighth that puts it to use."""

from contextlib import nullcontext
from importlib.resources import files
from pathlib import Path

import click

from bayplan.cli import values

LESSONS = 8
LANGUAGES = ("en", "ja", "zh")


def _text(number: int, language: str) -> str:
    path = files("bayplan.lessons") / "text" / language / f"{number}.md"
    return path.read_text(encoding="utf-8")


def _title(number: int, language: str) -> str:
    return _text(number, language).splitlines()[0].lstrip("# ")


@click.command()
@click.argument("number", type=click.IntRange(1, LESSONS), required=False)
@click.option("--lang", type=click.Choice(LANGUAGES), default="en", help="Language of the text.")
@click.option("--seed", type=int, default=0, help="Another seed, another toss of the coin.")
@click.option("--broken", is_flag=True, help="Run the variant with the original's bug: find it.")
@click.option("--text", "text_only", is_flag=True, help="Only print the lesson's text.")
@click.option("--copy", "copy_to", type=click.Path(file_okay=False, path_type=Path),
              help="Copy the lesson and its exercise to DIR, to edit.")  # fmt: skip
@click.option("--run", "run_file", type=values.ReadFile(path=True),
              help="Run your edited copy instead of the lesson.")  # fmt: skip
@click.pass_context
def command(
    ctx: click.Context,
    number: int | None,
    lang: str,
    seed: int,
    broken: bool,
    text_only: bool,
    copy_to: Path | None,
    run_file: Path | None,
) -> None:
    """Grow a scheduler step by step; without NUMBER, list the lessons.

    \b
    bayplan learn 3                      read the idea, watch the scenario
    bayplan learn 3 --copy mine          take it home, with an exercise
    bayplan learn 3 --run mine/lesson3.py
    bayplan learn 4 --broken             find the bug
    """
    from bayplan.lessons import runner

    if number is None:
        for lesson in runner.LESSONS:
            click.echo(f"{lesson}  {_title(lesson, lang)}")
        click.echo("\nbayplan learn 1")
        return
    runner.module_of(number)
    if copy_to is not None:
        _copy(number, copy_to)
        return
    click.echo(_text(number, lang))
    if text_only:
        return
    ctx.exit(_play(number, seed, broken, run_file))


def _play(number: int, seed: int, broken: bool, run_file: Path | None) -> int:
    from bayplan.errors import BayplanError, Importing
    from bayplan.lessons import runner
    from bayplan.lessons.broken import BROKEN

    lesson: runner.Lesson = runner.module_of(number)
    if run_file is not None:
        lesson = runner.lesson_at(run_file)
    elif broken:
        if number not in BROKEN:
            raise click.UsageError(f"lesson {number} has no broken variant")
        lesson = BROKEN[number]
    click.echo("--- scenario, in simulated time ---")
    with nullcontext() if run_file is None else Importing(f"running {run_file}"):
        try:
            outcome = runner.run(lesson, click.echo, seed=seed)
        except (BayplanError, LookupError) as problem:
            click.echo(f"the scenario ended differently: {type(problem).__name__}: {problem}")
            return 1
    click.echo(f"--- as expected, after {outcome.seconds:g} s; run {outcome.hash[:12]} ---")
    return 0


def _copy(number: int, directory: Path) -> None:
    from bayplan.errors import ConfigError

    package = files("bayplan.lessons")
    sources = [package / f"lesson{number}.py", package / "exercises" / f"test_lesson{number}.py"]
    directory.mkdir(parents=True, exist_ok=True)
    for source in sources:
        target = directory / source.name
        if target.exists():
            raise ConfigError(f"{target} exists already; choose another directory")
        target.write_text(source.read_text(encoding="utf-8"), encoding="utf-8")
        click.echo(f"created {target}")
    click.echo(f"edit it, then: bayplan learn {number} --run {directory / f'lesson{number}.py'}")
    click.echo(f"the exercise: cd {directory} && pytest")
