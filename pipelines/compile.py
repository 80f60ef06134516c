"""Write the pipeline of a profile as YAML for a cluster.

python -m pipelines.compile --profile h20 --out runs/pipeline-h20.yaml
"""

import argparse
import sys
from pathlib import Path

from components.avatar.errors import InputError
from pipelines.profile import Profile, load_profile, unmounted_keys


def compile_pipeline(profile: Profile, out: Path) -> Path:
    """Compile to `out`: the pipeline and, as a second YAML document, its Kubernetes settings (nodes, secrets,
    volumes).

    Raises InputError when a key file lies in no mounted secret.
    """
    if faults := unmounted_keys(profile):
        raise InputError(faults)
    from kfp import compiler

    from pipelines.dag import build_pipeline

    out.parent.mkdir(parents=True, exist_ok=True)
    compiler.Compiler().compile(build_pipeline(profile), str(out))
    return out


def main(argv: list[str] | None = None) -> int:
    """Exit status 0, or 2 for a bad profile."""
    parser = argparse.ArgumentParser(
        prog="python -m pipelines.compile", description="Write the cluster YAML of a profile."
    )
    parser.add_argument("--profile", default="h20", help="a name in pipelines/profiles or a YAML file")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args(argv)
    try:
        out = compile_pipeline(load_profile(options.profile), options.out)
    except InputError as error:
        print(error, file=sys.stderr)
        return 2
    print(f"wrote {out}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
