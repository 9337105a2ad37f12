"""Put a page together: a template, data, scripts, and the policy that lets only these scripts run."""

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

from lakesweep.errors import MaintenanceError
from lakesweep.pages.figures import age, human_bytes, human_count, human_time, human_usd, visible
from lakesweep.pages.vega import require_html, vega_script

_ESCAPES = {ord(each): f"\\u{ord(each):04x}" for each in "<>&\u2028\u2029"}


def embedded(data: object) -> str:
    """Return data as JSON in ASCII that ends no element of a page and begins none."""
    return json.dumps(data, separators=(",", ":")).translate(_ESCAPES)


def make_page(template: str, values: Mapping[str, Any], data: object, scripts: Sequence[str]) -> str:
    """Return a page.

    Args:
        template: Name of its template.
        values: What the template shows.
        data: What the scripts show. They find it as JSON in the page.
        scripts: Names of scripts of this package, besides those of every page.

    Raises:
        UsageError: As `require_html`.
    """
    require_html()
    from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
    from markupsafe import Markup

    sources = [_asset("theme.js"), vega_script(), _asset("common.js"), *map(_asset, scripts)]
    style = _asset("style.css")
    if found := [text for text in ("</script", "<!--") for source in sources if text in source.lower()]:
        raise MaintenanceError(f"a script of the page contains {found[0]}; this is a bug")
    environment = Environment(
        loader=PackageLoader("lakesweep.pages"),
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {
        "age": age,
        "bytes": human_bytes,
        "count": human_count,
        "time": human_time,
        "usd": human_usd,
        "visible": visible,
    }
    # Each of these four is text of ours, or JSON without a character that HTML reads.
    return environment.get_template(template).render(
        **values,
        policy=content_policy(sources, style),
        style=Markup(style),
        head_script=Markup(sources[0]),
        data=Markup(embedded(data)),
        scripts=[Markup(source) for source in sources[1:]],
    )


def content_policy(scripts: Sequence[str], style: str) -> str:
    """Return a policy that allows these scripts and this style, and no request at all."""
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src {' '.join(map(_hash, scripts))}",
            f"style-src {_hash(style)}",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
            "require-trusted-types-for 'script'",
            "trusted-types 'none'",
        )
    )


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _asset(name: str) -> str:
    return files("lakesweep.pages").joinpath("assets", name).read_text(encoding="utf-8")
