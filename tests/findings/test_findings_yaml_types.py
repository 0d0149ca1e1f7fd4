"""Values of YAML files that are read as another type than meant."""

from order_of_tests import in_one_test

from labbook.findings.yaml_types import find_retyped_values

RETYPED = [
    ("lr: 1e-4", "number_as_text", "1.0e-4"),
    ("optimizer: {lr: 5E5}", "number_as_text", "5.0e+5"),
    ("lr: 3.0e5", "number_as_text", "3.0e+5"),
    ("lrs: [1.0e-3, 1e-3]", "number_as_text", "1.0e-3"),
    ("betas: (0.9, 0.999)", "tuple_as_text", "[0.9, 0.999]"),
    ("milestones: 30, 60, 90", "list_as_text", "[30, 60, 90]"),
    ("clip: inf", "special_as_text", ".inf"),
    ("low: -Inf", "special_as_text", "-.inf"),
    ("seed: 0o17", "special_as_text", "15"),
    ("checkpoint: None", "none_as_text", "null"),
    ("fold: 08", "zeros_as_text", "8"),
    ("seed: 010", "octal", "8"),
    ("walltime: 24:00:00", "sexagesimal", "86400"),
    ("run: 2024_01", "underscores", "202401"),
    ("run_name: 2024-01-05", "date", "2024-01-05"),
    ("python: 3.10", "version_as_number", "3.1"),
    ("country: no", "word_as_bool", "false"),
    ("languages: [de, no, fr]", "word_as_bool", "false"),
    ("labels: [yes, no]", "word_as_bool", "true"),
    ("class_ids: {yes: 1, maybe: 2}", "key_as_bool", "true"),
    ("train:\n  lr: 0.1\n  epochs: 3\n  lr: 0.01", "repeated_key", "0.1, 0.01"),
]

AS_MEANT = {
    "hydra": "defaults:\n  - _self_\n  - model: resnet\n  - override /logger: null\nseed: 12345\ntask_name: train\n"
    "paths: {root: '${oc.env:PROJECT_ROOT}'}\nhydra: {run: {dir: 'logs/${now:%Y-%m-%d}/${now:%H-%M-%S}'}}\n",
    "hydra_optuna": "sweeper:\n  sampler: {_target_: optuna.samplers.TPESampler, seed: 1234}\n  search_space:\n"
    "    model.lr: {type: float, low: 0.0001, high: 0.2}\n    batch: {choices: [32, 64, 128]}\n",
    "hf_dpo": "torch_dtype: float16\nuse_peft: true\nlearning_rate: 5.0e-6\ndataset_mixer:\n"
    "  org/ultrafeedback: 1.0\nlora_target_modules:\n- q_proj\n- k_proj\nsave_strategy: 'steps'\nwarmup_ratio: 0.1\n",
    "accelerate": "compute_environment: LOCAL_MACHINE\ndebug: false\ndistributed_type: 'NO'\nmixed_precision: bf16\n"
    "num_processes: 8\nrdzv_backend: static\nsame_network: true\ntpu_env: []\nuse_cpu: false\n",
    "deepspeed": "zero_optimization:\n  stage: 3\n  bucket_size: 500000000.0\n  offload_param: {device: cpu}\n"
    "fp16: {enabled: auto, loss_scale: 0, initial_scale_power: 16}\n",
    "lightning_cli": "seed_everything: 42\ntrainer:\n  epochs: 9\n  precision: 16-mixed\n  gradient_clip_val: null\n"
    "  callbacks:\n  - class_path: EarlyStopping\n    init_args: {monitor: val_loss, patience: 3}\nckpt_path: null\n",
    "paddle_seg": "_base_: '../_base_/ade20k.yml'\nbatch_size: 4\niters: 160000\nmodel: {qkv_bias: True, at: [3, 5]}\n"
    "optimizer: {_inherited_: False, type: adamw, weight_decay: 4.0e-5}\nlr_scheduler: {learning_rate: 0.0002}\n",
    "paddle_ocr": "Global:\n  use_gpu: true\n  epoch_num: 500\n  eval_batch_step: [3000, 2000]\n  pretrained_model:\n"
    "  checkpoints:\nOptimizer:\n  name: Adam\n  lr: {name: Cosine, learning_rate: 0.001}\n  decay: {name: L2}\n",
    "paddle_detection": "use_gpu: true\nfind_unused_parameters: True\nLearningRate:\n  base_lr: 0.01\n  schedulers:\n"
    "  - !PiecewiseDecay\n    gamma: 0.1\n    milestones: [8, 11]\n  - !LinearWarmup {steps: 1000}\n",
    "yolo": "lr0: 0.01\nhsv_h: 0.015\ndegrees: 0.0\nnames:\n  0: person\n  1: bicycle\ntrain: images/train2017\n",
    "switches": "shuffle: yes\namp: no\ndropout: off\npin_memory: on\naugment: {flip: Yes, crop: NO}\n",
    "numbers": "steps: 1_000\nbuffer: 1_000_000\nlr: 1.0e-4\neps: .5e-3\nx: 0x1\nhash: 1234567e89\nmode: 0755\nz: 0\n",
    "dates": "start_date: 2024-01-05\ntrain_until: 2023-06-30\ncreated: 2024-01-05\nsplit: {test: '2024-02-01'}\n",
    "anchors": "base: &base {lr: 0.1, wd: 0.0}\nexp1:\n  <<: *base\n  lr: 0.2\nexp2:\n  <<: *base\n  name: two\n",
    "versions": "version: 2\npython: '3.10'\ntorch: 2.13\nscale: 3.10\ntag: v1.10\nversion_id: 1.2.30\n",
    "documents": "---\nlr: 0.1\n---\nlr: 0.2\n",
    "strings": "lr: '1e-4'\nanswer: \"no\"\nname: None of these\nfold: '08'\nsize: (224)\nclasses: ['yes', 'no']\n",
    "github": "name: CI\non:\n  push: {branches: [main]}\njobs: {test: {runs-on: ubuntu-latest}}\n",
    "broken": "lr: [0.1,\n  b: }",
}


@in_one_test(("text", "kind", "read"), RETYPED, ids=[text[:16] for text, _, _ in RETYPED])
def test_a_value_of_another_type_is_found(text, kind, read):
    (found,) = find_retyped_values(f"# a comment\nname: run\n{text}\n")
    assert (found.kind, found.read) == (f"configuration.yaml.{kind}", read)
    assert found.line == 3 + text.count("\n")


@in_one_test("name", AS_MEANT)
def test_a_usual_configuration_has_no_finding(name):
    assert find_retyped_values(AS_MEANT[name]) == []


def test_an_alias_to_itself_ends():
    assert find_retyped_values("a: &a [1, *a]\nb: &b {c: *b, lr: 1e-3}\n")[0].key == "b.lr"
