"""Vega, the library that draws the charts, as one script.

The script comes from the package vl-convert-python, which contains Vega and its expression interpreter. With the
interpreter Vega compiles no text to code, so a page can forbid that.
"""

from functools import cache
from importlib.metadata import version

from lakesweep.errors import MaintenanceError, UsageError

_SNIPPET = """
import {{View, parse}} from "https://cdn.jsdelivr.net/npm/vega@{vega}/+esm";
import {{expressionInterpreter}} from "https://cdn.jsdelivr.net/npm/vega-interpreter@{interpreter}/+esm";
window.lakesweepVega = {{View, parse, interpreter: expressionInterpreter}};
"""
"""The addresses are names within the package, which contains the modules. Nothing is fetched."""
_INTERPRETER = "2.0.0"
"""The version in vl-convert-python 1.9, which does not tell it."""


def require_html() -> None:
    """Check that the packages of the extra `html` are installed.

    Raises:
        UsageError: One is missing.
    """
    missing = []
    for module, package in (("jinja2", "jinja2"), ("vl_convert", "vl-convert-python")):
        try:
            __import__(module)
        except ImportError:
            missing.append(package)
    if missing:
        raise UsageError(
            f"a page needs jinja2 and vl-convert-python, found no {' and no '.join(missing)}: "
            "pip install 'lakesweep[html]'",
            code="extra_missing",
        )


@cache
def vega_script() -> str:
    """Return the script, about 570 KiB. It sets `window.lakesweepVega`.

    Raises:
        UsageError: As `require_html`.
        MaintenanceError: The package contains other versions than the ones this module names.
    """
    require_html()
    import vl_convert

    found = version("vl-convert-python")
    try:
        script: str = vl_convert.javascript_bundle(
            _SNIPPET.format(vega=vl_convert.get_vega_version(), interpreter=_INTERPRETER)
        )
    except BaseException as error:
        if isinstance(error, (KeyboardInterrupt, SystemExit)):
            raise
        raise MaintenanceError(
            f"vl-convert-python {found}: expected vega-interpreter {_INTERPRETER} in it, found "
            "another version: pip install 'vl-convert-python==1.9.0.post1'"
        ) from error
    return script
