"""Packages that only some models need."""

import importlib
import importlib.metadata
from types import ModuleType

from robustatlas.common.errors import UserError, first_line


def optional(package: str, what: str, extra: str) -> ModuleType:
    """Import the ``package`` that ``what`` (the model, or a function) needs."""
    try:
        return importlib.import_module(package)
    except ModuleNotFoundError as error:
        top = package.partition(".")[0]
        if error.name in (package, top):
            raise UserError(f"{what} needs {top}: pip install 'robustatlas[{extra}]'.") from error
        raise UserError(
            f"{what} needs {top}, which cannot be imported without {error.name}; install that as well "
            f"(pip install 'robustatlas[{extra}]' brings what {top} declares)."
        ) from error
    except Exception as error:  # a wheel that was built for another torch fails with whatever comes first
        hint = "reinstall it"
        if "torchvision::" in f"{_root(error)}":
            hint = (
                "the torchvision that is installed was built for another torch (such as one with CUDA); install both "
                "from one place: pip install torch torchvision --index-url https://download.pytorch.org/whl/cpu"
            )
        raise UserError(
            f"{what} needs {package}, which fails to import ({first_line(_root(error))}): {hint}."
        ) from error


def version_of(package: str) -> str:
    """Return the package with its version, such as ``"timm 1.0.31"``."""
    return f"{package} {importlib.metadata.version(package)}"


def _root(error: BaseException) -> BaseException:
    while error.__cause__ is not None:
        error = error.__cause__
    return error


def unreachable(what: str, library: str, error: BaseException) -> UserError:
    """Return the error that weights are neither in the cache nor could be fetched."""
    return UserError(
        f"The weights of {what!r} are not in the cache of {library} and could not be fetched "
        f"({first_line(_root(error))}); run this once where there is a network, or give a file of weights (--weights), "
        "or pretrained=False for random ones (--set pretrained=false)."
    )
