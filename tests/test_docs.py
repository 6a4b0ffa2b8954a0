"""Documentation is code: blocks run, commands run, public names are documented, imports go downward."""

from __future__ import annotations

import ast
import doctest
import importlib
import pkgutil
import re
import shlex
import subprocess
import sys
from pathlib import Path

import matplotlib as mpl
import pytest
from click.testing import CliRunner
from helpers import HAS_BALLS

import dpaccount
import solvers
from dpaccount import (
    ApproximateDP,
    CurvePair,
    DiscreteGaussian,
    DiscreteLaplace,
    ExponentialMechanism,
    FinitePair,
    FixedSizeSampled,
    Gaussian,
    GaussianDP,
    Laplace,
    PoissonSampled,
    PureDP,
    RandomizedResponse,
    UnsupportedAdjacency,
)

mpl.use("agg")

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
MODULES = sorted(
    info.name
    for info in pkgutil.walk_packages(dpaccount.__path__, "dpaccount.")
    if not info.name.endswith("__main__") and (HAS_BALLS or ".balls." not in info.name or info.name.endswith(".face"))
)
SOLVERS = sorted(info.name for info in pkgutil.walk_packages(solvers.__path__, "solvers."))
PUBLIC = sorted(
    name for name, value in vars(dpaccount).items() if not name.startswith("_") and type(value) is not type(dpaccount)
)
TABLE = re.compile(r"^\| `([^`]+)` \|(.+)\|$", re.MULTILINE)


def blocks(page, language):
    """(line number, text) of a page's fenced blocks."""
    text = page.read_text(encoding="utf-8")
    return [(text[: found.start()].count("\n") + 2, found[2]) for found in FENCE.finditer(text) if found[1] == language]


def name_of(page):
    return str(page.relative_to(ROOT))


# what a reader can copy


@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p, "python")], ids=name_of)
def test_python_blocks_run(page, tmp_path, monkeypatch):
    """In order and in one namespace, so a page reads from top to bottom; ``>>>`` blocks are checked against their output."""
    monkeypatch.chdir(tmp_path)
    names = {"__name__": page.stem}
    sys.modules.setdefault(page.stem, type(sys)(page.stem))  # dataclasses look their module up
    runner = doctest.DocTestRunner(optionflags=doctest.REPORT_NDIFF)
    for line, text in blocks(page, "python"):
        if text.lstrip().startswith(">>>"):
            case = doctest.DocTestParser().get_doctest(text, names, name_of(page), str(page), line - 1)
            report: list[str] = []
            runner.run(case, out=report.append, clear_globs=False)
            assert not report, "".join(report)
            names = case.globs
        else:
            exec(compile("\n" * (line - 1) + text, str(page), "exec"), names)


def commands(page):
    """Lines of shell blocks that call dpaccount itself, continuation lines joined."""
    for line, text in blocks(page, "bash"):
        for command in text.replace("\\\n", " ").splitlines():
            words = shlex.split(command, comments=True)
            if words and words[0].rsplit("/", 1)[-1] == "dpaccount":
                yield line, words[1:]


COMMANDS = [(page, line, words) for page in PAGES for line, words in commands(page)]


