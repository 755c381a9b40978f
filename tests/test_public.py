"""The public surface is small, and equals `__all__`."""

import ast
import subprocess
import sys
import types
from pathlib import Path

import pytest

import gossamer

PACKAGES = [gossamer, gossamer.privacy]


def test_data_owners_see_few_names() -> None:
    assert dir(gossamer) == sorted(gossamer.__all__)
    modules = {name for name in dir(gossamer) if isinstance(getattr(gossamer, name), types.ModuleType)}
    assert modules == {"attacks", "data", "errors", "methods", "metrics", "plugins", "privacy"}
    assert len(set(dir(gossamer)) - modules) <= 25


@pytest.mark.parametrize(
    ("package", "name", "message"),
    [
        (gossamer, "fitt", "'gossamer' has no attribute 'fitt'. Did you mean 'fit'?"),
        (gossamer, "Synthesiser", "'gossamer' has no attribute 'Synthesiser'. Did you mean 'Synthesizer'?"),
        (gossamer.methods, "DPGan", "'gossamer.methods' has no attribute 'DPGan'. Did you mean 'DPGAN'?"),
        (gossamer.metrics, "fidelty", "'gossamer.metrics' has no attribute 'fidelty'. Did you mean 'fidelity'?"),
    ],
)
def test_a_misspelt_name_is_answered_with_the_nearest(package: types.ModuleType, name: str, message: str) -> None:
    with pytest.raises(AttributeError) as refused:
        getattr(package, name)
    assert str(refused.value) == f"module {message}"


@pytest.mark.parametrize("package", [gossamer, gossamer.methods, gossamer.privacy, gossamer.metrics, gossamer.attacks])
def test_every_public_name_says_what_it_is(package: types.ModuleType) -> None:
    for name in package.__all__:
        if name not in ("METHODS", "FROM_EPSILON"):
            assert getattr(package, name).__doc__, name


@pytest.mark.parametrize("package", PACKAGES)
def test_what_a_type_checker_sees_is_what_is_loaded(package: types.ModuleType) -> None:
    """The names stand twice in the file: for a type checker, and with the modules they come from."""
    tree = ast.parse(Path(str(package.__file__)).read_text())
    (block,) = [each for each in tree.body if isinstance(each, ast.If)]
    seen = {}
    for line in block.body:
        if isinstance(line, ast.ImportFrom):
            module = line.module
            for alias in line.names:
                seen[alias.asname] = f"{module}.{alias.name}:" if module == "gossamer" else f"{module}:{alias.name}"
    assert seen == package._NAMES


def test_nothing_is_loaded_before_it_is_asked_for() -> None:
    code = (
        "import sys, gossamer; print(sorted(name for name in sys.modules if name.startswith('gossamer.'))); "
        "gossamer.methods.DPGAN; gossamer.errors; print({'torch', 'numpy', 'scipy', 'click'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["['gossamer.errors', 'gossamer.lazy']", "set()"]


FIT = """
import sys
for name in ("matplotlib", "rich", "jinja2"): sys.modules[name] = None
import gossamer
data = gossamer.Source({"age": [at % 5 for at in range(50)]}, public_test_data=True)
column = gossamer.Column(name="age", kind="integer", bounds=(0, 4))
card = gossamer.TableCard(columns=(column,), declared_size=50)
print(len(gossamer.fit("marginals", data=data, card=card, epsilon=3, delta=1e-4).sample(7)))
"""


def test_a_fit_without_a_folder_loads_neither_plots_nor_bars_nor_templates(tmp_path: Path) -> None:
    """Its report and its picture are made when the run is saved."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FIT], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert (done.stdout, done.returncode) == ("7\n", 0), done.stderr
