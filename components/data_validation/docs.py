"""Data Docs that also work without the internet.

Great Expectations draws the table of index.html with scripts from CDNs, so in a closed network the page is empty; and
each page fetches its logo from the vendor with the project's id in the address. Both are repaired after the site is
built.
"""

import html
import os
import re
from pathlib import Path

from components.data_validation.gate import Outcome

_REMOTE_LOGO = re.compile(r"https://great-expectations-web-assets\.[^\"')\s]+")
_LOGO = Path("static") / "images" / "logo-long.png"


def make_offline(docs: Path, outcome: Outcome) -> None:
    """Put a plain table of all suites, with links, at the top of `docs`/index.html, and the local logo into every
    page."""
    for page in docs.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        local = os.path.relpath(docs / _LOGO, page.parent)
        page.write_text(_REMOTE_LOGO.sub(lambda _, local=local: local, text), encoding="utf-8")
    index = docs / "index.html"
    text = index.read_text(encoding="utf-8")
    index.write_text(text.replace("<body>", "<body>\n" + _table(docs, outcome), 1), encoding="utf-8")


def _table(docs: Path, outcome: Outcome) -> str:
    rows = []
    for suite in outcome.suites:
        broken = [failure for failure in outcome.failures if failure.name.startswith(f"{suite}.")]
        status = (
            "failed" if any(failure.severity == "critical" for failure in broken) else "warning" if broken else "passed"
        )
        why = "<br>".join(html.escape(f"{failure.name}: {failure.why}") for failure in broken)
        pages = sorted((docs / "validations" / suite).rglob("*.html"))
        name = html.escape(suite)
        link = f'<a href="{pages[-1].relative_to(docs).as_posix()}">{name}</a>' if pages else name
        rows.append(f"<tr><td>{link}</td><td>{status}</td><td>{why}</td></tr>")
    head = "<tr><th>Table</th><th>Verdict</th><th>Why</th></tr>"
    return f'<table id="summary" border="1" cellpadding="6">{head}{"".join(rows)}</table>\n'
