"""The decorator of every Kubeflow component of the project.

No package is installed at run time: closed clusters have no registry, and the image holds the project. `IMAGE` stands
for the trainer image; a cluster's profile replaces it by an image named by digest.
"""

import functools

from kfp import dsl

IMAGE = "harness-aware-training/trainer-python"

component = functools.partial(dsl.component, base_image=IMAGE, install_kfp_package=False)
