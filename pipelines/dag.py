"""The pipeline: one DAG for a laptop and a cluster.

    harness_gate -> (retrain?) teacher_generation -> harness_augmentation -> data_validation -> (valid?)
        sft fixed, sft hsa -> distillation -> simulator_rl -> evaluation -> registration -> (challenger?) canary_deploy

Caching: digests of merchant, base model and the step's code are parameters, because KFP's cache key holds an artifact's
URI, never its content. Locally the cache lies in RUN_DIR, so a step that is "cached" was done by this very run, and
steps with side effects may be cached too; a cluster's cache is shared by all runs, so there they are not.
"""

# kfp's decorator hides the parameters of a component from the type checker.
# pyright: reportCallIssue=false

from kfp import dsl, kubernetes
from kfp.dsl.graph_component import GraphComponent

from components.canary_deploy.component import canary_deploy
from components.data_validation.component import data_validation
from components.distillation.component import distillation
from components.evaluation.component import evaluation
from components.harness_augmentation.component import harness_augmentation
from components.harness_gate.component import harness_gate
from components.registration.component import registration
from components.sft.component import sft
from components.simulator_rl.component import simulator_rl
from components.teacher_generation.component import teacher_generation
from pipelines.digests import code_digest
from pipelines.gates import read_flag, report_failure
from pipelines.profile import Cluster, Profile, Resources

PIPELINE = "harness-aware-training"

SIDE_EFFECTS = frozenset({"harness_gate", "registration", "canary_deploy"})
"""Steps that read or write the registry or live traffic: their result is not a function of their inputs."""


def build_pipeline(profile: Profile) -> GraphComponent:
    """The pipeline of one profile; the profile's settings become constants of the compiled tasks."""

    @dsl.pipeline(name=PIPELINE, description=profile.purpose)
    def harness_aware_training(
        merchant: str,
        merchant_digest: str,
        base_digest: str,
        code_version: str,
        context: str,
        base_model: str = profile.base_model,
        seed: int = profile.seed,
    ) -> None:
        def settings(step: str) -> dict:
            return {
                "settings": profile.settings_json(step),
                "seed": seed,
                "code": code_digest(step),
                "context": context,
            }

        def place(task: dsl.PipelineTask, step: str) -> dsl.PipelineTask:
            shared_cache = profile.cluster is not None
            task.set_caching_options(step != "report_failure" and not (shared_cache and step in SIDE_EFFECTS))
            if profile.cluster is not None:
                _place_on_cluster(task, step, profile.cluster)
            return task

        base = {"base_model": base_model, "base_digest": base_digest}
        exit_task = place(report_failure(context=context), "report_failure")
        with dsl.ExitHandler(exit_task, name="run"):
            gate = place(
                harness_gate(merchant=merchant, merchant_digest=merchant_digest, **settings("harness_gate")),
                "harness_gate",
            ).outputs["output"]
            retrain = place(read_flag(result=gate, file="gate.json", field="retrain"), "read_flag")
            with dsl.If(retrain.output == True, name="retrain"):  # noqa: E712 - builds a condition
                trajectories = place(
                    teacher_generation(gate=gate, **settings("teacher_generation")), "teacher_generation"
                ).outputs["output"]
                examples = place(
                    harness_augmentation(
                        gate=gate, trajectories=trajectories, **base, **settings("harness_augmentation")
                    ),
                    "harness_augmentation",
                ).outputs["output"]
                validation = place(
                    data_validation(
                        gate=gate, trajectories=trajectories, examples=examples, **base, **settings("data_validation")
                    ),
                    "data_validation",
                ).outputs["output"]
                valid = place(read_flag(result=validation, file="validation.json", field="passed"), "read_flag")
                with dsl.If(valid.output == True, name="train"):  # noqa: E712
                    fixed_sft, hsa_sft = (
                        place(sft(examples=examples, arm=arm, **base, **settings("sft")), "sft").outputs["output"]
                        for arm in ("fixed", "hsa")
                    )
                    hsa_sft_opd = place(
                        distillation(model=hsa_sft, **base, **settings("distillation")), "distillation"
                    ).outputs["output"]
                    hat = place(
                        simulator_rl(model=hsa_sft_opd, gate=gate, **base, **settings("simulator_rl")), "simulator_rl"
                    ).outputs["output"]
                    evaluated = place(
                        evaluation(
                            gate=gate,
                            examples=examples,
                            fixed_sft=fixed_sft,
                            hsa_sft=hsa_sft,
                            hsa_sft_opd=hsa_sft_opd,
                            hat=hat,
                            models=list(profile.evaluated_models),
                            **base,
                            **settings("evaluation"),
                        ),
                        "evaluation",
                    ).outputs["output"]
                    registered = place(
                        registration(
                            gate=gate,
                            examples=examples,
                            hat=hat,
                            fixed_sft=fixed_sft,
                            evaluation=evaluated,
                            code_version=code_version,
                            **settings("registration"),
                        ),
                        "registration",
                    ).outputs["output"]
                    promoted = place(
                        read_flag(result=registered, file="registration.json", field="challenger"), "read_flag"
                    )
                    with dsl.If(promoted.output == True, name="roll out"):  # noqa: E712
                        place(
                            canary_deploy(registration=registered, gate=gate, **settings("canary_deploy")),
                            "canary_deploy",
                        )

    return harness_aware_training  # pyright: ignore[reportReturnType] - the decorator makes it one


def _place_on_cluster(task: dsl.PipelineTask, step: str, cluster: Cluster) -> None:
    resources = cluster.resources.get(step, Resources(cpu="1", memory="2Gi"))
    task.set_container_image(cluster.images.trainer)
    task.set_cpu_request(resources.cpu).set_cpu_limit(resources.cpu)
    task.set_memory_request(resources.memory).set_memory_limit(resources.memory)
    kubernetes.set_timeout(task, seconds=round(resources.timeout_hours * 3600))
    for secret in cluster.secrets:
        kubernetes.use_secret_as_env(task, secret_name=secret.name, secret_key_to_env=secret.env)
    for mount in cluster.secret_mounts:
        if step in mount.steps:
            kubernetes.use_secret_as_volume(task, secret_name=mount.name, mount_path=mount.path)
    if step == "report_failure":  # KFP allows no retry on an exit task
        return
    task.set_retry(
        cluster.retry.times,
        backoff_duration=cluster.retry.backoff,
        backoff_factor=cluster.retry.factor,
        backoff_max_duration=cluster.retry.backoff_max,
    )
    if resources.gpus:
        task.set_accelerator_type(cluster.accelerator).set_accelerator_limit(resources.gpus)
        kubernetes.empty_dir_mount(
            task, volume_name="dshm", mount_path="/dev/shm", medium="Memory", size_limit=cluster.shm
        )
        for key, value in cluster.gpu_node_selector.items():
            kubernetes.add_node_selector(task, label_key=key, label_value=value)
        for toleration in cluster.gpu_tolerations:
            kubernetes.add_toleration(
                task,
                key=toleration.key,
                operator=toleration.operator,
                value=toleration.value,
                effect=toleration.effect,
            )
