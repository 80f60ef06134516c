"""Pages for a person, from Jinja templates: values are escaped, a missing one is an error."""

from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined


def render_page(template: Path, **values: Any) -> str:
    """The text of `template`, which may extend and include the templates beside it."""
    environment = Environment(
        loader=FileSystemLoader(template.parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(template.name).render(**values)