@pytest.mark.parametrize(("page", "line", "words"), COMMANDS, ids=lambda v: v if isinstance(v, int) else None)
def test_shell_lines_run(page, line, words, tmp_path, monkeypatch):
    from dpaccount.cli.main import cli

    for written in blocks(page, "toml"):
        for name in ("run.toml", "claim.toml"):
            (tmp_path / name).write_text(written[1], encoding="utf-8")
    (tmp_path / "history.json").write_text('{"history": [[1.1, 0.004266666666666667, 14062]], "mechanism": "prv"}', encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    if words[0] == "verify":
        full = "noise multiplier 20, n = 500, 100 steps, full-batch, add/remove, (2, 1e-5)-DP"
        assert CliRunner().invoke(cli, ["audit", "--text", full, "--certificate", words[1]]).exit_code == 0
    answer = CliRunner().invoke(cli, words)
    assert answer.exit_code == 0, f"{name_of(page)}:{line}: {words}\n{answer.output}{answer.exception!r}"
    assert answer.output.strip()


def test_the_readme_opens_with_the_two_commands():
    (_, first), (_, second) = blocks(ROOT / "README.md", "bash")[:2]
    assert "dpaccount calibrate --dataset-size 60000 --batch-size 256 --epochs 60 --epsilon 2 --delta 1e-5" in first
    assert "-m pytest" in second
    for block in (first, second):
        assert block.startswith("python3 -m venv .venv\n.venv/bin/python -m pip install")


def test_every_command_is_in_the_reference():
    from dpaccount.cli.main import cli

    text = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    for name, command in cli.commands.items():
        assert f"## {name}" in text
        assert command.help
        for option in command.params:
            if option.param_type_name == "option" and not option.hidden:
                assert any(f"`{flag}" in text for flag in option.opts), f"{name} {option.opts} is not in docs/cli.md"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_inside_the_repository_lead_somewhere(page):
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{name_of(page)} links to {target}"


# what the code says about itself


@pytest.mark.parametrize("name", ["dpaccount", *MODULES, *SOLVERS])
def test_doctests_of_a_module_run(name):
    result = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS)
    assert result.failed == 0


def test_the_docstrings_have_examples_at_all():
    finder = doctest.DocTestFinder(exclude_empty=True)
    examples = sum(len(case.examples) for name in MODULES for case in finder.find(importlib.import_module(name)))
    assert examples >= 40


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_name_is_documented(name):
    assert vars(dpaccount)[name].__doc__
    reference = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    assert re.search(rf"^::: dpaccount\.(\w+\.)*{name}$", reference, re.MULTILINE), f"{name} has no entry in docs"


def test_the_public_names_are_imported_in_order_and_nothing_else_is_there():
    tree = ast.parse(Path(dpaccount.__file__).read_text(encoding="utf-8"))
    imported = [(node.module, [alias.name for alias in node.names]) for node in tree.body if isinstance(node, ast.ImportFrom)]
    modules = [module for module, _ in imported]
    assert modules == sorted(modules)
    assert all(names == sorted(names, key=lambda name: (name[0].islower(), name)) for _, names in imported)
    assert all(isinstance(node, (ast.ImportFrom, ast.Expr, ast.Assign)) for node in tree.body)
    if hasattr(dpaccount, "__all__"):
        assert list(dpaccount.__all__) == sorted(dpaccount.__all__) == PUBLIC


# architecture


def ranks(package):
    """Rank of each module or folder of a package, read from its table in docs/architecture.md."""
    marker = {"dpaccount": "<!-- import order -->", "solvers": "<!-- solvers import order -->"}[package]
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8").split(marker)[1].split("\n\n")[0]
    rows = re.findall(r"^\| (\d+) \| (.+?) \|", text, re.MULTILINE)
    return {name: int(rank) for rank, names in rows for name in re.findall(r"`(\w+)`", names)}


