"""What README and docs tell people to type is typed here."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest

from foretrain.cli import main
from foretrain.runs.training_log import read_lines

ROOT = Path(__file__).parent.parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("**/*.md"))]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(language: str) -> list[tuple[str, str]]:
    """(page, text) of every fenced block of a language."""
    result = [(p, BLOCK.findall(p.read_text(encoding="utf-8"))) for p in PAGES]
    return [(p.name, text) for p, all_blocks in result for name, text in all_blocks if name == language]


def commands() -> list[tuple[str, str]]:
    """(page, command) of every line of a bash block, once; a block in another language is not for running."""
    lines = {line.strip(): page for page, text in reversed(blocks("bash")) for line in text.splitlines()}
    return [(page, line) for line, page in lines.items() if line and not line.startswith("#")]


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder with the examples beside it, as a reader has them."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.usefixtures("elsewhere", "as_users_run_it")
@pytest.mark.parametrize(("page", "command"), commands())
def test_command(page: str, command: str, capfd: pytest.CaptureFixture[str]) -> None:
    """In this process: starting Python and torch for each command would take longer than the commands."""
    program, *arguments = shlex.split(command)
    assert program == "foretrain", f"{page}: a bash block is for foretrain commands; use sh or text for others"
    with pytest.raises(SystemExit) as left:
        main(arguments)
    assert left.value.code == 0, f"{page}: {command}\n{''.join(capfd.readouterr())}"


@pytest.mark.filterwarnings("ignore:.*LeafSpec.*:FutureWarning")  # Lightning uses a name that torch gives up
@pytest.mark.parametrize("page", sorted({page for page, _ in blocks("python")}))
def test_python(page: str, elsewhere: Path) -> None:
    """All Python blocks of a page run one after another, as a reader would type them."""
    namespace: dict[str, object] = {}
    for name, text in blocks("python"):
        if name == page:
            exec(compile(text, page, "exec"), namespace)


def test_the_first_block_of_the_tour_run_twice_gives_two_trainings(elsewhere: Path) -> None:
    first = next(text for page, text in blocks("python") if page == "tour.md")
    for _ in range(2):
        exec(compile(first, "tour.md", "exec"), {})
    assert [len(read_lines(Path(name))) for name in ("training.jsonl", "training-2.jsonl")] == [10, 10]


def test_no_number_is_still_to_be_filled_in() -> None:
    """A word in capitals with an underscore, outside of code, is a place that was kept for a number."""
    for page in PAGES:
        prose = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
        assert re.findall(r"\b[A-Z]{3,}_[A-Z_]{3,}\b", prose) == [], page.name


def test_links_lead_somewhere() -> None:
    broken = [
        f"{page.name}: {target}"
        for page in PAGES
        for target in re.findall(r"\]\(([^)#]+)", page.read_text(encoding="utf-8"))
        if not target.startswith(("http", "mailto")) and not (page.parent / target).exists()
    ]
    assert broken == []


def test_make_targets_named_in_the_readme_exist() -> None:
    named = set(re.findall(r"make (\w+)", (ROOT / "README.md").read_text(encoding="utf-8")))
    there = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert named
    assert named <= there


def test_the_example_of_fine_tuning_that_needs_no_network(elsewhere: Path, as_users_run_it: None) -> None:
    text = (
        (ROOT / "docs" / "forecast-fine-tuning.md").read_text(encoding="utf-8").split("## Try it without a network")[1]
    )
    (_, make), (_, command) = BLOCK.findall(text)[:2]
    exec(compile(make, "forecast-fine-tuning.md", "exec"), {})
    with pytest.raises(SystemExit) as left:
        main(shlex.split(command)[1:])
    assert left.value.code == 0
