"""The frame of every report page: one self-contained HTML file that loads nothing from elsewhere.

Styles, scripts, data and the plotting library are all in the file, and a content security policy keeps the browser from loading
anything else. The other modules of this package make sections and data. Their scripts draw through `AT` (`assets/core.js`,
`figure.js`, `table.js`, `timeline.js`), whose functions are described in those files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from astra_tacos.report.html.encoding import compress, encode
from astra_tacos.support.errors import ConfigError

MOST_PAGE_BYTES = 8_000_000
MOST_DATA_BYTES = 5_000_000
"""Largest size of a page, and of its data in base64, in bytes; the plotting library takes 2 MB of the page."""

_CORE_SCRIPTS = ("core.js", "figure.js", "table_filter.js", "table.js", "timeline_model.js", "timeline_view.js", "timeline.js")
_TEMPLATE = "page.html.j2"
_STYLES = "page.css"


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a page.

    Parameters
    ----------
    id
        Id of its element, to which the table of contents links.
    title
        Heading.
    html
        Content as markup; the caller has escaped everything that comes from a user (`escape`).
    introduction
        Plain text under the heading that says what the section shows, and what was aggregated or left out.
    """

    id: str
    title: str
    html: str
    introduction: str = ""


def render_page(
    title: str,
    subtitle: str,
    sections: Sequence[Section],
    data: Mapping[str, Any],
    scripts: Sequence[str],
) -> bytes:
    """A self-contained page as bytes of HTML; equal arguments give equal bytes.

    Parameters
    ----------
    title, subtitle
        Plain text.
    sections
        Sections from top to bottom.
    data
        Data that the scripts read as `AT.data`; see `encode`.
    scripts
        Names of files in `assets`, in the order in which they run; they run after the scripts that every page has.

    Raises
    ------
    ConfigError
        If the page is larger than `MOST_PAGE_BYTES`.
    """
    import jinja2
    from markupsafe import Markup

    # Jinja escapes everything except what is wrapped in Markup: files of this package, and the markup of sections.
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, keep_trailing_newline=True)
    page = environment.from_string(_asset(_TEMPLATE)).render(
        title=title,
        subtitle=subtitle,
        sections=[(section, Markup(section.html)) for section in sections],
        styles=Markup(_asset(_STYLES)),
        scripts=[Markup(_asset(name)) for name in (*_CORE_SCRIPTS, *scripts)],
        data=encode(data),
        plotly=compress(files("plotly").joinpath("package_data", "plotly.min.js").read_bytes()),
    )
    content = page.encode()
    if len(content) > MOST_PAGE_BYTES:
        raise ConfigError(f"{title}: the page would have {len(content):,} bytes, expected at most {MOST_PAGE_BYTES:,}")
    return content


def escape(text: object) -> str:
    """The text escaped for use in markup."""
    import html

    return html.escape(str(text))


def _asset(name: str) -> str:
    return files("astra_tacos.report.html").joinpath("assets", name).read_text(encoding="utf-8")
