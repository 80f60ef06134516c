"""The release digest: names exactly what answers the viewers, so that two deployments that differ in anything differ
in it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from components.avatar.harness.schema import content_digest
from components.integrations.storage import describe, sha256_of

ADAPTER_FOLDER = "adapter"
TEMPLATE_FILE = "chat_template.jinja"


@dataclass(frozen=True)
class Release:
    """Digests of a served model: `model` of the whole folder, `adapter` of its LoRA folder ("" when there is none),
    `template` of its chat template ("" when it has none), and the arguments that the server is started with."""

    model: str
    adapter: str
    template: str
    server_arguments: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        """16 hex digits; recorded with every exposure."""
        return content_digest([self.model, self.adapter, self.template, list(self.server_arguments)])


def release_of(folder: Path, server_arguments: Sequence[str] = ()) -> Release:
    """The release that serving model folder `folder` makes; reads every byte of it. Raises InputError when it is
    missing.
    """
    adapter, template = folder / ADAPTER_FOLDER, folder / TEMPLATE_FILE
    return Release(
        model=describe(folder).digest,
        adapter=describe(adapter).digest if adapter.is_dir() else "",
        template=sha256_of(template) if template.is_file() else "",
        server_arguments=tuple(server_arguments),
    )