def imports(path, package="dpaccount"):
    """The modules of a package that a file imports, at any depth, except for type checking only."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == package:
            if node.module == package:
                yield from (alias.name for alias in node.names)
            else:
                yield node.module.split(".", 1)[1]
        elif isinstance(node, ast.Import):
            yield from (a.name.partition(".")[2] for a in node.names if a.name.split(".")[0] == package)


def sources(package):
    return sorted(p for p in (ROOT / package).rglob("*.py") if p != ROOT / package / "__init__.py")


PACKAGE = ROOT / "dpaccount"
SOURCES = sources("dpaccount")


@pytest.mark.parametrize("path", [*SOURCES, *sources("solvers")], ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_go_downward_only(path):
    package, *parts = path.relative_to(ROOT).with_suffix("").parts
    order = ranks(package)
    assert parts[0] in order, f"{parts[0]} has no rank in docs/architecture.md"
    for target in imports(path, package):
        top = target.split(".")[0]
        assert top in order, f"{'/'.join(parts)} imports {target}, which has no rank (a public name? import it from its module)"
        if top != parts[0]:
            assert order[top] < order[parts[0]], f"{'/'.join(parts)} imports {target}, which is not below it"


def test_dpaccount_knows_no_solver():
    assert not [path for path in SOURCES if list(imports(path, "solvers"))]


@pytest.mark.parametrize("package", ["dpaccount", "solvers"])
def test_no_two_modules_import_each_other(package):
    edges = {
        ".".join(p.relative_to(ROOT / package).with_suffix("").parts).removesuffix(".__init__"): set(imports(p, package))
        for p in sources(package)
    }
    done: set[str] = set()

    def visit(module, trail):
        assert module not in trail, " -> ".join([*trail, module])
        if module not in done:
            for target in edges.get(module, ()):
                visit(target, [*trail, module])
            done.add(module)

    for module in edges:
        visit(module, [])


@pytest.mark.parametrize("unwanted", ["matplotlib", "click", "mpmath", "flint", "scipy.stats", "scipy.integrate", "dpaccount.plotting"])
def test_import_dpaccount_leaves_out(unwanted):
    code = f"import dpaccount, sys; sys.exit({unwanted!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0


# tables that the code can contradict

STEPS = {
    "Gaussian": Gaussian(2.0),
    "Laplace": Laplace(2.0),
    "DiscreteGaussian": DiscreteGaussian(2.0),
    "DiscreteLaplace": DiscreteLaplace(2.0),
    "ExponentialMechanism": ExponentialMechanism(0.5),
    "GaussianDP": GaussianDP(0.5),
    "PureDP": PureDP(0.5),
    "ApproximateDP": ApproximateDP(0.5, 1e-6),
    "RandomizedResponse": RandomizedResponse(0.5, 3),
    "FinitePair": FinitePair((0.6, 0.4), (0.3, 0.7)),
    "CurvePair": CurvePair((0.0, 1.0), (0.1, 0.01)),
    "PoissonSampled(Gaussian)": PoissonSampled(Gaussian(2.0), 0.1),
    "PoissonSampled(Laplace)": PoissonSampled(Laplace(2.0), 0.1),
    "PoissonSampled(DiscreteGaussian)": PoissonSampled(DiscreteGaussian(2.0), 0.1),
    "PoissonSampled(DiscreteLaplace)": PoissonSampled(DiscreteLaplace(2.0), 0.1),
    "PoissonSampled(ExponentialMechanism)": PoissonSampled(ExponentialMechanism(0.5), 0.1),
    "PoissonSampled(PureDP)": PoissonSampled(PureDP(0.5), 0.1),
    "FixedSizeSampled(Gaussian)": FixedSizeSampled(Gaussian(2.0), 10, 100),
}
RELATIONS = ("add-or-remove", "replace-one", "zero-out")


def supported(step, relation):
    try:
        return str(len(set(step.under(relation))))
    except UnsupportedAdjacency:
        return "-"


def adjacency_rows():
    text = (ROOT / "docs" / "choosing.md").read_text(encoding="utf-8").split("<!-- adjacency table -->")[1].split("\n\n")[0]
    return {name: tuple(cell.strip() for cell in cells.split("|")) for name, cells in TABLE.findall(text)}


def test_the_adjacency_table_has_every_mechanism():
    assert set(adjacency_rows()) == set(STEPS)
    from dpaccount.pair import Step

    steps = {name for name in PUBLIC if isinstance(vars(dpaccount)[name], type) and issubclass(vars(dpaccount)[name], Step)}
    assert {name.split("(")[0] for name in STEPS} == steps


@pytest.mark.parametrize("name", STEPS)
def test_the_adjacency_table_is_what_the_code_does(name):
    assert adjacency_rows()[name] == tuple(supported(STEPS[name], relation) for relation in RELATIONS)


def test_tests_import_each_other_by_their_own_names():
    """Any installed package may bring a top-level `tests`, which would hide this folder."""
    for path in sorted((ROOT / "tests").rglob("*.py")):
        assert not re.search(r"^\s*(from|import) tests\b", path.read_text(encoding="utf-8"), re.MULTILINE), path.name
