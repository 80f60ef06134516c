"""The steps of the pipeline in the order in which they run: the names used in summary.json, MLflow, logs and files."""

STEPS = (
    "harness_gate",
    "teacher_generation",
    "harness_augmentation",
    "data_validation",
    "sft_fixed",
    "sft_hsa",
    "distillation",
    "simulator_rl",
    "evaluation",
    "registration",
    "canary_deploy",
)

# Models in the order in which they come to be (DESIGN), and the words that a reader sees.
MODELS = {
    "base": "base model",
    "fixed_sft": "fixed-harness SFT (baseline)",
    "hsa_sft": "HSA-SFT",
    "hsa_sft_opd": "HSA-SFT + distillation",
    "hat": "HAT (the new model)",
    "fixed_rl": "RL on the fixed harness",
}
