"""The wheel contains the compiled kernels, says which machines they run on, and is built without a compiler too.

`.ci/package` builds the wheels of a release twice, compares them and tries them.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path
from types import ModuleType

import pytest

from tests.support.documents import ROOT

OWN = sysconfig.get_platform()
BUILD = "import sys\nfrom hatchling.build import {0}\nprint('made:', {0}(sys.argv[1]))"
LOADED = "import sys; sys.prefix = sys.argv[1]\nfrom sitemap_etl import kernels\nprint(kernels.compiled is not None)"


def build(project: Path, into: Path, what: str = "build_wheel", **environ: str) -> Path:
    """Return the file that the build backend makes of a project."""
    into.mkdir(exist_ok=True)
    done = subprocess.run(
        [sys.executable, "-c", BUILD.format(what), str(into)],
        cwd=project,
        env={**os.environ, "SITEMAP_ETL_WHEEL": "", "SOURCE_DATE_EPOCH": "1577836800", **environ},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise ValueError(done.stderr)
    return into / done.stdout.rpartition("made: ")[2].strip()


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project as its sdist contains it."""
    folder = tmp_path_factory.mktemp("sdist")
    with tarfile.open(build(ROOT, folder, "build_sdist")) as packed:
        # Python 3.11.2 has no filters.
        packed.extractall(folder, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))  # type: ignore[arg-type]
    return next(path for path in folder.iterdir() if path.is_dir())


@pytest.fixture(scope="module")
def wheel(project: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel for this machine."""
    if not OWN.startswith("linux-") or shutil.which("cc") is None:
        pytest.skip("no C compiler for Linux is installed")
    return build(project, tmp_path_factory.mktemp("wheel"), CC="cc")


@pytest.fixture
def installed(wheel: Path, tmp_path: Path) -> Path:
    """A folder with what the wheel contains."""
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(tmp_path / "installed")
    return tmp_path / "installed"


def library(installed: Path) -> Path:
    (found,) = (installed / "sitemap_etl" / "kernels").glob("*.so")
    return found


def are_loaded(installed: Path) -> bool:
    """Whether the installed package has kernels, in an environment in which none were compiled."""
    done = subprocess.run(
        [sys.executable, "-c", LOADED, str(installed / "empty")],
        cwd=installed,
        env={**os.environ, "PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip() == "True"


def test_the_wheel_is_for_this_platform_and_any_python_3(wheel: Path) -> None:
    machine = OWN.removeprefix("linux-")
    assert wheel.name.startswith("sitemap_etl-")
    assert wheel.name.endswith(f"_{machine}.whl")
    assert "-py3-none-" in wheel.name


def test_the_kernels_of_the_wheel_are_loaded(installed: Path) -> None:
    assert are_loaded(installed)


def test_a_damaged_library_of_the_wheel_is_not_loaded(installed: Path) -> None:
    os.truncate(library(installed), 4_096)
    assert not are_loaded(installed)


def test_a_kernel_library_compiled_from_another_source_is_not_loaded(installed: Path) -> None:
    with (installed / "sitemap_etl" / "kernels" / "kernels.c").open("a") as source:
        source.write("/* of another release */\n")
    assert not are_loaded(installed)


@pytest.mark.parametrize(
    "compiler",
    ["no-such-compiler", *(pytest.param(one, marks=pytest.mark.thorough) for one in ("true", 'gcc "'))],
)
def test_without_a_compiler_the_wheel_is_pure(project: Path, tmp_path: Path, compiler: str) -> None:
    made = build(project, tmp_path, CC=compiler)
    assert made.name.endswith("-py3-none-any.whl")
    assert not [name for name in zipfile.ZipFile(made).namelist() if name.endswith(".so")]


def test_a_wheel_that_must_have_kernels_is_not_built_without_them(project: Path, tmp_path: Path) -> None:
    (tmp_path / "ziglang.py").write_text("raise SystemExit('no compiler')\n")
    with pytest.raises(ValueError, match="ziglang"):
        build(project, tmp_path, SITEMAP_ETL_WHEEL="aarch64", PYTHONPATH=str(tmp_path))


def test_a_wheel_of_another_name_is_refused(project: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="SITEMAP_ETL_WHEEL=arm64: expected pure, x86_64, aarch64 or nothing"):
        build(project, tmp_path, SITEMAP_ETL_WHEEL="arm64")


@pytest.fixture(scope="module")
def hook() -> ModuleType:
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("symbols", "tag"),
    [
        (b"\0GLIBC_2.2.5\0GLIBC_2.14\0", "manylinux_2_17_x86_64"),
        (b"\0GLIBC_2.14\0GLIBC_2.34\0GLIBC_2.4\0", "manylinux_2_34_x86_64"),
        (b"\0malloc\0", "linux_x86_64"),
    ],
)
def test_the_tag_names_the_newest_glibc_that_the_library_needs(hook: ModuleType, symbols: bytes, tag: str) -> None:
    assert hook._tag("linux-x86_64", symbols) == tag
